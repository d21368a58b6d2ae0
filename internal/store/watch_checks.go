package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/health"
)

const (
	hourLayout = "2006-01-02T15"
	dayLayout  = "2006-01-02"
	day        = 24 * time.Hour
)

const selectChecks = `SELECT k.id, k.at, k.environment, k.cycle_id, k.after_session_id, k.purpose, k.service, k.probe, k.type,
	k.status, k.error, k.response_time_ms FROM checks k`

func scanCheck(r db.Row) (ops.Check, error) {
	var c ops.Check
	err := r.Scan(&c.ID, db.ToTime(&c.At), &c.Environment, &c.CycleID, &c.AfterSession, &c.Purpose, &c.Service, &c.Probe, &c.Type,
		&c.Status, &c.Error, &c.ResponseTimeMS)
	return c, err
}

// AddChecks records probe results outside a transition.
func (s *Watch) AddChecks(ctx context.Context, checks []ops.Check) error {
	if len(checks) == 0 {
		return nil
	}
	err := s.db.Write(ctx, "checks", func(tx db.Querier) error {
		return insertChecks(ctx, tx, checks, s.clock())
	})
	if err != nil {
		return fmt.Errorf("record checks: %w", err)
	}
	return nil
}

// insertChecks records results; at is the time of those that have none.
func insertChecks(ctx context.Context, tx db.Querier, checks []ops.Check, at time.Time) error {
	rows := make([][]any, len(checks))
	for i, c := range checks {
		if c.At.IsZero() {
			c.At = at
		}
		rows[i] = []any{
			db.Time(c.At), c.Environment, db.OptID(c.CycleID), db.OptID(c.AfterSession), c.Purpose, c.Service, c.Probe,
			c.Type, c.Status, c.Error, c.ResponseTimeMS,
		}
	}
	err := db.WriteRows(ctx, tx, `INSERT INTO checks (at, environment, cycle_id, after_session_id, purpose, service, probe,
		type, status, error, response_time_ms) VALUES `, ``, rows)
	if err != nil {
		return err
	}
	return countChecks(ctx, tx, ofProbes(checks), at)
}

// ofProbes are the results that say how a service is. Whether its container runs is asked after a repair only, and proves nothing else.
func ofProbes(checks []ops.Check) []ops.Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c ops.Check) bool { return c.Purpose == ops.ProbeRunning })
}

// newestFirst is the order of the index that LatestChecks uses: by probe, and the newest result of each first.
const newestFirst = ` ORDER BY n.environment, n.service, n.probe, n.id DESC LIMIT 1`

// LatestChecks returns the newest result of every probe, in one environment or, with "", in all. Of results that change nothing only
// few are rows; the time of the last one is in the state of its check.
// A list of very many is read at most every few seconds.
func (s *Watch) LatestChecks(ctx context.Context, environment string) ([]ops.Check, error) {
	s.latest.mu.Lock()
	defer s.latest.mu.Unlock()
	if kept := s.latest.lists[environment]; time.Now().Before(kept.until) {
		return slices.Clone(kept.checks), nil
	}
	checks, err := s.readLatest(ctx, environment)
	if err == nil && len(checks) >= manyChecks {
		if s.latest.lists == nil {
			s.latest.lists = map[string]keptChecks{}
		}
		s.latest.lists[environment] = keptChecks{time.Now().Add(keepChecks), checks}
		checks = slices.Clone(checks)
	}
	return checks, err
}

const (
	// manyChecks is from how many on LatestChecks keeps its list for keepChecks.
	manyChecks = 2000
	keepChecks = 3 * time.Second
)

// latestChecks are lists of very many results, by environment.
type latestChecks struct {
	mu    sync.Mutex
	lists map[string]keptChecks
}

type keptChecks struct {
	until  time.Time
	checks []ops.Check
}

func (s *Watch) readLatest(ctx context.Context, environment string) ([]ops.Check, error) {
	// Goes along the index from the newest result of a probe to that of the next probe: of the same service, else of the next
	// service, else of the next environment. GROUP BY would read every result ever recorded.
	const of = `SELECT n.id FROM checks n WHERE n.purpose <> 'running'`
	first := of
	next := `(` + of + ` AND n.environment = k.environment AND n.service = k.service AND n.probe > k.probe` +
		newestFirst + `), (` + of + ` AND n.environment = k.environment AND n.service > k.service` + newestFirst + `)`
	var args []any
	if environment != "" {
		first += ` AND n.environment = ?`
		args = append(args, environment)
	} else {
		next += `, (` + of + ` AND n.environment > k.environment` + newestFirst + `)`
	}
	out, err := db.List(ctx, s.db.Reader(), scanCheck, `WITH RECURSIVE latest (id) AS (
			SELECT (`+first+newestFirst+`)
			UNION ALL
			SELECT COALESCE(`+next+`) FROM latest l JOIN checks k ON k.id = l.id
		) `+selectChecks+` WHERE k.id IN (SELECT id FROM latest) ORDER BY k.environment, k.service, k.probe`, args...)
	if err != nil {
		return nil, fmt.Errorf("list latest checks: %w", err)
	}
	if err := s.refreshTimes(ctx, environment, "", out); err != nil {
		return nil, fmt.Errorf("list latest checks: %w", err)
	}
	return out, nil
}

