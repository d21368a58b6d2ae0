package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SpendWindow is the time over which the rate is measured: long enough for several scheduled cycles, short enough to show a change.
const SpendWindow = 3 * time.Hour

// alarmShare is the share of the budget that must be spent before people are told: early in the day one repair looks like a high rate.
const alarmShare = 0.25

// BudgetService is the name under which a silence mutes the notice.
const BudgetService = "budget"

// Dollars is an amount as pages, commands and messages say it: cents, and smaller ones below a cent. An unreported cost is not zero.
func Dollars(usd *float64) string {
	switch {
	case usd == nil:
		return "unknown"
	case *usd > 0 && *usd < 0.01:
		return fmt.Sprintf("$%.4f", *usd)
	}
	return fmt.Sprintf("$%.2f", *usd)
}

// Forecast is what the rate of the last hours means for the budget of the day.
type Forecast struct {
	BudgetUSD  float64 // per day; 0 means no limit
	SpentUSD   float64 // since the day began
	PerHourUSD float64
	// GoneAt is when the budget is used up at this rate; nil if that is not before the day ends, or if it is used up already.
	GoneAt *time.Time
}

// ForecastOf is the forecast for an environment.
func ForecastOf(budgetUSD float64, s Spending, now time.Time) Forecast {
	f := Forecast{BudgetUSD: budgetUSD, SpentUSD: s.TodayUSD, PerHourUSD: s.RecentUSD / SpendWindow.Hours()}
	left := budgetUSD - s.TodayUSD
	if budgetUSD <= 0 || left <= 0 || f.PerHourUSD <= 0 {
		return f
	}
	hours := left / f.PerHourUSD
	end := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if hours >= end.Sub(now).Hours() {
		return f
	}
	at := now.Add(time.Duration(hours * float64(time.Hour)))
	f.GoneAt = &at
	return f
}

// Sentence says when the budget will be used up, with the time in the zone of now; empty if it lasts.
func (f Forecast) Sentence(now time.Time) string {
	if f.GoneAt == nil {
		return ""
	}
	return fmt.Sprintf("At this rate (%s per hour) the day's budget of %s is gone at %s.", Dollars(&f.PerHourUSD), Dollars(&f.BudgetUSD),
		f.GoneAt.In(now.Location()).Format("15:04 MST"))
}

// Alarm reports whether people are told: the budget will be used up, a good part of it is spent, the environment is not in dry run and no
// silence covers the notice.
func (f Forecast) Alarm(environment string, dryRun bool, silences []Silence, now time.Time) bool {
	if f.GoneAt == nil || f.SpentUSD < alarmShare*f.BudgetUSD || dryRun {
		return false
	}
	return !slices.ContainsFunc(silences, func(q Silence) bool { return q.Active(now) && q.Covers(environment, BudgetService, "", "") })
}

// Key names one crossing: a day has one for each budget, so that a raised budget is watched again.
func (f Forecast) Key(environment string, now time.Time) string {
	return fmt.Sprintf("spend:%s:%s:%.2f", environment, now.UTC().Format(time.DateOnly), f.BudgetUSD)
}

// Heading names a problem by whose budget is spent.
func (b Budget) Heading() string {
	return cmp.Or(map[BudgetOwner]string{
		BudgetSession: "The budget of a session is spent",
		BudgetChain:   "The budget of a chain is spent",
		BudgetDay:     "The budget of the day is spent",
	}[b.Whose], "The budget is spent")
}

// Words say whose budget is spent, and how much of it.
func (b Budget) Words() string {
	amounts := Dollars(&b.SpentUSD) + " of " + Dollars(&b.LimitUSD)
	switch b.Whose {
	case BudgetSession:
		if b.LimitUSD == 0 {
			return "this session reached its own limit"
		}
		return "this session spent " + amounts + ", its own limit"
	case BudgetChain:
		return "this chain spent " + amounts
	case BudgetDay:
		where := ""
		if b.Environment != "" {
			where = " in environment " + b.Environment
		}
		return "today " + amounts + " are spent or reserved" + where
	}
	return "the budget is spent"
}

// Frees says when there is money again.
func (b Budget) Frees() string {
	switch b.Whose {
	case BudgetSession:
		return "the next attempt has a budget of its own"
	case BudgetChain:
		return "the next cycle has a budget of its own"
	case BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return "the next day's budget starts at 00:00 UTC"
	}
	return "the next day's budget starts at " + b.FreesAt.UTC().Format(time.RFC3339)
}

// Todo is what a person should do about it.
func (b Budget) Todo(services []string) string {
	byHand := ""
	if names := strings.Join(services, ", "); names != "" {
		byHand = "repair " + names + " by hand, or "
	}
	switch b.Whose {
	case BudgetSession:
		return byHand + "raise budget_usd of the handler and run a cycle"
	case BudgetChain:
		return byHand + "run a cycle, which has a budget of its own, or raise budget.chain_usd first"
	case BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return byHand + "raise budget.day_usd and run a cycle, or wait for the next day"
	}
	return byHand + "raise budget.day_usd and run a cycle, or wait until " + b.FreesAt.UTC().Format(time.RFC3339)
}
