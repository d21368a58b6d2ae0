package cycle_test

import (
	"strings"
	"testing"
	"testing/synctest"

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
	c, err := r.store.Cycle(r.t.Context(), r.id)
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
