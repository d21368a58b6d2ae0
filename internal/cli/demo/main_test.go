package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent/scripted"
)

// actName is the command by which agents ask the supervisor.
const actName = "claudeops-act"

// actLikeTheSupervisor runs the action that an agent asks for, and undoes it when it fails.
func actLikeTheSupervisor(words []string) int {
	dir := os.Getenv("CLAUDEOPS_DEMO_DIR") //nolint:forbidigo // the test binary is the program here
	switch strings.Join(words[:3], " ") {
	case "run mediabox rebuild-cache":
		if Ctl(context.Background(), dir, string(RebuildCache), nil, os.Stdout, os.Stdout) == 0 {
			return 0
		}
		return Ctl(context.Background(), dir, string(RestoreCache), nil, os.Stdout, os.Stderr)
	case "run mediabox restore-config":
		return Ctl(context.Background(), dir, string(Redeploy), nil, os.Stdout, os.Stderr)
	}
	return 2
}

// The test binary is the program of the demo too: as `demo service`, `demo ctl`, and two more for the tests.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == CtlName {
		os.Exit(Ctl(context.Background(), os.Getenv("CLAUDEOPS_DEMO_DIR"), os.Args[1], os.Args[2:], os.Stdout, os.Stderr)) //nolint:forbidigo // as the program does
	}
	if filepath.Base(os.Args[0]) == actName {
		os.Exit(actLikeTheSupervisor(os.Args[1:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "demo" {
		os.Exit(program(os.Args[2], os.Args[3:]))
	}
	// A program built with the race detector sleeps a second before it exits, unless told otherwise.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func program(name string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, args := cutFlag(args, "--dir")
	listen, args := cutFlag(args, "--listen")
	switch name {
	case "service":
		ln, err := Listen(ctx, listen)
		if err == nil {
			err = Service(ctx, dir, ln)
		}
		if err != nil {
			return fail(os.Stderr, 1, err)
		}
		return 0
	case "ctl":
		return Ctl(ctx, dir, args[0], args[1:], os.Stdout, os.Stderr)
	case "keeper":
		return keepUntilKilled(ctx, dir)
	case "stubborn-service":
		// It does not end when asked to.
		signal.Ignore(syscall.SIGTERM)
		ln, err := Listen(ctx, listen)
		if err == nil {
			err = Service(context.Background(), dir, ln)
		}
		return fail(os.Stderr, 1, err)
	case "agent":
		return scripted.Main(ctx, args, os.Environ(), os.Stdin, os.Stdout, os.Stderr) //nolint:forbidigo // the test binary is the program here
	}
	return 2
}

func cutFlag(args []string, name string) (value string, rest []string) {
	i := slices.Index(args, name)
	if i < 0 || i+1 >= len(args) {
		return "", args
	}
	return args[i+1], slices.Delete(slices.Clone(args), i, i+2)
}

// keepUntilKilled is a demo that never gets to clean up.
func keepUntilKilled(ctx context.Context, dir string) int {
	_, err := StartKeeper(ctx, KeeperConfig{Dir: dir, Command: serviceCommand("service"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fail(os.Stderr, 1, err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	<-ctx.Done()
	return 0
}

func serviceCommand(name string) []string { return []string{os.Args[0], "demo", name} }

// shortDir is a folder whose path fits into a socket address, which t.TempDir does not promise.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo") //nolint:usetesting // see above
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func startKeeper(t *testing.T, dir, service string) *Keeper {
	t.Helper()
	k, err := StartKeeper(t.Context(), KeeperConfig{
		Dir: dir, Command: serviceCommand(service), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func do(t *testing.T, k *Keeper, verb Verb) string {
	t.Helper()
	text, err := k.Do(t.Context(), verb)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return text
}

func health(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/health", nil)
	must(t, err)
	client, done := upstreamClient()
	defer done()
	resp, err := client.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

func readPID(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, pidFile))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	must(t, err)
	return pid
}

// gone reports whether a process has ended, even if a parent that is not ours has not reaped it yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}
