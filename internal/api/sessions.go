package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/transcript"
)

// Session is a session without its long texts. A figure that the agent did not report is null.
type Session struct {
	ID               int64             `json:"id"`
	CycleID          int64             `json:"cycle_id"`
	ParentSessionID  *int64            `json:"parent_session_id"`
	RetryOfSessionID *int64            `json:"retry_of_session_id"`
	Attempt          int               `json:"attempt"`
	Tier             ops.Tier          `json:"tier"`
	Role             string            `json:"role" enum:"work,manager,planner,judge" doc:"Only work may change something."`
	Handler          string            `json:"handler"`
	Family           string            `json:"family"`
	Agent            string            `json:"agent"`
	Model            string            `json:"model"`
	PlannedSessionID *string           `json:"planned_session_id"`
	SessionID        *string           `json:"session_id" doc:"The conversation id of the agent."`
	Status           ops.SessionStatus `json:"status"`
	Outcome          *string           `json:"outcome"`
	Confidence       *float64          `json:"confidence" doc:"How sure the agent is of its report, from 0 to 1; null if it did not say."`
	Failure          *string           `json:"failure"`
	Error            *string           `json:"error"`
	StopCause        *string           `json:"stop_cause"`
	Walls            *string           `json:"walls" doc:"What the trial of its walls found to stand around it; null if none was made."`
	ContextMode      string            `json:"context_mode"`
	RecoveryLevel    ops.RecoveryLevel `json:"recovery_level"`
	ContextTokens    *int64            `json:"context_tokens"`
	ContextWindow    *int64            `json:"context_window"`
	CostUSD          *float64          `json:"cost_usd"`
	NumTurns         *int64            `json:"num_turns"`
	DurationMS       *int64            `json:"duration_ms"`
	InputTokens      *int64            `json:"input_tokens"`
	OutputTokens     *int64            `json:"output_tokens"`
	CacheReadTokens  *int64            `json:"cache_read_tokens"`
	CacheWriteTokens *int64            `json:"cache_write_tokens"`
	ExitCode         *int              `json:"exit_code"`
	CLIVersion       *string           `json:"cli_version"`
	Owner            *string           `json:"owner"`
	CreatedAt        time.Time         `json:"created_at"`
	StartedAt        *time.Time        `json:"started_at"`
	EndedAt          *time.Time        `json:"ended_at"`
}

// SessionReport is a whole session.
type SessionReport struct {
	Session
	OutcomeJSON  Document `json:"outcome_json" doc:"The report of the agent, or null."`
	HandoffJSON  Document `json:"handoff_json" doc:"The handoff that the agent wrote: JSON, or a string if it is not valid JSON."`
	HandoffError *string  `json:"handoff_error"`
}

// GuardedSession is a whole session with what the guard decided in it, and what its walls and the agent's own program refused.
type GuardedSession struct {
	SessionReport
	GuardDecisions []GuardDecision `json:"guard_decisions"`
	WallRefusals   []Event         `json:"wall_refusals"`
	OwnRefusals    []Event         `json:"own_refusals"`
}

// Chain is every session of one cycle, from the first to the last.
type Chain struct {
	Sessions     []Session `json:"sessions"`
	TotalCostUSD *float64  `json:"total_cost_usd" doc:"Sum of the known costs; null if none is known."`
	UnknownCosts int       `json:"unknown_costs" doc:"Number of sessions without a known cost."`
}

// SessionPath is the id of a session.
type SessionPath struct {
	ID int64 `path:"id" minimum:"1" doc:"The session's id."`
}

type sessionsQuery struct {
	Paging
	Status      string    `query:"status" enum:"queued,running,completed,failed,timed_out,cancelled,interrupted,partial" doc:"By status."`
	Tier        int       `query:"tier" minimum:"1" maximum:"3" doc:"Filter by tier."`
	Since       time.Time `query:"since" doc:"Queued since then."`
	Environment string    `query:"environment" doc:"Filter by environment."`
}

func (s *sessions) registerSessions(api huma.API) {
	huma.Register(api, look("list-sessions", "/sessions", "List sessions, newest first", "sessions",
		"A session is one agent process. Unreported figures are null, never zero."), s.listSessions)
	huma.Register(api, look("get-session", "/sessions/{id}", "Show a session", "sessions",
		"With the report and the handoff of the agent.", http.StatusNotFound), s.getSession)
	huma.Register(api, look("get-chain", "/sessions/{id}/chain", "Show all sessions of the session's cycle", "sessions",
		"From the first to the last, with the total cost. Any session of the cycle can be given.", http.StatusNotFound), s.getChain)
	huma.Register(api, start("stop-session", "/sessions/{id}/stop", "Stop a session and end its cycle", "sessions",
		"A repair may be left unfinished. A session that has ended is a conflict.", http.StatusNotFound), s.stopSession)
}

