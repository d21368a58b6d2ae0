package ops

import "time"

// BudgetOwner is whose spending a limit is about.
type BudgetOwner string

// The owners of a budget.
const (
	BudgetSession BudgetOwner = "session" // one session
	BudgetChain   BudgetOwner = "chain"   // all sessions of one cycle
	BudgetDay     BudgetOwner = "day"     // all sessions of an environment since midnight UTC
)

// Budget is a limit that was reached.
type Budget struct {
	Whose       BudgetOwner
	LimitUSD    float64
	SpentUSD    float64
	Environment string
	// FreesAt is when the budget of the next day starts. Every session has its own budget, and every chain.
	FreesAt time.Time
}

// Spent is the limit that leaves nothing for one more session, given what its chain has spent, and others today.
func (p Policy) Spent(chainUSD, othersUSD float64) (Budget, bool) {
	switch {
	case p.BudgetChainUSD > 0 && chainUSD >= p.BudgetChainUSD:
		return Budget{Whose: BudgetChain, LimitUSD: p.BudgetChainUSD, SpentUSD: chainUSD}, true
	case p.BudgetDayUSD > 0 && chainUSD+othersUSD >= p.BudgetDayUSD:
		return Budget{Whose: BudgetDay, LimitUSD: p.BudgetDayUSD, SpentUSD: chainUSD + othersUSD}, true
	}
	return Budget{}, false
}

// SpentError is an ErrBudget that says whose budget it is.
type SpentError struct{ Whose BudgetOwner }

func (e *SpentError) Error() string { return "the budget of the " + string(e.Whose) + " is spent" }

// Unwrap makes it an ErrBudget.
func (*SpentError) Unwrap() error { return ErrBudget }
