package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

const (
	recentCycles = 25
	recentEvents = 14
	// readEvents is how many are read for them: some say what another line says.
	readEvents   = 3 * recentEvents
	openServices = 10 // failing services that are not folded
	// needsYouFor is how long a cycle that ended with needs_human stays on the overview.
	needsYouFor = 24 * time.Hour
	// longSummary and longReason are how much of a text is shown at once.
	longSummary = 320
	longReason  = 160
)

type overviewView struct {
	Headline badge
	First    bool // nothing has run yet
	Setup    *setupView
	Next     *nextView
	Last     *cycleLine
	Rhythm   string                       // how often probes look, and when they looked last; empty: they do not look all the time
	repair   func(services string) string // what a running cycle does, in words; nil: none runs
	Problems []problemCard
	Ahead    []nowLine // what is about to happen
	Banners  []bannerView
	Walls    string // the walls around agents, in one sentence
	Hole     bool   // one of them is missing
	DryRun   string
	May      pageLink // how far agents may go
	running  bool     // a cycle is running
	Queued   int
	Claimed  int // incidents with a claimed repair that nothing confirms
	NeedsYou []cycleLine
	asked    int
	Notified bool     // what needs a person is among the problems
	Asked    []string // what needs a person: 1 approval, 2 incidents
	Today    figure
	Budget   string
	Share    string // percent of the daily budget spent; empty without a budget
	Counts   []healthCount
	Failing  []serviceEntry
	// Folded are those after the first few; a long list would hide everything below it.
	Folded []serviceEntry
	// MoreFailing is how many more there are than are listed.
	MoreFailing int
	Groups      []serviceGroup // the healthy ones, by environment
	Activity    []activityView
	Story       *story.Story // of what is being done now: it stands in place of the activity
	Several     bool         // more than one environment, so rows show it
	Probed      bool         // some environment has probes
}

// serviceListing is a list of services in one template.
type serviceListing struct {
	Several  bool
	Services []serviceEntry
}

// Listing passes services to the template of the list.
func (v overviewView) Listing(services []serviceEntry) serviceListing {
	return serviceListing{v.Several, services}
}

// problemCard is one problem: what is wrong, what is being done about it, and what to do.
type problemCard struct {
	nowLine
	Services []serviceEntry // the first of them
	More     int
	all      int
}

// serviceGroup is a collapsed group of healthy services.
type serviceGroup struct {
	Name     string
	Count    int
	Services []serviceEntry // the first of them
}

// More is how many are not listed.
func (g serviceGroup) More() int { return g.Count - len(g.Services) }

type nextView struct {
	At          stamp
	In          string
	Environment string
}

// cycleLine is one cycle in one line.
type cycleLine struct {
	ID          ops.CycleID
	Environment string
	Title       string
	Badge       badge
	Reason      textView
	At          stamp
	Session     ops.SessionID // the newest one; zero before the first
}

func (s *overview) overview(r *http.Request) (page, error) {
	view, err := s.overviewView(r, counts(r))
	p := page{Title: "Overview", Nav: "overview", Body: view}
	if id, err := strconv.ParseInt(r.URL.Query().Get("queued"), 10, 64); err == nil {
		p.Flash = s.queuedText(r.Context(), ops.CycleID(id))
	}
	return p, err
}