func (s *sessions) listSessions(ctx context.Context, q *sessionsQuery) (*body[list[Session]], error) {
	return listed(s.server, "list sessions", q.Paging, func(before int64, limit int) ([]ops.Session, error) {
		return s.Store.Reports.Sessions(ctx, store.SessionFilter{
			Status: ops.SessionStatus(q.Status), Tier: ops.Tier(q.Tier), Environment: q.Environment,
			Since: q.Since, Before: ops.SessionID(before), Limit: limit,
		})
	}, func(r ops.Session) int64 { return int64(r.ID) }, SessionRow)
}

func (s *sessions) getSession(ctx context.Context, in *SessionPath) (*body[SessionReport], error) {
	row, err := s.Store.Journal.Session(ctx, ops.SessionID(in.ID))
	return answer(s.server, fmt.Sprintf("session %d", in.ID), row, err, SessionReportRow)
}

func (s *sessions) getChain(ctx context.Context, in *SessionPath) (*body[Chain], error) {
	rows, err := s.Store.Journal.Chain(ctx, ops.SessionID(in.ID))
	if err == nil && len(rows) == 0 {
		err = ops.ErrNotFound
	}
	return answer(s.server, fmt.Sprintf("session %d", in.ID), rows, err, chainOf)
}

func (s *sessions) stopSession(ctx context.Context, in *SessionPath) (*body[accepted], error) {
	err := s.desk.Stop(ctx, by(ctx), ops.SessionID(in.ID))
	return answer(s.server, fmt.Sprintf("stop session %d", in.ID), accepted{ID: in.ID, Status: "stopping"}, err, same)
}

func chainOf(rows []ops.Session) Chain {
	out := Chain{Sessions: Rows(rows, SessionRow)}
	for _, row := range rows {
		if row.CostUSD == nil {
			out.UnknownCosts++
			continue
		}
		if out.TotalCostUSD == nil {
			out.TotalCostUSD = new(float64)
		}
		*out.TotalCostUSD += *row.CostUSD
	}
	return out
}

