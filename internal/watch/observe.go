package watch

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
	"claudeops/internal/watch/health"
)

// keepEvery is how often a result is a row of its own when nothing changes; all are counted.
const keepEvery = 5 * time.Minute

// moved is what a batch of looks amounts to.
type moved struct {
	kept, counted []ops.Check
	states        map[key]health.State
	save          []health.State
	events        []ops.Event
	recovered     []recovery
}

// recovery is a service that may be well again.
type recovery struct {
	service string
	began   time.Time
	how     string
}

// observe moves the states on with looks, and records all of it or nothing.
func (w *Watch) observe(ctx context.Context, p *place, looks []ops.Check, alerts []ops.Alert) bool {
	now := w.o.Clock()
	m := moved{states: map[key]health.State{}}
	for _, look := range looks {
		p.look(&m, look, now)
	}
	news := len(m.kept) > 0 || len(m.save) > 0 || len(m.events) > 0 || len(alerts) > 0
	if counted := p.tally(m.counted, news, now); news || len(counted) > 0 {
		if err := w.o.Store.RecordLooks(ctx, p.env.Name, m.kept, counted, m.save, few(m.events), alerts); err != nil {
			w.complain(ctx, "what was found could not be recorded; it is looked at again", err)
			p.untally(counted)
			return false
		}
	}
	if news {
		w.o.Changed()
	}
	for k, v := range m.states {
		p.states[k] = v
	}
	for _, v := range m.save {
		p.saved[key{v.Service, v.Probe}] = now
	}
	for _, c := range m.kept {
		if c.Purpose != ops.ProbeAlert {
			p.kept[key{c.Service, c.Probe}] = c
		}
	}
	for _, r := range m.recovered {
		w.recovered(ctx, p, r, now)
	}
	return true
}

func (p *place) look(m *moved, look ops.Check, now time.Time) {
	k := key{look.Service, look.Probe}
	before, ok := m.states[k]
	if !ok {
		before = p.states[k]
	}
	limits, configured := p.thresholds[k]
	if !configured {
		if look.Purpose != ops.ProbeAlert {
			return // it was removed while it ran
		}
		limits = health.Thresholds{FailAfter: 1, RecoverAfter: 1, Flap: health.Flap(p.env.Watch.Flapping)}
		if before.Level == "" && look.Status == ops.Healthy {
			return // the end of something nobody told of
		}
	}
	after, changes := health.Observe(before, look, limits, now)
	m.states[k] = after
	switch {
	case p.worthKeeping(k, before, look, now):
		m.kept = append(m.kept, look)
	case look.Purpose != ops.ProbeAlert: // how often its sender repeats an alert says nothing about the service
		m.counted = append(m.counted, look)
	}
	if p.worthSaving(k, before, after, now) || len(changes) > 0 {
		m.save = append(m.save, after)
	}
	for _, c := range changes {
		m.events = append(m.events, p.tell(c, look.Purpose))
		if c.Kind == health.Recovered {
			m.recovered = append(m.recovered, recovery{look.Service, before.Began, c.Reason})
		}
	}
}

// worthKeeping: something changed, or the last row is old. The pages must not take a healthy service for one nobody looks at.
func (p *place) worthKeeping(k key, before health.State, look ops.Check, now time.Time) bool {
	if look.Purpose == ops.ProbeAlert {
		return before.Last.Status != look.Status
	}
	last, ok := p.kept[k]
	every := keepEvery
	if p.env.Interval > 0 {
		every = min(every, p.env.Interval)
	}
	return !ok || last.Status != look.Status || last.Error != look.Error || now.Sub(last.At) >= every || now.Before(last.At)
}

// worthSaving: all but the counts of a check that stays as it is.
func (p *place) worthSaving(k key, before, after health.State, now time.Time) bool {
	steady := before.Level == after.Level && before.Flapping == after.Flapping &&
		((after.Level == ops.Healthy && before.Bad == 0 && after.Bad == 0) || after.Last.Purpose == ops.ProbeAlert)
	return !steady || now.Sub(p.saved[k]) >= keepEvery || now.Before(p.saved[k])
}

const (
	// countEvery is how long looks that tell nothing new may wait to be counted; a crash loses no more than that of the statistics.
	countEvery = 30 * time.Second
	mostCounts = 2000
	// mostWaiting is how many may wait while nothing can be written; older ones are then left out of the statistics.
	mostWaiting = 10 * mostCounts
)

// tally takes looks that only have to be counted, and returns those whose time has come.
func (p *place) tally(looks []ops.Check, now bool, at time.Time) []ops.Check {
	p.uncounted = append(p.uncounted, looks...)
	if len(p.uncounted) == 0 {
		return nil
	}
	if p.counted.IsZero() || at.Before(p.counted) {
		p.counted = at
	}
	if !now && at.Sub(p.counted) < countEvery && len(p.uncounted) < mostCounts {
		return nil
	}
	out := p.uncounted
	p.uncounted, p.counted = nil, at
	return out
}

