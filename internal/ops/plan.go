package ops

import (
	"fmt"
	"slices"
)

// PlanState is what became of a step of a plan.
type PlanState string

// The states of a step.
const (
	PlanPending     PlanState = "pending"      // nobody has answered yet
	PlanApproved    PlanState = "approved"     // it will run
	PlanNotApproved PlanState = "not_approved" // it will not
	PlanRunning     PlanState = "running"
	PlanDone        PlanState = "done"
	PlanFailed      PlanState = "failed"
	PlanRefused     PlanState = "refused" // a rule kept it from running
	PlanSkipped     PlanState = "skipped" // it was approved, and did not run
)

// PlanProgress is what became of one step of a plan.
type PlanProgress struct {
	State PlanState
	Why   string // of a step that failed, was refused or was skipped
	Run   int64  // its run; 0: none
}

// Progress says what became of each step of the plan, given the runs of its cycle.
func (a Approval) Progress(runs []ActionRun) []PlanProgress {
	out := make([]PlanProgress, len(a.Plan))
	for i := range a.Plan {
		out[i] = a.waiting(i + 1)
		for _, r := range runs {
			if r.ApprovalID == a.ID && r.Step == i+1 && r.UndoOf == 0 {
				out[i] = r.progress()
			}
		}
	}
	return out
}

// waiting is the state of a step that has not run.
func (a Approval) waiting(step int) PlanProgress {
	switch {
	case a.Status == ApprovalPending:
		return PlanProgress{State: PlanPending}
	case !slices.Contains(a.Steps, step):
		return PlanProgress{State: PlanNotApproved}
	case a.Skipped != "":
		return PlanProgress{State: PlanSkipped, Why: a.Skipped}
	}
	return PlanProgress{State: PlanApproved}
}

func (r ActionRun) progress() PlanProgress {
	p := PlanProgress{State: PlanFailed, Why: r.Error, Run: r.ID}
	switch r.Status {
	case ActionRequested, ActionStarted:
		p.State = PlanRunning
	case ActionDone:
		p.State = PlanDone
	case ActionRefused:
		p.State = PlanRefused
	case ActionUndone:
		p.Why = fmt.Sprintf("it was undone (action %d)", r.UndoneBy)
	case ActionFailed, ActionInterrupted:
	}
	return p
}
