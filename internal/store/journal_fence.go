package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// held is the cycle that a fenced write belongs to.
type held struct {
	id          ops.CycleID
	environment string
	status      ops.CycleStatus
}

// fenceTerm refuses a writer whose term is over.
func fenceTerm(ctx context.Context, tx db.Querier, owner ops.Owner) error {
	var term int64
	err := tx.QueryRowContext(ctx, `SELECT term FROM hosts WHERE host = ?`, owner.Host).Scan(&term)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err != nil || term != owner.Term {
		return termOver(owner)
	}
	return nil
}

func termOver(owner ops.Owner) error {
	return fmt.Errorf("term %d of host %q is not the current one: %w", owner.Term, owner.Host, ops.ErrFenced)
}

// fenceCycle refuses a writer whose term is over or that does not hold the cycle.
func fenceCycle(ctx context.Context, tx db.Querier, owner ops.Owner, id ops.CycleID) (held, error) {
	return fence(ctx, tx, owner, `FROM cycles c WHERE c.id = ?`, int64(id))
}

// fenceSession is fenceCycle for the cycle of a session.
func fenceSession(ctx context.Context, tx db.Querier, owner ops.Owner, id ops.SessionID) (held, error) {
	return fence(ctx, tx, owner, `FROM sessions s JOIN cycles c ON c.id = s.cycle_id WHERE s.id = ?`, int64(id))
}

func fence(ctx context.Context, tx db.Querier, owner ops.Owner, from string, id int64) (held, error) {
	var h held
	var holder ops.Owner
	var term *int64
	err := tx.QueryRowContext(ctx, `SELECT c.id, c.environment, c.status, c.owner, c.term,
		(SELECT h.term FROM hosts h WHERE h.host = ?) `+from, owner.Host, id).
		Scan(&h.id, &h.environment, &h.status, db.ToText(&holder.Host), &holder.Term, &term)
	if errors.Is(err, sql.ErrNoRows) {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return held{}, err
		}
		return held{}, ops.ErrNotFound
	}
	if err != nil {
		return held{}, err
	}
	if term == nil || *term != owner.Term {
		return held{}, termOver(owner)
	}
	if holder != owner {
		return held{}, fmt.Errorf("the cycle is held by %q term %d, not by %q term %d: %w",
			holder.Host, holder.Term, owner.Host, owner.Term, ops.ErrFenced)
	}
	return h, nil
}

// running refuses a write that needs a running cycle.
func (h held) running() error {
	if h.status != ops.CycleRunning {
		return fmt.Errorf("the cycle is %s: %w", h.status, ops.ErrConflict)
	}
	return nil
}
