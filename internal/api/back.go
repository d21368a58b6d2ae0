package api

import (
	"encoding/json"
	"time"

	"claudeops/internal/ops"
)

// What follows reads rows back that the API sent, so that the command line shows a journal elsewhere as it shows its own.

// Ops is the session as the journal holds it.
func (s Session) Ops() ops.Session {
	return ops.Session{
		ID: ops.SessionID(s.ID), CycleID: ops.CycleID(s.CycleID), ParentID: (*ops.SessionID)(s.ParentSessionID), RetryOf: (*ops.SessionID)(s.RetryOfSessionID),
		Attempt: s.Attempt, Role: ops.Role(s.Role), Tier: ops.Tier(s.Tier), Handler: s.Handler, Family: s.Family, Agent: s.Agent, Model: s.Model,
		PlannedID: or(s.PlannedSessionID), CLISessionID: or(s.SessionID), Status: ops.SessionStatus(s.Status),
		Outcome: ops.OutcomeKind(or(s.Outcome)), Failure: ops.FailureClass(or(s.Failure)), Error: or(s.Error), StopCause: ops.StopCause(or(s.StopCause)),
		ContextMode: ops.ContextMode(s.ContextMode), RecoveryLevel: ops.RecoveryLevel(s.RecoveryLevel),
		ExitCode: s.ExitCode, CLIVersion: or(s.CLIVersion), Owner: or(s.Owner), CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, EndedAt: s.EndedAt,
		Figures: ops.Figures{
			CostUSD: s.CostUSD, NumTurns: s.NumTurns, DurationMS: s.DurationMS, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens,
			CacheReadTokens: s.CacheReadTokens, CacheWriteTokens: s.CacheWriteTokens, ContextTokens: s.ContextTokens, ContextWindow: s.ContextWindow,
		},
	}
}

// Ops is the session as the journal holds it.
func (s SessionReport) Ops() ops.Session {
	out := s.Session.Ops()
	out.OutcomeJSON, out.HandoffJSON, out.HandoffError = raw(s.OutcomeJSON), raw(s.HandoffJSON), or(s.HandoffError)
	return out
}

// Ops is the cycle as the journal holds it.
func (c Cycle) Ops() (ops.Cycle, []ops.Session) {
	out := ops.Cycle{
		ID: ops.CycleID(c.ID), Environment: c.Environment, Trigger: ops.Trigger(c.Trigger), Status: ops.CycleStatus(c.Status),
		Reason: or(c.Reason), Prompt: or(c.Prompt), WakeAt: c.WakeAt, WakeSeq: c.WakeSeq, CancelRequestedAt: c.CancelRequestedAt,
		CancelReason: or(c.CancelReason), Owner: ops.Owner{Host: or(c.Owner), Term: c.Term}, CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
	}
	sessions := make([]ops.Session, 0, len(c.Sessions))
	for _, s := range c.Sessions {
		sessions = append(sessions, s.Ops())
	}
	return out, sessions
}

// Ops is the cycle as the journal holds it, with what its judges made of it.
func (c CycleReport) Ops() (ops.Claimed, []ops.Verification) {
	cycle, sessions := c.Cycle.Ops()
	cycle.Policy, cycle.Result = c.Policy, raw(c.Result)
	out := ops.Claimed{Cycle: cycle, Journal: ops.Journal{Sessions: sessions}}
	for _, e := range c.Escalations {
		out.Journal.Decisions = append(out.Journal.Decisions, e.ops())
	}
	for _, r := range c.Recoveries {
		out.Journal.Recoveries = append(out.Journal.Recoveries, r.ops())
	}
	for _, a := range c.Approvals {
		out.Journal.Approvals = append(out.Journal.Approvals, a.Ops())
	}
	verified := make([]ops.Verification, 0, len(c.Verifications))
	for _, v := range c.Verifications {
		verified = append(verified, ops.Verification{
			ID: v.ID, SessionID: ops.SessionID(v.SessionID), JudgeSessionID: ops.SessionID(v.JudgeSessionID), Verdict: v.Verdict, Confidence: v.Confidence,
			TotalScore: v.TotalScore, Dimensions: v.Dimensions, Reasoning: v.Reasoning, FailureReasons: v.FailureReasons,
			Recommendations: v.Recommendations, At: v.At,
		})
	}
	return out, verified
}

func (e Escalation) ops() ops.Decision {
	return ops.Decision{
		ID: e.ID, CycleID: ops.CycleID(e.CycleID), SessionID: ops.SessionID(e.SessionID), SourceHandler: e.SourceHandler, TargetHandler: or(e.TargetHandler),
		Reason: e.Reason, Proposed: or(e.Proposed), Depth: e.Depth, MaxDepth: e.MaxDepth, TargetValidated: e.TargetValidated,
		SelfEscalationRejected: e.SelfEscalationRejected, ProcessMode: ops.ProcessMode(e.ProcessMode), ManagerPresent: e.ManagerPresent, Path: e.Path,
		Services: e.Services, Verdict: ops.Verdict(e.Decision), Check: or(e.Check), At: e.At,
	}
}