func (s *overview) overviewView(r *http.Request, counts store.PageState) (overviewView, error) {
	ctx := r.Context()
	m := moment{s.Clock()}
	view := overviewView{
		Several: len(s.Environments) > 1, Next: s.nextCheck(m), asked: counts.Approvals + counts.Incidents, Claimed: counts.Unverified,
	}
	if counts.Approvals > 0 {
		view.Asked = append(view.Asked, ops.Plural(counts.Approvals, "approval", "approvals"))
	}
	if counts.Incidents > 0 {
		view.Asked = append(view.Asked, ops.Plural(counts.Incidents, "incident", "incidents"))
	}
	cycles, err := s.Store.Reports.Cycles(ctx, store.CycleFilter{Limit: recentCycles})
	if err != nil {
		return view, fmt.Errorf("list cycles: %w", err)
	}
	view.addCycles(m, cycles)
	incidents, err := s.Store.People.Incidents(ctx, store.IncidentFilter{Limit: 50})
	if err != nil {
		return view, fmt.Errorf("list incidents: %w", err)
	}
	if view.NeedsYou, err = s.needsYou(ctx, m, cycles, handledCycles(m, incidents)); err != nil {
		return view, err
	}
	services, err := s.services.allServices(ctx, m.now)
	if err != nil {
		return view, err
	}
	view.addServices(services)
	view.Rhythm = s.rhythm(m, services)
	if err := s.addSituation(ctx, m, &view, services, !caller(r).May(access.Approve)); err != nil {
		return view, err
	}
	if len(view.Failing) > openServices {
		view.Failing, view.Folded = view.Failing[:openServices], view.Failing[openServices:]
	}
	if err := s.services.addTicks(ctx, m, view.listed()...); err != nil {
		return view, err
	}
	if err := s.addCost(ctx, m, &view); err != nil {
		return view, err
	}
	view.addSetup(ctx, s.site)
	if err := s.addActivity(r, m, &view, cycles); err != nil {
		return view, err
	}
	for _, e := range s.Environments {
		view.Probed = view.Probed || len(e.Probes) > 0
	}
	view.First = len(cycles) == 0 && !slices.ContainsFunc(services, func(e serviceEntry) bool { return len(e.Checks) > 0 })
	view.Headline = view.headline()
	return view, nil
}

// addActivity adds the newest events.
func (s *overview) addActivity(r *http.Request, m moment, view *overviewView, cycles []store.CycleSummary) error {
	events, err := s.Store.Journal.Events(r.Context(), store.EventFilter{Limit: readEvents})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	view.Activity = activity{m}.lines(events, cycles, recentEvents)
	return nil
}

func (s *overview) nextCheck(m moment) *nextView {
	var next *nextView
	var earliest time.Time
	for environment, at := range s.NextCheck() {
		if at.IsZero() || next != nil && !at.Before(earliest) {
			continue
		}
		earliest = at
		next = &nextView{At: m.stamp(at), In: "due now", Environment: environment}
		if wait := at.Sub(m.now); wait > 0 {
			next.In = "in " + coarse(wait)
		}
	}
	return next
}

func (v *overviewView) addCycles(m moment, cycles []store.CycleSummary) {
	for _, c := range cycles {
		switch {
		case c.Status == ops.CycleRunning:
			v.running = true
			v.repair = repairing(c)
		case c.Status == ops.CycleQueued:
			v.Queued++
		case c.Status.Ended() && v.Last == nil:
			line := m.cycleLine(c.Cycle, c.Sessions)
			v.Last = &line
		}
	}
}

// needsYou returns the cycles that need a person, unless a later cycle of the environment ended well.
func (s *overview) needsYou(ctx context.Context, m moment, recent []store.CycleSummary, handled map[ops.CycleID]bool) ([]cycleLine, error) {
	wellSince := map[string]ops.CycleID{}
	for _, c := range recent {
		well := c.Status == ops.CycleHealthy || c.Status == ops.CycleResolved && c.RefutedAt == nil
		if well && c.ID > wellSince[c.Environment] {
			wellSince[c.Environment] = c.ID
		}
	}
	var lines []cycleLine
	for _, status := range []ops.CycleStatus{ops.CycleWaitingHuman, ops.CycleNeedsHuman} {
		cycles, err := s.Store.Reports.Cycles(ctx, store.CycleFilter{Status: status, Limit: 5})
		if err != nil {
			return nil, fmt.Errorf("list cycles that need a person: %w", err)
		}
		for _, c := range cycles {
			over := c.EndedAt != nil && (m.now.Sub(*c.EndedAt) > needsYouFor || handled[c.ID])
			if !over && c.ID > wellSince[c.Environment] {
				lines = append(lines, m.cycleLine(c.Cycle, c.Sessions))
			}
		}
	}
	return lines, nil
}

// handledCycles returns the cycles whose incidents are all acknowledged, snoozed or resolved.
func handledCycles(m moment, incidents []ops.Incident) map[ops.CycleID]bool {
	handled := map[ops.CycleID]bool{}
	for _, i := range incidents {
		held := i.Status == ops.IncidentResolved || i.Holds(m.now)
		for _, id := range []ops.CycleID{i.FirstCycle, i.LastCycle} {
			before, known := handled[id]
			handled[id] = held && (before || !known)
		}
	}
	return handled
}

