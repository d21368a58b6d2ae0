package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// healthRange is the period and resolution of the health bars.
type healthRange struct {
	Value  string
	Word   string
	Length time.Duration
	Bucket time.Duration
}

func healthRanges() []healthRange {
	const day = 24 * time.Hour
	return []healthRange{
		{"24h", "24 hours", day, time.Hour},
		{"7d", "7 days", 7 * day, 4 * time.Hour},
		{"30d", "30 days", 30 * day, day},
		{"90d", "90 days", 90 * day, 2 * day},
	}
}

type servicesView struct {
	Filters   filterRow
	Ranges    []option
	Range     healthRange
	Counts    []healthCount
	Services  []serviceRow
	Several   bool
	Any       bool // there is at least one service
	MayAdd    bool // the visitor may change the configuration
	Clear     string
	Page      string // which services are shown; empty if all are
	Previous  string
	Following string
}

// serviceRow is one service with its health history and cooldowns.
type serviceRow struct {
	serviceEntry
	ID        string // of its element
	Health    *picture
	Uptime    figure
	Cooldowns []cooldownView
	Incidents []ops.Incident
}

func (s *services) servicesPage(r *http.Request) (page, error) {
	view, err := s.servicesView(r)
	p := page{Title: "Services", Nav: "services", Body: view}
	p.Flash = cleared(r)
	return p, err
}

// cleared says that a cooldown was cleared, if it was.
func cleared(r *http.Request) string {
	if n, err := strconv.Atoi(queried(r, "cleared")); err == nil && n > 0 {
		return ops.Plural(n, "action no longer counts", "actions no longer count") + ". An event records who cleared it and why."
	}
	return ""
}

func (s *services) servicesView(r *http.Request) (servicesView, error) {
	ctx, m := r.Context(), moment{s.Clock()}
	state, environment := queried(r, "state"), queried(r, "environment")
	wanted := queried(r, "q")
	view := servicesView{Several: len(s.Environments) > 1, Clear: "/services", MayAdd: s.mayConfigure(r)}
	view.Filters = filterRow{
		Action: "/services", Hidden: map[string]string{"range": queried(r, "range")},
		Fields: []filterField{
			{Kind: "search", Name: "q", Label: "Search services", Value: wanted},
			selected("state", "State", chosen(state, "All states", choice{Value: "bad", Word: "Down"}, choice{Value: "warn", Word: "Degraded"},
				choice{Value: "ok", Word: "Healthy"}, choice{Value: "unknown", Word: "Unknown or stale"})),
		},
	}.withEnvironment(s.environmentChoices(environment)).clearing(wanted != "" || state != "" || environment != "")
	all, err := s.allServices(ctx, m.now)
	if err != nil {
		return view, err
	}
	view.Any = len(all) > 0
	matching := make([]serviceEntry, 0, len(all))
	search := strings.ToLower(wanted)
	for _, e := range all {
		if environment != "" && e.Environment != environment {
			continue
		}
		view.Counts = counted(view.Counts, e.Badge)
		if (state == "" || e.Badge.Tone == state) && strings.Contains(strings.ToLower(e.Name), search) {
			matching = append(matching, e)
		}
	}
	shown := view.turn(r, matching)
	names := make([]string, len(shown))
	for i, e := range shown {
		names[i] = e.Name
	}
	usual, err := s.usualRange(ctx, m, environment, names)
	if err == nil {
		view.Range, view.Ranges, err = chosenRange(r, usual, healthRanges())
	}
	if err != nil {
		return view, err
	}
	return view, s.addServiceRows(ctx, m, &view, shown, names, environment)
}

