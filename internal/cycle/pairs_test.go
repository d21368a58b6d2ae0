package cycle_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/storetest"
)

// reconfigured is a start with another configuration.
func (r *rehearsal) reconfigured(change func(*ops.Policy)) {
	env := r.Environments["default"]
	change(&env.Policy)
	r.Environments["default"] = env
}

func (r *rehearsal) ended(status ops.CycleStatus, says string) {
	r.t.Helper()
	c, err := r.store.Journal.Cycle(r.t.Context(), r.id)
	r.must(err)
	if c.Status != status || !strings.Contains(c.Reason, says) {
		r.t.Errorf("the cycle is %s: %s; want %s: %s", c.Status, c.Reason, status, says)
	}
}

// A person says yes to a repair of a service, or of a probe, that is not configured any more when the answer comes.
func TestAnApprovalOfWhatIsNotConfiguredAnyMore(t *testing.T) {
	storetest.NewFile(t)
	for name, tt := range map[string]struct {
		change func(*ops.Policy)
		ends   ops.CycleStatus
		says   string
		ran    int
	}{
		"the service is gone": {func(p *ops.Policy) { p.Inventory = ops.Inventory{} }, ops.CycleSuppressed, "web (it is not configured any more)", 1},
		"its probe is gone": {func(p *ops.Policy) {
			p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web"}}}
		}, ops.CycleResolved, "unverified", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRehearsal(t, chain{policy: policy(gate(2), probing("web")), acts: []act{hands(2), well}, probes: func(r *rehearsal, p ops.ProbePurpose) []ops.Check {
					if r.seen > 10 {
						t.Fatal("it never stops probing")
					}
					if r.seen > 1 {
						return nil
					}
					return finds("web", ops.Down)(r, p)
				}})
				defer func() { r.must(r.store.Close()) }()
				r.submit(ops.NewCycle{})
				r.advance()
				r.answer(ops.ApprovalApproved)
				r.reconfigured(tt.change)
				r.advance()
				r.ended(tt.ends, tt.says)
				if r.ran != tt.ran {
					t.Errorf("%d sessions ran, want %d", r.ran, tt.ran)
				}
			})
		})
	}
}

// The operator switches a dry run on and starts again while a cycle runs: the cycle does not go on without it.
func TestADryRunHoldsForACycleThatARestartCutOff(t *testing.T) {
	storetest.NewFile(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRehearsal(t, chain{policy: policy(), acts: []act{func(r *rehearsal, s ops.SessionSpec) ops.RunResult {
			r.die()
			return hands(2)(r, s)
		}, hands(2), well}})
		defer func() { r.must(r.store.Close()) }()
		r.submit(ops.NewCycle{})
		r.crash()
		r.reconfigured(func(p *ops.Policy) { p.DryRun = true })
		r.reborn()
		r.ended(ops.CycleSuppressed, "dry run is on")
	})
}

// A service is down when the supervisor starts: the first look and the watch see it at the same time, and one of them works on it.
func TestAServiceThatIsDownAtTheStartGetsOneChain(t *testing.T) {
	storetest.NewFile(t)
	for name, tt := range map[string]struct {
		seen bool // the watch is first
		ends ops.CycleStatus
		says string
		ran  int
	}{
		"the look is first":  {false, ops.CycleResolved, "", 2},
		"the watch is first": {true, ops.CycleSuppressed, "web: cycle 2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := false
				open := func(r *rehearsal) {
					var err error
					_, started, err = r.store.Watch.OpenCause(t.Context(), ops.Cause{
						Key: "web", Environment: "default", Services: []string{"web"}, Level: ops.Down, Reason: "web is down.", Began: clock(), At: clock(),
					}, ops.NewCycle{Environment: "default", Trigger: ops.TriggerProbe, Services: []string{"web"}, At: clock()}, nil, nil, clock().Add(-time.Minute))
					r.must(err)
				}
				r := newRehearsal(t, chain{policy: policy(probing("web"), probesFirst), acts: []act{hands(2), well}, probes: func(r *rehearsal, p ops.ProbePurpose) []ops.Check {
					if tt.seen && p == ops.ProbeObserve {
						open(r)
					}
					return healthyFor(ops.ProbeVerify)(r, p)
				}})
				defer func() { r.must(r.store.Close()) }()
				r.submit(ops.NewCycle{Trigger: ops.TriggerScheduled})
				r.advance()
				r.ended(tt.ends, tt.says)
				if !tt.seen {
					open(r)
				}
				if r.ran != tt.ran || started != tt.seen {
					t.Errorf("%d sessions ran, and the watch started a cycle: %v", r.ran, started)
				}
			})
		})
	}
}
