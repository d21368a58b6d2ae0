package db

import (
	"context"
	"database/sql"
	"time"

	"claudeops/internal/ops"
)

// dialect is what SQLite and PostgreSQL do differently apart from the text of a query, by purpose.
type dialect interface {
	connector
	migrator
	writeBeginner
	readBeginner
	notifier
	checker
	compactor
	numberer
}

type connector interface {
	// open and openReader refuse a database that is not ours, before they change anything in it.
	open(ctx context.Context) (writer, reader *pool, err error)
	openReader(ctx context.Context) (*pool, error)
	// checkpoint leaves the database in one piece when nothing reads from it any more.
	checkpoint(ctx context.Context) error
	close() error
}

type migrator interface {
	// migrate applies the missing migrations; several processes may do so at once.
	migrate(ctx context.Context) error
	// beforeMigration backs up a database that has this schema, where that is possible. Done is to be called after the migration.
	beforeMigration(ctx context.Context, schema int64) (done func() error, err error)
}

type writeBeginner interface {
	// begin opens a transaction that sees all earlier ones and is seen by all later ones: only one is open at a time.
	begin(ctx context.Context) (transaction, error)
	// beginIn opens one that sees all earlier ones of the same environment and is seen by its later ones.
	beginIn(ctx context.Context, in Scope) (transaction, error)
	// beginUnordered opens one that does not wait for other writers and sends no notification.
	beginUnordered(ctx context.Context) (transaction, error)
	// beginUrgent is beginUnordered with connections reserved for it.
	beginUrgent(ctx context.Context) (transaction, error)
}

type readBeginner interface {
	// snapshot opens a transaction that reads everything as it was at one moment.
	snapshot(ctx context.Context) (transaction, error)
	// beginLong opens a transaction without a time limit.
	beginLong(ctx context.Context, readOnly bool) (transaction, error)
}

type notifier interface {
	// now is the time that all processes of the database share.
	now(ctx context.Context, q Querier) (time.Time, error)
	// clock tells the same time without asking the database.
	clock() time.Time
	// skew is how far this machine's clock is ahead of it.
	skew() (ahead time.Duration, known bool)
	// listen calls changed after other processes wrote, until ctx ends.
	listen(ctx context.Context, changed func(ops.Reach)) error
}

type checker interface {
	// present is ErrReplaced when the path of an open file leads to another file or to none, and ErrCorrupt after it was seen to be damaged.
	present() error
	// note remembers an error that says that the file is damaged, for present, and returns it.
	note(err error) error
	// advise adds to an error of opening what to do about it.
	advise(err error) error
	// check looks for damage and reports it as ErrCorrupt.
	check(ctx context.Context) error
	// flaws lists the damage; with full it reads everything.
	flaws(ctx context.Context, full bool) ([]Flaw, error)
}

type compactor interface {
	// giveBack returns some free space to the system and reports how many bytes.
	giveBack(ctx context.Context, pace *Pace) (int64, error)
}

type numberer interface {
	// lastNumber is the last id that the database gave to a row of the table.
	lastNumber(ctx context.Context, q Querier, table string) (int64, error)
	// setLastNumber makes the next row of the table get the following id.
	setLastNumber(ctx context.Context, q Querier, table string, last int64) error
}

// IsUnique reports whether an error means that a unique key is taken.
func IsUnique(err error) bool { return sqliteUnique(err) || postgresUnique(err) }

// isCorrupt reports whether the database itself says that it is damaged.
func isCorrupt(err error) bool { return sqliteCorrupt(err) || postgresCorrupt(err) }

func isMissingTable(err error) bool { return sqliteMissingTable(err) || postgresMissingTable(err) }

// numbered tells whether a database takes placeholders by their numbers.
type numbered bool

func (n numbered) bind(query string, args []any) (string, []any) {
	if n {
		return bind(query, args)
	}
	return query, args
}

// pool is a set of connections that accepts the queries of this package.
type pool struct {
	*sql.DB
	numbered
	note  func(error) error // of what goes wrong; nil: nobody is told
	again bool              // it only reads: what a cut connection did not answer is asked again
}

func (p *pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args = p.bind(query, args)
	result, err := p.DB.ExecContext(ctx, query, args...)
	return result, p.noted(err)
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (Rows, error) {
	query, args = p.bind(query, args)
	rows, err := orNone(p.DB.QueryContext(p.trusting(ctx), query, args...))
	if p.again && ConnectionLost(err) {
		rows, err = orNone(p.DB.QueryContext(ctx, query, args...))
	}
	if err != nil {
		return nil, p.noted(err)
	}
	return notedRows{rows, p}, nil
}

func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	query, args = p.bind(query, args)
	row := p.DB.QueryRowContext(p.trusting(ctx), query, args...)
	if p.again && ConnectionLost(row.Err()) {
		row = p.DB.QueryRowContext(ctx, query, args...)
	}
	return notedRow{row, p}
}

// trusting lets a connection be used without asking first whether it is still there.
func (p *pool) trusting(ctx context.Context) context.Context {
	if !p.again {
		return ctx
	}
	return context.WithValue(ctx, unasked{}, true)
}

func (p *pool) noted(err error) error {
	if p.note == nil || err == nil {
		return err
	}
	return p.note(err)
}

type notedRow struct {
	Row
	pool *pool
}

func (r notedRow) Scan(dest ...any) error { return r.pool.noted(r.Row.Scan(dest...)) }

type notedRows struct {
	Rows
	pool *pool
}

func (r notedRows) Err() error { return r.pool.noted(r.Rows.Err()) }
