package decide

import (
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// unpayable is the problem that nothing is left to spend for one more session.
func (v view) unpayable(kind ops.ProblemKind) problem {
	b, spent := v.policy.Spent(v.chainUSD(), v.journal.Spend.DayUSD)
	if !spent { // others have reserved the rest since the cycle was loaded
		b = ops.Budget{Whose: ops.BudgetDay, LimitUSD: v.policy.BudgetDayUSD, SpentUSD: v.policy.BudgetDayUSD}
	}
	b = v.freed(b)
	p := v.problem(kind, ops.LevelWarning, "")
	p.budget, p.todo = &b, notice.BudgetTodo(b, v.affected())
	return p
}

// reached is the limit that ended a session. What was reserved for it is the least of three: its own limit, what its chain had left, and
// what the day had left.
func (v view) reached(s ops.Session) ops.Budget {
	const cent = 0.01 // sums of amounts leave small differences
	handler, _ := v.policy.Handler(s.Handler)
	own := handler.BudgetUSD
	if own == 0 {
		own = v.policy.BudgetSessionUSD
	}
	var cost, granted float64
	if s.CostUSD != nil {
		cost = *s.CostUSD
	}
	if s.BudgetUSD != nil {
		granted = *s.BudgetUSD
	}
	b := ops.Budget{Whose: ops.BudgetSession, LimitUSD: own, SpentUSD: cost}
	chain, day := v.policy.BudgetChainUSD, v.policy.BudgetDayUSD
	switch {
	case own > 0 && granted > own-cent:
	case chain > 0 && granted > chain-(v.chainUSD()-cost)-cent:
		b = ops.Budget{Whose: ops.BudgetChain, LimitUSD: chain, SpentUSD: v.chainUSD()}
	case day > 0:
		b = ops.Budget{Whose: ops.BudgetDay, LimitUSD: day, SpentUSD: v.chainUSD() + v.journal.Spend.DayUSD}
	}
	return v.freed(b)
}

// freed adds where and until when the budget of a day is spent.
func (v view) freed(b ops.Budget) ops.Budget {
	if b.Whose == ops.BudgetDay {
		b.Environment, b.FreesAt = v.cycle.Environment, v.now.UTC().Truncate(24*time.Hour).Add(24*time.Hour)
	}
	return b
}
