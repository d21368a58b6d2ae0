package decide

import (
	"slices"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// forceDone ends the cycle with what there is, and says what a human should do about the rest.
func forceDone(v view, f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Step {
	move.Level, move.Action = ops.RecoveryForceDone, ops.ActionForceDone
	ending := recovery.Finish(recovery.Facts{
		Failure: f, Class: class, Move: move, History: history, Completed: v.completed(), Down: v.stillDown(), Budget: v.reached(*v.last),
		StillBad: v.stillBad(*v.last),
	})
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 || len(v.stillDown()) > 0 || v.last.StopCause == ops.StopInvariant {
		level = ops.LevelCritical
	}
	p := problem{kind: ops.ProblemUnfinished, level: level, reason: ending.FailureReason, todo: ending.Recommendation}
	step := finishForHuman(v, ops.CyclePartial, p)
	r := v.row(f, class, move, history)
	step.Recovery = &r
	step.Lessons = v.lessonOf(f, class)
	raw, err := ending.Encode()
	if err != nil {
		step.Events = append(step.Events, v.event(ops.LevelCritical, ops.EventRecovery, notice.BadSchema(err)))
	}
	step.Result = raw
	if level == ops.LevelCritical || !v.failedBefore() {
		step = notifyOnce(v, step, v.notice(ops.NoticePartial, level, notice.Partial(v.told(p), v.last.Tier, ending.CompletedSteps)))
	}
	return step
}

// unseen: no agent delivered anything, and probes can look at everything that was found bad.
func (v view) unseen() bool {
	services := v.ours()
	return len(services) > 0 && len(v.servicesToVerify()) == len(services) &&
		!slices.ContainsFunc(v.journal.Sessions, func(s ops.Session) bool {
			return s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive
		})
}

// recoveredUnseen ends a cycle whose services recovered while no agent could look. Nobody is called for what is over, and people hear
// once that the agents fail.
func recoveredUnseen(v view, f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Step {
	step := forceDone(v, f, class, move, history)
	reason := notice.RecoveredUnseen(v.ours(), step.Reason)
	step.Incident, step.Notices, step.Lessons = nil, nil, nil
	step.Reason, step.Events = reason, []ops.Event{v.event(ops.LevelWarning, ops.EventCycle, reason)}
	step.Recovered = v.repaired(ops.ProbeRecheck, ops.ProofProbe, reason)
	if !v.failedBefore() {
		step.Notices = []ops.Notice{v.notice(ops.NoticePartial, ops.LevelInfo, notice.Unseen(v.toldOf(reason)))}
	}
	return step
}

// failedBefore: nobody watches while Tier 1 cannot look; said once, not every hour.
func (v view) failedBefore() bool {
	return len(v.journal.Before) > 0 && slices.Contains([]ops.CycleStatus{ops.CycleFailed, ops.CyclePartial}, v.journal.Before[0].Status)
}

// completed lists what was done, from what was recorded and measured and not from what was claimed.
func (v view) completed() []string {
	var out []string
	for _, s := range v.journal.Sessions {
		if s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive && !v.isRefuted(s) {
			out = append(out, notice.SessionEnded(s))
		}
		for _, g := range v.journal.Effects[s.ID].Done {
			out = append(out, notice.WasAllowed(s, g))
		}
	}
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeVerify && c.Status == ops.Healthy {
			out = append(out, notice.ProbeHealthy(c.Service))
		}
	}
	return out
}

func (v view) isRefuted(s ops.Session) bool { return v.refutation(s) != "" }

// stillDown lists the services whose last check in this cycle found them down.
func (v view) stillDown() []string {
	latest := map[string]ops.Health{}
	var order []string
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeRunning {
			continue
		}
		if _, seen := latest[c.Service]; !seen {
			order = append(order, c.Service)
		}
		latest[c.Service] = c.Status
	}
	return slices.DeleteFunc(order, func(s string) bool { return latest[s] != ops.Down })
}
