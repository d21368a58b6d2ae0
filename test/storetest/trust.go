package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func trustCases() []testCase {
	return []testCase{
		{"trust is lowered beside the configuration, and raised again", trustIsSet},
		{"trust is reduced once in a cycle, down to ask", trustIsReduced},
		{"an undone action costs trust", undoneCostsTrust},
		{"the record of a service counts what became of the work on it", trustIsRecorded},
		{"an alarm of the guard costs the trust in what the session worked on", alarmCostsTrust},
		{"what is left to people becomes an incident beside the other", leftToPeople},
	}
}

func trusting(level ops.Trust) ops.Policy {
	p := Policy()
	p.Trust = level
	return p
}

// believe records that a person chose a level for web.
func (f *Fixture) believe(t *testing.T, p ops.Policy, level ops.Trust) {
	t.Helper()
	must(t, f.Store.SetTrust(t.Context(), p, ops.Lowered{
		Environment: "home", Service: "web", Level: level, By: "alice", Reason: "so far", At: Start.Add(-time.Hour),
	}))
}

func (f *Fixture) lowered(t *testing.T) []ops.Lowered {
	t.Helper()
	out, err := f.Store.Lowered(t.Context(), "home")
	must(t, err)
	return out
}

func (f *Fixture) wantTrust(t *testing.T, level ops.Trust, by string) {
	t.Helper()
	got := f.lowered(t)
	if len(got) != 1 || got[0].Service != "web" || got[0].Level != level || got[0].By != by {
		t.Errorf("trust is %+v, want %s by %s", got, level, by)
	}
}

func trustIsSet(t *testing.T, f *Fixture) {
	p := trusting(ops.TrustRepair)
	f.believe(t, p, ops.TrustAsk)
	f.wantTrust(t, ops.TrustAsk, "alice")
	c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), p, f.At)
	must(t, err)
	equal(t, "in the journal", c.Journal.Lowered, f.lowered(t))
	other, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "office"), p, f.At)
	must(t, err)
	equal(t, "elsewhere", other.Journal.Lowered, nil)
	f.believe(t, p, ops.TrustRepair)
	equal(t, "as configured", len(f.lowered(t)), 0)
}

func trustIsReduced(t *testing.T, f *Fixture) {
	reduce := func(p ops.Policy) {
		t.Helper()
		c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), p, f.At)
		must(t, err)
		for range 2 {
			f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{
				Kind: ops.StepProbe, Reduced: []ops.Reduced{{Service: "web", Why: "a probe refutes it"}},
			}})
		}
		f.EndCycle(t, c.Cycle.ID)
		f.At = f.At.Add(time.Hour)
	}
	reduce(Policy())
	equal(t, "without a level", len(f.lowered(t)), 0)
	p := trusting(ops.TrustFull)
	reduce(p)
	f.wantTrust(t, ops.TrustRepair, ops.Supervisor)
	reduce(p)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	reduce(p)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 2)
}

func undoneCostsTrust(t *testing.T, f *Fixture) {
	f.believe(t, Policy(), ops.TrustRepair)
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	f.end(t, run.ID, ops.ActionDone)
	f.wantTrust(t, ops.TrustRepair, "alice")
	undo := f.intent(session)
	undo.Run.UndoOf, undo.Run.Automatic, undo.Want, undo.Record = run.ID, true, nil, ops.GuardRecord{}
	f.end(t, f.begin(t, undo).ID, ops.ActionDone)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 1)
	record, err := f.Store.TrustRecord(t.Context(), "home", "web")
	must(t, err)
	equal(t, "record", record, ops.TrustRecord{Undone: 1})
}

// The record counts what was proposed, also where nobody was asked, and what became of it.
func trustIsRecorded(t *testing.T, f *Fixture) {
	wants := func(want ops.TrustRecord) {
		t.Helper()
		got, err := f.Store.TrustRecord(t.Context(), "home", "web")
		must(t, err)
		equal(t, "record", got, want)
	}
	left := f.RunningSession(t, "home")
	up := f.Escalation(left, 1)
	up.Step.Kind, up.Step.Status, up.Step.Session = ops.StepFinish, ops.CycleNeedsHuman, nil
	up.Step.Decision.Verdict, up.Step.Decision.Check = ops.VerdictNeedsHuman, ops.ObjectionTrust
	needs := report("web")
	up.Step.Incident = &needs
	f.Commit(t, up)
	wants(ops.TrustRecord{Proposed: 1})
	f.At = f.At.Add(time.Hour)
	asked := f.await(t, "home", ops.Step{Kind: ops.StepAwait, Incident: &needs, Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2"}})
	wants(ops.TrustRecord{Proposed: 2})
	_, err := f.Store.Answer(t.Context(), 1, ops.ApprovalApproved, "ada", "", f.At)
	must(t, err)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1})
	c := f.claimAt(t, asked.Cycle.ID, f.At)
	bad := verifies("web")
	bad.Status = ops.Down
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Result: ops.Result{Checks: []ops.Check{bad}}, Facts: []byte("{}"), Step: ops.Step{Kind: ops.StepRest, Row: "claim refuted"}})
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Refuted: 1})
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe,
	}})
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Refuted: 1}) // nothing was done in it
	f.fixed(t)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Verified: 1, Refuted: 1})
	f.relapses(t)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Refuted: 2})
}

func alarmCostsTrust(t *testing.T, f *Fixture) {
	f.believe(t, Policy(), ops.TrustRepair)
	first := f.RunningSession(t, "home")
	alarm := func(id ops.SessionID) {
		t.Helper()
		_, err := f.Store.AddEvent(t.Context(), ops.Event{
			Environment: "home", SessionID: &id, Kind: ops.EventGuard, Level: ops.LevelCritical, Message: "it broke out",
		})
		must(t, err)
	}
	alarm(first.ID)
	f.wantTrust(t, ops.TrustRepair, "alice") // Tier 1 works on nothing
	up := f.Escalation(first, 1)
	works := report("web")
	works.Handled = true
	up.Step.Incident = &works
	second := f.Commit(t, up).Journal.Newest()
	alarm(second.ID)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
}

func leftToPeople(t *testing.T, f *Fixture) {
	c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), trusting(ops.TrustSuggest), f.At)
	must(t, err)
	works, left := report("web"), report("db")
	works.Handled = true
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{Kind: ops.StepProbe, Incident: &works, Left: &left}})
	open, err := f.Store.Unresolved(t.Context(), "home")
	must(t, err)
	called := map[string]bool{}
	for _, i := range open {
		called[i.Service] = i.CalledAt != nil
	}
	equal(t, "called", called, map[string]bool{"web": false, "db": true})
}
