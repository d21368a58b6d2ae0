package api

import (
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// The rows below are what the API sends; the command line prints the same with -o json.

// SessionRow is a session in a list.
func SessionRow(s ops.Session) any { return sessionRow(s) }

// SessionDetail is a whole session.
func SessionDetail(s ops.Session) any { return sessionWhole(s) }

// JudgedSession is a whole session with what the guard decided in it.
func JudgedSession(s ops.Session, judged []ops.GuardRecord) any {
	out := struct {
		SessionReport
		Guard []GuardDecision `json:"guard_decisions"`
	}{sessionWhole(s), make([]GuardDecision, 0, len(judged))}
	for _, r := range judged {
		out.Guard = append(out.Guard, guardRow(r))
	}
	return out
}

// CycleRow is a cycle in a list, with what its sessions add up to.
func CycleRow(c store.CycleSummary) any { return cycleRow(c.Cycle, c.Sessions) }

// CycleDetail is a cycle with its policy and everything that was decided in it.
func CycleDetail(c ops.Claimed, verified []ops.Verification) any { return cycleWhole(c, verified) }

// EventRow is an event.
func EventRow(e ops.Event) any { return eventRow(e) }

// GuardRow is a decision of the guard.
func GuardRow(r ops.GuardRecord) any { return guardRow(r) }

// CooldownRow is what is left of an action on a service.
func CooldownRow(environment string, c ops.Cooldown) Cooldown { return cooldownRow(environment, c) }

// LineRow is a line of a transcript.
func LineRow(l ops.Line) any { return Line{Seq: l.Seq, At: l.At, Line: l.Text} }

func sessionWhole(s ops.Session) SessionReport {
	return SessionReport{
		Session:      sessionRow(s),
		OutcomeJSON:  document(s.OutcomeJSON),
		HandoffJSON:  document(s.HandoffJSON),
		HandoffError: text(s.HandoffError),
	}
}

func cycleWhole(c ops.Claimed, verified []ops.Verification) CycleReport {
	j := c.Journal
	out := CycleReport{
		Cycle: cycleRow(c.Cycle, j.Sessions), Policy: c.Cycle.Policy, Result: document(c.Cycle.Result),
		Escalations: make([]Escalation, 0, len(j.Decisions)), Recoveries: make([]Recovery, 0, len(j.Recoveries)),
		Verifications: make([]Verification, 0, len(verified)), Approvals: make([]Approval, 0, len(j.Approvals)),
	}
	for _, d := range j.Decisions {
		out.Escalations = append(out.Escalations, escalationRow(d))
	}
	for _, r := range j.Recoveries {
		out.Recoveries = append(out.Recoveries, RecoveryRow(r))
	}
	for _, v := range verified {
		out.Verifications = append(out.Verifications, verificationRow(v))
	}
	for _, a := range j.Approvals {
		out.Approvals = append(out.Approvals, ApprovalRow(a))
	}
	return out
}
