package desk

import (
	"context"
	"fmt"
	"slices"

	"claudeops/internal/ops"
)

// MaxQueued is how many cycles of an environment may wait before another is refused. What the watch finds is not refused: it starts one
// cycle for a problem, however often it is reported.
const MaxQueued = 10_000

// RunCycle queues a cycle. What the person chooses is the environment, the prompt, the limits and the key of the request.
func (d *Desk) RunCycle(ctx context.Context, by Person, n ops.NewCycle) (ops.CycleID, error) {
	e, err := d.Environment(n.Environment)
	if err == nil {
		err = text("prompt", &n.Prompt, MaxPrompt)
	}
	if err == nil && n.Options.MaxTier != 0 && !n.Options.MaxTier.Known() {
		err = wrong("the highest tier is %d: use 1, 2 or 3", n.Options.MaxTier)
	}
	if err != nil {
		return 0, err
	}
	n.Environment, n.At, n.Trigger, n.Behind = e.Name, d.Clock(), ops.TriggerManual, MaxQueued
	if by.Door == API {
		n.Trigger = ops.TriggerAPI
	}
	return d.Control.Submit(ctx, n)
}

// RunAgain queues another cycle for an incident.
func (d *Desk) RunAgain(ctx context.Context, by Person, incident int64) (ops.CycleID, ops.Incident, error) {
	i, err := d.Store.People.Incident(ctx, incident)
	if err == nil {
		_, err = d.configured(i.Environment)
	}
	if err != nil {
		return 0, i, err
	}
	id, err := d.RunCycle(ctx, by, i.Again())
	return id, i, err
}

// Repeat queues a cycle like an earlier one.
func (d *Desk) Repeat(ctx context.Context, by Person, id ops.CycleID) (ops.CycleID, error) {
	c, err := d.Store.Journal.Cycle(ctx, id)
	if err == nil {
		_, err = d.configured(c.Environment)
	}
	if err != nil {
		return 0, err
	}
	n := ops.NewCycle{Environment: c.Environment, Prompt: c.Prompt, Options: c.Options}
	if c.Trigger == ops.TriggerAlert {
		n.Problem = c.Problem // the prompt of an alert has no line that names it
	}
	return d.RunCycle(ctx, by, n)
}

func (d *Desk) configured(environment string) (ops.Environment, error) {
	i := slices.IndexFunc(d.Environments, func(e ops.Environment) bool { return e.Name == environment })
	if i < 0 {
		return ops.Environment{}, ops.Removed("the environment %q", environment)
	}
	return d.Environments[i], nil
}

// Cancel ends a cycle.
func (d *Desk) Cancel(ctx context.Context, by Person, id ops.CycleID, reason string) error {
	if err := text("reason", &reason, MaxReason); err != nil {
		return err
	}
	if reason == "" {
		reason = "cancelled " + by.from()
	}
	return d.Control.Cancel(ctx, id, reason)
}

// Stop stops a session and ends its cycle: an unfinished repair is for a person, not for the next tier.
func (d *Desk) Stop(ctx context.Context, by Person, id ops.SessionID) error {
	s, err := d.Store.Journal.Session(ctx, id)
	if err != nil {
		return err
	}
	if s.Status.Ended() {
		return ops.NewConflict(ops.ConflictState, "stop session %d: it has already ended (%s)", id, s.Status)
	}
	return d.Control.Cancel(ctx, s.CycleID, fmt.Sprintf("session %d was stopped %s", id, by.from()))
}

// StopAll stops everything: agents end, and nothing starts until ResumeAll.
func (d *Desk) StopAll(ctx context.Context, by Person, reason string) (ops.Standstill, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Standstill{}, err
	}
	h, err := d.Store.People.StopAll(ctx, ops.Standstill{By: by.String(), Reason: reason, At: d.Clock()})
	d.changed()
	return h, err
}

// working refuses what starts something while everything is stopped.
func (d *Desk) working(ctx context.Context) error {
	still, err := d.Store.People.Standstill(ctx)
	if err == nil && still != nil {
		err = still.Refuses()
	}
	return err
}