// addServiceRows adds the services of one page with their history, incidents and cooldowns.
func (s *services) addServiceRows(ctx context.Context, m moment, view *servicesView, entries []serviceEntry, names []string,
	environment string,
) error {
	past, err := s.Store.Reports.Health(ctx, store.HealthFilter{
		Environment: environment, Services: names, Since: m.now.Add(-view.Range.Length), Until: m.now, Bucket: view.Range.Bucket,
	})
	if err != nil {
		return err
	}
	history := map[serviceKey]store.ServiceHealth{}
	for _, h := range past {
		history[serviceKey{h.Environment, h.Service}] = h
	}
	bad, err := s.badChecks(ctx, entries, m.now.Add(-view.Range.Length))
	if err != nil {
		return err
	}
	incidents, err := s.openIncidents(ctx, environment)
	if err != nil {
		return err
	}
	cooldowns, err := s.cooldownsByService(ctx, m)
	if err != nil {
		return err
	}
	entries = slices.Clone(entries) // the list serves several pages
	if err := s.addTicks(ctx, m, entries); err != nil {
		return err
	}
	for _, e := range entries {
		key := serviceKey{e.Environment, e.Name}
		row := serviceRow{
			serviceEntry: e, ID: key.element(), Cooldowns: cooldowns[key], Incidents: incidents[key], Uptime: unknown(),
		}
		if h, known := history[key]; known {
			row.Health = m.healthBar("health-"+row.ID, view.Range, h, bucketErrors(h, bad[key]))
			row.Uptime = uptime(h)
		}
		view.Services = append(view.Services, row)
	}
	return nil
}

// badChecks returns the results of services that were not healthy, newest first.
func (s *services) badChecks(ctx context.Context, entries []serviceEntry, since time.Time) (map[serviceKey][]ops.Check, error) {
	names := map[string][]string{}
	for _, e := range entries {
		names[e.Environment] = append(names[e.Environment], e.Name)
	}
	out := map[serviceKey][]ops.Check{}
	for environment, services := range names {
		found, err := s.Store.Reports.BadChecks(ctx, environment, services, since)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			key := serviceKey{c.Environment, c.Service}
			out[key] = append(out[key], c)
		}
	}
	return out, nil
}

// servicesPerPage is how many services a page lists.
const servicesPerPage = 20

// turn returns the services of the page that was asked for, and sets the links to the others.
func (v *servicesView) turn(r *http.Request, matching []serviceEntry) []serviceEntry {
	pages := max(1, (len(matching)+servicesPerPage-1)/servicesPerPage)
	at, err := strconv.Atoi(queried(r, "page"))
	if err != nil || at < 1 {
		at = 1
	}
	at = min(at, pages)
	first := (at - 1) * servicesPerPage
	last := min(first+servicesPerPage, len(matching))
	if pages > 1 {
		v.Page = fmt.Sprintf("%d–%d of %d", first+1, last, len(matching))
	}
	if at > 1 {
		v.Previous = with(r, "page", strconv.Itoa(at-1))
	}
	if at < pages {
		v.Following = with(r, "page", strconv.Itoa(at+1))
	}
	return matching[first:last]
}

// usualRange is the shortest range that shows all there is of services, at most 30 days.
func (s *services) usualRange(ctx context.Context, m moment, environment string, names []string) (string, error) {
	const day = 24 * time.Hour
	past, err := s.Store.Reports.Health(ctx, store.HealthFilter{
		Environment: environment, Services: names, Since: m.now.Add(-30 * day), Until: m.now, Bucket: day,
	})
	oldest := m.now
	for _, h := range past {
		at := slices.IndexFunc(h.Buckets, func(b store.HealthBucket) bool { return b.Checks() > 0 })
		if at >= 0 && h.Buckets[at].From.Before(oldest) {
			oldest = h.Buckets[at].From
		}
	}
	switch age := m.now.Sub(oldest); {
	case age <= day:
		return "24h", err
	case age <= 7*day:
		return "7d", err
	}
	return "30d", err
}

