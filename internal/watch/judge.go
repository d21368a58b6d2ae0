package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
	"claudeops/internal/watch/health"
)

// judge says for everything that is bad whether it starts a cycle, and writes down what does not.
func (w *Watch) judge(ctx context.Context, p *place) {
	now := w.o.Clock()
	p.next = time.Time{}
	if p.quiet() {
		return
	}
	if due := p.judged.Add(p.breath()); now.Before(due) && !now.Before(p.judged) {
		p.next = due
		return
	}
	p.judged = now
	picture, err := w.picture(ctx, p, now)
	if err != nil {
		w.complain(ctx, "what people say could not be read; judging again", err)
		p.next = now.Add(5 * time.Second)
		return
	}
	w.endResolved(ctx, p, picture, now)
	picture.Open = p.opened()
	verdict := health.Judge(picture, p.rules, now)
	for _, c := range verdict.Causes {
		if p.repeats(c) {
			verdict.Held = append(verdict.Held, covered(c))
			continue
		}
		w.open(ctx, p, c, now)
	}
	p.next = verdict.Next
	w.withhold(ctx, p, append(verdict.Held, p.unsettled()...))
}

// whyUnsettled: too few looks say so yet.
const whyUnsettled health.Why = "unsettled"

// unsettled are the services that may be turning bad, or may only have stumbled.
func (p *place) unsettled() []health.Held {
	found := map[string]health.Held{}
	sick := map[string]bool{}
	for _, v := range p.states {
		sick[v.Service] = sick[v.Service] || bad(v)
		if turning(v) {
			found[v.Service] = health.Held{
				Service: v.Service, Why: whyUnsettled, Reason: fmt.Sprintf("%s was %s when last looked at; it counts when that lasts.", v.Service, v.Last.Status),
			}
		}
	}
	var out []health.Held
	for name, h := range found {
		if !sick[name] {
			out = append(out, h)
		}
	}
	return out
}

func turning(v health.State) bool { return v.Bad > 0 && !bad(v) }

// breath is how long to let a storm go on before looking at all of it again.
func (p *place) breath() time.Duration {
	const many = 1000
	if len(p.states) <= many {
		return 0
	}
	return min(time.Duration(len(p.states)/many)*pace, 5*time.Second)
}

// quiet: nothing is bad, and nothing that was has to be ended.
func (p *place) quiet() bool {
	if len(p.withheld) > 0 || slices.ContainsFunc(p.causes, func(c ops.Cause) bool { return c.ResolvedAt == nil }) {
		return false
	}
	for _, v := range p.states {
		if bad(v) || turning(v) {
			return false
		}
	}
	return true
}

func (w *Watch) picture(ctx context.Context, p *place, now time.Time) (health.Picture, error) {
	out := health.Picture{Environment: p.env.Name, Services: p.services, Windows: p.windows, Open: p.opened()}
	for _, v := range p.states {
		// What has long been well says nothing.
		if bad(v) || turning(v) || now.Sub(v.Recovered) < p.remember() {
			out.States = append(out.States, v)
		}
	}
	// What ended a moment ago still leaves time to come back.
	silences, err := w.o.Store.SilencesSince(ctx, p.env.Name, now.Add(-time.Hour))
	if err != nil {
		return out, fmt.Errorf("read silences: %w", err)
	}
	for _, q := range silences {
		out.Silences = append(out.Silences, p.silence(q)...)
	}
	incidents, err := w.o.Store.Unresolved(ctx, p.env.Name)
	if err != nil {
		return out, fmt.Errorf("read incidents: %w", err)
	}
	for _, i := range incidents {
		if q, holds := inHands(i, now); holds {
			out.Silences = append(out.Silences, q)
		}
	}
	return out, nil
}

// silence is a person's silence as the checks see it. One with labels is about alerts that have them.
func (p *place) silence(q ops.Silence) []health.Silence {
	base := health.Silence{
		Matcher: health.Matcher{Service: q.Service, Group: q.Group, Probe: q.Probe}, From: q.From, Until: q.Until, Reason: q.Reason, Author: q.Author,
	}
	if len(q.Labels) == 0 {
		return []health.Silence{base}
	}
	var out []health.Silence
	for _, a := range p.alerts {
		if !labelled(a, q.Labels) || !health.Like(q.Service, a.Service) || !health.Like(q.Probe, alert.ProbeName(a)) {
			continue
		}
		one := base
		one.Service, one.Probe = a.Service, alert.ProbeName(a)
		out = append(out, one)
	}
	return out
}

