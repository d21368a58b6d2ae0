package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectCauses = `SELECT z.id, z.cause, z.environment, z.group_name, z.services, z.affected, z.level, z.reason, z.began, z.at,
	z.cycle_id, z.resolved_at, z.resolved_at IS NULL AND EXISTS (SELECT 1 FROM cycles y WHERE y.id = z.cycle_id AND y.ended_at IS NULL),
	(SELECT e.services FROM escalations e WHERE e.cycle_id = z.cycle_id AND e.services IS NOT NULL AND e.decision <> 'refused'
		ORDER BY e.id DESC LIMIT 1) FROM causes z`

func scanCause(r db.Row, c *ops.Cause) error {
	err := r.Scan(&c.ID, &c.Key, &c.Environment, &c.Group, db.ToJSON(&c.Services), db.ToJSON(&c.Affected), &c.Level, &c.Reason,
		db.ToTime(&c.Began), db.ToTime(&c.At), &c.Cycle, db.ToOptTime(&c.ResolvedAt), &c.Takes, db.ToJSON(&c.Handed))
	c.Takes = c.Takes && len(c.Handed) == 0
	return err
}

// Causes returns the open causes of an environment, and those that started their cycle or were over since a time.
func (s *Watch) Causes(ctx context.Context, environment string, since time.Time) ([]ops.Cause, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCause, selectCauses+` WHERE z.environment = ? AND (z.resolved_at IS NULL OR z.at >= ?
		OR z.resolved_at >= ?) ORDER BY z.id`, environment, db.Time(since), db.Time(since))
	return ops.Returning(out, err, "list causes")
}

// OpenCause records a cause together with the cycle it starts, its checks and its notice. If another cycle found the same since a
// time, and started an agent for it, that cycle is used instead; then no cycle is submitted and no notice is sent.
func (s *Watch) OpenCause(ctx context.Context, c ops.Cause, n ops.NewCycle, checks []ops.Check,
	notice *ops.Notice, since time.Time,
) (ops.Cause, bool, error) {
	started := false
	err := s.db.WriteIn(ctx, "open_cause", db.InEnvironment(c.Environment), func(tx db.Querier) error {
		found, err := cycleThatFound(ctx, tx, c, since)
		switch {
		case err == nil:
			c.Cycle = found
		case errors.Is(err, ops.ErrNotFound):
			started = true
			if err := s.startCycle(ctx, tx, &c, n, checks, notice); err != nil {
				return err
			}
		default:
			return err
		}
		return insertCause(ctx, tx, &c)
	})
	if err != nil {
		return ops.Cause{}, false, fmt.Errorf("open cause of %s: %w", ops.Listed(c.Services), err)
	}
	c.Takes = started
	return c, started, nil
}

// JoinCause adds services to a cause and to the charge of its cycle, unless that has ended or handed on what it works on.
func (s *Watch) JoinCause(ctx context.Context, c ops.Cause, more []string) (bool, error) {
	joined := false
	err := s.db.WriteIn(ctx, "join_cause", db.InEnvironment(c.Environment), func(tx db.Querier) error {
		now, err := db.One(ctx, tx, scanCause, selectCauses+` WHERE z.id = ?`, c.ID)
		if err != nil || !now.Takes {
			return err
		}
		joined = true
		if err := db.Exec(ctx, tx, `UPDATE causes SET services = ? WHERE id = ?`, db.JSON(append(now.Services, more...)), c.ID); err != nil {
			return err
		}
		charge, err := db.One(ctx, tx, func(r db.Row, o *ops.Charge) error { return r.Scan(db.ToJSON(o)) },
			`SELECT charge FROM cycles WHERE id = ?`, c.Cycle)
		if err != nil || charge.Open {
			return err
		}
		charge.Services = append(charge.Services, more...)
		return db.Exec(ctx, tx, `UPDATE cycles SET charge = ? WHERE id = ?`, db.JSON(charge), c.Cycle)
	})
	return ops.Returning(joined, err, "add %s to cause %d", ops.Listed(more), c.ID)
}

