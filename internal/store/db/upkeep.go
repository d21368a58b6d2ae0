package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"claudeops/internal/ops"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"
)

// Flaw is something in a database that is wrong.
type Flaw struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
}

// MaxFlaws is how many flaws of one kind are reported.
const MaxFlaws = 20

const fileCheck = "the file is not damaged"

// Damaged reports whether an error means that the database itself is damaged, and not only that one call failed.
func Damaged(err error) bool { return errors.Is(err, ErrCorrupt) || isCorrupt(err) }

// asDamage adds ErrCorrupt to an error with which the database says that it is damaged.
func asDamage(err error) error {
	if isCorrupt(err) && !errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	return err
}

// QuickCheck reads the whole file and reports damage as ErrCorrupt. A server checks its own files; there only the existence of the
// tables is checked.
func (d *DB) QuickCheck(ctx context.Context) error {
	if err := d.dialect.check(ctx); err != nil {
		return fmt.Errorf("check database %s: %w", d.name, d.dialect.note(err))
	}
	return nil
}

// Flaws lists the damage of a file. With full it checks every page and index. On a server it is QuickCheck.
func (d *DB) Flaws(ctx context.Context, full bool) ([]Flaw, error) {
	found, err := d.dialect.flaws(ctx, full)
	return ops.Returning(found, err, "check database %s", d.name)
}

func (f *sqliteFile) check(ctx context.Context) error {
	found, err := List(ctx, f.reader, ScanString, `PRAGMA quick_check(10)`)
	switch {
	case err != nil:
		return asDamage(err)
	case len(found) != 1 || found[0] != "ok":
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

func (f *sqliteFile) flaws(ctx context.Context, full bool) ([]Flaw, error) {
	return fileFlaws(ctx, f.reader, full)
}

// fileFlaws looks for damage in a SQLite file. A file that cannot be read is damaged too.
func fileFlaws(ctx context.Context, q Querier, full bool) ([]Flaw, error) {
	check := `quick_check`
	if full {
		check = `integrity_check`
	}
	found, err := List(ctx, q, ScanString, fmt.Sprintf(`PRAGMA %s(%d)`, check, MaxFlaws))
	if isCorrupt(err) {
		return []Flaw{{fileCheck, err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Flaw
	for _, detail := range found {
		if detail != "ok" {
			out = append(out, Flaw{fileCheck, detail})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	missing, err := List(ctx, q, scanMissingReference, `PRAGMA foreign_key_check`)
	if err != nil {
		return nil, asDamage(err)
	}
	for _, detail := range missing[:min(len(missing), MaxFlaws)] {
		out = append(out, Flaw{"every referenced row exists", detail})
	}
	return out, nil
}

func scanMissingReference(r Row, to *string) error {
	var table, parent string
	var id *int64
	var key int
	if err := r.Scan(&table, &id, &parent, &key); err != nil {
		return err
	}
	if id == nil {
		*to = fmt.Sprintf("a row of %s refers to a row of %s that does not exist", table, parent)
		return nil
	}
	*to = fmt.Sprintf("row %d of %s refers to a row of %s that does not exist", *id, table, parent)
	return nil
}

const (
	batchPages   = 250  // pages returned at a time at most, about a megabyte
	reservePages = 2000 // free pages that stay in the file for new rows
)

// GiveBack returns some of the file's free space to the system, as long as it has more than a reserve. It reports how many bytes;
// 0 means that there is nothing more to return. A server does this by itself.
func (d *DB) GiveBack(ctx context.Context) (int64, error) {
	if d.writer == nil {
		return 0, errReadOnly
	}
	freed, err := d.dialect.giveBack(ctx, &d.pace)
	return ops.Returning(freed, err, "give back free space of %s", d.name)
}

func (f *sqliteFile) giveBack(ctx context.Context, pace *Pace) (int64, error) {
	conn, err := f.writer.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // it goes back to its pool
	figure := func(pragma string) (n int64, err error) {
		err = conn.QueryRowContext(ctx, `PRAGMA `+pragma).Scan(&n)
		return n, err
	}
	free, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	pages, err := figure(`page_count`)
	if err != nil || free-batchPages < max(reservePages, pages/10) {
		return 0, err
	}
	began := time.Now()
	if err := runToEnd(ctx, conn, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, pace.Of(batchPages))); err != nil {
		return 0, err
	}
	pace.Took(time.Since(began))
	f.checkpoints.committed() //nolint:contextcheck // a checkpoint goes on when the caller is gone
	left, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	size, err := figure(`page_size`)
	return (free - left) * size, err
}

// runToEnd reads all rows of a statement: incremental_vacuum frees one page for each row that is read.
func runToEnd(ctx context.Context, conn *sql.Conn, statement string) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	for rows.Next() {
		continue
	}
	return rows.Err()
}

const (
	// paceTarget is how long a batch may keep other writers waiting.
	paceTarget = 5 * time.Millisecond
	paceWhole  = 100 // percent of the size that a batch has at most
	paceLeast  = 10
)

// Pace adapts the size of batches to the time that they take: a writer that comes meanwhile waits for the end of one. Its zero value allows
// whole batches.
type Pace struct {
	less atomic.Int64 // percent by which batches are smaller
}

// Of is the size of the next batch, of at most n.
func (p *Pace) Of(n int64) int64 { return max(1, n*(paceWhole-p.less.Load())/paceWhole) }

// Took tells how long a batch took. One that was slow halves the next one; a quick one lets it grow by an eighth.
func (p *Pace) Took(d time.Duration) {
	size := paceWhole - p.less.Load()
	switch {
	case d > paceTarget:
		size = max(paceLeast, size/2)
	case d < paceTarget/2:
		size = min(paceWhole, size+size/8+1)
	}
	p.less.Store(paceWhole - size)
}

// ErrReplaced means that the path of an open database no longer leads to the file that was opened.
var ErrReplaced = errors.New("the database file was removed or replaced while it was in use")

// ErrUnwritable means that the file system of an open database does not take writes any more.
var ErrUnwritable = errors.New("the file system of the database is read-only or cannot be written")

// Unavailable reports whether an error means that the database cannot be used for the moment: it is locked, full, cannot be reached, or
// its file is gone or damaged. The same call may succeed later.
func Unavailable(err error) bool {
	return errors.Is(err, ErrReplaced) || errors.Is(err, ErrUnwritable) || errors.Is(err, ErrCorrupt) || errors.Is(err, errNoAnswer) ||
		errors.Is(err, context.DeadlineExceeded) || sqliteUnavailable(err) || postgresUnavailable(err) || ConnectionLost(err)
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
