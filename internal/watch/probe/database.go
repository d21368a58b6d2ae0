package probe

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"claudeops/internal/ops"
)

// cancelTime is how long a driver may go on after its probe has ended, to cancel a query that still runs on the server.
const cancelTime = time.Second

// OpenDatabase makes a handle for the database at an address that may contain a password; it does not connect yet. The handle ends
// with ctx.
type OpenDatabase func(ctx context.Context, address *url.URL) (*sql.DB, error)

func defaultDatabases() map[string]OpenDatabase {
	return map[string]OpenDatabase{"postgres": openPostgres, "mysql": openMySQL}
}

// database connects, runs one query and checks the first value of its first row.
func (p *Prober) database(ctx context.Context, spec ops.ProbeSpec) finding {
	open := p.Databases[spec.Type]
	if open == nil {
		return down("there is no driver for %s", spec.Type)
	}
	address, err := databaseAddress(spec)
	if err != nil {
		return down("%s", err)
	}
	db, err := open(ctx, address)
	if err != nil {
		return down("open database: %s", databaseReason(err))
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	value, err := queryFirst(ctx, db, cmp.Or(spec.Query, "SELECT 1"))
	if err != nil {
		return down("%s", databaseReason(err))
	}
	return firstValue(spec, value)
}

func queryFirst(ctx context.Context, db *sql.DB, query string) (value string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return "", rows.Err()
	}
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(sql.RawBytes)
	}
	if err := rows.Scan(values...); err != nil {
		return "", err
	}
	if len(values) > 0 {
		if first, ok := values[0].(*sql.RawBytes); ok {
			value = string(*first)
		}
	}
	return value, nil
}

// firstValue checks the answer of a database.
func firstValue(spec ops.ProbeSpec, value string) finding {
	if len(spec.Expect) > 0 && !slices.Contains(spec.Expect, value) {
		return down("the first value is %q, not %s", value, strings.Join(spec.Expect, " or "))
	}
	return healthy()
}

// databaseAddress is the configured address with the password in it.
func databaseAddress(spec ops.ProbeSpec) (*url.URL, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("give the address as %s://user@host/database", spec.Type)
	}
	if spec.Password != "" {
		u.User = url.UserPassword(u.User.Username(), spec.Password)
	}
	return u, nil
}

// openPostgres prepares no statements: a connection pool between us and the server may not keep them.
func openPostgres(ctx context.Context, address *url.URL) (*sql.DB, error) {
	config, err := pgx.ParseConfig(address.String())
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	dial := config.DialFunc
	config.DialFunc = func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(dialing, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { time.AfterFunc(cancelTime, func() { _ = conn.Close() }) })
		}
		return conn, err
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = userAgent
	}
	return stdlib.OpenDB(*config), nil
}

// openMySQL takes the driver's own options in the query of the address, such as tls=true.
func openMySQL(_ context.Context, address *url.URL) (*sql.DB, error) {
	server := net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), "3306"))
	source := fmt.Sprintf("tcp(%s)/%s", server, url.PathEscape(strings.TrimPrefix(address.Path, "/")))
	if address.RawQuery != "" {
		source += "?" + address.RawQuery
	}
	config, err := mysql.ParseDSN(source)
	if err != nil {
		return nil, err
	}
	config.User = address.User.Username()
	config.Passwd, _ = address.User.Password()
	config.Logger = &mysql.NopLogger{} // a failed connection is a result, not a line in the log
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// databaseReason prefers the server's own message.
func databaseReason(err error) string {
	var fromPostgres *pgconn.PgError
	var fromMySQL *mysql.MySQLError
	switch {
	case errors.As(err, &fromPostgres):
		return fmt.Sprintf("%s (%s)", fromPostgres.Message, fromPostgres.Code)
	case errors.As(err, &fromMySQL):
		return fmt.Sprintf("%s (%d)", fromMySQL.Message, fromMySQL.Number)
	}
	return reason(err)
}
