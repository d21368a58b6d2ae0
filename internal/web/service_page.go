package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/decide/health"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// week is how far back the page of a service lists changes.
const week = 7 * 24 * time.Hour

// serviceRows is how many rows of each kind the page of a service lists.
const serviceRows = 10

// serviceDetail is everything about one service.
type serviceDetail struct {
	serviceEntry
	Several  bool
	Group    string
	Trust    *trustView // nil if it is not configured
	AddProbe string     // where a probe is added; empty if the visitor may not
	Remove   string     // where it is removed
	Written  []writtenView
	Reflexes []reflexView
	Update   *updateView // nil if Claude Ops does not update it
	Since    *stamp      // when the state was reached
	Error    string
	Doing    []nowLine // what is being done about it, or why nothing is
	Unprobed string    // who looks at it although it has no probe
	Beats    []ops.Heartbeat

	Story *story.Story // of its newest incident
	Last  pageLink

	Ranges []option
	Range  healthRange
	Ranged bool // somebody chose the range, so its history is open
	Health *picture
	Uptime figure
	Times  *picture

	Incidents   []ops.Incident
	Actions     []actionRow
	Runs        []runRow
	MoreRuns    string
	Cooldowns   []cooldownView
	Cycles      []ops.Cycle
	Changes     []ops.Change
	Unseen      []string
	Memories    []api.Memory
	MoreMemory  string
	Silence     question
	Silences    []api.Silence
	Path        string // of this page
	Maintenance []maintenanceView
	Events      string

	Dependencies *dependencies // nil without any
}

type maintenanceView struct {
	Name  string
	When  string
	From  *stamp
	Until *stamp
	Open  bool
}

// askedService is the service that the address of a page names.
func askedService(r *http.Request) (environment, name string) {
	if name := r.PathValue("name"); name != "" {
		return r.PathValue("environment"), name
	}
	query := r.URL.Query()
	return query.Get("environment"), query.Get("service")
}

// servicePage shows everything about one service.
func (s *services) servicePage(r *http.Request) (page, error) {
	environment, name := askedService(r)
	view, err := s.serviceDetail(r, environment, name)
	done := map[string]string{
		"added":   "Silenced: no cycle starts for it, and nothing escalates.",
		"trusted": "The trust has changed. An event records who changed it and why.",
		"reflex":  "The reflex was switched. An event records who did it and why.",
		"update":  "The update was asked for. Its state is below; if something is worse than before, the old image comes back.",
		"ended":   "The silence has ended. Failures count again.",
	}
	return page{Title: plain(view.Name), Nav: "services", Body: view, Flash: cmp.Or(cleared(r), done[queried(r, "done")])}, err
}

// serviceDetail reads what belongs to one service; each part is read by an index and bounded.
func (s *services) serviceDetail(r *http.Request, environment, name string) (serviceDetail, error) {
	ctx, m := r.Context(), moment{s.Clock()}
	view := serviceDetail{
		serviceEntry: s.serviceNow(environment, name, nil, m.now), Several: len(s.Environments) > 1, Uptime: unknown(),
		Silence: silenceOf(environment, name), Events: "/events?" + url.Values{"service": {name}}.Encode(),
	}
	usual, err := s.usualRange(ctx, m, environment, []string{name})
	if err == nil {
		view.Range, view.Ranges, err = chosenRange(r, usual, healthRanges()[:3])
	}
	if err != nil {
		return view, err
	}
	view.Ranged = queried(r, "range") != ""
	env, configured, known := s.configured(environment, name)
	checks, err := s.Store.Watch.ChecksOf(ctx, environment, name)
	if err != nil {
		return view, err
	}
	if !known && len(checks) == 0 {
		return view, ops.ErrNotFound
	}
	view.Group = plain(configured.Group)
	if known && segment(name) && name != ops.EngineService && s.mayConfigure(r) { // the file need not name that
		s.addForms(&view)
	}
	for _, part := range []func() error{
		func() error { return s.addState(ctx, m, &view, checks) },
		func() error { return s.addDoing(r, m, &view) },
		func() error { return s.addUnprobed(ctx, m, &view, env) },
		func() (err error) {
			view.Beats, err = s.Store.Watch.HeartbeatsOf(ctx, environment, name)
			return err
		},
		func() error { return s.addHistory(ctx, m, &view) },
		func() error { return s.addServiceRecords(ctx, m, &view) },
		func() (err error) {
			if known {
				view.Changes, view.Unseen, err = s.desk.Changes(ctx, environment, name, store.ChangeFilter{Since: m.now.Add(-week), Limit: serviceRows})
			}
			return err
		},
		func() error { return s.addTrust(ctx, &view) },
		func() error { return s.addReflexes(ctx, &view) },
		func() error { return s.addUpdate(ctx, &view) },
		func() error { return s.addActions(ctx, m, &view, configured) },
		func() error { return s.addPauses(ctx, m, &view, env, configured) },
		func() error { return s.addDependencies(ctx, m, &view, env, configured) },
	} {
		if err := part(); err != nil {
			return view, err
		}
	}
	return view, nil
}

