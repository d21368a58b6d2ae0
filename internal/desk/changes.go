package desk

import (
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Changes lists what changed for a service and what it needs, the newest first, and what could not be seen. Without a service it is about
// the whole environment.
func (d *Desk) Changes(ctx context.Context, environment, service string, f store.ChangeFilter) (
	changes []ops.Change, unseen []string, err error,
) {
	e, err := d.Environment(environment)
	if err != nil {
		return nil, nil, err
	}
	if service != "" {
		if _, service, err = d.service(e.Name, service); err != nil {
			return nil, nil, err
		}
		f.Services = e.Policy.Inventory.Needs(service)
	}
	f.Environment = e.Name
	if changes, err = d.Store.Changes(ctx, f); err != nil {
		return nil, nil, err
	}
	unseen, err = d.Store.Unseen(ctx, e.Name)
	return changes, unseen, err
}

// WhatChanged says what changed before an incident since its service was last healthy.
func (d *Desk) WhatChanged(ctx context.Context, i ops.Incident) (ops.WhatChanged, error) {
	var services, needs []string
	if i.Service != "" {
		services = []string{i.Service}
		if e, err := d.Environment(i.Environment); err == nil { // one that is no longer configured needs nothing
			needs = e.Policy.Inventory.Needs(i.Service)
		}
	}
	return d.Store.WhatChanged(ctx, i.Environment, services, needs, i.Check, began(i))
}

// began is when the outage that an incident is about was found.
func began(i ops.Incident) time.Time {
	if i.ReopenedAt != nil {
		return *i.ReopenedAt
	}
	return i.OpenedAt
}

// Story returns everything on record about an incident, beginning with what changed before it.
func (d *Desk) Story(ctx context.Context, id int64) (ops.IncidentStory, error) {
	story, err := d.Store.IncidentStory(ctx, id)
	if err != nil {
		return story, err
	}
	story.Changed, err = d.WhatChanged(ctx, story.Incident)
	return story, err
}
