package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
	"claudeops/internal/watch/alert"
	"claudeops/test/storetest"
)

type scenario struct {
	Name        string
	Agent       string
	Grouping    struct{ Window, Grace, Pause, Repeat time.Duration }
	Services    map[string]serviceSpec
	Looks       map[string]string
	RepeatLooks int `yaml:"repeat_looks"`
	Length      time.Duration
	Maintenance []struct {
		Name, Service string
		From, Until   time.Time
	}
	Silences []struct {
		At, For, Ended time.Duration
		Service        string
		Labels         map[string]string
	}
	Alerts []struct {
		At, Every, Until time.Duration
		Times            int
		Body             string
		Environment      string
	}
	Restarts    []time.Duration
	Acknowledge time.Duration
	Resolve     time.Duration
	Deny        time.Duration // how long the no lasts that the first cycle gets

	Cycles    []string
	Told      []string
	Incidents int
	Cancelled int
	Refuted   int // cycles whose repair did not hold
	Of        int `yaml:"of_incidents"` // how many incidents there are in all; 0: not looked at
}

type serviceSpec struct {
	Group     string
	Aliases   []string
	DependsOn []string `yaml:"depends_on"`
}

var start = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// stage is a world in which a scenario is played.
type stage struct {
	t         *testing.T
	sc        scenario
	now       time.Time
	store     *store.Store
	owner     ops.Owner
	envs      []ops.Environment
	watch     *watch.Watch
	due       time.Time // of the next pass
	woken     bool
	started   []string
	cancels   int
	resumed   int
	announced int // notices that were there when the watch last said that rows changed
}

func newStage(t *testing.T, sc scenario) *stage {
	t.Helper()
	g := &stage{t: t, sc: sc, now: start}
	var err error
	g.store, err = store.Open(t.Context(), storetest.With(store.Options{Path: storetest.NewFile(t), Clock: func() time.Time { return g.now }}))
	g.must(err)
	t.Cleanup(func() { g.must(g.store.Close()) })
	g.owner, err = g.store.Journal.RegisterHost(t.Context(), "test")
	g.must(err)
	home := ops.Environment{Name: "home", Interval: time.Hour, Watch: ops.Watch{Grouping: ops.Grouping(sc.Grouping)}}
	home.Policy = ops.Policy{
		Observe: ops.ObserveProbes, MaxTier: ops.Tier3, Entry: "tier1", Handlers: []ops.Handler{{ID: "tier1", Tier: ops.Tier1, Agent: "fake"}},
	}
	for _, name := range slices.Sorted(maps.Keys(sc.Looks)) {
		home.Probes = append(home.Probes, ops.ProbeSpec{Service: name, Type: "http", Name: "GET"})
		if _, ok := sc.Services[name]; !ok {
			home.Policy.Inventory.Services = append(home.Policy.Inventory.Services, ops.Service{Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sc.Services)) {
		s := sc.Services[name]
		home.Policy.Inventory.Services = append(
			home.Policy.Inventory.Services,
			ops.Service{Name: name, Aliases: s.Aliases, Group: s.Group, DependsOn: s.DependsOn},
		)
	}
	for _, m := range sc.Maintenance {
		home.Watch.Maintenance = append(home.Watch.Maintenance, ops.Maintenance{Name: m.Name, Service: m.Service, From: m.From, Until: m.Until})
	}
	g.envs = []ops.Environment{home, {Name: "lab", Interval: time.Hour, Policy: home.Policy}}
	g.begin()
	return g
}

func (g *stage) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// begin makes a watch as a fresh process would.
func (g *stage) begin() {
	g.t.Helper()
	var err error
	g.watch, err = watch.New(watch.Options{
		Store: g.store.Watch, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: func() time.Time { return g.now },
		Start: g.start, Logger: slog.New(slog.DiscardHandler), Changed: g.changed,
		Cancel: func(ctx context.Context, id ops.CycleID, why string) error {
			g.cancels++
			_, err := g.store.Journal.RequestCancel(ctx, id, why, g.now)
			return err
		},
	})
	g.must(err)
	g.must(g.watch.Load(g.t.Context()))
	g.due = time.Time{}
}

// changed is what the watch calls after it wrote rows.
func (g *stage) changed(ops.Reach) {
	g.woken = true
	g.announced = len(g.told())
}

// start is the fake engine.
func (g *stage) start(id ops.CycleID) {
	if id == 0 {
		g.resumed++
		return
	}
	loaded, err := g.store.Journal.Load(g.t.Context(), id)
	g.must(err)
	causes, err := g.store.Watch.Causes(g.t.Context(), loaded.Cycle.Environment, time.Time{})
	g.must(err)
	cause := causes[len(causes)-1]
	line := fmt.Sprintf("%s %s %s", short(g.now), loaded.Cycle.Trigger, cause.Services[0])
	if n := len(cause.Services) - 1; n > 0 {
		line += fmt.Sprintf(" and %d more", n)
	}
	if loaded.Cycle.Environment != "home" {
		line += " in " + loaded.Cycle.Environment
	}
	g.started = append(g.started, line)
	if loaded.Cycle.Options != (ops.CycleOptions{}) {
		g.t.Errorf("the cycle has options: %+v", loaded.Cycle.Options)
	}
	observed := slices.ContainsFunc(
		loaded.Journal.Checks,
		func(c ops.Check) bool { return c.Purpose == ops.ProbeObserve && c.Status != ops.Healthy },
	)
	if observed != (loaded.Cycle.Trigger == ops.TriggerProbe) || len(loaded.Journal.Checks) == 0 {
		g.t.Errorf("a cycle of a %s is told %+v", loaded.Cycle.Trigger, loaded.Journal.Checks)
	}
	if g.sc.Agent == "busy" {
		return
	}
	_, err = g.store.Journal.Claim(g.t.Context(), g.owner, id, g.envs[0].Policy, g.now)
	g.must(err)
	if what, ok := strings.CutPrefix(g.sc.Agent, "repairs "); ok {
		g.repair(id, cause.Services, ops.CheckType(what))
		return
	}
	if g.sc.Deny > 0 && len(g.started) == 1 {
		g.deny(id, cause.Services)
	}
	step := ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "an agent looked"}
	if g.sc.Agent == "resolved" {
		step.Status = ops.CycleResolved
	}
	if strings.HasPrefix(g.sc.Agent, "needs_human") {
		step.Status = ops.CycleNeedsHuman
		step.Incident = &ops.IncidentReport{Title: "needs you", Level: ops.LevelCritical, Services: cause.Services}
	}
	if g.sc.Agent == "needs_human for all" {
		step.Incident.Services = append(step.Incident.Services, cause.Affected...)
	}
	_, err = g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Step: step})
	g.must(err)
}

