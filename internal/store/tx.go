package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// querier is a pool or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// row is one result row, current or only.
type row interface{ Scan(dest ...any) error }

// write runs fn in one transaction, alone: it sees what every earlier one wrote. op names the failpoints around its commit.
func (s *Store) write(ctx context.Context, op string, fn func(tx querier) error) error {
	return s.transact(ctx, op, s.dialect.begin, fn)
}

// writeBeside is write for rows that nobody but the caller writes: where the database can, it waits for no other writer.
func (s *Store) writeBeside(ctx context.Context, op string, fn func(tx querier) error) error {
	err := s.transact(ctx, op, s.dialect.beside, fn)
	if err == nil {
		s.dialect.tell(ctx)
	}
	return err
}

// quietly is write for statements that are exact by themselves and interest no reader: where the database can, it neither
// waits in the queue of writers nor wakes anybody.
func (s *Store) quietly(ctx context.Context, op string, fn func(tx querier) error) error {
	return s.transact(ctx, op, s.dialect.quiet, fn)
}

func (s *Store) transact(ctx context.Context, op string, begin func(context.Context) (transaction, error), fn func(tx querier) error) error {
	if s.writer == nil {
		return errReadOnly
	}
	tx, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx.querier); err != nil {
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
	return nil
}

// read runs fn on one snapshot of the database.
func (s *Store) read(ctx context.Context, fn func(tx querier) error) error {
	tx, err := s.dialect.snapshot(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return rollBack(tx, fn(tx.querier))
}

// rollBack ends a transaction without a trace and returns err, with the failure to do so if there is one.
func rollBack(tx transaction, err error) error {
	if failed := tx.rollBack(); failed != nil && !errors.Is(failed, sql.ErrTxDone) {
		err = errors.Join(err, fmt.Errorf("roll back: %w", failed))
	}
	return err
}

// list reads all rows of a query.
func list[T any](ctx context.Context, q querier, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// one reads the only row of a query; without a row the error is ops.ErrNotFound.
func one[T any](ctx context.Context, q querier, scan func(row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = ops.ErrNotFound
	}
	return v, err
}

// changed reports whether a statement changed a row.
func changed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// filter collects conditions and their arguments.
type filter struct {
	conds []string
	args  []any
}

func (f *filter) add(cond string, args ...any) {
	f.conds = append(f.conds, cond)
	f.args = append(f.args, args...)
}

// where is the WHERE clause, empty without a condition.
func (f *filter) where() string {
	if len(f.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conds, " AND ")
}

const defaultLimit = 50

// pageSize is how many rows a list returns: what was asked for, or a page.
func pageSize(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return limit
}
