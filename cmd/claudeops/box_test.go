package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent/claude"
	_ "claudeops/internal/cli" // what these tests build and run, so that no result of another version is taken from the cache
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/storetest"
)

var (
	// program is the real binary, built once with failpoints, and with the race detector if the tests have it.
	program string
	// prepared is a database no cycle has run in. Making one takes longer than most cycles of these tests.
	prepared string
	// seats bound how many real CLIs work at once; unlike the other tests these hardly ever wait.
	seats = make(chan struct{}, runtime.GOMAXPROCS(0))
)

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "claudeops-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // an agent with a user of its own runs the program too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program, prepared = filepath.Join(dir, "claudeops"), filepath.Join(dir, "prepared.db")
	if err := prepare(prepared); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	if n := 2 * runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		// These tests wait for other processes half of the time.
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	args := []string{"build", "-tags", "failpoint", "-ldflags", "-s -w -X main.systemConfig=", "-o", program}
	if raced() {
		args = append(args, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false",
			"-gcflags=modernc.org/memory=-race=false")
	}
	build := exec.Command("go", append(args, ".")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build claudeops: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// raced reports whether these tests were built with the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func prepare(path string) error {
	s, err := store.Open(context.Background(), storetest.With(store.Options{Path: path, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		return err
	}
	return s.Close()
}

// quickExit keeps a program that was built with the race detector from sleeping a second before it exits.
const quickExit = "GORACE=atexit_sleep_ms=0"

// box is a place where the program runs: its own state folder, environment and agent.
type box struct {
	t     testing.TB
	state string
	bin   string // the fake agent
	url   string // of the database it shares with others; empty: SQLite in its state folder
	env   []string
	real  bool     // the agent is a real CLI
	wrap  []string // what starts the daemon, if it is not started directly
}

// newBox is a box with a database in which nothing has run yet; emptyBox is one where nothing was ever started.
func newBox(t testing.TB, s agenttest.Scenario, env ...string) *box {
	t.Helper()
	b := emptyBox(t, s, env...)
	b.furnish()
	b.tried(b.bin)
	return b
}

// furnish gives a box its database.
func (b *box) furnish() {
	b.t.Helper()
	raw, err := os.ReadFile(prepared)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.state, "claudeops.db"), raw, 0o600)
	}
	must(b.t, err)
}

// tried notes that a Claude Code is held by its gate, as on a host where it has worked before: its trial would start it once more. Where
// another program works, that one is tried.
func (b *box) tried(bin string) {
	b.t.Helper()
	able := claude.New(claude.Options{Bin: bin}).Able(b.t.Context(), b.env)
	host, err := os.Hostname()
	must(b.t, err)
	s, err := store.Open(b.t.Context(), storetest.With(store.Options{Path: filepath.Join(b.state, "claudeops.db"), Logger: slog.New(slog.DiscardHandler)}))
	must(b.t, err)
	must(b.t, s.Acts.SetTrial(b.t.Context(), host, ops.Trial{
		Agent: "claude", Identity: able.Identity, Program: able.Program, Version: able.Version,
		Held: true, Command: ops.TrialRefused, File: ops.TrialRefused, At: time.Now(),
	}))
	must(b.t, s.Close())
}

// privateFolder is a new folder that only this user can open, as a state folder must be.
func privateFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	return dir
}

// token is what requests to a daemon of this box need: the token in its environment, or the one that the daemon made.
func (b *box) token() string {
	b.t.Helper()
	for _, pair := range slices.Backward(b.env) {
		if token, ok := strings.CutPrefix(pair, "CLAUDEOPS_API_TOKEN="); ok {
			return token
		}
	}
	raw, err := os.ReadFile(filepath.Join(b.state, "api-token"))
	if err != nil {
		return "" // it has not been made yet
	}
	return strings.TrimSpace(string(raw))
}

func emptyBox(t testing.TB, s agenttest.Scenario, env ...string) *box {
	t.Helper()
	b := &box{t: t, state: privateFolder(t), bin: agenttest.Fake(t, s)}
	b.env = append([]string{
		quickExit, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(),
		"CLAUDEOPS_STATE_DIR=" + b.state, "CLAUDEOPS_CLAUDE_BIN=" + b.bin, "CLAUDEOPS_ESCALATION_MODE=handoff",
		// The fake notes its calls beside its program, and marks in the folders of the test what it repaired.
		"CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + filepath.Dir(filepath.Dir(b.bin)),
		// The bare behaviour of the spec; tests of the ladder switch it on.
		"CLAUDEOPS_LISTEN=127.0.0.1:0", "CLAUDEOPS_RECOVERY=off",
	}, env...)
	return b
}

// ran is how a run of the program ended.
type ran struct {
	code           int
	stdout, stderr string
}

func (b *box) run(args ...string) ran { return b.runWith(nil, args...) }

