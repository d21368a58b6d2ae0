package cli

import (
	"context"
	_ "embed" // for the configuration of the demo
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/cli/demo"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// demoConfig is an ordinary configuration. Address and folder of the demo's service and the commands of its actions are filled in.
//
//go:embed demo.yaml
var demoConfig string

func (a demonstration) command() *cobra.Command {
	var once, keep bool
	var addr string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a three-tier incident on a small real service; needs no API key and no network",
		Long: `Starts a small real HTTP service and breaks its configuration as soon as you look at the pages, or after a minute. The
built-in scripted agent finds the problem and asks the supervisor for an action that makes it worse. The supervisor undoes that action.
Tier 3 repairs the service with another one.
Everything happens in a temporary folder. Costs and turns of the agent are made up; processes, commands, actions, probes and decisions
are real.`,
		Example: `  claudeops demo           with web pages on http://127.0.0.1:8080, until Ctrl-C
  claudeops demo --once    without web pages; prints sessions and actions, exits 0`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.run(c.Context(), addr, once, keep)
		},
	}
	c.Flags().BoolVar(&once, "once", false, "no web pages: run the incident, print sessions and actions, exit")
	c.Flags().BoolVar(&keep, "keep", false, "keep the temporary state folder")
	c.Flags().StringVar(&addr, "listen", "127.0.0.1:8080", "address of the web pages; if the port is taken, the next free one is used")
	return c
}