func labelled(a ops.Alert, patterns map[string]string) bool {
	for name, pattern := range patterns {
		if v, ok := a.Labels[name]; !ok || !health.Like(pattern, v) {
			return false
		}
	}
	return true
}

// inHands: a person has taken the problem over, put it off, or is asked about it.
func inHands(i ops.Incident, now time.Time) (health.Silence, bool) {
	q := health.Silence{Matcher: health.Matcher{Service: i.Service}, From: i.OpenedAt, Until: now.Add(time.Hour), Author: i.AcknowledgedBy}
	switch {
	case i.Service == "":
		return q, false
	case i.Status == ops.IncidentSnoozed && i.Holds(now):
		q.Until, q.Reason = *i.SnoozedUntil, fmt.Sprintf("incident %d is snoozed", i.ID)
	case i.Holds(now):
		q.Reason = fmt.Sprintf("incident %d is in the hands of %s", i.ID, i.AcknowledgedBy)
	case i.Waiting != nil:
		q.Reason = fmt.Sprintf("cycle %d waits for an answer about incident %d", *i.Waiting, i.ID)
	default:
		return q, false
	}
	return q, true
}

func (p *place) opened() []health.Opened {
	var out []health.Opened
	for _, c := range p.causes {
		out = append(out, health.Opened{ID: c.Key, Group: c.Group, Services: c.Services, Began: c.Began, At: c.At})
	}
	return out
}

// repeats: a cause of nothing but alerts had its cycle. Its sender repeats the alert as long as it likes; looking again every
// time would tell nothing new.
func (p *place) repeats(c health.Cause) bool {
	for _, k := range c.Checks {
		if k.Purpose != ops.ProbeAlert {
			return false
		}
		since := p.states[key{k.Service, k.Probe}].Since
		had := slices.ContainsFunc(p.causes, func(o ops.Cause) bool {
			return slices.Contains(o.Services, k.Service) && !since.After(o.At)
		})
		if !had {
			return false
		}
	}
	return true
}

func covered(c health.Cause) health.Held {
	return health.Held{
		Service: c.Services[0], Why: health.WhyCovered, By: c.ID,
		Reason: c.Services[0] + " has an alert that goes on; a cycle was started for it.",
	}
}

// endResolved ends the causes none of whose services is bad any more.
func (w *Watch) endResolved(ctx context.Context, p *place, picture health.Picture, now time.Time) {
	over := map[string]bool{}
	for _, o := range health.Resolved(picture) {
		over[o.ID] = true
	}
	for i, c := range p.causes {
		if c.ResolvedAt != nil || !over[c.Key] {
			continue
		}
		how := fmt.Sprintf("%s recovered after %s", strings.Join(c.Services, ", "), now.Sub(c.Began).Round(time.Second))
		if err := w.o.Store.ResolveCause(ctx, c, how, resolvedNotice(c, how, now), now); err != nil {
			w.complain(ctx, "the end of a problem could not be recorded", err)
			continue
		}
		p.causes[i].ResolvedAt = &now
		w.spare(ctx, c, how)
	}
	p.causes = slices.DeleteFunc(p.causes, func(c ops.Cause) bool { return c.ResolvedAt != nil && now.Sub(c.At) > p.remember() })
}

// spare ends a cycle that has not started yet: what it is for is over.
func (w *Watch) spare(ctx context.Context, c ops.Cause, how string) {
	cycle, err := w.o.Store.Cycle(ctx, c.Cycle)
	if err != nil || cycle.Status != ops.CycleQueued || cycle.StartedAt != nil {
		return
	}
	if cycle.Trigger != ops.TriggerProbe && cycle.Trigger != ops.TriggerAlert {
		return
	}
	if err := w.o.Cancel(ctx, c.Cycle, how+" before anything was started"); err != nil {
		w.complain(ctx, "a cycle that is no longer needed could not be cancelled", err)
	}
}

