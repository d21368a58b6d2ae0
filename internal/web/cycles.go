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
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
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
func (s *cycles) cycles(r *http.Request) (page, error) {
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
	found, err := s.Store.Reports.Chains(r.Context(), f)
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

func (s *cycles) cycleFilters(r *http.Request, f store.ChainFilter) filterRow {
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
func (s *cycles) serviceChoices(asked string) []choice {
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

// cycleView is the page of one cycle.
type cycleView struct {
	ID          ops.CycleID
	Title       string
	Badge       badge
	Environment string
	Trigger     string
	Why         string
	Facts       []fact
	Pending     []api.Approval
	Incidents   []ops.Incident
	Stop        *question
	Again       string // where "Run again" is posted to
	Chain       chainView
	Story       story.Story
	Own         ops.SessionID // none: the page is about all sessions
	Recoveries  []ops.Recovery
	Verdicts    []ops.Verification
	Actions     []runRow
	Approvals   []api.Approval // answered
	Plans       []api.Approval // those with a plan
	journal     ops.Journal
	Prompt      string
	Events      []api.Event
	Several     bool
	Told        story.Told
}

// cyclePath is the URL of the page of a cycle.
func cyclePath(id ops.CycleID) string { return "/cycles/" + strconv.FormatInt(int64(id), 10) }

func (s *cycles) cycle(r *http.Request) (page, error) {
	id := ops.CycleID(rowID(r))
	view, err := s.cycleView(r.Context(), moment{s.Clock()}, id)
	p := page{Title: fmt.Sprintf("C-%d %s", id, view.Title), Nav: navCycles, Body: view}
	query := r.URL.Query()
	switch {
	case view.Stop != nil && query.Get("stopping") != "":
		p.Flash = fmt.Sprintf("Stopping C-%d. Its processes have a moment to exit on their own.", id)
	case query.Get("queued") != "":
		p.Flash = s.queuedText(r.Context(), id)
	case query.Get("done") != "":
		p.Flash = doneText(queried(r, "done"), queried(r, "id"))
	}
	return p, err
}

// cycleView reads everything about a cycle.
func (s *cycles) cycleView(ctx context.Context, m moment, id ops.CycleID) (cycleView, error) {
	rows, err := s.Store.Reports.CycleStory(ctx, id)
	if err != nil {
		return cycleView{}, err
	}
	verdicts, err := s.Store.Journal.Verifications(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read verdicts: %w", err)
	}
	calls, err := s.Store.Acts.CycleCalls(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read tool calls: %w", err)
	}
	incidents, err := s.Store.Reports.CycleIncidents(ctx, id)
	if err != nil {
		return cycleView{}, fmt.Errorf("read incidents: %w", err)
	}
	events, err := s.Store.Journal.Events(ctx, store.EventFilter{CycleID: &id, Limit: sessionEvents})
	if err != nil {
		return cycleView{}, fmt.Errorf("read events: %w", err)
	}
	c, j := rows.Cycles[0].Cycle, rows.Cycles[0].Journal
	view := cycleView{
		ID: c.ID, Title: cycleTitle(c), Badge: badgeOf(c), Environment: plain(c.Environment), Trigger: c.Trigger.Title(), Why: spoken(c.Why()),
		Chain: m.chain(j.Sessions, calls, 0), Actions: api.Rows(j.Runs, s.runRow), Prompt: plain(c.Prompt),
		Again: fmt.Sprintf("/cycles/%d/run", c.ID), Several: len(s.Environments) > 1, Incidents: incidents, Recoveries: j.Recoveries,
		Verdicts: verdicts, journal: j,
	}
	view.Facts = m.cycleFacts(c, view.Chain)
	if !c.Status.Ended() {
		view.Stop = stopCycleQuestion(c.ID)
	}
	report := api.CycleReportRow(rows, verdicts, m.now)
	for _, a := range report.Approvals {
		if a.Status == ops.ApprovalPending {
			view.Pending = append(view.Pending, a)
		} else {
			view.Approvals = append(view.Approvals, a)
		}
		if len(a.Plan) > 0 {
			view.Plans = append(view.Plans, a)
		}
	}
	view.Events = eventsOfCycle(events)
	view.Told, view.Story = story.ToldBy(rows.Notices), report.Story
	return view, nil
}

func (m moment) cycleFacts(c ops.Cycle, chain chainView) []fact {
	cost := figureFact("Est. cost", chain.Cost)
	if c.Policy.BudgetChainUSD > 0 {
		cost.Value += " of " + dollars(&c.Policy.BudgetChainUSD).Text
	}
	facts := []fact{cost, figureFact("Turns", chain.Turns)}
	facts = append(facts, figureFact("Duration", m.lasted(c)),
		fact{Name: "Trigger", Value: c.Trigger.Title()}, fact{Name: "Environment", Value: plain(c.Environment)})
	if c.StartedAt != nil {
		facts = append(facts, fact{Name: "Started", At: m.maybe(c.StartedAt)})
	} else {
		facts = append(facts, fact{Name: "Queued", At: m.maybe(&c.CreatedAt)})
	}
	if c.EndedAt != nil {
		facts = append(facts, fact{Name: "Ended", At: m.maybe(c.EndedAt)})
	}
	switch {
	case c.RefutedAt != nil:
		facts = append(facts, fact{Name: "Did not hold", At: m.maybe(c.RefutedAt)})
	case c.ProbationUntil != nil && m.now.Before(*c.ProbationUntil):
		facts = append(facts, fact{Name: "On probation until", At: m.maybe(c.ProbationUntil)})
	}
	if c.Options.DryRun {
		facts = append(facts, fact{Name: "Dry run", Value: "Yes, nothing is changed"})
	}
	return facts
}

// Question is the title of an approval of the cycle.
func (v cycleView) Question(a api.Approval) string {
	return questionTitle(a, affectedServices(v.journal, ops.SessionID(a.SessionID)))
}

func stopCycleQuestion(id ops.CycleID) *question {
	return &question{
		ID: "stop", Button: "Stop", Icon: "square", Title: fmt.Sprintf("Stop C-%d?", id),
		Text:   "Work in progress may be left half done. The cycle ends.",
		Action: fmt.Sprintf("/cycles/%d/stop", id), Yes: "Stop cycle", No: "Keep running", Danger: true,
	}
}

// stopCycle ends a cycle that has not ended.
func (s *cycles) stopCycle(r *http.Request) (string, error) {
	id := ops.CycleID(rowID(r))
	err := s.desk.Cancel(r.Context(), by(r), id, "")
	if errors.Is(err, ops.ErrConflict) {
		err = refusal{http.StatusConflict, fmt.Sprintf("Cycle C-%d has already ended.", id)}
	}
	return cyclePath(id) + "?stopping=1", err
}

// runAgain submits a cycle with the same prompt, limits and environment.
func (s *cycles) runAgain(r *http.Request) (string, error) {
	again, err := s.desk.Repeat(r.Context(), by(r), ops.CycleID(rowID(r)))
	return cyclePath(again) + "?queued=1", err
}

// run submits a manual cycle. If another one is running, the new one waits for it.
func (s *cycles) run(r *http.Request) (string, error) {
	tier, err := strconv.Atoi(cmp.Or(r.PostFormValue("max_tier"), "0"))
	if err != nil {
		tier = -1
	}
	id, err := s.desk.RunCycle(r.Context(), by(r), ops.NewCycle{
		Environment: r.PostFormValue("environment"), Prompt: r.PostFormValue("prompt"),
		Options: ops.CycleOptions{DryRun: r.PostFormValue("dry_run") != "", MaxTier: ops.Tier(tier)},
	})
	return fmt.Sprintf("/?queued=%d", id), err
}

// queuedText confirms that a cycle was queued, and says what agents leave alone in its environment.
func (s *site) queuedText(ctx context.Context, id ops.CycleID) string {
	text := fmt.Sprintf("Cycle C-%d is queued. It starts when its environment is free.", id)
	cycle, err := s.Store.Journal.Cycle(ctx, id)
	if err != nil {
		return text // the address names a cycle that is gone
	}
	return text + s.heldText(ctx, cycle.Environment)
}

// heldText says what agents leave alone in an environment; empty: nothing.
func (s *site) heldText(ctx context.Context, environment string) string {
	i := slices.IndexFunc(s.Environments, func(e ops.Environment) bool { return e.Name == environment })
	if i < 0 {
		return ""
	}
	onHold, err := s.desk.HeldBack(ctx, s.Environments[i], s.Clock())
	if err != nil || len(onHold) == 0 {
		return "" // the page itself fails if the database does
	}
	text := " Agents change nothing where this holds:"
	for _, h := range onHold {
		text += " " + strings.TrimSuffix(plain(h.Reason), ".") + "."
	}
	return text
}

// stop ends the cycle of a running session.
func (s *sessions) stop(r *http.Request) (string, error) {
	id := rowID(r)
	err := s.desk.Stop(r.Context(), by(r), ops.SessionID(id))
	if errors.Is(err, ops.ErrConflict) {
		err = refusal{http.StatusConflict, fmt.Sprintf("Session #%d has already ended.", id)}
	}
	return fmt.Sprintf("/sessions/%d?stopping=1", id), err
}

func sessionID(r *http.Request) (ops.SessionID, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return ops.SessionID(id), err == nil && id > 0
}

// recheckEvery is how often the access of an open stream is checked: a revoked token ends it after this time at the latest.
const recheckEvery = 30 * time.Second

// recheckKey is the context key of the check of a caller's access.
type recheckKey struct{}

// rechecked gives a stream the means to find out whether its caller still has access.
func (s *door) rechecked(r *http.Request, lasts func(context.Context) bool) *http.Request {
	if !isStream(r.URL.Path) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), recheckKey{}, lasts))
}

// admission returns the check of a stream's caller, nil without one.
func admission(ctx context.Context) func(context.Context) bool {
	lasts, _ := ctx.Value(recheckKey{}).(func(context.Context) bool)
	return lasts
}

// tokenLasts reports whether a token still works. While the database does not answer, a stream stays open: it shows nothing new then.
func (s *door) tokenLasts(ctx context.Context, h holder) bool {
	if h.token == 0 {
		return true
	}
	works, err := s.Store.People.TokenWorks(ctx, h.token, s.Clock())
	return works || err != nil
}

// loginLasts reports whether a login still works. One that was renewed ends the stream too; the browser connects again with the new one.
func (s *door) loginLasts(ctx context.Context, digest string) bool {
	_, err := s.Store.People.Login(ctx, digest, s.Clock())
	return !errors.Is(err, ops.ErrNotFound)
}
