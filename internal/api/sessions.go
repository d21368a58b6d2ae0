package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
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

// GuardedSession is a whole session with what the guard decided in it.
type GuardedSession struct {
	SessionReport
	GuardDecisions []GuardDecision `json:"guard_decisions"`
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

func (s *server) registerSessions(api huma.API) {
	huma.Register(api, look("list-sessions", "/sessions", "List sessions, newest first", "sessions",
		"A session is one agent process. Unreported figures are null, never zero."), s.listSessions)
	huma.Register(api, look("get-session", "/sessions/{id}", "Show a session", "sessions",
		"With the report and the handoff of the agent.", http.StatusNotFound), s.getSession)
	huma.Register(api, look("get-chain", "/sessions/{id}/chain", "Show all sessions of the session's cycle", "sessions",
		"From the first to the last, with the total cost. Any session of the cycle can be given.", http.StatusNotFound), s.getChain)
	huma.Register(api, start("stop-session", "/sessions/{id}/stop", "Stop a session and end its cycle", "sessions",
		"A repair may be left unfinished. A session that has ended is a conflict.", http.StatusNotFound), s.stopSession)
}

func (s *server) listSessions(ctx context.Context, q *sessionsQuery) (*body[list[Session]], error) {
	return listed(s, "list sessions", q.Paging, func(before int64, limit int) ([]ops.Session, error) {
		return s.Store.Sessions(ctx, store.SessionFilter{
			Status: ops.SessionStatus(q.Status), Tier: ops.Tier(q.Tier), Environment: q.Environment,
			Since: q.Since, Before: ops.SessionID(before), Limit: limit,
		})
	}, func(r ops.Session) int64 { return int64(r.ID) }, SessionRow)
}

func (s *server) getSession(ctx context.Context, in *SessionPath) (*body[SessionReport], error) {
	row, err := s.Store.Session(ctx, ops.SessionID(in.ID))
	return answer(s, fmt.Sprintf("session %d", in.ID), row, err, SessionReportRow)
}

func (s *server) getChain(ctx context.Context, in *SessionPath) (*body[Chain], error) {
	rows, err := s.Store.Chain(ctx, ops.SessionID(in.ID))
	if err == nil && len(rows) == 0 {
		err = ops.ErrNotFound
	}
	return answer(s, fmt.Sprintf("session %d", in.ID), rows, err, chainOf)
}

func (s *server) stopSession(ctx context.Context, in *SessionPath) (*body[accepted], error) {
	err := s.desk.Stop(ctx, by(ctx), ops.SessionID(in.ID))
	return answer(s, fmt.Sprintf("stop session %d", in.ID), accepted{ID: in.ID, Status: "stopping"}, err, same)
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
		StopCause: text(r.StopCause), ContextMode: string(r.ContextMode), RecoveryLevel: r.RecoveryLevel,
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
	Seq  int64     `json:"seq"`
	At   time.Time `json:"at"`
	Line string    `json:"line"`
}

type transcriptQuery struct {
	SessionPath
	Paging
}

func (s *server) registerTranscript(api huma.API) {
	huma.Register(api, look("get-transcript", "/sessions/{id}/transcript", "Read a session's output, oldest line first", "sessions",
		"Secrets are removed before a line is stored. The cursor is the seq of the last line, so a reader can continue while the session runs.",
		http.StatusNotFound), s.transcript)
}

func (s *server) transcript(ctx context.Context, q *transcriptQuery) (*body[list[Line]], error) {
	return listed(s, fmt.Sprintf("transcript of session %d", q.ID), q.Paging, func(after int64, limit int) ([]ops.Line, error) {
		if _, err := s.Store.Session(ctx, ops.SessionID(q.ID)); err != nil {
			return nil, err
		}
		return s.Store.Transcript(ctx, ops.SessionID(q.ID), after, limit)
	}, func(l ops.Line) int64 { return l.Seq }, LineRow)
}

// LineRow is a line of a transcript.
func LineRow(l ops.Line) Line { return Line{Seq: l.Seq, At: l.At, Line: l.Text} }