// writtenView is a probe as it stands in the configuration file, with the forms that change it.
type writtenView struct{ Text, Change, Remove string }

// addForms adds the forms that change the configuration of a service. It may stand in a file that they cannot change.
func (s *services) addForms(view *serviceDetail) {
	base, query := "/settings/services/"+url.PathEscape(view.Name), "?"+url.Values{"environment": {view.Environment}}.Encode()
	view.AddProbe = base + "/probes/new" + query
	probes, err := s.written(view.Environment, view.Name)
	if err != nil {
		return
	}
	view.Remove = base + "/remove" + query
	for i, w := range probes {
		one := fmt.Sprintf("%s/probes/%d", base, i+1)
		v := writtenView{Text: probeWords(w), Remove: one + "/remove" + query}
		if w.Plain {
			v.Change = one + query
		}
		view.Written = append(view.Written, v)
	}
}

// configured finds a service in the configuration.
func (s *services) configured(environment, name string) (ops.Environment, ops.Service, bool) {
	e := s.environment(environment)
	if i := slices.IndexFunc(e.Policy.Inventory.Services, func(v ops.Service) bool { return v.Name == name }); i >= 0 {
		return e, e.Policy.Inventory.Services[i], true
	}
	return e, ops.Service{Name: name}, false
}

// addDoing adds the sentence of the overview about a service that is not well.
func (s *services) addDoing(r *http.Request, m moment, view *serviceDetail) error {
	bad := badServices([]serviceEntry{view.serviceEntry})
	if len(bad) == 0 {
		return nil
	}
	facts, err := situation.Read(r.Context(), s.Store, s.Environments, bad, m.now)
	facts.NextChecks, facts.ReadOnly = s.NextCheck(), !caller(r).May(access.Approve)
	for _, l := range situation.Doing(facts) {
		if l.Environment == view.Environment && slices.Contains(l.Services, view.Name) {
			view.Doing = append(view.Doing, s.nowLine(m, l))
		}
	}
	return err
}

// addState adds what is known now: the state, since when, and the error.
func (s *services) addState(ctx context.Context, m moment, view *serviceDetail, checks []ops.Check) error {
	entry := s.serviceNow(view.Environment, view.Name, checks, m.now)
	view.serviceEntry = entry
	for _, c := range checks {
		if c.Error != "" && healthBadge(c.Status) == entry.Badge {
			view.Error = firstLine(c.Error, 300)
			break
		}
	}
	states, err := s.Store.Reports.StatesOf(ctx, view.Environment, view.Name)
	if err != nil {
		return err
	}
	var since time.Time
	for _, state := range states {
		// The state is as old as its oldest bad check, or as the last change to healthy.
		at := state.Since
		if healthBadge(state.Level) != entry.Badge || at.IsZero() {
			continue
		}
		if since.IsZero() || (entry.Badge.Tone == "ok") == at.After(since) {
			since = at
		}
	}
	if !since.IsZero() {
		view.Since = m.maybe(&since)
	}
	return nil
}

