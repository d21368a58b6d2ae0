package ops

import "slices"

// EventKind is what an event is about.
type EventKind string

// The kinds of events.
const (
	EventAction          EventKind = "action" // done by the supervisor to a service
	EventAgent           EventKind = "agent"  // said by an agent
	EventAlert           EventKind = "alert"
	EventApproval        EventKind = "approval"
	EventAudit           EventKind = "audit" // done by a person
	EventBrake           EventKind = "brake"
	EventContext         EventKind = "context"
	EventCooldownCleared EventKind = "cooldown_cleared"
	EventCycle           EventKind = "cycle"
	EventDeadman         EventKind = "deadman"
	EventEscalation      EventKind = "escalation"
	EventGuard           EventKind = "guard"
	EventHandoff         EventKind = "handoff"
	EventHost            EventKind = "host"
	EventIncident        EventKind = "incident"
	EventMemory          EventKind = "memory"
	EventNotification    EventKind = "notification"
	EventOutcome         EventKind = "outcome"
	EventPermission      EventKind = "permission"
	EventProbe           EventKind = "probe"
	EventRecovery        EventKind = "recovery"
	EventSession         EventKind = "session"
	EventSilence         EventKind = "silence"
	EventTrust           EventKind = "trust"
	EventVerify          EventKind = "verify"
	EventWatch           EventKind = "watch"
)

