package decide

import (
	"slices"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// plan is what a human is shown of a proposed plan: each step with what the supervisor would run. A plan that could not be carried
// out as it is written is not offered, with the reason.
func (v view) plan(h *ops.Handoff, target ops.Handler, services []string) (steps []ops.ApprovedStep, problem string) {
	if h == nil {
		return nil, ""
	}
	inventory := v.policy.Inventory
	for i, p := range h.Plan {
		name, _ := inventory.Canonical(p.Service)
		a, known := inventory.Action(name, p.Action)
		switch {
		case !slices.Contains(services, name):
			return nil, notice.StepNotHandedOn(i+1, p.Service)
		case !known:
			return nil, notice.StepUnknown(i+1, p.Action, name)
		case a.Tier > target.May():
			return nil, notice.StepTooHigh(i+1, a.Tier, target.Tier)
		case (a.Kind == ops.ActionPush) != (p.Branch != ""):
			return nil, notice.StepBranch(i + 1)
		}
		p.Service = name
		steps = append(steps, ops.ApprovedStep{PlanStep: p, Does: a.Does(), WayBack: a.WayBack(), Digest: a.Digest()})
	}
	return steps, ""
}

// approvedPlan is the question whose plan a human approved, at least in part, or nil.
func (v view) approvedPlan() *ops.Approval {
	q := v.question()
	if q == nil || q.Kind != ops.ApprovalTier || q.Status != ops.ApprovalApproved || len(q.Steps) == 0 || len(q.Plan) == 0 {
		return nil
	}
	return q
}

// planRun is the run of a step, or nil.
func (v view) planRun(q *ops.Approval, step int) *ops.ActionRun {
	for i := range v.journal.Runs {
		if r := &v.journal.Runs[i]; r.ApprovalID == q.ID && r.Step == step && r.UndoOf == 0 {
			return r
		}
	}
	return nil
}

// planInFlight: whoever asks runs nothing yet, so a started step belongs to a worker that died.
func (v view) planInFlight() bool { return v.planStarted() != nil }

func (v view) planStarted() *ops.ActionRun {
	q := v.approvedPlan()
	if q == nil {
		return nil
	}
	for _, step := range q.Steps {
		if r := v.planRun(q, step); r != nil && r.Status == ops.ActionStarted {
			return r
		}
	}
	return nil
}

func interruptPlan(v view) ops.Step {
	r := v.planStarted()
	reason := notice.PlanInterrupted(r.Step)
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Approval: *v.approvedPlan(), Step: r.Step, Interrupt: r.ID},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.EventAction, reason)},
	}
}

// nextPlanStep is the step that is due: the first that has not run, if all before it are done. 0: none.
func (v view) nextPlanStep() int {
	q := v.approvedPlan()
	if q == nil {
		return 0
	}
	for _, step := range q.Steps {
		r := v.planRun(q, step)
		switch {
		case r == nil:
			return step
		case r.Status != ops.ActionDone:
			return 0 // the rest of a plan is not carried out after a failure
		}
	}
	return 0
}

// planDue: what holds by now is looked at again before each step, as before a tier starts.
func (v view) planDue() bool {
	step := v.nextPlanStep()
	if step == 0 || v.policy.DryRun {
		return false
	}
	q := v.approvedPlan()
	if q.Tier > v.policy.MaxTier {
		return false
	}
	held := v.held()
	for _, n := range q.Steps {
		for _, h := range held {
			if h.Service == q.Plan[n-1].Service {
				return false
			}
		}
	}
	return true
}

func runPlanStep(v view) ops.Step {
	q, step := v.approvedPlan(), v.nextPlanStep()
	reason := notice.PlanStep(*q, step)
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Approval: *q, Step: step},
		Events: []ops.Event{v.event(ops.LevelInfo, ops.EventAction, reason)},
	}
}

// planRan: at least one step was carried out, and none is due any more.
func (v view) planRan() bool {
	q := v.approvedPlan()
	if q == nil || v.nextPlanStep() != 0 {
		return false
	}
	return slices.ContainsFunc(q.Steps, func(n int) bool {
		r := v.planRun(q, n)
		return r != nil && r.Status != ops.ActionRefused
	})
}

func (v view) planUnverified() bool {
	return v.planRan() && len(v.servicesToVerify()) > 0 && len(v.checks(ops.ProbePlan, v.last.ID)) == 0
}

func verifyPlan(v view) ops.Step {
	services := v.servicesToVerify()
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbePlan, Target: v.last.ID, Services: services,
		Reason: notice.PlanVerifies(services),
	}
}

// planHelped: every affected service has a probe, and all of them are healthy.
func (v view) planHelped() bool {
	checks, probed := v.checks(ops.ProbePlan, v.last.ID), v.probed()
	return v.planRan() && len(checks) > 0 &&
		!slices.ContainsFunc(v.affected(), func(s string) bool { return !slices.Contains(probed, s) }) &&
		!slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Status != ops.Healthy })
}

func planResolved(v view) ops.Step {
	reason, idle := notice.RepairedByPlan(*v.approvedPlan(), len(v.checks(ops.ProbePlan, v.last.ID))), v.notRunning()
	if len(idle) > 0 {
		reason = notice.PlanNotRunning(*v.approvedPlan(), idle)
	}
	step := v.finish(ops.CycleResolved, reason, v.event(ops.LevelInfo, ops.EventCycle, reason))
	step.Confirmed, step.Recovered = ops.Ptr(true), v.recoveredServices(notice.In(v.cycle.ID, reason))
	if len(idle) > 0 {
		return unproven(step, idle)
	}
	return step
}
