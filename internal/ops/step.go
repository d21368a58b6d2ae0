package ops

import (
	"encoding/json"
	"time"
)

// StepKind is what a worker does next with a cycle.
type StepKind string

// The kinds of step. The table in the package documentation says when each is taken.
const (
	StepRest      StepKind = "rest"      // nothing to do: ended, or waiting
	StepProbe     StepKind = "probe"     // run probes
	StepInterrupt StepKind = "interrupt" // end what a dead worker left running
	StepQueue     StepKind = "queue"     // write the intent to run a session
	StepRun       StepKind = "run"       // run a queued session
	StepPause     StepKind = "pause"     // let a short backoff pass
	StepAct       StepKind = "act"       // run one step of an approved plan
	StepDefer     StepKind = "defer"     // queue the cycle for later, with the environment's slot free
	StepAwait     StepKind = "await"     // wait for a human, with the environment's slot free
	StepFinish    StepKind = "finish"    // end the cycle
)

// Leaves reports whether the worker leaves the cycle after the step.
func (k StepKind) Leaves() bool {
	return k == StepRest || k == StepDefer || k == StepAwait || k == StepFinish
}

// Step is the next thing to do, with everything that must be recorded before it is done.
type Step struct {
	Kind    StepKind
	Row     string // the row of the table that decided
	Reason  string
	Session *NewSession // queue: the intent to write
	Target  SessionID   // run, interrupt: the session; probe: the session whose claim is verified
	Purpose ProbePurpose
	// Services limits a probe step; empty means all.
	Services  []string
	Status    CycleStatus // finish
	Until     time.Time   // pause, defer: when it is over; await: when the wait is looked at again, zero for never
	Recovery  *Recovery   // the attempt that is ordered
	Approval  *Approval   // await: what is asked
	Act       *PlannedAct // act: the step of the plan
	Skipped   string      // why the approved steps of a plan that have not run will not
	Incident  *IncidentReport
	Recovered []Recovered // incidents that are over
	Verified  *Verification
	// Confirmed and ConfirmedBy say whether somebody but the agent confirmed it, and who, where a cycle finishes resolved.
	Confirmed   *bool
	ConfirmedBy Proof
	Result      json.RawMessage // finish: what was done and what was not
	Lessons     []Lesson
	Decision    *Decision
	Events      []Event
	Notices     []Notice
}

// PlannedAct is a step of an approved plan.
type PlannedAct struct {
	Approval  Approval
	Step      int   // from 1
	Interrupt int64 // instead: the run that a dead supervisor left; it is not repeated
}

// Transition is one journal write: the result of the last effect and the step that follows from it.
type Transition struct {
	Cycle  CycleID
	Result Result
	Step   Step
	At     time.Time
	Facts  []byte // what the step was decided from, as package decide/replay writes it
}

// Empty reports whether the transition has nothing to write: the step is derived from the journal as it stands.
func (t Transition) Empty() bool {
	r, s := t.Result, t.Step
	nothingDone := r.Session == nil && len(r.Runs) == 0 && len(r.Checks) == 0 && len(r.Events) == 0 && len(r.Notices) == 0
	nothingNew := s.Session == nil && s.Decision == nil && s.Recovery == nil && s.Verified == nil && s.Incident == nil &&
		len(s.Recovered) == 0 && len(s.Events) == 0 && len(s.Notices) == 0
	return nothingDone && nothingNew && s.Kind != StepFinish && s.Kind != StepAwait && s.Kind != StepDefer
}
