package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Verb is an action of the keeper.
type Verb string

// The verbs of the keeper.
const (
	Status       Verb = "status"        // whether the service is running
	Restart      Verb = "restart"       // a new process with the same configuration
	Break        Verb = "break"         // a wrong configuration, and a restart
	Redeploy     Verb = "redeploy"      // the good configuration, and a restart
	Previous     Verb = "previous"      // the configuration before the last redeployment, and a restart
	RebuildCache Verb = "rebuild-cache" // an empty cache, filled from the library
	RestoreCache Verb = "restore-cache" // the cache before the last rebuild
	Log          Verb = "log"           // the end of the service's log; the keeper is not asked for it
	Config       Verb = "config"        // the service's configuration; neither for that
)

// Verbs lists the verbs of Control.
func Verbs() []Verb {
	return []Verb{Status, Restart, Break, Redeploy, Previous, RebuildCache, RestoreCache, Log, Config}
}

// cacheText is the page of the player, as the library gives it.
const cacheText = "player: 3 films ready to watch"

// logLines is how much of the log is shown.
const logLines = 12

// worker owns the service process.
type worker struct {
	keeper   *Keeper
	process  *process
	restarts int
}

// handle handles a request until it is done, its sender is gone or the keeper stops.
func (s *worker) handle(life context.Context, r request) reply {
	ctx, cancel := context.WithCancelCause(life)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-r.gone:
			cancel(errSenderGone)
		case <-ctx.Done():
		}
	})
	text, err := s.do(ctx, r.verb)
	return reply{text, err}
}

func (s *worker) do(ctx context.Context, verb Verb) (string, error) {
	dir := s.keeper.dir
	switch verb {
	case Status:
		return s.status(), nil
	case Restart:
		return s.restart(ctx)
	case Break:
		return s.deploy(ctx, confText("rolled out by config-sync", brokenUpstream))
	case Redeploy:
		good, err := os.ReadFile(filepath.Join(dir, goodConfFile))
		if err != nil {
			return "", fmt.Errorf("read good configuration: %w", err)
		}
		return s.deploy(ctx, string(good))
	case Previous:
		last, err := os.ReadFile(filepath.Join(dir, lastConfFile))
		if err != nil {
			return "", fmt.Errorf("read previous configuration: %w", err)
		}
		return s.deploy(ctx, string(last))
	case RebuildCache:
		return s.rebuildCache(ctx)
	case RestoreCache:
		if err := os.Rename(filepath.Join(dir, oldCacheFile), filepath.Join(dir, cacheFile)); err != nil {
			return "", fmt.Errorf("restore cache: %w", err)
		}
		return "the cache is back", nil
	default:
		return "", fmt.Errorf("unknown verb %q: want one of %s", verb, verbList())
	}
}

// deploy keeps the configuration that it replaces, and restarts the service.
func (s *worker) deploy(ctx context.Context, text string) (string, error) {
	path := filepath.Join(s.keeper.dir, confFile)
	old, err := os.ReadFile(path)
	if err == nil {
		err = replaceFile(filepath.Join(s.keeper.dir, lastConfFile), string(old))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("keep configuration: %w", err)
	}
	if err := replaceFile(path, text); err != nil {
		return "", err
	}
	return s.restart(ctx)
}

// rebuildCache empties the cache before it asks the library. While the library does not answer, the cache stays empty.
func (s *worker) rebuildCache(ctx context.Context) (string, error) {
	dir := s.keeper.dir
	c, err := readConf(dir)
	if err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(dir, cacheFile), filepath.Join(dir, oldCacheFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("empty cache: %w", err)
	}
	client, done := upstreamClient()
	defer done()
	if err := askLibrary(ctx, client, c.upstream); err != nil {
		return "", fmt.Errorf("fill cache: the library does not answer: %w", err)
	}
	if err := replaceFile(filepath.Join(dir, cacheFile), cacheText); err != nil {
		return "", err
	}
	return "the cache is filled from the library", nil
}

func verbList() string {
	names := make([]string, 0, len(Verbs()))
	for _, v := range Verbs() {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

func (s *worker) status() string {
	if s.process == nil || !s.process.running() {
		why := ""
		if s.process != nil && s.process.err != nil {
			why = ": " + s.process.err.Error()
		}
		return "mediabox is stopped" + why
	}
	return fmt.Sprintf("mediabox is running, pid %d, restarts: %d, %s", s.process.pid(), s.restarts, s.keeper.URL())
}

// restart replaces the process by a new one and returns when that one answers.
func (s *worker) restart(ctx context.Context) (string, error) {
	k := s.keeper
	text := "mediabox started"
	if s.process != nil {
		text = fmt.Sprintf("mediabox restarted, old pid %d", s.process.pid())
		s.restarts++
	}
	s.stop(ctx)
	argv := append(slices.Clone(k.command), "--dir", k.dir, "--listen", keeperListener)
	p, err := startProcess(argv, k.dir, k.handed)
	if err != nil {
		return "", err
	}
	s.process = p
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	k.log.DebugContext(ctx, "demo service started", "pid", p.pid())
	return fmt.Sprintf("%s, pid %d", text, p.pid()), nil
}

// stop ends the process, if there is one.
func (s *worker) stop(ctx context.Context) {
	if s.process == nil {
		return
	}
	s.process.stop(ctx)
	s.process = nil
	// A killed service could not remove it.
	_ = os.Remove(filepath.Join(s.keeper.dir, pidFile))
}

// ready waits until the service answers. The request waits in the listener's queue until the new process takes it, so
// there is nothing to poll.
func (s *worker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-s.process.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	client, done := upstreamClient()
	defer done()
	client.Timeout = 0
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.keeper.URL()+"/", nil)
	if err != nil {
		return fmt.Errorf("ask service: %w", err)
	}
	resp, err := client.Do(req)
	if err == nil {
		return resp.Body.Close()
	}
	if !s.process.running() {
		return fmt.Errorf("start service: it ended immediately (%w); see %s", endOf(s.process), filepath.Join(s.keeper.dir, logFile))
	}
	return fmt.Errorf("start service: it does not answer: %w", err)
}

func endOf(p *process) error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}

func lastLines(path string, n int) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read service log: %w", err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], ""), nil
}