// ResumeAll lets everything start again. What waits in the queue goes on.
func (d *Desk) ResumeAll(ctx context.Context, by Person, reason string) (ops.Standstill, error) {
	if err := text("reason", &reason, MaxReason); err != nil {
		return ops.Standstill{}, err
	}
	h, err := d.Store.People.ResumeAll(ctx, by.String(), reason, d.Clock())
	if err == nil {
		d.Control.Wake(0)
	}
	d.changed()
	return h, err
}

// Action is an action that somebody asks for.
type Action struct {
	Environment, Service, Name, Branch, Why string
}

// RunAction asks the daemon to run an action.
func (d *Desk) RunAction(ctx context.Context, by Person, a Action) (ops.ActionRun, error) {
	e, err := d.Environment(a.Environment)
	if err == nil {
		err = needed("why", &a.Why, MaxReason, sayWhy)
	}
	if err == nil {
		err = names(named{"service", &a.Service}, named{"action", &a.Name}, named{"branch", &a.Branch})
	}
	if err != nil {
		return ops.ActionRun{}, err
	}
	service, _ := e.Policy.Inventory.Canonical(a.Service)
	spec, known := e.Policy.Inventory.Action(service, a.Name)
	if !known {
		return ops.ActionRun{}, fmt.Errorf("%w: %w",
			wrong("service %s has no action %s; 'claudeops actions list' shows those there are", a.Service, a.Name), ops.ErrNotFound)
	}
	return d.request(ctx, by, ops.ActionRun{
		Environment: e.Name, Service: service, Action: a.Name, Kind: spec.Kind, Tier: spec.Tier, Does: spec.Does(), Digest: spec.Digest(),
		Branch: a.Branch, Why: a.Why,
	})
}

// Undo asks the daemon to undo a run.
func (d *Desk) Undo(ctx context.Context, by Person, id int64, why string) (ops.ActionRun, error) {
	if err := needed("why", &why, MaxReason, sayWhy); err != nil {
		return ops.ActionRun{}, err
	}
	r, err := d.Store.Acts.ActionRun(ctx, id)
	if err != nil {
		return ops.ActionRun{}, err
	}
	undo, err := d.UndoOf(r)
	if err != nil {
		return ops.ActionRun{}, err
	}
	undo.Why = why
	return d.request(ctx, by, undo)
}

// UndoOf is the run that would undo another one.
func (d *Desk) UndoOf(r ops.ActionRun) (ops.ActionRun, error) {
	for _, e := range d.Environments {
		a, known := e.Policy.Inventory.Action(r.Service, r.Action)
		if e.Name != r.Environment || !known {
			continue
		}
		switch {
		case !a.Undoable() || r.UndoOf != 0:
			return ops.ActionRun{}, ops.NewConflict(ops.ConflictState, "%s of %s has no way back", r.Action, r.Service)
		case r.Status == ops.ActionUndone || r.Status == ops.ActionRefused || !r.Status.Ended():
			return ops.ActionRun{}, ops.NewConflict(ops.ConflictState, "action %d is %s", r.ID, r.Status)
		}
		return ops.ActionRun{
			Environment: e.Name, Service: r.Service, Action: r.Action, Kind: a.Kind, Tier: a.Tier, UndoOf: r.ID,
			Does: a.WayBack(), Digest: a.Digest(),
		}, nil
	}
	return ops.ActionRun{}, ops.Removed("%s of %s", r.Action, r.Service)
}

func (d *Desk) request(ctx context.Context, by Person, r ops.ActionRun) (ops.ActionRun, error) {
	r.Person = by.String()
	r, err := d.Store.Acts.RequestAction(ctx, r, d.Clock())
	if err == nil {
		d.changed()
	}
	return r, err
}

// Withdraw takes back a request that no daemon has taken.
func (d *Desk) Withdraw(ctx context.Context, by Person, id int64, why string) (ops.ActionRun, error) {
	err := needed("why", &why, MaxReason, sayWhy)
	if err == nil {
		_, err = d.Store.Acts.ActionRun(ctx, id)
	}
	if err == nil {
		err = d.Store.Acts.RefuseAction(ctx, id, fmt.Sprintf("%s withdrew it: %s", by, why), d.Clock())
	}
	if err != nil {
		return ops.ActionRun{}, err
	}
	d.changed()
	return d.Store.Acts.ActionRun(ctx, id)
}
