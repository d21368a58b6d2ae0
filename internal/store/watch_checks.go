package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	hourLayout = "2006-01-02T15"
	dayLayout  = "2006-01-02"
	day        = 24 * time.Hour
)

const selectChecks = `SELECT k.id, k.at, k.environment, k.cycle_id, k.after_session_id, k.purpose, k.service, k.probe, k.type,
	k.status, k.error, k.response_time_ms FROM checks k`

func scanCheck(r db.Row, c *ops.Check) error {
	return r.Scan(&c.ID, db.ToTime(&c.At), &c.Environment, &c.CycleID, &c.AfterSession, &c.Purpose, &c.Service, &c.Probe, &c.Type,
		&c.Status, &c.Error, &c.ResponseTimeMS)
}

// AddChecks records probe results outside a transition.
func (s *Watch) AddChecks(ctx context.Context, checks []ops.Check) error {
	if len(checks) == 0 {
		return nil
	}
	err := s.db.Write(ctx, "checks", func(tx db.Querier) error {
		return insertChecks(ctx, tx, checks, s.clock())
	})
	return ops.Wrapped(err, "record checks")
}

// insertChecks records results; at is the time of those that have none.
func insertChecks(ctx context.Context, tx db.Querier, checks []ops.Check, at time.Time) error {
	for some := range slices.Chunk(checks, checksAtOnce) {
		if err := insertSome(ctx, tx, some, at); err != nil {
			return err
		}
	}
	return nil
}

// checksAtOnce is for how many results rows and counts are made at a time: they take many times what a result takes.
const checksAtOnce = 500

func insertSome(ctx context.Context, tx db.Querier, checks []ops.Check, at time.Time) error {
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
	return countChecks(ctx, tx, checks, at)
}

// ofProbes are the results that say how a service is. Whether its container runs is asked after a repair only, and proves nothing else.
func ofProbes(checks []ops.Check) []ops.Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c ops.Check) bool { return c.Purpose == ops.ProbeRunning || !c.Known() })
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
	delete(s.latest.lists, environment) // while it is read again
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

// forgottenName begins the name under which the newest check is kept that there was when the watch forgot probes of an environment.
const forgottenName = "forgotten "

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

