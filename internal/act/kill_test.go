package act_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// deadly kills its own process at one point of a run.
type deadly struct {
	*store.Acts
	at string
}

func (l deadly) die(at string) {
	if l.at == at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (l deadly) BeginAction(ctx context.Context, o ops.Owner, in store.ActionIntent) (ops.ActionRun, string, error) {
	l.die("before the intent")
	run, refusal, err := l.Acts.BeginAction(ctx, o, in)
	l.die("after the intent")
	return run, refusal, err
}

func (l deadly) EndAction(ctx context.Context, o ops.Owner, in store.ActionResult) (ops.ActionRun, error) {
	l.die("before the result")
	run, err := l.Acts.EndAction(ctx, o, in)
	l.die("after the result")
	return run, err
}

// TestHelperRunsOneAction is the process that is killed.
func TestHelperRunsOneAction(t *testing.T) {
	dir, at := os.Getenv("ACT_TEST_DIR"), os.Getenv("ACT_TEST_AT") //nolint:forbidigo // of the test itself
	if dir == "" {
		t.Skip("it runs in a process of its own")
	}
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(dir, "j.db")}))
	must(t, err)
	owner, err := s.Journal.RegisterHost(t.Context(), storetest.Host)
	must(t, err)
	asked, err := s.Acts.RequestedActions(t.Context(), []string{"home"})
	must(t, err)
	w := newWorld(t)
	o := w.options
	o.Ledger, o.Refusals, o.Owner = deadly{s.Acts, at}, s.Acts, func() ops.Owner { return owner }
	env := w.env
	env.Policy.Inventory.Services[0].Actions = killable(dir)
	for _, r := range asked {
		_, err := act.New(o).Run(t.Context(), act.Request{Environment: env, Service: "web", Action: "count", Why: "x", Person: r.Person, ID: r.ID})
		if err != nil && !errors.Is(err, ops.ErrConflict) {
			t.Error(err)
		}
	}
}

func killable(dir string) []ops.ActionSpec {
	return []ops.ActionSpec{{
		Name: "count", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute,
		Run: []string{"/bin/sh", "-c", `echo ran >>"$0"; if [ "$1" = wait ]; then kill -9 $PPID; sleep 30; echo again >>"$0"; fi`, filepath.Join(dir, "ran"), os.Getenv("ACT_TEST_MODE")}, //nolint:forbidigo // of the test itself
	}}
}

// Two supervisors on one machine number their runs alike.
func TestARunOfAnotherSupervisorIsNotEnded(t *testing.T) {
	t.Parallel()
	ours, other := newWorld(t), newWorld(t)
	slow := ours.script(t, "slow", `touch `+ours.dir+`/begun; until [ -e `+ours.dir+`/go ]; do sleep 0.02; done; touch `+ours.health+`/web`)
	ours.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{{
		Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Run: []string{slow},
	}}
	request := ours.ask(ours.session(t, ops.Tier2), "fix")
	ended := make(chan act.Outcome, 1)
	go func() {
		out, err := ours.runner.Run(t.Context(), request)
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	for !exists(filepath.Join(ours.dir, "begun")) {
		select {
		case out := <-ended:
			t.Fatalf("it ended without having begun: %+v", out.Run)
		case <-time.After(time.Millisecond):
		}
	}
	theirs, err := other.Store.Acts.ActionRun(t.Context(), other.person(t, "count").ID)
	must(t, err)
	_, err = agent.Sweep(t.Context(), act.Key(theirs))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(ours.dir, "go"), nil, 0o600))
	if run := (<-ended).Run; run.ID != theirs.ID || run.Status != ops.ActionDone {
		t.Errorf("run %d is %s (%s) after run %d of another supervisor was ended", run.ID, run.Status, run.Error, theirs.ID)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAnActionNeverRunsTwiceWhereverTheSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for at, want := range map[string]struct {
		status ops.ActionStatus // at the first start after the kill
		ran    string
	}{
		"before the intent": {ops.ActionRequested, ""}, // nothing was done, so it may be done now
		"after the intent":  {ops.ActionInterrupted, ""},
		"while it runs":     {ops.ActionInterrupted, "ran"},
		"before the result": {ops.ActionInterrupted, "ran"},
		"after the result":  {ops.ActionDone, "ran"},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			request := w.person(t, "count")
			start := func(at, mode string) error {
				cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestHelperRunsOneAction$", "-test.count=1")
				cmd.Env = append(os.Environ(), "ACT_TEST_DIR="+w.dir, "ACT_TEST_AT="+at, "ACT_TEST_MODE="+mode) //nolint:forbidigo // of the test itself
				return cmd.Run()
			}
			mode := ""
			if at == "while it runs" {
				mode = "wait"
			}
			if err := start(at, mode); err == nil {
				t.Fatal("the supervisor was not killed")
			}
			owner, err := w.Store.Journal.RegisterHost(t.Context(), storetest.Host)
			must(t, err)
			left, err := w.Store.Acts.InterruptActions(t.Context(), owner, time.Now())
			must(t, err)
			for _, r := range left {
				_, err := agent.Sweep(t.Context(), act.Key(r))
				must(t, err)
			}
			run, err := w.Store.Acts.ActionRun(t.Context(), request.ID)
			must(t, err)
			if run.Status != want.status || w.read(t, "ran") != want.ran {
				t.Errorf("%s, ran %q; want %s, ran %q", run.Status, w.read(t, "ran"), want.status, want.ran)
			}
			// The next supervisor does what is still requested, and nothing twice.
			must(t, start("never", ""))
			must(t, start("never", ""))
			if got := w.read(t, "ran"); strings.Count(got, "ran") > 1 || strings.Contains(got, "again") {
				t.Errorf("it ran again: %q", got)
			}
		})
	}
}
