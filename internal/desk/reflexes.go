package desk

import (
	"context"
	"errors"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

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
	all, err := d.Store.Reflexes(ctx, e.Name)
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
	r, err := d.Store.Reflex(ctx, id)
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
	r, err := d.Store.Reflex(ctx, id)
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
	if err := d.Store.SwitchReflex(ctx, r); err != nil {
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

// withDigests adds what the actions of a reflex are now to a yes to it. One whose action is gone is refused.
func (d *Desk) withDigests(ctx context.Context, r answer.Reply) (answer.Reply, error) {
	if r.Token.Kind != answer.KindReflex || r.Token.Decision != answer.Approve || r.Refused != "" {
		return r, nil
	}
	e, err := d.Store.Reflex(ctx, r.Token.Approval)
	if err == nil {
		r.Digests, err = d.digests(e)
	}
	if text, known := Problem(err); known {
		r.Refused, err = text, nil
	}
	if errors.Is(err, ops.ErrNotFound) {
		err = nil // the record says so
	}
	return r, err
}
