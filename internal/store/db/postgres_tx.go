package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const commitStatement = "commit"

// errRolledBack is what a commit of a failed transaction returns.
var errRolledBack = errors.New("the server rolled the transaction back")

// serverTx is an open transaction on a server. Statements whose result nobody waits for are collected and sent together with the next
// one, so a transaction takes a few round trips and not one per statement.
//
// It uses its own context instead of those that it is given: that one ends with the caller's or after transactionTimeout, so that a
// server that does not answer blocks nothing for long.
type serverTx struct {
	ctx     context.Context //nolint:containedctx // see above
	cancel  context.CancelFunc
	pool    *pgxpool.Pool
	conn    *pgxpool.Conn
	free    func()
	bind    func(string, []any) (string, []any)
	pending []statement
	tail    []statement
	ordered bool  // the tail waits for other writers of feeds
	begun   bool  // something was sent
	failed  error // of something that was sent
}

// statement is one that was not sent yet.
type statement struct {
	query string
	args  []any
	done  func(affected int64, err error) error
	read  func(Rows) error // not nil: it is a query
}

// openTx takes a connection. The statements that begin the transaction are sent with the first one that somebody waits for.
func (p *postgres) openTx(ctx context.Context, seats chan struct{}, begin string, first ...statement) (transaction, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout, errNoAnswer)
	select {
	case seats <- struct{}{}:
	case <-ctx.Done():
		defer cancel()
		return transaction{}, explain(ctx, context.Cause(ctx))
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		<-seats
		defer cancel()
		return transaction{}, explain(ctx, err)
	}
	t := &serverTx{
		ctx: ctx, cancel: cancel, pool: p.pool, conn: conn, free: func() { <-seats }, bind: p.binder.bind,
		pending: append([]statement{plainStatement(begin)}, first...),
	}
	return transaction{
		//nolint:contextcheck // the transaction has it
		Querier: t, commit: func() error { return explain(ctx, t.commit()) }, rollBack: t.rollBack,
		explain: func(err error) error { return explain(ctx, err) },
	}, nil
}

func plainStatement(query string, args ...any) statement {
	return statement{query: query, args: args, done: func(_ int64, err error) error { return err }}
}

func (t *serverTx) later(query string, args []any, done func(int64, error) error) {
	query, args = t.bind(query, args)
	t.pending = append(t.pending, statement{query: query, args: args, done: done})
}

func (t *serverTx) ahead(query string, args []any, read func(Rows) error) {
	query, args = t.bind(query, args)
	t.pending = append(t.pending, statement{query: query, args: args, read: read})
}

func (t *serverTx) atEnd(query string, args []any) {
	query, args = t.bind(query, args)
	t.tail = append(t.tail, plainStatement(query, args...))
}

// order waits until no other open transaction adds rows to the feed.
func (t *serverTx) order(feed Feed, atEnd bool) {
	lock := plainStatement(`SELECT pg_advisory_xact_lock($1)`, int64(WriteLock)+int64(feed))
	if !atEnd {
		t.pending = append(t.pending, lock)
	} else if !t.ordered {
		t.ordered = true
		t.tail = append(t.tail, lock)
	}
}

func (t *serverTx) receive() error {
	results, err := t.send(nil)
	if err != nil || results == nil {
		return err
	}
	return t.fail(results.Close())
}

// send sends what was collected and then the last statement, if there is one, and reads all results but the last one's. The caller reads
// that and closes the results.
func (t *serverTx) send(last *statement) (pgx.BatchResults, error) {
	if t.failed != nil {
		return nil, t.failed
	}
	all := t.pending
	t.pending = nil
	if last != nil {
		all = append(all, *last)
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // nothing to send
	}
	results, err := t.sendAll(all, last != nil)
	ends := last != nil && last.query == commitStatement
	if err != nil && !t.begun && !ends && ConnectionLost(err) && t.ctx.Err() == nil {
		// The connection was cut while nothing used it. Nothing was committed, so all of it can be sent on another one. What ends with the
		// commit is not sent again: the server may have done it, and only the answer was lost.
		if err = t.reconnect(); err == nil {
			results, err = t.sendAll(all, last != nil)
		}
	}
	t.begun = true
	return results, t.fail(err)
}

func (t *serverTx) reconnect() error {
	_ = t.conn.Conn().Close(t.ctx)
	t.conn.Release()
	conn, err := t.pool.Acquire(t.ctx)
	if err != nil {
		t.conn = nil
		return err
	}
	t.conn = conn
	return nil
}

func (t *serverTx) sendAll(all []statement, keepLast bool) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	for _, s := range all {
		batch.Queue(s.query, s.args...)
	}
	results := t.conn.SendBatch(t.ctx, batch)
	read := all
	if keepLast {
		read = all[:len(all)-1]
	}
	for _, s := range read {
		if err := s.receive(results); err != nil {
			_ = results.Close() // it repeats the error
			return nil, err
		}
	}
	return results, nil
}

