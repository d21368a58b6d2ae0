package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheIncidentIsBrokenNotRepairedByARestartAndRepairedByARedeploy(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "service")
	url := k.URL()
	if got := health(t, url); got != 200 {
		t.Fatalf("a new service answers %d", got)
	}
	pids := []int{readPID(t, dir)}
	for _, tc := range []struct {
		verb Verb
		want int
	}{{Break, 502}, {Restart, 502}, {Redeploy, 200}, {Restart, 200}} {
		text := do(t, k, tc.verb)
		old, pid := pids[len(pids)-1], readPID(t, dir)
		if pid == old || !gone(old) {
			t.Errorf("%s: pid %d after %d, which is gone: %v", tc.verb, pid, old, gone(old))
		}
		if want := fmt.Sprintf("mediabox restarted, old pid %d, pid %d", old, pid); text != want {
			t.Errorf("%s tells %q, want %q", tc.verb, text, want)
		}
		if got := health(t, url); got != tc.want || k.URL() != url {
			t.Errorf("%s: %s answers %d, want %d", tc.verb, k.URL(), got, tc.want)
		}
		pids = append(pids, pid)
	}
	if got := do(t, k, Status); got != fmt.Sprintf("mediabox is running, pid %d, restarts: 4, %s", pids[4], url) {
		t.Errorf("status %q", got)
	}
}

func TestTheLogAndTheConfigurationShowTheCause(t *testing.T) {
	k := startKeeper(t, shortDir(t), "service")
	if got := looked(t, k, Config); !strings.Contains(got, "upstream = "+k.good) {
		t.Errorf("good configuration %q", got)
	}
	do(t, k, Break)
	health(t, k.URL())
	if got := looked(t, k, Config); !strings.Contains(got, "upstream = "+brokenUpstream) {
		t.Errorf("broken configuration %q", got)
	}
	if got := looked(t, k, Log); !strings.Contains(got, "connection refused") || strings.Count(got, "\n") > logLines {
		t.Errorf("log %q", got)
	}
}

func TestClosingTheKeeperLeavesNothingBehind(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "service")
	pid, addr := readPID(t, dir), strings.TrimPrefix(k.URL(), "http://")
	must(t, k.Close())
	if !gone(pid) {
		t.Errorf("service %d is still there", pid)
	}
	for _, file := range []string{pidFile, socketFile} {
		if _, err := os.Stat(filepath.Join(dir, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", file, err)
		}
	}
	for _, a := range []string{addr, k.good} {
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", a); err == nil {
			_ = conn.Close()
			t.Errorf("%s still listens", a)
		}
	}
	if _, err := k.Do(t.Context(), Status); !errors.Is(err, errClosed) {
		t.Errorf("a closed keeper answers %v", err)
	}
}

func TestTheServiceEndsWithTheContextOfTheKeeper(t *testing.T) {
	dir := shortDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	k, err := StartKeeper(ctx, KeeperConfig{Dir: dir, Command: serviceCommand("service"), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	pid := readPID(t, dir)
	cancel()
	eventually(t, "the service's end", func() bool { return gone(pid) })
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStubbornServiceIsKilled(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "stubborn-service")
	pid := readPID(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The request's own end shortens the grace.
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := k.Do(ctx, Restart); err == nil {
		t.Error("a restart whose sender went away must not be told as done")
	}
	eventually(t, "the old process' end", func() bool { return gone(pid) })
}

func TestTheServiceEndsWhenTheDemoIsKilled(t *testing.T) {
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo", "keeper", "--dir", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("keeper says %q, %v", line, err)
	}
	pid := readPID(t, dir)
	if gone(pid) {
		t.Fatal("the service is not running")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	eventually(t, "the service's end", func() bool { return gone(pid) })

	// The next demo in the same folder is not disturbed by what the killed one left.
	k := startKeeper(t, dir, "service")
	if got := health(t, k.URL()); got != 200 {
		t.Errorf("answers %d", got)
	}
}

func TestAServiceThatCannotStartIsTold(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "service")
	must(t, os.WriteFile(filepath.Join(dir, confFile), []byte("colour = red\n"), 0o600))
	if _, err := k.Do(t.Context(), Restart); err == nil || !strings.Contains(err.Error(), "it ended immediately (exit status 1)") {
		t.Fatalf("got %v", err)
	}
	if got := do(t, k, Status); got != "mediabox is stopped: exit status 1" {
		t.Errorf("status %q", got)
	}
	if got := looked(t, k, Log); !strings.Contains(got, "want upstream = HOST:PORT") {
		t.Errorf("log %q", got)
	}
	do(t, k, Redeploy)
	if got := health(t, k.URL()); got != 200 {
		t.Errorf("answers %d after the redeploy", got)
	}
}

func TestAKeeperThatCannotStartSaysWhy(t *testing.T) {
	busy := shortDir(t)
	startKeeper(t, busy, "service")
	file := filepath.Join(shortDir(t), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for name, tc := range map[string]struct {
		cfg  KeeperConfig
		want string
	}{
		"folder in use":   {KeeperConfig{Dir: busy, Command: serviceCommand("service")}, "another demo is running there"},
		"long path":       {KeeperConfig{Dir: filepath.Join(shortDir(t), strings.Repeat("x", 100)), Command: serviceCommand("service")}, "choose a shorter one"},
		"no folder":       {KeeperConfig{Dir: file, Command: serviceCommand("service")}, "create demo folder"},
		"no command":      {KeeperConfig{Dir: shortDir(t)}, "no command"},
		"missing program": {KeeperConfig{Dir: shortDir(t), Command: []string{"/no/such/program"}}, "start service"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Log = slog.New(slog.DiscardHandler)
			k, err := StartKeeper(t.Context(), tc.cfg)
			if err == nil {
				_ = k.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// looked is what the tool of the agents shows.
func looked(t *testing.T, k *Keeper, verb Verb) string {
	t.Helper()
	var out, errs strings.Builder
	if code := Ctl(t.Context(), k.dir, string(verb), nil, &out, &errs); code != 0 {
		t.Errorf("%s: exit %d: %s", verb, code, errs.String())
	}
	return out.String()
}
