package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// incidentPage is one incident alone.
type incidentPage struct {
	incidentView
	Several bool
	Ask     *question // what the visitor came to confirm
	Late    string    // why nothing was done
}

func (s *server) incident(w http.ResponseWriter, r *http.Request) {
	s.showIncident(w, r, http.StatusOK, "", "")
}

// askIncident is where a link from a notice leads: it shows what would be done, and does nothing.
func (s *server) askIncident(w http.ResponseWriter, r *http.Request) {
	s.showIncident(w, r, http.StatusOK, r.PathValue("deed"), "")
}

func (s *server) showIncident(w http.ResponseWriter, r *http.Request, status int, deed, late string) {
	id, ok := rowID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "There is no such incident.")
		return
	}
	i, err := s.Store.Incident(r.Context(), id)
	if err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	m := moment{s.Clock()}
	view := incidentPage{incidentView: m.incident(i), Several: len(s.Environments) > 1, Late: late}
	if view.History, err = s.history(r.Context(), m, i); err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	if deed != "" {
		q, ok := deedQuestion(i, deed)
		if !ok {
			s.errorPage(w, r, http.StatusNotFound, "There is no page at this address.")
			return
		}
		if i.ResolvedAt == nil && (deed != deedAcknowledge || i.Status != ops.IncidentAcknowledged) {
			view.Ask = &q
		} else {
			view.Late = "Already " + strings.ToLower(view.Status.Word) + " " + view.StatusNote + "."
		}
	}
	p := page{Title: fmt.Sprintf("Incident %d", id), Nav: "incidents", Body: view, Still: view.Ask != nil || late != ""}
	if done := queried(r, "done"); done != "" && late == "" {
		p.Flash = doneText(done, strconv.FormatInt(id, 10))
	}
	s.render(w, r, status, "incident", p)
}

func (s *server) changeIncident(w http.ResponseWriter, r *http.Request) {
	id, ok := rowID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "There is no such incident.")
		return
	}
	ctx, by, now := r.Context(), s.person(r), s.Clock()
	var i ops.Incident
	var err error
	deed := r.PathValue("deed")
	switch deed {
	case deedAcknowledge:
		i, err = s.Store.Acknowledge(ctx, id, by, reason(r), now)
	case deedResolve:
		i, err = s.Store.ResolveIncident(ctx, id, by, reason(r), now)
	case deedSnooze:
		until, ok := snoozeEnd(r.PostFormValue("for"), now)
		if !ok {
			s.errorPage(w, r, http.StatusUnprocessableEntity, "A snooze is for 1 hour, 4 hours or until tomorrow. Nothing was done.")
			return
		}
		i, err = s.Store.Snooze(ctx, id, by, until, reason(r), now)
	default:
		s.errorPage(w, r, http.StatusNotFound, "There is no page at this address.")
		return
	}
	if errors.Is(err, ops.ErrConflict) {
		s.lateIncident(w, r, id)
		return
	}
	if err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	if i.Waiting != nil {
		s.Control.Wake(*i.Waiting)
	}
	http.Redirect(w, r, fmt.Sprintf("/incidents/%d?done=%s", id, deed), http.StatusSeeOther)
}

// lateIncident tells who was faster.
func (s *server) lateIncident(w http.ResponseWriter, r *http.Request, id int64) {
	i, err := s.Store.Incident(r.Context(), id)
	if err != nil {
		s.fail(w, r, "incident", err)
		return
	}
	m := moment{s.Clock()}
	s.showIncident(w, r, http.StatusConflict, "",
		fmt.Sprintf("Already %s %s. Nothing was changed.", strings.ToLower(incidentBadge(i, m.now).Word), m.incidentNote(i)))
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

// doneText says what was done, after the way back to a page.
func doneText(done, id string) string {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return ""
	}
	switch done {
	case deedAcknowledge:
		return fmt.Sprintf("Incident %d is acknowledged.", n)
	case deedResolve:
		return fmt.Sprintf("Incident %d is resolved.", n)
	case deedSnooze:
		return fmt.Sprintf("Incident %d is snoozed.", n)
	case answerApprove:
		return fmt.Sprintf("Question %d is approved. Its cycle goes on.", n)
	case answerDeny:
		return fmt.Sprintf("Question %d is denied. Its cycle ends with your reason.", n)
	}
	return ""
}