// addUnprobed says who looks at a service without a probe, and at what price.
func (s *services) addUnprobed(ctx context.Context, m moment, view *serviceDetail, env ops.Environment) error {
	if !slices.Contains(env.Policy.Unprobed(), view.Name) {
		return nil
	}
	price, err := situation.LookPrice(ctx, s.Store.Reports, env.Name, m.now)
	view.Unprobed = situation.UnprobedService(env, view.Name, price)
	return err
}

func (s *services) addHistory(ctx context.Context, m moment, view *serviceDetail) error {
	filter := store.HealthFilter{
		Environment: view.Environment, Services: []string{view.Name}, Since: m.now.Add(-view.Range.Length), Until: m.now,
		Bucket: view.Range.Bucket,
	}
	past, err := s.Store.Reports.Health(ctx, filter)
	if err != nil {
		return err
	}
	if len(past) == 1 {
		bad, err := s.Store.Reports.BadChecks(ctx, view.Environment, []string{view.Name}, filter.Since)
		if err != nil {
			return err
		}
		view.Health, view.Uptime = m.healthBar("history", view.Range, past[0], bucketErrors(past[0], bad)), uptime(past[0])
	}
	if view.Health == nil {
		one := []serviceEntry{view.serviceEntry}
		if err := s.addTicks(ctx, m, one); err != nil {
			return err
		}
		view.serviceEntry = one[0]
	}
	buckets, err := s.Store.Reports.ResponseTimes(ctx, view.Environment, view.Name, filter)
	if err != nil {
		return err
	}
	view.Times = m.timesPlot("times", plain(view.Name), view.Range, buckets)
	return nil
}

// addServiceRecords adds incidents with the story of the newest, cycles and memories.
func (s *services) addServiceRecords(ctx context.Context, m moment, view *serviceDetail) error {
	var err error
	of := store.IncidentFilter{Environment: view.Environment, Service: view.Name, Limit: serviceRows}
	view.Incidents, err = s.Store.People.Incidents(ctx, of)
	if err != nil {
		return err
	}
	if len(view.Incidents) > 0 {
		last := view.Incidents[0].ID
		rows, err := s.desk.Story(ctx, last)
		if err != nil {
			return err
		}
		if told := story.Tell(rows, m.now); len(told.Steps) > 0 {
			view.Story, view.Last = &told, pageLink{fmt.Sprintf("/incidents/%d", last), fmt.Sprintf("Incident %d", last)}
		}
	}
	if view.Cycles, err = s.Store.Reports.CyclesOf(ctx, view.Environment, view.Name, serviceRows); err != nil {
		return err
	}
	about := store.MemoryFilter{Environment: view.Environment, Service: view.Name, Limit: serviceRows + 1}
	memories, err := s.Store.People.Memories(ctx, about)
	if err != nil {
		return err
	}
	for i, memory := range memories {
		if i == serviceRows {
			view.MoreMemory = "/memory?" + url.Values{"service": {view.Name}}.Encode()
			break
		}
		view.Memories = append(view.Memories, api.MemoryRow(memory))
	}
	return nil
}

func (s *services) addActions(ctx context.Context, m moment, view *serviceDetail, v ops.Service) error {
	view.Actions = actionGroupOf(view.Environment, v).Actions
	runs, err := s.Store.Acts.ActionRuns(ctx, store.ActionFilter{Environment: view.Environment, Service: view.Name, Limit: serviceRows + 1})
	if err != nil {
		return err
	}
	if len(runs) > serviceRows {
		runs, view.MoreRuns = runs[:serviceRows], "/actions?"+url.Values{"service": {view.Name}}.Encode()
	}
	view.Runs = api.Rows(runs, s.runRow)
	limits := s.environment(view.Environment).Policy.AllCooldowns()
	used, err := s.Store.Acts.Cooldowns(ctx, view.Environment, limits, m.now)
	if err != nil {
		return err
	}
	view.Cooldowns = m.cooldownsOf(view.Environment, view.Name, limits, used)
	return nil
}

