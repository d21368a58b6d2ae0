package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var errSilent = fmt.Errorf("the database did not answer within %s", transactionTimeout)

// parseAddress reads an address. Its errors hold no part of it, because a part that cannot be read may be the password.
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
		if inner := errors.Unwrap(err); inner != nil {
			why = ": " + inner.Error()
		}
		if secret, ok := u.User.Password(); ok && secret != "" && strings.Contains(why, secret) {
			why = ""
		}
	}
	return nil, fmt.Errorf("open database: its address cannot be read%s: write postgres://user:password@host:5432/name, "+
		"with special characters of the password as %%XX", why)
}

// describeServer says where a database is, without the password.
func describeServer(c pgconn.Config) string {
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") { // a folder with a socket
		u.Host, u.RawQuery = "", "host="+c.Host
	}
	return u.String()
}

// advise says what to do about an error of opening.
func (p *postgres) advise(err error) error {
	c := p.config.ConnConfig
	advice := ""
	switch code := sqlState(err); code {
	case "28P01", "28000":
		advice = fmt.Sprintf("check user and password of the address, and that pg_hba.conf of the server admits user %s from this host", c.User)
	case "3D000":
		advice = fmt.Sprintf("create it with: CREATE DATABASE %s", c.Database)
	case "42501":
		advice = fmt.Sprintf("let the user make tables: GRANT CREATE, CONNECT ON DATABASE %s TO %s; GRANT ALL ON SCHEMA public TO %s", c.Database, c.User, c.User)
	case "53300":
		advice = "the server has no free connection: raise its max_connections, or give each host fewer with ?pool_max_conns=N"
	case "57P03":
		advice = "the server is starting or stopping: try again in a moment"
	case "":
		if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			err = errors.Unwrap(e) // what it says else is in the name
			advice = "check the address, and that the server runs and can be reached from here"
		}
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("open database %s: %w: give claudeops a database of its own", p.name, err)
	case advice != "":
		return fmt.Errorf("open database %s: %w: %s", p.name, err, advice)
	}
	return fmt.Errorf("open database %s: %w", p.name, err)
}

// explain adds to an error of a transaction, whose context it has, what the operator can do about it.
func explain(ctx context.Context, err error) error {
	switch sqlState(err) {
	case "":
		if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errSilent) {
			return fmt.Errorf("%w: %w", errSilent, err)
		}
	case "55P03":
		return fmt.Errorf("another host kept the database locked for %s: if this happens again, look in pg_stat_activity "+
			"for a transaction that hangs: %w", lockTimeout, err)
	case "40001", "40P01":
		return fmt.Errorf("the database gave another writer precedence, nothing was written and it can be tried again: %w", err)
	case "25P03":
		return fmt.Errorf("this process stood still for more than %s within a transaction, so the database gave its lock to others; "+
			"nothing was written and it can be tried again: %w", idleInTransaction, err)
	case "57014":
		return fmt.Errorf("a statement took longer than %s: %w", statementTimeout, err)
	case "25006":
		return fmt.Errorf("the database takes no writes: the address must name the primary server, not a standby: %w", err)
	case "53100":
		return fmt.Errorf("the disk of the database is full: make room on the server: %w", err)
	}
	return err
}
