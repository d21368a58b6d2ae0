package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectSessions = `SELECT s.id, s.cycle_id, s.parent_session_id, s.retry_of_session_id, s.attempt, s.role, s.tier,
	s.permissions, s.handler,
	s.family, s.agent, s.model, s.key, s.planned_session_id, s.session_id, s.status, s.outcome, s.outcome_json,
	s.handoff_json, s.handoff_error, s.failure, s.error, s.stop_cause, s.walls, s.context_mode, s.recovery_level, s.budget_usd,
	s.exit_code, s.api_status, COALESCE(s.retry_after_ms, 0), s.loop_count, s.loop_call, s.cli_version, COALESCE(s.pid, 0), s.process_started,
	s.structured, s.open_tool, s.unseen, s.conversation_path,
	COALESCE(s.conversation_size, 0), s.conversation_sha, s.owner, s.created_at, s.started_at,
	s.ended_at, s.cost_usd, s.reported_usd, s.num_turns, s.duration_ms, s.input_tokens, s.output_tokens, s.cache_read_tokens,
	s.cache_write_tokens, s.context_tokens, s.context_window FROM sessions s`

func scanSession(r db.Row, s *ops.Session) error {
	var retryAfter int64
	err := r.Scan(&s.ID, &s.CycleID, &s.ParentID, &s.RetryOf, &s.Attempt, &s.Role, &s.Tier, &s.Permissions, &s.Handler,
		&s.Family, &s.Agent, &s.Model, &s.Key, db.ToText(&s.PlannedID), db.ToText(&s.CLISessionID), &s.Status,
		db.ToText(&s.Outcome), (*[]byte)(&s.OutcomeJSON), db.ToBytes(&s.HandoffJSON), db.ToText(&s.HandoffError), db.ToText(&s.Failure),
		db.ToText(&s.Error), db.ToText(&s.StopCause), db.ToText(&s.Walls), &s.ContextMode, &s.RecoveryLevel, &s.BudgetUSD,
		&s.ExitCode, &s.APIStatus, &retryAfter, &s.LoopCount, db.ToText(&s.LoopCall), db.ToText(&s.CLIVersion), &s.PID,
		db.ToText(&s.ProcessStarted), &s.Structured,
		db.ToText(&s.OpenTool), db.ToJSON(&s.Unseen), db.ToText(&s.Conversation.Path),
		&s.Conversation.Size, db.ToText(&s.Conversation.SHA), db.ToText(&s.Owner),
		db.ToTime(&s.CreatedAt), db.ToOptTime(&s.StartedAt), db.ToOptTime(&s.EndedAt), &s.CostUSD, &s.ReportedUSD, &s.NumTurns, &s.DurationMS,
		&s.InputTokens, &s.OutputTokens, &s.CacheReadTokens, &s.CacheWriteTokens, &s.ContextTokens, &s.ContextWindow)
	s.RetryAfter = time.Duration(retryAfter) * time.Millisecond
	return err
}

// Session returns one session.
func (s *Journal) Session(ctx context.Context, id ops.SessionID) (ops.Session, error) {
	out, err := db.One(ctx, s.db.Reader(), scanSession, selectSessions+` WHERE s.id = ?`, id)
	return ops.Returning(out, err, "read session %d", id)
}

// WallsHeld notes what stands around a session that runs.
func (s *Journal) WallsHeld(ctx context.Context, id ops.SessionID, walls string) error {
	changed, err := s.db.WriteOne(ctx, "walls", `UPDATE sessions SET walls = ? WHERE id = ?`, walls, id)
	if err == nil && changed == 0 {
		err = ops.ErrNotFound
	}
	return ops.Wrapped(err, "note the walls of session %d", id)
}

// Chain returns all sessions of the cycle that a session belongs to, in the order in which they were queued.
func (s *Journal) Chain(ctx context.Context, id ops.SessionID) ([]ops.Session, error) {
	out, err := db.List(ctx, s.db.Reader(), scanSession, selectSessions+`
		WHERE s.cycle_id = (SELECT cycle_id FROM sessions WHERE id = ?) ORDER BY s.id`, id)
	if err == nil && len(out) == 0 {
		err = ops.ErrNotFound
	}
	return ops.Returning(out, err, "read chain of session %d", id)
}

