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

// CycleRow is a cycle in a list, with what its sessions add up to.
func CycleRow(c store.CycleSummary) any { return cycleRow(c.Cycle, c.Sessions) }

// CycleDetail is a cycle with its policy and what was decided in it.
func CycleDetail(c store.CycleSummary, decisions []ops.Decision) any {
	return cycleWhole(c.Cycle, c.Sessions, decisions)
}

// EventRow is an event.
func EventRow(e ops.Event) any { return eventRow(e) }

// LineRow is a line of a transcript.
func LineRow(l ops.Line) any { return line{Seq: l.Seq, At: l.At, Line: l.Text} }

func sessionWhole(s ops.Session) sessionDetail {
	return sessionDetail{
		Session:      sessionRow(s),
		OutcomeJSON:  document(s.OutcomeJSON),
		HandoffJSON:  document(s.HandoffJSON),
		HandoffError: text(s.HandoffError),
	}
}

func cycleWhole(c ops.Cycle, sessions []ops.Session, decisions []ops.Decision) cycleDetail {
	out := cycleDetail{
		Cycle: cycleRow(c, sessions), Policy: c.Policy, Result: document(c.Result), Escalations: make([]escalation, 0, len(decisions)),
	}
	for _, d := range decisions {
		out.Escalations = append(out.Escalations, escalationRow(d))
	}
	return out
}
