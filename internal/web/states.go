package web

import (
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/story"
)

// badge is a status as shown: icon, word and colour, never the colour alone.
type badge struct {
	Tone string // ok, warn, bad, run, hand, unknown: one colour each
	Icon string
	Word string
}

// The kinds of states whose words have another meaning than elsewhere.
const (
	kindAction   = "action"
	kindApproval = "approval"
	kindNotice   = "notice"
	kindOutcome  = "outcome"
	kindStep     = "step"
)

// stateBadge is the badge of a state, or of a state of one kind only.
type stateBadge struct {
	kind, state string
	badge       badge
}

// stateOf is the badge of a state of the journal. A word has the same badge everywhere, unless the table has one for its kind.
func stateOf[S ~string](kind string, state S) badge {
	found := badge{"unknown", "circle-question-mark", plain(string(state))}
	table := states()
	if kind == kindStep {
		table = storyStates()
	}
	for _, e := range table {
		if e.state == string(state) && (e.kind == "" || e.kind == kind) {
			found = e.badge // what its kind has comes later
		}
	}
	return found
}

func states() []stateBadge {
	return []stateBadge{
		{"", "queued", badge{"unknown", "clock", "Queued"}},
		{"", "running", badge{"run", "loader", "Running"}},
		{"", "waiting_human", badge{"hand", "hand", "Needs approval"}},
		{"", "healthy", badge{"ok", "circle-check", "Healthy"}},
		{"", "resolved", badge{"ok", "circle-check", "Resolved"}},
		{"", "needs_human", badge{"hand", "hand", "Needs you"}},
		{"", "suppressed", badge{"warn", "triangle-alert", "Suppressed"}},
		{"", "blocked", badge{"warn", "triangle-alert", "Blocked"}},
		{"", "partial", badge{"warn", "triangle-alert", "Partial"}},
		{"", "failed", badge{"bad", "octagon-x", "Failed"}},
		{"", "timed_out", badge{"bad", "octagon-x", "Timed out"}},
		{"", "cancelled", badge{"unknown", "ban", "Cancelled"}},
		{"", "interrupted", badge{"warn", "triangle-alert", "Interrupted"}},
		{"", "completed", badge{"ok", "circle-check", "Succeeded"}},
		{"", "inconclusive", badge{"unknown", "circle-question-mark", "Inconclusive"}},
		{"", "escalate", badge{"warn", "trending-up", "Escalated"}},
		{kindOutcome, "escalate", badge{"warn", "trending-up", "Asked to escalate"}},
		{"", "degraded", badge{"warn", "triangle-alert", "Degraded"}},
		{"", "down", badge{"bad", "octagon-x", "Down"}},
		{"", "info", badge{"unknown", "info", "Info"}},
		{"", "warning", badge{"warn", "triangle-alert", "Warning"}},
		{"", "critical", badge{"bad", "octagon-x", "Critical"}},
		{"", "refused", badge{"bad", "octagon-x", "Refused"}},
		{"", "approval", badge{"hand", "hand", "Needs approval"}},
		{"", "pending", badge{"hand", "hand", "Needs approval"}},
		{"", "approved", badge{"unknown", "clock", "Approved"}},
		{kindApproval, "approved", badge{"ok", "circle-check", "Approved"}},
		{"", "not_approved", badge{"unknown", "ban", "Not approved"}},
		{"", "skipped", badge{"unknown", "ban", "Skipped"}},
		{"", "denied", badge{"warn", "ban", "Denied"}},
		{"", "expired", badge{"unknown", "clock", "Expired"}},
		{"", "withdrawn", badge{"unknown", "ban", "No answer needed"}},
		{"", "requested", badge{"unknown", "clock", "Requested"}},
		{"", "started", badge{"run", "loader", "Running"}},
		{"", "done", badge{"ok", "circle-check", "Done"}},
		{"", "undone", badge{"warn", "rotate-ccw", "Undone"}},
		{kindAction, "refused", badge{"unknown", "ban", "Refused"}},
		{kindNotice, "pending", badge{"run", "clock", "Waiting"}},
		{"", "sent", badge{"ok", "circle-check", "Sent"}},
		{"", "dead", badge{"bad", "octagon-x", "Failed"}},
		{kindNotice, "skipped", badge{"unknown", "bell-off", "No target"}},
		{"", "allow", badge{"ok", "circle-check", "Allowed"}},
		{"", "deny", badge{"bad", "ban", "Denied"}},
		{"", "open", badge{"hand", "hand", "Open"}},
		{"", "acknowledged", badge{"unknown", "user", "Acknowledged"}},
		{"", "snoozed", badge{"unknown", "bell-off", "Snoozed"}},
		{"", "unverified", badge{"warn", "circle-question-mark", "Unverified"}},
		{"", "works", badge{"ok", "circle-check", "Works"}},
		{"", "PASS", badge{"ok", "circle-check", "Passed"}},
		{"", "FAIL", badge{"bad", "octagon-x", "Failed"}},
		{"", "CONDITIONAL", badge{"hand", "hand", "Conditional"}},
		{"", "Write", badge{"warn", "plus", "Written"}},
		{"", "Edit", badge{"warn", "wrench", "Changed"}},
		{"", "MultiEdit", badge{"warn", "wrench", "Changed"}},
		{"", "NotebookEdit", badge{"warn", "wrench", "Changed"}},
		{"", "Read", badge{"ok", "eye", "Read"}},
	}
}