func (a demonstration) run(ctx context.Context, addr string, once, keep bool) (err error) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		return fmt.Errorf("start demo: its agent runs commands, and there is no shell here; use the full container image: %w", ops.ErrNotFound)
	}
	dir, err := os.MkdirTemp("", "claudeops-demo-")
	if err != nil {
		return fmt.Errorf("create demo folder: %w", err)
	}
	if keep {
		fmt.Fprintf(a.Stderr, "state folder: %s\n", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	o, service, err := a.world(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	defer context.AfterFunc(ctx, func() {
		signal.Ignore(os.Interrupt) // an impatient second one would leave the folder
		fmt.Fprintln(a.Stderr, "\nending the demo")
	})()
	if text, hole := situation.Walls(wallsHere(o.Config)); hole {
		fmt.Fprintln(a.Stderr, text)
	}
	if once {
		if err := a.breakService(service); err != nil {
			return err
		}
		var last int64
		watch := func(s *store.Store) {
			if next, err := a.printNews(ctx, s, last); err == nil { // the chain below tells it again
				last = next
			}
		}
		if err := runs(a).once(ctx, o, ops.NewCycle{Environment: "default", Trigger: ops.TriggerManual}, 0, watch); err != nil {
			return err
		}
		return a.printActions(ctx, a.Stdout, o.Config)
	}
	if o.Config.Listen, err = freeAddress(ctx, addr, a.Stderr); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer stop(nil)
	return daemon.Serve(ctx, o, func(addr string, signIn daemon.SignIn) {
		link, err := signIn(ctx, person())
		if err != nil {
			link = "http://" + addr
		}
		fmt.Fprintf(a.Stderr, "\n  Open %s to watch.\n  The link works once, within ten minutes. Ctrl-C ends the demo.\n\n", link)
		telling.Go(func() {
			if err := a.tell(ctx, o.Config, service, "http://"+addr); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	})
}

// demoPatience is how long the demo waits for somebody to look, and demoPace how often it looks for news.
const (
	demoPatience = time.Minute
	demoPace     = 200 * time.Millisecond
)

// tellDemo breaks the service when somebody looks, prints a line for every event, and says what to do next.
func (a demonstration) tell(ctx context.Context, cfg *config.Config, service *demo.Mediabox, address string) (err error) {
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if err != nil {
		return fmt.Errorf("follow demo: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for end := time.Now().Add(demoPatience); time.Now().Before(end); {
		if seen, err := s.People.SignedIn(ctx); err != nil || seen {
			break
		}
		if !ops.Pause(ctx, demoPace) {
			return nil
		}
	}
	if err := a.breakService(service); err != nil {
		return err
	}
	var last int64
	for {
		cycles, err := s.Reports.Cycles(ctx, store.CycleFilter{Limit: 1})
		if err != nil {
			return fmt.Errorf("follow demo: %w", err)
		}
		if last, err = a.printNews(ctx, s, last); err != nil {
			return err
		}
		if len(cycles) > 0 && cycles[0].Status.Ended() && len(cycles[0].Sessions) > 0 {
			printChain(a.Stderr, api.CycleRow(cycles[0]))
			err := a.printActions(ctx, a.Stderr, cfg)
			fmt.Fprintf(a.Stderr, "\n  The story: %s/cycles/%d\n  Now your own: claudeops init\n\n", address, cycles[0].ID)
			return err
		}
		if !ops.Pause(ctx, demoPace) {
			return nil
		}
	}
}

// printDemoNews prints the events after the last one.
func (a demonstration) printNews(ctx context.Context, s *store.Store, last int64) (int64, error) {
	events, err := s.Journal.Events(ctx, store.EventFilter{After: last, Limit: 200})
	if err != nil {
		return last, fmt.Errorf("follow demo: %w", err)
	}
	for _, e := range events {
		last = e.ID
		fmt.Fprintf(a.Stderr, "%s  %s\n", e.At.Local().Format("15:04:05"), spoken(e.Message.Words()))
	}
	return last, nil
}

func (a demonstration) breakService(service *demo.Mediabox) error {
	if err := service.Break(); err != nil {
		return fmt.Errorf("break demo service: %w", err)
	}
	fmt.Fprintf(a.Stderr, "mediabox runs on %s. Now its configuration is broken.\n", service.URL())
	return nil
}

// demoWorld starts a small service and makes the configuration that watches it.
func (a demonstration) world(ctx context.Context, dir string) (o daemon.Options, _ *demo.Mediabox, err error) {
	folder := filepath.Join(dir, "mediabox")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return o, nil, fmt.Errorf("create service folder: %w", err)
	}
	service, err := demo.Start(ctx, folder)
	if err != nil {
		return o, nil, fmt.Errorf("start demo service: %w", err)
	}
	in := func(command string) string { return "cd '" + folder + "' && " + command }
	text := fmt.Sprintf(demoConfig, service.URL(), folder, in("mv "+demo.Cache+" "+demo.OldCache), in("mv "+demo.OldCache+" "+demo.Cache),
		in("cp "+demo.Conf+" "+demo.LastConf+" && cp "+demo.GoodConf+" "+demo.Conf+".new && mv "+demo.Conf+".new "+demo.Conf),
		in("mv "+demo.LastConf+" "+demo.Conf))
	o, err = a.optionsIn(dir, text, "CLAUDEOPS_DEMO_DIR="+folder)
	if err != nil {
		return o, nil, errors.Join(err, service.Close())
	}
	if o.Self, err = os.Executable(); err != nil {
		return o, nil, errors.Join(fmt.Errorf("find own program: %w", err), service.Close())
	}
	return o, service, nil
}

// printDemoActions lists what was done to the services: who asked, how it ended, and which services it changed.
func (a demonstration) printActions(ctx context.Context, w io.Writer, cfg *config.Config) (err error) {
	if a.output == "json" || a.output == "jsonl" {
		return nil // the output is the cycle
	}
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if err != nil {
		return fmt.Errorf("read actions: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	runs, err := s.Acts.ActionRuns(ctx, store.ActionFilter{Limit: 20})
	if err != nil {
		return fmt.Errorf("read actions: %w", err)
	}
	slices.Reverse(runs) // the oldest first
	fmt.Fprintln(w, "Actions:")
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range runs {
		what, by := r.Action+" of "+r.Service, r.By()
		if r.UndoOf != 0 {
			what = fmt.Sprintf("undo of #%d", r.UndoOf)
		}
		if !r.Automatic && r.SessionID != nil {
			by = fmt.Sprintf("session #%d", *r.SessionID)
		}
		fmt.Fprintln(t, tabbed(fmt.Sprintf("  #%d", r.ID), what, "by "+clean(by), string(r.Status),
			healthChanges(r.Before, r.After), "why: "+clean(r.Why)))
	}
	return t.Flush()
}

// healthChanges names the services whose state an action changed.
func healthChanges(before, after []ops.ServiceHealth) string {
	var out []string
	for _, b := range before {
		for _, x := range after {
			if x.Service == b.Service && x.Status != b.Status {
				out = append(out, fmt.Sprintf("%s: %s → %s", b.Service, b.Status, x.Status))
			}
		}
	}
	if len(out) == 0 {
		return "no change"
	}
	return strings.Join(out, ", ")
}

func (a demonstration) optionsIn(dir, text, variable string) (daemon.Options, error) {
	file := filepath.Join(dir, "claudeops.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return daemon.Options{}, fmt.Errorf("write demo configuration: %w", err)
	}
	// The operator's own settings are ignored, except the speed of the demo.
	environ := slices.DeleteFunc(slices.Clone(a.Environ), func(pair string) bool {
		kept := strings.HasPrefix(pair, "CLAUDEOPS_DEMO_PACE=") || strings.HasPrefix(pair, "CLAUDEOPS_FAILPOINT")
		return strings.HasPrefix(pair, "CLAUDEOPS_") && !kept
	})
	environ = append(environ, variable)
	cfg, err := config.Load(config.Input{
		ConfigPath: file, Environ: environ, Dir: dir, Flags: map[string]string{"state_dir": filepath.Join(dir, "state")},
	})
	if err != nil {
		return daemon.Options{}, fmt.Errorf("load demo configuration: %w", err)
	}
	logger := a.quietLogger() // the demo prints its own progress
	examine := func(ctx context.Context) []api.Finding { return doctor(a).examine(ctx, cfg) }
	return daemon.Options{Config: cfg, Logger: logger, Clock: time.Now, Version: a.Version, Examine: examine}, nil
}

// freeAddress returns the address, or the same host with the next free port.
func freeAddress(ctx context.Context, addr string, say io.Writer) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", usage(fmt.Errorf("--listen is %q: use host:port", addr))
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", usage(fmt.Errorf("--listen is %q: the demo listens on loopback only", addr))
	}
	first, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return "", usage(fmt.Errorf("--listen is %q: %w", addr, err))
	}
	for p := first; p < first+100 && p < 65536; p++ {
		try := net.JoinHostPort(host, fmt.Sprint(p))
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", try)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			return "", fmt.Errorf("close %s: %w", try, err)
		}
		if p != first {
			fmt.Fprintf(say, "port %d is taken; the web pages are on port %d\n", first, p)
		}
		return try, nil
	}
	return "", ops.NewConflict(ops.ConflictTaken, "no free port after %d", first)
}

// variable returns an environment variable, or "".
func (a *app) variable(name string) (value string) {
	for _, pair := range a.Environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}
