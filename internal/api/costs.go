package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// defaultSpan is the default range of cost reports.
const defaultSpan = 30 * 24 * time.Hour

// Cost is the cost of one group of sessions on one day.
type Cost struct {
	Day              string   `json:"day" format:"date" doc:"UTC, like the daily budget."`
	Key              string   `json:"key" doc:"The tier, model, service or trigger; empty if there is none."`
	CostUSD          *float64 `json:"cost_usd" doc:"List-price estimate; null if no session reported one."`
	Sessions         int      `json:"sessions"`
	UnknownCosts     int      `json:"unknown_costs" doc:"Number of sessions without a reported cost."`
	InputTokens      *int64   `json:"input_tokens"`
	OutputTokens     *int64   `json:"output_tokens"`
	CacheReadTokens  *int64   `json:"cache_read_tokens"`
	CacheWriteTokens *int64   `json:"cache_write_tokens"`
}

// Costs are the days of a time range, and their total.
type Costs struct {
	Items        []Cost    `json:"items" doc:"Oldest day first. Days without an ended session are left out."`
	NextCursor   *string   `json:"next_cursor" doc:"Always null: the time range limits the list."`
	By           string    `json:"by"`
	Since        time.Time `json:"since"`
	Until        time.Time `json:"until"`
	TotalUSD     *float64  `json:"total_cost_usd" doc:"Null if no session reported a cost."`
	Sessions     int       `json:"sessions"`
	UnknownCosts int       `json:"unknown_costs"`
	BudgetDayUSD float64   `json:"budget_day_usd" doc:"Sum over the environments; 0 means no limit."`
}

// CycleCost is the cost of one whole cycle.
type CycleCost struct {
	CycleID     int64     `json:"cycle_id"`
	Environment string    `json:"environment"`
	Trigger     string    `json:"trigger"`
	Status      string    `json:"status"`
	Reason      *string   `json:"reason"`
	CreatedAt   time.Time `json:"created_at"`
	CostUSD     *float64  `json:"cost_usd"`
	Sessions    int       `json:"sessions"`
}

// CostSpan is a time range.
type CostSpan struct {
	Environment string    `query:"environment" doc:"Filter by environment."`
	Since       time.Time `query:"since" doc:"Start of the range. Default: 30 days ago."`
	Until       time.Time `query:"until" doc:"End of the range, exclusive. Default: now."`
}

type costsQuery struct {
	CostSpan
	By string `query:"by" enum:"tier,model,service,trigger" default:"tier" doc:"How to group costs."`
}

type expensiveQuery struct {
	CostSpan
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"10" doc:"Maximum number of items."`
}

func (s *server) registerCosts(api huma.API) {
	huma.Register(api, look("list-costs", "/costs", "Costs per day and group", "costs",
		"Figures are list-price estimates from the agent CLI. Unreported figures are null, never zero."), s.costs)
	huma.Register(api, look("list-expensive-chains", "/costs/chains", "List the most expensive cycles", "costs",
		"Cycles with a session that ended in the time range."), s.expensiveCycles)
}

func (s *server) span(q CostSpan) (store.CostFilter, error) {
	if _, err := s.environments(q.Environment); err != nil {
		return store.CostFilter{}, err
	}
	end := q.Until
	if end.IsZero() {
		end = s.Clock()
	}
	if q.Since.IsZero() {
		q.Since = end.Add(-defaultSpan)
	}
	if !q.Since.Before(end) {
		return store.CostFilter{}, huma.Error422UnprocessableEntity("since must be before until")
	}
	return store.CostFilter{Environment: q.Environment, Since: q.Since, Until: q.Until}, nil
}

func (s *server) costs(ctx context.Context, q *costsQuery) (*body[Costs], error) {
	f, err := s.span(q.CostSpan)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Costs(ctx, store.CostGroup(q.By), f)
	if err != nil {
		return nil, s.problem("sum costs", err)
	}
	asked, err := s.environments(q.Environment)
	if err != nil {
		return nil, err
	}
	if f.Until.IsZero() {
		f.Until = s.Clock()
	}
	return &body[Costs]{CostsOf(rows, q.By, f, DayBudget(asked))}, nil
}

// DayBudget is the sum of the daily budgets; 0 if one environment has no limit.
func DayBudget(environments []ops.Environment) float64 {
	sum := 0.0
	for _, e := range environments {
		if e.Policy.BudgetDayUSD == 0 {
			return 0
		}
		sum += e.Policy.BudgetDayUSD
	}
	return sum
}

// CostsOf adds up the rows of a time range.
func CostsOf(rows []store.CostRow, by string, f store.CostFilter, budget float64) Costs {
	out := Costs{Items: make([]Cost, 0, len(rows)), By: by, Since: f.Since, Until: f.Until, BudgetDayUSD: budget}
	var all store.Cost
	for _, r := range rows {
		all = all.Add(r.Cost)
		out.Items = append(out.Items, Cost{
			Day: r.Day.Format(time.DateOnly), Key: r.Key, CostUSD: r.USD, Sessions: r.Sessions, UnknownCosts: r.Sessions - r.Reported,
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CacheReadTokens: r.CacheReadTokens, CacheWriteTokens: r.CacheWriteTokens,
		})
	}
	out.TotalUSD, out.Sessions, out.UnknownCosts = all.USD, all.Sessions, all.Sessions-all.Reported
	return out
}

func (s *server) expensiveCycles(ctx context.Context, q *expensiveQuery) (*body[list[CycleCost]], error) {
	f, err := s.span(q.CostSpan)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.ExpensiveChains(ctx, f, q.Limit)
	if err != nil {
		return nil, s.problem("list expensive cycles", err)
	}
	return &body[list[CycleCost]]{page(rows, q.Limit, func(r store.ChainCost) int64 { return int64(r.ID) }, CycleCostRow)}, nil
}

// CycleCostRow is the cost of a cycle.
func CycleCostRow(r store.ChainCost) CycleCost {
	return CycleCost{
		CycleID: int64(r.ID), Environment: r.Environment, Trigger: string(r.Trigger), Status: string(r.Status), Reason: text(r.Reason),
		CreatedAt: r.CreatedAt, CostUSD: r.USD, Sessions: r.Sessions,
	}
}

// today is when the day of the budget began.
func today(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour) }
