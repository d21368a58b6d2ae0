package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	cyclesPerPage = 20
	// maxChips is how many sessions a line of the list links.
	maxChips  = 4
	cyclesURL = "/cycles"
	// navCycles is the entry of the navigation for cycles and their sessions.
	navCycles = "cycles"
)

type cyclesView struct {
	Base         string // the address of this list
	Cycles       []cycleRow
	Query        cyclesQuery
	Statuses     []choice
	Tiers        []choice
	Triggers     []choice
	Services     []choice
	Ranges       []choice
	Environments []choice // empty if there is only one
	Several      bool
	Filtered     bool
	Paged        bool
	Older        string
	Newest       string
	Searched     *stamp // how far back the search went, if there is more
	Set          int    // number of filters, without the search text
}

// cycleRow is one cycle in the list.
type cycleRow struct {
	ID          ops.CycleID
	Environment string
	Title       string
	Chips       []chip
	More        int // sessions that are not shown
	Badge       badge
	Duration    figure
	Since       string // when it started, while it runs
	Turns       figure
	Cost        figure
	Started     stamp
}

// chip links to a session of a cycle and says how the session came to be.
type chip struct {
	ID   ops.SessionID
	Tier ops.Tier
	Link string // what connects it to the one before it: empty for the first, an arrow, or a turn for a retry
	How  string
}