// stillWatched leaves out what was taken out of the configuration: a probe of which the watch keeps no state. A service without any is
// there until its incident is over. Where the watch keeps nothing, agents run the probes, since it forgot the last of its own.
const stillWatched = `(k.probe IN (SELECT p.probe FROM probe_states p WHERE p.environment = k.environment AND p.service = k.service)
	OR NOT EXISTS (SELECT 1 FROM probe_states p WHERE p.environment = k.environment) AND k.id > COALESCE((SELECT CAST(f.value AS BIGINT)
		FROM store_state f WHERE f.name = '` + forgottenName + `' || k.environment), 0)
	OR NOT EXISTS (SELECT 1 FROM probe_states p WHERE p.environment = k.environment AND p.service = k.service) AND EXISTS (SELECT 1
		FROM incidents i WHERE i.environment = k.environment AND i.service = k.service AND i.resolved_at IS NULL))`

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
		) `+selectChecks+` WHERE k.id IN (SELECT id FROM latest) AND `+stillWatched+` ORDER BY k.environment, k.service, k.probe`, args...)
	if err != nil {
		return nil, fmt.Errorf("list latest checks: %w", err)
	}
	err = s.refreshTimes(ctx, environment, "", out)
	return ops.Returning(out, err, "list latest checks")
}

// ChecksOf returns the newest result of every probe of one service.
func (s *Watch) ChecksOf(ctx context.Context, environment, service string) ([]ops.Check, error) {
	const of = `SELECT n.id FROM checks n WHERE n.environment = ? AND n.service = ? AND n.purpose <> 'running'`
	out, err := db.List(ctx, s.db.Reader(), scanCheck, `WITH RECURSIVE latest (id) AS (
			SELECT (`+of+newestFirst+`)
			UNION ALL
			SELECT (`+of+` AND n.probe > k.probe`+newestFirst+`) FROM latest l JOIN checks k ON k.id = l.id
		) `+selectChecks+` WHERE k.id IN (SELECT id FROM latest) AND `+stillWatched+` ORDER BY k.probe`,
		environment, service, environment, service)
	if err == nil {
		err = s.refreshTimes(ctx, environment, service, out)
	}
	return ops.Returning(out, err, "list checks of %s", service)
}

// countChecks adds what checks found out to the counts of their hours and days, and their response times to those of their hours.
func countChecks(ctx context.Context, tx db.Querier, checks []ops.Check, at time.Time) error {
	type key struct {
		at, environment, service string
		status                   ops.Health
	}
	type sum struct {
		checks int
		times  times
	}
	checks = ofProbes(checks)
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
	at := make(map[key]*ops.Check, len(checks))
	for i, c := range checks {
		at[key{c.Environment, c.Service, c.Probe}] = &checks[i]
	}
	var w db.Filter
	w.Given(`environment = ?`, environment)
	w.Given(`service = ?`, service)
	// Each state is used as it is read: all of them take many times what the results take.
	_, err := db.List(ctx, s.db.Reader(), func(r db.Row, _ *struct{}) error {
		var of string
		var state ops.CheckState
		err := r.Scan(&of, db.ToJSON(&state))
		if c := at[key{of, state.Service, state.Probe}]; err == nil && c != nil {
			*c = s.rules.Shown(*c, state)
		}
		return err
	}, `SELECT environment, state FROM probe_states`+w.Where(), w.Args...)
	return err
}

func scanState(r db.Row, v *ops.CheckState) error {
	return r.Scan(db.ToJSON(v))
}

// States returns the state of every check of an environment.
func (s *Watch) States(ctx context.Context, environment string) ([]ops.CheckState, error) {
	out, err := db.List(ctx, s.db.Reader(), scanState, `SELECT state FROM probe_states WHERE environment = ? ORDER BY service, probe`,
		environment)
	return ops.Returning(out, err, "list states")
}

// RecordResults writes the results of a batch of probes of an environment in one transaction: the results to keep, the results that
// are only counted, the changed states, the events, and the alerts that were handled.
func (s *Watch) RecordResults(ctx context.Context, environment string, kept, counted []ops.Check, states []ops.CheckState,
	events []ops.Event, alerts []ops.Alert,
) error {
	err := s.db.WriteIn(ctx, "looks", db.InEnvironment(environment), func(tx db.Querier) error {
		at := s.clock()
		if len(events) == 0 && len(alerts) == 0 {
			db.Reaches(tx, ops.ReachPages)
		}
		if err := insertChecks(ctx, tx, kept, at); err != nil {
			return fmt.Errorf("checks: %w", err)
		}
		if err := countChecks(ctx, tx, counted, at); err != nil {
			return fmt.Errorf("counts: %w", err)
		}
		if err := saveStates(ctx, tx, environment, states); err != nil {
			return fmt.Errorf("states: %w", err)
		}
		for _, e := range events {
			if err := s.insertEvent(ctx, tx, e, at); err != nil {
				return fmt.Errorf("event %s: %w", e.Verb, err)
			}
		}
		if err := settleAlerts(ctx, tx, alerts); err != nil {
			return fmt.Errorf("alerts: %w", err)
		}
		if len(alerts) == 0 {
			return nil
		}
		return s.closeDisputes(ctx, tx, environment, at)
	})
	return ops.Wrapped(err, "record looks at %s", environment)
}

func saveStates(ctx context.Context, tx db.Querier, environment string, states []ops.CheckState) error {
	type key struct{ service, probe string }
	for _, part := range db.Distinct(states, func(v ops.CheckState) key { return key{v.Service, v.Probe} }) {
		rows := make([][]any, len(part))
		for i, v := range part {
			rows[i] = []any{environment, v.Service, v.Probe, v.Level, db.Time(v.Since), db.JSON(v)}
		}
		err := db.WriteRows(ctx, tx, `INSERT INTO probe_states (environment, service, probe, level, since, state) VALUES `,
			` ON CONFLICT (environment, service, probe) DO UPDATE SET level = excluded.level, since = excluded.since, state = excluded.state`, rows)
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetStates removes the states of checks that no longer exist.
func (s *Watch) ForgetStates(ctx context.Context, environment string, states []ops.CheckState) error {
	if len(states) == 0 {
		return nil
	}
	err := s.db.WriteIn(ctx, "looks", db.InEnvironment(environment), func(tx db.Querier) error {
		rows := ops.Map(states, func(v ops.CheckState) []any { return []any{environment, v.Service, v.Probe} })
		// PostgreSQL reads the whole table for a long list of conditions; with a list of values it does not compare each with each.
		err := db.WriteRows(ctx, tx, `DELETE FROM probe_states WHERE (environment, service, probe) IN (VALUES `, `)`, rows)
		if err != nil {
			return err
		}
		return db.Exec(ctx, tx, `INSERT INTO store_state (name, value) SELECT ?, CAST(COALESCE(MAX(id), 0) AS TEXT) FROM checks WHERE TRUE
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, forgottenName+environment)
	})
	return ops.Wrapped(err, "forget states of %s", environment)
}