// addPauses adds the silences and the maintenance that are about the service.
func (s *services) addPauses(ctx context.Context, m moment, view *serviceDetail, env ops.Environment, v ops.Service) error {
	probes := []string{""}
	for _, c := range view.Checks {
		probes = append(probes, c.Probe)
	}
	silences, err := s.Store.Watch.SilencesSince(ctx, view.Environment, m.now)
	if err != nil {
		return err
	}
	view.Path = servicePath(view.Environment, view.Name)
	for _, q := range silences {
		covers := func(probe string) bool { return q.Covers(view.Environment, view.Name, v.Group, probe) }
		if !slices.ContainsFunc(probes, covers) || len(view.Silences) == serviceRows {
			continue
		}
		view.Silences = append(view.Silences, api.SilenceRow(q, m.now))
	}
	for _, w := range env.Watch.Maintenance {
		if w.Covers(view.Name, v.Group) && len(view.Maintenance) < serviceRows {
			view.Maintenance = append(view.Maintenance, m.maintenance(w))
		}
	}
	return nil
}

func (m moment) maintenance(w ops.Maintenance) maintenanceView {
	view := maintenanceView{Name: plain(w.Name)}
	until, open := health.Maintained(w, m.now)
	view.Open = open
	if w.Schedule != "" {
		zone := w.Zone
		if zone == "" {
			zone = "UTC"
		}
		view.When = plain(w.Schedule + " for " + windowText(w.Length) + ", " + zone)
		if open {
			view.Until = m.maybe(&until)
		}
		return view
	}
	view.From, view.Until = m.maybe(&w.From), m.maybe(&w.Until)
	return view
}

// silenceOf asks how long a service is to be silenced.
func silenceOf(environment, name string) question {
	return question{
		ID: "silence", Button: "Silence 1 h", Icon: "bell-off", Style: "", Title: "Silence " + plain(name) + "?", Action: "/silences",
		Text: "No cycle starts for it, and nothing escalates, until the silence ends.", Yes: "Silence it", No: "Cancel",
		Hidden: map[string]string{"environment": environment, "service": name, "back": servicePath(environment, name)},
		Fields: []input{
			{Name: "reason", Label: "Reason", Kind: "area", Required: true, Max: desk.MaxReason, Hint: "For other operators"},
			{Name: "for", Label: "Duration", Kind: "select", Required: true, Choices: silenceDurations("1h")},
		},
	}
}

// serviceBack returns the page of a service that a form was sent from, with what was done, or another page.
func serviceBack(r *http.Request, done, other string) string {
	back := localPath(r.PostFormValue("back"))
	if !strings.HasPrefix(back, "/services/") {
		return other
	}
	return addQuery(back, "done", done)
}

// addQuery adds a field to a URL that may have some.
func addQuery(path, name, value string) string {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + url.Values{name: {value}}.Encode()
}

// OpenMaintenance is the badge of a maintenance that is going on.
func (serviceDetail) OpenMaintenance() badge { return badge{"warn", "wrench", "In maintenance"} }

// servicePath is the address of the page of a service. Both names can contain any character.
func servicePath(environment, name string) string {
	if !segment(environment) || !segment(name) {
		return "/services/page?" + url.Values{"environment": {environment}, "service": {name}}.Encode()
	}
	return "/services/" + url.PathEscape(environment) + "/" + url.PathEscape(name)
}

// segment reports whether a name can be a part of a path: browsers remove dots, escaped or not.
func segment(name string) bool { return name != "" && name != "." && name != ".." }

