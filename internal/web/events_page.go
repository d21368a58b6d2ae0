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
	Kinds        []string
	Service      string
	Cycle        string
	Several      bool
	Filtered     bool
	Days         []eventDay
	Pager        pager
}

// eventDay are the events of one day.
type eventDay struct {
	Day    string
	Events []eventView
}

// eventKinds are the kinds that the supervisor writes, offered for filtering; others can be typed.
func eventKinds() []string {
	return []string{
		"agent", "approval", "context", "cooldown_cleared", "cycle", "escalation", "handoff", "incident", "memory", "notice", "notification",
		"probe", "recovery", "reminder", "session", "silence", "verify",
	}
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
		s.errorPage(w, r, http.StatusNotFound, "There is no such list of events. A cycle is a number, and a level is info, warning or critical.")
		return
	}
	found, err := s.Store.Events(r.Context(), f)
	if err != nil {
		s.fail(w, r, "list of events", err)
		return
	}
	view := eventsView{
		Kind: f.Kind, Kinds: eventKinds(), Service: f.Service, Cycle: cycle, Several: len(s.Environments) > 1,
		Environments: s.environmentChoices(f.Environment),
		Levels: chosen(string(f.Level), "All levels", choice{Value: "info", Word: "Info"}, choice{Value: "warning", Word: "Warning"},
			choice{Value: "critical", Word: "Critical"}),
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