// RunningSessions returns the sessions whose process may exist.
func (s *Journal) RunningSessions(ctx context.Context) ([]ops.Session, error) {
	out, err := db.List(ctx, s.db.Reader(), scanSession, selectSessions+` WHERE s.status = ? ORDER BY s.id`, ops.SessionRunning)
	return ops.Returning(out, err, "list running sessions")
}

// StartSession records that a queued session is about to start, before its process exists. It reserves what the session may spend
// and returns it: nil without a limit. With nothing left the error is ops.ErrBudget, and the session stays queued.
func (s *Journal) StartSession(ctx context.Context, owner ops.Owner, id ops.SessionID, plannedID string, at time.Time,
	ask ops.BudgetAsk,
) (granted *float64, err error) {
	at = s.orNow(at)
	budget, args := grant(id, ask, at)
	var started []*float64
	err = s.db.WriteOneIn(ctx, "start_session", db.OfSession(id), ops.ReachPages, db.Into(&started, scanBudget, `UPDATE sessions
		SET status = ?, planned_session_id = ?, started_at = ?, owner = ?, budget_usd = b.granted FROM (`+budget+`) b
		WHERE id = ? AND status = ? AND (b.granted IS NULL OR b.granted > 0) AND `+holds+` AND c.status = 'running') RETURNING budget_usd`,
		slices.Concat([]any{ops.SessionRunning, db.OptText(plannedID), db.Time(at), owner.Host}, args,
			[]any{id, ops.SessionQueued, owner.Host, owner.Term})...))
	if err == nil && len(started) == 0 {
		err = s.notStarted(ctx, owner, id, ask)
	}
	if err != nil {
		return nil, fmt.Errorf("start session %d: %w", id, err)
	}
	return started[0], nil
}

func scanBudget(r db.Row, usd **float64) error { return r.Scan(usd) }

// notStarted is why an owner could not start a session.
func (s *Journal) notStarted(ctx context.Context, owner ops.Owner, id ops.SessionID, ask ops.BudgetAsk) error {
	cycle, err := fenceSession(ctx, s.db.Reader(), owner, id)
	if err == nil {
		err = cycle.running()
	}
	if err != nil {
		return err
	}
	now, err := s.Session(ctx, id)
	switch {
	case err != nil:
		return err
	case ask.Want < 0:
		return &ops.SpentError{Whose: ops.BudgetChain}
	case now.Status == ops.SessionQueued:
		return &ops.SpentError{Whose: ops.BudgetDay}
	}
	return ops.NewConflict(ops.ConflictState, "the session is %s", now.Status)
}

// holds: the owner holds the cycle of a session. More about the cycle c may follow.
const holds = `EXISTS (SELECT 1 FROM cycles c JOIN hosts h ON h.host = c.owner AND h.term = c.term
	WHERE c.id = sessions.cycle_id AND c.owner = ? AND c.term = ?`

// NoteProcess records the process of a running session, so that after a restart it can be told from another process with the same
// pid.
func (s *Journal) NoteProcess(ctx context.Context, owner ops.Owner, id ops.SessionID, pid int, processStarted string) error {
	changed, err := s.db.WriteOne(ctx, "note_process", `UPDATE sessions SET pid = ?, process_started = ? WHERE id = ? AND status = ?
		AND `+holds+`)`,
		db.OrNull(pid), db.OptText(processStarted), id, ops.SessionRunning, owner.Host, owner.Term)
	if err == nil && changed == 0 {
		err = s.notRunning(ctx, owner, id)
	}
	return ops.Wrapped(err, "note process of session %d", id)
}

// notRunning is why the owner may not write about a running session.
func (s *Journal) notRunning(ctx context.Context, owner ops.Owner, id ops.SessionID) error {
	cycle, err := fenceSession(ctx, s.db.Reader(), owner, id)
	if err != nil {
		return err
	}
	return ops.NewConflict(ops.ConflictState, "the session is %s", cycle.session)
}

// mustChange refuses a conditional update of a session that found no row, and says which state the session has.
func mustChange(ctx context.Context, tx db.Querier, id ops.SessionID, query string, args ...any) error {
	changed, err := db.Affected(ctx, tx, query, args...)
	if err != nil || changed > 0 {
		return err
	}
	return sessionConflict(ctx, tx, id)
}