// chosenRange is the range that a page was asked for, with links to all that it has.
func chosenRange(r *http.Request, usual string, ranges []healthRange) (found healthRange, links []option, err error) {
	wanted := cmp.Or(queried(r, "range"), usual)
	var values []string
	for _, one := range ranges {
		if one.Value == wanted {
			found = one
		}
		links = append(links, option{Word: one.Value, Path: with(r, "range", one.Value), Current: one.Value == wanted})
		values = append(values, one.Value)
	}
	if last := len(values) - 1; found.Value == "" {
		err = noSuch("No such range. Use " + strings.Join(values[:last], ", ") + " or " + values[last] + ".")
	}
	return found, links, err
}

type serviceKey struct{ environment, service string }

// element is the id of the HTML element of a service; its name can contain any character.
func (k serviceKey) element() string {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, k.environment+"\x00"+k.service) // a hash never fails
	return "service-" + hex.EncodeToString(sum.Sum(nil))
}

// environment is a configured environment; one that is not has only its name.
func (s *site) environment(name string) ops.Environment {
	if i := slices.IndexFunc(s.Environments, func(e ops.Environment) bool { return e.Name == name }); i >= 0 {
		return s.Environments[i]
	}
	return ops.Environment{Name: name}
}

// cooldownsByService returns the remaining actions of each service with recent ones.
func (s *services) cooldownsByService(ctx context.Context, m moment) (map[serviceKey][]cooldownView, error) {
	out := map[serviceKey][]cooldownView{}
	for _, e := range s.Environments {
		limits := e.Policy.AllCooldowns()
		used, err := s.Store.Acts.Cooldowns(ctx, e.Name, limits, m.now)
		if err != nil {
			return nil, err
		}
		for _, u := range used {
			key := serviceKey{e.Name, u.Service}
			if _, done := out[key]; !done {
				out[key] = m.cooldownsOf(e.Name, u.Service, limits, used)
			}
		}
	}
	return out, nil
}

func (s *services) openIncidents(ctx context.Context, environment string) (map[serviceKey][]ops.Incident, error) {
	found, err := s.Store.People.Incidents(ctx, store.IncidentFilter{Open: true, Environment: environment, Limit: 200})
	if err != nil {
		return nil, err
	}
	out := map[serviceKey][]ops.Incident{}
	for _, i := range found {
		key := serviceKey{i.Environment, i.Service}
		out[key] = append(out[key], i)
	}
	return out, nil
}

// uptime is the share of checks that were not down, never rounded up to 100 %.
func uptime(h store.ServiceHealth) figure {
	share, known := h.Uptime()
	if !known {
		return unknown()
	}
	text := strconv.FormatFloat(100*share, 'f', 1, 64)
	if share < 1 && text == "100.0" {
		text = "99.9"
	}
	if share == 1 {
		text = "100"
	}
	checks := 0
	for _, b := range h.Buckets {
		checks += b.Checks()
	}
	return figure{Known: true, Text: text + " %", Exact: "of " + ops.Plural(checks, "check", "checks")}
}

func clearPath(environment, service, action string) string {
	return "/services/cooldown?" + url.Values{"environment": {environment}, "service": {service}, "action": {action}}.Encode()
}

// cooldownPage asks for confirmation before it clears a cooldown.
type cooldownPage struct {
	Environment string
	Service     string
	Action      string
	Left        *cooldownView
	FormError   string
	Several     bool
}

func (s *services) cooldown(r *http.Request, problem string) (page, error) {
	view := cooldownPage{
		Environment: r.FormValue("environment"), Service: r.FormValue("service"), Action: r.FormValue("action"),
		FormError: problem, Several: len(s.Environments) > 1,
	}
	m := moment{s.Clock()}
	limits := s.environment(view.Environment).Policy.AllCooldowns()
	used, err := s.Store.Acts.Cooldowns(r.Context(), view.Environment, limits, m.now)
	if err != nil {
		return page{}, err
	}
	for _, c := range m.cooldownsOf(view.Environment, view.Service, limits, used) {
		if c.Action == view.Action && c.Used {
			view.Left = &c
		}
	}
	if view.Left == nil {
		return page{}, noSuch("No recent actions of this kind count for this service. There is nothing to clear.")
	}
	return page{Title: "Clear a cooldown", Nav: "services", Body: view, Static: true}, nil
}

