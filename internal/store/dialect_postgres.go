package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// What only PostgreSQL says or needs stands in the files of this name.

const (
	// writeLock is the number that every process of the database takes before it writes. One at a time writes, as on SQLite: rows
	// get their numbers in the order in which they are committed, so that reading "after N" skips none, and what is counted before
	// it is reserved is counted exactly.
	writeLock = 0x636c_6175_6465_0001
	// migrateLock is taken by the one that migrates.
	migrateLock = 0x636c_6175_6465_0002
	// channel is where writers say that they wrote.
	channel = "claudeops"

	// A host that was stopped inside a transaction loses it, and those that wait for it outlast that.
	idleInTransaction = 5 * time.Second
	lockTimeout       = 7 * time.Second
	statementTimeout  = 30 * time.Second
	// transactionTimeout ends a transaction whose server does not answer at all.
	transactionTimeout = 30 * time.Second
	// deadAfter is how long a cut connection stays unnoticed.
	deadAfter      = 5 * time.Second
	connectTimeout = 5 * time.Second

	// Of the pool's connections one writes, some read, some store output, and what keeps a host alive has its own; the others are
	// for whoever shares the pool.
	poolSize    = 16
	outputConns = 4
	leaseConns  = 2

	oldestServer = 130000
)

// postgres is a database on a PostgreSQL server.
type postgres struct {
	config *pgxpool.Config
	name   string // where it is, without the password
	token  string // tells this process's own notifications from others'
	texts  *placeholders
	log    *slog.Logger

	pool                           *pgxpool.Pool
	writer, reader, output, leases *pool
}

func newPostgres(address string, log *slog.Logger) (*postgres, error) {
	config, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	c := config.ConnConfig
	p := &postgres{config: config, name: describeServer(c.Config), token: rand.Text(), texts: newPlaceholders(), log: log}
	settings := map[string]string{
		"application_name":                    "claudeops",
		"lock_timeout":                        milliseconds(lockTimeout),
		"statement_timeout":                   milliseconds(statementTimeout),
		"idle_in_transaction_session_timeout": milliseconds(idleInTransaction),
		"default_transaction_isolation":       "read committed",
		"TimeZone":                            "UTC",
	}
	if !strings.HasPrefix(c.Host, "/") {
		settings["tcp_user_timeout"] = milliseconds(2 * deadAfter) // of the server's side: a host that is gone holds no lock
	}
	for name, value := range settings {
		if _, chosen := c.RuntimeParams[name]; !chosen {
			c.RuntimeParams[name] = value
		}
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	c.DialFunc = dialer(c.ConnectTimeout).DialContext
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = poolSize
	}
	return p, nil
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// dialer makes connections that notice within deadAfter that the other side is gone.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter * 2 / 5, Interval: deadAfter / 5, Count: 3},
		Control:         limitUnanswered,
	}
}

func (p *postgres) open(ctx context.Context) (writer, reader *pool, err error) {
	if err := p.connect(ctx); err != nil {
		return nil, nil, err
	}
	p.writer, p.output, p.leases = p.connections(1), p.connections(outputConns), p.connections(leaseConns)
	return p.writer, p.reader, nil
}

func (p *postgres) look(ctx context.Context) (reader *pool, err error) {
	p.config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p.reader, nil
}

