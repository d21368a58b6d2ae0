package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Stats are flat figures for dashboard widgets. Unknown figures are null.
type Stats struct {
	Version               string     `json:"version"`
	ServicesTotal         int        `json:"services_total"`
	ServicesHealthy       int        `json:"services_healthy"`
	ServicesDegraded      int        `json:"services_degraded"`
	ServicesDown          int        `json:"services_down"`
	ServicesUnknown       int        `json:"services_unknown"`
	NeedsYou              int        `json:"needs_you" doc:"Open incidents and pending approvals."`
	IncidentsOpen         int        `json:"incidents_open" doc:"Those of /incidents?needs_you=true."`
	IncidentsAcknowledged int        `json:"incidents_acknowledged"`
	IncidentsSnoozed      int        `json:"incidents_snoozed"`
	IncidentsUnverified   int        `json:"incidents_unverified" doc:"A repair is claimed, and nothing confirms it; not in needs_you."`
	ApprovalsPending      int        `json:"approvals_pending"`
	SessionsRunning       int        `json:"sessions_running"`
	CyclesQueued          int        `json:"cycles_queued"`
	LastCycleStatus       *string    `json:"last_cycle_status"`
	LastCycleEndedAt      *time.Time `json:"last_cycle_ended_at"`
	LastCycleAgeSeconds   *int64     `json:"last_cycle_age_seconds"`
	NextCheckAt           *time.Time `json:"next_check_at"`
	NextCheckInSeconds    *int64     `json:"next_check_in_seconds"`
	CostTodayUSD          *float64   `json:"cost_today_usd"`
	Cost7DaysUSD          *float64   `json:"cost_7_days_usd"`
	Cost30DaysUSD         *float64   `json:"cost_30_days_usd"`
	BudgetDayUSD          *float64   `json:"budget_day_usd" doc:"Null without a limit."`
	BudgetUsedPercent     *float64   `json:"budget_used_percent" doc:"Of the daily budget; null without a limit."`

	SpendPerHourUSD float64    `json:"spend_per_hour_usd" doc:"Over the last three hours, of environments with a daily budget."`
	BudgetGoneAt    *time.Time `json:"budget_gone_at" doc:"When the first daily budget is used up at this rate; null if it lasts."`
	BudgetForecast  *string    `json:"budget_forecast" doc:"The same as a sentence, with the time in UTC; null if it lasts."`

	DryRun       bool    `json:"dry_run" doc:"Whether agents of some environment only look."`
	Walls        *string `json:"walls" doc:"The walls around agents of this host, in one sentence; null if not known."`
	WallsMissing *bool   `json:"walls_missing" doc:"Whether a wall is missing; null if not known."`
}

func (s *server) registerStats(api huma.API) {
	huma.Register(api, look("get-stats", "/stats", "Figures for a dashboard widget", "stats",
		"One flat object: numbers, durations in seconds, timestamps. Homepage's customapi widget can use it directly."), s.stats)
}

func (s *server) stats(ctx context.Context, _ *struct{}) (*body[Stats], error) {
	now := s.Clock()
	out, err := ReadStats(ctx, s.Store, s.Environments, now)
	if err != nil {
		return nil, s.problem("read figures", err)
	}
	out.Version = s.Version
	if sentence, hole := situation.Walls(s.Walls()); sentence != "" {
		out.Walls, out.WallsMissing = &sentence, &hole
	}
	for _, at := range s.NextCheck() {
		if out.NextCheckAt == nil || at.Before(*out.NextCheckAt) {
			out.NextCheckAt = &at
		}
	}
	if out.NextCheckAt != nil {
		out.NextCheckInSeconds = seconds(out.NextCheckAt.Sub(now))
	}
	return &body[Stats]{out}, nil
}

// ReadStats counts what the database holds. The version and the next check are known only to a running supervisor.
func ReadStats(ctx context.Context, journal *store.Store, environments []ops.Environment, now time.Time) (Stats, error) {
	c := counter{journal, environments}
	var out Stats
	for _, read := range []func(context.Context, time.Time, *Stats) error{c.services, c.people, c.work, c.costs} {
		if err := read(ctx, now, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// counter reads the figures of one database.
type counter struct {
	store        *store.Store
	environments []ops.Environment
}

func (c counter) services(ctx context.Context, now time.Time, out *Stats) error {
	services, err := serviceStates(ctx, c.store, c.environments, "", now)
	out.ServicesTotal = len(services)
	for _, x := range services {
		switch x.State {
		case "healthy":
			out.ServicesHealthy++
		case "degraded":
			out.ServicesDegraded++
		case "down":
			out.ServicesDown++
		default:
			out.ServicesUnknown++
		}
	}
	for _, e := range c.environments {
		out.DryRun = out.DryRun || e.Policy.DryRun
	}
	return err
}

func (c counter) people(ctx context.Context, now time.Time, out *Stats) error {
	a, err := c.store.Attention(ctx, now)
	out.NeedsYou, out.ApprovalsPending = a.NeedYou(), a.Approvals
	out.IncidentsOpen, out.IncidentsAcknowledged, out.IncidentsSnoozed = a.Open, a.Acknowledged, a.Snoozed
	out.IncidentsUnverified = a.Unverified
	return err
}

func (c counter) work(ctx context.Context, now time.Time, out *Stats) error {
	work, err := c.store.Work(ctx)
	out.SessionsRunning, out.CyclesQueued = work.Running, work.Queued
	out.LastCycleStatus, out.LastCycleEndedAt = text(work.LastStatus), work.LastEndedAt
	if work.LastEndedAt != nil {
		out.LastCycleAgeSeconds = seconds(now.Sub(*work.LastEndedAt))
	}
	return err
}

func (c counter) costs(ctx context.Context, now time.Time, out *Stats) error {
	begin := today(now)
	for days, to := range map[int]**float64{1: &out.CostTodayUSD, 7: &out.Cost7DaysUSD, 30: &out.Cost30DaysUSD} {
		spent, known, err := c.store.CostSince(ctx, "", begin.AddDate(0, 0, 1-days))
		if err != nil {
			return err
		}
		if known {
			*to = &spent
		}
	}
	if limit := c.environments[0].Policy.BudgetDayUSD; limit > 0 {
		out.BudgetDayUSD = &limit
		if out.CostTodayUSD != nil {
			share := 100 * *out.CostTodayUSD / limit
			out.BudgetUsedPercent = &share
		}
	}
	return c.forecast(ctx, now, out)
}

// forecast adds what the rate of spending means for the budgets.
func (c counter) forecast(ctx context.Context, now time.Time, out *Stats) error {
	for _, e := range c.environments {
		if e.Policy.BudgetDayUSD <= 0 {
			continue
		}
		spent, err := c.store.Spending(ctx, e.Name, ops.SpendWindow, now)
		if err != nil {
			return err
		}
		f := ops.ForecastOf(e.Policy.BudgetDayUSD, spent, now)
		out.SpendPerHourUSD += f.PerHourUSD
		if f.GoneAt != nil && (out.BudgetGoneAt == nil || f.GoneAt.Before(*out.BudgetGoneAt)) {
			out.BudgetGoneAt, out.BudgetForecast = f.GoneAt, text(f.Sentence(now.UTC()))
		}
	}
	return nil
}

func seconds(d time.Duration) *int64 {
	n := int64(d.Seconds())
	return &n
}
