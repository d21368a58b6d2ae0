package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Claim makes the owner the one that advances a cycle, and returns everything known about it. The first claim stores the policy,
// narrowed by the cycle's options; later ones keep it, and after a wait for a human the stricter of it and the current one
// applies. A cycle that an older term of the same host left running is adopted, and so is one of the same term whose worker could
// not release it: the engine runs one worker per cycle.
//
// A cycle that waits for a human can be claimed when its time has come, or when its question or all of its incidents are
// answered. A question whose time is over expires then. ops.ErrSlotBusy means that another cycle of the environment is running,
// ops.ErrConflict that this one has ended or waits.
func (s *Journal) Claim(ctx context.Context, owner ops.Owner, id ops.CycleID, policy ops.Policy, at time.Time) (ops.Claimed, error) {
	at = s.orNow(at)
	var out ops.Claimed
	err := s.db.WriteIn(ctx, "claim", db.OfCycle(id), func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		c, err := cycleByID(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := claimable(c, owner, at); err != nil {
			return err
		}
		if err := expireApproval(ctx, tx, id, at); err != nil {
			return err
		}
		if err := takeCycle(ctx, tx, c, owner, policy, at); err != nil {
			return err
		}
		out, err = s.loadWhole(ctx, tx, id, at)
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("claim cycle %d: %w", id, err)
	}
	return out, nil
}

// claimable returns the reason why a cycle cannot be claimed.
func claimable(c ops.Cycle, owner ops.Owner, at time.Time) error {
	// A request to cancel ends every wait: the cycle must be claimed so that it can end.
	woken := c.CancelRequestedAt != nil || (c.WakeAt != nil && !c.WakeAt.After(at))
	switch {
	case c.Status.Ended():
		return fmt.Errorf("it already ended as %s: %w", c.Status, ops.ErrConflict)
	case c.Status == ops.CycleRunning && c.Owner.Host != owner.Host:
		return fmt.Errorf("host %s runs it: %w", c.Owner.Host, ops.ErrConflict)
	case c.Status == ops.CycleRunning && c.Owner.Term > owner.Term:
		return fmt.Errorf("a later start of this host runs it: %w", ops.ErrConflict)
	case c.Status == ops.CycleWaitingHuman && !woken:
		return fmt.Errorf("it waits for a human: %w", ops.ErrConflict)
	case c.Status == ops.CycleQueued && c.WakeAt != nil && !woken:
		return fmt.Errorf("it waits until %s: %w", c.WakeAt.Format(time.RFC3339), ops.ErrConflict)
	}
	return nil
}

func takeCycle(ctx context.Context, tx db.Querier, c ops.Cycle, owner ops.Owner, policy ops.Policy, at time.Time) error {
	if c.Status == ops.CycleRunning {
		if err := awaitOutput(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	policy = policy.Narrow(c.Options)
	if c.StartedAt != nil && (c.Status == ops.CycleWaitingHuman || c.WakeAt != nil) {
		policy = c.Policy.Stricter(policy)
	}
	snapshot, err := db.JSON(policy)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = ?, term = ?, wake_at = NULL, seen_seq = wake_seq,
		policy = CASE WHEN policy IS NULL OR status = 'waiting_human' OR wake_at IS NOT NULL THEN ? ELSE policy END,
		started_at = COALESCE(started_at, ?) WHERE id = ?`,
		ops.CycleRunning, owner.Host, owner.Term, snapshot, db.Time(at), c.ID)
	if db.IsUnique(err) {
		return ops.ErrSlotBusy
	}
	return err
}

// Release puts a running cycle back into the queue and gives up its slot; what was recorded stays.
func (s *Journal) Release(ctx context.Context, owner ops.Owner, id ops.CycleID) error {
	err := s.db.WriteIn(ctx, "release", db.OfCycle(id), func(tx db.Querier) error {
		cycle, err := fenceCycle(ctx, tx, owner, id)
		if err != nil {
			return err
		}
		if err := cycle.running(); err != nil {
			return err
		}
		if err := awaitOutput(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = NULL, term = 0 WHERE id = ?`, ops.CycleQueued, id)
		if err != nil {
			return err
		}
		return s.offer(ctx, tx, cycle.environment, s.clock())
	})
	if err != nil {
		return fmt.Errorf("release cycle %d: %w", id, err)
	}
	return nil
}
