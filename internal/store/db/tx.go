package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
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

// Scope is what a transaction of WriteIn changes: one environment, given by its name, or by one of its cycles or sessions.
type Scope struct {
	environment    string
	cycle, session int64
	feed           Feed
}

// InEnvironment is the environment with this name.
func InEnvironment(name string) Scope { return Scope{environment: name} }

// OfCycle is the environment of a cycle.
func OfCycle[T ~int64](id T) Scope { return Scope{cycle: int64(id)} }

// InFeed is a feed alone: a row that belongs to nothing else that is written.
func InFeed(feed Feed) Scope { return Scope{feed: feed} }

// OfSession is the environment of a session.
func OfSession[T ~int64](id T) Scope { return Scope{session: int64(id)} }

// WriteIn is Write for rows of one environment. On a server, transactions of different environments run at the same time; each of them
// sees what all earlier ones of its environment wrote.
func (d *DB) WriteIn(ctx context.Context, op string, in Scope, fn func(tx Querier) error) error {
	return d.transact(ctx, op, func(ctx context.Context) (transaction, error) { return d.dialect.beginIn(ctx, in) }, fn)
}

// Reaches limits who is told of what the transaction writes. Without it all are.
func Reaches(tx Querier, reach ops.Reach) {
	if t, ok := tx.(*serverTx); ok {
		t.reach = reach
	}
}

// TellAfter tells others of a transaction of WriteUnordered once it is committed. One that is lost is made up for by the next change.
func TellAfter(tx Querier, reach ops.Reach) {
	if t, ok := tx.(*serverTx); ok {
		t.after, t.reach = true, reach
	}
}

// Feed is a table whose rows are read in the order of their ids, "after N". Its ids must grow in the order of commits.
type Feed int64

// The feeds.
const (
	FeedEvents Feed = iota + 0x10
	FeedGuard
	FeedRecoveries
)

// AddToFeed adds a row to a feed, on a server as the last thing of the transaction and together with others of it: what is written while
// others wait should be little. The text ends where the values of the row follow.
func AddToFeed(ctx context.Context, tx Querier, feed Feed, into string, row ...any) error {
	if t, ok := tx.(*serverTx); ok {
		t.add(feed, into, row)
		return nil
	}
	return Exec(ctx, tx, into+`(`+Placeholders(len(row))+`)`, row...)
}

// OrderFeed must come before a row is added to a feed by other means. The transaction should end soon after it.
func OrderFeed(ctx context.Context, tx Querier, feed Feed) error {
	if t, ok := tx.(*serverTx); ok {
		return t.later(feedLock, []any{int64(WriteLock) + int64(feed)})
	}
	return nil
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

// WriteOne is WriteUnordered for one statement, and returns how many rows it changed.
func (d *DB) WriteOne(ctx context.Context, op, query string, args ...any) (changed int64, err error) {
	if p, ok := d.dialect.(*postgres); ok && d.writer != nil {
		failpoint.Hit(op, ".before")
		defer failpoint.Hit(op, ".after")
		return Affected(ctx, p.writer, query, args...)
	}
	err = d.WriteUnordered(ctx, op, func(tx Querier) error {
		changed, err = Affected(ctx, tx, query, args...)
		return err
	})
	return changed, err
}

// WriteOneIn is WriteIn for one statement, which returns what it wrote.
func (d *DB) WriteOneIn(ctx context.Context, op string, in Scope, reach ops.Reach, what Part) error {
	if p, ok := d.dialect.(*postgres); ok && d.writer != nil {
		failpoint.Hit(op, ".before")
		defer failpoint.Hit(op, ".after")
		return p.writeOneIn(ctx, in, reach, what)
	}
	return d.WriteIn(ctx, op, in, func(tx Querier) error { return Together(ctx, tx, what) })
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
		return fmt.Errorf("begin: %w", d.dialect.note(err))
	}
	if err := fn(tx.Querier); err != nil {
		err = d.dialect.note(err)
		if tx.explain != nil {
			err = tx.explain(err)
		}
		return rollBack(tx, err)
	}
	failpoint.Hit(op, ".before")
	if err := tx.commit(); err != nil {
		return fmt.Errorf("commit: %w", d.dialect.note(err))
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
	tx, err := beginAgain(ctx, d.dialect.snapshot)
	if err != nil {
		return fmt.Errorf("begin: %w", d.dialect.note(err))
	}
	return rollBack(tx, d.dialect.note(fn(tx.Querier)))
}

// ReadLong is Read without a time limit. It reports damage as ErrCorrupt.
func (d *DB) ReadLong(ctx context.Context, fn func(tx Querier) error) error {
	tx, err := d.dialect.beginLong(ctx, true)
	if err != nil {
		return fmt.Errorf("begin: %w", d.dialect.note(asDamage(err)))
	}
	return rollBack(tx, d.dialect.note(asDamage(fn(tx.Querier))))
}

// rollBack ends a transaction without changes and returns err, joined with the error of the rollback if there is one.
func rollBack(tx transaction, err error) error {
	if failed := tx.rollBack(); failed != nil && !errors.Is(failed, sql.ErrTxDone) {
		err = errors.Join(err, fmt.Errorf("roll back: %w", failed))
	}
	return err
}

// batchSizes are the numbers of rows that one statement writes. There are only a few, so that each of them stays prepared. Statements of
// more than 100 rows would cost the database more than they save, and the number of their arguments is limited.
func batchSizes() []int { return []int{100, 10, 1} }

// WriteRows runs statements that write rows of values: before + "(?, ?), (?, ?)" + after. The rows of one statement must have different
// keys.
func WriteRows(ctx context.Context, tx Querier, before, after string, rows [][]any) error {
	for _, n := range batchSizes() {
		if len(rows) < n {
			continue
		}
		row := `(` + Placeholders(len(rows[0])) + `)`
		statement := before + row + strings.Repeat(`, `+row, n-1) + after
		for ; len(rows) >= n; rows = rows[n:] {
			args := make([]any, 0, n*len(rows[0]))
			for _, r := range rows[:n] {
				args = append(args, r...)
			}
			if err := Exec(ctx, tx, statement, args...); err != nil {
				return fmt.Errorf("write %d rows: %w", n, err)
			}
		}
	}
	return nil
}

// ForEachRow runs statements with a condition for each row: before + "(a = ? AND b = ?) OR (…)".
func ForEachRow(ctx context.Context, tx Querier, before, condition string, rows [][]any) error {
	for _, n := range batchSizes() {
		statement := before + `(` + condition + `)` + strings.Repeat(` OR (`+condition+`)`, n-1)
		for ; len(rows) >= n; rows = rows[n:] {
			var args []any
			for _, r := range rows[:n] {
				args = append(args, r...)
			}
			if err := Exec(ctx, tx, statement, args...); err != nil {
				return fmt.Errorf("change %d rows: %w", n, err)
			}
		}
	}
	return nil
}

// Distinct splits rows into runs in which no key comes twice, in their order.
func Distinct[T any, K comparable](rows []T, key func(T) K) [][]T {
	var out [][]T
	seen := map[K]bool{}
	start := 0
	for i, r := range rows {
		k := key(r)
		if seen[k] {
			out = append(out, rows[start:i])
			start = i
			clear(seen)
		}
		seen[k] = true
	}
	if start < len(rows) {
		out = append(out, rows[start:])
	}
	return out
}