// ChecksOf returns the newest result of every probe of one service.
func (s *Watch) ChecksOf(ctx context.Context, environment, service string) ([]ops.Check, error) {
	const of = `SELECT n.id FROM checks n WHERE n.environment = ? AND n.service = ? AND n.purpose <> 'running'`
	out, err := db.List(ctx, s.db.Reader(), scanCheck, `WITH RECURSIVE latest (id) AS (
			SELECT (`+of+newestFirst+`)
			UNION ALL
			SELECT (`+of+` AND n.probe > k.probe`+newestFirst+`) FROM latest l JOIN checks k ON k.id = l.id
		) `+selectChecks+` WHERE k.id IN (SELECT id FROM latest) ORDER BY k.probe`, environment, service, environment, service)
	if err == nil {
		err = s.refreshTimes(ctx, environment, service, out)
	}
	if err != nil {
		return nil, fmt.Errorf("list checks of %s: %w", service, err)
	}
	return out, nil
}

// countChecks adds checks to the counts of their hours and days, and their response times to those of their hours.
func countChecks(ctx context.Context, tx db.Querier, checks []ops.Check, at time.Time) error {
	type key struct {
		at, environment, service string
		status                   ops.Health
	}
	type sum struct {
		checks int
		times  times
	}
	for _, t := range []struct{ table, layout, columns, add string }{
		{`check_hours`, hourLayout, `, ` + timeColumns(), addTimes(`check_hours`)}, {`check_days`, dayLayout, ``, ``},
	} {
		sums := map[key]*sum{}
		var order []key
		for _, c := range checks {
			if c.At.IsZero() {
				c.At = at
			}
			k := key{c.At.UTC().Format(t.layout), c.Environment, c.Service, c.Status}
			if sums[k] == nil {
				sums[k] = &sum{times: noTimes()}
				order = append(order, k)
			}
			sums[k].checks++
			sums[k].times.measured(c.ResponseTimeMS)
		}
		rows := make([][]any, len(order))
		for i, k := range order {
			rows[i] = []any{k.at, k.environment, k.service, k.status, sums[k].checks}
			if t.columns != "" {
				rows[i] = append(rows[i], sums[k].times.columns()...)
			}
		}
		err := db.WriteRows(ctx, tx, `INSERT INTO `+t.table+` (at, environment, service, status, checks`+t.columns+`) VALUES `,
			` ON CONFLICT (at, environment, service, status) DO UPDATE SET checks = `+t.table+`.checks + excluded.checks`+t.add, rows)
		if err != nil {
			return err
		}
	}
	return nil
}

// refreshTimes gives each result the time of the last equal one, and says how far its probe is from failing or recovery.
func (s *Watch) refreshTimes(ctx context.Context, environment, service string, checks []ops.Check) error {
	type key struct{ environment, service, probe string }
	type stored struct {
		environment string
		state       health.State
	}
	var w db.Filter
	if environment != "" {
		w.Add(`environment = ?`, environment)
	}
	if service != "" {
		w.Add(`service = ?`, service)
	}
	rows, err := db.List(ctx, s.db.Reader(), func(r db.Row) (stored, error) {
		var v stored
		err := r.Scan(&v.environment, db.ToJSON(&v.state))
		return v, err
	}, `SELECT environment, state FROM probe_states`+w.Where(), w.Args...)
	if err != nil {
		return err
	}
	last := make(map[key]ops.Check, len(rows))
	notes := make(map[key]string, len(rows))
	unsteady := map[key]ops.Check{}
	for _, r := range rows {
		k := key{r.environment, r.state.Service, r.state.Probe}
		last[k], notes[k] = r.state.Last, health.Explain(r.state)
		if r.state.Lately.Unsteady != "" {
			unsteady[k] = r.state.Finding(ops.Degraded)
		}
	}
	for i, c := range checks {
		k := key{c.Environment, c.Service, c.Probe}
		newer, ok := last[k]
		checks[i].Note = notes[k]
		if ok && newer.At.After(c.At) && newer.Status == c.Status && newer.Error == c.Error {
			checks[i].At, checks[i].ResponseTimeMS = newer.At, newer.ResponseTimeMS
		}
		// A check that fails again and again is shown as what it counts as, not as good between two failures.
		if found, ok := unsteady[k]; ok {
			checks[i].At, checks[i].Status, checks[i].Error = found.At, found.Status, found.Error
		}
	}
	return nil
}
