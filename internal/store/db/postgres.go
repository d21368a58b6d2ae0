package db

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"claudeops/internal/ops"
)

const (
	// WriteLock is the advisory lock that Write takes, and that WriteIn shares. Those of the feeds have the numbers from 0x10 on.
	WriteLock = 0x636c_6175_6465_0001
	// migrateLock is the advisory lock of migrations.
	migrateLock = 0x636c_6175_6465_0002
	// channel carries a notification for each write.
	channel = "claudeops"

	// A host that is suspended inside a transaction loses it. Those that wait for its lock wait longer than that.
	idleInTransaction = 5 * time.Second
	lockTimeout       = 7 * time.Second
	statementTimeout  = 30 * time.Second
	// transactionTimeout ends a transaction whose server does not answer at all.
	transactionTimeout = 30 * time.Second
	// deadAfter is how long a cut connection stays unnoticed.
	deadAfter      = 5 * time.Second
	connectTimeout = 5 * time.Second

	// Some connections of the pool are for each purpose. The rest are for the other users of the pool.
	poolSize       = 24
	writeConns     = 8
	unorderedConns = 4
	urgentConns    = 2

	oldestServer = 130000
)

// postgres is a database on a PostgreSQL server.
type postgres struct {
	config *pgxpool.Config
	name   string // where it is, without the password
	token  string // tells this process's own notifications from others'
	schema Schema
	log    *slog.Logger
	time   *serverClock

	pool   *pgxpool.Pool
	writer *pool // for single statements
	reader *pool
	// A transaction takes a seat before it takes a connection.
	writing, reading, unordered, urgent chan struct{}
}

func newPostgres(o Options) (*postgres, error) {
	config, err := parseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	p := &postgres{
		config: config, name: describeServer(config.ConnConfig.Config), token: rand.Text(), schema: o.Schema, log: o.Logger,
		time: &serverClock{host: o.Clock}, writing: make(chan struct{}, writeConns), reading: make(chan struct{}, readers),
		unordered: make(chan struct{}, unorderedConns), urgent: make(chan struct{}, urgentConns),
	}
	if !strings.Contains(o.URL, "pool_max_conns") {
		config.MaxConns = poolSize
	}
	config.ShouldPing = func(ctx context.Context, idle pgxpool.ShouldPingParams) bool {
		return idle.IdleDuration > time.Second && ctx.Value(unasked{}) == nil
	}
	prepareConn(config.ConnConfig)
	return p, nil
}

// prepareConn sets the limits of a connection where the address does not.
func prepareConn(c *pgx.ConnConfig) {
	settings := map[string]string{
		"application_name":                    "claudeops",
		"lock_timeout":                        milliseconds(lockTimeout),
		"statement_timeout":                   milliseconds(statementTimeout),
		"idle_in_transaction_session_timeout": milliseconds(idleInTransaction),
		"default_transaction_isolation":       "read committed",
		"TimeZone":                            "UTC",
	}
	if !strings.HasPrefix(c.Host, "/") {
		settings["tcp_user_timeout"] = milliseconds(2 * deadAfter) // so that the server ends the locks of a host that is gone
	}
	for name, value := range settings {
		if _, chosen := c.RuntimeParams[name]; !chosen {
			c.RuntimeParams[name] = value
		}
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	c.DialFunc = dialer(c.ConnectTimeout).DialContext
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
	p.writer = p.connections(1)
	return p.writer, p.reader, nil
}

func (p *postgres) openReader(ctx context.Context) (*pool, error) {
	p.config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p.reader, nil
}

// connect makes the first connection and refuses a server that cannot hold the schema.
func (p *postgres) connect(ctx context.Context) error {
	var err error
	if p.pool, err = pgxpool.NewWithConfig(ctx, p.config); err != nil {
		return err
	}
	var version int
	var encoding string
	var schema *string
	err = p.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
		current_schema()::text`).
		Scan(&version, &encoding, &schema)
	switch {
	case err != nil:
	case version < oldestServer:
		err = fmt.Errorf("the server is PostgreSQL %d.%d: use 13 or newer", version/10000, version%10000)
	case encoding != "UTF8":
		err = fmt.Errorf("the database stores text as %s: create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	case schema == nil:
		err = errors.New("none of the schemas in its search_path exists: create one, or give one in the address with ?search_path=NAME")
	}
	if err != nil {
		p.pool.Close()
		return err
	}
	p.reader = p.connections(readers)
	p.reader.again = true
	if err = p.requireOurs(ctx); err == nil {
		_, err = p.now(ctx, p.reader)
	}
	if err != nil {
		err = errors.Join(err, p.reader.Close())
		p.pool.Close()
	}
	return err
}

// requireOurs looks only in the schema where the tables will be created. The job queue shares it and may have been there first. Another
// program may have a table of the name meta.
func (p *postgres) requireOurs(ctx context.Context) error {
	var marked, tables bool
	err := p.reader.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = 'meta' AND column_name = 'application_id'),
		EXISTS (SELECT 1 FROM pg_catalog.pg_tables
			WHERE schemaname = current_schema() AND tablename <> 'goose_db_version' AND tablename NOT LIKE 'river\_%')`).Scan(&marked, &tables)
	var mark int64
	if err == nil && marked {
		mark, err = One(ctx, p.reader, ScanInt, `SELECT COALESCE(MAX(application_id), 0) FROM meta`)
	}
	if err != nil {
		return err
	}
	return requireOurs(ctx, p.reader, mark, tables)
}

