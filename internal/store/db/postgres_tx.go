package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"claudeops/internal/ops"
)

// serverTx is an open transaction on a server. The way there is what takes time, so a statement whose result nobody waits for goes with
// the next one that somebody waits for: the beginning with the first question, what comes last with the commit.
//
// It uses its own context instead of those that it is given: that one ends with the caller's or after transactionTimeout, so that a
// server that does not answer blocks nothing for long.
type serverTx struct {
	pool  *pgxpool.Pool
	conn  *pgxpool.Conn
	ctx   context.Context //nolint:containedctx // see above
	begun bool            // the server has answered
	// failed is why what came before was not done.
	failed error
	lock   []any // the arguments of its lock, with what others are told with the commit
	ahead  []statement
	tail   []rowsOf // goes with the commit: rows of feeds, for which others wait
	token  string   // of this process
	reach  ops.Reach
	// Others are told with the commit, or after it. Transactions that tell with the commit are committed one after the other.
	tells, after bool
}

// rowsOf are rows of a feed.
type rowsOf struct {
	feed  Feed
	into  string
	rows  int
	value []any
}

type statement struct {
	query string
	args  []any
}

// mostAhead bounds what is kept back.
const mostAhead = 100

// unasked marks that a connection may be one that was cut: it is found out with the first question, which is asked again then.
type unasked struct{}

// openTx takes a seat and a connection. The transaction begins, and waits for a lock if there is one, with its first question.
func (p *postgres) openTx(ctx context.Context, seats chan struct{}, begin string) (_ transaction, _ *serverTx, err error) {
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, unasked{}, true), transactionTimeout, errNoAnswer)
	select {
	case seats <- struct{}{}:
	case <-ctx.Done():
		defer cancel()
		return transaction{}, nil, explain(ctx, context.Cause(ctx))
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		err = explain(ctx, err)
		<-seats
		cancel()
		return transaction{}, nil, err
	}
	t := &serverTx{
		pool: p.pool, conn: conn, ctx: ctx, token: p.token, ahead: []statement{{query: begin}},
	}
	free := func() { t.conn.Release(); <-seats; cancel() }
	return transaction{
		Querier:  t,
		commit:   func() error { defer free(); return explain(ctx, t.end()) },
		rollBack: func() error { defer free(); return ignoreClosed(t.rollBack()) },
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

// later sends a statement with the next one. What is wrong with it is told then, and nothing is committed.
func (t *serverTx) later(query string, args []any) error {
	query, args = bind(query, args)
	t.ahead = append(t.ahead, statement{query, args})
	if len(t.ahead) > mostAhead {
		return t.flush()
	}
	return nil
}

// mostRows bounds how many rows one statement writes: each number of them is prepared.
const mostRows = 10

// toldAt is where the lock has what others are told.
const toldAt = 2

// ask sends what waits and more, and returns the results from that of the first of those on.
func (t *serverTx) ask(more ...statement) (pgx.BatchResults, error) {
	if t.failed != nil { // nothing may run outside the transaction
		return nil, t.failed
	}
	if t.tells && t.lock[toldAt] == nil {
		t.lock[toldAt] = told(t.token, t.reach)
	}
	waiting := len(t.ahead)
	t.ahead = append(t.ahead, more...)
	results, err := t.send(waiting)
	if !t.begun && ConnectionLost(err) && t.ctx.Err() == nil { // it was cut while nothing used it, and nothing has begun
		conn, failed := t.pool.Acquire(t.ctx)
		if failed != nil {
			t.failed = failed
			return nil, failed
		}
		t.conn.Release()
		t.conn = conn
		results, err = t.send(waiting)
	}
	t.ahead, t.begun, t.failed = nil, t.begun || err == nil, err
	return results, err
}

func (t *serverTx) send(waiting int) (pgx.BatchResults, error) {
	batch := new(pgx.Batch)
	for _, s := range t.ahead {
		batch.Queue(s.query, s.args...)
	}
	results := t.conn.SendBatch(t.ctx, batch)
	for range waiting {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // says the same
			return nil, err
		}
	}
	return results, nil
}

// flush sends what waits.
func (t *serverTx) flush() error {
	if len(t.ahead) == 0 {
		return nil
	}
	last := t.ahead[len(t.ahead)-1]
	t.ahead = t.ahead[:len(t.ahead)-1]
	_, err := t.exec(last.query, last.args)
	return err
}

func (t *serverTx) exec(query string, args []any) (tag pgconn.CommandTag, err error) {
	results, err := t.ask(statement{query, args})
	if err != nil {
		return tag, err
	}
	tag, err = results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

func (t *serverTx) query(query string, args []any) (pgx.Rows, error) {
	results, err := t.ask(statement{query, args})
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // says the same
		return nil, err
	}
	return answeredRows{rows, results}, nil
}

func (t *serverTx) together(parts []Part) error {
	questions := make([]statement, len(parts))
	for i, p := range parts {
		questions[i].query, questions[i].args = bind(p.query, p.args)
	}
	if len(parts) == 0 {
		return nil
	}
	results, err := t.ask(questions...)
	if err != nil {
		return err
	}
	for _, p := range parts {
		rows, err := results.Query()
		if err == nil {
			err = p.read(serverRows{rows})
		}
		if err != nil {
			_ = results.Close() // says the same
			return err
		}
	}
	return results.Close()
}

