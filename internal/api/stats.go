package api

import (
	"cmp"
	"context"
	"slices"
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
	IncidentsOpen         int        `json:"incidents_open"`
	IncidentsAcknowledged int        `json:"incidents_acknowledged"`
	IncidentsSnoozed      int        `json:"incidents_snoozed"`
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

	DryRun       bool         `json:"dry_run" doc:"Whether agents of some environment only look."`
	Walls        *string      `json:"walls" doc:"The walls around agents of this host, in one sentence; null if not known."`
	WallsMissing *bool        `json:"walls_missing" doc:"Whether a wall is missing; null if not known."`
	Doing        []StatusLine `json:"doing" doc:"What is being done about problems, and which cycles run."`
	Ahead        []StatusLine `json:"ahead" doc:"What is about to happen."`
}

// StatusLine is one sentence about what is being done or is about to happen.
type StatusLine struct {
	Text        string           `json:"text" doc:"The sentence, with times in UTC."`
	Environment string           `json:"environment"`
	Tone        string           `json:"tone" enum:"run,hand,warn,unknown" doc:"Work goes on, a person is needed, a problem nobody works on, or nothing to do."`
	Services    []string         `json:"services"`
	CycleID     *int64           `json:"cycle_id"`
	SessionID   *int64           `json:"session_id"`
	ApprovalID  *int64           `json:"approval_id"`
	IncidentID  *int64           `json:"incident_id"`
	Parts       []situation.Part `json:"parts" doc:"The same sentence in pieces, so that a reader can show its times in another zone."`
}

func statusLines(lines []situation.Line, now time.Time) []StatusLine {
	out := make([]StatusLine, 0, len(lines))
	for _, l := range lines {
		out = append(out, StatusLine{
			Text: l.Sentence(now.UTC()), Environment: l.Environment, Tone: string(l.Tone), Services: append([]string{}, l.Services...),
			CycleID: positive(l.Cycle), SessionID: positive(l.Session), ApprovalID: positive(l.Approval), IncidentID: positive(l.Incident),
			Parts: l.Parts,
		})
	}
	return out
}

// Sentence is the text of the line with times in the zone of now.
func (l StatusLine) Sentence(now time.Time) string {
	return situation.Line{Parts: l.Parts}.Sentence(now)
}

func positive[T ~int64](id T) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}

func (s *server) registerStats(api huma.API) {
	huma.Register(api, look("get-stats", "/stats", "Figures for a dashboard widget", "stats",
		"One object with flat figures: numbers, durations in seconds, timestamps. Homepage's customapi widget can use it directly. "+
			"The lists doing and ahead say in sentences what happens now and next."), s.stats)
}

func (s *server) stats(ctx context.Context, _ *struct{}) (*body[Stats], error) {
	now := s.Clock()
	out, err := readStats(ctx, s.Store, s.Environments, s.NextCheck(), CallerOf(ctx).ReadOnly, now)
	if err != nil {
		return nil, s.problem("read figures", err)
	}
	out.Version = s.Version
	if sentence, hole := situation.Walls(s.Walls); sentence != "" {
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
	return readStats(ctx, journal, environments, nil, false, now)
}

func readStats(ctx context.Context, journal *store.Store, environments []ops.Environment, next map[string]time.Time, readOnly bool,
	now time.Time,
) (Stats, error) {
	c := &counter{store: journal, environments: environments, next: next, readOnly: readOnly}
	var out Stats
	for _, read := range []func(context.Context, time.Time, *Stats) error{c.services, c.people, c.work, c.costs, c.situation} {
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
	next         map[string]time.Time // the next checks; nil if they are not known
	readOnly     bool
	bad          []situation.Service // filled by services
}

func (c *counter) services(ctx context.Context, now time.Time, out *Stats) error {
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
		if h := ops.Health(x.State); h == ops.Down || h == ops.Degraded {
			c.bad = append(c.bad, situation.Service{Environment: x.Environment, Name: x.Name, Status: h})
		}
	}
	slices.SortStableFunc(c.bad, func(a, b situation.Service) int { return cmp.Compare(badness(b.Status), badness(a.Status)) })
	return err
}

func badness(h ops.Health) int {
	if h == ops.Down {
		return 1
	}
	return 0
}

// situation says what is being done and what is about to happen.
func (c *counter) situation(ctx context.Context, now time.Time, out *Stats) error {
	facts, err := situation.Read(ctx, c.store, c.environments, c.bad, now)
	facts.NextChecks, facts.ReadOnly = c.next, c.readOnly
	out.Doing, out.Ahead = statusLines(situation.Doing(facts), now), statusLines(situation.Ahead(facts), now)
	for _, e := range c.environments {
		out.DryRun = out.DryRun || e.Policy.DryRun
	}
	return err
}

func (c *counter) people(ctx context.Context, now time.Time, out *Stats) error {
	a, err := c.store.Attention(ctx, now)
	out.NeedsYou, out.ApprovalsPending = a.NeedYou(), a.Approvals
	out.IncidentsOpen, out.IncidentsAcknowledged, out.IncidentsSnoozed = a.Open, a.Acknowledged, a.Snoozed
	return err
}

func (c *counter) work(ctx context.Context, now time.Time, out *Stats) error {
	work, err := c.store.Work(ctx)
	out.SessionsRunning, out.CyclesQueued = work.Running, work.Queued
	out.LastCycleStatus, out.LastCycleEndedAt = text(work.LastStatus), work.LastEndedAt
	if work.LastEndedAt != nil {
		out.LastCycleAgeSeconds = seconds(now.Sub(*work.LastEndedAt))
	}
	return err
}

func (c *counter) costs(ctx context.Context, now time.Time, out *Stats) error {
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
	return nil
}

func seconds(d time.Duration) *int64 {
	n := int64(d.Seconds())
	return &n
}