// connections returns a part of the pool.
func (p *postgres) connections(limit int) *pool {
	db := stdlib.OpenDBFromPool(p.pool)
	db.SetMaxOpenConns(limit)
	return &pool{DB: db, numbered: true}
}

// openUnlimited opens connections without time limits, for work that takes long.
func (p *postgres) openUnlimited() *sql.DB {
	config := p.config.ConnConfig.Copy()
	for _, limit := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		config.RuntimeParams[limit] = "0"
	}
	return stdlib.OpenDB(*config)
}

// checkpoint has nothing to do: the server writes its own checkpoints.
func (p *postgres) checkpoint(context.Context) error { return nil }

// close waits for the connections that are in use, up to closeTimeout.
func (p *postgres) close() error {
	if p.pool == nil {
		return nil
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closeTimeout):
		return errors.New("a connection is still in use")
	}
}

// begin waits until no other transaction of Write or WriteIn is open. The server sends the notification with the commit.
func (p *postgres) begin(ctx context.Context) (transaction, error) {
	return p.openWrite(ctx, `SELECT pg_advisory_xact_lock($1), pg_notify($2, $3)`)
}

// beginIn waits for the transactions of the same environment, and for those of Write.
func (p *postgres) beginIn(ctx context.Context, in Scope) (transaction, error) {
	lock, arg := in.lock()
	return p.openWrite(ctx, lock, arg)
}

// lock is a statement that takes the lock of an environment or a feed, and its last argument.
func (in Scope) lock() (query string, arg any) {
	const locks = `SELECT pg_advisory_xact_lock_shared($1), pg_notify($2, $3), pg_advisory_xact_lock(hashtextextended(`
	switch {
	case in.feed != 0:
		return `SELECT pg_advisory_xact_lock_shared($1), pg_notify($2, $3), pg_advisory_xact_lock($1 + $4::bigint)`, int64(in.feed)
	case in.cycle != 0:
		return locks + `environment, $1)) FROM cycles WHERE id = $4`, in.cycle
	case in.session != 0:
		return locks + `environment, $1)) FROM sessions WHERE id = $4`, in.session
	default:
		return locks + `$4::text, $1))`, in.environment
	}
}

// openWrite opens a transaction that takes a lock and, with its end, tells the others. The lock gets its number, what to tell, and args.
func (p *postgres) openWrite(ctx context.Context, lock string, args ...any) (transaction, error) {
	tx, server, err := p.openTx(ctx, p.writing, `BEGIN`)
	if err == nil {
		server.tells, server.reach = true, ops.ReachAll
		server.lock = append([]any{int64(WriteLock), channel, nil}, args...)
		server.ahead = append(server.ahead, statement{lock, server.lock})
	}
	return tx, err
}

// writeOneIn needs neither a beginning nor a commit: what is sent together is one transaction. It is never sent again.
func (p *postgres) writeOneIn(ctx context.Context, in Scope, reach ops.Reach, what Part) error {
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout, errNoAnswer)
	defer cancel()
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return explain(ctx, context.Cause(ctx))
	}
	defer func() { <-p.writing }()
	batch := new(pgx.Batch)
	lock, arg := in.lock()
	batch.Queue(lock, int64(WriteLock), channel, told(p.token, reach), arg)
	query, args := bind(what.query, what.args)
	batch.Queue(query, args...)
	results := p.pool.SendBatch(ctx, batch)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = what.read(serverRows{rows})
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return explain(ctx, err)
}

