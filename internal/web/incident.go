package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/story"
)

// incidentPage is the page of one incident.
type incidentPage struct {
	incidentView
	Several  bool
	Story    story.Story
	Told     story.Told
	Changed  []string  // before it, since the service was last healthy
	Again    question  // start another cycle
	Ask      *question // the action to confirm
	Conflict string    // why the action was not taken
}

func (s *incidents) incident(r *http.Request, conflict string) (page, error) {
	return s.showIncident(r, "", conflict)
}

// askIncident is the target of a link in a notification: it shows the action and asks for confirmation.
func (s *incidents) askIncident(r *http.Request) (page, error) {
	return s.showIncident(r, r.PathValue("action"), "")
}

func (s *incidents) showIncident(r *http.Request, action, conflict string) (page, error) {
	id := rowID(r)
	rows, err := s.desk.Story(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	m, i := moment{s.Clock()}, rows.Incident
	view := incidentPage{
		incidentView: incidentOf(i), Several: len(s.Environments) > 1, Conflict: conflict, Again: runAgain(i),
		Story: story.Tell(rows, m.now), Told: story.ToldBy(rows.Notices),
		Changed: rows.Changed.Lines(),
	}
	if action != "" {
		q, ok := actionQuestion(i, action)
		if !ok {
			return page{}, noPage()
		}
		if i.ResolvedAt == nil && (action != actionAcknowledge || i.Status != ops.IncidentAcknowledged) {
			view.Ask = &q
		} else {
			view.Conflict = "Already " + strings.ToLower(incidentBadge(i, m.now).Word) + " " + m.incidentNote(i) + "."
		}
	}
	p := page{Title: fmt.Sprintf("Incident %d", id), Nav: "incidents", Body: view, Static: view.Ask != nil || conflict != ""}
	if done := queried(r, "done"); done != "" && conflict == "" {
		p.Flash = doneText(done, strconv.FormatInt(id, 10))
		switch {
		case done == actionRun:
			p.Flash += s.heldText(r.Context(), i.Environment)
		case done == actionResolve && i.ResolvedAt != nil:
			left, err := s.Store.Watch.LeftWrong(r.Context(), i)
			if err != nil {
				return page{}, err
			}
			if left != "" {
				p.Flash += " Note: " + plain(left) + "."
			}
		}
	}
	return p, nil
}

func (s *incidents) changeIncident(r *http.Request) (string, error) {
	id, ctx, action := rowID(r), r.Context(), r.PathValue("action")
	var err error
	switch action {
	case actionAcknowledge:
		_, err = s.desk.Acknowledge(ctx, by(r), id, reason(r))
	case actionResolve:
		_, err = s.desk.Resolve(ctx, by(r), id, reason(r))
	case actionSnooze:
		until, ok := snoozeEnd(r.PostFormValue("for"), s.Clock())
		if !ok {
			return "", refusal{http.StatusUnprocessableEntity, "Choose 1 hour, 4 hours or until tomorrow. Nothing was changed."}
		}
		_, err = s.desk.Snooze(ctx, by(r), id, desk.End{Until: until}, reason(r))
	default:
		return "", noPage()
	}
	if errors.Is(err, ops.ErrConflict) { // it came too late: say what was done before
		var i ops.Incident
		if i, err = s.Store.People.Incident(ctx, id); err == nil {
			m := moment{s.Clock()}
			err = wrong{http.StatusConflict, fmt.Sprintf("Already %s %s. Nothing was changed.",
				strings.ToLower(incidentBadge(i, m.now).Word), m.incidentNote(i))}
		}
	}
	return fmt.Sprintf("/incidents/%d?done=%s", id, action), err
}

func snoozeEnd(choice string, now time.Time) (time.Time, bool) {
	switch choice {
	case "1h":
		return now.Add(time.Hour), true
	case "4h":
		return now.Add(4 * time.Hour), true
	case "tomorrow":
		year, month, day := now.Date()
		return time.Date(year, month, day+1, tomorrowHour, 0, 0, 0, now.Location()), true
	}
	return time.Time{}, false
}

// doneText confirms an action after the redirect.
func doneText(done, id string) string {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return ""
	}
	switch done {
	case actionAcknowledge:
		return fmt.Sprintf("Incident %d is acknowledged.", n)
	case actionResolve:
		return fmt.Sprintf("Incident %d is resolved.", n)
	case actionSnooze:
		return fmt.Sprintf("Incident %d is snoozed.", n)
	case actionRun:
		return fmt.Sprintf("A cycle for incident %d is queued.", n)
	case answerApprove:
		return fmt.Sprintf("Approval %d is granted. Its cycle continues.", n)
	case answerDeny:
		return fmt.Sprintf("Approval %d is denied. Its cycle ends with your reason.", n)
	}
	return ""
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
func (s *incidents) runIncident(r *http.Request) (string, error) {
	id := rowID(r)
	_, _, err := s.desk.RunAgain(r.Context(), by(r), id)
	return fmt.Sprintf("/incidents/%d?done=%s", id, actionRun), err
}

// incidentReport responds with the report of an incident as a Markdown file.
func (s *incidents) incidentReport(w http.ResponseWriter, r *http.Request) {
	id := rowID(r)
	rows, err := s.desk.Story(r.Context(), id)
	if err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="incident-%d.md"`, id))
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(story.Markdown(rows, nil, s.Clock()))) // the client may have disconnected
}
