package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice"
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
	called *time.Time // when a human is called; nil: nobody is
	remind *time.Time // when the first reminder is due
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
	if !report.Handled {
		p.called = &at
		// Alerts that fire on are repeated by a rule of their own.
		if every := c.Policy.Approval.Remind; every > 0 && report.Class != ops.ClassAlert {
			p.remind = ops.Ptr(at.Add(every))
		}
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

// onlyHandled: the report calls nobody, and somebody was called about the open incident before.
const onlyHandled = `(excluded.called_at IS NULL AND incidents.called_at IS NOT NULL)`

// fingerprint identifies the incident of a service: environment, service, check and class. An incident on which this cycle works
// already stays the same one when a tier takes over, a human is called or no check is named, whichever check found it first.
func (p reporting) fingerprint(ctx context.Context, service string) (check, fingerprint string, err error) {
	check = failingCheck(p.report.Checks, service)
	fingerprint = strings.Join([]string{p.cycle.environment, service, check, p.report.Class}, "|")
	err = p.tx.QueryRowContext(ctx, `SELECT i."check", i.fingerprint FROM incidents i JOIN incident_cycles x ON x.incident_id = i.id
		WHERE x.cycle_id = ? AND i.environment = ? AND i.service = ? AND i.class = ? AND i.resolved_at IS NULL
			AND i.fingerprint IS NOT NULL AND (i.called_at IS NULL OR ? = '' OR ?) ORDER BY i.id DESC LIMIT 1`,
		p.cycle.id, p.cycle.environment, service, p.report.Class, check, p.report.Handled).Scan(&check, &fingerprint)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return check, fingerprint, err
}

func (p reporting) service(ctx context.Context, service string) error {
	check, fingerprint, err := p.fingerprint(ctx, service)
	if err != nil {
		return err
	}
	var id int64
	// A cycle that takes over an incident of which people know already changes nothing of what they were told.
	err = p.tx.QueryRowContext(ctx, `INSERT INTO incidents (environment, service, "check", class, fingerprint, title, level, status,
		first_cycle_id, last_cycle_id, report, opened_at, updated_at, remind_at, called_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (fingerprint) WHERE resolved_at IS NULL DO UPDATE SET
			occurrences = CASE WHEN incidents.last_cycle_id = excluded.last_cycle_id OR `+onlyHandled+`
				THEN incidents.occurrences ELSE incidents.occurrences + 1 END,
			last_cycle_id = CASE WHEN `+onlyHandled+` THEN incidents.last_cycle_id ELSE excluded.last_cycle_id END,
			title = CASE WHEN `+onlyHandled+` THEN incidents.title ELSE excluded.title END,
			level = CASE WHEN `+onlyHandled+` THEN incidents.level ELSE excluded.level END,
			report = CASE WHEN `+onlyHandled+` THEN incidents.report ELSE excluded.report END,
			updated_at = excluded.updated_at,
			called_at = COALESCE(incidents.called_at, excluded.called_at),
			remind_at = CASE WHEN incidents.called_at IS NULL AND incidents.status = 'open' THEN excluded.remind_at
				ELSE incidents.remind_at END,
			status = CASE WHEN incidents.status = 'snoozed' AND incidents.snoozed_until <= excluded.updated_at
				THEN excluded.status ELSE incidents.status END
		RETURNING id`,
		p.cycle.environment, service, check, p.report.Class, fingerprint, p.report.TitleOf(service), p.report.Level, ops.IncidentOpen,
		p.cycle.id, p.cycle.id, p.text, db.Time(p.at), db.Time(p.at), db.OptTime(p.remind), db.OptTime(p.called)).Scan(&id)
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
	err := db.Later(ctx, tx, `DELETE FROM incident_waits WHERE cycle_id = ?`, cycle)
	return err
}

// closeRecovered resolves the incidents of services that have recovered, with one notice for those about which a human was called.
func closeRecovered(ctx context.Context, tx db.Querier, cycle held, recovered []ops.Recovered, at time.Time) error {
	var over []ops.Incident
	for _, r := range recovered {
		rows, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND (i.service = ? OR ? = '')
			AND (i.class = ? OR (? = '' AND i.class <> ?)) AND i.resolved_at IS NULL ORDER BY i.id`,
			cycle.environment, r.Service, r.Service, r.Class, r.Class, ops.ClassAlert)
		if err != nil {
			return err
		}
		for _, i := range rows {
			if err := resolveIncident(ctx, tx, i.ID, supervisor, r.How, at); err != nil {
				return fmt.Errorf("resolve incident %d: %w", i.ID, err)
			}
			i.Resolution = r.How
			if i.CalledAt != nil {
				over = append(over, i) // nobody was told of the others
			}
			if err := countCycle(ctx, tx, i.ID, cycle.id); err != nil {
				return err
			}
			err := insertEvent(ctx, tx, ops.Event{
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
	text := notice.Over(cycle.environment, over)
	n := ops.Notice{
		CycleID: &cycle.id, Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, Environment: cycle.environment,
	}
	if len(over) == 1 {
		n.Service = over[0].Service
	}
	return n
}
