package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Updatable is a service with what is known of its image.
type Updatable struct {
	Environment string
	Service     string
	Not         string       // why Claude Ops does not update it; empty: it does
	Version     *ops.Version // nil: nobody has looked yet
	Latest      *ops.Update  // nil: there was none
	Schedule    string
}

// Newer reports whether the registry has another image of the same tag.
func (u Updatable) Newer() bool {
	return u.Version != nil && u.Version.Newest != "" && u.Version.Newest != u.Version.Image.Digest
}

// Updatables returns the services of an environment with what is known of their images; one service, where it is named.
func (d *Desk) Updatables(ctx context.Context, environment, service string) ([]Updatable, error) {
	e, err := d.Environment(environment)
	if err == nil && service != "" {
		e, service, err = d.service(environment, service)
	}
	if err != nil {
		return nil, err
	}
	seen, err := d.Store.Acts.Versions(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	var out []Updatable
	for _, s := range e.Policy.Inventory.Services {
		if service != "" && s.Name != service {
			continue
		}
		u := Updatable{Environment: e.Name, Service: s.Name, Schedule: s.Updates.Schedule}
		_, u.Not = s.Update()
		if i := slices.IndexFunc(seen, func(v ops.Version) bool { return v.Service == s.Name }); i >= 0 && u.Not == "" {
			u.Version = &seen[i]
		}
		latest, err := d.Store.Acts.Updates(ctx, store.UpdateFilter{Environment: e.Name, Service: s.Name, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(latest) > 0 {
			u.Latest = &latest[0]
		}
		out = append(out, u)
	}
	return out, nil
}

// Update asks for another image for a service, and says yes to an update that waits for one. The daemon does it, and goes back if probes
// find something worse than before. Nobody but a person asks: a program that speaks for one cannot.
func (d *Desk) Update(ctx context.Context, by Person, environment, service, to string) (ops.Update, error) {
	e, name, err := d.service(environment, service)
	if err == nil {
		err = names(named{"to", &to})
	}
	if err != nil {
		return ops.Update{}, err
	}
	if by.Via != "" {
		return ops.Update{}, wrong("an update is asked for by a person: on the page of %s, or with claudeops update %s", name, name)
	}
	if err := d.working(ctx); err != nil {
		return ops.Update{}, err
	}
	why, err := d.UpdateHeld(ctx, e, name, 0)
	if err == nil && why != "" {
		err = ops.NewConflict(ops.ConflictState, "%s", why)
	}
	if err != nil {
		return ops.Update{}, err
	}
	u, err := d.Store.Acts.AskUpdate(ctx, ops.Update{Environment: e.Name, Service: name, To: to, Person: by.String()}, d.Clock())
	if err == nil {
		d.changed()
	}
	return u, err
}

// UpdateHeld says why a service may not be updated now; empty: nothing speaks against it. Own is the update that asks, if it has begun.
func (d *Desk) UpdateHeld(ctx context.Context, e ops.Environment, service string, own int64) (string, error) {
	inventory := e.Policy.Inventory
	if _, why := inventory.Update(service); why != "" {
		return fmt.Sprintf("%s is not updated by Claude Ops: %s", service, why), nil
	}
	if e.Policy.DryRun {
		return "this is a dry run (dry_run is on): nothing is changed", nil
	}
	touched := append([]string{service}, inventory.Dependents(service)...)
	open, err := d.Store.People.Unresolved(ctx, e.Name)
	if err != nil {
		return "", err
	}
	for _, i := range open {
		if slices.Contains(touched, i.Service) {
			return fmt.Sprintf("incident %d of %s is open: it has to be over first", i.ID, i.Service), nil
		}
	}
	if why, err := paused(ctx, d.Store.Watch, d.Clock(), e, touched); why != "" || err != nil {
		return why, err
	}
	updates, err := d.Store.Acts.Updates(ctx, store.UpdateFilter{Open: true})
	if err != nil {
		return "", err
	}
	for _, u := range updates {
		if u.Phase.Runs() && u.ID != own {
			return fmt.Sprintf("%s runs (%s): one service is updated at a time", u.Words(), u.Phase), nil
		}
	}
	cycles, err := d.Store.Reports.Cycles(ctx, store.CycleFilter{Environment: e.Name, Status: ops.CycleRunning, Limit: 1})
	if err == nil && len(cycles) > 0 {
		return fmt.Sprintf("cycle %d works in %s: it has to end first", cycles[0].ID, e.Name), nil
	}
	return "", err
}

// paused says which silence or maintenance covers one of the services.
func paused(ctx context.Context, watch *store.Watch, now time.Time, e ops.Environment, services []string) (string, error) {
	silences, err := watch.SilencesSince(ctx, e.Name, now)
	if err != nil {
		return "", err
	}
	for _, s := range e.Policy.Inventory.Services {
		if !slices.Contains(services, s.Name) {
			continue
		}
		for _, q := range silences {
			if q.Probe == "" && q.Active(now) && q.Covers(e.Name, s.Name, s.Group, "") {
				return fmt.Sprintf("%s is silenced until %s: %s", s.Name, q.Until.UTC().Format("15:04 UTC"), q.Reason), nil
			}
		}
		for _, m := range e.Watch.Maintenance {
			w, err := health.ParseMaintenance(m)
			if err != nil || !m.Covers(s.Name, s.Group) {
				continue // the configuration was checked when it was read
			}
			if until, on := w.Active(now); on {
				return fmt.Sprintf("%s is in maintenance until %s", s.Name, until.UTC().Format("15:04 UTC")), nil
			}
		}
	}
	return "", nil
}
