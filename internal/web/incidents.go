package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// tomorrowHour is the hour at which a snooze until tomorrow ends.
const tomorrowHour = 9

type incidentsView struct {
	Tabs      []option
	Tab       string
	Approvals []approvalView
	Incidents []incidentView
	Several   bool
	Empty     string
	Pager     pager
}

// incidentView is one incident with what is known about it.
type incidentView struct {
	ops.Incident
	Known   ops.IncidentReport
	History []api.Event
	Actions []question
}

// The tabs of the page.
const (
	tabNeeds        = "needs"
	tabAll          = "all"
	tabOpen         = "open"
	tabAcknowledged = "acknowledged"
	tabUnverified   = "unverified"
	tabResolved     = "resolved"
)

func (s *incidents) incidents(r *http.Request) (page, error) {
	view, err := s.incidentsView(r)
	p := page{Title: "Incidents", Nav: "incidents", Body: view}
	if done := queried(r, "done"); done != "" {
		p.Flash = doneText(done, queried(r, "id")) + s.deniedText(r, done)
	}
	return p, err
}

// deniedText says what follows from a no.
func (s *incidents) deniedText(r *http.Request, done string) string {
	id, err := strconv.ParseInt(queried(r, "id"), 10, 64)
	if err != nil || done != answerDeny {
		return ""
	}
	a, err := s.Store.People.Approval(r.Context(), id)
	if effect := api.ApprovalRow(a).Effect; err == nil && effect != nil {
		return " " + plain(*effect)
	}
	return ""
}

func (s *incidents) incidentsView(r *http.Request) (incidentsView, error) {
	ctx, m, tab := r.Context(), moment{s.Clock()}, queried(r, "tab")
	before, ok := cursor(r)
	view := incidentsView{Several: len(s.Environments) > 1}
	counts, err := s.Store.Reports.Attention(ctx, m.now)
	if err != nil {
		return view, err
	}
	if tab == "" {
		tab = tabAll // with what was just watched on top
		if counts.NeedYou() > 0 {
			tab = tabNeeds
		}
	}
	view.Tab = tab
	var filter store.IncidentFilter
	for _, one := range []struct {
		option
		empty  string
		filter store.IncidentFilter
	}{
		{
			option{Word: "Needs you", Path: tabNeeds, Count: counts.NeedYou()},
			"Nothing needs you.",
			store.IncidentFilter{NeedsYou: true, Limit: 200},
		},
		{option{Word: "All", Path: tabAll}, "Nothing needs you. There were no incidents yet.", store.IncidentFilter{}},
		{option{Word: "Open", Path: tabOpen}, "No open incidents.", store.IncidentFilter{Open: true}},
		{
			option{Word: "Acknowledged", Path: tabAcknowledged, Count: counts.Acknowledged},
			"No acknowledged incidents.",
			store.IncidentFilter{Status: ops.IncidentAcknowledged},
		},
		{
			option{Word: "Unverified", Path: tabUnverified, Count: counts.Unverified},
			"No unverified incidents.",
			store.IncidentFilter{Status: ops.IncidentUnverified},
		},
		{option{Word: "Resolved", Path: tabResolved}, "No resolved incidents yet.", store.IncidentFilter{Status: ops.IncidentResolved}},
	} {
		if one.Current = one.Path == tab; one.Current {
			view.Empty, filter = one.empty, one.filter
		}
		one.Path = "/incidents?tab=" + one.Path
		view.Tabs = append(view.Tabs, one.option)
	}
	if view.Empty == "" || !ok {
		return view, noSuch("No such list of incidents.")
	}
	filter.Before, filter.Limit = before, cmp.Or(filter.Limit, listed+1)
	if tab == tabNeeds {
		if view.Approvals, err = s.approvals.pending(ctx, m); err != nil {
			return view, err
		}
	}
	found, err := s.Store.People.Incidents(ctx, filter)
	if err != nil {
		return view, err
	}
	if tab != tabNeeds {
		found, view.Pager = paged(r, found, func(i ops.Incident) int64 { return i.ID })
	}
	for _, i := range found {
		if tab == tabOpen && i.Status == ops.IncidentAcknowledged {
			continue
		}
		one := incidentOf(i)
		if tab == tabNeeds {
			if one.History, err = s.history(ctx, i); err != nil {
				return view, err
			}
		}
		view.Incidents = append(view.Incidents, one)
	}
	return view, nil
}

func (s *incidents) history(ctx context.Context, i ops.Incident) ([]api.Event, error) {
	events, err := s.Store.Reports.IncidentHistory(ctx, i)
	opened := api.EventRow(ops.Event{At: i.OpenedAt, Level: i.Level, Verb: ops.VerbIncidentReopened})
	opened.Message = "opened"
	if i.FirstCycle != 0 {
		opened.CycleID = (*int64)(&i.FirstCycle)
	}
	return append([]api.Event{opened}, api.Rows(events, api.EventRow)...), err
}

