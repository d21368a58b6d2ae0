package web

import (
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
)

// Every state has a word of its own; only what nobody knows has a question mark.
func TestEveryStateHasABadge(t *testing.T) {
	for kind, states := range map[string][]any{
		"cycle": {
			ops.CycleQueued, ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleHealthy, ops.CycleResolved, ops.CycleNeedsHuman,
			ops.CycleSuppressed, ops.CycleBlocked, ops.CyclePartial, ops.CycleFailed, ops.CycleCancelled,
		},
		"session": {
			ops.SessionQueued, ops.SessionRunning, ops.SessionCompleted, ops.SessionFailed, ops.SessionTimedOut, ops.SessionCancelled,
			ops.SessionInterrupted, ops.SessionPartial,
		},
		kindOutcome: {ops.OutcomeHealthy, ops.OutcomeResolved, ops.OutcomeEscalate, ops.OutcomeNeedsHuman},
		"verdict": {
			ops.VerdictEscalate, ops.VerdictRefused, ops.VerdictSuppressed, ops.VerdictBlocked, ops.VerdictNeedsHuman, ops.VerdictApproval,
		},
		kindAction: {
			ops.ActionRequested, ops.ActionStarted, ops.ActionDone, ops.ActionFailed, ops.ActionUndone, ops.ActionInterrupted,
			ops.ActionRefused, ops.PlanPending, ops.PlanApproved, ops.PlanNotApproved, ops.PlanRunning, ops.PlanSkipped,
		},
		kindApproval: {ops.ApprovalPending, ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalExpired, ops.ApprovalWithdrawn},
		kindNotice:   {ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped},
		"incident":   {ops.IncidentOpen, ops.IncidentAcknowledged, ops.IncidentSnoozed, ops.IncidentResolved},
		"level":      {ops.LevelInfo, ops.LevelWarning, ops.LevelCritical},
		kindStory: {
			postmortem.Detected, postmortem.Opened, postmortem.Cycle, postmortem.Session, postmortem.Decision, postmortem.Recovery,
			postmortem.Probe, postmortem.Action, postmortem.Guard, postmortem.Approval, postmortem.Notice, postmortem.Called, postmortem.Untold,
			postmortem.Person, postmortem.Refuted, postmortem.Resolved,
		},
		kindStep: {
			postmortem.StepDetected, postmortem.StepLooked, postmortem.StepTried, postmortem.StepUndone, postmortem.StepRefused,
			postmortem.StepAsked, postmortem.StepRepaired, postmortem.StepVerified,
		},
	} {
		for _, state := range states {
			if shown := stateOf(kind, words(state)); shown.Icon == "circle-question-mark" || shown.Word == "" {
				t.Errorf("%s %v is shown as %+v", kind, state, shown)
			}
		}
	}
	if got := stateOf("", "new\x1b[31m"); got != (badge{"unknown", "circle-question-mark", "new"}) {
		t.Errorf("an unknown state is shown as %+v", got)
	}
}