// updateView is what is known of the image of a service, with the button that updates it.
type updateView struct {
	api.Updatable
	Image string
	State string // of the latest update
	Ask   *question
}

// addUpdate adds the image of a service that can be updated.
func (s *services) addUpdate(ctx context.Context, view *serviceDetail) error {
	found, err := s.desk.Updatables(ctx, view.Environment, view.Name)
	if _, unknown := desk.Problem(err); unknown || err == nil && (len(found) == 0 || found[0].Not != "") {
		return nil
	}
	if err != nil {
		return err
	}
	u := found[0]
	v := updateView{Updatable: api.UpdatableRow(u)}
	if u.Version != nil {
		v.Image = u.Version.Image.String()
	}
	running := false
	if l := u.Latest; l != nil {
		v.State = l.Phase.String()
		running = !l.Phase.Ended() && l.Phase != ops.UpdateWaiting
	}
	if !running {
		v.Ask = &question{
			ID: "update", Button: "Update", Icon: "arrow-up", Style: "plain", Title: fmt.Sprintf("Update %s?", plain(u.Service)),
			Text:   "It gets the newest image of its tag and is watched. If a probe is worse than before, the old image comes back.",
			Action: "/services/update", Yes: "Update", No: "Cancel",
			Hidden: map[string]string{"environment": u.Environment, "service": u.Service},
			Fields: []input{{Name: "to", Label: "Another image of the same repository (optional)", Max: desk.MaxName}},
		}
	}
	view.Update = &v
	return nil
}

// updateService asks for an update.
func (s *services) updateService(r *http.Request) (string, error) {
	u, err := s.desk.Update(r.Context(), by(r), r.PostFormValue("environment"), r.PostFormValue("service"), r.PostFormValue("to"))
	return servicePath(u.Environment, u.Service) + "?done=update", err
}

// dependencies are what a service needs and what needs it.
type dependencies struct {
	Needs    []neighbour
	NeededBy []neighbour
	// MoreNeeds and MoreNeededBy are how many are not shown.
	MoreNeeds, MoreNeededBy int
}

type neighbour struct {
	Name  string
	Path  string
	Badge badge
}

// maxNeighbours is how many services the page shows on each side.
const maxNeighbours = 8

// addDependencies adds what a service needs and what needs it, with their states.
func (s *services) addDependencies(ctx context.Context, m moment, view *serviceDetail, env ops.Environment, v ops.Service) error {
	inventory := env.Policy.Inventory
	var needs, neededBy []string
	for _, name := range v.DependsOn {
		canonical, _ := inventory.Canonical(name)
		if !slices.Contains(needs, canonical) {
			needs = append(needs, canonical)
		}
	}
	for _, other := range inventory.Services {
		for _, name := range other.DependsOn {
			if name == v.Name || slices.Contains(v.Aliases, name) {
				neededBy = append(neededBy, other.Name)
				break
			}
		}
	}
	if len(needs)+len(neededBy) == 0 {
		return nil
	}
	d := &dependencies{MoreNeeds: max(0, len(needs)-maxNeighbours), MoreNeededBy: max(0, len(neededBy)-maxNeighbours)}
	var err error
	if d.Needs, err = s.neighbours(ctx, m, env.Name, needs); err != nil {
		return err
	}
	if d.NeededBy, err = s.neighbours(ctx, m, env.Name, neededBy); err != nil {
		return err
	}
	view.Dependencies = d
	return nil
}

func (s *services) neighbours(ctx context.Context, m moment, environment string, names []string) ([]neighbour, error) {
	var out []neighbour
	for _, name := range names[:min(len(names), maxNeighbours)] {
		checks, err := s.Store.Watch.ChecksOf(ctx, environment, name)
		if err != nil {
			return nil, err
		}
		out = append(out, neighbour{plain(name), servicePath(environment, name), s.serviceNow(environment, name, checks, m.now).Badge})
	}
	return out, nil
}
