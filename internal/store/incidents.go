package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
)

const selectIncidents = `SELECT i.id, i.environment, i.service, i."check", i.class, i.fingerprint, i.title, i.level, i.status,
	i.occurrences, COALESCE(i.first_cycle_id, 0), COALESCE(i.last_cycle_id, 0),
	(SELECT MAX(w.cycle_id) FROM incident_waits w WHERE w.incident_id = i.id), i.report, i.opened_at, i.updated_at,
	i.acknowledged_at, i.acknowledged_by, i.snoozed_until, i.resolved_at, i.resolved_by, i.resolution, i.reminders, i.remind_at
	FROM incidents i`

func scanIncident(r row) (ops.Incident, error) {
	var i ops.Incident
	err := r.Scan(&i.ID, &i.Environment, &i.Service, &i.Check, &i.Class, toText(&i.Fingerprint), &i.Title, &i.Level, &i.Status,
		&i.Occurrences, &i.FirstCycle, &i.LastCycle, &i.Waiting, (*[]byte)(&i.Report), toTime(&i.OpenedAt), toTime(&i.UpdatedAt),
		toOptTime(&i.AcknowledgedAt), &i.AcknowledgedBy, toOptTime(&i.SnoozedUntil), toOptTime(&i.ResolvedAt), &i.ResolvedBy,
		&i.Resolution, &i.Reminders, toOptTime(&i.RemindAt))
	return i, err
}

// IncidentFilter chooses incidents; the zero value means all.
type IncidentFilter struct {
	Open        bool // only those that are not resolved
	Status      ops.IncidentStatus
	Environment string
	Service     string
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// Incidents returns a page of incidents, newest first.
func (s *Store) Incidents(ctx context.Context, f IncidentFilter) ([]ops.Incident, error) {
	var w filter
	if f.Open {
		w.add(`i.resolved_at IS NULL`)
	}
	if f.Status != "" {
		w.add(`i.status = ?`, f.Status)
	}
	if f.Environment != "" {
		w.add(`i.environment = ?`, f.Environment)
	}
	if f.Service != "" {
		w.add(`i.service = ?`, f.Service)
	}
	if f.Before > 0 {
		w.add(`i.id < ?`, f.Before)
	}
	out, err := list(ctx, s.reader, scanIncident, selectIncidents+w.where()+` ORDER BY i.id DESC LIMIT ?`,
		append(w.args, pageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return out, nil
}

// Incident returns one incident.
func (s *Store) Incident(ctx context.Context, id int64) (ops.Incident, error) {
	i, err := incidentByID(ctx, s.reader, id)
	if err != nil {
		return ops.Incident{}, fmt.Errorf("read incident %d: %w", id, err)
	}
	return i, nil
}

func incidentByID(ctx context.Context, q querier, id int64) (ops.Incident, error) {
	return one(ctx, q, scanIncident, selectIncidents+` WHERE i.id = ?`, id)
}

// Unresolved returns the incidents of an environment that are not resolved, oldest first.
func (s *Store) Unresolved(ctx context.Context, environment string) ([]ops.Incident, error) {
	out, err := incidentsFor(ctx, s.reader, environment, 0)
	if err != nil {
		return nil, fmt.Errorf("list unresolved incidents: %w", err)
	}
	return out, nil
}

// incidentsFor returns the unresolved incidents of an environment and those that the cycle waited for, oldest first, as the
// cycle sees them: what it waits for itself names it, whoever waits for it too.
func incidentsFor(ctx context.Context, q querier, environment string, cycle ops.CycleID) ([]ops.Incident, error) {
	out, err := list(ctx, q, scanIncident, selectIncidents+` WHERE (i.environment = ? AND i.resolved_at IS NULL)
		OR i.id IN (SELECT incident_id FROM incident_waits WHERE cycle_id = ?) ORDER BY i.id`, environment, cycle)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	own, err := list(ctx, q, scanInt, `SELECT incident_id FROM incident_waits WHERE cycle_id = ?`, cycle)
	if err != nil {
		return nil, err
	}
	mine := map[int64]bool{}
	for _, id := range own {
		mine[id] = true
	}
	for n := range out {
		if mine[out[n].ID] {
			out[n].Waiting = &cycle
		}
	}
	return out, nil
}
