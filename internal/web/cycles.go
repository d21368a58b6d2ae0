package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	cyclesPerPage = 20
	// maxChips is how many sessions a line of the list links.
	maxChips = 4
	// navCycles is the entry of the navigation for cycles and their sessions.
	navCycles = "cycles"
)

type cyclesView struct {
	Base     string // the address of this list
	Cycles   []store.CycleSummary
	Filters  filterRow
	Several  bool
	Filtered bool
	Pager    pager
	Searched *time.Time // how far back the search went, if there is more
}

// chip links to a session of a cycle and says how the session came to be.
type chip struct {
	ops.Session
	Link string // what connects it to the one before it: empty for the first, an arrow, or a turn for a retry
	How  string
}

// rangeChoices are the time ranges of the list.
func rangeChoices() []choice {
	return []choice{
		{Word: "Any time"},
		{Value: "1h", Word: "Last hour"},
		{Value: "24h", Word: "Last 24 hours"},
		{Value: "168h", Word: "Last 7 days"},
		{Value: "720h", Word: "Last 30 days"},
	}
}

// cycles lists cycles. The same list is served at two addresses.
func (s *server) cycles(r *http.Request) (page, error) {
	before, ok := cursor(r)
	if !ok {
		return page{}, noSuch("No such page of cycles.")
	}
	f := store.ChainFilter{
		Status: ops.CycleStatus(queried(r, "status")), Environment: queried(r, "environment"), Trigger: ops.Trigger(queried(r, "trigger")),
		Service: queried(r, "service"), Text: queried(r, "q"), Before: ops.CycleID(before), Limit: cyclesPerPage,
	}
	if there := namedRow(f.Text); there != "" {
		return page{To: there}, nil
	}
	if tier, err := strconv.Atoi(queried(r, "tier")); err == nil {
		f.Tier = ops.Tier(tier)
	}
	if d, err := time.ParseDuration(queried(r, "range")); err == nil && d > 0 {
		f.Since = s.Clock().Add(-d)
	}
	found, err := s.Store.Chains(r.Context(), f)
	view := cyclesView{
		Base: r.URL.Path, Cycles: found.Chains, Several: len(s.Environments) > 1, Pager: paging(r, 0),
		Filters: s.cycleFilters(r, f),
	}
	if found.Next > 1 {
		view.Pager = paging(r, int64(found.Next))
	}
	if n := len(found.Chains); found.Searched > 1 && n > 0 {
		view.Searched = &found.Chains[n-1].CreatedAt
	}
	view.Filtered = view.Filters.Clear != ""
	return page{Title: "Cycles", Nav: navCycles, Body: view}, err
}

func (s *server) cycleFilters(r *http.Request, f store.ChainFilter) filterRow {
	row := filterRow{Action: r.URL.Path, Fields: []filterField{
		{Kind: "search", Name: "q", Label: "Search, C-57 or #118", Value: f.Text},
		selected("status", "Outcome", statusChoices(f.Status)),
		selected("tier", "Tier", choose(queried(r, "tier"), choice{Word: "Any tier"}, choice{Value: "1", Word: "Tier 1"},
			choice{Value: "2", Word: "Tier 2"}, choice{Value: "3", Word: "Tier 3"})),
		selected("trigger", "Trigger", choose(string(f.Trigger), triggerChoices()...)),
	}}
	if services := s.serviceChoices(f.Service); len(services) > 1 {
		row.Fields = append(row.Fields, selected("service", "Service", choose(f.Service, services...)))
	}
	row.Fields = append(row.Fields, selected("range", "Time", choose(queried(r, "range"), rangeChoices()...)))
	row = row.withEnvironment(s.environmentChoices(f.Environment))
	return row.clearing(slices.ContainsFunc([]string{"q", "status", "tier", "trigger", "service", "range", "environment"},
		func(name string) bool { return queried(r, name) != "" }))
}

// rowName matches the number of a cycle or a session, such as C-57 or #118.
var rowName = ops.Pattern(`^(?i:(c-)|#)(\d{1,18})$`)

// namedRow returns the URL for a search for the number of a cycle or a session.
func namedRow(text string) string {
	found := rowName().FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	id, err := strconv.ParseInt(found[2], 10, 64)
	if err != nil {
		return ""
	}
	if found[1] != "" {
		return cyclePath(ops.CycleID(id))
	}
	return "/sessions/" + found[2]
}

func triggerChoices() []choice {
	choices := []choice{{Word: "Any trigger"}}
	for _, t := range []ops.Trigger{ops.TriggerScheduled, ops.TriggerManual, ops.TriggerAPI, ops.TriggerAlert, ops.TriggerProbe} {
		choices = append(choices, choice{Value: string(t), Word: t.Title()})
	}
	return choices
}

// serviceChoices are the services of the inventories, and the requested one.
func (s *server) serviceChoices(asked string) []choice {
	var names []string
	for _, e := range s.Environments {
		for _, service := range e.Policy.Inventory.Services {
			names = append(names, service.Name)
		}
		for _, probe := range e.Probes {
			names = append(names, probe.Service)
		}
	}
	if asked != "" {
		names = append(names, asked)
	}
	slices.Sort(names)
	choices := []choice{{Word: "Any service"}}
	for _, name := range slices.Compact(names) {
		choices = append(choices, choice{Value: name, Word: plain(name)})
	}
	return choices
}

// lasted is how long a cycle took or has been running.
func (m moment) lasted(c ops.Cycle) figure {
	return m.lasting(c.StartedAt, c.EndedAt, c.Status == ops.CycleRunning)
}

func chips(all []ops.Session) []chip {
	sessions := all[:min(len(all), maxChips)]
	out := make([]chip, 0, len(sessions))
	for i, s := range sessions {
		c := chip{Session: s, How: s.Tier.String() + " " + cmp.Or(roleText(s.Role), s.Tier.Title())}
		switch {
		case s.RetryOf != nil:
			c.Link, c.How = "↻", fmt.Sprintf("Retry of session #%d: %s", *s.RetryOf, c.How)
		case s.ParentID != nil:
			c.Link, c.How = "→", fmt.Sprintf("Escalated from session #%d: %s", *s.ParentID, c.How)
		case i > 0:
			c.Link = "·"
		case len(sessions) > 1:
			c.How = "First session of the cycle: " + c.How
		}
		if s.Model != "" {
			c.How += ", " + plain(s.Model)
		}
		out = append(out, c)
	}
	return out
}

func statusChoices(chosen ops.CycleStatus) []choice {
	choices := []choice{{Word: "Any outcome"}}
	for _, status := range ops.CycleStatuses() {
		choices = append(choices, choice{Value: string(status), Word: stateOf("", status).Word})
	}
	return choose(string(chosen), choices...)
}
