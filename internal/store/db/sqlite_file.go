package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkpointCommits is after how many commits the write-ahead log is looked at, and checkpointPages is how many of its pages are then
	// copied to the file.
	checkpointCommits = 16
	checkpointPages   = 500
	// ownCheckpoint is the length of the log in pages at which a commit copies them itself, and begins a new log.
	ownCheckpoint = 4000
	// checkpointTime bounds one look.
	checkpointTime = time.Minute
)

// checkpoints copies the write-ahead log to the database file beside the commits, on a connection of its own. Otherwise every commit that
// makes the log a little too long would wait until all of it is copied and on the disk. The log is as safe as the file, so nothing depends
// on when this happens.
type checkpoints struct {
	path    string
	commits atomic.Int64
	looking atomic.Bool
	running sync.WaitGroup

	mu     sync.Mutex
	db     *sql.DB // made when first needed
	closed bool
}

// committed counts a commit, and looks at the log after every few of them.
func (c *checkpoints) committed() {
	if c.commits.Add(1)%checkpointCommits != 0 || !c.looking.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.running.Go(func() {
		defer c.looking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), checkpointTime)
		defer cancel()
		_ = c.look(ctx) // if it fails, the commits do it themselves, and report what is wrong
	})
}

// look copies the log if it is long. It waits for no reader or writer, and none waits for it.
func (c *checkpoints) look(ctx context.Context) error {
	db, err := c.connect()
	if err != nil {
		return err
	}
	long, copied, err := checkpoint(ctx, db, "NOOP")
	if err != nil || long-copied < checkpointPages {
		return err
	}
	_, _, err = checkpoint(ctx, db, "PASSIVE")
	return err
}

func (c *checkpoints) connect() (*sql.DB, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the database is closed")
	}
	if c.db == nil {
		db, err := openPool(c.path, url.Values{"_pragma": {busyPragma(), "synchronous(FULL)"}, "mode": {"rw"}})
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		c.db = db
	}
	return c.db, nil
}

// checkpoint returns how many pages the log has, and how many of them are in the file too.
func checkpoint(ctx context.Context, db *sql.DB, mode string) (long, copied int64, err error) {
	var busy int64
	err = db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(`+mode+`)`).Scan(&busy, &long, &copied)
	if err != nil {
		return 0, 0, fmt.Errorf("checkpoint: %w", err)
	}
	return long, copied, nil
}

// close waits for the last look.
func (c *checkpoints) close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db == nil {
		return nil
	}
	err := c.db.Close()
	c.db = nil
	return err
}

// maxStatements limits how many statements stay prepared; the journal uses about thirty.
const maxStatements = 100

// statements keeps the writer's statements prepared, which saves a third of the time of a commit. A statement is prepared when it
// is used a second time, so a command that writes one row pays nothing.
type statements struct {
	mu       sync.Mutex
	seen     map[string]bool
	wanted   []string
	prepared map[string]*sql.Stmt
}

func newStatements() *statements {
	return &statements{seen: map[string]bool{}, prepared: map[string]*sql.Stmt{}}
}

// get returns the prepared statement, or nil, and counts the use.
func (s *statements) get(query string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt := s.prepared[query]; stmt != nil {
		return stmt
	}
	switch {
	case len(s.seen) >= maxStatements:
	case s.seen[query]:
		if !slices.Contains(s.wanted, query) { // one transaction may ask for it for each of a thousand rows
			s.wanted = append(s.wanted, query)
		}
	default:
		s.seen[query] = true
	}
	return nil
}

// prepare prepares what was used more than once. It needs the writer's connection, so it runs before the transaction that takes
// it.
func (s *statements) prepare(ctx context.Context, db *sql.DB) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	for _, query := range wanted {
		stmt, err := db.PrepareContext(ctx, query)
		if err != nil {
			return // the transaction that follows works without it, or reports the error
		}
		s.mu.Lock()
		if s.prepared[query] == nil {
			s.prepared[query], stmt = stmt, nil
		}
		s.mu.Unlock()
		if stmt != nil {
			_ = stmt.Close() // another writer was faster
		}
	}
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	clear(s.prepared)
	return errors.Join(errs...)
}

// cachedTx is a write transaction that uses prepared statements where they exist.
type cachedTx struct {
	tx         *sql.Tx
	statements *statements
	own        map[string]*sql.Stmt // nil: used once
}

func newCachedTx(tx *sql.Tx, s *statements) cachedTx {
	return cachedTx{tx, s, map[string]*sql.Stmt{}}
}

func (t cachedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := t.statements.get(query); stmt != nil {
		return t.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	}
	if stmt := t.again(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return t.tx.ExecContext(ctx, query, args...)
}

// again prepares a statement that this transaction uses a second time, so that the first batch of many rows is fast too. It ends
// with the transaction.
func (t cachedTx) again(ctx context.Context, query string) *sql.Stmt {
	stmt, used := t.own[query]
	if used && stmt == nil {
		if prepared, err := t.tx.PrepareContext(ctx, query); err == nil {
			stmt = prepared
		}
	}
	t.own[query] = stmt
	return stmt
}

func (t cachedTx) QueryContext(ctx context.Context, query string, args ...any) (Rows, error) {
	if stmt := t.statements.get(query); stmt != nil {
		return orNone(t.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...))
	}
	return orNone(t.tx.QueryContext(ctx, query, args...))
}

func (t cachedTx) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	if stmt := t.statements.get(query); stmt != nil {
		return t.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	}
	return t.tx.QueryRowContext(ctx, query, args...)
}