// cycleThatFound finds a cycle, not started by a cause, whose probes found the same services bad and that has started an agent. One that
// was cancelled or held back and left no incident has taken care of nothing. The services are compared here: a cause may have more of them
// than a statement may have arguments.
func cycleThatFound(ctx context.Context, tx db.Querier, c ops.Cause, since time.Time) (ops.CycleID, error) {
	candidates, err := db.List(ctx, tx, db.ScanInt, `SELECT c.id FROM cycles c WHERE c.environment = ?
		AND (c.ended_at IS NULL OR c.created_at >= ?)
		AND EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = c.id) AND NOT EXISTS (SELECT 1 FROM causes z WHERE z.cycle_id = c.id)
		AND (c.status NOT IN ('suppressed', 'cancelled') OR EXISTS (SELECT 1 FROM incident_cycles x JOIN incidents i ON i.id = x.incident_id
			WHERE x.cycle_id = c.id AND i.resolved_at IS NULL))
		ORDER BY c.id DESC`, c.Environment, db.Time(since))
	if err != nil {
		return 0, err
	}
	for _, id := range candidates {
		bad, err := db.List(ctx, tx, db.ScanString, `SELECT DISTINCT service FROM checks WHERE cycle_id = ? AND purpose = 'observe'
			AND status <> 'healthy'`, id)
		if err != nil {
			return 0, err
		}
		found := make(map[string]bool, len(bad))
		for _, name := range bad {
			found[name] = true
		}
		if !slices.ContainsFunc(c.Services, func(name string) bool { return !found[name] }) {
			return ops.CycleID(id), nil
		}
	}
	return 0, ops.ErrNotFound
}

func (s *Watch) startCycle(ctx context.Context, tx db.Querier, c *ops.Cause, n ops.NewCycle, checks []ops.Check, notice *ops.Notice) error {
	var err error
	if c.Cycle, err = s.insertCycle(ctx, tx, n); err != nil {
		return err
	}
	if err := s.offer(ctx, tx, n.Environment, c.At); err != nil {
		return err
	}
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].CycleID = &c.Cycle
	}
	if err := insertChecks(ctx, tx, checks, c.At); err != nil {
		return err
	}
	err = s.insertEvent(ctx, tx, ops.Event{
		CycleID: &c.Cycle, Environment: c.Environment, Level: levelOf(c.Level), Verb: ops.VerbCycleCaused, Service: c.Services[0],
		Reason: c.Reason,
	}, c.At)
	if err != nil {
		return err
	}
	known, err := linkRelapses(ctx, tx, *c)
	if err != nil || known || notice == nil {
		return err
	}
	notice.CycleID = &c.Cycle
	_, err = insertNotice(ctx, tx, *notice, c.At)
	return err
}

// toldFor returns the services of the cause that started a cycle, if people get or got the notice of it. Only a dry run and
// levels of trust ask.
func toldFor(ctx context.Context, q db.Querier, c ops.Cycle, lowered []ops.Lowered) ([]string, error) {
	if !c.Policy.DryRun && !c.Policy.Distrusts(lowered) || c.Trigger != ops.TriggerProbe && c.Trigger != ops.TriggerAlert {
		return nil, nil
	}
	causes, err := db.List(ctx, q, scanCause, selectCauses+` WHERE z.cycle_id = ? AND EXISTS (SELECT 1 FROM notifications n
		WHERE n.cycle_id = z.cycle_id AND n.kind = ? AND n.status IN (?, ?))`, c.ID, ops.NoticeOpened, ops.NoticePending, ops.NoticeSent)
	if err != nil {
		return nil, fmt.Errorf("read what the watch told: %w", err)
	}
	var out []string
	for _, cause := range causes {
		out = append(append(out, cause.Services...), cause.Affected...)
	}
	return out, nil
}

func levelOf(h ops.Health) ops.Level {
	if h == ops.Down {
		return ops.LevelCritical
	}
	return ops.LevelWarning
}

