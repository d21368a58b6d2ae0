package decide

import (
	"slices"
	"time"

	"claudeops/internal/ops"
)

// view is a cycle as the table looks at it: its methods are the conditions of the rows.
type view struct{ charge }

// What a view leads to: each value answers the questions of one subject.
func (v view) reflexes() reflexes { return reflexes{v} }
func (v view) plans() plans       { return plans{v} }
func (v view) proof() proof       { return proof{v} }
func (v view) consults() consults { return consults{v} }
func (v view) ladder() ladder     { return ladder{v} }
func (v view) human() human       { return human{v} }

// Words puts into words what is decided. Package notice has them; a decision is the same without any.
type Words interface {
	Reason(ops.Reason) string
	Notice(ops.Message) ops.Text
}

// NoWords name a reason by its kind, for those who compare decisions.
type NoWords struct{}

// Reason is the kind of the reason.
func (NoWords) Reason(r ops.Reason) string { return string(r.Kind) }

// Notice is the kind of the message.
func (NoWords) Notice(m ops.Message) ops.Text { return ops.Text{Title: string(m.Kind)} }

func newView(w Words, now ops.Claimed, at time.Time) view {
	c, j := now.Cycle, now.Journal
	p := past{words: w, cycle: c, journal: j, policy: c.Policy, now: at, newest: j.Newest(), last: j.Last(), task: taskOf(c, j)}
	return view{charge{p, p.holder().holding()}}
}

func always(view) bool { return true }

func (v view) ended() bool { return v.cycle.Status.Ended() }

func (v view) waiting() bool {
	if v.cycle.CancelRequestedAt != nil {
		return false
	}
	return v.cycle.Status == ops.CycleWaitingHuman || (v.cycle.WakeAt != nil && v.cycle.WakeAt.After(v.now))
}

// inFlight: whoever asks holds the claim and runs nothing yet, so a running session belongs to a worker that died.
func (v view) inFlight() bool { return v.newest != nil && v.newest.Status == ops.SessionRunning }

func (v view) cancelRequested() bool { return v.cycle.CancelRequestedAt != nil }

func (v view) untouched() bool { return v.newest == nil }

func (v view) unprobed() bool {
	return v.newest == nil && len(v.probed()) > 0 && len(v.checks(ops.ProbeObserve, 0)) == 0
}

// unverifiedLook is how long an unverified repair waits for a look where nothing says how often agents look.
const unverifiedLook = 24 * time.Hour

// backingOff: the attempt is ordered, and its time has not come.
func (v view) backingOff() bool {
	at := v.notBefore()
	return v.intended() && at != nil && at.After(v.now)
}

func (v view) stopped() bool { return v.newest.Status == ops.SessionCancelled }

// consultationInterrupted: a question of the supervisor touches nothing, so it may be asked again, once.
func (v view) consultationInterrupted() bool {
	n := v.newest
	return !n.Works() && n.Status == ops.SessionInterrupted && n.Attempt == v.firstConsultation(*n).Attempt
}

func (v view) interrupted() bool { return v.last.Status == ops.SessionInterrupted }

// overBudget: its money could not be reserved, so it never ran.
func (v view) overBudget() bool { return v.failed() && v.last.Failure == ops.FailureUnpaid }

// resumeRefused: a nudge whose conversation is gone is a matter of the ladder.
func (v view) resumeRefused() bool {
	return v.failed() && v.last.RecoveryLevel != ops.RecoveryNudge && v.last.ContextMode == ops.ContextResume &&
		v.last.Failure == ops.FailureResumeRefused
}

func (v view) inconclusive() bool { return v.last.Outcome == ops.OutcomeInconclusive }

func (v view) wantsHuman() bool { return v.last.Outcome == ops.OutcomeNeedsHuman }

// blindUnverified: what it asks a human about may be that it could not see something, which probes can tell.
func (v view) blindUnverified() bool {
	return v.wantsHuman() && len(v.last.Unseen) > 0 && v.unverified()
}

// blind: a session asks for a human and could not see something, while every probe of its charge is green.
func (v view) blind() bool {
	if !v.wantsHuman() || len(v.last.Unseen) == 0 {
		return false
	}
	services := v.services()
	checks := slices.DeleteFunc(v.latest(), func(c ops.Check) bool { return len(services) > 0 && !slices.Contains(services, c.Service) })
	return len(checks) > 0 && !slices.ContainsFunc(checks, ops.Check.Bad)
}

func (v view) failed() bool { return v.last.Status != ops.SessionCompleted }

func (v view) proposed() bool { return v.last.Proposed() }

func (v view) observedOnly() bool {
	return v.last.Tier == ops.Tier1 && v.last.Outcome != ops.OutcomeResolved
}

func (v view) unverified() bool {
	return len(v.verifiable()) > 0 && len(v.checks(ops.ProbeVerify, v.last.ID)) == 0
}

func (v view) refuted() bool { return len(v.badAfter(*v.last)) > 0 }

// proposed is the handoff of a session as it wrote it, or nil.
func proposed(s ops.Session) *ops.Handoff {
	if s.Proposal == nil {
		return nil
	}
	return s.Proposal.Handoff
}

// summary is what a session said it did; empty when it said nothing that can be read.
func summary(s ops.Session) string {
	if s.Report == nil {
		return ""
	}
	return s.Report.Summary
}

// Conclude names the outcome of a session that completed without structured output.
func Conclude(s ops.Session) ops.OutcomeKind {
	switch {
	case s.Proposal != nil && s.Proposal.Handoff == nil:
		return ops.OutcomeInconclusive
	case s.Proposal != nil:
		return ops.OutcomeEscalate
	case s.Tier == ops.Tier1:
		return ops.OutcomeHealthy
	default:
		return ops.OutcomeResolved
	}
}
