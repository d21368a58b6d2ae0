package agentsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func stops(t *testing.T, s Subject) {
	runner, spec := s.make(t, Hang)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	done := make(chan ops.RunResult, 1)
	rec := &agenttest.Recorder{}
	go func() { done <- runner.Run(ctx, spec, rec) }()
	for deadline := time.Now().Add(3 * time.Minute); sleeping(t, spec.Session.Key) < 2; {
		select {
		case res := <-done:
			t.Fatalf("the session ended before its command ran: %+v\n%s", res, rec.Text())
		case <-time.After(100 * time.Millisecond): // looking takes some of the processor that the agent needs to start
		}
		if time.Now().After(deadline) {
			t.Fatalf("the command never ran\n%s", rec.Text())
		}
	}
	begun := time.Now()
	stop(ops.Stop(ops.StopUser, "a user stopped it"))
	res := <-done
	if left := processes(t, spec.Session.Key); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if res.Stop != ops.StopUser || res.StopWhy != "a user stopped it" || res.Success() || res.Failure != ops.FailureStopped {
		t.Errorf("the session: %+v", res)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func limits(t *testing.T, s Subject) {
	runner, spec := s.make(t, Hang)
	spec.Limits.Wall = 2 * time.Second
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	if res.Stop != ops.StopWall || res.Success() || res.Failure != ops.FailureClass(ops.StopWall) {
		t.Errorf("the session: %+v", res)
	}
	if left := processes(t, spec.Session.Key); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// deadline is reached while the agent prints nothing.
func deadline(t *testing.T, s Subject) {
	runner, spec := s.make(t, Silent)
	spec.Deadline = time.Now().Add(2 * time.Second)
	begun := time.Now()
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	if res.Stop != ops.StopDeadline || res.Success() || res.Failure != ops.FailureClass(ops.StopDeadline) {
		t.Errorf("the session: %+v", res)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if left := processes(t, spec.Session.Key); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func cancelled(t *testing.T, s Subject) {
	runner, spec := s.make(t, Answer)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(ops.Stop(ops.StopShutdown, "the supervisor ends"))
	rec := &agenttest.Recorder{}
	res := runner.Run(ctx, spec, rec)
	if res.Stop != ops.StopShutdown || res.ExitCode != nil || res.Success() || rec.PID != 0 {
		t.Errorf("the session: %+v", res)
	}
}

func leaks(t *testing.T, s Subject) {
	runner, spec := s.make(t, Leak)
	rec := &agenttest.Recorder{}
	res := runner.Run(t.Context(), spec, rec)
	succeeded(t, res)
	data, err := json.Marshal(res)
	must(t, err)
	for what, text := range map[string]string{"record": rec.Text(), "result": string(data)} {
		if strings.Contains(text, Secret) {
			t.Errorf("the secret is in the %s:\n%s", what, text)
		}
	}
	if len(rec.All) == 0 {
		t.Error("nothing was recorded")
	}
}

// processes are the ids of those that carry the key of a session.
func processes(t *testing.T, key string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	must(t, err)
	var out []string
	for _, name := range names {
		// One that ends in the meantime cannot be read any more.
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("CLAUDEOPS_SESSION_KEY="+key)) {
			out = append(out, filepath.Base(filepath.Dir(name)))
		}
	}
	return out
}

// sleeping counts the processes of a session's command.
func sleeping(t *testing.T, key string) int {
	t.Helper()
	n := 0
	for _, pid := range processes(t, key) {
		if data, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")); err == nil && string(data) == "sleep\x00300\x00" {
			n++
		}
	}
	return n
}