// open starts the cycle of a cause, or takes the one that found the same.
func (w *Watch) open(ctx context.Context, p *place, c health.Cause, now time.Time) {
	checks, alerts := p.evidence(c)
	n := ops.NewCycle{Environment: p.env.Name, Trigger: ops.TriggerAlert, At: now}
	if slices.ContainsFunc(c.Checks, func(k ops.Check) bool { return k.Purpose != ops.ProbeAlert }) {
		n.Trigger = ops.TriggerProbe
	}
	if len(alerts) > 0 {
		n.Prompt = alert.Prompt(c.Reason, alerts)
	}
	row := ops.Cause{
		Key: c.ID, Environment: p.env.Name, Group: c.Group, Services: c.Services, Affected: c.Affected, Level: c.Level, Reason: c.Reason,
		Began: c.Began, At: now,
	}
	pause := p.rules.Pause
	if pause <= 0 {
		pause = 10 * time.Minute
	}
	got, started, err := w.o.Store.OpenCause(ctx, row, n, checks, openedNotice(row, c.Checks, now), now.Add(-pause))
	if err != nil {
		w.complain(ctx, "a cycle could not be started; trying again", err)
		p.next = now.Add(time.Second)
		return
	}
	p.causes = append(p.causes, got)
	if started {
		w.o.Logger.InfoContext(ctx, "a cycle starts: "+c.Reason, "cycle", got.Cycle, "environment", p.env.Name, "services", len(c.Services))
		w.o.Start(got.Cycle)
	} else {
		w.o.Logger.InfoContext(ctx, "a cycle found it already: "+c.Reason, "cycle", got.Cycle, "environment", p.env.Name)
	}
	w.o.Changed()
}

// mostEvidence is how many results a cycle is given; the bad ones first.
const mostEvidence = 100

// evidence is what a cycle is told: the checks of its cause, and where probes are among them what they say of the others.
func (p *place) evidence(c health.Cause) (checks []ops.Check, alerts []ops.Alert) {
	probed := false
	seen := map[key]bool{}
	for _, k := range c.Checks {
		seen[key{k.Service, k.Probe}] = true
		if k.Purpose != ops.ProbeAlert {
			probed = true
			k.Purpose = ops.ProbeObserve
		}
		checks = append(checks, k)
	}
	for _, a := range p.alerts {
		if seen[alertKey(a)] {
			alerts = append(alerts, a)
		}
	}
	slices.SortFunc(alerts, func(a, b ops.Alert) int { return int(a.ID - b.ID) })
	if !probed {
		return checks[:min(len(checks), mostEvidence)], alerts
	}
	var rest []health.State
	for k, v := range p.states {
		if !seen[k] && v.Last.Purpose != ops.ProbeAlert && !v.Last.At.IsZero() {
			rest = append(rest, v)
		}
	}
	slices.SortFunc(rest, func(a, b health.State) int {
		if bad(a) != bad(b) {
			if bad(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Service+"\x00"+a.Probe, b.Service+"\x00"+b.Probe)
	})
	for _, v := range rest[:min(len(rest), max(0, mostEvidence-len(checks)))] {
		look := v.Last
		look.Purpose = ops.ProbeObserve
		checks = append(checks, look)
	}
	return checks, alerts
}

// withhold writes down what is held back, when that has changed.
func (w *Watch) withhold(ctx context.Context, p *place, held []health.Held) {
	var out []ops.Withheld
	for _, h := range held {
		out = append(out, ops.Withheld{Service: h.Service, Why: string(h.Why), Reason: h.Reason, Until: h.Until})
	}
	slices.SortFunc(out, func(a, b ops.Withheld) int { return strings.Compare(a.Service, b.Service) })
	if slices.EqualFunc(out, p.withheld, func(a, b ops.Withheld) bool {
		return a.Service == b.Service && a.Why == b.Why && a.Reason == b.Reason
	}) {
		return
	}
	if err := w.o.Store.SaveWithheld(ctx, p.env.Name, out); err != nil {
		w.complain(ctx, "what is held back could not be recorded", err)
		return
	}
	p.withheld = out
	w.o.Changed()
}