// clearCooldown resets a cooldown.
func (s *services) clearCooldown(r *http.Request) (string, error) {
	environment, service := r.PostFormValue("environment"), r.PostFormValue("service")
	n, err := s.desk.ClearCooldown(r.Context(), by(r), desk.Action{
		Environment: environment, Service: service, Name: r.PostFormValue("action"), Why: reason(r),
	})
	if errors.Is(err, ops.ErrNotFound) {
		err = refusal{http.StatusConflict, "This cooldown has no recent actions any more. It may already have been cleared."}
	}
	return addQuery(servicePath(environment, service), "cleared", strconv.Itoa(n)), err
}

type healthCount struct {
	Badge badge
	Count int
}

// counted counts a service by its state; services are sorted by state.
func counted(counts []healthCount, b badge) []healthCount {
	if n := len(counts); n > 0 && counts[n-1].Badge == b {
		counts[n-1].Count++
		return counts
	}
	return append(counts, healthCount{b, 1})
}

// serviceEntry is the API's row of a service with its badge.
type serviceEntry struct {
	api.ServiceState
	Badge badge
	Ticks template.HTML // its last results, where they are drawn
}

func entryOf(row api.ServiceState) serviceEntry {
	return serviceEntry{ServiceState: row, Badge: healthBadge(ops.Health(row.State))}
}

// Stale reports whether its last check is too old to say anything.
func (e serviceEntry) Stale() bool { return e.State == api.HealthStale }

// serviceList is the list of all services with the time until which it is shown.
type serviceList struct {
	mu      sync.Mutex
	until   time.Time
	entries []serviceEntry
}

const (
	// manyServices is from how many on one list serves several pages.
	manyServices = 2000
	// keepServices is how long it is shown then.
	keepServices = 5 * time.Second
)

// allServices returns every service, worst first. Nobody may change the result.
func (s *services) allServices(ctx context.Context, now time.Time) ([]serviceEntry, error) {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	if time.Now().Before(s.list.until) {
		return s.list.entries, nil
	}
	s.list.entries = nil // while it is read again
	rows, err := api.ServiceStates(ctx, s.Store.Watch, s.Environments, "", now)
	if err != nil {
		return nil, fmt.Errorf("read checks: %w", err)
	}
	entries := api.Rows(rows, entryOf)
	slices.SortStableFunc(entries, func(a, b serviceEntry) int {
		return cmp.Or(urgency(a.Badge)-urgency(b.Badge), strings.Compare(a.Badge.Word, b.Badge.Word))
	})
	if len(entries) >= manyServices {
		s.list.entries, s.list.until = entries, time.Now().Add(keepServices)
	}
	return entries, nil
}

// serviceNow is one service as it is now.
func (s *services) serviceNow(environment, name string, checks []ops.Check, now time.Time) serviceEntry {
	return entryOf(api.ServiceRow(environment, name, checks, s.environment(environment).Interval, now))
}

func urgency(b badge) int {
	return slices.Index([]string{"bad", "warn", "unknown", "ok"}, b.Tone)
}

const (
	// overviewServices is how many failing services, and how many healthy ones of an environment, the overview lists.
	overviewServices = 50
	// overviewMost is how many it lists in all.
	overviewMost = 200
)

func (v *overviewView) addServices(services []serviceEntry) {
	left := overviewMost
	for _, e := range services {
		v.Counts = counted(v.Counts, e.Badge)
		if e.Badge.Tone != "ok" {
			if len(v.Failing) < overviewServices {
				v.Failing = append(v.Failing, e)
				left--
			} else {
				v.MoreFailing++
			}
			continue
		}
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != e.Environment {
			v.Groups = append(v.Groups, serviceGroup{Name: e.Environment})
		}
		group := &v.Groups[len(v.Groups)-1]
		if group.Count++; len(group.Services) < overviewServices && left > 0 {
			group.Services = append(group.Services, e)
			left--
		}
	}
}