func (r Recovery) ops() ops.Recovery {
	out := ops.Recovery{
		ID: r.ID, CycleID: ops.CycleID(r.CycleID), SessionID: ops.SessionID(r.SessionID), Tier: ops.Tier(r.Tier), Level: ops.RecoveryLevel(r.Level),
		Action: r.Action, ErrorType: r.ErrorType, EnteredAt: r.EnteredAt, NotBefore: r.NotBefore, Deadline: r.Deadline, Handler: or(r.Handler), Reason: r.Reason,
	}
	for _, l := range r.PreviousLevels {
		out.PreviousLevels = append(out.PreviousLevels, ops.RecoveryLevel(l))
	}
	return out
}

// Ops is the incident as the journal holds it.
func (i Incident) Ops() ops.Incident {
	return ops.Incident{
		ID: i.ID, Environment: i.Environment, Service: or(i.Service), Check: or(i.Check), Class: i.Class, Title: i.Title, Level: ops.Level(i.Level),
		Status: ops.IncidentStatus(i.Status), Occurrences: i.Occurrences, FirstCycle: ops.CycleID(i.FirstCycleID), LastCycle: ops.CycleID(i.LastCycleID),
		Waiting: (*ops.CycleID)(i.WaitingCycleID), Report: raw(i.Report), OpenedAt: i.OpenedAt, UpdatedAt: i.UpdatedAt, AcknowledgedAt: i.AcknowledgedAt,
		AcknowledgedBy: or(i.AcknowledgedBy), SnoozedUntil: i.SnoozedUntil, ResolvedAt: i.ResolvedAt, ResolvedBy: or(i.ResolvedBy),
		Resolution: or(i.Resolution), Reminders: i.Reminders,
	}
}

// Ops is the question as the journal holds it.
func (a Approval) Ops() ops.Approval {
	return ops.Approval{
		ID: a.ID, CycleID: ops.CycleID(a.CycleID), SessionID: ops.SessionID(a.SessionID), Environment: a.Environment, Kind: ops.ApprovalKind(a.Kind),
		Tier: ops.Tier(a.Tier), Handler: a.Handler, Status: ops.ApprovalStatus(a.Status), Reason: a.Reason, RequestedAt: a.RequestedAt,
		ExpiresAt: a.ExpiresAt, AnsweredAt: a.AnsweredAt, AnsweredBy: or(a.AnsweredBy), Answer: or(a.Answer),
	}
}

// Ops is the event as the journal holds it.
func (e Event) Ops() ops.Event {
	return ops.Event{
		ID: e.ID, At: e.At, CycleID: (*ops.CycleID)(e.CycleID), SessionID: (*ops.SessionID)(e.SessionID), Environment: or(e.Environment),
		Level: ops.Level(e.Level), Kind: e.Kind, Service: or(e.Service), Message: e.Message,
	}
}

// Ops is the memory as the journal holds it.
func (m Memory) Ops() ops.Memory {
	return ops.Memory{
		ID: m.ID, Environment: m.Environment, Category: m.Category, Service: or(m.Service), Observation: m.Observation, Confidence: m.Confidence,
		Source: m.Source, SessionID: (*ops.SessionID)(m.SessionID), CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ExpiresAt: m.ExpiresAt,
	}
}

// Ops is the decision as the journal holds it.
func (d GuardDecision) Ops() ops.GuardRecord {
	return ops.GuardRecord{
		ID: d.ID, SessionID: ops.SessionID(d.SessionID), At: d.At, Tier: ops.Tier(d.Tier), Gate: ops.Gate(d.Gate), ToolUseID: or(d.ToolUseID), Tool: d.Tool,
		Input: d.Input, Digest: d.Digest, Allowed: d.Verdict == "allow", Rule: d.Rule, Reason: d.Reason, Mutating: d.Mutating,
		Took: time.Duration(d.TookUS) * time.Microsecond,
	}
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// raw is a document as it is stored: its JSON, or the text that was none.
func raw(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return out
}

// Ops is the silence as the journal holds it.
func (q Silence) Ops() ops.Silence {
	return ops.Silence{
		ID: q.ID, Environment: or(q.Environment), Service: or(q.Service), Group: or(q.Group), Probe: or(q.Probe), Labels: q.Labels,
		Reason: q.Reason, Author: q.Author, CreatedAt: q.CreatedAt, From: q.From, Until: q.Until,
	}
}

// Ops is the notice as the journal holds it.
func (n Notification) Ops() ops.Notice {
	out := ops.Notice{
		ID: n.ID, CycleID: (*ops.CycleID)(n.CycleID), Kind: n.Kind, Level: ops.Level(n.Level), Environment: or(n.Environment), Service: or(n.Service),
		Status: ops.NoticeStatus(n.Status), Attempts: n.Attempts, Error: or(n.Error), CreatedAt: n.CreatedAt, SentAt: n.SentAt, Title: n.Title, Body: n.Body,
	}
	if n.Target == "second" {
		out.Target = ops.TargetSecond
	}
	if n.NextAt != nil {
		out.NextAt = *n.NextAt
	}
	return out
}
