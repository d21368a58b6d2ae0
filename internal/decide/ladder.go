package decide

import (
	"fmt"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// attempt is a failure on its way up the ladder, and how the cycle ends where there is no ladder.
type attempt struct {
	failure recovery.Failure
	// withoutRecovery ends the cycle where recovery is off.
	withoutRecovery func() ops.Step
	// last ends it where the ladder has nothing left; nil means force-done.
	last func() ops.Step
}

func recoverInterrupted(v view) ops.Step {
	return nextAttempt(v, attempt{failure: v.failure(), withoutRecovery: func() ops.Step { return interruptedWithoutRecovery(v) }})
}

func recoverFailed(v view) ops.Step {
	return nextAttempt(v, attempt{failure: v.failure(), withoutRecovery: func() ops.Step { return failedWithoutRecovery(v) }})
}

func recoverInconclusive(v view) ops.Step {
	return nextAttempt(v, attempt{failure: v.failure(), withoutRecovery: func() ops.Step { return inconclusiveWithoutRecovery(v) }})
}

func recoverRefuted(v view) ops.Step {
	return nextAttempt(v, attempt{failure: v.failure(), withoutRecovery: func() ops.Step { return refutedWithoutRecovery(v) }})
}

// refused asks the same tier for a proposal that can be accepted; when it has had its chances, a human is called.
func refused(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	f := v.failure()
	f.Outcome = recovery.OutcomeInvalid
	f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: d.Reason})
	end := func() ops.Step {
		p := v.problemOf(ops.ProblemRefused, ops.LevelCritical, d, h)
		return notifyOnce(v, finishForHuman(v, ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, notice.NeedsHuman(v.told(p))))
	}
	return nextAttempt(v, attempt{failure: f, withoutRecovery: end, last: end})
}

// nextAttempt orders the next attempt at the tier's work, or ends the cycle with what there is.
func nextAttempt(v view, s attempt) ops.Step {
	if !v.policy.Recovery.Enabled {
		return s.withoutRecovery()
	}
	f := s.failure
	class := recovery.Classify(f, rules(v.policy.Recovery.Rules))
	history := v.transitions()
	move := recovery.Next(f, class, history, v.offer(), limits(v.policy.Recovery.Limits), v.now)
	if s.last != nil && move.Level > ops.RecoveryNudge {
		// Another plan or another agent would not make a refused proposal acceptable.
		return s.last()
	}
	var step ops.Step
	switch {
	case move.Level != ops.RecoveryForceDone && move.Level != ops.RecoveryNone:
		step = attemptAgain(v, f, class, move, history)
	case v.mayEscalateRefuted():
		step = escalateRefuted(v)
	case v.unseen() && len(v.checks(ops.ProbeRecheck, v.last.ID)) == 0:
		return lookAgain(v)
	case v.unseen() && v.allProven(ops.ProbeRecheck):
		step = recoveredUnseen(v, f, class, move, history)
	default:
		step = forceDone(v, f, class, move, history)
	}
	for _, p := range move.Passed {
		step.Events = append(step.Events, v.event(ops.LevelInfo, ops.EventRecovery, notice.Passed(p.Level, p.Reason)))
	}
	return step
}

// attemptAgain queues the attempt that the ladder orders: at the same tier, with the same permissions.
func attemptAgain(v view, f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Step {
	handler := v.worker()
	session := &ops.NewSession{
		ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
		Handler: handler, ContextMode: v.last.ContextMode, Level: move.Level,
	}
	switch move.Level {
	case ops.RecoveryNudge:
		session.ContextMode = ops.ContextResume
	case ops.RecoveryReplan:
		session.ContextMode = v.freshContext()
		if planner, ok := v.policy.Handler(move.Planner); ok {
			session = v.askPlanner(planner)
		}
	case ops.RecoveryFallback:
		other, _ := v.policy.Handler(move.Handler)
		other.Tier, other.Permissions = v.last.Tier, v.last.May()
		session.Handler, session.ContextMode = other, v.freshContext()
	case ops.RecoveryRetry, ops.RecoveryNone, ops.RecoveryForceDone:
	}
	r := v.row(f, class, move, history)
	reason := move.Reason
	step := ops.Step{
		Kind: ops.StepQueue, Reason: reason, Session: session, Recovery: &r,
		Events: []ops.Event{v.event(ops.LevelWarning, ops.EventRecovery, reason)},
	}
	if approach := summary(*v.last); move.Level == ops.RecoveryReplan && approach != "" {
		step.Lessons = v.lessons(lessonKnownBadPath, fmt.Sprintf("This did not help (%s): %s", v.whyItFailed(*v.last), approach))
	}
	return step
}

// worker is the handler of the last session, as it was: a fallback keeps the tier it stood in for.
func (v view) worker() ops.Handler {
	h, ok := v.policy.Handler(v.last.Handler)
	if !ok {
		h = ops.Handler{ID: v.last.Handler, Family: v.last.Family, Agent: v.last.Agent, Model: v.last.Model}
	}
	h.Tier, h.Permissions = v.last.Tier, v.last.May()
	return h
}

// freshContext is how a new conversation at the last session's place gets its facts.
func (v view) freshContext() ops.ContextMode {
	if v.last.ParentID == nil {
		return ops.ContextFresh
	}
	return ops.ContextHandoff
}

func (v view) row(f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Recovery {
	t := move.Record(f, class, history, v.now)
	r := ops.Recovery{
		CycleID: v.cycle.ID, SessionID: v.last.ID, Tier: v.last.Tier, Level: t.Level, Action: t.Action,
		ErrorType: t.ErrorType, PreviousLevels: []ops.RecoveryLevel{}, EnteredAt: v.now,
		Variant: move.Variant, Handler: t.Handler, Reason: t.Reason,
	}
	r.PreviousLevels = append(r.PreviousLevels, t.PreviousLevels...)
	if move.Wait > 0 {
		r.NotBefore = &t.NotBefore
	}
	if !t.Deadline.IsZero() {
		r.Deadline = &t.Deadline
	}
	return r
}