func insertCause(ctx context.Context, tx db.Querier, c *ops.Cause) error {
	c.Services, c.Affected = db.OrEmpty(c.Services), db.OrEmpty(c.Affected)
	return tx.QueryRowContext(ctx, `INSERT INTO causes (cause, environment, group_name, services, affected, level, reason, began, at, cycle_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, c.Key, c.Environment, c.Group, db.JSON(c.Services), db.JSON(c.Affected),
		c.Level, c.Reason, db.Time(c.Began), db.Time(c.At), c.Cycle).Scan(&c.ID)
}

// ResolveCause records that a cause is over and closes the incidents that its cycle left open. Without how, nobody has seen its services
// recover, and the incidents stay open. It adds the notice unless one was sent already.
func (s *Watch) ResolveCause(
	ctx context.Context, c ops.Cause, how string, over func(services []string, open []ops.Incident) ops.Notice, at time.Time,
) error {
	at = s.orNow(at)
	err := s.db.WriteIn(ctx, "resolve_cause", db.InEnvironment(c.Environment), func(tx db.Querier) error {
		ok, err := releaseCause(ctx, tx, c.ID, at)
		if err != nil || !ok {
			return err
		}
		rows, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND i.last_cycle_id = ? AND i.resolved_at IS NULL
			ORDER BY i.id`,
			c.Environment, c.Cycle)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(i ops.Incident) bool {
			return !slices.Contains(c.Services, i.Service) && !slices.Contains(c.Affected, i.Service)
		})
		if how == "" {
			rows = nil
		}
		if _, err := s.resolveAll(ctx, tx, rows, how, at); err != nil {
			return err
		}
		news, err := endIsNews(ctx, tx, c, at)
		if err != nil || len(news) == 0 {
			return err
		}
		open, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND i.resolved_at IS NULL
			AND i.called_at IS NOT NULL ORDER BY i.id`, c.Environment)
		if err != nil {
			return err
		}
		n := over(news, slices.DeleteFunc(open, func(i ops.Incident) bool { return !slices.Contains(news, i.Service) }))
		n.CycleID = &c.Cycle
		if n.Body, err = s.creditReflex(ctx, tx, c.Cycle, n.Body); err != nil {
			return err
		}
		_, err = insertNotice(ctx, tx, n, at)
		return err
	})
	return ops.Wrapped(err, "resolve cause %d", c.ID)
}

// endIsNews returns the services of a cause that people know of, by a notice or because they were called, and of whose end they do not
// know yet. Other cycles may have found the same incident, or another one of the same service, and one of them, or the watch, may have
// told of it.
func endIsNews(ctx context.Context, tx db.Querier, c ops.Cause, at time.Time) ([]string, error) {
	type told struct {
		over    bool
		service string
		own     bool // of the cycle of the cause, or of one that worked on the same incident
	}
	since := c.At
	if at.Before(since) {
		since = at // the clock was set back
	}
	all, err := db.List(ctx, tx, func(r db.Row, n *told) error {
		return r.Scan(&n.over, &n.service, &n.own)
	}, `SELECT n.kind = 'resolved', n.service, COALESCE(n.cycle_id = ? OR n.cycle_id IN (SELECT y.cycle_id FROM incident_cycles x
			JOIN incident_cycles y ON y.incident_id = x.incident_id WHERE x.cycle_id = ?), FALSE)
		FROM notifications n WHERE n.environment = ? AND (n.created_at >= ? OR n.cycle_id = ?)
		UNION ALL SELECT FALSE, i.service, TRUE FROM incident_cycles x JOIN incidents i ON i.id = x.incident_id
			WHERE x.cycle_id = ? AND i.called_at IS NOT NULL`,
		c.Cycle, c.Cycle, c.Environment, db.Time(since), c.Cycle, c.Cycle)
	if err != nil {
		return nil, err
	}
	begun := slices.ContainsFunc(all, func(n told) bool {
		return n.own && !n.over && (n.service == "" || slices.Contains(c.Services, n.service))
	})
	if !begun || slices.ContainsFunc(all, func(n told) bool { return n.own && n.over }) {
		return nil, nil
	}
	return slices.DeleteFunc(slices.Clone(c.Services), func(name string) bool {
		return slices.ContainsFunc(all, func(n told) bool { return n.over && n.service == name })
	}), nil
}

// resolveAll resolves incidents of one environment of which the watch saw the end, each with its event, and returns them. What holds a
// finding that the watch cannot see stays open.
func (s *Watch) resolveAll(ctx context.Context, tx db.Querier, rows []ops.Incident, how string, at time.Time) ([]ops.Incident, error) {
	var closed []ops.Incident
	for _, i := range rows {
		verb, left := ops.VerbIncidentOver, ""
		rest, err := endFindings(ctx, tx, &i, ops.Recovered{How: how, Ends: []ops.FindingKind{ops.FoundByProbe}}, at)
		if rest {
			verb, left = ops.VerbIncidentEased, s.words.Remaining(i)
		} else if err == nil {
			err = resolveIncident(ctx, tx, i.ID, ops.Supervisor, how, at)
			i.Resolution = how
			closed = append(closed, i)
		}
		if err != nil {
			return nil, fmt.Errorf("resolve incident %d: %w", i.ID, err)
		}
		err = s.insertEvent(ctx, tx, ops.Event{
			CycleID: idOrNil(i.LastCycle), Environment: i.Environment, Level: ops.LevelInfo, Verb: verb,
			Subject: ops.About(ops.SubjectIncident, i.ID), Reason: how, Service: i.Service,
			Detail: ops.IncidentDetail{Title: i.Title, Left: left},
		}, at)
		if err != nil {
			return nil, err
		}
	}
	if len(closed) == 0 {
		return nil, nil
	}
	return closed, s.offer(ctx, tx, closed[0].Environment, at)
}

// ServiceRecovered closes the incidents of a service that were opened, or whose check failed again, since its failure began, with one
// notice for those about which a human was called. It returns how many it closed.
func (s *Watch) ServiceRecovered(ctx context.Context, environment, service string, began time.Time, how string, at time.Time) (int, error) {
	at = s.orNow(at)
	closed := 0
	err := s.db.WriteIn(ctx, "service_recovered", db.InEnvironment(environment), func(tx db.Querier) error {
		rows, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND i.service = ?
			AND (i.opened_at >= ? OR i.probe_failed_at >= ?) AND i.resolved_at IS NULL AND i.unverified_at IS NULL
			ORDER BY i.id`, environment, service, db.Time(began), db.Time(began))
		if err != nil || len(rows) == 0 {
			return err
		}
		over, err := s.resolveAll(ctx, tx, rows, how, at)
		if err != nil {
			return err
		}
		closed = len(over)
		told := slices.DeleteFunc(over, func(i ops.Incident) bool { return i.CalledAt == nil })
		if len(told) == 0 {
			return nil // nobody was called, so there is nothing to take back
		}
		last := told[len(told)-1].LastCycle
		n := resolvedNotice(held{id: last, environment: environment}, told, s.words.Over(environment, told))
		n.CycleID = idOrNil(last)
		n.Environment, n.Service = environment, service
		_, err = insertNotice(ctx, tx, n, at)
		return err
	})
	return ops.Returning(closed, err, "close incidents of %s", service)
}

