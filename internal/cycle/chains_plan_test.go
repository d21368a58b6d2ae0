package cycle_test

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const withPlan = `{"schema_version":1,"recommended_tier":2,"services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"cooldown_state":{},` +
	`"plan":[{"service":"web","action":"restart","reason":"it hangs","expected_effect":"it answers","way_back":"none"},` +
	`{"service":"web","action":"clear","reason":"the disk is full","expected_effect":"space","way_back":"none"}]}`

// acting gives web two actions.
func acting(p *ops.Policy) {
	for _, name := range []string{"restart", "clear"} {
		p.Inventory.Services[0].Actions = append(p.Inventory.Services[0].Actions, ops.ActionSpec{
			Name: name, Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Run: []string{"/bin/" + name}, Counts: "restart", Timeout: time.Minute,
		})
	}
}

// planned carries approved steps out in the real store, without running anything.
type planned struct {
	r       *rehearsal
	dies    int // at this step
	fails   int
	refuses int
	repairs int // the watch finds it well while this step runs

	cooldown bool // it counts for the cooldown
}

func (p planned) Step(ctx context.Context, env ops.Environment, a ops.Approval, step int) (ops.ActionRun, error) {
	want := a.Plan[step-1]
	run := ops.ActionRun{
		Environment: env.Name, Service: want.Service, Action: want.Action, Kind: ops.ActionCommand, Tier: a.Tier, CycleID: &a.CycleID, SessionID: &a.SessionID,
		Why: want.Reason, ApprovalID: a.ID, Step: step, Automatic: true, Digest: want.Digest, Does: want.Does,
	}
	if step == p.refuses {
		return p.r.store.Acts.RefuseStep(ctx, p.r.owner, run, "the cooldown", clock())
	}
	in := store.ActionIntent{Run: run, At: clock()}
	if p.cooldown {
		in.Want, in.Limits = []ops.Reservation{{Service: want.Service, Action: "restart"}}, restarts()
	}
	begun, refusal, err := p.r.store.Acts.BeginAction(ctx, p.r.owner, in)
	p.r.must(err)
	if refusal != "" {
		return p.r.store.Acts.RefuseStep(ctx, p.r.owner, run, refusal, clock())
	}
	if step == p.dies {
		p.r.die()
		return ops.ActionRun{}, errDead
	}
	if step == p.repairs {
		_, err := p.r.store.Watch.ServiceRecovered(ctx, env.Name, want.Service, time.Time{}, "it answers again", clock())
		p.r.must(err)
	}
	status := ops.ActionDone
	if step == p.fails {
		status = ops.ActionFailed
	}
	return p.r.store.Acts.EndAction(ctx, p.r.owner, store.ActionResult{ID: begun.ID, Status: status, At: clock()})
}

func (p planned) Interrupted(ctx context.Context, id int64) (ops.ActionRun, error) {
	_, err := p.r.store.Acts.InterruptActions(ctx, p.r.owner, clock())
	p.r.must(err)
	return p.r.store.Acts.ActionRun(ctx, id)
}

// answerPlan approves steps of the plan that is shown.
func (r *rehearsal) answerPlan(steps ...int) {
	r.t.Helper()
	all, err := r.store.People.Approvals(r.t.Context(), store.ApprovalFilter{Status: ops.ApprovalPending})
	r.must(err)
	if len(all) != 1 || len(all[0].Plan) != 2 {
		r.t.Fatalf("questions %+v", all)
	}
	pass(time.Minute)
	_, err = r.store.People.AnswerPlan(r.t.Context(), all[0].ID, all[0].PlanHash, steps, "ada", "go", clock())
	r.must(err)
}

// healthyFor finds web healthy for some purposes, and down for all others.
func healthyFor(well ...ops.ProbePurpose) func(*rehearsal, ops.ProbePurpose) []ops.Check {
	return func(_ *rehearsal, purpose ops.ProbePurpose) []ops.Check {
		c := ops.Check{At: clock(), Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: purpose, Status: ops.Down, Error: "502"}
		if slices.Contains(well, purpose) {
			c.Status, c.Error = ops.Healthy, ""
		}
		return []ops.Check{c}
	}
}

func planChains() []chain {
	asked := policy(probed, acting, gate(2))
	approve := func(steps ...int) func(*rehearsal) {
		return func(r *rehearsal) {
			r.advance()
			r.answerPlan(steps...)
			r.advance()
		}
	}
	with := func(p planned) func(*rehearsal) {
		return func(r *rehearsal) {
			p.r = r
			r.Actions = p
		}
	}
	return []chain{
		{name: "an-approved-plan-helps", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan)}, before: with(planned{}), probes: healthyFor(ops.ProbePlan), play: approve(1, 2)},
		{name: "a-plan-approved-in-part-does-not-help", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan), well}, before: with(planned{}), probes: healthyFor(ops.ProbeVerify), play: approve(2)},
		{name: "a-plan-stops-at-the-first-failure", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan), well}, before: with(planned{fails: 1}), probes: healthyFor(ops.ProbeVerify), play: approve(1, 2)},
		{name: "a-step-of-a-plan-is-refused", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan), well}, before: with(planned{refuses: 1}), probes: healthyFor(ops.ProbeVerify), play: approve(1, 2)},
		{name: "a-plan-is-approved-without-a-step", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan), well}, before: with(planned{}), probes: healthyFor(ops.ProbeVerify), play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "a-plan-with-an-unknown-action-is-not-offered", ends: ops.CycleResolved, policy: policy(probed, gate(2)), acts: []act{leaves(withPlan), well}, probes: healthyFor(ops.ProbeVerify), play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "a-worker-dies-within-a-plan", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan)}, before: with(planned{dies: 1}), probes: healthyFor(ops.ProbePlan), play: func(r *rehearsal) {
			r.advance()
			r.answerPlan(1, 2)
			r.crash()
			with(planned{})(r)
			r.reborn()
		}},
		{name: "a-plan-repairs-with-its-first-step", ends: ops.CycleResolved, policy: asked, acts: []act{leaves(withPlan)}, before: with(planned{repairs: 1}), probes: healthyFor(ops.ProbePlan), play: approve(1, 2)},
		{name: "a-plan-is-not-begun-in-a-silence", ends: ops.CycleSuppressed, policy: asked, acts: []act{leaves(withPlan)}, before: with(planned{}), probes: healthyFor(), play: func(r *rehearsal) {
			r.advance()
			r.answerPlan(1, 2)
			_, err := r.store.Watch.AddSilence(r.t.Context(), ops.Silence{Environment: "default", Service: "web", Reason: "new disk", Author: "ada", CreatedAt: clock(), Until: clock().Add(time.Hour)})
			r.must(err)
			r.advance()
		}},
	}
}
