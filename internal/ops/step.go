package ops

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
	StepAct       StepKind = "act"       // run one step of an approved plan or of a reflex
	StepDefer     StepKind = "defer"     // queue the cycle for later, with the environment's slot free
	StepAwait     StepKind = "await"     // wait for a human, with the environment's slot free
	StepFinish    StepKind = "finish"    // end the cycle
)

// Leaves reports whether the worker leaves the cycle after the step.
func (k StepKind) Leaves() bool {
	return k == StepRest || k == StepDefer || k == StepAwait || k == StepFinish
}

// Reach is who has to look again after something was written.
type Reach int

// Each includes the ones before it.
const (
	ReachPages  Reach = iota // a session says or does something: who shows it
	ReachPeople              // a cycle goes on, and there may be something to tell: who tells people
	ReachWatch               // a cycle has ended or waits: who watches and starts cycles
	ReachAll                 // anything may have to be done now
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
	Services  []string
	Status    CycleStatus // finish
	Until     time.Time   // pause, defer: when it is over; await: when the wait is looked at again, zero for never
	Recovery  *Recovery   // the attempt that is ordered
	Approval  *Approval   // await: what is asked
	Act       *PlannedAct // act: the step of the plan or reflex
	Skipped   string      // why the approved steps of a plan that have not run will not
	Incident  *IncidentReport
	Left      *IncidentReport // beside it: what trust leaves to people
	Reduced   []Reduced       // services that are trusted less from now on
	Recovered []Recovered     // incidents that are over
	ReflexOff []ReflexOff     // earned reflexes that did not help
	Repair    *Repair         // finish: what actions of the supervisor alone repaired; nil: nothing
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

// PlannedAct is a step of an approved plan, or of a reflex.
type PlannedAct struct {
	Approval  Approval
	Reflex    *Reflex // nil: of the plan
	Step      int     // from 1
	Interrupt int64   // instead: the run that a dead supervisor left; it is not repeated
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
		s.Left == nil && len(s.Reduced) == 0 && len(s.Recovered) == 0 && len(s.Events) == 0 && len(s.Notices) == 0
	return nothingDone && nothingNew && s.Kind != StepFinish && s.Kind != StepAwait && s.Kind != StepDefer
}

// Reach of what is written: while its cycle goes on, nobody else has anything to do but those who tell people.
func (t Transition) Reach() Reach {
	r, s := t.Result, t.Step
	switch {
	case s.Kind.Leaves():
		return ReachWatch
	case len(r.Notices)+len(r.Checks)+len(s.Notices)+len(s.Reduced)+len(s.Recovered)+len(s.ReflexOff) > 0,
		s.Incident != nil, s.Left != nil, s.Verified != nil:
		return ReachPeople
	}
	return ReachPages
}

const (
	maxProblem     = 90 // characters
	maxServiceName = 40
)

// Trouble is a service that is not healthy, and why. Agents and alerts write these texts too.
type Trouble struct {
	Service string
	Status  Health
	Error   string
}

// ProblemOf names a problem in one short line: "redis: connection refused", "redis and web: connection refused" or
// "redis: connection refused and 2 more". It is empty without any trouble.
func ProblemOf(all []Trouble) string {
	var names, reasons []string
	for _, t := range all {
		name := Cut(firstLine(t.Service), maxServiceName)
		if name == "" || slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		reasons = append(reasons, troubleReason(t))
	}
	if len(names) == 0 {
		return ""
	}
	subject, rest := names[0], ""
	switch more := len(names) - 1; {
	case more == 1 && reasons[0] == reasons[1]:
		subject += " and " + names[1]
	case more > 0:
		rest = fmt.Sprintf(" and %d more", more)
	}
	room := maxProblem - utf8.RuneCountInString(subject+": "+rest)
	return subject + ": " + Cut(reasons[0], max(room, 10)) + rest
}

func troubleReason(t Trouble) string {
	switch reason := ShortReason(t.Error); {
	case reason != "":
		return reason
	case t.Status == Down || t.Status == Degraded:
		return string(t.Status)
	}
	return "needs attention"
}

var (
	goError = regexp.MustCompile(`(?:\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b|\blookup \S+|` +
		`^(?:Get|Head|Post|Put) "?https?:|\bconnect: )`)
	httpStatus = regexp.MustCompile(`^HTTP (\d{3})(?: [A-Za-z' -]+)?$`)
	within     = regexp.MustCompile(`^no answer within (\S+)$`)
)

// ShortReason says in a few plain words why a check failed, in one line. It removes the addresses and the names of operations that Go
// puts before a network error.
func ShortReason(text string) string {
	text = firstLine(text)
	if goError.MatchString(text) {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".:; ")
	for _, known := range [][2]string{
		{"context deadline exceeded", "no answer in time"},
		{"i/o timeout", "no answer in time"},
		{"no such host", "host not found"},
		{"Client.Timeout exceeded", "no answer in time"},
	} {
		if strings.Contains(text, known[0]) {
			return known[1]
		}
	}
	if text == "EOF" || text == "unexpected EOF" {
		return "connection closed without an answer"
	}
	if found := httpStatus.FindStringSubmatch(text); found != nil {
		return "HTTP " + found[1]
	}
	if found := within.FindStringSubmatch(text); found != nil {
		if d, err := time.ParseDuration(found[1]); err == nil {
			return "no answer within " + limitText(d)
		}
	}
	return text
}

// limitText is a time limit as people write it.
func limitText(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// firstLine is the first line of a text without characters that hide or reorder others.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return OneLine(text, len(text))
}
