package store

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// dialect is what the databases do differently beyond the text of a query. That text is one for both: with ? for each
// argument, in words that both understand.
type dialect interface {
	// open returns the connections of a store that writes, look those of one that only reads.
	open(ctx context.Context) (writer, reader *pool, err error)
	look(ctx context.Context) (reader *pool, err error)
	// migrate applies what is missing of the schema; several processes may do so at once.
	migrate(ctx context.Context, log *slog.Logger) error
	// foreign reports whether the tables of a database, whose schema has a version or 0, are another program's.
	foreign(ctx context.Context, q querier, version int64) (bool, error)
	// advise adds to an error of opening what can be done about it.
	advise(err error) error
	close() error

	// begin opens a transaction that sees all earlier ones, and that all later ones see: there is one at a time.
	begin(ctx context.Context) (transaction, error)
	// beside opens one that waits for no other writer and tells nobody, quiet one that does not even wait for those.
	beside(ctx context.Context) (transaction, error)
	quiet(ctx context.Context) (transaction, error)
	// snapshot opens one that reads everything as it was at one moment.
	snapshot(ctx context.Context) (transaction, error)

	// now is the time that all processes of the database share.
	now(ctx context.Context, q querier) (time.Time, error)
	// tell lets other processes know that something was written.
	tell(ctx context.Context)
	// listen calls changed after other processes wrote, until ctx ends.
	listen(ctx context.Context, changed func()) error

	// marked reports whether the journal itself records that a process works on it, and rest leaves the database tidy after
	// such a process, once nobody reads any more.
	marked() bool
	rest(ctx context.Context) error
	// check reads what can be damaged.
	check(ctx context.Context) error
}

// transaction is an open transaction, and what its queries are asked of.
type transaction struct {
	querier
	commit   func() error
	rollBack func() error
	// explain adds to an error what can be done about it; nil: nothing.
	explain func(error) error
}

func isUnique(err error) bool { return sqliteUnique(err) || postgresUnique(err) }

// isCorrupt reports whether the database says of itself that it is damaged.
func isCorrupt(err error) bool { return sqliteCorrupt(err) || postgresCorrupt(err) }

func isMissingTable(err error) bool { return sqliteMissingTable(err) || postgresMissingTable(err) }

// pool are connections that take the texts of this package.
type pool struct {
	*sql.DB
	bind func(query string, args []any) (string, []any) // nil: as they are
}

func (p *pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if p.bind != nil {
		query, args = p.bind(query, args)
	}
	return p.DB.ExecContext(ctx, query, args...)
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.bind != nil {
		query, args = p.bind(query, args)
	}
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if p.bind != nil {
		query, args = p.bind(query, args)
	}
	return p.DB.QueryRowContext(ctx, query, args...)
}