// untally takes back what could not be counted, as much as may wait.
func (p *place) untally(counted []ops.Check) {
	counted = append(counted, p.uncounted...)
	p.uncounted = counted[max(0, len(counted)-mostWaiting):]
}

// Flush counts what waits to be counted; for the end, after the last results were delivered.
func (w *Watch) Flush(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.order {
		if len(p.uncounted) == 0 {
			continue
		}
		if err := w.o.Store.RecordLooks(ctx, p.env.Name, nil, p.uncounted, nil, nil, nil); err != nil {
			w.complain(ctx, "the last results could not be counted", err)
			continue
		}
		p.uncounted = nil
	}
}

// mostTold is how many events one batch of looks may leave.
const mostTold = 20

// few cuts a flood of events: the first tell what happens, and one says how much more there was.
func few(events []ops.Event) []ops.Event {
	if len(events) <= mostTold {
		return events
	}
	last := events[mostTold-1]
	last.Service, last.Message = "", fmt.Sprintf("%d more services and alerts changed at the same moment.", len(events)-mostTold+1)
	return append(events[:mostTold-1:mostTold-1], last)
}

// tell makes the event of a change.
func (p *place) tell(c health.Change, purpose ops.ProbePurpose) ops.Event {
	e := ops.Event{At: c.At, Environment: p.env.Name, Level: ops.LevelWarning, Kind: "watch", Service: c.Service, Message: c.Reason}
	if purpose == ops.ProbeAlert {
		e.Kind = "alert"
	}
	if c.Kind == health.Recovered || c.Kind == health.FlapEnded || c.Kind == health.Eased {
		e.Level = ops.LevelInfo
	}
	return e
}

// recovered closes the incidents of a service none of whose checks is bad any more.
func (w *Watch) recovered(ctx context.Context, p *place, r recovery, now time.Time) {
	for _, v := range p.states {
		if v.Service == r.service && bad(v) {
			return
		}
	}
	if _, err := w.o.Store.ServiceRecovered(ctx, p.env.Name, r.service, r.began, r.how, now); err != nil {
		w.complain(ctx, "incidents of a service that recovered could not be closed", err)
	}
}

func bad(v health.State) bool { return v.Level == ops.Degraded || v.Level == ops.Down }

// takeAlerts looks at what other systems told, and reports whether more waits.
func (w *Watch) takeAlerts(ctx context.Context) bool {
	for range batches {
		if !w.takeBatch(ctx) {
			return false
		}
	}
	return true
}

func (w *Watch) takeBatch(ctx context.Context) bool {
	pending, err := w.o.Store.PendingAlerts(ctx, batch)
	if err != nil {
		w.complain(ctx, "alerts could not be read; trying again", err)
		return false
	}
	if len(pending) == 0 {
		return false
	}
	byPlace := map[string][]ops.Alert{}
	for _, a := range pending {
		byPlace[a.Environment] = append(byPlace[a.Environment], a)
	}
	for name, alerts := range byPlace {
		p := w.places[name]
		if p == nil {
			// Its environment was removed: nobody will ever look at it.
			if err := w.o.Store.RecordLooks(ctx, name, nil, nil, nil, nil, alerts); err != nil {
				w.complain(ctx, "alerts of an unknown environment could not be put aside", err)
			}
			continue
		}
		w.takeFrom(ctx, p, alerts)
	}
	return len(pending) == batch
}

func (w *Watch) takeFrom(ctx context.Context, p *place, alerts []ops.Alert) {
	now := w.o.Clock()
	var looks []ops.Check
	var gone []health.State
	for _, a := range alerts {
		look := alert.Check(a)
		look.At = now // when it counts, whatever clock the sender has
		looks = append(looks, look)
		old, was := p.alerts[a.Fingerprint]
		if was && alertKey(old) != alertKey(a) { // it goes by another name now
			gone = append(gone, p.states[alertKey(old)])
		}
	}
	if !w.observe(ctx, p, looks, alerts) {
		return
	}
	if err := w.o.Store.ForgetStates(ctx, p.env.Name, gone); err != nil {
		w.complain(ctx, "the old name of an alert could not be removed", err)
	}
	for _, v := range gone {
		p.drop(key{v.Service, v.Probe})
	}
	for _, a := range alerts {
		if a.Status == ops.AlertFiring {
			p.alerts[a.Fingerprint] = a
		} else {
			delete(p.alerts, a.Fingerprint)
		}
	}
}
