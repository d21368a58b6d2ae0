package decide

import (
	"fmt"
	"strings"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// interruptedWithoutRecovery: without a ladder Tier 1 is run again once, because it only looks, and a repair is not repeated.
func (v view) interruptedWithoutRecovery() ops.Step {
	reason := fmt.Sprintf("session %d (%s) was interrupted (%s)", v.last.ID, v.last.Tier, v.last.StopCause)
	if v.last.Tier == ops.Tier1 && v.last.RetryOf == nil {
		reason += "; it only looks, so it is run again once"
		return ops.Step{
			Kind: ops.StepQueue, Reason: reason,
			Session: &ops.NewSession{
				ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
				Handler: v.worker(), ContextMode: v.last.ContextMode,
			},
			Events: []ops.Event{v.event(ops.LevelWarning, ops.EventSession, reason)},
		}
	}
	if v.last.Tier > ops.Tier1 {
		reason += "; what it started may have taken effect, so it is not repeated"
	} else {
		reason += " for the second time"
	}
	return v.giveUp(reason, ops.LevelCritical)
}

func (v view) failedWithoutRecovery() ops.Step {
	reason := fmt.Sprintf("session %d (%s) %s: %s", v.last.ID, v.last.Tier, words(v.last.Status), v.last.Error)
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 || v.last.StopCause == ops.StopInvariant {
		// Something is known to be broken by now, and the repair did not come to its end; or the agent has got past its gates.
		level = ops.LevelCritical
	}
	return v.giveUp(reason, level)
}

func (v view) inconclusiveWithoutRecovery() ops.Step {
	reason := fmt.Sprintf("session %d (%s) gave no usable outcome: %s", v.last.ID, v.last.Tier, v.last.Error)
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 {
		level = ops.LevelCritical
	}
	return v.giveUp(reason, level)
}

func (v view) giveUp(reason string, level ops.Level) ops.Step {
	if level != ops.LevelCritical {
		step := v.finish(ops.CycleFailed, reason, v.event(level, ops.EventSession, reason))
		if !v.failedBefore() {
			step.Notices = []ops.Notice{v.notice(ops.NoticeFailed, level, v.cannotCheck(reason))}
		}
		return step
	}
	p := problem{
		title: "Repair did not finish", level: level, reason: reason,
		todo: "look at the affected services: what the session started may have taken effect; then run a cycle or repair by hand",
	}
	return v.notifyOnce(v.finishForHuman(ops.CycleFailed, p), v.notice(ops.NoticeFailed, level, notice.Unfinished(v.told(p))))
}

// cannotCheck is the notice of a cycle that did not see its services.
func (v view) cannotCheck(reason string) notice.Text {
	told := v.toldOf(reason)
	told.Todo = "find the cause, then run a cycle: until then agents do not check the services"
	return notice.Partial(told, ops.Tier1, nil)
}

// refutedWithoutRecovery: a claim that does not hold needs a human where there is no ladder.
func (v view) refutedWithoutRecovery() ops.Step {
	var found []string
	for _, c := range v.badAfter(*v.last) {
		found = append(found, fmt.Sprintf("%s %s (%s)", c.Service, c.Status, c.Error))
	}
	reason := fmt.Sprintf("session %d (%s) says all is well, but probes still find %s", v.last.ID, v.last.Tier, joinAnd(found))
	if len(found) == 0 {
		reason = fmt.Sprintf("session %d (%s) says all is well, but the judge does not agree", v.last.ID, v.last.Tier)
	}
	p := problem{
		title: "A claimed repair did not hold", level: ops.LevelCritical, reason: reason,
		todo: fmt.Sprintf("repair %s by hand and resolve the incident", strings.Join(v.affected(), ", ")),
	}
	return v.notifyOnce(v.finishForHuman(ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, notice.Refuted(v.told(p))))
}
