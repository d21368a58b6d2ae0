package ops

import "time"

// StepKind is what a worker does next with a cycle.
type StepKind string

// The kinds of step. The table in the package documentation says when each is taken.
const (
	StepRest      StepKind = "rest"      // nothing to do: ended, or waiting
	StepProbe     StepKind = "probe"     // run probes
	StepInterrupt StepKind = "interrupt" // end what a dead worker left running
	StepQueue     StepKind = "queue"     // write the intent to run a session
	StepRun       StepKind = "run"       // run a queued session
	StepFinish    StepKind = "finish"    // end the cycle
)

// Step is the next thing to do, with everything that must be recorded before it is done.
type Step struct {
	Kind    StepKind
	Row     string // the row of the table that decided
	Reason  string
	Session *NewSession // queue: the intent to write
	Target  SessionID   // run, interrupt: the session; probe: the session whose claim is verified
	Purpose ProbePurpose
	// Services limits a probe step; empty means all.
	Services []string
	Status   CycleStatus // finish
	Decision *Decision
	Events   []Event
	Notices  []Notice
}

// Transition is one journal write: the result of the last effect and the step that follows from it.
type Transition struct {
	Cycle  CycleID
	Result Result
	Step   Step
	At     time.Time
}

// Empty reports whether the transition has nothing to write: the step is derived from the journal as it stands.
func (t Transition) Empty() bool {
	return t.Result.Session == nil && len(t.Result.Checks) == 0 && len(t.Result.Events) == 0 && len(t.Result.Notices) == 0 &&
		t.Step.Session == nil && t.Step.Decision == nil && t.Step.Kind != StepFinish &&
		len(t.Step.Events) == 0 && len(t.Step.Notices) == 0
}
