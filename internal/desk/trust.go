package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"claudeops/internal/ops"
)

// Trusted is how far a service is trusted, and on what grounds.
type Trusted struct {
	Environment string
	Service     string
	Level       ops.Trust
	Ceiling     ops.Trust    // what the configuration allows
	Lowered     *ops.Lowered // why it is lower; nil if it is not
	Record      ops.TrustRecord
	Next        string // what would be next, as a sentence; empty: nothing
}

// AllTrusted returns the services of an environment with how far they are trusted.
func (d *Desk) AllTrusted(ctx context.Context, environment string) ([]Trusted, error) {
	e, err := d.Environment(environment)
	if err != nil {
		return nil, err
	}
	lowered, err := d.Store.People.Lowered(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	var out []Trusted
	for _, s := range e.Policy.Inventory.Services {
		one, err := d.trusted(ctx, e, s.Name, lowered)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// TrustedService returns how far one service is trusted.
func (d *Desk) TrustedService(ctx context.Context, environment, service string) (Trusted, error) {
	e, name, err := d.service(environment, service)
	if err != nil {
		return Trusted{}, err
	}
	lowered, err := d.Store.People.Lowered(ctx, e.Name)
	if err != nil {
		return Trusted{}, err
	}
	return d.trusted(ctx, e, name, lowered)
}

func (d *Desk) service(environment, service string) (ops.Environment, string, error) {
	e, err := d.Environment(environment)
	if err != nil {
		return e, "", err
	}
	name, known := e.Policy.Inventory.Canonical(service)
	if !known {
		names := ops.Map(e.Policy.Inventory.Services, func(s ops.Service) string { return s.Name })
		return e, "", wrong("no service of %s is called %q; configured: %s", e.Name, service, cmp.Or(ops.Listed(names), "none"))
	}
	return e, name, nil
}

func (d *Desk) trusted(ctx context.Context, e ops.Environment, service string, lowered []ops.Lowered) (Trusted, error) {
	t := Trusted{
		Environment: e.Name, Service: service, Level: e.Policy.Trusts(service, lowered), Ceiling: e.Policy.TrustOf(service),
	}
	if i := slices.IndexFunc(lowered, func(l ops.Lowered) bool { return l.Service == service }); i >= 0 && t.Level.Below(t.Ceiling) {
		t.Lowered = &lowered[i]
	}
	var err error
	if t.Record, err = d.Store.Reports.TrustRecord(ctx, e.Name, service); err == nil {
		t.Next = t.next()
	}
	return t, err
}

// next says what would be next. Only a record without a failure recommends it.
func (t Trusted) next() string {
	up, more := t.Level.Next()
	r := t.Record
	switch {
	case !more:
		return ""
	case t.Ceiling.Below(up):
		return fmt.Sprintf("The configuration allows %s at most. For %s, write it there: %s.", t.Ceiling, up, t.line(up))
	case r.Undone+r.Refuted > 0:
		return fmt.Sprintf("%d undone, %d refuted: look at these before you raise it to %s.", r.Undone, r.Refuted, up)
	case r.Approved > 0:
		return fmt.Sprintf("%d of %d approved repairs of %s were verified. Raise to %s?", r.Proven, r.Approved, t.Service, up)
	}
	return fmt.Sprintf("No approved repair yet. Next would be %s.", up)
}

// line is what to write into the configuration.
func (t Trusted) line(level ops.Trust) string {
	return fmt.Sprintf("`trust: %s` below `- name: %s`", level, t.Service)
}

// TrustChange is how far somebody wants to trust a service.
type TrustChange struct{ Environment, Service, Level, Reason string }

// Trust changes how far a service is trusted. The configuration is the ceiling, and nobody but a person raises it.
func (d *Desk) Trust(ctx context.Context, by Person, c TrustChange) (Trusted, error) {
	to, err := ops.ParseTrust(c.Level)
	if err != nil {
		return Trusted{}, wrong("%s", err)
	}
	if err := text("reason", &c.Reason, MaxReason); err != nil {
		return Trusted{}, err
	}
	now, err := d.TrustedService(ctx, c.Environment, c.Service)
	switch {
	case err != nil:
		return Trusted{}, err
	case now.Ceiling.Below(to):
		return now, wrong("the configuration allows %s at most for %s: write %s, then reload", now.Ceiling, now.Service, now.line(to))
	case now.Level.Below(to) && by.Via != "":
		return now, wrong("trust is raised by a person: on the page of %s, or with claudeops trust %s %s", now.Service, now.Service, to)
	}
	e, err := d.Environment(now.Environment)
	if err != nil {
		return now, err
	}
	err = d.Store.People.SetTrust(ctx, e.Policy, ops.Lowered{
		Environment: now.Environment, Service: now.Service, Level: to, By: by.String(), Reason: c.Reason, At: d.Clock(),
	})
	if err != nil {
		return now, err
	}
	d.changed()
	return d.TrustedService(ctx, now.Environment, now.Service)
}

// EarnedReflex is a reflex that repairs have earned, with what its actions run as they are configured now.
type EarnedReflex struct {
	ops.Earned
	Does []string
}

// Reflexes returns the earned reflexes of an environment; of one service, where one is named.
func (d *Desk) Reflexes(ctx context.Context, environment, service string) ([]EarnedReflex, error) {
	e, err := d.Environment(environment)
	if err == nil && service != "" {
		e, service, err = d.service(environment, service)
	}
	if err != nil {
		return nil, err
	}
	all, err := d.Store.People.Reflexes(ctx, e.Name)
	var out []EarnedReflex
	for _, r := range all {
		if service == "" || r.Service == service {
			out = append(out, d.earned(r))
		}
	}
	return out, err
}

// Reflex returns one earned reflex.
func (d *Desk) Reflex(ctx context.Context, id int64) (EarnedReflex, error) {
	r, err := d.Store.People.Reflex(ctx, id)
	return d.earned(r), err
}

func (d *Desk) earned(r ops.Earned) EarnedReflex {
	out := EarnedReflex{Earned: r}
	for _, name := range r.Do {
		does := "not configured any more"
		if a, known := d.action(r, name); known {
			does = a.Does()
		}
		out.Does = append(out.Does, does)
	}
	return out
}

func (d *Desk) action(r ops.Earned, name string) (ops.ActionSpec, bool) {
	e, err := d.Environment(r.Environment)
	if err != nil {
		return ops.ActionSpec{}, false
	}
	return e.Policy.Inventory.Action(r.Service, name)
}

// SwitchReflex switches an earned reflex on or off. It runs exactly what is configured when it is switched on. Nobody but a person does
// either: a program that speaks for one cannot.
func (d *Desk) SwitchReflex(ctx context.Context, by Person, id int64, to ops.ReflexState, reason string) (EarnedReflex, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return EarnedReflex{}, err
	}
	r, err := d.Store.People.Reflex(ctx, id)
	if err != nil {
		return EarnedReflex{}, err
	}
	if by.Via != "" {
		return d.earned(r), wrong("a reflex is switched by a person: on the page of %s, or with claudeops reflexes", r.Service)
	}
	if to == ops.ReflexOn {
		if r.Digests, err = d.digests(r); err != nil {
			return d.earned(r), err
		}
	}
	r.State, r.Person, r.Why, r.ChangedAt = to, by.String(), reason, d.Clock()
	if err := d.answers(by).SwitchReflex(ctx, r); err != nil {
		return d.earned(r), err
	}
	d.changed()
	return d.Reflex(ctx, id)
}

// digests are what the actions of a reflex are now.
func (d *Desk) digests(r ops.Earned) (out []string, err error) {
	for _, name := range r.Do {
		a, known := d.action(r, name)
		if !known {
			return nil, wrong("%s has no action %s any more: add it to the configuration, or leave the reflex off", r.Service, name)
		}
		out = append(out, a.Digest())
	}
	return out, nil
}
