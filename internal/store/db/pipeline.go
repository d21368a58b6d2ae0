package db

import (
	"context"
	"errors"

	"claudeops/internal/ops"
)

// pipelined is a transaction that sends several statements in one round trip.
type pipelined interface {
	Querier
	// later collects a statement; it is sent with the next one whose result is needed, or with the commit.
	later(query string, args []any, done func(affected int64, err error) error)
	// ahead collects a query and passes its rows to read when they arrive.
	ahead(query string, args []any, read func(Rows) error)
	// atEnd collects a statement that is sent with the commit, after all others.
	atEnd(query string, args []any)
	// order makes the ids of a feed grow in the order of commits, from now on or from where the last statements are sent.
	order(feed Feed, atEnd bool)
	// receive sends what was collected and reads its results.
	receive() error
}

// Pipelined reports whether queries that are asked ahead share a round trip.
func Pipelined(q Querier) bool { _, ok := q.(pipelined); return ok }

// Later runs a statement whose result nobody needs before the transaction goes on. On a server it is sent with the next statement
// that somebody waits for; an error ends the transaction there.
func Later(ctx context.Context, tx Querier, query string, args ...any) error {
	return LaterChecked(ctx, tx, nil, query, args...)
}

// LaterChecked is Later for a statement whose result is checked: done gets the number of changed rows or the error, and returns what
// ends the transaction. It must not use the transaction.
func LaterChecked(ctx context.Context, tx Querier, done func(affected int64, err error) error, query string, args ...any) error {
	if done == nil {
		done = func(_ int64, err error) error { return err }
	}
	if p, ok := tx.(pipelined); ok {
		p.later(query, args, done)
		return nil
	}
	return done(Affected(ctx, tx, query, args...))
}

// AtEnd runs a statement as the last of the transaction; on a server it is sent with the commit.
func AtEnd(ctx context.Context, tx Querier, query string, args ...any) error {
	if p, ok := tx.(pipelined); ok {
		p.atEnd(query, args)
		return nil
	}
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// Ahead asks for all rows of a query and returns a function that waits for them. On a server, queries that are asked before the first
// of these functions is called share a round trip.
func Ahead[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) func() ([]T, error) {
	p, ok := q.(pipelined)
	if !ok {
		out, err := List(ctx, q, scan, query, args...)
		return func() ([]T, error) { return out, err }
	}
	var out []T
	arrived := false
	p.ahead(query, args, func(rows Rows) error {
		out, arrived = nil, true // a connection that was cut may have brought some of them
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return rows.Err()
	})
	return func() ([]T, error) {
		if arrived {
			return out, nil
		}
		if err := p.receive(); err != nil {
			return nil, err
		}
		if !arrived {
			return nil, errors.New("the rows of a query did not arrive")
		}
		return out, nil
	}
}

// AheadOne is Ahead for a query with one row; without a row the error is ops.ErrNotFound.
func AheadOne[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) func() (T, error) {
	rows := Ahead(ctx, q, scan, query, args...)
	return func() (T, error) {
		found, err := rows()
		if err == nil && len(found) == 0 {
			err = ops.ErrNotFound
		}
		if err != nil {
			var none T
			return none, err
		}
		return found[0], nil
	}
}
