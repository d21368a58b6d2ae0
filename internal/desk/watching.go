package desk

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// LongestSilence limits a silence, because longer ones are forgotten.
	LongestSilence = 90 * 24 * time.Hour
	mostLabels     = 20
	// ownConfidence is the confidence in what an operator writes.
	ownConfidence = 0.9
)

// Silence is a silence that somebody asks for.
type Silence struct {
	Environment           string // empty: all
	Service, Group, Probe string
	Labels                map[string]string
	Reason                string
	From                  time.Time // zero: now
	End
}

// AddSilence mutes matching services, groups, probes or alerts for a time.
func (d *Desk) AddSilence(ctx context.Context, by Person, s Silence) (ops.Silence, error) {
	now := d.Clock()
	if s.From.IsZero() {
		s.From = now
	}
	until, err := d.checkSilence(&s, now)
	if err != nil {
		return ops.Silence{}, err
	}
	added, err := d.Store.Watch.AddSilence(ctx, ops.Silence{
		Environment: s.Environment, Service: s.Service, Group: s.Group, Probe: s.Probe, Labels: s.Labels, Reason: s.Reason,
		Author: by.String(), CreatedAt: now, From: s.From, Until: until,
	})
	if err == nil {
		d.changed()
	}
	return added, err
}

func (d *Desk) checkSilence(s *Silence, now time.Time) (until time.Time, err error) {
	if s.Environment != "" {
		if _, err := d.Environment(s.Environment); err != nil {
			return until, err
		}
	}
	if err := names(named{"service", &s.Service}, named{"group", &s.Group}, named{"probe", &s.Probe}); err != nil {
		return until, err
	}
	if err := checkLabels(s.Labels); err != nil {
		return until, err
	}
	if s.Service == "" && s.Group == "" && s.Probe == "" && len(s.Labels) == 0 {
		return until, wrong("it would mute everything: give a service, group, probe or labels; * matches any text")
	}
	if err := needed("reason", &s.Reason, MaxReason, sayWhy); err != nil {
		return until, err
	}
	until, err = s.after(s.From, now)
	if err == nil && until.Sub(s.From) > LongestSilence {
		err = wrong("a silence lasts at most 90 days: give an earlier end")
	}
	return until, err
}

func checkLabels(labels map[string]string) error {
	if len(labels) > mostLabels {
		return wrong("there are %d labels: use at most %d", len(labels), mostLabels)
	}
	for name, pattern := range labels {
		if name == "" || pattern == "" {
			return wrong("a label needs a name and a pattern")
		}
		if err := names(named{"the name of a label", &name}, named{"the pattern of a label", &pattern}); err != nil {
			return err
		}
	}
	return nil
}

// EndSilence ends a silence now.
func (d *Desk) EndSilence(ctx context.Context, by Person, id int64) (ops.Silence, error) {
	q, err := d.Store.Watch.EndSilence(ctx, id, by.String(), d.Clock())
	if err == nil {
		d.changed()
	}
	return q, err
}

// AddMemory adds a note that later sessions are given. Without a confidence it has that of an operator.
func (d *Desk) AddMemory(ctx context.Context, by Person, m ops.Memory, confidence *float64) (ops.Memory, error) {
	e, err := d.Environment(m.Environment)
	if err == nil {
		err = needed("observation", &m.Observation, MaxObservation, "say what is known")
	}
	if err == nil {
		err = text("category", &m.Category, MaxCategory)
	}
	if err == nil {
		err = text("service", &m.Service, MaxName)
	}
	if err != nil {
		return ops.Memory{}, err
	}
	m.Environment, m.By, m.CreatedAt, m.Confidence = e.Name, by.String(), d.Clock(), ownConfidence
	m.Category = cmp.Or(m.Category, "note")
	if confidence != nil {
		m.Confidence = *confidence
	}
	switch {
	case m.Confidence < 0 || m.Confidence > 1:
		return ops.Memory{}, wrong("confidence is %v: use 0 to 1", m.Confidence)
	case m.ExpiresAt != nil && !m.ExpiresAt.After(m.CreatedAt):
		return ops.Memory{}, wrong("it would have expired already: give a later time")
	}
	id, err := d.Store.People.AddMemory(ctx, m)
	if err != nil {
		return ops.Memory{}, err
	}
	return d.Memory(ctx, id)
}

// Memory finds a memory by its id.
func (d *Desk) Memory(ctx context.Context, id int64) (ops.Memory, error) {
	rows, err := d.Store.People.Memories(ctx, store.MemoryFilter{All: true, Before: id + 1, Limit: 1})
	if err == nil && (len(rows) == 0 || rows[0].ID != id) {
		err = ops.ErrNotFound
	}
	if err != nil {
		return ops.Memory{}, err
	}
	return rows[0], nil
}

// RemoveMemory deletes a note.
func (d *Desk) RemoveMemory(ctx context.Context, by Person, id int64) error {
	return d.Store.People.RemoveMemory(ctx, id, by.String(), d.Clock())
}

// ClearCooldown lets earlier actions on a service no longer count: of one kind, or of all.
func (d *Desk) ClearCooldown(ctx context.Context, by Person, a Action) (cleared int, err error) {
	e, err := d.Environment(a.Environment)
	if err == nil {
		err = needed("service", &a.Service, MaxName, "say which one")
	}
	if err == nil {
		err = needed("reason", &a.Why, MaxReason, sayWhy)
	}
	if err != nil {
		return 0, err
	}
	action := strings.TrimSpace(a.Name)
	limited := func(l ops.CooldownLimit) bool { return l.Action == action }
	if action != "" && !slices.ContainsFunc(e.Policy.AllCooldowns(), limited) {
		return 0, wrong("%s has no cooldown: use restart, redeployment or an action with its own cooldown", action)
	}
	return d.Store.Acts.ClearCooldown(ctx, e.Name, a.Service, action, a.Why, by.String(), d.Clock())
}