// cyclesQuery holds the filters in the URL.
type cyclesQuery struct {
	Status      ops.CycleStatus
	Environment string
	Tier        string
	Trigger     ops.Trigger
	Service     string
	Range       string
	Text        string
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

func readCyclesQuery(query url.Values) cyclesQuery {
	return cyclesQuery{
		Status: ops.CycleStatus(query.Get("status")), Environment: query.Get("environment"), Tier: query.Get("tier"),
		Trigger: ops.Trigger(query.Get("trigger")), Service: query.Get("service"), Range: query.Get("range"),
		Text: strings.TrimSpace(query.Get("q")),
	}
}

func (q cyclesQuery) filter(now time.Time) store.ChainFilter {
	f := store.ChainFilter{
		Status: q.Status, Environment: q.Environment, Trigger: q.Trigger, Service: q.Service, Text: q.Text, Limit: cyclesPerPage,
	}
	if tier, err := strconv.Atoi(q.Tier); err == nil {
		f.Tier = ops.Tier(tier)
	}
	if d, err := time.ParseDuration(q.Range); err == nil && d > 0 {
		f.Since = now.Add(-d)
	}
	return f
}

// path is the URL of a page of the list at an address.
func (q cyclesQuery) path(base string, before ops.CycleID) string {
	query := url.Values{}
	for name, value := range map[string]string{
		"status": string(q.Status), "environment": q.Environment, "tier": q.Tier, "trigger": string(q.Trigger),
		"service": q.Service, "range": q.Range, "q": q.Text,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if before > 0 {
		query.Set("cursor", strconv.FormatInt(int64(before), 10))
	}
	if len(query) == 0 {
		return base
	}
	return base + "?" + query.Encode()
}

// cycles lists cycles. The same list is served at two addresses.
func (s *server) cycles(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	before, err := strconv.ParseInt(query.Get("cursor"), 10, 64)
	if query.Get("cursor") != "" && (err != nil || before < 1) {
		s.errorPage(w, r, http.StatusNotFound, "No such page of cycles.")
		return
	}
	asked := readCyclesQuery(query)
	if there := namedRow(asked.Text); there != "" {
		http.Redirect(w, r, there, http.StatusSeeOther)
		return
	}
	m := moment{s.Clock()}
	f := asked.filter(m.now)
	f.Before = ops.CycleID(before)
	found, err := s.Store.Chains(r.Context(), f)
	if err != nil {
		s.fail(w, r, "list of cycles", err)
		return
	}
	view := s.cyclesView(m, r.URL.Path, asked, found)
	view.Paged = before > 0
	s.render(w, r, http.StatusOK, "cycles", page{Title: "Cycles", Nav: navCycles, Body: view})
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

func (s *server) cyclesView(m moment, base string, asked cyclesQuery, found store.ChainPage) cyclesView {
	view := cyclesView{
		Query: asked, Several: len(s.Environments) > 1, Filtered: asked != cyclesQuery{},
		Base: base, Newest: asked.path(base, 0),
		Statuses: statusChoices(asked.Status),
		Tiers: choose(asked.Tier, choice{Word: "Any tier"}, choice{Value: "1", Word: "Tier 1"}, choice{Value: "2", Word: "Tier 2"},
			choice{Value: "3", Word: "Tier 3"}),
		Triggers: choose(string(asked.Trigger), triggerChoices()...),
		Services: choose(asked.Service, s.serviceChoices(asked.Service)...),
		Ranges:   choose(asked.Range, rangeChoices()...),
	}
	if view.Several {
		view.Environments = []choice{{Word: "All environments"}}
		for _, name := range environmentNames(s.Environments) {
			view.Environments = append(view.Environments, choice{Value: name, Word: name})
		}
		view.Environments = choose(asked.Environment, view.Environments...)
	}
	for _, set := range []string{string(asked.Status), asked.Tier, string(asked.Trigger), asked.Service, asked.Range, asked.Environment} {
		if set != "" {
			view.Set++
		}
	}
	for _, c := range found.Chains {
		view.Cycles = append(view.Cycles, m.cycleRow(c))
	}
	if found.Next > 1 {
		view.Older = asked.path(base, found.Next)
	}
	if found.Searched > 1 && len(found.Chains) > 0 {
		at := m.stamp(found.Chains[len(found.Chains)-1].CreatedAt)
		view.Searched = &at
	} else if found.Searched > 1 {
		view.Searched = &stamp{}
	}
	return view
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

func (m moment) cycleRow(c store.CycleSummary) cycleRow {
	chain := m.chain(c.Sessions, 0)
	row := cycleRow{
		ID: c.ID, Environment: plain(c.Environment), Title: cycleTitle(c.Cycle), Badge: badgeOf(c.Cycle), Turns: chain.Turns, Cost: chain.Cost,
		Started: m.stamp(c.CreatedAt),
	}
	row.Duration, row.Since = m.cycleDuration(c.Cycle)
	row.Chips = chips(c.Sessions[:min(len(c.Sessions), maxChips)])
	row.More = len(c.Sessions) - len(row.Chips)
	if c.StartedAt != nil {
		row.Started = m.stamp(*c.StartedAt)
	}
	if !c.Status.Ended() && !row.Cost.Known {
		row.Cost = notYet()
	}
	if !c.Status.Ended() && !row.Turns.Known {
		row.Turns = notYet()
	}
	return row
}

// cycleDuration is how long a cycle took or has been running, and since when it runs.
func (m moment) cycleDuration(c ops.Cycle) (took figure, since string) {
	if c.StartedAt == nil {
		return unknown(), ""
	}
	end := m.now
	if c.EndedAt != nil {
		end = *c.EndedAt
	}
	if c.Status == ops.CycleRunning {
		since = c.StartedAt.UTC().Format(time.RFC3339)
	}
	d := end.Sub(*c.StartedAt)
	return figure{Known: true, Text: span(d), Exact: d.String()}, since
}

func chips(sessions []ops.Session) []chip {
	out := make([]chip, 0, len(sessions))
	for i, s := range sessions {
		c := chip{ID: s.ID, Tier: s.Tier, How: s.Tier.String() + " " + cmp.Or(roleText(s.Role), s.Tier.Title())}
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
	for _, status := range []ops.CycleStatus{
		ops.CycleQueued, ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleHealthy, ops.CycleResolved, ops.CycleNeedsHuman,
		ops.CycleSuppressed, ops.CycleBlocked, ops.CyclePartial, ops.CycleFailed, ops.CycleCancelled,
	} {
		choices = append(choices, choice{Value: string(status), Word: stateOf("", status).Word})
	}
	return choose(string(chosen), choices...)
}