func (s statement) receive(results pgx.BatchResults) error {
	if s.read == nil {
		tag, err := results.Exec()
		return s.done(tag.RowsAffected(), err)
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	err = s.read(serverRows{rows, nil})
	rows.Close()
	return errors.Join(err, rows.Err())
}

// fail remembers an error: the server refuses everything that follows it.
func (t *serverTx) fail(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

func (t *serverTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	query, args = t.bind(query, args)
	results, err := t.send(&statement{query: query, args: args})
	if err != nil {
		return nil, err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return changedRows(tag.RowsAffected()), nil
}

func (t *serverTx) QueryContext(_ context.Context, query string, args ...any) (Rows, error) {
	query, args = t.bind(query, args)
	results, err := t.send(&statement{query: query, args: args})
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // it repeats the error
		return nil, err
	}
	return serverRows{rows, results}, nil
}

func (t *serverTx) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	rows, err := t.QueryContext(ctx, query, args...)
	return serverRow{rows, err}
}

// commit sends what is left and the commit in one round trip.
func (t *serverTx) commit() error {
	defer t.release()
	if !t.begun && len(t.pending) == 0 {
		return nil
	}
	t.pending = append(t.pending, t.tail...)
	results, err := t.send(&statement{query: commitStatement})
	if err != nil {
		return errors.Join(err, t.undo())
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err == nil && tag.String() != "COMMIT" {
		err = errRolledBack
	}
	return err
}

func (t *serverTx) rollBack() error {
	defer t.release()
	if !t.begun {
		return nil
	}
	return t.undo()
}

func (t *serverTx) undo() error {
	if t.conn == nil || t.conn.Conn().IsClosed() {
		return nil
	}
	if _, err := t.conn.Exec(t.ctx, "rollback"); err != nil {
		_ = t.conn.Conn().Close(context.WithoutCancel(t.ctx)) // that ends the transaction too
	}
	return nil
}

func (t *serverTx) release() {
	if t.conn != nil {
		t.conn.Release()
	}
	t.free()
	t.cancel()
}

// changedRows is the result of a statement.
type changedRows int64

func (changedRows) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (r changedRows) RowsAffected() (int64, error) { return int64(r), nil }

// serverRows are rows of a server. Closing them ends the round trip that they came with.
type serverRows struct {
	pgx.Rows
	results pgx.BatchResults // nil: somebody else closes it
}

func (r serverRows) Close() error {
	r.Rows.Close()
	err := r.Err()
	if r.results == nil {
		return err
	}
	if closed := r.results.Close(); err == nil {
		err = closed
	}
	return err
}

// serverRow is the only row of a query.
type serverRow struct {
	rows Rows
	err  error
}

func (r serverRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	var err error
	if r.rows.Next() {
		err = r.rows.Scan(dest...)
	} else if err = r.rows.Err(); err == nil {
		err = sql.ErrNoRows
	}
	if closed := r.rows.Close(); err == nil {
		err = closed
	}
	return err
}

// Server is a transaction on a PostgreSQL server as others use it, nil for a file. They must neither commit nor roll it back.
func Server(tx Querier) pgx.Tx {
	if t, ok := tx.(*serverTx); ok {
		return lentTx{t}
	}
	return nil
}

var errLent = errors.New("the transaction belongs to the store")

// lentTx is a transaction whose end is decided elsewhere.
type lentTx struct{ t *serverTx }

func (l lentTx) Begin(context.Context) (pgx.Tx, error) { return nil, fmt.Errorf("begin: %w", errLent) }
func (l lentTx) Commit(context.Context) error          { return fmt.Errorf("commit: %w", errLent) }
func (l lentTx) Rollback(context.Context) error        { return fmt.Errorf("roll back: %w", errLent) }
func (l lentTx) LargeObjects() pgx.LargeObjects        { return pgx.LargeObjects{} }
func (l lentTx) Conn() *pgx.Conn                       { return l.t.conn.Conn() }

func (l lentTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, fmt.Errorf("copy: %w", errors.ErrUnsupported)
}

func (l lentTx) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	if err := l.t.receive(); err != nil {
		return nil, err
	}
	return l.t.conn.Conn().Prepare(ctx, name, query)
}

func (l lentTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := l.t.receive(); err != nil {
		return failedBatch{err}
	}
	return l.t.conn.SendBatch(ctx, b)
}

func (l lentTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	if err := l.t.receive(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return l.t.conn.Exec(ctx, query, args...)
}

func (l lentTx) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	if err := l.t.receive(); err != nil {
		return nil, err
	}
	return l.t.conn.Query(ctx, query, args...)
}

func (l lentTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	if err := l.t.receive(); err != nil {
		return serverRow{nil, err}
	}
	return l.t.conn.QueryRow(ctx, query, args...)
}

// failedBatch is the result of a batch that was not sent.
type failedBatch struct{ err error }

func (b failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b failedBatch) Query() (pgx.Rows, error)         { return nil, b.err }
func (b failedBatch) QueryRow() pgx.Row                { return serverRow{nil, b.err} }
func (b failedBatch) Close() error                     { return b.err }