func (b *box) runWith(env []string, args ...string) ran {
	b.t.Helper()
	if b.real {
		seats <- struct{}{}
		defer func() { <-seats }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of no use but to a program that hangs
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = b.t.TempDir()
	c.Env = append(append([]string{}, b.env...), env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("run claudeops %v: %v", args, err)
	}
	return ran{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

// once runs a cycle and checks how it ended.
func (b *box) once(code int) ran {
	b.t.Helper()
	r := b.run("once")
	if r.code != code {
		b.t.Fatalf("once exited %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

func (b *box) read(use func(*store.Store)) {
	b.t.Helper()
	o := storetest.With(store.Options{Path: filepath.Join(b.state, "claudeops.db"), Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if b.url != "" {
		o.Path, o.URL = "", b.url
	}
	s, err := store.OpenReadOnly(context.Background(), o)
	must(b.t, err)
	defer func() {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	use(s)
}

// replay decides again what was decided, from what is stored of each step. No daemon runs.
func (b *box) replay() {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), storetest.With(store.Options{Path: filepath.Join(b.state, "claudeops.db")}))
	must(b.t, err)
	steps := storetest.ReplaySteps(b.t, s)
	if err := s.Close(); err != nil || len(steps) < 2 {
		b.t.Errorf("%d steps are stored, %v", len(steps), err)
	}
}

// cycle returns the newest cycle with its journal.
func (b *box) cycle() ops.Claimed {
	b.t.Helper()
	c, ok := b.newest()
	if !ok {
		b.t.Fatal("no cycle was started")
	}
	return c
}

func (b *box) newest() (out ops.Claimed, ok bool) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		cycles, err := s.Reports.Cycles(context.Background(), store.CycleFilter{Limit: 1})
		must(b.t, err)
		if ok = len(cycles) > 0; !ok {
			return
		}
		if out, err = s.Journal.Load(context.Background(), cycles[0].ID); err != nil {
			b.t.Fatal(err)
		}
	})
	return out, ok
}

// load returns one cycle with its journal.
func (b *box) load(id ops.CycleID) (out ops.Claimed) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Journal.Load(context.Background(), id); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

// ended reports whether the cycle with that id is the newest and has ended.
func (b *box) ended(id ops.CycleID) bool {
	b.t.Helper()
	c, ok := b.newest()
	return ok && c.Cycle.ID == id && c.Cycle.Status.Ended()
}

func (b *box) events(level ops.Level) (out []ops.Event) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Journal.Events(context.Background(), store.EventFilter{Level: level, Limit: 200}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func (b *box) notices() (out []ops.Notice) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.People.NoticeList(context.Background(), store.NoticeFilter{Limit: 100}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func (b *box) calls() []agenttest.Call { return agenttest.Calls(b.t, b.bin) }

func (b *box) noHandoff() {
	b.t.Helper()
	if _, err := os.Lstat(filepath.Join(b.state, "handoff.json")); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("handoff.json is still there: %v", err)
	}
}

// nothingLeft fails when a process of any session of this box lives on.
func (b *box) nothingLeft() {
	b.t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	must(b.t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(e)
		if err == nil && bytes.Contains(raw, []byte("CLAUDEOPS_SESSION_KEY=")) && bytes.Contains(raw, []byte("CLAUDEOPS_STATE_DIR="+b.state+"\x00")) {
			b.t.Errorf("a process of a session is left: %s", filepath.Dir(e))
		}
	}
}

// daemon is a running serve.
type daemon struct {
	*box
	cmd  *exec.Cmd
	addr string
	log  *loopback.Output
	done chan error
}

func (b *box) serve(env ...string) *daemon {
	b.t.Helper()
	d := &daemon{box: b, addr: loopback.FreeAddress(b.t), log: &loopback.Output{}, done: make(chan error, 1)}
	argv := append(append([]string{}, b.wrap...), program, "serve")
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Dir = b.t.TempDir()
	d.cmd.Env = append(append(append([]string{}, b.env...), "CLAUDEOPS_LISTEN="+d.addr), env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	must(b.t, d.cmd.Start())
	go func() { d.done <- d.cmd.Wait() }()
	b.t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		select {
		case <-d.done:
		case <-time.After(patience):
		}
	})
	return d
}

func (b *box) ready(env ...string) *daemon {
	b.t.Helper()
	d := b.serve(env...)
	d.until("the daemon is ready", func() bool {
		status, _ := d.get("/readyz")
		return status == http.StatusOK
	})
	return d
}

// until waits for something another process does.
func (d *daemon) until(what string, cond func() bool) {
	d.t.Helper()
	deadline := time.Now().Add(3 * time.Minute) // on a busy machine a start alone takes many seconds
	for wait := 50 * time.Millisecond; !cond(); wait = min(2*wait, 400*time.Millisecond) {
		select {
		case err := <-d.done:
			d.done <- err
			d.t.Fatalf("the daemon ended (%v) before: %s\n%s", err, what, d.log)
		default:
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("did not come true: %s\n%s", what, d.log)
		}
		pause(wait) // most conditions open the database or run the program, which takes time of the processor
	}
}

func pause(d time.Duration) { <-time.After(d) }

func (d *daemon) get(path string) (int, string) {
	return d.getAs(d.token(), path)
}

// getAs asks with another token, or with none.
func (d *daemon) getAs(token, path string) (int, string) {
	r, err := d.send(http.MethodGet, path, token, nil)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = r.Body.Close() }()
	var b bytes.Buffer
	_, _ = b.ReadFrom(r.Body)
	return r.StatusCode, b.String()
}

func (d *daemon) post(path string, body any) (int, map[string]any) {
	d.t.Helper()
	raw, err := json.Marshal(body)
	must(d.t, err)
	r, err := d.send(http.MethodPost, path, d.token(), bytes.NewReader(raw))
	must(d.t, err)
	defer func() { _ = r.Body.Close() }()
	var out map[string]any
	_ = json.NewDecoder(r.Body).Decode(&out)
	return r.StatusCode, out
}

// send makes a request with a token and follows no redirect.
func (d *daemon) send(method, path, token string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequest(method, "http://"+d.addr+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(r)
}

// stop asks the daemon to end and returns its exit code.
func (d *daemon) stop() int {
	d.t.Helper()
	must(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-d.done:
		d.done <- err
	case <-time.After(patience):
		d.t.Fatalf("the daemon does not end\n%s", d.log)
	}
	return d.cmd.ProcessState.ExitCode()
}

func contains(t testing.TB, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not hold %q:\n%s", what, w, text)
		}
	}
}