// end sends what comes last, and commits. A commit whose answer is lost may have happened, so it never goes with the first question,
// which may be asked twice.
func (t *serverTx) end() error {
	if !t.begun {
		if err := t.flush(); err != nil {
			return errors.Join(err, ignoreClosed(t.rollBack()))
		}
	}
	for i, r := range t.tail {
		if i == 0 || t.tail[i-1].feed != r.feed {
			t.ahead = append(t.ahead, statement{feedLock, []any{int64(WriteLock) + int64(r.feed)}})
		}
		row := `(` + Placeholders(len(r.value)/r.rows) + `)`
		query, args := bind(r.into+row+strings.Repeat(`, `+row, r.rows-1), r.value)
		t.ahead = append(t.ahead, statement{query, args})
	}
	const notify = `SELECT pg_notify($1, $2)`
	last, reach := []statement{{query: `COMMIT`}}, told(t.token, t.reach)
	switch {
	case t.after:
		last = append(last, statement{notify, []any{channel, reach}})
	case t.tells && t.lock[toldAt] != reach:
		t.ahead = append(t.ahead, statement{notify, []any{channel, reach}})
	}
	var tag pgconn.CommandTag
	results, err := t.ask(last...)
	if err == nil {
		tag, err = results.Exec()
		_ = results.Close() // what comes after the commit may be lost
	}
	switch {
	case err != nil:
		return errors.Join(err, ignoreClosed(t.rollBack()))
	case tag.String() == "ROLLBACK":
		return pgx.ErrTxCommitRollback
	}
	return nil
}

func (t *serverTx) rollBack() error {
	if t.conn.Conn().PgConn().TxStatus() == 'I' { // none is open
		return nil
	}
	_, err := t.conn.Exec(t.ctx, `ROLLBACK`)
	return err
}

const feedLock = `SELECT pg_advisory_xact_lock($1)`

// add writes a row of a feed with the commit, when no other open transaction adds rows to it.
func (t *serverTx) add(feed Feed, into string, row []any) {
	if n := len(t.tail) - 1; n >= 0 && t.tail[n].into == into && t.tail[n].rows < mostRows {
		t.tail[n].rows, t.tail[n].value = t.tail[n].rows+1, append(t.tail[n].value, row...)
		return
	}
	t.tail = append(t.tail, rowsOf{feed, into, 1, slices.Clone(row)})
}

func (t *serverTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	query, args = bind(query, args)
	tag, err := t.exec(query, args)
	if err != nil {
		return nil, err
	}
	return changedRows(tag.RowsAffected()), nil
}

func (t *serverTx) QueryContext(_ context.Context, query string, args ...any) (Rows, error) {
	query, args = bind(query, args)
	rows, err := t.query(query, args)
	if err != nil {
		return nil, err
	}
	return serverRows{rows}, nil
}

func (t *serverTx) QueryRowContext(_ context.Context, query string, args ...any) Row {
	query, args = bind(query, args)
	return t.row(query, args)
}

func (t *serverTx) row(query string, args []any) pgx.Row {
	rows, err := t.query(query, args)
	return answeredRow{rows, err}
}

// changedRows is the result of a statement.
type changedRows int64

func (changedRows) LastInsertId() (int64, error)   { return 0, errors.ErrUnsupported }
func (r changedRows) RowsAffected() (int64, error) { return int64(r), nil }

// answeredRows are the rows of the last statement of a batch.
type answeredRows struct {
	pgx.Rows
	batch pgx.BatchResults
}

func (r answeredRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r answeredRows) Close() {
	r.Rows.Close()
	_ = r.batch.Close() // Err has what matters
}

type answeredRow struct {
	rows pgx.Rows
	err  error
}

func (r answeredRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

type serverRows struct{ pgx.Rows }

func (r serverRows) Close() error {
	r.Rows.Close()
	return r.Err()
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

func (lentTx) Begin(context.Context) (pgx.Tx, error) { return nil, fmt.Errorf("begin: %w", errLent) }
func (lentTx) Commit(context.Context) error          { return fmt.Errorf("commit: %w", errLent) }
func (lentTx) Rollback(context.Context) error        { return fmt.Errorf("roll back: %w", errLent) }

func (l lentTx) Exec(_ context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	return l.t.exec(query, args)
}

func (l lentTx) Query(_ context.Context, query string, args ...any) (pgx.Rows, error) {
	return l.t.query(query, args)
}

func (l lentTx) QueryRow(_ context.Context, query string, args ...any) pgx.Row {
	return l.t.row(query, args)
}

func (l lentTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	_ = l.t.flush()                       // an error ends the transaction, and so the batch
	return l.t.conn.SendBatch(l.t.ctx, b) //nolint:contextcheck // that of the transaction
}

func (lentTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, fmt.Errorf("copy rows: %w", errLent)
}

func (lentTx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, fmt.Errorf("prepare statement: %w", errLent)
}

func (lentTx) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }
func (l lentTx) Conn() *pgx.Conn              { return l.t.conn.Conn() }
