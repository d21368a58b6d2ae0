package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

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

func (s *server) events(w http.ResponseWriter, r *http.Request) {
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
		s.errorPage(w, r, http.StatusNotFound, "No such list of events. A cycle is a number, and a level is info, warning or critical.")
		return
	}
	found, err := s.Store.Events(r.Context(), f)
	if err != nil {
		s.fail(w, r, "list of events", err)
		return
	}
	view := eventsView{Filtered: f.Level != "" || f.Kind != "" || f.Service != "" || f.Environment != "" || cycle != ""}
	view.Filters = s.eventFilters(f, cycle).clearing(view.Filtered)
	older := int64(0)
	if len(found) > eventsListed {
		found = found[:eventsListed]
		older = found[eventsListed-1].ID
	}
	view.Pager = paging(r, older)
	view.Days = moment{s.Clock()}.eventDays(found)
	s.render(w, r, http.StatusOK, "events", page{Title: "Events", Nav: "events", Body: view})
}

func (s *server) eventFilters(f store.EventFilter, cycle string) filterRow {
	var kinds []string
	for _, kind := range ops.EventKinds() {
		kinds = append(kinds, string(kind))
	}
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
	return strings.TrimPrefix(plain(e.Message), plain(words(e.Service))+" ")
}

// eventsOfCycle are the rows of events on a page that names their cycle in its heading.
func eventsOfCycle(events []ops.Event) []api.Event {
	return api.Rows(events, func(e ops.Event) api.Event {
		e.CycleID = nil
		return api.EventRow(e)
	})
}
