package decide

import (
	"slices"
	"strconv"

	"claudeops/internal/ops"
)

// plans are the steps that a person approved.
type plans struct{ view }

// approved is the question whose plan was approved by a human, at least in part, or nil.
func (v plans) approved() *ops.Approval {
	if q := v.question(); q != nil && v.covers(*q) {
		return q
	}
	return nil
}

func (v plans) covers(q ops.Approval) bool {
	return q.Kind == ops.ApprovalTier && q.Status == ops.ApprovalApproved && len(q.Steps) > 0 && len(q.Plan) > 0
}

// run is the run of a step, or nil.
func (v plans) run(q *ops.Approval, step int) *ops.ActionRun {
	for i := range v.journal.Runs {
		if r := &v.journal.Runs[i]; r.ApprovalID == q.ID && r.Step == step && r.UndoOf == 0 {
			return r
		}
	}
	return nil
}

// begun: at least one step was begun.
func (v plans) begun() bool {
	q := v.approved()
	return q != nil && slices.ContainsFunc(q.Steps, func(n int) bool {
		r := v.run(q, n)
		return r != nil && r.Status != ops.ActionRefused
	})
}

// counts: a plan was begun, so how its problem ended is for the plan to say: first a step that is still running, then the probes.
// Where a service has no probe, nothing could say that the plan helped.
func (v plans) counts() bool { return v.inFlight() || v.begun() && v.allProbed() }

// inFlight: whoever asks runs nothing yet, so a started step belongs to a worker that died.
func (v plans) inFlight() bool { return v.started() != nil }

func (v plans) started() *ops.ActionRun {
	q := v.approved()
	if q == nil {
		return nil
	}
	for _, step := range q.Steps {
		if r := v.run(q, step); r != nil && r.Status == ops.ActionStarted {
			return r
		}
	}
	return nil
}

func interruptPlan(v view) ops.Step {
	r := v.plans().started()
	reason := v.say(ops.Reason{Kind: ops.WhyPlanInterrupted, Step: r.Step})
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Approval: *v.plans().approved(), Step: r.Step, Interrupt: r.ID},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbActionInterrupted, reason)},
	}
}

// next is the step that is due: the first that has not run, if all before it are done. 0: none.
func (v plans) next() int {
	q := v.approved()
	if q == nil {
		return 0
	}
	for _, step := range q.Steps {
		r := v.run(q, step)
		switch {
		case r == nil:
			return step
		case r.Status != ops.ActionDone:
			return 0 // the rest of a plan is not carried out after a failure
		}
	}
	return 0
}

// enough: the incidents were closed before the last step, so the rest is not needed, unless probes found something since.
func (v plans) enough() bool {
	return v.begun() && v.allProbed() && v.allClosed() &&
		!slices.ContainsFunc(v.checksSince(), func(c ops.Check) bool { return c.Status != ops.Healthy })
}

// due: what holds by now is looked at again before each step, as before a tier starts.
func (v plans) due() bool {
	step := v.next()
	if step == 0 || v.policy.DryRun || v.enough() {
		return false
	}
	q := v.approved()
	if q.Tier > v.policy.MaxTier {
		return false
	}
	return !slices.ContainsFunc(q.Steps, func(n int) bool { return ops.Holder(v.holds, q.Plan[n-1].Service, q.Tier) != nil })
}

func runPlanStep(v view) ops.Step {
	q, step := v.plans().approved(), v.plans().next()
	reason := v.say(ops.Reason{Kind: ops.WhyPlanStep, Approval: q, Step: step})
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Approval: *q, Step: step},
		Events: []ops.Event{v.event(ops.LevelInfo, ops.VerbActionStarted, reason)},
	}
}

// ran: a step was carried out, and none is due any more.
func (v plans) ran() bool { return v.begun() && (v.next() == 0 || v.enough()) }

// checksSince are what probes found since the last step ended.
func (v plans) checksSince() []ops.Check {
	q := v.approved()
	return slices.DeleteFunc(v.checks(ops.ProbePlan, v.last.ID), func(c ops.Check) bool {
		return slices.ContainsFunc(v.journal.Runs, func(r ops.ActionRun) bool {
			return r.ApprovalID == q.ID && r.EndedAt != nil && c.At.Before(*r.EndedAt)
		})
	})
}

func (v plans) unverified() bool {
	return v.ran() && len(v.verifiable()) > 0 && len(v.checksSince()) == 0
}

func verifyPlan(v view) ops.Step {
	services := v.verifiable()
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbePlan, Target: v.last.ID, Services: services,
		Reason: v.say(ops.Reason{Kind: ops.WhyPlanVerifies, Services: services}),
	}
}

// helped: probes find every service healthy after the plan, and prove it of at least one. What they had never seen fail is taken to be
// repaired by the steps that a human approved.
func (v plans) helped() bool {
	services := v.services()
	proven := func(s string) bool { return v.proof().proven(s, ops.ProbePlan) }
	if !v.ran() || !v.allProbed() || !slices.ContainsFunc(services, proven) {
		return false
	}
	stopped := func(c ops.Check) bool { return slices.Contains(services, c.Service) }
	return !slices.ContainsFunc(v.notRunning(), stopped) &&
		!slices.ContainsFunc(v.checksSince(), func(c ops.Check) bool { return c.Status != ops.Healthy })
}

// did: at least one step may have had its effect: it was done, or cut off.
func (v plans) did() bool {
	q := v.approved()
	return slices.ContainsFunc(q.Steps, func(n int) bool {
		r := v.run(q, n)
		return r != nil && (r.Status == ops.ActionDone || r.Status == ops.ActionInterrupted)
	})
}

func planResolved(v view) ops.Step {
	why, proof := ops.Reason{Kind: ops.WhyRepairedByPlan, Approval: v.plans().approved(), Count: len(v.plans().checksSince())}, ops.ProofPlan
	if !v.plans().did() {
		why.Kind, proof = ops.WhyRecoveredBesidePlan, ops.ProofProbe
	}
	reason := v.say(why)
	step := finishResolved(proof, reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
	step.Recovered = v.proof().repaired(ops.ProbePlan, proof, v.inCycle(reason))
	if proof == ops.ProofPlan {
		step.Repair = v.proof().repair()
	}
	return step
}

// leavePlan records that approved steps are not carried out any more, and why, where the cycle ends or a tier takes over.
func leavePlan(v view, step ops.Step) ops.Step {
	if step.Kind != ops.StepFinish && step.Kind != ops.StepQueue {
		return step
	}
	for i := range v.journal.Approvals {
		q := &v.journal.Approvals[i]
		if !v.plans().covers(*q) || q.Skipped != "" {
			continue
		}
		var left []string
		var broken *ops.ActionRun
		for _, n := range q.Steps {
			switch r := v.plans().run(q, n); {
			case r == nil:
				left = append(left, strconv.Itoa(n))
			case r.Status != ops.ActionDone:
				broken = r
			}
		}
		if len(left) == 0 {
			continue
		}
		why := ops.Reason{Kind: ops.WhyStepsLeft, Run: broken, Text: step.Reason}
		switch {
		case broken != nil:
			why.Kind = ops.WhyStepsAfter
		case v.problemOver():
			why.Kind = ops.WhyStepsTooLate
		case step.Status == ops.CycleResolved:
			why.Kind = ops.WhyStepsNotNeeded
		}
		step.Skipped = v.say(why)
		skipped := v.say(ops.Reason{Kind: ops.WhyStepsSkipped, Rest: left, Text: step.Skipped})
		step.Events = append(step.Events, v.event(ops.LevelInfo, ops.VerbActionSkipped, skipped))
	}
	return step
}
