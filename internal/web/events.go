package web

import (
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const eventsListed = 50

type eventsView struct {
	Levels       []choice
	Environments []choice
	Kind         string
	Kinds        []ops.EventKind
	Service      string
	Cycle        string
	Several      bool
	Filtered     bool
	Days         []eventDay
	Pager        pager
}

// eventDay holds the events of one day.
type eventDay struct {
	Day    string
	Events []eventView
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
	view := eventsView{
		Kind: f.Kind, Kinds: ops.EventKinds(), Service: f.Service, Cycle: cycle, Several: len(s.Environments) > 1,
		Environments: s.environmentChoices(f.Environment),
		Levels: chosen(string(f.Level), "All levels", choice{Value: string(ops.LevelInfo), Word: "Info"},
			choice{Value: string(ops.LevelWarning), Word: "Warning"}, choice{Value: string(ops.LevelCritical), Word: "Critical"}),
		Filtered: f.Level != "" || f.Kind != "" || f.Service != "" || f.Environment != "" || cycle != "",
	}
	older := int64(0)
	if len(found) > eventsListed {
		found = found[:eventsListed]
		older = found[eventsListed-1].ID
	}
	view.Pager = paging(r, older)
	view.Days = moment{s.Clock()}.eventDays(found)
	s.render(w, r, http.StatusOK, "events", page{Title: "Events", Nav: "events", Body: view})
}

func (m moment) eventDays(events []ops.Event) []eventDay {
	var days []eventDay
	for _, e := range events {
		local := e.At.In(m.now.Location())
		name := local.Format("Monday, 2 January 2006")
		switch local.Format("2006-01-02") {
		case m.now.Format("2006-01-02"):
			name = "Today"
		case m.now.AddDate(0, 0, -1).Format("2006-01-02"):
			name = "Yesterday"
		}
		if len(days) == 0 || days[len(days)-1].Day != name {
			days = append(days, eventDay{Day: name})
		}
		view := m.event(e)
		view.At.Text = local.Format("15:04:05")
		last := &days[len(days)-1]
		last.Events = append(last.Events, view)
	}
	return days
}

type eventView struct {
	ID        int64
	Badge     badge
	At        stamp
	Kind      string
	Service   string
	Message   string
	Session   ops.SessionID
	Cycle     ops.CycleID
	CyclePath string
}

func (m moment) event(e ops.Event) eventView {
	view := eventView{
		ID: e.ID, Badge: levelBadge(e.Level), At: m.stamp(e.At), Kind: plain(string(e.Kind)), Service: plain(e.Service),
		Message: plain(e.Message),
	}
	if view.Service != "" { // the name is already shown before the message
		view.Message = strings.TrimPrefix(view.Message, view.Service+" ")
	}
	if e.SessionID != nil {
		view.Session = *e.SessionID
	}
	if e.CycleID != nil {
		view.Cycle, view.CyclePath = *e.CycleID, cyclePath(*e.CycleID)
	}
	return view
}