func sessionConflict(ctx context.Context, tx db.Querier, id ops.SessionID) error {
	status, err := db.One(ctx, tx, db.ScanString, `SELECT status FROM sessions WHERE id = ?`, id)
	if err != nil {
		return err
	}
	return ops.NewConflict(ops.ConflictState, "the session is %s", status)
}

// queueSession records that a session is to be run.
func queueSession(ctx context.Context, tx db.Querier, cycle held, owner ops.Owner, n ops.NewSession, at time.Time) error {
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	h := n.Handler
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (cycle_id, environment, parent_session_id, retry_of_session_id,
		attempt, role, tier, permissions, handler, family, agent, model, key, status, context_mode, recovery_level, owner, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle.id, cycle.environment, db.OptID(n.ParentID), db.OptID(n.RetryOf),
		n.Attempt, cmp.Or(n.Role, ops.RoleWork), h.Tier, h.May(), h.ID, h.Family, h.Agent, h.Model, hex.EncodeToString(key[:]),
		ops.SessionQueued, n.ContextMode, n.Level, owner.Host, db.Time(at))
	if db.IsUnique(err) {
		return ops.NewConflict(ops.ConflictTaken, "%s already has it", h.Tier)
	}
	return err
}

// endSession writes the end of a session into its row. The identity of the session never changes, and values noted at its start
// stay where r does not have them.
func endSession(ctx context.Context, tx db.Querier, cycle held, r ops.Session, at time.Time) error {
	if !r.Status.Ended() {
		return fmt.Errorf("%q is not a final status of a session", r.Status)
	}
	ended := *orOf(r.EndedAt, at)
	if r.StartedAt != nil && ended.Before(*r.StartedAt) {
		ended = *r.StartedAt
	}
	return mustChange(
		ctx, tx, r.ID,
		`UPDATE sessions SET status = ?, model = COALESCE(?, model),
		planned_session_id = COALESCE(?, planned_session_id), session_id = ?, outcome = ?, outcome_json = ?, handoff_json = ?,
		handoff_error = ?, failure = ?, error = ?, stop_cause = ?, context_mode = COALESCE(?, context_mode),
		exit_code = ?, api_status = ?, retry_after_ms = ?, loop_count = ?, loop_call = ?, cli_version = ?, pid = COALESCE(?, pid),
		process_started = COALESCE(?, process_started), structured = ?, open_tool = ?, unseen = ?, conversation_path = ?,
		conversation_size = ?, conversation_sha = ?, started_at = COALESCE(?, started_at), ended_at = `+db.NotBefore(`started_at`)+`,
		cost_usd = ?, reported_usd = ?, num_turns = ?, duration_ms = ?, input_tokens = ?, output_tokens = ?, cache_read_tokens = ?,
		cache_write_tokens = ?, context_tokens = ?, context_window = ?
		WHERE id = ? AND cycle_id = ? AND status IN (?, ?)`,
		r.Status,
		db.OptText(r.Model),
		db.OptText(r.PlannedID),
		db.OptText(r.CLISessionID),
		db.OptText(r.Outcome),
		db.OptText(r.OutcomeJSON),
		db.OptBytes(r.HandoffJSON),
		db.OptText(r.HandoffError),
		db.OptText(r.Failure),
		db.OptText(r.Error),
		db.OptText(r.StopCause),
		db.OptText(r.ContextMode),
		r.ExitCode,
		r.APIStatus,
		db.OrNull(r.RetryAfter.Milliseconds()),
		r.LoopCount,
		db.OptText(r.LoopCall),
		db.OptText(r.CLIVersion),
		db.OrNull(r.PID),
		db.OptText(r.ProcessStarted),
		r.Structured,
		db.OptText(r.OpenTool),
		db.JSON(r.Unseen),
		db.OptText(r.Conversation.Path),
		db.OrNull(r.Conversation.Size),
		db.OptText(r.Conversation.SHA),
		db.OptTime(r.StartedAt),
		db.Time(ended), db.Time(ended),
		r.CostUSD,
		r.ReportedUSD,
		r.NumTurns,
		r.DurationMS,
		r.InputTokens,
		r.OutputTokens,
		r.CacheReadTokens,
		r.CacheWriteTokens,
		r.ContextTokens,
		r.ContextWindow,
		r.ID,
		cycle.id,
		ops.SessionQueued,
		ops.SessionRunning,
	)
}
