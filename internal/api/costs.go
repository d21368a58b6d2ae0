package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// defaultSpan is how far back costs are told where nothing else is asked for.
const defaultSpan = 30 * 24 * time.Hour

// Cost is what one group of sessions used on one day.
type Cost struct {
	Day              string   `json:"day" format:"date" doc:"UTC, like the budget of a day."`
	Key              string   `json:"key" doc:"The tier, model, service or trigger; empty where there is none."`
	CostUSD          *float64 `json:"cost_usd" doc:"List-price estimate; null where no session told one."`
	Sessions         int      `json:"sessions"`
	UnknownCosts     int      `json:"unknown_costs" doc:"How many of the sessions told no cost."`
	InputTokens      *int64   `json:"input_tokens"`
	OutputTokens     *int64   `json:"output_tokens"`
	CacheReadTokens  *int64   `json:"cache_read_tokens"`
	CacheWriteTokens *int64   `json:"cache_write_tokens"`
}

// Costs are the days of a stretch of time, and what they add up to.
type Costs struct {
	Items        []Cost    `json:"items" doc:"The oldest day first. Days on which nothing ended are left out."`
	NextCursor   *string   `json:"next_cursor" doc:"Always null: the stretch of time bounds the list."`
	By           string    `json:"by"`
	Since        time.Time `json:"since"`
	Until        time.Time `json:"until"`
	TotalUSD     *float64  `json:"total_cost_usd" doc:"Null where no session told a cost."`
	Sessions     int       `json:"sessions"`
	UnknownCosts int       `json:"unknown_costs"`
	BudgetDayUSD float64   `json:"budget_day_usd" doc:"Of the environments together; 0 means no limit."`
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

// CostSpan is a stretch of time.
type CostSpan struct {
	Environment string    `query:"environment" doc:"Leave it out for all."`
	Since       time.Time `query:"since" doc:"From this moment on; 30 days ago if left out."`
	Until       time.Time `query:"until" doc:"Before this moment; now if left out."`
}

type costsQuery struct {
	CostSpan
	By string `query:"by" enum:"tier,model,service,trigger" default:"tier" doc:"What costs are told apart by."`
}

type expensiveQuery struct {
	CostSpan
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"10" doc:"How many items at most."`
}

func (s *server) registerCosts(api huma.API) {
	huma.Register(api, look("list-costs", "/costs", "Tell what was spent, per day and group", "costs",
		"Figures are list-price estimates from the agent CLI. What was not told is null, never zero."), s.costs)
	huma.Register(api, look("list-expensive-chains", "/costs/chains", "List the chains that cost most", "costs",
		"Of those in which a session ended within the time."), s.expensiveCycles)
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
		return store.CostFilter{}, huma.Error422UnprocessableEntity("since is not before until")
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

// DayBudget is what environments may spend on a day together; 0 where one of them has no limit.
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

// CostsOf adds up the rows of a stretch of time.
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
		return nil, s.problem("list expensive chains", err)
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

// today is when the budget's day began.
func today(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour) }