// EventKinds returns every kind of event, in alphabetical order.
func EventKinds() []EventKind {
	var out []EventKind
	for _, d := range Verbs() {
		out = append(out, d.Kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Verb is what happened. Each belongs to one kind and has one line of documentation.
type Verb string

// The verbs; docs/events.md says what each means.
const (
	VerbAccessRefused        Verb = "access.refused"
	VerbActionAsked          Verb = "action.asked"
	VerbActionEnded          Verb = "action.ended"
	VerbActionInterrupted    Verb = "action.interrupted"
	VerbActionRefused        Verb = "action.refused"
	VerbActionSkipped        Verb = "action.skipped"
	VerbActionStarted        Verb = "action.started"
	VerbActionUndone         Verb = "action.undone"
	VerbActionWorsened       Verb = "action.worsened"
	VerbAgentReported        Verb = "agent.reported"
	VerbAlertChanged         Verb = "alert.changed"
	VerbAlertDisputed        Verb = "alert.disputed"
	VerbAlertTested          Verb = "alert.tested"
	VerbApprovalAnswered     Verb = "approval.answered"
	VerbApprovalAsked        Verb = "approval.asked"
	VerbApprovalChanged      Verb = "approval.changed"
	VerbApprovalPlanless     Verb = "approval.planless"
	VerbBrakePulled          Verb = "brake.pulled"
	VerbCommandRan           Verb = "command.ran"
	VerbCommitApproved       Verb = "commit.approved"
	VerbConsultAsked         Verb = "consult.asked"
	VerbContextFresh         Verb = "context.fresh"
	VerbCooldownCleared      Verb = "cooldown.cleared"
	VerbCycleAccepted        Verb = "cycle.accepted"
	VerbCycleCancelled       Verb = "cycle.cancelled"
	VerbCycleCaused          Verb = "cycle.caused"
	VerbCycleDenied          Verb = "cycle.denied"
	VerbCycleFailed          Verb = "cycle.failed"
	VerbCycleHandedOver      Verb = "cycle.handed_over"
	VerbCycleHeld            Verb = "cycle.held"
	VerbCycleReleased        Verb = "cycle.released"
	VerbCycleResolved        Verb = "cycle.resolved"
	VerbCycleStarted         Verb = "cycle.started"
	VerbCycleStopped         Verb = "cycle.stopped"
	VerbCycleUnanswered      Verb = "cycle.unanswered"
	VerbDeadmanMissed        Verb = "deadman.missed"
	VerbDeadmanOver          Verb = "deadman.over"
	VerbEscalationDecided    Verb = "escalation.decided"
	VerbEscalationHuman      Verb = "escalation.human"
	VerbEscalationRefused    Verb = "escalation.refused"
	VerbGuardBypassed        Verb = "guard.bypassed"
	VerbHandoffWarned        Verb = "handoff.warned"
	VerbHeartbeatRenewed     Verb = "heartbeat.renewed"
	VerbHostClock            Verb = "host.clock"
	VerbHostDrained          Verb = "host.drained"
	VerbHostLost             Verb = "host.lost"
	VerbHostReady            Verb = "host.ready"
	VerbHostTroubled         Verb = "host.troubled"
	VerbIncidentAcknowledged Verb = "incident.acknowledged"
	VerbIncidentEased        Verb = "incident.eased"
	VerbIncidentOver         Verb = "incident.over"
	VerbIncidentReopened     Verb = "incident.reopened"
	VerbIncidentResolved     Verb = "incident.resolved"
	VerbIncidentSnoozed      Verb = "incident.snoozed"
	VerbIncidentUnverified   Verb = "incident.unverified"
	VerbJudgeSilent          Verb = "judge.silent"
	VerbLocalRefused         Verb = "local.refused"
	VerbLoginChanged         Verb = "login.changed"
	VerbMemoryChanged        Verb = "memory.changed"
	VerbNoticeFailed         Verb = "notice.failed"
	VerbNoticeRetried        Verb = "notice.retried"
	VerbNoticeSkipped        Verb = "notice.skipped"
	VerbOutcomeWarned        Verb = "outcome.warned"
	VerbPermissionWarned     Verb = "permission.warned"
	VerbProbeDisagreed       Verb = "probe.disagreed"
	VerbProbeFailed          Verb = "probe.failed"
	VerbProbeWaited          Verb = "probe.waited"
	VerbRecoveryBegun        Verb = "recovery.begun"
	VerbRecoveryPassed       Verb = "recovery.passed"
	VerbReflexAsked          Verb = "reflex.asked"
	VerbReflexFailed         Verb = "reflex.failed"
	VerbReflexGaveUp         Verb = "reflex.gave_up"
	VerbReflexSwitched       Verb = "reflex.switched"
	VerbReplyTaken           Verb = "reply.taken"
	VerbRequestDone          Verb = "request.done"
	VerbReviewAsked          Verb = "review.asked"
	VerbServiceForgotten     Verb = "service.forgotten"
	VerbSessionFailed        Verb = "session.failed"
	VerbSessionInterrupted   Verb = "session.interrupted"
	VerbKeyInside            Verb = "session.key_inside"
	VerbSessionStopped       Verb = "session.stopped"
	VerbSessionWarned        Verb = "session.warned"
	VerbSettingsChanged      Verb = "settings.changed"
	VerbSilenceChanged       Verb = "silence.changed"
	VerbSpendingWarned       Verb = "spending.warned"
	VerbTokenMade            Verb = "token.made"
	VerbTokenRevoked         Verb = "token.revoked"
	VerbTrustChanged         Verb = "trust.changed"
	VerbTrustLowered         Verb = "trust.lowered"
	VerbUpdateAsked          Verb = "update.asked"
	VerbUpdateChanged        Verb = "update.changed"
	VerbWallRefused          Verb = "wall.refused"
	VerbWallsBroken          Verb = "walls.broken"
	VerbWallsHold            Verb = "walls.hold"
	VerbWatchChanged         Verb = "watch.changed"
)

// VerbDoc is what a verb means.
type VerbDoc struct {
	Verb Verb
	Kind EventKind
	Says string
}

// Verbs returns every verb, in alphabetical order.
func Verbs() []VerbDoc { //nolint:funlen // a table
	return []VerbDoc{
		{VerbAccessRefused, EventAudit, "a request was refused: a wrong token, or a role that may not do it"},
		{VerbActionAsked, EventAudit, "a person asked for an action"},
		{VerbActionEnded, EventAction, "an action of the supervisor has ended: done, failed or timed out"},
		{VerbActionInterrupted, EventAction, "the supervisor was restarted while an action ran, so nobody knows its end"},
		{VerbActionRefused, EventAction, "an action was not run, and why"},
		{VerbActionSkipped, EventAction, "steps of an approved plan were left out, because they were no longer needed or something held them"},
		{VerbActionStarted, EventAction, "the supervisor begins a step of an approved plan or of a reflex"},
		{VerbActionUndone, EventAction, "the undo of an action has ended: done or failed"},
		{VerbActionWorsened, EventAction, "an action made its service or one that depends on it worse; where there is a way back, it is taken"},
		{VerbAgentReported, EventAgent, "an agent reported something that people should know"},
		{VerbAlertChanged, EventAlert, "an alert from outside began, changed or ended"},
		{VerbAlertDisputed, EventAlert, "an alert fires although our own probes find the service healthy, or the other way round"},
		{VerbAlertTested, EventAlert, "the test of a webhook's sender arrived"},
		{VerbApprovalAnswered, EventApproval, "a question was answered by a person, or ran out"},
		{VerbApprovalAsked, EventApproval, "the supervisor asked people whether it may go on"},
		{VerbApprovalChanged, EventApproval, "a person changed until when a no lasts"},
		{VerbApprovalPlanless, EventApproval, "a question has no plan, and why"},
		{VerbBrakePulled, EventBrake, "cycles keep failing, so no more of them start for a while"},
		{VerbCommandRan, EventAudit, "a person changed something by a command"},
		{VerbCommitApproved, EventAudit, "a person approved a commit of a repository for actions"},
		{VerbConsultAsked, EventVerify, "a judge, a planner or a router is asked"},
		{VerbContextFresh, EventContext, "a session starts with a fresh context, and why"},
		{VerbCooldownCleared, EventCooldownCleared, "a person cleared a cooldown"},
		{VerbCycleAccepted, EventApproval, "a cycle ended because a person accepted its repair"},
		{VerbCycleCancelled, EventCycle, "a cycle was cancelled"},
		{VerbCycleCaused, EventWatch, "failing checks started a cycle"},
		{VerbCycleDenied, EventApproval, "a cycle ended because a person said no"},
		{VerbCycleFailed, EventCycle, "a cycle could not be finished"},
		{VerbCycleHandedOver, EventCycle, "a cycle ended, and a human has to go on"},
		{VerbCycleHeld, EventEscalation, "a cycle ended without more work because something holds its services"},
		{VerbCycleReleased, EventWatch, "a cycle left services alone, so another one may start for them"},
		{VerbCycleResolved, EventCycle, "a cycle ended, and what it was about works"},
		{VerbCycleStarted, EventAudit, "a person started a cycle"},
		{VerbCycleStopped, EventAudit, "a person asked for the end of a cycle"},
		{VerbCycleUnanswered, EventApproval, "a cycle ended because nobody answered"},
		{VerbDeadmanMissed, EventDeadman, "no cycle has ended for too long"},
		{VerbDeadmanOver, EventDeadman, "cycles end again"},
		{VerbEscalationDecided, EventEscalation, "work was handed to another tier"},
		{VerbEscalationHuman, EventEscalation, "a human is needed for what was proposed"},
		{VerbEscalationRefused, EventEscalation, "a proposal to hand work on was refused"},
		{VerbGuardBypassed, EventGuard, "a session did something that no gate had allowed, or its gates could not be read"},
		{VerbHandoffWarned, EventHandoff, "a handoff is usable, but something about it is wrong"},
		{VerbHeartbeatRenewed, EventAudit, "a person made a new address for a heartbeat"},
		{VerbHostClock, EventHost, "the clock of a host and that of the database disagree, or agree again"},
		{VerbHostDrained, EventAudit, "a person changed whether a host takes work"},
		{VerbHostLost, EventHost, "a host gave no sign of life, and another one continues its cycle"},
		{VerbHostReady, EventHost, "sessions can start again"},
		{VerbHostTroubled, EventHost, "no session can start on a host, or its records are damaged"},
		{VerbIncidentAcknowledged, EventIncident, "a person takes care of an incident"},
		{VerbIncidentEased, EventIncident, "some findings of an incident are over, and it stays open"},
		{VerbIncidentOver, EventIncident, "an incident ended by what our own looks found"},
		{VerbIncidentReopened, EventIncident, "a repair did not hold, and the incident is open again"},
		{VerbIncidentResolved, EventIncident, "a person ended an incident"},
		{VerbIncidentSnoozed, EventIncident, "a person put an incident off"},
		{VerbIncidentUnverified, EventIncident, "a repair is claimed, and nothing has confirmed it"},
		{VerbJudgeSilent, EventVerify, "the judge gave no usable answer"},
		{VerbLocalRefused, EventGuard, "a local process was refused at a door of the supervisor"},
		{VerbLoginChanged, EventAudit, "somebody logged in or out, or tried to"},
		{VerbMemoryChanged, EventMemory, "a lesson was added, changed or removed"},
		{VerbNoticeFailed, EventNotification, "a notice could not be delivered"},
		{VerbNoticeRetried, EventNotification, "a person sends a notice again"},
		{VerbNoticeSkipped, EventNotification, "notices are only recorded, because no target is configured"},
		{VerbOutcomeWarned, EventOutcome, "the report of a session is missing or cannot be used"},
		{VerbPermissionWarned, EventPermission, "a session did or asked for what its tier may not do"},
		{VerbProbeDisagreed, EventProbe, "our own looks, or an agent and our probe, say different things of a service"},
		{VerbProbeFailed, EventProbe, "a probe of a cycle found a service down or degraded"},
		{VerbProbeWaited, EventProbe, "a service gets time to follow the one that it depends on"},
		{VerbRecoveryBegun, EventRecovery, "a session failed, and the next step of the ladder is tried"},
		{VerbRecoveryPassed, EventRecovery, "a step of the ladder was left out, and why"},
		{VerbReflexAsked, EventAction, "a repair has held three times: people are asked whether it may become a reflex"},
		{VerbReflexFailed, EventAction, "a reflex did not help, or speaks against itself, and is switched off"},
		{VerbReflexGaveUp, EventAction, "reflexes did not help, so an agent looks"},
		{VerbReflexSwitched, EventAudit, "a person switched a reflex"},
		{VerbReplyTaken, EventAudit, "a person answered by phone or link"},
		{VerbRequestDone, EventAudit, "a person changed something by a page or the API; what it did has an event of its own"},
		{VerbReviewAsked, EventVerify, "people are asked whether a repair is good enough"},
		{VerbServiceForgotten, EventAudit, "a person removed a service that is no longer configured"},
		{VerbSessionFailed, EventSession, "a session failed and is not tried again"},
		{VerbSessionInterrupted, EventSession, "a session was interrupted by a restart"},
		{VerbKeyInside, EventGuard, "the API key is inside a session, because no proxy can hold it"},
		{VerbSessionStopped, EventAudit, "a person stopped a session"},
		{VerbSessionWarned, EventSession, "a session ran with a limit or a problem that people should know"},
		{VerbSettingsChanged, EventAudit, "a person changed the configuration by a form"},
		{VerbSilenceChanged, EventSilence, "a person silenced a service, or ended a silence"},
		{VerbSpendingWarned, EventNotification, "the day's budget is nearly spent, or spent"},
		{VerbTokenMade, EventAudit, "a person made a token"},
		{VerbTokenRevoked, EventAudit, "a person revoked a token"},
		{VerbTrustChanged, EventTrust, "a person changed how far a service is trusted to agents"},
		{VerbTrustLowered, EventTrust, "a repair that did not hold lowered the trust"},
		{VerbUpdateAsked, EventAudit, "a person or a schedule asked for an update"},
		{VerbUpdateChanged, EventAction, "an update went on: kept, taken back or stuck"},
		{VerbWallRefused, EventGuard, "a wall around a session refused something"},
		{VerbWallsBroken, EventGuard, "the walls around a session did not hold, and it was stopped"},
		{VerbWallsHold, EventGuard, "the walls around a session were tried and hold"},
		{VerbWatchChanged, EventWatch, "a service failed, recovered, or flaps"},
	}
}

// Kind is what a verb is about; empty if there is no such verb.
func (v Verb) Kind() EventKind {
	for _, d := range Verbs() {
		if d.Verb == v {
			return d.Kind
		}
	}
	return ""
}