// ForgetService removes what is kept of a service that is not configured any more, or was only named by agents.
func (d *Desk) ForgetService(ctx context.Context, by Person, environment, service string) error {
	e, err := d.Environment(environment)
	switch name, known := e.Policy.Inventory.Canonical(service); {
	case err != nil:
	case known:
		err = ops.NewConflict(ops.ConflictState, "forget %s: it is configured in %s; take it out of the configuration first", name, e.Name)
	case by.Via != "":
		err = wrong("a service is forgotten by a person: run claudeops services forget %s", service)
	default:
		defer d.changed()
		err = d.Store.Watch.ForgetService(ctx, e.Name, service, by.String(), d.Clock())
	}
	return err
}

// TestNotification sends a test by the way that every other notice takes, so that its delivery is on record.
func (d *Desk) TestNotification(ctx context.Context) error {
	text := notice.Test()
	_, err := d.Store.People.AddNotice(ctx, ops.Notice{
		Kind: ops.NoticeTest, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, CreatedAt: d.Clock(),
	})
	if err == nil {
		d.changed()
	}
	return err
}

// RetryNotification sends a notification again.
func (d *Desk) RetryNotification(ctx context.Context, by Person, id int64) error {
	err := d.Store.People.RetryNotice(ctx, id, by.String(), d.Clock())
	if err == nil {
		d.changed()
	}
	return err
}

// Heartbeat makes the address that the job of a service calls, and returns its token, which is shown once. The former one no longer works.
// The probe may be empty where the service has only one of this type.
func (d *Desk) Heartbeat(ctx context.Context, by Person, environment, service, probe string) (ops.Heartbeat, string, error) {
	e, name, err := d.service(environment, service)
	if err != nil {
		return ops.Heartbeat{}, "", err
	}
	var known []string
	for _, p := range e.Probes {
		if p.Service == name && p.Type == ops.ProbeHeartbeat && (probe == "" || p.Name == probe) {
			known = append(known, p.Name)
		}
	}
	switch {
	case by.Via != "":
		return ops.Heartbeat{}, "", wrong("the address of a heartbeat is for people and their jobs: run claudeops services heartbeat %s", name)
	case len(known) == 0 && probe != "":
		return ops.Heartbeat{}, "", wrong("%s has no heartbeat called %q", name, probe)
	case len(known) == 0:
		return ops.Heartbeat{}, "", wrong("%s has no heartbeat: add `- {type: heartbeat, every: 24h}` to its probes, then reload", name)
	case len(known) > 1:
		return ops.Heartbeat{}, "", wrong("%s has several heartbeats: name one of %s", name, strings.Join(known, ", "))
	}
	h := ops.Heartbeat{Environment: e.Name, Service: name, Probe: known[0]}
	token, err := d.Store.Watch.AddressHeartbeat(ctx, h, by.String(), d.Clock())
	if err != nil {
		return h, "", err
	}
	d.changed()
	return h, token, nil
}

// HeldBack returns what agents leave alone in an environment at a time, and why: silences, maintenance, incidents that a person has taken
// over, put off or is asked about, and services that flap or depend on a failing one.
func (d *Desk) HeldBack(ctx context.Context, e ops.Environment, at time.Time) ([]ops.Withheld, error) {
	held, err := d.Store.Watch.Holds(ctx, e.Name, at)
	if err != nil {
		return nil, err
	}
	var out []ops.Withheld
	for _, q := range held.Silences {
		if q.Active(at) {
			out = append(out, ops.Withheld{Service: q.Service, Why: ops.HoldSilenced, Until: q.Until, Reason: notice.HeldBySilence(q)})
		}
	}
	for _, m := range e.Watch.Maintenance {
		if until, open := health.Maintained(m, at); open {
			out = append(out, ops.Withheld{
				Service: m.Service, Why: ops.HoldMaintenance, Until: until, Reason: notice.HeldByMaintenance(m, until),
			})
		}
	}
	for _, i := range held.Incidents {
		h := ops.Withheld{Service: i.Service, Why: ops.HoldPerson}
		switch {
		case i.Status == ops.IncidentSnoozed && i.Holds(at):
			h.Reason, h.Until = notice.Snoozed(i), *i.SnoozedUntil
		case i.Holds(at):
			h.Reason = notice.Acknowledged(i)
		case i.Waiting != nil:
			h.Reason = notice.AwaitsHuman(i)
		default:
			continue
		}
		h.Reason = notice.HeldService(i.Service, h.Reason)
		out = append(out, h)
	}
	for _, a := range held.Denials {
		for n, f := range a.Facts { // they are in order
			if n == 0 || f.Service != a.Facts[n-1].Service {
				why := notice.HeldService(f.Service, notice.SaidNo(a))
				out = append(out, ops.Withheld{Service: f.Service, Why: ops.HoldPerson, Until: *a.DeniedUntil, Reason: why})
			}
		}
	}
	return append(out, slices.DeleteFunc(held.Withheld, func(w ops.Withheld) bool {
		return w.Why != ops.HoldFlapping && w.Why != ops.HoldDependency
	})...), nil
}
