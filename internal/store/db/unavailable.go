package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrReplaced means that the path of an open database no longer leads to the file that was opened.
var ErrReplaced = errors.New("the database file was removed or replaced while it was in use")

// Unavailable reports whether an error means that the database cannot be used for the moment: it is locked, full, cannot be reached, or
// its file is gone. The same call may succeed later.
func Unavailable(err error) bool {
	return errors.Is(err, ErrReplaced) || errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) ||
		sqliteUnavailable(err) || postgresUnavailable(err) || ConnectionLost(err)
}

func sqliteUnavailable(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// postgresUnavailable: no resources, a lock that was not given, a conflict with another writer, a server that stops, starts or only reads.
func postgresUnavailable(err error) bool {
	state := sqlState(err)
	switch state {
	case "55P03", "40001", "40P01", "57014", "25P03", "25006", "58030":
		return true
	}
	return strings.HasPrefix(state, "53")
}

// ConnectionLost reports whether the connection to the server was cut or could not be made.
func ConnectionLost(err error) bool {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	if state := sqlState(err); state != "" {
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == "25P03"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
