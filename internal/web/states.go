package web

import (
	_ "embed" // for the table of states
	"strings"
	"sync"
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
	for _, e := range states() {
		if e.state == string(state) && (e.kind == kind || e.kind == "" && kind != kindStep) {
			found = e.badge // what its kind has comes later
		}
	}
	return found
}

//go:embed states.list
var stateTable string

var states = sync.OnceValue(func() []stateBadge {
	var out []stateBadge
	for line := range strings.Lines(stateTable) {
		if words := strings.Fields(line); words[0] != "#" {
			out = append(out, stateBadge{
				strings.Trim(words[0], "-"), words[1], badge{words[2], words[3], strings.Join(words[4:], " ")},
			})
		}
	}
	return out
})

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
