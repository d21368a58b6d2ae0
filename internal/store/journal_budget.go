package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// grant is what a session may spend: the smallest of its limits, nil without a limit. Less than a millionth of a dollar is
// nothing.
func grant(ctx context.Context, tx db.Querier, environment string, id ops.SessionID, ask ops.BudgetAsk, at time.Time) (*float64, error) {
	if ask == (ops.BudgetAsk{}) {
		return nil, nil
	}
	amount := math.Inf(1)
	if ask.Want != 0 {
		amount = ask.Want
	}
	if ask.DayLimit != 0 {
		used, err := spent(ctx, tx, environment, at, `id`, int64(id))
		if err != nil {
			return nil, fmt.Errorf("sum what the day has cost: %w", err)
		}
		if left := ask.DayLimit - used; left < amount {
			amount = left
		}
	}
	// Sums of floating-point amounts leave tiny remainders.
	amount = math.Floor(amount*1e6+0.5) / 1e6
	switch {
	case ask.Want < 0:
		return nil, &ops.SpentError{Whose: ops.BudgetChain}
	case amount <= 0:
		return nil, &ops.SpentError{Whose: ops.BudgetDay}
	}
	return &amount, nil
}

// spent is what sessions of an environment have cost since the day of at began, plus what running ones have reserved. except are the
// sessions that do not count.
func spent(ctx context.Context, q db.Querier, environment string, at time.Time, except string, arg any) (float64, error) {
	var ended int64
	var reserved float64
	today := at.UTC().Truncate(day)
	// The status is in the text and not an argument, so that the partial index is used.
	err := q.QueryRowContext(ctx, `SELECT
		(SELECT CAST(COALESCE(SUM(cost), 0) AS BIGINT) FROM cost_days WHERE day >= ? AND environment = ?)
			- (SELECT CAST(COALESCE(SUM(`+nanoCost+`), 0) AS BIGINT) FROM sessions s WHERE s.`+except+` = ? AND s.environment = ?
				AND s.ended_at >= ?),
		(SELECT COALESCE(SUM(s.budget_usd), 0.0) FROM sessions s WHERE s.status = 'running' AND s.environment = ? AND s.`+except+` <> ?)`,
		today.Format(dayLayout), environment, arg, environment, db.Time(today), environment, arg).Scan(&ended, &reserved)
	return float64(ended)/nano + reserved, err
}