func (m moment) cycleLine(c ops.Cycle, sessions []ops.Session) cycleLine {
	line := cycleLine{
		ID: c.ID, Environment: c.Environment, Title: cycleTitle(c), Badge: badgeOf(c),
		Reason: clamp(spoken(c.Reason), longReason), At: m.stamp(c.CreatedAt),
	}
	if c.EndedAt != nil {
		line.At = m.stamp(*c.EndedAt)
	}
	if len(sessions) > 0 {
		line.Session = sessions[len(sessions)-1].ID
	}
	return line
}

// cycleTitle is the title of the cycle, short enough for a list.
func cycleTitle(c ops.Cycle) string { return firstLine(c.Title(), 90) }

func (s *overview) addCost(ctx context.Context, m moment, view *overviewView) error {
	// A budget day starts at midnight UTC.
	spent, known, err := s.Store.Reports.CostSince(ctx, "", m.now.UTC().Truncate(24*time.Hour))
	if err != nil {
		return fmt.Errorf("add up today's cost: %w", err)
	}
	view.Today = dollars(nil)
	if known {
		view.Today = dollars(&spent)
	}
	var budget float64
	for _, e := range s.Environments {
		if e.Policy.BudgetDayUSD == 0 {
			return nil // one environment without a limit means no total limit
		}
		budget += e.Policy.BudgetDayUSD
	}
	view.Budget = dollars(&budget).Text
	view.Share = percent(min(100, 100*spent/budget))
	return nil
}

// headline is the most important fact.
func (v *overviewView) headline() badge {
	need := " need you"
	if v.asked == 1 {
		need = " needs you"
	}
	broken, unknown, stale := 0, 0, 0
	worst := badge{Tone: "ok"}
	for _, c := range v.Counts {
		switch {
		case c.Badge.Tone == "ok":
			continue
		case c.Badge == healthBadge(api.HealthStale):
			stale += c.Count
			continue
		case c.Badge.Tone == "unknown":
			unknown += c.Count
			continue
		}
		broken += c.Count
		if urgency(c.Badge) < urgency(worst) {
			worst = c.Badge
		}
	}
	switch {
	case broken > 0 && v.repair != nil:
		return badge{worst.Tone, "wrench", v.repair(v.repaired())}
	case broken == 1:
		return badge{worst.Tone, worst.Icon, "1 service needs attention"}
	case broken > 1:
		return badge{worst.Tone, worst.Icon, fmt.Sprintf("%d services need attention", broken)}
	case len(v.Asked) > 0:
		return badge{"hand", "hand", strings.Join(v.Asked, " and ") + need}
	case len(v.NeedsYou) > 0:
		return badge{"hand", "hand", ops.Plural(len(v.NeedsYou), "cycle needs you", "cycles need you")}
	case v.First && v.Setup != nil:
		return badge{"unknown", "list", "Not set up yet"}
	case v.First:
		return badge{"unknown", "circle-question-mark", "No checks yet"}
	case stale > 0:
		return badge{"unknown", "clock", ops.Plural(stale, "service was", "services were") + " not checked recently"}
	case unknown > 0:
		return badge{"unknown", "circle-question-mark", ops.Plural(unknown, "service is", "services are") + " unknown"}
	case len(v.Groups) > 0:
		return badge{"ok", "circle-check", "Everything is healthy"}
	case v.Last == nil:
		return badge{"run", "loader", "The first check is running"}
	}
	return badge{v.Last.Badge.Tone, v.Last.Badge.Icon, "Last check: " + v.Last.Badge.Word}
}

// repairing says which tier of a running cycle is at work on services; nil if none is.
func repairing(c store.CycleSummary) func(string) string {
	for _, s := range slices.Backward(c.Sessions) {
		if !s.Works() {
			continue
		}
		most, verb := ops.LastTier, "Repairing"
		if c.Policy.MaxTier > 0 {
			most = min(most, c.Policy.MaxTier)
		}
		if s.Tier == ops.Tier1 {
			verb = "Looking at"
		}
		return func(services string) string {
			return fmt.Sprintf("%s %s · %s of %d", verb, services, s.Tier, int(most))
		}
	}
	return nil
}

