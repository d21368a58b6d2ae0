package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
)

// TestMain makes this program the caller of another test.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CONTROL_TEST_CALL"); dir != "" { //nolint:forbidigo // the test starts itself with it
		reply, err := control.SignIn(context.Background(), dir)
		fmt.Fprintln(os.Stdout, reply.Link, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve starts a server whose API names the user, and returns the refused callers once it has ended.
func serve(t *testing.T, dir string, o control.Options) (end func() []control.Caller) {
	t.Helper()
	var refused []control.Caller
	var mu sync.Mutex
	o.Refused = func(c control.Caller) { mu.Lock(); defer mu.Unlock(); refused = append(refused, c) }
	o.SignIn = func(_ context.Context, user string) (string, error) { return "link-for-" + user, nil }
	s, err := control.Listen(dir, o)
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		err := s.Serve(func(user string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "api of "+user) })
		})
		if err != nil {
			t.Error(err)
		}
	})
	return func() []control.Caller {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
		return refused
	}
}

func TestWake(t *testing.T) {
	// Longer than a socket's path may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	must(t, os.Mkdir(dir, 0o700))
	if _, err := control.Wake(t.Context(), dir); !errors.Is(err, control.ErrNoDaemon) {
		t.Fatalf("without a daemon: %v", err)
	}
	woken := make(chan struct{}, 1)
	end := serve(t, dir, control.Options{Wake: func() { woken <- struct{}{} }})
	r, err := control.Wake(t.Context(), dir)
	if err != nil || r.PID != os.Getpid() {
		t.Errorf("got %+v, %v", r, err)
	}
	<-woken
	if info, err := os.Stat(filepath.Join(dir, "control.sock")); err != nil || info.Mode().Perm()&^0o660 != 0 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	client, address := control.Client(dir)
	answer, err := client.Get(address + "/api/v1/cycles")
	must(t, err)
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || !strings.HasPrefix(string(body), "api of ") {
		t.Errorf("%s, %v", body, err)
	}
	client.CloseIdleConnections()
	if refused := end(); len(refused) != 0 {
		t.Errorf("refused %+v", refused)
	}
	if _, err := os.Lstat(filepath.Join(dir, "control.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestACallerWaitsForADaemonThatHasTheFolder(t *testing.T) {
	dir := t.TempDir()
	var lock control.Lock
	must(t, lock.Take(dir))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := control.Ping(short, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller did not wait: %v", err)
	}
	called := make(chan error, 1)
	go func() { _, err := control.Ping(t.Context(), dir); called <- err }()
	end := serve(t, dir, control.Options{})
	if err := <-called; err != nil {
		t.Errorf("the caller gave up: %v", err)
	}
	end()

	// Nobody answers, and the daemon lets go of the folder.
	go func() { _, err := control.Ping(t.Context(), dir); called <- err }()
	must(t, lock.Release())
	if err := <-called; !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("got %v", err)
	}
}

func TestAFolderHasOneLock(t *testing.T) {
	dir := t.TempDir()
	var mine, other control.Lock
	must(t, mine.Take(dir))
	if err := other.Take(dir); !errors.Is(err, ops.ErrConflict) {
		t.Errorf("a second one got %v", err)
	}
	if err := errors.Join(mine.Release(), mine.Release(), control.Holder(dir), other.Take(dir), other.Release()); err != nil {
		t.Errorf("the folder it left: %v", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "control.sock"), nil, 0o600))
	s, err := control.Listen(dir, control.Options{})
	must(t, err)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatTheSupervisorStartedIsRefused(t *testing.T) {
	dir := t.TempDir()
	end := serve(t, dir, control.Options{})
	for _, env := range [][]string{{"CLAUDEOPS_SESSION_KEY=0123456789abcdef"}, nil} {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append([]string{"CONTROL_TEST_CALL=" + dir}, env...)
		out, err := c.CombinedOutput()
		if err != nil || strings.Contains(string(out), "link-for") || !strings.Contains(string(out), "refuses this caller") {
			t.Errorf("with %v: %s, %v", env, out, err)
		}
	}
	refused := end()
	if len(refused) != 2 || !strings.Contains(refused[0].Refusal, "session key") ||
		!strings.Contains(refused[1].Refusal, "started by the supervisor") {
		t.Errorf("refused %+v", refused)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
