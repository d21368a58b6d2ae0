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
	out := Map(Verbs(), Verb.Kind)
	slices.Sort(out)
	return slices.Compact(out)
}

// Verb is what happened. Each belongs to one kind and has one line of documentation.
type Verb string

// The verbs, each with what it means; docs/events.md is made of them.
const (
	VerbAccessRefused        Verb = "access.refused"        // a request was refused: a wrong token, or a role that may not do it
	VerbActionAsked          Verb = "action.asked"          // a person asked for an action
	VerbActionEnded          Verb = "action.ended"          // an action of the supervisor has ended: done, failed or timed out
	VerbActionInterrupted    Verb = "action.interrupted"    // the supervisor was restarted while an action ran, so nobody knows its end
	VerbActionRefused        Verb = "action.refused"        // an action was not run, and why
	VerbActionSkipped        Verb = "action.skipped"        // steps of an approved plan were left out: not needed, or something held them
	VerbActionStarted        Verb = "action.started"        // the supervisor begins a step of an approved plan or of a reflex
	VerbActionUndone         Verb = "action.undone"         // the undo of an action has ended: done or failed
	VerbActionWorsened       Verb = "action.worsened"       // an action made a service worse; where there is a way back, it is taken
	VerbAgentReported        Verb = "agent.reported"        // an agent reported something that people should know
	VerbAlertChanged         Verb = "alert.changed"         // an alert from outside began, changed or ended
	VerbAlertDisputed        Verb = "alert.disputed"        // an alert fires although our own probes find the service healthy, or the reverse
	VerbAlertTested          Verb = "alert.tested"          // the test of a webhook's sender arrived
	VerbAllResumed           Verb = "all.resumed"           // a person let everything start again
	VerbAllStopped           Verb = "all.stopped"           // a person stopped everything: nothing starts, on any host
	VerbApprovalAnswered     Verb = "approval.answered"     // a question was answered by a person, or ran out
	VerbApprovalAsked        Verb = "approval.asked"        // the supervisor asked people whether it may go on
	VerbApprovalChanged      Verb = "approval.changed"      // a person changed until when a no lasts
	VerbApprovalPlanless     Verb = "approval.planless"     // a question has no plan, and why
	VerbBrakePulled          Verb = "brake.pulled"          // cycles keep failing, so no more of them start for a while
	VerbCommandRan           Verb = "command.ran"           // a person changed something by a command
	VerbCommitApproved       Verb = "commit.approved"       // a person approved a commit of a repository for actions
	VerbCommitKept           Verb = "commit.kept"           // what a session committed was not brought back to the clone, and why
	VerbCommitReturned       Verb = "commit.returned"       // a branch that a session committed was brought back to the clone
	VerbConsultAsked         Verb = "consult.asked"         // a judge, a planner or a router is asked
	VerbContextFresh         Verb = "context.fresh"         // a session starts with a fresh context, and why
	VerbCooldownCleared      Verb = "cooldown.cleared"      // a person cleared a cooldown
	VerbCycleAccepted        Verb = "cycle.accepted"        // a cycle ended because a person accepted its repair
	VerbCycleCancelled       Verb = "cycle.cancelled"       // a cycle was cancelled
	VerbCycleCaused          Verb = "cycle.caused"          // failing checks started a cycle
	VerbCycleDenied          Verb = "cycle.denied"          // a cycle ended because a person said no
	VerbCycleFailed          Verb = "cycle.failed"          // a cycle could not be finished
	VerbCycleHandedOver      Verb = "cycle.handed_over"     // a cycle ended, and a human has to go on
	VerbCycleHeld            Verb = "cycle.held"            // a cycle ended without more work because something holds its services
	VerbCycleReleased        Verb = "cycle.released"        // a cycle left services alone, so another one may start for them
	VerbCycleResolved        Verb = "cycle.resolved"        // a cycle ended, and what it was about works
	VerbCycleStarted         Verb = "cycle.started"         // a person started a cycle
	VerbCycleStopped         Verb = "cycle.stopped"         // a person asked for the end of a cycle
	VerbCycleUnanswered      Verb = "cycle.unanswered"      // a cycle ended because nobody answered
	VerbDeadmanMissed        Verb = "deadman.missed"        // no cycle has ended for too long
	VerbDeadmanOver          Verb = "deadman.over"          // cycles end again
	VerbEscalationDecided    Verb = "escalation.decided"    // work was handed to another tier
	VerbEscalationHuman      Verb = "escalation.human"      // a human is needed for what was proposed
	VerbEscalationRefused    Verb = "escalation.refused"    // a proposal to hand work on was refused
	VerbFileTaken            Verb = "file.taken"            // a session left a file that programs obey; the supervisor took it away
	VerbGuardBypassed        Verb = "guard.bypassed"        // a session did something that no gate had allowed, or its gates could not be read
	VerbHandoffWarned        Verb = "handoff.warned"        // a handoff is usable, but something about it is wrong
	VerbHeartbeatRenewed     Verb = "heartbeat.renewed"     // a person made a new address for a heartbeat
	VerbHostClock            Verb = "host.clock"            // the clock of a host and that of the database disagree, or agree again
	VerbHostDrained          Verb = "host.drained"          // a person changed whether a host takes work
	VerbHostLost             Verb = "host.lost"             // a host gave no sign of life, and another one continues its cycle
	VerbHostReady            Verb = "host.ready"            // sessions can start again
	VerbHostTroubled         Verb = "host.troubled"         // no session can start on a host, or its records are damaged
	VerbIncidentAcknowledged Verb = "incident.acknowledged" // a person takes care of an incident
	VerbIncidentEased        Verb = "incident.eased"        // some findings of an incident are over, and it stays open
	VerbIncidentOver         Verb = "incident.over"         // an incident ended by what our own looks found
	VerbIncidentReopened     Verb = "incident.reopened"     // a repair did not hold, and the incident is open again
	VerbIncidentResolved     Verb = "incident.resolved"     // a person ended an incident
	VerbIncidentSnoozed      Verb = "incident.snoozed"      // a person put an incident off
	VerbIncidentUnverified   Verb = "incident.unverified"   // a repair is claimed, and nothing has confirmed it
	VerbJudgeSilent          Verb = "judge.silent"          // the judge gave no usable answer
	VerbLocalRefused         Verb = "local.refused"         // a local process was refused at a door of the supervisor
	VerbLoginChanged         Verb = "login.changed"         // somebody logged in or out, or tried to
	VerbMemoryChanged        Verb = "memory.changed"        // a lesson was added, changed or removed
	VerbNoticeFailed         Verb = "notice.failed"         // a notice could not be delivered
	VerbNoticeRetried        Verb = "notice.retried"        // a person sends a notice again
	VerbNoticeSkipped        Verb = "notice.skipped"        // notices are only recorded, because no target is configured
	VerbOutcomeWarned        Verb = "outcome.warned"        // the report of a session is missing or cannot be used
	VerbPathUnseen           Verb = "path.unseen"           // a session looked for what agents cannot see; sandbox.readable opens it
	VerbPermissionWarned     Verb = "permission.warned"     // a session did or asked for what its tier may not do
	VerbProbeDisagreed       Verb = "probe.disagreed"       // our own looks, or an agent and our probe, say different things of a service
	VerbProbeFailed          Verb = "probe.failed"          // a probe of a cycle found a service down or degraded
	VerbProbeWaited          Verb = "probe.waited"          // a service gets time to follow the one that it depends on
	VerbRecoveryBegun        Verb = "recovery.begun"        // a session failed, and the next step of the ladder is tried
	VerbRecoveryPassed       Verb = "recovery.passed"       // a step of the ladder was left out, and why
	VerbReflexAsked          Verb = "reflex.asked"          // a repair has held three times: people are asked whether it may become a reflex
	VerbReflexFailed         Verb = "reflex.failed"         // a reflex did not help, or speaks against itself, and is switched off
	VerbReflexGaveUp         Verb = "reflex.gave_up"        // reflexes did not help, so an agent looks
	VerbReflexSwitched       Verb = "reflex.switched"       // a person switched a reflex
	VerbReplyTaken           Verb = "reply.taken"           // a person answered by phone or link
	VerbRequestDone          Verb = "request.done"          // a person changed something by a page or the API; its effect has its own event
	VerbReviewAsked          Verb = "review.asked"          // people are asked whether a repair is good enough
	VerbServiceForgotten     Verb = "service.forgotten"     // a person removed a service that is no longer configured
	VerbSessionFailed        Verb = "session.failed"        // a session failed and is not tried again
	VerbSessionInterrupted   Verb = "session.interrupted"   // a session was interrupted by a restart
	VerbKeyInside            Verb = "session.key_inside"    // the API key is inside a session, because no proxy can hold it
	VerbSessionStopped       Verb = "session.stopped"       // a person stopped a session
	VerbSessionWarned        Verb = "session.warned"        // a session ran with a limit or a problem that people should know
	VerbSettingsChanged      Verb = "settings.changed"      // a person changed the configuration by a form, or had it read again
	VerbSilenceChanged       Verb = "silence.changed"       // a person silenced a service, or ended a silence
	VerbSpendingWarned       Verb = "spending.warned"       // the day's budget is nearly spent, or spent
	VerbTokenMade            Verb = "token.made"            // a person made a token
	VerbTokenRevoked         Verb = "token.revoked"         // a person revoked a token
	VerbTrustChanged         Verb = "trust.changed"         // a person changed how far a service is trusted to agents
	VerbTrustLowered         Verb = "trust.lowered"         // a repair that did not hold lowered the trust
	VerbUpdateAsked          Verb = "update.asked"          // a person or a schedule asked for an update
	VerbUpdateChanged        Verb = "update.changed"        // an update went on: kept, taken back or stuck
	VerbWallRefused          Verb = "wall.refused"          // a wall around a session refused something
	VerbWallsBroken          Verb = "walls.broken"          // the walls around a session did not hold, and it was stopped
	VerbWatchChanged         Verb = "watch.changed"         // a service failed, recovered, or flaps
)