func incidentOf(i ops.Incident) incidentView {
	known, _ := i.Known() // without a report, the page shows less
	return incidentView{Incident: i, Known: known, Actions: incidentActions(i)}
}

// sentences is a text for people: its lines without JSON.
func sentences(text string) string {
	lines := strings.Split(plain(text), "\n")
	for n := range lines {
		if strings.Contains(lines[n], "{") {
			lines[n] = ops.Prose(lines[n])
		}
	}
	return ops.Spoken(strings.Join(lines, "\n"))
}

// spoken is a recorded reason for people.
func spoken(text string) string { return ops.Spoken(plain(text)) }

// incidentTitle names an incident with its service, once.
func incidentTitle(i ops.Incident) string {
	title := firstLine(ops.Prose(i.Title), 200)
	if service := plain(i.Service); service != "" && !strings.HasPrefix(title, service) {
		title = service + ": " + title
	}
	return title
}

// failing returns the checks that are not healthy.
func failing(checks []ops.CheckResult) []ops.CheckResult {
	return slices.DeleteFunc(slices.Clone(checks), func(c ops.CheckResult) bool { return c.Status == ops.Healthy })
}

// incidentNote returns the person and the time of the last change.
func (m moment) incidentNote(i ops.Incident) string {
	switch {
	case i.ResolvedAt != nil:
		note := fmt.Sprintf("by %s at %s", plain(i.ResolvedBy), m.stamp(*i.ResolvedAt).Text)
		if i.Resolution != "" {
			note += ": " + strings.TrimSuffix(plain(i.Resolution), ".")
		}
		if i.ProbationUntil != nil && m.now.Before(*i.ProbationUntil) {
			note += "; on probation until " + m.stamp(*i.ProbationUntil).Text
		}
		return note
	case i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil:
		return fmt.Sprintf("by %s at %s", plain(i.AcknowledgedBy), m.stamp(*i.AcknowledgedAt).Text)
	case i.Status == ops.IncidentSnoozed && i.SnoozedUntil != nil && i.Holds(m.now):
		return "until " + m.stamp(*i.SnoozedUntil).Text
	case i.ReopenedAt != nil:
		return "the repair did not hold at " + m.stamp(*i.ReopenedAt).Text
	case i.Status == ops.IncidentOpen && i.Denied(m.now):
		return "somebody said no, until " + m.stamp(*i.DeniedUntil).Text
	}
	return ""
}

// The actions on an incident, as in URLs.
const (
	actionAcknowledge = "ack"
	actionResolve     = "resolve"
	actionSnooze      = "snooze"
)

// incidentActions returns the actions a person can take on an incident now.
func incidentActions(i ops.Incident) []question {
	if i.ResolvedAt != nil {
		return nil
	}
	var out []question
	for _, action := range []string{actionAcknowledge, actionResolve, actionSnooze} {
		if action != actionAcknowledge || i.Status != ops.IncidentAcknowledged {
			q, _ := actionQuestion(i, action)
			out = append(out, q)
		}
	}
	return out
}

func actionQuestion(i ops.Incident, action string) (question, bool) {
	note := input{Name: "reason", Label: "Note", Kind: "area", Max: desk.MaxReason}
	q := question{
		ID: fmt.Sprintf("%s-%d", action, i.ID), Action: fmt.Sprintf("/incidents/%d/%s", i.ID, action), No: "Cancel", Fields: []input{note},
	}
	switch action {
	case actionAcknowledge:
		q.Button, q.Icon, q.Title, q.Yes = "Acknowledge", "user", fmt.Sprintf("Acknowledge incident %d?", i.ID), "Acknowledge"
		q.Text = "You take over: no tier starts for this service and no reminders are sent until it recovers or you resolve the incident."
	case actionResolve:
		q.Button, q.Icon, q.Title, q.Yes = "Resolve", "circle-check", fmt.Sprintf("Resolve incident %d?", i.ID), "Resolve"
		q.Text = "Closes the incident. A cycle that waits for it ends."
	case actionSnooze:
		q.Button, q.Icon, q.Title, q.Yes = "Snooze", "bell-off", fmt.Sprintf("Snooze incident %d?", i.ID), "Snooze"
		q.Text = "Until then, no tier starts for this service and no reminders are sent."
		q.Fields = []input{{Name: "for", Label: "For", Kind: "select", Required: true, Choices: []choice{
			{Value: "1h", Word: "1 hour"},
			{Value: "4h", Word: "4 hours"},
			{Value: "tomorrow", Word: fmt.Sprintf("Until tomorrow, %02d:00", tomorrowHour)},
		}}, note}
	default:
		return question{}, false
	}
	return q, true
}

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