// repaired names what a running cycle works on: the first service, and how many more.
func (v *overviewView) repaired() string {
	var names []string
	all := 0
	for _, p := range v.Problems {
		if p.Badge.Tone == "run" && len(p.Services) > 0 {
			names = append(names, plain(p.Services[0].Name))
			all += p.all
		}
	}
	if len(names) == 0 { // it was started for something else, and finds this
		for _, e := range v.Failing {
			names = append(names, plain(e.Name))
		}
		all = len(names)
	}
	switch {
	case len(names) == 0:
		return "a service"
	case all > 1:
		return fmt.Sprintf("%s and %d more", names[0], all-1)
	}
	return names[0]
}

// usualRhythm is how often a probe looks that has no interval of its own.
const usualRhythm = 30 * time.Second

// rhythm says how often probes look and when the last one did; empty if they do not look all the time.
func (s *overview) rhythm(m moment, services []serviceEntry) string {
	var every time.Duration
	for _, e := range s.Environments {
		for _, p := range e.Probes {
			if one := cmp.Or(p.Interval, usualRhythm); p.Type != "heartbeat" && (every == 0 || one < every) {
				every = one
			}
		}
	}
	var last time.Time
	for _, e := range services {
		if e.CheckedAt != nil && e.CheckedAt.After(last) {
			last = *e.CheckedAt
		}
	}
	ago := m.now.Sub(last)
	if every == 0 || last.IsZero() || ago > max(4*every, time.Minute) {
		return ""
	}
	often := "Probing every " + ops.Span(every)
	if ago > 4*every { // good results are stored some seconds later, several at once
		return often
	}
	return often + " · last " + ops.Span(ago) + " ago"
}

// ticksShown is how many results of a probe are drawn, and tickServices of how many services.
const (
	ticksShown   = 50
	tickServices = 30
	tickHeight   = 14
)

// listed are the services that the overview lists, the worst first.
func (v *overviewView) listed() [][]serviceEntry {
	lists := [][]serviceEntry{v.Failing}
	for _, p := range v.Problems {
		lists = append(lists, p.Services)
	}
	for _, g := range v.Groups {
		lists = append(lists, g.Services)
	}
	return lists
}

// addTicks draws the last results of services.
func (s *services) addTicks(ctx context.Context, m moment, lists ...[]serviceEntry) error {
	left := tickServices
	for _, list := range lists {
		for i := range list {
			e := &list[i]
			if len(e.Checks) == 0 || left == 0 {
				continue
			}
			left--
			worst := slices.MinFunc(e.Checks, func(a, b api.ServiceCheck) int {
				return urgency(healthBadge(ops.Health(a.Status))) - urgency(healthBadge(ops.Health(b.Status)))
			})
			checks, err := s.Store.Reports.LastChecks(ctx, e.Environment, e.Name, worst.Probe, ticksShown)
			if err != nil {
				return err
			}
			e.Ticks = m.ticks(checks)
		}
	}
	return nil
}