// family is what verbs of one kind have in common: the type of what their events tell; nil: nothing of their own.
type family struct {
	kind   EventKind
	detail Detail
	verbs  []Verb
}

func families() []family {
	return []family{
		{EventAction, ActionDetail{}, []Verb{
			VerbActionEnded, VerbActionInterrupted, VerbActionRefused, VerbActionUndone, VerbActionWorsened,
		}},
		{EventAction, ReflexDetail{}, []Verb{VerbReflexAsked, VerbReflexFailed}},
		{EventAction, UpdateDetail{}, []Verb{VerbUpdateChanged}},
		{EventAction, nil, []Verb{VerbActionSkipped, VerbActionStarted, VerbReflexGaveUp}},
		{EventAgent, nil, []Verb{VerbAgentReported}},
		{EventAlert, RequestDetail{}, []Verb{VerbAlertTested}},
		{EventAlert, WatchDetail{}, []Verb{VerbAlertChanged}},
		{EventAlert, nil, []Verb{VerbAlertDisputed}},
		{EventApproval, ApprovalDetail{}, []Verb{VerbApprovalAnswered, VerbApprovalChanged}},
		{EventApproval, nil, []Verb{VerbApprovalAsked, VerbApprovalPlanless, VerbCycleAccepted, VerbCycleDenied, VerbCycleUnanswered}},
		{EventAudit, ActionDetail{}, []Verb{VerbActionAsked}},
		{EventAudit, CommitDetail{}, []Verb{VerbCommitApproved}},
		{EventAudit, ProbeDetail{}, []Verb{VerbHeartbeatRenewed}},
		{EventAudit, ReflexDetail{}, []Verb{VerbReflexSwitched}},
		{EventAudit, ReplyDetail{}, []Verb{VerbReplyTaken}},
		{EventAudit, RequestDetail{}, []Verb{
			VerbAccessRefused, VerbCommandRan, VerbCycleStarted, VerbCycleStopped, VerbHostDrained, VerbLoginChanged, VerbRequestDone,
			VerbSessionStopped, VerbSettingsChanged,
		}},
		{EventAudit, TokenDetail{}, []Verb{VerbTokenMade}},
		{EventAudit, UpdateDetail{}, []Verb{VerbUpdateAsked}},
		{EventAudit, nil, []Verb{VerbAllResumed, VerbAllStopped, VerbServiceForgotten, VerbTokenRevoked}},
		{EventBrake, nil, []Verb{VerbBrakePulled}},
		{EventContext, nil, []Verb{VerbContextFresh}},
		{EventCooldownCleared, ActionDetail{}, []Verb{VerbCooldownCleared}},
		{EventCycle, nil, []Verb{VerbCycleCancelled, VerbCycleFailed, VerbCycleHandedOver, VerbCycleResolved}},
		{EventDeadman, DeadmanDetail{}, []Verb{VerbDeadmanMissed}},
		{EventDeadman, nil, []Verb{VerbDeadmanOver}},
		{EventEscalation, nil, []Verb{VerbCycleHeld, VerbEscalationDecided, VerbEscalationHuman, VerbEscalationRefused}},
		{EventGuard, SessionDetail{}, []Verb{VerbGuardBypassed}},
		{EventGuard, WallDetail{}, []Verb{VerbLocalRefused, VerbPathUnseen, VerbWallRefused}},
		{EventGuard, nil, []Verb{VerbCommitKept, VerbCommitReturned, VerbFileTaken, VerbKeyInside, VerbWallsBroken}},
		{EventHandoff, nil, []Verb{VerbHandoffWarned}},
		{EventHost, ClockDetail{}, []Verb{VerbHostClock}},
		{EventHost, nil, []Verb{VerbHostLost, VerbHostReady, VerbHostTroubled}},
		{EventIncident, IncidentDetail{}, []Verb{
			VerbIncidentAcknowledged, VerbIncidentEased, VerbIncidentOver, VerbIncidentReopened, VerbIncidentResolved, VerbIncidentSnoozed,
			VerbIncidentUnverified,
		}},
		{EventMemory, MemoryDetail{}, []Verb{VerbMemoryChanged}},
		{EventNotification, NoticeDetail{}, []Verb{VerbNoticeFailed}},
		{EventNotification, nil, []Verb{VerbNoticeRetried, VerbNoticeSkipped, VerbSpendingWarned}},
		{EventOutcome, nil, []Verb{VerbOutcomeWarned}},
		{EventPermission, WallDetail{}, []Verb{VerbPermissionWarned}},
		{EventProbe, ProbeDetail{}, []Verb{VerbProbeDisagreed, VerbProbeFailed, VerbProbeWaited}},
		{EventRecovery, nil, []Verb{VerbRecoveryBegun, VerbRecoveryPassed}},
		{EventSession, SessionDetail{}, []Verb{VerbSessionInterrupted}},
		{EventSession, nil, []Verb{VerbSessionFailed, VerbSessionWarned}},
		{EventSilence, SilenceDetail{}, []Verb{VerbSilenceChanged}},
		{EventTrust, TrustDetail{}, []Verb{VerbTrustChanged, VerbTrustLowered}},
		{EventVerify, nil, []Verb{VerbConsultAsked, VerbJudgeSilent, VerbReviewAsked}},
		{EventWatch, WatchDetail{}, []Verb{VerbWatchChanged}},
		{EventWatch, nil, []Verb{VerbCycleCaused, VerbCycleReleased}},
	}
}

// Verbs returns every verb.
func Verbs() []Verb {
	var out []Verb
	for _, f := range families() {
		out = append(out, f.verbs...)
	}
	return out
}

func (v Verb) family() family {
	for _, f := range families() {
		if slices.Contains(f.verbs, v) {
			return f
		}
	}
	return family{}
}

// Kind is what a verb is about; empty if there is no such verb.
func (v Verb) Kind() EventKind { return v.family().kind }

// Detail is of the type of what its events tell; nil: they tell nothing of their own.
func (v Verb) Detail() Detail { return v.family().detail }