// storyStates are the badges of stories.
func storyStates() []stateBadge {
	return []stateBadge{
		{kindStep, "detected", badge{"bad", "triangle-alert", "Detected"}},
		{kindStep, "looked", badge{"run", "eye", "Looked"}},
		{kindStep, "tried", badge{"run", "wrench", "Tried"}},
		{kindStep, "undone", badge{"ok", "rotate-ccw", "Undone"}},
		{kindStep, "refused", badge{"warn", "shield", "Refused"}},
		{kindStep, "asked", badge{"hand", "hand", "Asked"}},
		{kindStep, "answered", badge{"run", "user", "Answered"}},
		{kindStep, "repaired", badge{"ok", "wrench", "Repaired"}},
		{kindStep, "verified", badge{"ok", "circle-check", "Verified"}},
		{kindStep, "still_wrong", badge{"bad", "octagon-x", "Still wrong"}},
		{kindStep, "told", badge{"run", "bell", "Told"}},
		{kindStep, "nothing_tried", badge{"unknown", "ban", "Nothing tried"}},
	}
}

// healthBadge is called for every check of every service.
func healthBadge(h ops.Health) badge {
	switch h {
	case ops.Healthy:
		return badge{"ok", "circle-check", "Healthy"}
	case ops.Degraded:
		return badge{"warn", "triangle-alert", "Degraded"}
	case ops.Down:
		return badge{"bad", "octagon-x", "Down"}
	case api.HealthStale:
		return badge{"unknown", "clock", "Stale"}
	case ops.Unknown:
	}
	return badge{"unknown", "circle-question-mark", "Unknown"}
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
	return stateOf("", c.Status)
}

// sessionBadge shows the outcome of a session if it has one. escalated reports whether the supervisor accepted the
// session's request for the next tier.
func sessionBadge(s ops.Session, escalated bool) badge {
	switch {
	case s.Status != ops.SessionCompleted || s.Outcome == "" && !escalated:
		return stateOf("", s.Status)
	case escalated:
		return stateOf("", ops.OutcomeEscalate)
	}
	return stateOf(kindOutcome, s.Outcome)
}

func incidentBadge(i ops.Incident, now time.Time) badge {
	switch {
	case i.Status == ops.IncidentOpen && i.Handled:
		return badge{"run", "loader", "Being repaired"}
	case i.Status == ops.IncidentOpen && i.Denied(now):
		return badge{"unknown", "ban", "No agent"}
	case i.Status == ops.IncidentSnoozed && !i.Holds(now):
		return stateOf("", ops.IncidentOpen)
	}
	return stateOf("", i.Status)
}

func judgeBadge(v ops.Verification) badge { return stateOf("", strings.ToUpper(v.Verdict)) }

// stepBadge is the icon, the word and the colour of a step of a story; what did not help is red.
func stepBadge(s story.Step) badge {
	shown := stateOf(kindStep, s.Kind)
	if s.Bad {
		shown.Tone = "bad"
	}
	return shown
}

// subjectLink leads to the row that a step tells of; nil where it has no page.
func subjectLink(s ops.Subject) *pageLink {
	page, known := map[ops.SubjectKind]string{
		ops.SubjectAction: "/actions/", ops.SubjectApproval: "/approvals/", ops.SubjectCycle: "/cycles/", ops.SubjectIncident: "/incidents/",
		ops.SubjectSession: "/sessions/",
	}[s.Kind]
	if !known {
		return nil
	}
	return &pageLink{page + s.ID, ops.Capital(string(s.Kind)) + " " + s.ID}
}
