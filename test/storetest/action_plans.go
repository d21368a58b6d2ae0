package storetest

import (
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// asked is a running cycle whose plan of two steps a human has approved in part.
func (f *Fixture) asked(t *testing.T) (ops.Session, ops.Approval) {
	t.Helper()
	return f.askedBy(t, f.RunningSession(t, "home"))
}

// askedBy lets a running session ask for the approval of a plan.
func (f *Fixture) askedBy(t *testing.T, session ops.Session) (ops.Session, ops.Approval) {
	t.Helper()
	plan := []ops.ApprovedStep{
		{PlanStep: ops.PlanStep{Service: "web", Action: "restart", Reason: "it hangs"}, Does: "docker restart web", Digest: "d1"},
		{PlanStep: ops.PlanStep{Service: "db", Action: "restart"}, Does: "docker restart db", Digest: "d2"},
	}
	ended := f.Ended(session, 0.1)
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{
		Kind: ops.StepAwait, Approval: &ops.Approval{
			SessionID: session.ID, Tier: ops.Tier3, Handler: "tier3", Plan: plan, PlanHash: ops.PlanHash(session.CycleID, session.ID, plan),
		},
	}})
	found, err := f.Store.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	equal(t, "plan", found[0].Plan, plan)
	return session, found[0]
}

func (f *Fixture) planStep(s ops.Session, a ops.Approval, step int) store.ActionIntent {
	p := a.Plan[step-1]
	return store.ActionIntent{
		Run: ops.ActionRun{
			Environment: "home", Service: p.Service, Action: p.Action, Kind: ops.ActionRestart, Tier: ops.Tier3, CycleID: &s.CycleID,
			SessionID: &s.ID, Why: p.Reason, ApprovalID: a.ID, Step: step, Automatic: true, Digest: p.Digest,
		},
		Want: restart(p.Service), Limits: limits(), At: f.At,
	}
}

func approvedStepRunsOnce(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	in := f.planStep(session, question, 1)
	_, err := f.Store.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1}, "ada", "go", f.At)
	must(t, err)
	_, _, err = f.Store.BeginAction(t.Context(), f.Owner, in)
	if err == nil {
		t.Error("it runs while nobody has claimed the cycle")
	}
	_, err = f.Store.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	for name, change := range map[string]func(*store.ActionIntent){
		"not approved":     func(i *store.ActionIntent) { *i = f.planStep(session, question, 2) },
		"other service":    func(i *store.ActionIntent) { i.Run.Service = "db" },
		"other action":     func(i *store.ActionIntent) { i.Run.Action = "stop" },
		"other command":    func(i *store.ActionIntent) { i.Run.Digest = "d9" },
		"other branch":     func(i *store.ActionIntent) { i.Run.Branch = "main" },
		"no such step":     func(i *store.ActionIntent) { i.Run.Step = 3 },
		"no such approval": func(i *store.ActionIntent) { i.Run.ApprovalID = 99 },
	} {
		other := in
		change(&other)
		if _, _, err := f.Store.BeginAction(t.Context(), f.Owner, other); err == nil {
			t.Errorf("%s: it runs", name)
		}
	}
	run := f.begin(t, in)
	f.end(t, run.ID, ops.ActionDone)
	_, _, err = f.Store.BeginAction(t.Context(), f.Owner, in)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "it counts", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
}

func planApprovedAsShown(t *testing.T, f *Fixture) {
	_, question := f.asked(t)
	answer := func(hash string, steps ...int) error {
		_, err := f.Store.AnswerPlan(t.Context(), question.ID, hash, steps, "ada", "", f.At)
		return err
	}
	wantErr(t, answer("another", 1), ops.ErrConflict)
	must(t, answer(question.PlanHash, 1, 2))
	wantErr(t, answer(question.PlanHash, 1), ops.ErrConflict)
	stored, err := f.Store.Approval(t.Context(), question.ID)
	must(t, err)
	equal(t, "steps", stored.Steps, []int{1, 2})
	equal(t, "status", stored.Status, ops.ApprovalApproved)
}

func stepRace(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	_, err := f.Store.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1}, "ada", "go", f.At)
	must(t, err)
	_, err = f.Store.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	var wg sync.WaitGroup
	won := make(chan int64, 8)
	for range 8 {
		wg.Go(func() {
			if run, refusal, err := f.Store.BeginAction(t.Context(), f.Owner, f.planStep(session, question, 1)); err == nil && refusal == "" {
				won <- run.ID
			}
		})
	}
	wg.Wait()
	equal(t, "runs", len(won), 1)
}

func silenceApproves(t *testing.T, f *Fixture) {
	for on, want := range map[string][]int{ops.OnExpiryApprove: {1, 2}, ops.OnExpiryDeny: nil, "needs_human": nil} {
		policy := Policy()
		policy.Approval.OnExpiry = on
		c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
		must(t, err)
		queued := f.Queue(t, c.Cycle.ID, nil, 1).Journal.Sessions[0]
		must(t, f.Start(t, queued.ID, "planned", f.At))
		session, question := f.askedBy(t, queued)
		a, err := f.Store.Answer(t.Context(), question.ID, ops.ApprovalExpired, "claudeops", "nobody answered in time", f.At)
		must(t, err)
		equal(t, on+": steps", a.Steps, want)
		stored, err := f.Store.Approval(t.Context(), a.ID)
		must(t, err)
		equal(t, on+": stored steps", stored.Steps, want)
		equal(t, on+": stored answer", stored.Answer, a.Answer)
		_, err = f.Store.Claim(t.Context(), f.Owner, session.CycleID, policy, f.At)
		must(t, err)
		in := f.planStep(session, question, 1)
		in.Limits = nil
		if _, _, err := f.Store.BeginAction(t.Context(), f.Owner, in); (err == nil) != (len(want) > 0) {
			t.Errorf("%s: it begins: %v", on, err)
		}
		f.EndCycle(t, session.CycleID)
	}
}

func stepsAreTold(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	states := func(want ...ops.PlanState) {
		t.Helper()
		one, err := f.Store.Approval(t.Context(), question.ID)
		must(t, err)
		var got []ops.PlanState
		for _, s := range one.States {
			got = append(got, s.State)
		}
		equal(t, "states", got, want)
		all, err := f.Store.Approvals(t.Context(), store.ApprovalFilter{})
		must(t, err)
		equal(t, "in a list", all[0], one)
	}
	states(ops.PlanPending, ops.PlanPending)
	_, err := f.Store.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1, 2}, "ada", "go", f.At)
	must(t, err)
	_, err = f.Store.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	states(ops.PlanApproved, ops.PlanApproved)
	run := f.begin(t, f.planStep(session, question, 1))
	states(ops.PlanRunning, ops.PlanApproved)
	f.end(t, run.ID, ops.ActionDone)
	const why = "not needed: probes found it healthy"
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At.Add(time.Second), Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved, Skipped: why}})
	states(ops.PlanDone, ops.PlanSkipped)
	one, err := f.Store.Approval(t.Context(), question.ID)
	must(t, err)
	equal(t, "why", one.States, []ops.PlanProgress{{State: ops.PlanDone, Run: run.ID}, {State: ops.PlanSkipped, Why: why}})
}