// SessionRow is a session in a list.
func SessionRow(r ops.Session) Session {
	return Session{
		ID: int64(r.ID), CycleID: int64(r.CycleID),
		ParentSessionID: (*int64)(r.ParentID), RetryOfSessionID: (*int64)(r.RetryOf),
		Attempt: r.Attempt, Tier: r.Tier, Role: string(cmp.Or(r.Role, ops.RoleWork)),
		Handler: r.Handler, Family: r.Family, Agent: r.Agent, Model: r.Model,
		PlannedSessionID: text(r.PlannedID), SessionID: text(r.CLISessionID),
		Status: r.Status, Outcome: text(r.Outcome), Confidence: r.Confidence(), Failure: text(r.Failure), Error: text(r.Error),
		StopCause: text(r.StopCause), Walls: text(r.Walls), ContextMode: string(r.ContextMode), RecoveryLevel: r.RecoveryLevel,
		ContextTokens: r.ContextTokens, ContextWindow: r.ContextWindow,
		CostUSD: r.CostUSD, NumTurns: r.NumTurns, DurationMS: r.DurationMS,
		InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		CacheReadTokens: r.CacheReadTokens, CacheWriteTokens: r.CacheWriteTokens,
		ExitCode: r.ExitCode, CLIVersion: text(r.CLIVersion), Owner: text(r.Owner),
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
}

// Recovery is one recovery attempt.
type Recovery struct {
	ID             int64               `json:"id"`
	CycleID        int64               `json:"cycle_id"`
	SessionID      int64               `json:"session_id" doc:"The session that failed."`
	Tier           ops.Tier            `json:"tier"`
	Level          ops.RecoveryLevel   `json:"recoveryLevel"`
	Action         ops.RecoveryAction  `json:"recoveryAction"`
	ErrorType      ops.ErrorType       `json:"errorType"`
	PreviousLevels []ops.RecoveryLevel `json:"previousLevels"`
	EnteredAt      time.Time           `json:"enteredAt"`
	NotBefore      *time.Time          `json:"notBefore"`
	Deadline       *time.Time          `json:"deadline"`
	Handler        *string             `json:"handler"`
	Reason         string              `json:"reason"`
}

// Verification is the judge's verdict on a claimed repair.
type Verification struct {
	ID              int64          `json:"id"`
	SessionID       int64          `json:"session_id"`
	JudgeSessionID  int64          `json:"judge_session_id"`
	Verdict         string         `json:"verdict"`
	Confidence      float64        `json:"confidence"`
	TotalScore      int            `json:"totalScore"`
	Dimensions      map[string]int `json:"dimensions"`
	Reasoning       string         `json:"reasoning"`
	FailureReasons  []string       `json:"failureReasons"`
	Recommendations []string       `json:"recommendations"`
	At              time.Time      `json:"at"`
}

func recoveryRow(r ops.Recovery) Recovery {
	return Recovery{
		ID: r.ID, CycleID: int64(r.CycleID), SessionID: int64(r.SessionID), Tier: r.Tier, Level: r.Level, Action: r.Action,
		ErrorType: r.ErrorType, PreviousLevels: nonNil(r.PreviousLevels), EnteredAt: r.EnteredAt, NotBefore: r.NotBefore, Deadline: r.Deadline,
		Handler: text(r.Handler), Reason: r.Reason,
	}
}

func verificationRow(v ops.Verification) Verification {
	return Verification{
		ID: v.ID, SessionID: int64(v.SessionID), JudgeSessionID: int64(v.JudgeSessionID), Verdict: v.Verdict, Confidence: v.Confidence,
		TotalScore: v.TotalScore, Dimensions: v.Dimensions, Reasoning: v.Reasoning, FailureReasons: nonNil(v.FailureReasons),
		Recommendations: nonNil(v.Recommendations), At: v.At,
	}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Line is one line of a session's output, redacted.
type Line struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Line    string    `json:"line"`
	Refused []string  `json:"refused" doc:"Calls that the line answers and that did not run: the guard or the CLI refused them."`
}

// Parts are what people read of a line.
func (l Line) Parts() []transcript.Part {
	parts := transcript.Read(l.Line)
	for i, p := range parts {
		parts[i].Refused = p.Refused || p.Answer != "" && slices.Contains(l.Refused, p.Answer)
	}
	return parts
}

type transcriptQuery struct {
	SessionPath
	Paging
}

func (s *sessions) registerTranscript(api huma.API) {
	huma.Register(api, look("get-transcript", "/sessions/{id}/transcript", "Read a session's output, oldest line first", "sessions",
		"Secrets are removed before a line is stored. The cursor is the seq of the last line, so a reader can continue while the session runs.",
		http.StatusNotFound), s.transcript)
}

func (s *sessions) transcript(ctx context.Context, q *transcriptQuery) (*body[list[Line]], error) {
	var refusals ops.Refusals
	return listed(s.server, fmt.Sprintf("transcript of session %d", q.ID), q.Paging, func(after int64, limit int) ([]ops.Line, error) {
		_, err := s.Store.Journal.Session(ctx, ops.SessionID(q.ID))
		if err != nil {
			return nil, err
		}
		lines, err := s.Store.Journal.Transcript(ctx, ops.SessionID(q.ID), after, limit)
		if err == nil { // after the lines: a refusal is on record before its answer
			refusals, err = s.Store.Acts.Refusals(ctx, ops.SessionID(q.ID))
		}
		return lines, err
	}, func(l ops.Line) int64 { return l.Seq }, func(l ops.Line) Line { return lineRow(l, refusals) })
}

func lineRow(l ops.Line, refusals ops.Refusals) Line {
	out := Line{Seq: l.Seq, At: l.At, Line: l.Text, Refused: []string{}}
	if len(refusals) == 0 {
		return out
	}
	for _, p := range transcript.Read(l.Text) {
		if _, refused := refusals.Of(p.Answer, p.Input, p.Text); refused && p.Answer != "" {
			out.Refused = append(out.Refused, p.Answer)
		}
	}
	return out
}

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

func (s *sessions) registerCosts(api huma.API) {
	huma.Register(api, look("list-costs", "/costs", "Costs per day and group", "costs",
		"Figures are list-price estimates from the agent CLI. Unreported figures are null, never zero."), s.costs)
	huma.Register(api, look("list-expensive-chains", "/costs/chains", "List the most expensive cycles", "costs",
		"Cycles with a session that ended in the time range."), s.expensiveCycles)
}

func (s *sessions) span(q CostSpan) (store.CostFilter, error) {
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

func (s *sessions) costs(ctx context.Context, q *costsQuery) (*body[Costs], error) {
	f, err := s.span(q.CostSpan)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Reports.Costs(ctx, store.CostGroup(q.By), f)
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

func (s *sessions) expensiveCycles(ctx context.Context, q *expensiveQuery) (*body[list[CycleCost]], error) {
	f, err := s.span(q.CostSpan)
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Reports.ExpensiveChains(ctx, f, q.Limit)
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
