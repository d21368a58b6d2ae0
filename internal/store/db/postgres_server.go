package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
)

var errNoAnswer = fmt.Errorf("the database did not answer within %s", transactionTimeout)

// parseAddress reads an address. Its errors contain no part of it, because a part that cannot be parsed may be the password.
func parseAddress(address string) (*pgxpool.Config, error) {
	scheme, _, _ := strings.Cut(address, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return nil, errors.New("open database: its address must begin with postgres://")
	}
	config, err := pgxpool.ParseConfig(address)
	if err == nil {
		return config, nil
	}
	why := ""
	if u, parseErr := url.Parse(address); parseErr == nil {
		u.User = url.User(u.User.Username()) // what is wrong is said of an address without the password
		_, err := pgxpool.ParseConfig(u.String())
		if inner := errors.Unwrap(err); inner != nil {
			why = ": " + inner.Error()
		}
	}
	return nil, fmt.Errorf("open database: its address cannot be read%s: write postgres://user:password@host:5432/name, "+
		"with special characters of the password as %%XX", why)
}

// describeServer is the address of a database without the password.
func describeServer(c pgconn.Config) string {
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") { // a folder with a socket
		u.Host, u.RawQuery = "", "host="+c.Host
	}
	return u.String()
}

// advise adds what to do about an error of opening.
func (p *postgres) advise(err error) error {
	c := p.config.ConnConfig
	advice := ""
	switch code := sqlState(err); code {
	case "28P01", "28000":
		advice = fmt.Sprintf("check the user and the password in the address, and that pg_hba.conf of the server admits user %s from this host",
			c.User)
	case "3D000":
		advice = fmt.Sprintf("create it with: CREATE DATABASE %s", c.Database)
	case "42501":
		advice = fmt.Sprintf("let the user create tables: GRANT CREATE, CONNECT ON DATABASE %s TO %s; GRANT ALL ON SCHEMA public TO %s",
			c.Database, c.User, c.User)
	case "53300":
		advice = "the server has no free connection: raise its max_connections, or give each host fewer with ?pool_max_conns=N"
	case "57P03":
		advice = "the server is starting or stopping: try again in a moment"
	case "":
		if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			err = errors.Unwrap(e) // the rest of it repeats the address
			advice = "check the address, and that the server runs and can be reached from this host"
		}
	}
	switch {
	case errors.Is(err, ErrUnmarked):
		return fmt.Errorf("%s: %w", p.name, err)
	case advice != "":
		return fmt.Errorf("open database %s: %w: %s", p.name, err, advice)
	}
	return fmt.Errorf("open database %s: %w", p.name, err)
}

// explain adds to an error of a transaction with this context what the operator can do about it.
func explain(ctx context.Context, err error) error {
	switch sqlState(err) {
	case "":
		if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	case "55P03":
		return fmt.Errorf("another host kept the database locked for %s: if this happens again, look in pg_stat_activity "+
			"for a transaction that hangs: %w", lockTimeout, err)
	case "40001", "40P01":
		return fmt.Errorf("the database preferred another writer; nothing was written, and it can be tried again: %w", err)
	case "25P03":
		return fmt.Errorf("this process was suspended for more than %s inside a transaction, so the database ended it; "+
			"nothing was written, and it can be tried again: %w", idleInTransaction, err)
	case "57014":
		return fmt.Errorf("a statement took longer than %s: %w", statementTimeout, err)
	case "25006":
		return fmt.Errorf("the database accepts no writes: the address must be that of the primary server, not of a standby: %w", err)
	case "53100":
		return fmt.Errorf("the disk of the database server is full: free some space: %w", err)
	}
	return err
}

const (
	// After a notification, more of them are awaited for burstPause, and in all no longer than burstMax, so that a burst of writes
	// is reported once.
	burstPause = 5 * time.Millisecond
	burstMax   = 50 * time.Millisecond

	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// listen uses a connection of its own and reconnects when it breaks.
func (p *postgres) listen(ctx context.Context, changed func(ops.Reach)) error {
	pause := reconnectMin
	for {
		connected, err := p.listenOnce(ctx, changed)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // this is how it ends
		}
		if connected {
			pause = reconnectMin
		}
		p.log.WarnContext(ctx, "listening for changes of other hosts failed; reconnecting", "database", p.name, "after", pause, "error", err)
		if !ops.Pause(ctx, pause) {
			return nil
		}
		pause = min(2*pause, reconnectMax)
	}
}

