package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// serverTx is an open transaction on a server.
//
// It uses its own context instead of those that it is given: that one ends with the caller's or after transactionTimeout, so that a
// server that does not answer blocks nothing for long.
type serverTx struct {
	pgx.Tx
	ctx  context.Context //nolint:containedctx // see above
	bind func(string, []any) (string, []any)
	tail pgx.Batch // sent before the commit: rows of feeds, for which others wait, and the notification
	held map[Feed]bool
}

// openTx takes a seat and a connection, begins, and waits for a lock if there is one.
func (p *postgres) openTx(
	ctx context.Context, seats chan struct{}, options pgx.TxOptions, lock string, args ...any,
) (_ transaction, _ *serverTx, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout, errNoAnswer)
	select {
	case seats <- struct{}{}:
	case <-ctx.Done():
		defer cancel()
		return transaction{}, nil, explain(ctx, context.Cause(ctx))
	}
	free := func() { <-seats; cancel() }
	tx, err := p.pool.BeginTx(ctx, options)
	if err == nil && lock != "" {
		if _, err = tx.Exec(ctx, lock, args...); err != nil {
			_ = tx.Rollback(ctx)
		}
	}
	if err != nil {
		err = explain(ctx, err)
		free()
		return transaction{}, nil, err
	}
	t := &serverTx{Tx: tx, ctx: ctx, bind: p.binder.bind, held: map[Feed]bool{}}
	return transaction{
		Querier:  t,
		commit:   func() error { defer free(); return explain(ctx, t.end()) },
		rollBack: func() error { defer free(); return ignoreClosed(tx.Rollback(ctx)) },
		explain:  func(err error) error { return explain(ctx, err) },
	}, t, nil
}

// ignoreClosed ignores that a connection, and with it the transaction, has ended already.
func ignoreClosed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) || ConnectionLost(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// end sends what comes last, and commits.
func (t *serverTx) end() error {
	if t.tail.Len() > 0 {
		if err := t.SendBatch(t.ctx, &t.tail).Close(); err != nil {
			return errors.Join(err, ignoreClosed(t.Rollback(t.ctx)))
		}
	}
	return t.Commit(t.ctx)
}

const feedLock = `SELECT pg_advisory_xact_lock($1)`

// add writes a row of a feed before the commit, when no other open transaction adds rows to it.
func (t *serverTx) add(feed Feed, query string, args []any) {
	if !t.held[feed] {
		t.held[feed] = true
		t.tail.Queue(feedLock, int64(WriteLock)+int64(feed))
	}
	query, args = t.bind(query, args)
	t.tail.Queue(query, args...)
}

func (t *serverTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	query, args = t.bind(query, args)
	tag, err := t.Exec(t.ctx, query, args...) //nolint:contextcheck // see serverTx
	if err != nil {
		return nil, err
	}
	return changedRows(tag.RowsAffected()), nil
}

func (t *serverTx) QueryContext(_ context.Context, query string, args ...any) (Rows, error) {
	query, args = t.bind(query, args)
	rows, err := t.Query(t.ctx, query, args...) //nolint:contextcheck // see serverTx
	if err != nil {
		return nil, err
	}
	return serverRows{rows}, nil
}

func (t *serverTx) QueryRowContext(_ context.Context, query string, args ...any) Row {
	query, args = t.bind(query, args)
	return t.QueryRow(t.ctx, query, args...) //nolint:contextcheck // see serverTx
}

// changedRows is the result of a statement.
type changedRows int64

func (changedRows) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (r changedRows) RowsAffected() (int64, error) { return int64(r), nil }

type serverRows struct{ pgx.Rows }

func (r serverRows) Close() error {
	r.Rows.Close()
	return r.Err()
}

// Server is a transaction on a PostgreSQL server as others use it, nil for a file. They must neither commit nor roll it back.
func Server(tx Querier) pgx.Tx {
	if t, ok := tx.(*serverTx); ok {
		return lentTx{t.Tx}
	}
	return nil
}

var errLent = errors.New("the transaction belongs to the store")

// lentTx is a transaction whose end is decided elsewhere.
type lentTx struct{ pgx.Tx }

func (lentTx) Begin(context.Context) (pgx.Tx, error) { return nil, fmt.Errorf("begin: %w", errLent) }
func (lentTx) Commit(context.Context) error          { return fmt.Errorf("commit: %w", errLent) }
func (lentTx) Rollback(context.Context) error        { return fmt.Errorf("roll back: %w", errLent) }
