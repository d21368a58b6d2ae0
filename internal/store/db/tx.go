package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"claudeops/internal/failpoint"
)

// transaction is an open transaction.
type transaction struct {
	Querier
	commit   func() error
	rollBack func() error
	// explain adds to an error what to do about it; nil: nothing.
	explain func(error) error
}

// Write runs fn in one transaction. Only one runs at a time, and it sees what all earlier ones wrote. op names the failpoints
// around its commit.
func (d *DB) Write(ctx context.Context, op string, fn func(tx Querier) error) error {
	return d.transact(ctx, op, d.dialect.begin, fn)
}

// WriteUnordered is Write for rows that only the caller writes. On a server it neither waits for other writers nor notifies other
// processes.
func (d *DB) WriteUnordered(ctx context.Context, op string, fn func(tx Querier) error) error {
	return d.transact(ctx, op, d.dialect.beginUnordered, fn)
}

// WriteUrgent is WriteUnordered for short statements that must not wait, such as renewing a lease. It has connections of its own.
func (d *DB) WriteUrgent(ctx context.Context, op string, fn func(tx Querier) error) error {
	return d.transact(ctx, op, d.dialect.beginUrgent, fn)
}

// writeLong is Write without a time limit.
func (d *DB) writeLong(ctx context.Context, op string, fn func(tx Querier) error) error {
	begin := func(ctx context.Context) (transaction, error) { return d.dialect.beginLong(ctx, false) }
	return d.transact(ctx, op, begin, fn)
}

func (d *DB) transact(ctx context.Context, op string, begin func(context.Context) (transaction, error), fn func(tx Querier) error) error {
	if d.writer == nil {
		return errReadOnly
	}
	if err := d.dialect.present(); err != nil {
		return err
	}
	tx, err := beginAgain(ctx, begin)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx.Querier); err != nil {
		if tx.explain != nil {
			err = tx.explain(err)
		}
		return rollBack(tx, err)
	}
	failpoint.Hit(op, ".before")
	if err := tx.commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	failpoint.Hit(op, ".after")
	// A file that was removed meanwhile has the rows, but no later start finds them.
	return d.dialect.present()
}

// beginAgain begins on another connection if the first one was cut while nothing used it.
func beginAgain(ctx context.Context, begin func(context.Context) (transaction, error)) (transaction, error) {
	tx, err := begin(ctx)
	if ConnectionLost(err) && ctx.Err() == nil {
		tx, err = begin(ctx)
	}
	return tx, err
}

// Read runs fn on one snapshot of the database.
func (d *DB) Read(ctx context.Context, fn func(tx Querier) error) error {
	tx, err := d.dialect.snapshot(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return rollBack(tx, fn(tx.Querier))
}

// ReadLong is Read without a time limit. It reports damage as ErrCorrupt.
func (d *DB) ReadLong(ctx context.Context, fn func(tx Querier) error) error {
	tx, err := d.dialect.beginLong(ctx, true)
	if err != nil {
		return fmt.Errorf("begin: %w", asDamage(err))
	}
	return rollBack(tx, asDamage(fn(tx.Querier)))
}

// rollBack ends a transaction without changes and returns err, joined with the error of the rollback if there is one.
func rollBack(tx transaction, err error) error {
	if failed := tx.rollBack(); failed != nil && !errors.Is(failed, sql.ErrTxDone) {
		err = errors.Join(err, fmt.Errorf("roll back: %w", failed))
	}
	return err
}
