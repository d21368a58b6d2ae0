package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// The verdicts as they are stored.
const (
	verdictAllow = "allow"
	verdictDeny  = "deny"
)

// The rules of the refusals that the database decides.
const (
	ruleCooldown   = "cooldown"
	ruleUnreserved = "cooldown.unreserved"
)

const selectGuard = `SELECT g.id, g.at, g.cycle_id, g.session_id, g.tier, g.gate, g.tool_use_id, g.tool, g.input, g.digest,
	g.verdict, g.rule, g.reason, g.mutating, g.took_us FROM guard_decisions g`

func scanGuard(r row) (ops.GuardRecord, error) {
	var g ops.GuardRecord
	var verdict string
	var took int64
	err := r.Scan(&g.ID, toTime(&g.At), &g.CycleID, &g.SessionID, &g.Tier, &g.Gate, &g.ToolUseID, &g.Tool, &g.Input, &g.Digest,
		&verdict, &g.Rule, &g.Reason, &g.Mutating, &took)
	g.Allowed, g.Took = verdict == verdictAllow, time.Duration(took)*time.Microsecond
	return g, err
}

// RecordGuard records a judgement and, where it allows something, reserves the actions it wants in the same transaction.
// The record it returns is the answer to give: without a free place it is a refusal, and nothing is reserved. With an error
// nothing was written, and the caller must refuse.
func (s *Store) RecordGuard(ctx context.Context, owner ops.Owner, r ops.GuardRecord, want []ops.Reservation,
	limits []ops.CooldownLimit,
) (ops.GuardRecord, error) {
	now := s.moment(r.At)
	r.At, r.Took = now.at, r.Took.Truncate(time.Microsecond)
	err := s.write(ctx, "record_guard", func(tx querier) error {
		cycle, err := fenceSession(ctx, tx, owner, r.SessionID)
		if err != nil {
			return err
		}
		if err := sessionRuns(ctx, tx, cycle, r.SessionID); err != nil {
			return err
		}
		r.CycleID = cycle.id
		if r.Allowed && len(want) > 0 {
			pass := reserving{tx: tx, environment: cycle.environment, record: r, limits: limits, now: now, taken: map[int64]bool{}}
			reason, err := pass.all(ctx, want)
			if err != nil {
				return fmt.Errorf("reserve: %w", err)
			}
			if reason != "" {
				r.Allowed, r.Rule, r.Reason = false, pass.rule(), reason
			}
		}
		r.ID, err = insertGuard(ctx, tx, r)
		return err
	})
	if err != nil {
		return ops.GuardRecord{}, fmt.Errorf("record judgement of %s in session %d: %w", r.Tool, r.SessionID, err)
	}
	return r, nil
}

// sessionRuns refuses a write that only a running session takes.
func sessionRuns(ctx context.Context, tx querier, cycle held, id ops.SessionID) error {
	if err := cycle.running(); err != nil {
		return err
	}
	status, err := one(ctx, tx, scanString, `SELECT status FROM sessions WHERE id = ?`, id)
	if err != nil {
		return err
	}
	if ops.SessionStatus(status) != ops.SessionRunning {
		return fmt.Errorf("the session is %s: %w", status, ops.ErrConflict)
	}
	return nil
}

func insertGuard(ctx context.Context, tx querier, r ops.GuardRecord) (int64, error) {
	verdict := verdictDeny
	if r.Allowed {
		verdict = verdictAllow
	}
	var id int64
	err := tx.QueryRowContext(ctx, `INSERT INTO guard_decisions (at, cycle_id, session_id, tier, gate, tool_use_id, tool, digest,
		verdict, rule, mutating, took_us, reason, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		formatTime(r.At), r.CycleID, r.SessionID, r.Tier, r.Gate, r.ToolUseID, r.Tool, r.Digest,
		verdict, r.Rule, r.Mutating, r.Took.Microseconds(), r.Reason, r.Input).Scan(&id)
	return id, err
}

// GuardDecisions returns the judgements of a session, oldest first.
func (s *Store) GuardDecisions(ctx context.Context, session ops.SessionID) ([]ops.GuardRecord, error) {
	out, err := list(ctx, s.reader, scanGuard, selectGuard+` WHERE g.session_id = ? ORDER BY g.id`, session)
	if err != nil {
		return nil, fmt.Errorf("list judgements of session %d: %w", session, err)
	}
	return out, nil
}

// GuardAllowed reports whether the hook allowed a tool call. A call without an id was never allowed.
func (s *Store) GuardAllowed(ctx context.Context, session ops.SessionID, toolUseID string) (bool, error) {
	if toolUseID == "" {
		return false, nil
	}
	_, err := one(ctx, s.reader, scanInt, `SELECT id FROM guard_decisions
		WHERE session_id = ? AND tool_use_id = ? AND gate = ? AND verdict = ? LIMIT 1`,
		session, toolUseID, ops.GateHook, verdictAllow)
	if errors.Is(err, ops.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up judgement of %s in session %d: %w", toolUseID, session, err)
	}
	return true, nil
}