// ticks draws results, the newest on the right. The worse one is, the taller it is. One path for each state keeps a long list small.
func (m moment) ticks(checks []ops.Check) template.HTML {
	if len(checks) == 0 {
		return ""
	}
	const step, wide = 4, 3
	paths := map[string]string{}
	counts := map[ops.Health]int{}
	for i, c := range checks {
		counts[c.Status]++
		tone := healthBadge(c.Status).Tone
		height := cmp.Or(map[string]int{"ok": 6, "warn": 10}[tone], tickHeight)
		paths[tone] += fmt.Sprintf("M%d %dh%dv%dh-%dz", (ticksShown-len(checks)+i)*step, tickHeight-height, wide, height, wide)
	}
	title := fmt.Sprintf("The last %s on record, since %s", ops.Plural(len(checks), "result", "results"), m.text(checks[0].At))
	for _, h := range []ops.Health{ops.Down, ops.Degraded} {
		if counts[h] > 0 {
			title += fmt.Sprintf(", %d %s", counts[h], h)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="ticks" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img"><title>%s</title>`,
		ticksShown*step, tickHeight, esc(title))
	for _, tone := range []string{"ok", "warn", "bad", "unknown"} {
		if paths[tone] != "" {
			fmt.Fprintf(&b, `<path class="day-bar tone-%s" d="%s"/>`, tone, paths[tone])
		}
	}
	//nolint:gosec // escaped
	return template.HTML(b.String() + "</svg>")
}

// nowLine is one sentence about what is being done or is about to happen.
type nowLine struct {
	Badge       badge
	Environment string // empty if there is only one
	Parts       []nowPart
	Link        *pageLink
}

// nowPart is a piece of a sentence: text, a time, or a duration that the script keeps up to date.
type nowPart struct {
	Text  string
	At    *stamp
	Since string
}

// pageLink is a link with its words.
type pageLink struct {
	Path, Word string
}

// bannerView is a fact above everything else, with a link to where one can act.
type bannerView struct {
	ID, Tone, Icon, Text string
	Link                 pageLink
}

// addSituation adds what is being done, what is about to happen, and the banners that follow from it.
func (s *overview) addSituation(ctx context.Context, m moment, view *overviewView, services []serviceEntry, readOnly bool) error {
	facts, err := situation.Read(ctx, s.Store, s.Environments, badServices(services), m.now)
	if err != nil {
		return err
	}
	facts.NextChecks, facts.ReadOnly = s.NextCheck(), readOnly
	notified := map[ops.CycleID]bool{}
	asked := 0
	doing := situation.Doing(facts)
	for _, l := range doing {
		notified[l.Cycle] = true
		if err := s.addStory(ctx, m, view, l); err != nil {
			return err
		}
		if l.Approval > 0 || l.Tone == situation.ToneHand {
			asked++
		}
		problem := problemCard{nowLine: s.nowLine(m, l), all: len(l.Services)}
		view.Failing = slices.DeleteFunc(view.Failing, func(e serviceEntry) bool {
			of := e.Environment == l.Environment && slices.Contains(l.Services, e.Name)
			switch {
			case of && len(problem.Services) < openServices:
				e.Checks = slices.Clone(e.Checks)
				for i := range e.Checks {
					e.Checks[i].Note = nil // what the watch would do is not what is being done
				}
				problem.Services = append(problem.Services, e)
			case of:
				problem.More++
			}
			return of
		})
		view.Problems = append(view.Problems, problem)
	}
	if asked >= view.asked {
		view.Notified = true // each has its card
	}
	// The page says elsewhere why these need a person.
	view.NeedsYou = slices.DeleteFunc(view.NeedsYou, func(c cycleLine) bool { return notified[c.ID] })
	ahead := slices.DeleteFunc(situation.Ahead(facts), func(l situation.Line) bool {
		return len(l.Services) > 0 && slices.ContainsFunc(doing, func(d situation.Line) bool {
			return d.Tone == situation.ToneRun && d.Environment == l.Environment && slices.Equal(d.Services, l.Services)
		})
	})
	if len(ahead) == 1 && ahead[0].Tone == situation.ToneCalm && len(ahead[0].Services) == 0 {
		ahead = nil // the time of the next check is in the head of the page
	}
	for _, l := range ahead {
		view.Ahead = append(view.Ahead, s.nowLine(m, l))
	}
	nobody, err := s.untold(ctx)
	if err != nil {
		return err
	}
	if nobody != "" {
		view.Banners = append(view.Banners, bannerView{
			ID: "banner-untold", Tone: "bad", Icon: "bell-off", Text: plain(nobody) + ".",
			Link: pageLink{"/notifications#targets", "Add a target and send a test"},
		})
	}
	s.addBanners(view, facts)
	return nil
}

// addStory tells what is being done: of an incident wholly, otherwise of the cycle. The first line is the most urgent one.
func (s *overview) addStory(ctx context.Context, m moment, view *overviewView, l situation.Line) error {
	if view.Story != nil || l.Tone != situation.ToneRun && l.Approval == 0 {
		return nil
	}
	var rows ops.IncidentStory
	var err error
	switch {
	case l.Incident > 0:
		rows, err = s.desk.Story(ctx, l.Incident)
	case l.Cycle > 0:
		rows, err = s.Store.Reports.CycleStory(ctx, l.Cycle)
	}
	if err != nil {
		return fmt.Errorf("read what is being done: %w", err)
	}
	if told := story.Tell(rows, m.now); len(told.Steps) > 0 {
		view.Story = &told
	}
	return nil
}

// badServices are the first of the services whose last check was bad, worst first, as the list is sorted.
func badServices(services []serviceEntry) []situation.Service {
	var out []situation.Service
	for _, e := range services {
		if e.Badge.Tone != "bad" && e.Badge.Tone != "warn" {
			continue
		}
		out = append(out, situation.Service{Environment: e.Environment, Name: e.Name, Status: ops.Health(e.State)})
		if len(out) > situation.MostServices {
			break
		}
	}
	return out
}

func (s *site) nowLine(m moment, l situation.Line) nowLine {
	out := nowLine{Badge: toneBadge(l.Tone), Link: linkOf(l)}
	if len(s.Environments) > 1 {
		out.Environment = plain(l.Environment)
	}
	for _, p := range l.Parts {
		switch {
		case p.At != nil:
			out.Parts = append(out.Parts, nowPart{At: m.maybe(p.At)})
		case p.Since != nil:
			out.Parts = append(out.Parts, nowPart{Text: span(m.now.Sub(*p.Since)), Since: p.Since.UTC().Format(time.RFC3339)})
		default:
			out.Parts = append(out.Parts, nowPart{Text: plain(p.Text)})
		}
	}
	return out
}

func toneBadge(t situation.Tone) badge {
	switch t {
	case situation.ToneRun:
		return badge{"run", "loader", "Running"}
	case situation.ToneHand:
		return badge{"hand", "hand", "Needs you"}
	case situation.ToneWarn:
		return badge{"warn", "triangle-alert", "Warning"}
	case situation.ToneCalm:
	}
	return badge{"unknown", "clock", "Waiting"}
}

// linkOf leads to where one can act on a line.
func linkOf(l situation.Line) *pageLink {
	switch {
	case l.Approval > 0:
		return &pageLink{fmt.Sprintf("/approvals/%d", l.Approval), "Review"}
	case l.Incident > 0:
		return &pageLink{fmt.Sprintf("/incidents/%d", l.Incident), "Open incident"}
	case l.Session > 0:
		return &pageLink{fmt.Sprintf("/sessions/%d", l.Session), fmt.Sprintf("Session #%d", l.Session)}
	case l.Cycle > 0:
		return &pageLink{cyclePath(l.Cycle), fmt.Sprintf("C-%d", l.Cycle)}
	case l.Silences:
		return &pageLink{"/silences", "Silences"}
	}
	return nil
}

func (s *overview) addBanners(view *overviewView, facts situation.Facts) {
	var spent []string
	for _, e := range s.Environments {
		if facts.Spent[e.Name] {
			spent = append(spent, plain(e.Name))
		}
	}
	if len(spent) > 0 {
		where := ""
		if len(s.Environments) > 1 {
			where = " in " + strings.Join(spent, ", ")
		}
		view.Banners = append(view.Banners, bannerView{
			ID: "banner-budget", Tone: "warn", Icon: "coins", Text: "Daily budget reached" + where + ". No session starts until 00:00 UTC.",
			Link: pageLink{"/config?q=budget_day", "Raise limit"},
		})
	}
	view.Walls, view.Hole = situation.Walls(s.Walls())
	if view.Hole {
		view.Banners = append(view.Banners, bannerView{
			ID: "banner-walls", Tone: "warn", Icon: "shield", Text: view.Walls + ".", Link: pageLink{"/config#walls", "See why"},
		})
	}
	dry := 0
	for _, e := range s.Environments {
		if e.Policy.DryRun {
			dry++
		}
	}
	switch {
	case dry == len(s.Environments):
		view.DryRun = situation.DryRun
	case dry > 0:
		view.DryRun = fmt.Sprintf("Dry run in %d of %d environments: agents only look there", dry, len(s.Environments))
	}
}

// textView is a text that may be too long to be shown at once.
type textView struct {
	Short string
	Full  string // empty if nothing was cut
}

// clamp shortens a text at the end of a word.
func clamp(text string, limit int) textView {
	short := ops.Start(text, limit)
	if short == text {
		return textView{Short: text}
	}
	if i := strings.LastIndexAny(short, " \n"); i > limit/2 {
		short = short[:i]
	}
	return textView{Short: strings.TrimRight(short, " \n,;:.") + "…", Full: text}
}
