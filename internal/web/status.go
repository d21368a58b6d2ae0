package web

import "claudeops/internal/ops"

// badge is a status as shown: icon, word and colour, never the colour alone.
type badge struct {
	Tone string // ok, warn, bad, run, hand, unknown: one colour each
	Icon string
	Word string
}

// badgeOf is the badge of a cycle: a repair that nobody confirmed and a wait for a provider are not what their status says.
func badgeOf(c ops.Cycle) badge {
	switch {
	case c.RefutedAt != nil:
		return badge{"bad", "octagon-x", "Resolved, did not hold"}
	case c.Status == ops.CycleResolved && c.Verified != nil && !*c.Verified:
		return badge{"warn", "circle-question-mark", "Resolved, unverified"}
	case c.Status == ops.CycleQueued && c.StartedAt != nil && c.WakeAt != nil:
		return badge{"unknown", "clock", "Waiting"}
	}
	return cycleBadge(c.Status)
}

func cycleBadge(s ops.CycleStatus) badge {
	switch s {
	case ops.CycleQueued:
		return badge{"unknown", "clock", "Queued"}
	case ops.CycleRunning:
		return badge{"run", "loader", "Running"}
	case ops.CycleWaitingHuman:
		return badge{"hand", "hand", "Needs approval"}
	case ops.CycleHealthy:
		return badge{"ok", "circle-check", "Healthy"}
	case ops.CycleResolved:
		return badge{"ok", "circle-check", "Resolved"}
	case ops.CycleNeedsHuman:
		return badge{"hand", "hand", "Needs you"}
	case ops.CycleSuppressed:
		return badge{"warn", "triangle-alert", "Suppressed"}
	case ops.CycleBlocked:
		return badge{"warn", "triangle-alert", "Blocked"}
	case ops.CyclePartial:
		return badge{"warn", "triangle-alert", "Partial"}
	case ops.CycleFailed:
		return badge{"bad", "octagon-x", "Failed"}
	case ops.CycleCancelled:
		return badge{"unknown", "ban", "Cancelled"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(s))}
}

// sessionBadge shows the outcome of a session if it has one. escalated reports whether the supervisor accepted the
// session's request for the next tier.
func sessionBadge(s ops.Session, escalated bool) badge {
	switch s.Status {
	case ops.SessionQueued:
		return badge{"unknown", "clock", "Queued"}
	case ops.SessionRunning:
		return badge{"run", "loader", "Running"}
	case ops.SessionCompleted:
		return outcomeBadge(s.Outcome, escalated)
	case ops.SessionFailed:
		return badge{"bad", "octagon-x", "Failed"}
	case ops.SessionTimedOut:
		return badge{"bad", "octagon-x", "Timed out"}
	case ops.SessionCancelled:
		return badge{"unknown", "ban", "Cancelled"}
	case ops.SessionInterrupted:
		return badge{"warn", "triangle-alert", "Interrupted"}
	case ops.SessionPartial:
		return badge{"warn", "triangle-alert", "Partial"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(s.Status))}
}

func outcomeBadge(o ops.OutcomeKind, escalated bool) badge {
	if escalated {
		return badge{"warn", "trending-up", "Escalated"}
	}
	switch o {
	case ops.OutcomeHealthy:
		return badge{"ok", "circle-check", "Healthy"}
	case ops.OutcomeResolved:
		return badge{"ok", "circle-check", "Resolved"}
	case ops.OutcomeEscalate:
		return badge{"warn", "trending-up", "Asked to escalate"}
	case ops.OutcomeNeedsHuman:
		return badge{"hand", "hand", "Needs you"}
	case ops.OutcomeInconclusive:
		return badge{"unknown", "circle-question-mark", "Inconclusive"}
	}
	return badge{"ok", "circle-check", "Succeeded"}
}

func healthBadge(h ops.Health) badge {
	switch h {
	case ops.Healthy:
		return badge{"ok", "circle-check", "Healthy"}
	case ops.Degraded:
		return badge{"warn", "triangle-alert", "Degraded"}
	case ops.Down:
		return badge{"bad", "octagon-x", "Down"}
	}
	return badge{"unknown", "circle-question-mark", "Unknown"}
}

func levelBadge(l ops.Level) badge {
	switch l {
	case ops.LevelInfo:
		return badge{"unknown", "info", "Info"}
	case ops.LevelWarning:
		return badge{"warn", "triangle-alert", "Warning"}
	case ops.LevelCritical:
		return badge{"bad", "octagon-x", "Critical"}
	}
	return badge{"unknown", "info", plain(string(l))}
}

func verdictBadge(v ops.Verdict) badge {
	switch v {
	case ops.VerdictEscalate:
		return badge{"warn", "trending-up", "Escalated"}
	case ops.VerdictRefused:
		return badge{"bad", "octagon-x", "Refused"}
	case ops.VerdictSuppressed:
		return badge{"warn", "triangle-alert", "Suppressed"}
	case ops.VerdictBlocked:
		return badge{"warn", "triangle-alert", "Blocked"}
	case ops.VerdictNeedsHuman:
		return badge{"hand", "hand", "Needs you"}
	case ops.VerdictApproval:
		return badge{"hand", "hand", "Needs approval"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(v))}
}

// stopText describes why a session was stopped.
func stopText(c ops.StopCause) string {
	switch c {
	case ops.StopNone:
		return ""
	case ops.StopUser:
		return "Stopped by a person"
	case ops.StopShutdown:
		return "The supervisor was shut down"
	case ops.StopWall:
		return "It exceeded the maximum session time"
	case ops.StopIdle:
		return "It sent no output for too long"
	case ops.StopTool:
		return "One tool call ran for too long"
	case ops.StopCrash:
		return "The supervisor crashed while the session was running"
	case ops.StopLease:
		return "Its host lost the lease"
	case ops.StopInvariant:
		return "A tool ran without permission from the guard"
	case ops.StopJournal:
		return "Its output could not be written to the journal"
	case ops.StopLoop:
		return "It was repeating itself"
	case ops.StopBudget:
		return "It reached its budget"
	case ops.StopDeadline:
		return "It exceeded the time limit of its recovery level"
	}
	return string(c)
}

func contextText(m ops.ContextMode) string {
	switch m {
	case ops.ContextFresh:
		return "New conversation"
	case ops.ContextResume:
		return "Resumed conversation"
	case ops.ContextHandoff:
		return "Handoff"
	}
	return string(m)
}

// roleText is the role of a session, empty for the ordinary work of its tier.
func roleText(r ops.Role) string {
	switch r {
	case ops.RoleWork, "":
		return ""
	case ops.RoleManager:
		return "Manager"
	case ops.RolePlanner:
		return "Planner"
	case ops.RoleJudge:
		return "Judge"
	}
	return plain(string(r))
}
