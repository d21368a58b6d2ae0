package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// repeats are when people are told again of an alert that fires on, counted from the first time.
func repeats() []time.Duration { return []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour} }

// dispute looks at the alerts that fire on although the cycle of their service has ended and nobody is left who takes care of it: an alert
// that says something new gets another cycle, and people are told of the others. Held are the services that are held back.
func (w *Watch) dispute(
	ctx context.Context, env *environment, p health.Picture, onHold []ops.Withheld, open []ops.Incident, now time.Time,
) {
	firing := env.firing(p, now)
	if len(firing) == 0 {
		return
	}
	due, cycles := map[ops.CycleID][]ops.Alert{}, map[ops.CycleID]ops.Cycle{}
	for _, h := range onHold {
		alerts := firing[h.Service]
		if len(alerts) == 0 || h.Why != ops.HoldCovered || h.Cycle == 0 || slices.ContainsFunc(open, caredFor(h)) {
			continue
		}
		cycle, read := cycles[h.Cycle]
		if !read {
			var err error
			if cycle, err = w.o.Cycles.Cycle(ctx, h.Cycle); err != nil {
				w.logError(ctx, "read the cycle of an alert", err)
			}
			cycles[h.Cycle] = cycle
		}
		if cycle.EndedAt == nil {
			continue
		}
		if i := slices.IndexFunc(alerts, func(a ops.Alert) bool { return a.ChangedAt.After(*cycle.EndedAt) }); i >= 0 {
			w.release(ctx, env, cycle, alerts[i])
			continue
		}
		since := *cycle.EndedAt
		if cycle.Status != ops.CycleHealthy {
			since = since.Add(env.pause()) // whoever sends the alert has to notice the repair first
		}
		for _, a := range alerts {
			if !now.Before(since) && toldBy(a, now) > a.Disputes {
				due[cycle.ID] = append(due[cycle.ID], a)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(due)) {
		w.tellOf(ctx, env, id, due[id], now)
	}
}

// firing are the firing alerts by service, without those that flap, are silenced or in maintenance.
func (env *environment) firing(p health.Picture, now time.Time) map[string][]ops.Alert {
	out := map[string][]ops.Alert{}
	inhibited := health.Inhibited(p, env.grouping, now)
	for _, a := range env.alerts {
		if v := env.states[alertKey(a)]; v.Failing() && !inhibited(v) {
			out[a.Service] = append(out[a.Service], a)
		}
	}
	for _, alerts := range out {
		slices.SortFunc(alerts, func(a, b ops.Alert) int { return int(a.ID - b.ID) })
	}
	return out
}

// caredFor: people know of the problem by its incident. A repair that nothing confirms is one that the alert contradicts.
func caredFor(h ops.Withheld) func(ops.Incident) bool {
	return func(i ops.Incident) bool {
		return i.Class != ops.ClassAlert && i.Status != ops.IncidentUnverified && (i.Service == h.Service || i.LastCycle == h.Cycle)
	}
}

// toldBy is how often people should have been told of an alert by now. What was missed is told once.
func toldBy(a ops.Alert, now time.Time) int {
	n := 1
	if a.DisputedAt == nil {
		return n
	}
	for _, after := range repeats() {
		if !now.Before(a.DisputedAt.Add(after)) {
			n++
		}
	}
	return n
}

// release ends the causes of a cycle that has looked before an alert changed.
func (w *Watch) release(ctx context.Context, env *environment, cycle ops.Cycle, changed ops.Alert) {
	for _, c := range env.causes {
		if c.Cycle != cycle.ID || c.ResolvedAt != nil {
			continue
		}
		if err := w.o.Store.ReleaseCause(ctx, c, c.Services, nil, notice.SaysMore(changed, cycle.ID), *cycle.EndedAt); err != nil {
			w.logError(ctx, "end the cause of an alert that has changed", err)
			continue
		}
		w.o.Changed(ops.ReachAll)
	}
}

// tellOf tells people of alerts that fire on after a cycle, from the second time on with an incident.
func (w *Watch) tellOf(ctx context.Context, env *environment, id ops.CycleID, alerts []ops.Alert, now time.Time) {
	loaded, err := w.o.Cycles.Load(ctx, id)
	if err != nil {
		w.logError(ctx, "read the cycle of an alert", err)
		return
	}
	d := ops.Dispute{Cycle: id, Environment: env.config.Name, Alerts: alerts}
	fires := notice.FiringOn{Alerts: alerts, Cycle: loaded.Cycle, Next: nextTime(alerts, now)}
	var said ops.Outcome
	if last := loaded.Journal.Last(); last != nil && json.Unmarshal(last.OutcomeJSON, &said) == nil { // another form says nothing here
		fires.Checked = notice.CheckedBy(said, fires.Services())
	}
	d.Event = fires.Heading() + "."
	d.Notice = disputeNotice(fires, now)
	again := fires
	again.Alerts = nil
	for _, a := range alerts {
		told := toldBy(a, now)
		if d.Told = append(d.Told, told); told > 1 {
			again.Alerts = append(again.Alerts, a)
		}
	}
	if len(again.Alerts) > 0 {
		d.Report = disputeReport(again)
	}
	err = w.o.Store.Dispute(ctx, d, now)
	if errors.Is(err, ops.ErrConflict) {
		err = env.readAlerts(ctx, w.o.Store) // somebody resolved the incident, or another host told of it
	} else if err == nil {
		for i, a := range alerts {
			a.Disputes = d.Told[i]
			if a.DisputedAt == nil {
				a.DisputedAt = &now
			}
			env.alerts[a.Fingerprint] = a
		}
		w.o.Changed(ops.ReachAll)
	}
	if err != nil {
		w.logError(ctx, "tell of alerts that fire on", err)
	}
}

// nextTime is when people are told again of the first of some alerts that they are told of now; nil: never.
func nextTime(alerts []ops.Alert, now time.Time) *time.Time {
	var next *time.Time
	for _, a := range alerts {
		first := now
		if a.DisputedAt != nil {
			first = *a.DisputedAt
		}
		for _, after := range repeats() {
			if at := first.Add(after); at.After(now) && (next == nil || at.Before(*next)) {
				next = &at
			}
		}
	}
	return next
}

func disputeNotice(f notice.FiringOn, now time.Time) ops.Notice {
	text := notice.StillFires(f)
	n := ops.Notice{
		Kind: ops.NoticeAlert, Level: levelOf(f), Title: text.Title, Body: text.Body, Environment: f.Cycle.Environment,
		Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
	if services := f.Services(); len(services) == 1 {
		n.Service = services[0]
	}
	return n
}

func levelOf(f notice.FiringOn) ops.Level {
	if slices.ContainsFunc(f.Alerts, func(a ops.Alert) bool { return a.Level == ops.LevelCritical }) {
		return ops.LevelCritical
	}
	return ops.LevelWarning
}

// maxIncidents is about how many services there is one incident each. More are one of the environment.
const maxIncidents = 20

// disputeReport is the incident about alerts that fire on.
func disputeReport(f notice.FiringOn) *ops.IncidentReport {
	r := &ops.IncidentReport{
		Title: f.Heading(), Level: levelOf(f), Class: ops.ClassAlert, Services: f.Services(), Titles: map[string]string{}, Seen: f.Checked,
		Recommendation: f.Todo(),
	}
	if len(r.Services) > maxIncidents {
		r.Services = nil
	}
	for _, service := range r.Services {
		r.Titles[service] = f.Of(service).Heading()
	}
	for _, a := range f.Alerts[:min(len(f.Alerts), maxEvidence)] {
		c := alert.Check(a)
		r.Checks = append(r.Checks, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
	}
	return r
}

func openedNotice(c ops.Cause, checks []ops.Check, dryRun bool, now time.Time) *ops.Notice {
	level := ops.LevelWarning
	if c.Level == ops.Down {
		level = ops.LevelCritical
	}
	text := notice.Opened(c, checks, dryRun)
	return &ops.Notice{
		Kind: ops.NoticeOpened, Level: level, Title: text.Title, Body: text.Body, Environment: c.Environment, Service: c.Services[0],
		Key: "opened:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

// resolvedNotice tells of the services of a cause whose end is news.
func resolvedNotice(c ops.Cause, news []string, open []ops.Incident, how string, now time.Time) ops.Notice {
	c.Services = news
	text := notice.Recovered(c, open, how, now)
	return ops.Notice{
		Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, Environment: c.Environment, Service: c.Services[0],
		Key: "resolved:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

// lostNotice tells that services of a cause are not watched any more. It is the last word about the cause.
func lostNotice(c ops.Cause, news []string, now time.Time) ops.Notice {
	n := resolvedNotice(c, news, nil, "", now)
	text := notice.Lost(c.Environment, news)
	n.Title, n.Body = text.Title, text.Body
	return n
}

func flappingNotice(environment string, flapping []health.Flapping, now time.Time) ops.Notice {
	first := flapping[0]
	names := ops.Map(flapping, func(f health.Flapping) string { return f.Service })
	text := notice.Flapping(environment, names, first.Since, first.Calm, first.Error)
	return ops.Notice{
		Kind: ops.NoticeNeedsHuman, Level: ops.LevelWarning, Title: text.Title, Body: text.Body, Environment: environment, Service: first.Service,
		Key:    fmt.Sprintf("flapping:%s:%s:%d", environment, first.Service, first.Since.Unix()),
		Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

// claims are the repairs that are on probation. What settled just before the end of a probation is still found in the next pass.
func (w *Watch) claims(ctx context.Context, env *environment, now time.Time) []ops.Claim {
	out, err := w.o.Store.OnProbation(ctx, env.config.Name, now.Add(-maxPause))
	if err != nil {
		w.logError(ctx, "read what is on probation", err)
	}
	return out
}

// confirm takes over what the probes of a cycle found after its repair: they look more often, and a service that fails again before the
// watch has seen it good would be taken for one that never recovered, and be covered by a cycle that has ended.
func (w *Watch) confirm(ctx context.Context, env *environment, now time.Time) {
	proven, err := w.o.Store.Proven(ctx, env.config.Name, now.Add(-ops.Probation-maxPause))
	if err != nil {
		w.logError(ctx, "read what cycles proved", err)
		return
	}
	m := update{states: map[key]ops.CheckState{}}
	for _, p := range proven {
		k := key{p.Service, p.Probe}
		v, known := env.states[k]
		if !known {
			continue
		}
		after, change, changed := health.Confirm(v, p.At)
		if !changed || m.states[k].Service != "" {
			continue
		}
		m.states[k] = after
		m.save = append(m.save, after)
		m.events = append(m.events, env.event(change, after.Last.Purpose))
		m.recovered = append(m.recovered, recovery{k.service, v.Began, change.Reason})
	}
	if len(m.save) > 0 {
		w.settle(ctx, env, m, nil, now)
	}
}

// relapses opens the incidents again whose check fails on probation, and says when the next cycle may start. What is silenced, in
// maintenance or fails for another service is not held against the repair.
func (w *Watch) relapses(ctx context.Context, env *environment, claims []ops.Claim, p health.Picture, j health.Judgement, now time.Time) {
	for _, c := range claims {
		found, ok := env.failsAgain(c, p, now)
		held := slices.IndexFunc(j.Held, func(h ops.Withheld) bool { return h.Service == c.Service })
		if !ok || held >= 0 && j.Held[held].Why == ops.HoldDependency {
			continue
		}
		r := ops.Relapse{Claim: c, Found: found, At: now}
		if held >= 0 {
			r = r.After(j.Held[held])
		} else {
			r.Next = now
		}
		done, err := w.o.Store.Relapsed(ctx, r)
		switch {
		case err != nil:
			w.logError(ctx, "open an incident again", err)
		case done:
			w.o.Logger.WarnContext(ctx, "a repair did not hold", "cycle", c.Cycle, "incident", c.Incident, "service", c.Service,
				"environment", env.config.Name)
			w.o.Changed(ops.ReachAll)
		}
	}
}

// failsAgain is the last result of the check that failed first of those that the claim is about.
func (env *environment) failsAgain(c ops.Claim, p health.Picture, now time.Time) (found ops.Check, ok bool) {
	var first ops.CheckState
	for _, v := range env.states {
		if !v.Failing() || !c.About(v.Last) || !v.Since.After(c.At) || v.Since.After(c.Until) || health.Quiet(p, env.grouping, v.Last, now) {
			continue
		}
		if !ok || v.Since.Before(first.Since) {
			first, ok = v, true
		}
	}
	return first.Last, ok
}