// listenOnce listens on one connection until it breaks.
func (p *postgres) listenOnce(ctx context.Context, changed func(ops.Reach)) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, p.config.ConnConfig.Copy())
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it was only read from
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return false, err
	}
	changed(ops.ReachAll)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		reach, other := p.heard(n.Payload)
		if !other {
			continue
		}
		if reach, err = p.drain(ctx, conn, reach); err != nil {
			return true, err
		}
		changed(reach)
	}
}

// drain takes the notifications that follow closely, and returns how far all of them reach.
func (p *postgres) drain(ctx context.Context, conn *pgx.Conn, reach ops.Reach) (ops.Reach, error) {
	for end := time.Now().Add(burstMax); time.Now().Before(end); {
		soon, cancel := context.WithTimeout(ctx, burstPause)
		n, err := conn.WaitForNotification(soon)
		cancel()
		switch {
		case err == nil:
			if more, other := p.heard(n.Payload); other {
				reach = max(reach, more)
			}
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return reach, nil
		default:
			return reach, err
		}
	}
	return reach, nil
}

// migrate waits until no other host migrates, without a time limit: changing a large table may take long.
func (p *postgres) migrate(ctx context.Context) (err error) {
	files, err := fs.Sub(p.schema.Files, "migrations")
	if err != nil {
		return err
	}
	db := p.openUnlimited()
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return fmt.Errorf("wait for other hosts: %w", err)
	}
	err = applyMigrations(ctx, goose.DialectPostgres, db, translated{files}, p.log)
	_, unlocked := conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(migrateLock))
	return errors.Join(err, unlocked)
}

// translated are the migrations in PostgreSQL's dialect.
type translated struct{ fs.FS }

func (t translated) Open(name string) (fs.File, error) {
	file, err := t.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return translatedFile{file, bytes.NewReader([]byte(translate(string(text))))}, nil
}

// translatedFile is a file with another content.
type translatedFile struct {
	fs.File
	text *bytes.Reader
}

func (f translatedFile) Read(b []byte) (int, error) { return f.text.Read(b) }

// schemaWord finds the words of the schema that are different in PostgreSQL, longest first, and skips comments and values.
var schemaWord = regexp.MustCompile(`--[^\n]*|'[^']*'|\bINTEGER PRIMARY KEY AUTOINCREMENT\b|\bINTEGER\b|\bTEXT\b|` +
	`\bPRAGMA application_id = [0-9]+`)

// translate writes the schema for PostgreSQL: integers have 64 bits as in SQLite, and texts are compared by their bytes, whatever
// the locale of the database, so that times sort in the same order.
func translate(schema string) string {
	return schemaWord.ReplaceAllStringFunc(schema, func(word string) string {
		switch word {
		case `INTEGER PRIMARY KEY AUTOINCREMENT`:
			return `BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY`
		case `INTEGER`:
			return `BIGINT`
		case `TEXT`:
			return `TEXT COLLATE "C"`
		}
		if mark, ok := strings.CutPrefix(word, `PRAGMA application_id = `); ok {
			return `CREATE TABLE meta (application_id BIGINT NOT NULL); INSERT INTO meta (application_id) VALUES (` + mark + `)`
		}
		return word // a comment or a value
	})
}

// bind is a query and its arguments as PostgreSQL takes them: with $1, $2 and so on for each ?.
func bind(query string, args []any) (string, []any) {
	if len(args) == 0 {
		return query, args
	}
	for i, a := range args {
		if clean, ok := storable(a); !ok {
			args = append([]any(nil), args...) // the caller owns them
			args[i] = clean
			for j := i + 1; j < len(args); j++ {
				args[j], _ = storable(args[j])
			}
			break
		}
	}
	return number(query), args
}

// number replaces every ? outside quotes.
func number(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 32)
	n, quoted := 0, byte(0)
	for i := range len(query) {
		c := query[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// storable is an argument without what PostgreSQL refuses in a text: the byte 0 and invalid UTF-8. The output of a program may
// contain both. It reports whether the argument is unchanged.
func storable(v any) (any, bool) {
	text, ok := v.(string)
	if !ok {
		r := reflect.ValueOf(v)
		if r.Kind() != reflect.String {
			return v, true
		}
		text = r.String()
	}
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return v, true
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError)), false
}
