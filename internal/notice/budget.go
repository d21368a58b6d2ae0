package notice

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// BudgetHeading names a problem by whose budget is spent.
func BudgetHeading(b ops.Budget) string {
	switch b.Whose {
	case ops.BudgetSession:
		return "The budget of a session is spent"
	case ops.BudgetChain:
		return "The budget of a chain is spent"
	case ops.BudgetDay:
		return "The budget of the day is spent"
	}
	return "The budget is spent"
}

// BudgetSpent says whose budget is spent, and how much of it.
func BudgetSpent(b ops.Budget) string {
	amounts := fmt.Sprintf("$%.2f of $%.2f", b.SpentUSD, b.LimitUSD)
	switch b.Whose {
	case ops.BudgetSession:
		if b.LimitUSD == 0 {
			return "this session reached its own limit"
		}
		return "this session spent " + amounts + ", its own limit"
	case ops.BudgetChain:
		return "this chain spent " + amounts
	case ops.BudgetDay:
		where := ""
		if b.Environment != "" {
			where = " in environment " + b.Environment
		}
		return "today " + amounts + " are spent or reserved" + where
	}
	return "the budget is spent"
}

// BudgetFrees says when there is money again.
func BudgetFrees(b ops.Budget) string {
	switch b.Whose {
	case ops.BudgetSession:
		return "the next attempt has a budget of its own"
	case ops.BudgetChain:
		return "the next cycle has a budget of its own"
	case ops.BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return "the next day's budget starts at 00:00 UTC"
	}
	return "the next day's budget starts at " + At(b.FreesAt)
}

// BudgetTodo is what a person should do about a spent budget.
func BudgetTodo(b ops.Budget, services []string) string {
	byHand := ""
	if names := strings.Join(services, ", "); names != "" {
		byHand = "repair " + names + " by hand, or "
	}
	switch b.Whose {
	case ops.BudgetSession:
		return byHand + "raise budget.session_usd, or budget_usd of the handler, and run a cycle"
	case ops.BudgetChain:
		return byHand + "run a cycle, which has a budget of its own, or raise budget.chain_usd first"
	case ops.BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return byHand + "raise budget.day_usd and run a cycle, or wait for the next day"
	}
	return byHand + "raise budget.day_usd and run a cycle, or wait until " + At(b.FreesAt)
}

// BudgetAdvice says whose budget ended a session, when there is money again and what to do.
func BudgetAdvice(b ops.Budget) string {
	return sentence(capital(BudgetSpent(b)+"; "+BudgetFrees(b))) + " " + sentence(capital(BudgetTodo(b, nil)))
}
