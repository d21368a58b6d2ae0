package db

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
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("open database %s: %w: give claudeops a database of its own", p.name, err)
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
