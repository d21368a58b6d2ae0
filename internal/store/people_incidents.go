package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectIncidents = `SELECT i.id, i.environment, i.service, i."check", i.class, i.fingerprint, i.title, i.level, i.status,
	i.occurrences, COALESCE(i.first_cycle_id, 0), COALESCE(i.last_cycle_id, 0),
	(SELECT MAX(w.cycle_id) FROM incident_waits w WHERE w.incident_id = i.id), i.report, i.opened_at, i.updated_at,
	i.acknowledged_at, i.acknowledged_by, i.snoozed_until, i.resolved_at, i.resolved_by, i.resolution, i.reminders, i.remind_at,
	i.called_at, i.unverified_at, i.probe_failed_at, i.probation_until, CASE WHEN ` + handledAlone + ` THEN TRUE ELSE FALSE END,
	` + deniedUntil + `,
	COALESCE((SELECT SUM(s.cost_usd) FROM incident_cycles x JOIN sessions s ON s.cycle_id = x.cycle_id WHERE x.incident_id = i.id), 0.0)
	FROM incidents i`

func scanIncident(r db.Row) (ops.Incident, error) {
	var i ops.Incident
	err := r.Scan(&i.ID, &i.Environment, &i.Service, &i.Check, &i.Class, db.ToText(&i.Fingerprint), &i.Title, &i.Level, &i.Status,
		&i.Occurrences, &i.FirstCycle, &i.LastCycle, &i.Waiting, (*[]byte)(&i.Report), db.ToTime(&i.OpenedAt), db.ToTime(&i.UpdatedAt),
		db.ToOptTime(&i.AcknowledgedAt), &i.AcknowledgedBy, db.ToOptTime(&i.SnoozedUntil), db.ToOptTime(&i.ResolvedAt), &i.ResolvedBy,
		&i.Resolution, &i.Reminders, db.ToOptTime(&i.RemindAt), db.ToOptTime(&i.CalledAt), db.ToOptTime(&i.UnverifiedAt),
		db.ToOptTime(&i.ProbeFailedAt), db.ToOptTime(&i.ProbationUntil), &i.Handled, db.ToOptTime(&i.DeniedUntil),
		&i.CostUSD)
	if err != nil {
		return i, err
	}
	// A probation that ended before the incident did ended with its being opened again.
	if p := i.ProbationUntil; p != nil && (i.ResolvedAt == nil || p.Before(*i.ResolvedAt)) {
		i.ReopenedAt, i.ProbationUntil = p, nil
	}
	return i, totalCost(&i)
}

// totalCost puts the cost of all cycles into the report, which knows only the cost of the cycle that wrote it.
func totalCost(i *ops.Incident) error {
	if i.CostUSD == 0 || len(i.Report) == 0 {
		return nil
	}
	report, err := i.Known()
	if err != nil || report.CostUSD == i.CostUSD {
		return nil //nolint:nilerr // a report that cannot be read is shown as it is
	}
	report.CostUSD = i.CostUSD
	text, err := db.JSON(report)
	if err != nil {
		return err
	}
	i.Report = []byte(text)
	return nil
}

// IncidentFilter chooses incidents; the zero value means all.
type IncidentFilter struct {
	Open        bool // only those that are not resolved
	NeedsYou    bool // only those that need a person
	Status      ops.IncidentStatus
	Environment string
	Service     string
	Before      int64     // only older ones: the last id of the page before
	Since       time.Time // opened since then
	Limit       int
}

// Incidents returns a page of incidents, newest first.
func (s *People) Incidents(ctx context.Context, f IncidentFilter) ([]ops.Incident, error) {
	var w db.Filter
	if f.Open {
		w.Add(`i.resolved_at IS NULL`)
	}
	if f.NeedsYou {
		now := db.Time(s.clock())
		w.Add(needsYou, now, now)
	}
	if f.Status != "" {
		w.Add(`i.status = ?`, f.Status)
	}
	if f.Environment != "" {
		w.Add(`i.environment = ?`, f.Environment)
	}
	if f.Service != "" {
		w.Add(`i.service = ?`, f.Service)
	}
	if f.Before > 0 {
		w.Add(`i.id < ?`, f.Before)
	}
	if !f.Since.IsZero() {
		w.Add(`i.opened_at >= ?`, db.Time(f.Since))
	}
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+w.Where()+` ORDER BY i.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return out, nil
}

// Incident returns one incident.
func (s *People) Incident(ctx context.Context, id int64) (ops.Incident, error) {
	i, err := incidentByID(ctx, s.db.Reader(), id)
	if err != nil {
		return ops.Incident{}, fmt.Errorf("read incident %d: %w", id, err)
	}
	return i, nil
}

func incidentByID(ctx context.Context, q db.Querier, id int64) (ops.Incident, error) {
	return db.One(ctx, q, scanIncident, selectIncidents+` WHERE i.id = ?`, id)
}

// Unresolved returns the incidents of an environment that are not resolved, oldest first.
func (s *People) Unresolved(ctx context.Context, environment string) ([]ops.Incident, error) {
	out, err := incidentsFor(ctx, s.db.Reader(), environment, 0)
	if err != nil {
		return nil, fmt.Errorf("list unresolved incidents: %w", err)
	}
	return out, nil
}

// incidentsFor returns the unresolved incidents of an environment and those that the cycle waited for, oldest first. For an
// incident that this cycle waits for, Waiting names this cycle, even if others wait too.
func incidentsFor(ctx context.Context, q db.Querier, environment string, cycle ops.CycleID) ([]ops.Incident, error) {
	out, err := db.List(ctx, q, scanIncident, selectIncidents+` WHERE (i.environment = ? AND i.resolved_at IS NULL)
		OR i.id IN (SELECT incident_id FROM incident_waits WHERE cycle_id = ?) ORDER BY i.id`, environment, cycle)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	own, err := db.List(ctx, q, db.ScanInt, `SELECT incident_id FROM incident_waits WHERE cycle_id = ?`, cycle)
	if err != nil {
		return nil, err
	}
	mine := map[int64]bool{}
	for _, id := range own {
		mine[id] = true
	}
	worked, err := db.List(ctx, q, db.ScanInt, `SELECT incident_id FROM incident_cycles WHERE cycle_id = ?`, cycle)
	if err != nil {
		return nil, err
	}
	for n := range out {
		if mine[out[n].ID] {
			out[n].Waiting = &cycle
		}
		out[n].Own = slices.Contains(worked, out[n].ID)
	}
	return out, nil
}

// maxHistory limits the history of one incident to its newest events.
const maxHistory = 100

// IncidentHistory returns the events of an incident, oldest first: the answers of people, and the questions and decisions of the
// cycle that opened it and of the last one that reported it.
func (s *People) IncidentHistory(ctx context.Context, i ops.Incident) ([]ops.Event, error) {
	out, err := db.List(ctx, s.db.Reader(), scanEvent, `SELECT * FROM (`+selectEvents+` WHERE v.cycle_id BETWEEN ? AND ? AND v.environment = ?
			AND (v.kind = ? AND v.message LIKE ? OR v.kind IN ('approval', 'escalation') AND v.cycle_id IN (?, ?))
			ORDER BY v.id DESC LIMIT ?) AS newest ORDER BY id`,
		i.FirstCycle, max(i.FirstCycle, i.LastCycle), i.Environment, kindIncident, fmt.Sprintf("%%incident %d (%%", i.ID),
		i.FirstCycle, i.LastCycle, maxHistory)
	if err != nil {
		return nil, fmt.Errorf("read history of incident %d: %w", i.ID, err)
	}
	return out, nil
}
