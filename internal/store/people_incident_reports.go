package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const kindIncident = "incident"

// reporting records a problem as one incident per service.
type reporting struct {
	tx     db.Querier
	cycle  held
	report ops.IncidentReport
	text   string     // the report as it is stored
	remind *time.Time // when the first reminder of a new incident is due
	at     time.Time
}

// reportIncident opens an incident for every service of the report, or adds the report to the open incident with the same
// fingerprint.
func reportIncident(ctx context.Context, tx db.Querier, cycle held, report ops.IncidentReport, at time.Time) error {
	p := reporting{tx: tx, cycle: cycle, report: report, at: at}
	var err error
	if p.text, err = db.JSON(report); err != nil {
		return err
	}
	c, err := cycleByID(ctx, tx, cycle.id)
	if err != nil {
		return err
	}
	if every := c.Policy.Approval.Remind; every > 0 {
		p.remind = ops.Ptr(at.Add(every))
	}
	if report.Waits {
		// The cycle no longer waits for what it waited for before.
		if err := dropWaits(ctx, tx, cycle.id); err != nil {
			return err
		}
	}
	services := slices.Compact(slices.Sorted(slices.Values(report.Services)))
	if len(services) == 0 {
		services = []string{""}
	}
	for _, service := range services {
		if err := p.service(ctx, service); err != nil {
			return fmt.Errorf("%q: %w", service, err)
		}
	}
	return nil
}

func (p reporting) service(ctx context.Context, service string) error {
	check := failingCheck(p.report.Checks, service)
	fingerprint := strings.Join([]string{p.cycle.environment, service, check, p.report.Class}, "|")
	var id int64
	err := p.tx.QueryRowContext(ctx, `INSERT INTO incidents (environment, service, "check", class, fingerprint, title, level, status,
		first_cycle_id, last_cycle_id, report, opened_at, updated_at, remind_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (fingerprint) WHERE resolved_at IS NULL DO UPDATE SET
			occurrences = CASE WHEN incidents.last_cycle_id = excluded.last_cycle_id THEN incidents.occurrences ELSE incidents.occurrences + 1 END,
			last_cycle_id = excluded.last_cycle_id, title = excluded.title, level = excluded.level, report = excluded.report,
			updated_at = excluded.updated_at,
			status = CASE WHEN incidents.status = 'snoozed' AND incidents.snoozed_until <= excluded.updated_at
				THEN excluded.status ELSE incidents.status END
		RETURNING id`,
		p.cycle.environment, service, check, p.report.Class, fingerprint, p.report.Title, p.report.Level, ops.IncidentOpen,
		p.cycle.id, p.cycle.id, p.text, db.Time(p.at), db.Time(p.at), db.OptTime(p.remind)).Scan(&id)
	if err != nil {
		return err
	}
	if err := countCycle(ctx, p.tx, id, p.cycle.id); err != nil || !p.report.Waits {
		return err
	}
	_, err = p.tx.ExecContext(ctx, `INSERT INTO incident_waits (incident_id, cycle_id) VALUES (?, ?)`, id, p.cycle.id)
	return err
}

// countCycle counts a cycle among those that worked on an incident.
func countCycle(ctx context.Context, tx db.Querier, incident int64, cycle ops.CycleID) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO incident_cycles (incident_id, cycle_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, incident, cycle)
	return err
}

// failingCheck is the type of the first check of a service that is not healthy.
func failingCheck(checks []ops.CheckResult, service string) string {
	for _, c := range checks {
		if c.Service == service && c.Status != ops.Healthy {
			return string(c.CheckType)
		}
	}
	return ""
}

// dropWaits removes what a cycle waits for.
func dropWaits(ctx context.Context, tx db.Querier, cycle ops.CycleID) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM incident_waits WHERE cycle_id = ?`, cycle)
	return err
}

// closeRecovered resolves the incidents of services that have recovered, with one notice for all of them.
func closeRecovered(ctx context.Context, tx db.Querier, cycle held, recovered []ops.Recovered, at time.Time) error {
	var over []ops.Incident
	for _, r := range recovered {
		rows, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND (i.service = ? OR ? = '')
			AND (i.class = ? OR ? = '') AND i.resolved_at IS NULL ORDER BY i.id`, cycle.environment, r.Service, r.Service, r.Class, r.Class)
		if err != nil {
			return err
		}
		for _, i := range rows {
			if err := resolveIncident(ctx, tx, i.ID, supervisor, r.How, at); err != nil {
				return fmt.Errorf("resolve incident %d: %w", i.ID, err)
			}
			i.Resolution = r.How
			over = append(over, i)
			if err := countCycle(ctx, tx, i.ID, cycle.id); err != nil {
				return err
			}
			_, err := insertEvent(ctx, tx, ops.Event{
				CycleID: &cycle.id, Environment: i.Environment, Level: ops.LevelInfo, Kind: kindIncident, Service: i.Service,
				Message: withReason(describeIncident(i)+" is over", r.How),
			}, at)
			if err != nil {
				return err
			}
		}
	}
	if len(over) == 0 {
		return nil
	}
	_, err := insertNotice(ctx, tx, resolvedNotice(cycle, over), at)
	return err
}

// resolveIncident ends an open incident and wakes the cycles that waited for it.
func resolveIncident(ctx context.Context, tx db.Querier, id int64, by, how string, at time.Time) error {
	ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, resolved_at = ?, resolved_by = ?, resolution = ?,
		updated_at = ?, remind_at = NULL WHERE id = ? AND resolved_at IS NULL`,
		ops.IncidentResolved, db.Time(at), by, how, db.Time(at), id))
	if err != nil {
		return err
	}
	if !ok {
		return incidentConflict(ctx, tx, id)
	}
	return wakeAfter(ctx, tx, id, at)
}

// describeIncident names an incident in a sentence.
func describeIncident(i ops.Incident) string {
	what := i.Title
	if i.Service != "" && !strings.Contains(i.Title, i.Service) {
		what = i.Service + ": " + i.Title
	}
	return fmt.Sprintf("incident %d (%s)", i.ID, what)
}

func resolvedNotice(cycle held, over []ops.Incident) ops.Notice {
	title := fmt.Sprintf("%s: %d incidents are over", cycle.environment, len(over))
	if len(over) == 1 {
		title = fmt.Sprintf("%s: %s is over", cycle.environment, describeIncident(over[0]))
	}
	var body strings.Builder
	for _, i := range over {
		fmt.Fprintf(&body, "- %s, open since %s: %s\n", describeIncident(i), i.OpenedAt.Format(time.RFC3339), i.Resolution)
	}
	return ops.Notice{CycleID: &cycle.id, Kind: "resolved", Level: ops.LevelInfo, Title: title, Body: body.String()}
}