// connect makes the first connection and refuses a server that cannot carry the journal.
func (p *postgres) connect(ctx context.Context) error {
	var err error
	if p.pool, err = pgxpool.NewWithConfig(ctx, p.config); err != nil {
		return err
	}
	var version int
	var encoding string
	var schema *string
	err = p.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_schema()::text`).
		Scan(&version, &encoding, &schema)
	switch {
	case err != nil:
	case version < oldestServer:
		err = fmt.Errorf("the server is PostgreSQL %d.%d: use 13 or newer", version/10000, version%10000)
	case encoding != "UTF8":
		err = fmt.Errorf("the database stores text as %s: create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	case schema == nil:
		err = errors.New("no schema of its search_path exists: create one, or name one in the address with ?search_path=NAME")
	}
	if err != nil {
		p.pool.Close()
		return err
	}
	p.reader = p.connections(readers)
	return nil
}

// connections are some of the pool's, as the rest of the package uses them.
func (p *postgres) connections(most int) *pool {
	db := stdlib.OpenDBFromPool(p.pool)
	db.SetMaxOpenConns(most)
	return &pool{DB: db, bind: p.texts.bind}
}

// close waits for the connections that are in use, but not for ever.
func (p *postgres) close() error {
	if p.pool == nil {
		return nil
	}
	var err error
	if p.output != nil {
		err = errors.Join(p.output.Close(), p.leases.Close())
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.pool.Close()
	}()
	select {
	case <-closed:
		return err
	case <-time.After(closeTimeout):
		return errors.Join(err, errors.New("somebody still uses a connection"))
	}
}

// boundTx is a transaction that takes the texts of this package. Its own context, which ends with the caller's or sooner,
// stands for the one that it is given: a server that does not answer keeps nobody for ever.
type boundTx struct {
	tx   *sql.Tx
	ctx  context.Context //nolint:containedctx // see above
	bind func(string, []any) (string, []any)
}

func (t boundTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	query, args = t.bind(query, args)
	return t.tx.ExecContext(t.ctx, query, args...) //nolint:contextcheck // see boundTx
}

func (t boundTx) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = t.bind(query, args)
	return t.tx.QueryContext(t.ctx, query, args...) //nolint:contextcheck // see boundTx
}

func (t boundTx) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	query, args = t.bind(query, args)
	return t.tx.QueryRowContext(t.ctx, query, args...) //nolint:contextcheck // see boundTx
}

// transaction opens a transaction and does first what every one of its kind does.
func (p *postgres) transaction(ctx context.Context, db *pool, options *sql.TxOptions, first string, args ...any) (transaction, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout, errSilent)
	explain := func(err error) error { return explain(ctx, err) }
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		defer cancel()
		return transaction{}, explain(err)
	}
	out := transaction{
		querier:  boundTx{tx, ctx, p.texts.bind},
		commit:   func() error { defer cancel(); return explain(tx.Commit()) },
		rollBack: func() error { defer cancel(); return tx.Rollback() },
		explain:  explain,
	}
	if first != "" {
		if _, err := out.ExecContext(ctx, first, args...); err != nil {
			return transaction{}, rollBack(out, explain(err))
		}
	}
	return out, nil
}

// begin takes the lock and promises the notification in one go; the server sends it with the commit.
func (p *postgres) begin(ctx context.Context) (transaction, error) {
	return p.transaction(ctx, p.writer, nil, `SELECT pg_advisory_xact_lock(?), pg_notify(?, ?)`, int64(writeLock), channel, p.token)
}

// beside leaves both out: transactions that notify are committed one after the other, each with its own wait for the disk.
func (p *postgres) beside(ctx context.Context) (transaction, error) {
	return p.transaction(ctx, p.output, nil, "")
}

func (p *postgres) quiet(ctx context.Context) (transaction, error) {
	return p.transaction(ctx, p.leases, nil, "")
}

// tell is no part of a transaction, so it waits for no disk. Who misses it sees the rows with the next change.
func (p *postgres) tell(ctx context.Context) {
	_, _ = p.output.ExecContext(ctx, `SELECT pg_notify(?, ?)`, channel, p.token)
}

func (p *postgres) snapshot(ctx context.Context) (transaction, error) {
	return p.transaction(ctx, p.reader, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, "")
}

func (p *postgres) now(ctx context.Context, q querier) (time.Time, error) {
	var t time.Time
	if err := q.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&t); err != nil {
		return time.Time{}, err
	}
	return t.UTC(), nil
}

// foreign looks only where the journal's tables will be made. The job queue shares the database and may come first.
func (p *postgres) foreign(ctx context.Context, q querier, version int64) (bool, error) {
	var ours, others bool
	err := q.QueryRowContext(ctx, `SELECT to_regclass('store_state') IS NOT NULL, EXISTS (SELECT 1 FROM pg_catalog.pg_tables
		WHERE schemaname = current_schema() AND tablename <> 'goose_db_version' AND tablename NOT LIKE 'river\_%')`).Scan(&ours, &others)
	return !ours && (others || version != 0), err
}

// Whether a host stopped cleanly is told by its lease here, and the server itself recovers from its own stops: there is
// nothing to mark in the database.
func (p *postgres) marked() bool               { return false }
func (p *postgres) rest(context.Context) error { return nil }

// check asks for every table; reading all of it is the server's own business (data checksums, pg_amcheck).
func (p *postgres) check(ctx context.Context) error {
	_, err := p.reader.ExecContext(ctx, `SELECT (SELECT COUNT(*) FROM hosts), (SELECT MAX(id) FROM cycles), (SELECT MAX(id) FROM sessions)`)
	if isCorrupt(err) {
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	return err
}

// postgresCorrupt is a page or an index that the server found damaged.
func postgresCorrupt(err error) bool {
	state := sqlState(err)
	return state == "XX001" || state == "XX002"
}

func postgresUnique(err error) bool       { return sqlState(err) == "23505" }
func postgresMissingTable(err error) bool { return sqlState(err) == "42P01" }

// sqlState is the server's code of an error, empty for any other.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