const (
	// lastStarts is how many of a service's last starts say how long it takes.
	lastStarts = 5
	// longestStart is how long after a start results still belong to it.
	longestStart = time.Hour
)

// ChecksSince returns the results of the probes of one service since a time, the oldest first.
func (s *Watch) ChecksSince(ctx context.Context, environment, service string, since time.Time) ([]ops.Check, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.environment = ? AND k.service = ? AND k.at >= ?
		AND k.purpose NOT IN (?, ?) AND k.status <> ? ORDER BY k.at, k.id`,
		environment, service, db.Time(since), ops.ProbeAlert, ops.ProbeRunning, ops.Unknown)
	return ops.Returning(out, err, "list results of %s", service)
}

// StartsSince returns when services were last started, or changed by an action, by the supervisor or an agent since a time.
func (s *Watch) StartsSince(ctx context.Context, environment string, since time.Time) (map[string]time.Time, error) {
	type start struct {
		service string
		at      time.Time
	}
	found, err := db.List(ctx, s.db.Reader(), func(r db.Row, v *start) error {
		return r.Scan(&v.service, db.ToTime(&v.at))
	}, `SELECT service, MAX(at) FROM (
		SELECT service, COALESCE(used_at, reserved_at) AS at FROM cooldown_actions WHERE environment = ? AND status <> ? AND half <> ?
		UNION ALL SELECT service, started_at FROM action_runs WHERE environment = ? AND started_at IS NOT NULL
		) AS a WHERE at >= ? GROUP BY service`, environment, actionReleased, ops.PhaseOpen, environment, db.Time(since))
	if err != nil {
		return nil, fmt.Errorf("list what was started: %w", err)
	}
	out := make(map[string]time.Time, len(found))
	for _, v := range found {
		out[v.service] = v.at
	}
	return out, nil
}

// StartTimes returns how long a service took to work after its last starts by agents, the newest first. Starts that no probe saw are
// left out.
func (s *Watch) StartTimes(ctx context.Context, environment, service string) ([]time.Duration, error) {
	starts, err := db.List(ctx, s.db.Reader(), func(r db.Row, at *time.Time) error {
		return r.Scan(db.ToTime(at))
	}, `SELECT COALESCE(used_at, reserved_at) FROM cooldown_actions WHERE environment = ? AND service = ? AND status <> ? AND half <> ?
		ORDER BY id DESC LIMIT ?`, environment, service, actionReleased, ops.PhaseOpen, lastStarts)
	if err != nil {
		return nil, fmt.Errorf("list starts of %s: %w", service, err)
	}
	var out []time.Duration
	for _, at := range starts {
		results, err := db.List(ctx, s.db.Reader(), scanCheck, selectChecks+` WHERE k.environment = ? AND k.service = ? AND k.at >= ? AND k.at < ?
			AND k.purpose NOT IN (?, ?) ORDER BY k.at, k.id`,
			environment, service, db.Time(at), db.Time(at.Add(longestStart)), ops.ProbeAlert, ops.ProbeRunning)
		if err != nil {
			return nil, fmt.Errorf("list results after a start of %s: %w", service, err)
		}
		if took, known := s.rules.StartTime(at, results); known {
			out = append(out, took)
		}
	}
	return out, nil
}
