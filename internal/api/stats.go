package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/access"
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
	ServicesStale         int        `json:"services_stale"`
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
	services, err := ServiceStates(ctx, c.store.Watch, c.environments, "", now)
	out.ServicesTotal = len(services)
	for _, x := range services {
		switch x.State {
		case "healthy":
			out.ServicesHealthy++
		case "degraded":
			out.ServicesDegraded++
		case "down":
			out.ServicesDown++
		case HealthStale:
			out.ServicesStale++
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
	a, err := c.store.Reports.Attention(ctx, now)
	out.NeedsYou, out.ApprovalsPending = a.NeedYou(), a.Approvals
	out.IncidentsOpen, out.IncidentsAcknowledged, out.IncidentsSnoozed = a.Open, a.Acknowledged, a.Snoozed
	out.IncidentsUnverified = a.Unverified
	return err
}

func (c counter) work(ctx context.Context, now time.Time, out *Stats) error {
	work, err := c.store.Reports.Work(ctx)
	out.SessionsRunning, out.CyclesQueued = work.Running, work.Queued
	out.LastCycleStatus, out.LastCycleEndedAt = text(work.LastStatus), work.LastEndedAt
	if work.LastEndedAt != nil {
		out.LastCycleAgeSeconds = seconds(now.Sub(*work.LastEndedAt))
	}
	return err
}

func (c counter) costs(ctx context.Context, now time.Time, out *Stats) error {
	begin := now.UTC().Truncate(24 * time.Hour)
	for days, to := range map[int]**float64{1: &out.CostTodayUSD, 7: &out.Cost7DaysUSD, 30: &out.Cost30DaysUSD} {
		spent, known, err := c.store.Reports.CostSince(ctx, "", begin.AddDate(0, 0, 1-days))
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
		spent, err := c.store.Reports.Spending(ctx, e.Name, ops.SpendWindow, now)
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

// health can be read without a token, so it names no service and no reason.
type health struct {
	Status              string     `json:"status"`
	Version             string     `json:"version"`
	Database            *string    `json:"database,omitempty"` // checking, sound, damaged
	RunningSessions     *int64     `json:"running_sessions"`
	LastCycleStatus     *string    `json:"last_cycle_status"`
	LastCycleEndedAt    *time.Time `json:"last_cycle_ended_at"`
	LastCycleAgeSeconds *int64     `json:"last_cycle_age_seconds"`
}

// health answers 200 while the process lives: a restart does not repair a database that cannot be read.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	answer := health{Status: "ok", Version: s.Version}
	if s.Database != nil {
		state := s.Database()
		answer.Database = &state
		if state == "damaged" {
			answer.Status = "degraded"
		}
	}
	work, err := s.Store.Reports.Work(r.Context())
	if err != nil {
		s.Logger.WarnContext(r.Context(), "cannot read the journal for /healthz", "error", err)
		answer.Status = "degraded"
		writeJSON(w, http.StatusOK, answer)
		return
	}
	running := int64(work.Running)
	answer.RunningSessions = &running
	answer.LastCycleStatus = text(work.LastStatus)
	if work.LastEndedAt != nil {
		age := int64(s.Clock().Sub(*work.LastEndedAt).Seconds())
		answer.LastCycleEndedAt = work.LastEndedAt
		answer.LastCycleAgeSeconds = &age
	}
	writeJSON(w, http.StatusOK, answer)
}

// ErrDraining is what Options.Ready returns while the supervisor takes no new cycles. It answers and works all the same, so
// nothing that restarts an unready program may take it for one.
var ErrDraining = errors.New("draining")

func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	status := "ready"
	if s.Ready != nil {
		err := s.Ready()
		if errors.Is(err, ErrDraining) {
			status, err = "draining", nil
		}
		if err != nil {
			w.Header().Set("Retry-After", "1")
			WriteProblem(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{status})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Host is a supervisor that uses the database.
type Host struct {
	Name         string     `json:"name"`
	Alive        bool       `json:"alive" doc:"Its lease has not ended. False where the database is not shared."`
	Draining     bool       `json:"draining" doc:"It takes no new cycles."`
	Version      *string    `json:"version"`
	Labels       []string   `json:"labels"`
	Environments []string   `json:"environments" doc:"Environments that it works for."`
	Running      int        `json:"running" doc:"Number of cycles that run there."`
	RegisteredAt time.Time  `json:"registered_at" doc:"When it was started."`
	SeenAt       *time.Time `json:"seen_at" doc:"When it last renewed its lease, by the database's clock."`
	LeaseEndsAt  *time.Time `json:"lease_ends_at" doc:"Null without a lease: it was stopped, or the database is not shared."`
	ClockAheadMS int64      `json:"clock_ahead_ms" doc:"How far its clock was ahead of the database's when it last renewed its lease."`
}

func (s *server) registerHosts(api huma.API) {
	huma.Register(api, look("list-hosts", "/hosts", "List the hosts that use, or used, this database", "hosts",
		"When the lease of a host ends, other hosts continue its cycles."), s.listHosts)
}

func (s *server) listHosts(ctx context.Context, _ *struct{}) (*body[list[Host]], error) {
	rows, err := s.Store.Journal.Hosts(ctx)
	return whole(s, "list hosts", rows, err, HostRow)
}

// HostRow is a host.
func HostRow(h ops.Host) Host {
	return Host{
		Name: h.Name, Alive: h.Alive, Draining: h.Draining, Version: text(h.Version), Labels: h.Labels, Environments: h.Environments,
		Running: h.Running, RegisteredAt: h.RegisteredAt, SeenAt: h.SeenAt, LeaseEndsAt: h.ExpiresAt,
		ClockAheadMS: h.ClockAhead.Milliseconds(),
	}
}

// Situation says in sentences what happens now and next.
type Situation struct {
	Doing []StatusLine `json:"doing" doc:"What is being done about problems, and which cycles run."`
	Ahead []StatusLine `json:"ahead" doc:"What is about to happen."`
}

// StatusLine is one sentence about what is being done or is about to happen.
type StatusLine struct {
	Text        string           `json:"text" doc:"The sentence, with times in UTC."`
	Environment string           `json:"environment"`
	Tone        string           `json:"tone" enum:"run,hand,warn,unknown" doc:"Work, a person is needed, nobody works on it, nothing to do."`
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
			CycleID: idOrNull(int64(l.Cycle)), SessionID: idOrNull(int64(l.Session)),
			ApprovalID: idOrNull(l.Approval), IncidentID: idOrNull(l.Incident), Parts: l.Parts,
		})
	}
	return out
}

// Sentence is the text of the line with times in the zone of now.
func (l StatusLine) Sentence(now time.Time) string {
	return situation.Line{Parts: l.Parts}.Sentence(now)
}

type situationInput struct {
	Service string `query:"service" doc:"Only this one counts as a problem. Default: all."`
}

func (s *server) registerSituation(api huma.API) {
	huma.Register(api, look("get-situation", "/situation", "What is being done, and what comes next", "stats",
		"The sentences of the overview page and of claudeops status."), s.situation)
}

func (s *server) situation(ctx context.Context, in *situationInput) (*body[Situation], error) {
	now := s.Clock()
	services, err := ServiceStates(ctx, s.Store.Watch, s.Environments, "", now)
	if err != nil {
		return nil, s.problem("read situation", err)
	}
	var bad []situation.Service
	for _, x := range services {
		if h := ops.Health(x.State); (h == ops.Down || h == ops.Degraded) && (in.Service == "" || in.Service == x.Name) {
			bad = append(bad, situation.Service{Environment: x.Environment, Name: x.Name, Status: h})
		}
	}
	slices.SortStableFunc(bad, func(a, b situation.Service) int { return cmp.Compare(badness(b.Status), badness(a.Status)) })
	facts, err := situation.Read(ctx, s.Store, s.Environments, bad, now)
	if err != nil {
		return nil, s.problem("read situation", err)
	}
	facts.NextChecks, facts.ReadOnly = s.NextCheck(), !CallerOf(ctx).May(access.Approve)
	return &body[Situation]{Situation{statusLines(situation.Doing(facts), now), statusLines(situation.Ahead(facts), now)}}, nil
}

func badness(h ops.Health) int {
	if h == ops.Down {
		return 1
	}
	return 0
}

// SetupState is how far a step of the set-up is.
type SetupState string

// The states of a step.
const (
	SetupDone    SetupState = "done"
	SetupTodo    SetupState = "todo"
	SetupUnknown SetupState = "unknown" // it cannot be tested, or is being tested
)

// The steps of the set-up, in their order.
const (
	StepAgent         = "agent"
	StepKey           = "credentials"
	StepService       = "services"
	StepTrust         = "trust"
	StepNotifications = "notifications"
)

// SetupRow is one step of the set-up, as the process that runs the agents sees it.
type SetupRow struct {
	Step    string     `json:"step" enum:"agent,credentials,services,trust,notifications"`
	State   SetupState `json:"state" enum:"done,todo,unknown" doc:"unknown: it cannot be tested, or is being tested."`
	Blocks  bool       `json:"blocks" doc:"Nothing works before it is done."`
	Detail  string     `json:"detail"`
	Next    string     `json:"next" doc:"What to do, in a sentence; empty if nothing."`
	Command string     `json:"command" doc:"What to type for it in a shell; empty if nothing."`
	Lines   string     `json:"lines" doc:"What to add to the configuration file; empty if nothing."`
	Page    string     `json:"page" doc:"The page on which it is done; empty if there is none."`
}

// SetupIncomplete reports whether a step is left to do.
func SetupIncomplete(rows []SetupRow) bool {
	return slices.ContainsFunc(rows, func(r SetupRow) bool { return r.State == SetupTodo })
}

// Finding is the result of one check of the machine.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state" enum:"ok,warning,problem,unknown"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Examination is what doctor prints.
type Examination struct {
	Setup  []SetupRow `json:"setup" doc:"The steps of the set-up."`
	Checks []Finding  `json:"checks" doc:"The other checks."`
}

func (s *server) registerSetup(api huma.API) {
	huma.Register(api, look("get-doctor", "/doctor", "Check what the daemon needs, as the daemon sees it", "config",
		"The steps of the set-up and the checks of claudeops doctor, with the PATH and the environment of the daemon. "+
			"The key of the model's API is tested with a free request unless that succeeded before."), s.doctor)
}

func (s *server) doctor(ctx context.Context, _ *struct{}) (*body[Examination], error) {
	if s.Setup == nil || s.Examine == nil {
		return nil, huma.Error409Conflict("nothing can be checked here: run claudeops doctor on the host")
	}
	return &body[Examination]{Examination{Setup: s.Setup(ctx, true), Checks: s.Examine(ctx)}}, nil
}
