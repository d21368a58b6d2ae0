package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
)

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