// ForgetService removes what is kept of a service that is not configured. The records of what happened stay, and so do cooldowns. It is
// refused while an incident of it is open.
func (s *Watch) ForgetService(ctx context.Context, environment, service, by string, at time.Time) error {
	err := s.db.WriteIn(ctx, "forget_service", db.InEnvironment(environment), func(tx db.Querier) error {
		var open []ops.Incident
		if err := db.Together(ctx, tx, incidentsFor(&open, environment, 0)); err != nil {
			return err
		}
		for _, i := range open {
			if known, _ := i.Known(); i.Service == service || slices.Contains(known.Unlisted, service) {
				return ops.NewConflict(ops.ConflictState, "incident %d is open; resolve it first", i.ID)
			}
		}
		var kept int64
		const tables = `checks check_hours check_days probe_states heartbeats withheld changes resources trust reflexes versions memories`
		for table := range strings.FieldsSeq(tables) {
			n, err := db.Affected(ctx, tx, `DELETE FROM `+table+` WHERE environment = ? AND service = ?`, environment, service)
			if err != nil {
				return err
			}
			kept += n
		}
		if kept == 0 {
			return ops.ErrNotFound
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: environment, Level: ops.LevelInfo, Verb: ops.VerbServiceForgotten, Actor: ops.Person(by), Service: service,
		}, s.orNow(at))
	})
	return ops.Wrapped(err, "forget %s", service)
}