// beginUnordered neither locks nor notifies. The server commits transactions that notify one after the other, each with its own disk
// flush.
func (p *postgres) beginUnordered(ctx context.Context) (transaction, error) {
	tx, _, err := p.openTx(ctx, p.unordered, `BEGIN`)
	return tx, err
}

func (p *postgres) beginUrgent(ctx context.Context) (transaction, error) {
	tx, _, err := p.openTx(ctx, p.urgent, `BEGIN`)
	return tx, err
}

// told is what the other processes hear of a change.
func told(token string, reach ops.Reach) string { return strconv.Itoa(int(reach)) + token }

// heard is how far a change of another process reaches.
func (p *postgres) heard(payload string) (reach ops.Reach, other bool) {
	if len(payload) < 2 || payload[1:] == p.token {
		return 0, false
	}
	return ops.Reach(payload[0] - '0'), true
}

func (p *postgres) snapshot(ctx context.Context) (transaction, error) {
	tx, _, err := p.openTx(ctx, p.reading, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	return tx, err
}

// beginLong uses a connection of its own: on the others, a long transaction counts as one of a dead host.
func (p *postgres) beginLong(ctx context.Context, readOnly bool) (transaction, error) {
	db := p.openUnlimited()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: readOnly})
	if err != nil {
		return transaction{}, errors.Join(err, db.Close())
	}
	out := transaction{
		Querier:  sqlTx{tx, true},
		commit:   func() error { return errors.Join(tx.Commit(), db.Close()) },
		rollBack: func() error { return errors.Join(tx.Rollback(), db.Close()) },
	}
	if !readOnly {
		if _, err := out.ExecContext(ctx, `SELECT pg_advisory_xact_lock(?)`, int64(WriteLock)); err != nil {
			return transaction{}, rollBack(out, err)
		}
	}
	return out, nil
}

func (p *postgres) now(ctx context.Context, q Querier) (time.Time, error) {
	var t time.Time
	if tx, ok := q.(*serverTx); ok { // what comes before must not count
		if err := tx.flush(); err != nil {
			return t, err
		}
	}
	sent := time.Now()
	if err := q.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&t); err != nil {
		return time.Time{}, err
	}
	p.time.measure(sent, t)
	return t.UTC(), nil
}

func (p *postgres) clock() time.Time { return p.time.now() }

func (p *postgres) skew() (time.Duration, bool) { return p.time.skew() }

// present has nothing to do: the server holds its own files.
func (p *postgres) present() error { return nil }

func (p *postgres) note(err error) error { return err }

// check reads from every table. Reading all of their rows is the server's own task (data checksums, pg_amcheck).
func (p *postgres) check(ctx context.Context) error {
	reads := ops.Map(p.schema.Tables, func(t Table) string { return `EXISTS (SELECT 1 FROM ` + t.Name + `)` })
	_, err := p.reader.ExecContext(ctx, `SELECT `+strings.Join(reads, `, `))
	return asDamage(err)
}

func (p *postgres) flaws(ctx context.Context, _ bool) ([]Flaw, error) { return nil, p.check(ctx) }

// giveBack has nothing to do: a server does this by itself.
func (p *postgres) giveBack(context.Context, *Pace) (int64, error) { return 0, nil }

func (p *postgres) lastNumber(ctx context.Context, q Querier, table string) (int64, error) {
	return One(ctx, q, ScanInt, `SELECT COALESCE(MAX(last_value), 0) FROM pg_sequences
		WHERE schemaname = current_schema() AND sequencename = ?`, table+"_id_seq")
}

func (p *postgres) setLastNumber(ctx context.Context, q Querier, table string, last int64) error {
	_, err := One(ctx, q, ScanInt, `SELECT setval(pg_get_serial_sequence(?, 'id'), ?)`, table, last)
	return err
}

// postgresCorrupt is a page or an index that the server found damaged.
func postgresCorrupt(err error) bool {
	state := sqlState(err)
	return state == "XX001" || state == "XX002"
}

func postgresUnique(err error) bool       { return sqlState(err) == "23505" }
func postgresMissingTable(err error) bool { return sqlState(err) == "42P01" }

// sqlState is the SQLSTATE code of a server's error, empty for other errors.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
