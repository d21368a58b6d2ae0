package decide

import (
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// interruptedWithoutRecovery: without a ladder Tier 1 is run again once, because it only looks, and a repair is not repeated.
func interruptedWithoutRecovery(v view) ops.Step {
	if v.last.Tier == ops.Tier1 && v.last.RetryOf == nil {
		reason := notice.Interrupted(*v.last, true)
		return ops.Step{
			Kind: ops.StepQueue, Reason: reason,
			Session: &ops.NewSession{
				ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
				Handler: v.worker(), ContextMode: v.last.ContextMode,
			},
			Events: []ops.Event{v.event(ops.LevelWarning, ops.EventSession, reason)},
		}
	}
	return giveUp(v, notice.Interrupted(*v.last, false), ops.LevelCritical)
}

func failedWithoutRecovery(v view) ops.Step {
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 || v.last.StopCause == ops.StopInvariant {
		// Something is known to be broken by now, and the repair did not come to its end; or the agent has got past its gates.
		level = ops.LevelCritical
	}
	return giveUp(v, notice.Failed(*v.last), level)
}

func inconclusiveWithoutRecovery(v view) ops.Step {
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 {
		level = ops.LevelCritical
	}
	return giveUp(v, notice.Inconclusive(*v.last), level)
}

func giveUp(v view, reason string, level ops.Level) ops.Step {
	if level != ops.LevelCritical {
		step := finish(ops.CycleFailed, reason, v.event(level, ops.EventSession, reason))
		if !v.failedBefore() {
			step.Notices = []ops.Notice{v.notice(ops.NoticeFailed, level, notice.CannotCheck(v.toldOf(reason)))}
		}
		return step
	}
	p := v.problem(ops.ProblemUnfinished, level, reason)
	return notifyOnce(v, finishForHuman(v, ops.CycleFailed, p), v.notice(ops.NoticeFailed, level, notice.Unfinished(v.told(p))))
}

// refutedWithoutRecovery: a claim that does not hold needs a human where there is no ladder.
func refutedWithoutRecovery(v view) ops.Step {
	p := v.problem(ops.ProblemRefuted, ops.LevelCritical, notice.RefutedBy(*v.last, v.badAfter(*v.last)))
	return notifyOnce(v, finishForHuman(v, ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, notice.Refuted(v.told(p))))
}
