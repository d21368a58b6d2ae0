package web

import (
	"fmt"
	"net/http"

	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
)

// entryView is one line of the timeline of an incident.
type entryView struct {
	Badge     badge
	At        stamp
	Text      string
	Session   ops.SessionID
	Cycle     ops.CycleID
	CyclePath string
	Approval  int64
	Action    int64
}

func (m moment) timeline(story ops.IncidentStory) []entryView {
	var out []entryView
	for _, e := range postmortem.Timeline(story) {
		view := entryView{
			Badge: entryBadge(e), At: m.stamp(e.At), Text: firstLine(e.Text, 400), Session: e.Session, Cycle: e.Cycle,
			Approval: e.Approval, Action: e.Action,
		}
		if e.Cycle != 0 {
			view.CyclePath = cyclePath(e.Cycle)
		}
		out = append(out, view)
	}
	return out
}

// entryBadge is the icon, the word and the colour of an entry.
func entryBadge(e postmortem.Entry) badge {
	tone := levelBadge(e.Level).Tone
	switch e.Kind {
	case postmortem.Detected:
		return badge{tone, "triangle-alert", "Detected"}
	case postmortem.Opened:
		return badge{tone, "octagon-x", "Opened"}
	case postmortem.Cycle:
		return badge{tone, "refresh-cw", "Cycle"}
	case postmortem.Session:
		return badge{tone, "terminal", "Session"}
	case postmortem.Decision:
		return badge{tone, "arrow-up", "Escalation"}
	case postmortem.Recovery:
		return badge{tone, "rotate-ccw", "Recovery"}
	case postmortem.Probe:
		return badge{tone, "activity", "Probe"}
	case postmortem.Action:
		return badge{tone, "play", "Action"}
	case postmortem.Guard:
		return badge{tone, "shield", "Guard"}
	case postmortem.Approval:
		return badge{"hand", "hand", "Approval"}
	case postmortem.Notice:
		return badge{tone, "bell", "Notice"}
	case postmortem.Called:
		return badge{"hand", "hand", "Human called"}
	case postmortem.Person:
		return badge{tone, "user", "Person"}
	case postmortem.Refuted:
		return badge{tone, "rotate-ccw", "Did not hold"}
	case postmortem.Resolved:
		return badge{"ok", "circle-check", "Resolved"}
	}
	return badge{tone, "info", plain(string(e.Kind))}
}

const actionRun = "run"

// runAgain asks whether to start another cycle for an incident.
func runAgain(i ops.Incident) question {
	what := "the environment " + i.Environment
	if i.Service != "" {
		what = plain(i.Service)
	}
	return question{
		ID: fmt.Sprintf("run-%d", i.ID), Button: "Run again", Icon: "play", Title: fmt.Sprintf("Run a cycle for incident %d again?", i.ID),
		Text: "Tier 1 checks " + what + " now. Limits, approvals and the budget apply as always.", Action: fmt.Sprintf("/incidents/%d/run", i.ID),
		Yes: "Run again", No: "Cancel",
	}
}

// runIncident queues another cycle for an incident.
func (s *server) runIncident(w http.ResponseWriter, r *http.Request) {
	id, ok := rowID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such incident.")
		return
	}
	if _, _, err := s.desk.RunAgain(r.Context(), by(r), id, ""); err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/incidents/%d?done=%s", id, actionRun), http.StatusSeeOther)
}

// incidentReport responds with the report of an incident as a Markdown file.
func (s *server) incidentReport(w http.ResponseWriter, r *http.Request) {
	id, ok := rowID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such incident.")
		return
	}
	story, err := s.Store.IncidentStory(r.Context(), id)
	if err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="incident-%d.md"`, id))
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(postmortem.Markdown(story, nil, s.Clock()))) // the client may have disconnected
}
