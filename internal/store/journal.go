package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Load returns a cycle with its journal as one snapshot.
func (s *Store) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	var out ops.Claimed
	err := s.read(ctx, func(tx querier) error {
		var err error
		out, err = s.loadWhole(ctx, tx, id, s.clock())
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("load cycle %d: %w", id, err)
	}
	return out, nil
}

func (s *Store) loadClaimed(ctx context.Context, q querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	var out ops.Claimed
	var err error
	if out.Cycle, err = cycleByID(ctx, q, id); err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	if j.Sessions, err = sessionsOfCycle(ctx, q, id); err != nil {
		return ops.Claimed{}, err
	}
	if j.Decisions, err = decisionsOfCycle(ctx, q, id); err != nil {
		return ops.Claimed{}, err
	}
	if j.Checks, err = list(ctx, q, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id); err != nil {
		return ops.Claimed{}, err
	}
	// A session of this cycle may have used something up since the last look.
	if limits := out.Cycle.Policy.Cooldowns; len(limits) > 0 {
		j.Cooldowns, err = cooldowns(ctx, q, out.Cycle.Environment, limits, s.moment(at))
	}
	return out, err
}

// loadWhole is loadClaimed with what other cycles have to do with it, which only a claim needs to look up.
func (s *Store) loadWhole(ctx context.Context, q querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	out, err := s.loadClaimed(ctx, q, id, at)
	if err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	if j.Windows, err = reportedWindows(ctx, q, out.Cycle.Policy.Handlers); err != nil {
		return ops.Claimed{}, err
	}
	before, err := one(ctx, q, scanString, `SELECT status FROM cycles WHERE environment = ? AND ended_at IS NOT NULL AND id <> ?
		ORDER BY ended_at DESC, id DESC LIMIT 1`, out.Cycle.Environment, id)
	if err != nil && !errors.Is(err, ops.ErrNotFound) {
		return ops.Claimed{}, err
	}
	j.Before = ops.CycleStatus(before)
	err = q.QueryRowContext(ctx, `SELECT COALESCE(SUM(cost_usd), 0.0) FROM sessions
		WHERE ended_at >= ? AND environment = ? AND cycle_id <> ?`,
		formatTime(dayStart(at)), out.Cycle.Environment, id).Scan(&j.Spend.DayUSD)
	if err != nil {
		return ops.Claimed{}, err
	}
	return out, nil
}

// reportedWindows reads the context window that was last reported for each handler's model.
func reportedWindows(ctx context.Context, q querier, handlers []ops.Handler) (map[string]int64, error) {
	out := map[string]int64{}
	for _, h := range handlers {
		if _, done := out[h.Model]; done {
			continue
		}
		window, err := one(ctx, q, scanInt, `SELECT context_window FROM sessions
			WHERE model = ? AND context_window IS NOT NULL ORDER BY id DESC LIMIT 1`, h.Model)
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			return nil, err
		}
		if window > 0 {
			out[h.Model] = window
		}
	}
	return out, nil
}

// Commit writes one transition in one transaction, and returns the cycle and its journal as they read now. What the
// journal knows of other cycles (spend, windows) is left out: the caller has it from its claim.
func (s *Store) Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error) {
	if t.Empty() {
		return s.Load(ctx, t.Cycle)
	}
	t.At = s.orNow(t.At)
	var out ops.Claimed
	err := s.write(ctx, "commit", func(tx querier) error {
		cycle, err := fenceCycle(ctx, tx, owner, t.Cycle)
		if err != nil {
			return err
		}
		if err := cycle.running(); err != nil {
			return err
		}
		if err := recordResult(ctx, tx, cycle, t); err != nil {
			return err
		}
		if err := recordStep(ctx, tx, cycle, owner, t); err != nil {
			return err
		}
		out, err = s.loadClaimed(ctx, tx, t.Cycle, t.At)
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("commit step %s of cycle %d: %w", t.Step.Kind, t.Cycle, err)
	}
	return out, nil
}

// recordResult writes what the last effect produced.
func recordResult(ctx context.Context, tx querier, cycle held, t ops.Transition) error {
	if r := t.Result.Session; r != nil {
		if err := endSession(ctx, tx, cycle, *r, t.At); err != nil {
			return fmt.Errorf("end session %d: %w", r.ID, err)
		}
	}
	for _, c := range t.Result.Checks {
		if c.Environment == "" {
			c.Environment = cycle.environment
		}
		c.CycleID = orOf(c.CycleID, cycle.id)
		if err := insertCheck(ctx, tx, c, t.At); err != nil {
			return fmt.Errorf("record check of %s: %w", c.Service, err)
		}
	}
	for _, l := range t.Result.Lessons {
		if err := insertLesson(ctx, tx, cycle, t.Result.Session, l, t.At); err != nil {
			return fmt.Errorf("remember %s: %w", l.Category, err)
		}
	}
	return recordEvents(ctx, tx, cycle, t.Result.Events, t.At)
}

// recordStep writes the decision and everything that must stand before the step is taken.
func recordStep(ctx context.Context, tx querier, cycle held, owner ops.Owner, t ops.Transition) error {
	if d := t.Step.Decision; d != nil {
		if err := insertDecision(ctx, tx, cycle.id, *d, t.At); err != nil {
			return fmt.Errorf("record decision: %w", err)
		}
	}
	if err := recordEvents(ctx, tx, cycle, t.Step.Events, t.At); err != nil {
		return err
	}
	for _, n := range append(append([]ops.Notice{}, t.Result.Notices...), t.Step.Notices...) {
		n.CycleID = orOf(n.CycleID, cycle.id)
		n.Status = ops.NoticePending
		if _, err := insertNotice(ctx, tx, n, t.At); err != nil {
			return fmt.Errorf("record notice: %w", err)
		}
	}
	if n := t.Step.Session; n != nil {
		if err := queueSession(ctx, tx, cycle, owner, *n, t.At); err != nil {
			return fmt.Errorf("queue attempt %d of %s: %w", n.Attempt, n.Handler.ID, err)
		}
	}
	if t.Step.Kind == ops.StepFinish {
		return finishCycle(ctx, tx, t)
	}
	return nil
}

func recordEvents(ctx context.Context, tx querier, cycle held, events []ops.Event, at time.Time) error {
	for _, e := range events {
		if e.Environment == "" {
			e.Environment = cycle.environment
		}
		e.CycleID = orOf(e.CycleID, cycle.id)
		if _, err := insertEvent(ctx, tx, e, at); err != nil {
			return fmt.Errorf("record event %s: %w", e.Kind, err)
		}
	}
	return nil
}

// finishCycle ends the cycle; its owner stays on record.
func finishCycle(ctx context.Context, tx querier, t ops.Transition) error {
	if !t.Step.Status.Ended() {
		return fmt.Errorf("finish: %q is no end of a cycle", t.Step.Status)
	}
	_, err := tx.ExecContext(ctx, `UPDATE cycles SET status = ?, reason = ?, ended_at = ?, wake_at = NULL WHERE id = ?`,
		t.Step.Status, t.Step.Reason, formatTime(t.At), t.Cycle)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	// What was intended and never ran will not run any more.
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET status = ?, ended_at = ? WHERE cycle_id = ? AND status = ?`,
		ops.SessionCancelled, formatTime(t.At), t.Cycle, ops.SessionQueued)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}