// repair plays a tier that makes services well again, as far as the cycle's own probes can see.
func (g *stage) repair(id ops.CycleID, services []string, check ops.CheckType) {
	g.t.Helper()
	report := ops.IncidentReport{Title: "down", Level: ops.LevelWarning, Class: "down", Services: services, Handled: true}
	end := ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved, Reason: "repaired", Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe}
	var seen []ops.Check
	for _, s := range services {
		report.Checks = append(report.Checks, ops.CheckResult{Service: s, CheckType: check, Status: ops.Down, Error: "connection refused"})
		seen = append(seen, ops.Check{At: g.now, Purpose: ops.ProbeVerify, Service: s, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Healthy})
	}
	_, err := g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Step: ops.Step{Kind: ops.StepRest, Incident: &report}})
	g.must(err)
	now, err := g.store.Journal.Load(g.t.Context(), id)
	g.must(err)
	for _, i := range now.Journal.Incidents {
		if slices.Contains(services, i.Service) {
			end.Recovered = append(end.Recovered, ops.Recovered{Incident: i.ID, By: ops.ProofProbe, How: "repaired"})
		}
	}
	_, err = g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Result: ops.Result{Checks: seen}, Step: end})
	g.must(err)
	g.woken = true
}

// deny lets a cycle ask a person, who says no, and claims it again.
func (g *stage) deny(id ops.CycleID, services []string) {
	g.t.Helper()
	q := ops.Approval{Tier: ops.Tier2, Handler: "tier2"}
	for _, name := range services {
		q.Facts = append(q.Facts, ops.Fact{Service: name, Probe: "GET", Type: ops.CheckHTTP, Class: "refused"})
	}
	_, err := g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Step: ops.Step{
		Kind: ops.StepAwait, Approval: &q, Incident: &ops.IncidentReport{Title: "may it start?", Services: services, Waits: true},
	}})
	g.must(err)
	asked, err := g.store.Journal.Load(g.t.Context(), id)
	g.must(err)
	_, err = g.store.People.Deny(g.t.Context(), asked.Journal.Approvals[0].ID, &g.sc.Deny, "ann", "no", g.now)
	g.must(err)
	_, err = g.store.Journal.Claim(g.t.Context(), g.owner, id, g.envs[0].Policy, g.now)
	g.must(err)
}

