package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const eventsListed = 50

type eventsView struct {
	Filters  filterRow
	Filtered bool
	Days     []eventDay
	Pager    pager
}

// eventDay holds the events of one day.
type eventDay struct {
	Day    string
	Date   string
	Events []api.Event
}

func (s *events) events(r *http.Request) (page, error) {
	before, ok := cursor(r)
	f := store.EventFilter{
		Before: before, Level: ops.Level(queried(r, "level")), Kind: queried(r, "kind"), Service: queried(r, "service"),
		Environment: queried(r, "environment"), Limit: eventsListed + 1,
	}
	cycle := strings.TrimPrefix(strings.ToUpper(queried(r, "cycle")), "C-")
	if cycle != "" {
		id, err := strconv.ParseInt(cycle, 10, 64)
		ok = ok && err == nil && id > 0
		f.CycleID = ops.Ptr(ops.CycleID(id))
	}
	switch f.Level {
	case "", ops.LevelInfo, ops.LevelWarning, ops.LevelCritical:
	default:
		ok = false
	}
	if !ok {
		return page{}, noSuch("No such list of events. A cycle is a number, and a level is info, warning or critical.")
	}
	found, err := s.Store.Journal.Events(r.Context(), f)
	view := eventsView{Filtered: f.Level != "" || f.Kind != "" || f.Service != "" || f.Environment != "" || cycle != ""}
	view.Filters = s.eventFilters(f, cycle).clearing(view.Filtered)
	older := int64(0)
	if len(found) > eventsListed {
		found = found[:eventsListed]
		older = found[eventsListed-1].ID
	}
	view.Pager = paging(r, older)
	view.Days = moment{s.Clock()}.eventDays(found)
	return page{Title: "Events", Nav: "events", Body: view}, err
}

func (s *events) eventFilters(f store.EventFilter, cycle string) filterRow {
	kinds := ops.Map(ops.EventKinds(), func(kind ops.EventKind) string { return string(kind) })
	return filterRow{Action: "/events", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		selected("level", "Level", chosen(string(f.Level), "All levels", choice{Value: string(ops.LevelInfo), Word: "Info"},
			choice{Value: string(ops.LevelWarning), Word: "Warning"}, choice{Value: string(ops.LevelCritical), Word: "Critical"})),
		{Kind: "text", Name: "kind", Label: "Kind", Value: f.Kind, List: kinds},
		{Kind: "text", Name: "cycle", Label: "Cycle", Value: cycle, Short: true},
	}}.withEnvironment(s.environmentChoices(f.Environment))
}

// eventDays groups events by the day in UTC. The script shows the day with a time whose day is another one for the reader.
func (m moment) eventDays(events []ops.Event) []eventDay {
	var days []eventDay
	for _, e := range events {
		at, now := e.At.UTC(), m.now.UTC()
		name := at.Format("Monday, 2 January 2006")
		switch at.Format(time.DateOnly) {
		case now.Format(time.DateOnly):
			name = "Today"
		case now.AddDate(0, 0, -1).Format(time.DateOnly):
			name = "Yesterday"
		}
		if len(days) == 0 || days[len(days)-1].Day != name {
			days = append(days, eventDay{Day: name, Date: at.Format(time.DateOnly)})
		}
		last := &days[len(days)-1]
		last.Events = append(last.Events, api.EventRow(e))
	}
	return days
}

// eventText is the message of an event, without the name of its service, which is shown before it.
func eventText(e api.Event) string {
	return strings.TrimPrefix(spoken(e.Message), plain(words(e.Service))+" ")
}

// eventsOfCycle are the rows of events on a page that names their cycle in its heading.
func eventsOfCycle(events []ops.Event) []api.Event {
	return api.Rows(events, func(e ops.Event) api.Event {
		e.CycleID = nil
		return api.EventRow(e)
	})
}

// caller returns the caller of a request.
func caller(r *http.Request) api.Caller { return api.CallerOf(r.Context()) }

// recordActions records every action that was carried out, with its caller. One that was refused, or mistyped, changed nothing.
func (s *door) recordActions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operationOf(r)
		// What is open to everybody changes nothing, or is recorded by its handler.
		if operation == access.Look || operation == access.Personal || isPublic(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		if seen.status >= http.StatusBadRequest {
			return
		}
		e := actionOf(strings.TrimPrefix(r.URL.Path, "/api/v1"))
		if id := startedCycle(seen.Header().Get("Location")); id != nil {
			e.Verb, e.CycleID = ops.VerbCycleStarted, id
		}
		s.recordEvent(r, caller(r), e, fmt.Sprintf("%s %s (%d %s)", r.Method, recordedPath(r), seen.status, http.StatusText(seen.status)))
	})
}

// actionOf is the event of a request. Most are carried out by the desk, which records what was done; these leave no other row.
func actionOf(path string) ops.Event {
	e := ops.Event{Verb: ops.VerbRequestDone, Level: ops.LevelInfo}
	part := strings.Split(strings.Trim(path, "/"), "/")
	if len(part) != 3 {
		return e
	}
	switch part[0] + " " + part[2] {
	case "sessions stop":
		e.Verb, e.Subject = ops.VerbSessionStopped, ops.Subject{Kind: ops.SubjectSession, ID: part[1]}
	case "cycles cancel":
		e.Verb, e.Subject = ops.VerbCycleStopped, ops.Subject{Kind: ops.SubjectCycle, ID: part[1]}
	case "hosts drain":
		e.Verb, e.Subject = ops.VerbHostDrained, ops.Subject{Kind: ops.SubjectHost, ID: part[1]}
	}
	return e
}

// startedCycle is the cycle that a response leads to, or nil.
func startedCycle(location string) *ops.CycleID {
	for _, prefix := range []string{"/?queued=", "/api/v1/cycles/"} {
		if text, found := strings.CutPrefix(location, prefix); found {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
				return ops.Ptr(ops.CycleID(id))
			}
		}
	}
	return nil
}

// record stores what somebody did at the door.
func (s *door) record(r *http.Request, by api.Caller, verb ops.Verb, level ops.Level, what string) {
	s.recordEvent(r, by, ops.Event{Verb: verb, Level: level}, what)
}

// recordEvent does not depend on the request being still open.
func (s *door) recordEvent(r *http.Request, by api.Caller, e ops.Event, what string) {
	name := by.Recorded()
	from := peer(r)
	if from == name {
		from = ""
	}
	e.At, e.Actor, e.Detail = s.Clock(), ops.Person(name), ops.RequestDetail{Did: what, From: from}
	ctx := context.WithoutCancel(r.Context())
	if _, err := s.Store.Journal.AddEvent(ctx, e); err != nil {
		s.Logger.ErrorContext(ctx, "record action failed", "caller", name, "action", what, "error", err)
	}
}

// statusWriter remembers the status of the response.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController access to the original writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