// SaveWithheld replaces the list of failing services of an environment for which no agent is started.
func (s *Watch) SaveWithheld(ctx context.Context, environment string, onHold []ops.Withheld) error {
	err := s.db.WriteIn(ctx, "withheld", db.InEnvironment(environment), func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM withheld WHERE environment = ?`, environment); err != nil {
			return err
		}
		rows := make([][]any, len(onHold))
		for i, h := range onHold {
			var until *time.Time
			if !h.Until.IsZero() {
				until = &h.Until
			}
			rows[i] = []any{environment, h.Service, h.Why, h.Reason, db.OptTime(until)}
		}
		return db.WriteRows(ctx, tx, `INSERT INTO withheld (environment, service, why, reason, until) VALUES `, ``, rows)
	})
	return ops.Wrapped(err, "record what is withheld in %s", environment)
}

// Withheld returns the failing services of an environment for which no agent is started now, and why.
func (s *Watch) Withheld(ctx context.Context, environment string) ([]ops.Withheld, error) {
	out, err := db.List(ctx, s.db.Reader(), scanWithheld, selectWithheld+` ORDER BY service`, environment)
	return ops.Returning(out, err, "list what is withheld")
}

const selectWithheld = `SELECT service, why, reason, until FROM withheld WHERE environment = ?`

func scanWithheld(r db.Row, h *ops.Withheld) error {
	var until *time.Time
	err := r.Scan(&h.Service, &h.Why, &h.Reason, db.ToOptTime(&until))
	if until != nil {
		h.Until = *until
	}
	return err
}

// Response times of an hour are kept as a histogram with five steps per factor of ten: results of other hours and states are added
// to it, which percentiles do not allow.
const (
	timeSteps    = 24 // the last one has no end: 40 seconds and more
	timesPerCell = 3  // counters in one column
	timeCells    = timeSteps / timesPerCell
	timeBits     = 21 // of a counter: two million checks in an hour
)

// timeStep is the step of a response time.
func timeStep(ms int64) int {
	if ms <= 1 {
		return 0
	}
	step := int(math.Ceil(5*math.Log10(float64(ms)) - 1e-9))
	return min(step, timeSteps-1)
}

// timeEnd is the longest response time of a step, in milliseconds.
func timeEnd(step int) float64 { return math.Pow(10, float64(step)/5) }

// times are response times in milliseconds, as they are kept.
type times struct {
	shortest, longest int64 // -1: none
	counts            [timeSteps]int64
}

func noTimes() times { return times{shortest: -1, longest: -1} }

func (t *times) measured(ms int64) {
	one := times{shortest: max(0, ms), longest: max(0, ms)}
	one.counts[timeStep(ms)] = 1
	t.add(one)
}

func (t *times) add(other times) {
	if other.shortest < 0 {
		return
	}
	if t.shortest < 0 || other.shortest < t.shortest {
		t.shortest = other.shortest
	}
	t.longest = max(t.longest, other.longest)
	for i, n := range other.counts {
		t.counts[i] += n
	}
}

func (t times) number() int64 {
	var n int64
	for _, count := range t.counts {
		n += count
	}
	return n
}

// percentile estimates the response time that a share of the results did not exceed.
func (t times) percentile(share float64) time.Duration {
	rank := share * float64(t.number())
	for step, n := range t.counts {
		if n == 0 || float64(n) < rank {
			rank -= float64(n)
			continue
		}
		from, to := 0.0, math.Min(timeEnd(step), float64(t.longest))
		if step > 0 {
			from = timeEnd(step - 1)
		}
		if step == timeSteps-1 {
			to = float64(t.longest)
		}
		from = math.Min(math.Max(from, float64(t.shortest)), to)
		ms := from + (to-from)*rank/float64(n)
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
	}
	return time.Duration(max(0, t.longest)) * time.Millisecond
}

// columns returns the values of timeColumns.
func (t times) columns() []any {
	out := []any{t.shortest, t.longest}
	for cells := range slices.Chunk(t.counts[:], timesPerCell) {
		var packed int64
		for i, n := range cells {
			packed |= min(n, 1<<timeBits-1) << (timeBits * i)
		}
		out = append(out, packed)
	}
	return out
}

// scanTimes returns where the values of timeColumns are read to, and what makes times of them.
func scanTimes() (into []any, read func() times) {
	t := noTimes()
	cells := make([]int64, timeCells)
	into = []any{&t.shortest, &t.longest}
	for i := range cells {
		into = append(into, &cells[i])
	}
	return into, func() times {
		for i := range t.counts {
			t.counts[i] = cells[i/timesPerCell] >> (timeBits * (i % timesPerCell)) & (1<<timeBits - 1)
		}
		return t
	}
}

// timeColumns are the columns of times.
func timeColumns() string {
	out := `time_min, time_max`
	for i := range timeCells {
		out += fmt.Sprintf(`, times_%d`, i+1)
	}
	return out
}

// addTimes are the assignments that add the times of a new row to those of an old one.
func addTimes(table string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `, time_min = CASE WHEN excluded.time_min < 0 OR (%[1]s.time_min >= 0 AND %[1]s.time_min < excluded.time_min)
		THEN %[1]s.time_min ELSE excluded.time_min END,
		time_max = CASE WHEN %[1]s.time_max > excluded.time_max THEN %[1]s.time_max ELSE excluded.time_max END`, table)
	for i := range timeCells {
		fmt.Fprintf(&out, `, times_%[2]d = %[1]s.times_%[2]d + excluded.times_%[2]d`, table, i+1)
	}
	return out.String()
}