func short(at time.Time) string {
	text := at.Sub(start).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

func (g *stage) play() {
	g.t.Helper()
	length := g.sc.Length
	for _, line := range g.sc.Looks {
		length = max(length, time.Duration(len(line)*max(1, g.sc.RepeatLooks))*30*time.Second)
	}
	for at := time.Duration(0); at < length; at += 10 * time.Second {
		g.now = start.Add(at)
		if slices.Contains(g.sc.Restarts, at) {
			g.begin()
		}
		g.people(at)
		g.tell(at)
		if at%(30*time.Second) == 0 {
			g.look(int(at / (30 * time.Second)))
		}
		// As in Run: when it is due, or somebody has done something.
		if g.woken || !g.now.Before(g.due) {
			g.woken = false
			g.due = g.watch.Pass(g.t.Context())
		}
	}
}

func (g *stage) people(at time.Duration) {
	g.t.Helper()
	for i, q := range g.sc.Silences {
		if q.At == at {
			_, err := g.store.Watch.AddSilence(
				g.t.Context(),
				ops.Silence{Service: q.Service, Labels: q.Labels, Reason: "work", Author: "ann", CreatedAt: g.now, Until: g.now.Add(q.For)},
			)
			g.must(err)
			g.woken = true
		}
		if q.Ended > 0 && q.Ended == at {
			_, err := g.store.Watch.EndSilence(g.t.Context(), int64(i+1), "ann", g.now)
			g.must(err)
			g.woken = true
		}
	}
	if at > 0 && g.sc.Resolve == at {
		i, err := g.store.People.ResolveIncident(g.t.Context(), 1, "ann", "done", g.now)
		g.must(err)
		if i.Note == "" {
			g.t.Error("nobody says that it is still bad")
		}
		g.woken = true
	}
	if at > 0 && g.sc.Acknowledge == at {
		_, err := g.store.People.Acknowledge(g.t.Context(), 1, "ann", "mine", g.now)
		g.must(err)
		g.woken = true
	}
}

func (g *stage) tell(at time.Duration) {
	g.t.Helper()
	for _, a := range g.sc.Alerts {
		due := at == a.At || (a.Every > 0 && at > a.At && at <= a.Until && (at-a.At)%a.Every == 0)
		if !due {
			continue
		}
		environment := "home"
		if a.Environment != "" {
			environment = a.Environment
		}
		var all []ops.Alert
		for i := range max(1, a.Times) {
			text := a.Body
			if a.Times > 0 {
				text = fmt.Sprintf(text, i)
			}
			body, err := alert.Parse(alert.Body{Sender: ops.AlertSender{Form: alert.Generic}, Content: []byte(text)}, g.now)
			g.must(err)
			found := body.Alerts
			for n := range found {
				found[n].Environment = environment
				found[n].Service, _ = g.envs[0].Policy.Inventory.Canonical(found[n].Service)
			}
			all = append(all, found...)
		}
		g.must(g.store.Watch.AddAlerts(g.t.Context(), all))
		g.woken = true
	}
}

func (g *stage) look(n int) {
	var looks []ops.Check
	for _, name := range slices.Sorted(maps.Keys(g.sc.Looks)) {
		line := g.sc.Looks[name]
		if g.sc.RepeatLooks > 0 {
			n %= len(line)
		}
		if n >= len(line) || line[n] == ' ' {
			continue
		}
		c := ops.Check{
			At:          g.now,
			Environment: "home",
			Purpose:     ops.ProbeWatch,
			Service:     name,
			Probe:       "GET",
			Type:        ops.CheckHTTP,
			Status:      ops.Healthy,
		}
		switch line[n] {
		case 'x':
			c.Status, c.Error = ops.Down, "connection refused"
		case '~':
			c.Status = ops.Degraded
		case '?':
			c.Status, c.Error = ops.Unknown, "the container engine does not answer"
		}
		looks = append(looks, c)
	}
	g.watch.Deliver(g.t.Context(), looks)
}

func (g *stage) told() []string {
	g.t.Helper()
	notices, err := g.store.People.NoticeList(g.t.Context(), store.NoticeFilter{Limit: 200})
	g.must(err)
	var out []string
	for _, n := range slices.Backward(notices) {
		out = append(out, fmt.Sprintf("%s %s %s", short(n.CreatedAt), n.Kind, n.Service))
	}
	return out
}

func TestIncidentScenarios(t *testing.T) {
	text, err := os.ReadFile("testdata/scenarios.yaml")
	must(t, err)
	var scenarios []scenario
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	must(t, decoder.Decode(&scenarios))
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			g := newStage(t, sc)
			g.play()
			if !slices.Equal(g.started, sc.Cycles) {
				t.Errorf("started %q, want %q", g.started, sc.Cycles)
			}
			if told := g.told(); !slices.Equal(told, sc.Told) {
				t.Errorf("told %q, want %q", told, sc.Told)
			}
			open, err := g.store.People.Incidents(t.Context(), store.IncidentFilter{Open: true})
			g.must(err)
			all, err := g.store.People.Incidents(t.Context(), store.IncidentFilter{})
			g.must(err)
			cycles, err := g.store.Reports.Cycles(t.Context(), store.CycleFilter{Limit: 200})
			g.must(err)
			refuted := 0
			for _, c := range cycles {
				if c.RefutedAt != nil {
					refuted++
				}
			}
			if refuted != sc.Refuted || sc.Of > 0 && len(all) != sc.Of {
				t.Errorf("%d cycles are refuted, there are %d incidents", refuted, len(all))
			}
			if len(open) != sc.Incidents || g.cancels != sc.Cancelled {
				t.Errorf("%d incidents are open, %d cycles were cancelled", len(open), g.cancels)
			}
		})
	}
}
