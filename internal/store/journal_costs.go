package store

import (
	"cmp"
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// nanoCost is a session's cost in billionths of a dollar. More than a million dollars is not a real cost, and could be too large for a sum.
const nanoCost = `CAST(FLOOR(CASE WHEN s.cost_usd > 1e6 THEN 1e6 ELSE s.cost_usd END * 1e9 + 0.5) AS BIGINT)`

// counted chooses the sessions that count: they ran, or reported a cost anyway.
const counted = `s.ended_at IS NOT NULL AND (s.started_at IS NOT NULL OR s.cost_usd IS NOT NULL)`

const costKey = `day, environment, tier, model, "trigger", services`

// costFigures are the sums of cost_days.
func costFigures() []string {
	return []string{
		`sessions`, `cost`, `cost_reported`, `input`, `input_reported`, `output`, `output_reported`,
		`cache_read`, `cache_read_reported`, `cache_write`, `cache_write_reported`,
	}
}

// addedCosts is a query that adds up session rows in the form of cost_days. sign is empty, or - to take them away.
func addedCosts(cond, sign string) string {
	sums := `COUNT(r.started_at)`
	for _, column := range []string{`cost`, `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`} {
		sums += `, ` + sign + `CAST(COALESCE(SUM(r.` + column + `), 0) AS BIGINT), ` + sign + `COUNT(r.` + column + `)`
	}
	return `SELECT r.day, r.environment, r.tier, r.model, r."trigger", r.services, ` + sign + sums + `
		FROM (SELECT substr(s.ended_at, 1, 10) AS day, s.environment, s.tier, s.model, c."trigger", ` + servicesOf + ` AS services,
				s.started_at, ` + nanoCost + ` AS cost, s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens
			FROM sessions s JOIN cycles c ON c.id = s.cycle_id WHERE ` + counted + ` AND ` + cond + `) r
		WHERE TRUE GROUP BY r.day, r.environment, r.tier, r.model, r."trigger", r.services`
}

// servicesOf are the services of a session's cycle: those that its last decision with services names. A session does not know yet which
// ones the cycle turns out to be about.
const servicesOf = `COALESCE((SELECT e.services FROM escalations e WHERE e.cycle_id = s.cycle_id AND e.services IS NOT NULL
	ORDER BY e.id DESC LIMIT 1), '')`

// changeCosts is a statement that adds sessions to cost_days, or takes them away.
func changeCosts(sign, cond string) string {
	statement := `INSERT INTO cost_days ` + addedCosts(cond, sign) + ` ON CONFLICT (` + costKey + `) DO UPDATE SET `
	for i, column := range costFigures() {
		if i > 0 {
			statement += `, `
		}
		statement += column + ` = cost_days.` + column + ` + excluded.` + column
	}
	return statement
}

// countSession adds a session that has just ended.
func countSession(ctx context.Context, tx db.Querier, id ops.SessionID) error {
	return db.Exec(ctx, tx, changeCosts(``, `s.id = ?`), id)
}

// uncountCycle takes away the ended sessions of a cycle if the next decision names other services than those they are counted for. The
// caller adds them again after the decision.
func uncountCycle(ctx context.Context, tx db.Querier, cycle held, d *ops.Decision) (bool, error) {
	if d == nil || len(d.Services) == 0 || !cycle.ran {
		return false, nil
	}
	services, err := db.JSONText(d.Services)
	if err != nil || services == cycle.services {
		return false, err
	}
	n, err := db.Affected(ctx, tx, changeCosts(`-`, `s.cycle_id = ?`), cycle.id)
	if err != nil || n == 0 {
		return false, err
	}
	err = db.Exec(ctx, tx, `DELETE FROM cost_days WHERE sessions = 0 AND cost_reported = 0
		AND day >= (SELECT substr(MIN(s.ended_at), 1, 10) FROM sessions s WHERE s.cycle_id = ?)`, cycle.id)
	return true, err
}

// countResult adds what a transition ended: one session, or after uncountCycle all of the cycle.
func countResult(ctx context.Context, tx db.Querier, moved bool, t ops.Transition) error {
	if moved {
		return db.Exec(ctx, tx, changeCosts(``, `s.cycle_id = ?`), t.Cycle)
	}
	if t.Result.Session == nil {
		return nil
	}
	return countSession(ctx, tx, t.Result.Session.ID)
}

// addUpCycle records what a cycle that ends has cost as a whole.
func addUpCycle(ctx context.Context, tx db.Querier, cycle ops.CycleID) error {
	return db.Exec(ctx, tx, `INSERT INTO cycle_cost_days (day, cost, cycle_id, environment)`+endedCycleCosts(`c.id = ?`), cycle)
}

// endedCycleCosts is a query that adds up cycles in the form of cycle_cost_days.
func endedCycleCosts(cond string) string {
	return ` SELECT d.day, CAST(SUM(` + nanoCost + `) AS BIGINT) AS cost, d.id, d.environment
		FROM (SELECT DISTINCT substr(s.ended_at, 1, 10) AS day, c.id, c.environment FROM cycles c JOIN sessions s ON s.cycle_id = c.id
			WHERE c.ended_at IS NOT NULL AND ` + counted + ` AND ` + cond + `) d
		JOIN sessions s ON s.cycle_id = d.id WHERE ` + counted + `
		GROUP BY d.day, d.id, d.environment HAVING COUNT(s.cost_usd) > 0`
}

// grant is a query of what a session may spend: the smallest of its limits, NULL without a limit. Sums of floating-point amounts leave tiny
// remainders, and less than a millionth of a dollar is nothing.
func grant(id ops.SessionID, ask ops.BudgetAsk, at time.Time) (query string, args []any) {
	const round = `SELECT FLOOR(a.amount * 1e6 + 0.5) / 1e6 AS granted FROM (SELECT `
	switch {
	case ask == (ops.BudgetAsk{}):
		return round + `CAST(NULL AS DOUBLE PRECISION) AS amount) a`, nil
	case ask.DayLimit == 0:
		return round + `CAST(? AS DOUBLE PRECISION) AS amount) a`, []any{ask.Want}
	}
	want := ask.Want
	want = cmp.Or(want, ask.DayLimit)
	query, args = used(`(SELECT o.environment FROM sessions o WHERE o.id = ?)`, int64(id), at, `id`, int64(id))
	return round + `CASE WHEN r.amount < CAST(? AS DOUBLE PRECISION) THEN r.amount ELSE CAST(? AS DOUBLE PRECISION) END AS amount
		FROM (SELECT CAST(? AS DOUBLE PRECISION) - CAST(u.ended AS DOUBLE PRECISION) / 1e9 - u.reserved AS amount FROM (` + query + `) u) r) a`,
		append([]any{want, want, ask.DayLimit}, args...)
}

// spent is what sessions of an environment have cost since the day of at began, plus what running ones have reserved. except are the
// sessions that do not count.
func spent(to *[]float64, environment string, at time.Time, except string, arg any) db.Part {
	query, args := used(`?`, environment, at, except, arg)
	return db.Into(to, func(r db.Row, sum *float64) error {
		var ended int64
		var reserved float64
		err := r.Scan(&ended, &reserved)
		*sum = float64(ended)/nano + reserved
		return err
	}, query, args...)
}

// used is a query of both. The environment is SQL with one argument.
func used(in string, environment any, at time.Time, except string, arg any) (query string, args []any) {
	today := at.UTC().Truncate(day)
	// The status is in the text and not an argument, so that the partial index is used.
	return `SELECT
		(SELECT CAST(COALESCE(SUM(cost), 0) AS BIGINT) FROM cost_days WHERE day >= ? AND environment = ` + in + `)
			- (SELECT CAST(COALESCE(SUM(` + nanoCost + `), 0) AS BIGINT) FROM sessions s WHERE s.` + except + ` = ? AND s.environment = ` + in + `
				AND s.ended_at >= ?) AS ended,
		(SELECT COALESCE(SUM(s.budget_usd), 0.0) FROM sessions s WHERE s.status = 'running' AND s.environment = ` + in + `
			AND s.` + except + ` <> ?) AS reserved`,
		[]any{today.Format(dayLayout), environment, arg, environment, db.Time(today), environment, arg}
}
