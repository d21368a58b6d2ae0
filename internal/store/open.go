package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"claudeops/internal/ops"
)

// Errors of opening a database. Their messages name the file and what to do.
var (
	ErrNewer    = errors.New("the database was written by a newer version of claudeops")
	ErrOlder    = errors.New("the database was written by an older version of claudeops")
	ErrCorrupt  = errors.New("the file is damaged or is no claudeops database")
	errReadOnly = errors.New("the database was opened for reading only")
)

const (
	readers      = 4
	closeTimeout = 5 * time.Second
	openFlag     = "open" // store_state: set while a process that must stop cleanly has the database
)

// Options say which database to open: a file by its path, or one on a PostgreSQL server by its address.
type Options struct {
	Path   string
	URL    string       // postgres://user:password@host:5432/name; then Path is empty
	Clock  ops.Clock    // nil: the system's
	Uptime Uptime       // nil: the system's
	Logger *slog.Logger // nil: no log
}

// Store is an open database.
type Store struct {
	dialect dialect
	name    string // the path, or the address without its password
	clock   ops.Clock
	uptime  Uptime
	log     *slog.Logger
	writer  *pool // nil when opened for reading only
	reader  *pool
	unclean bool

	mu     sync.Mutex // guards what follows
	marked bool
	closed bool
}

// Open opens the database for writing; it creates the file if there is none and migrates an older one. On a server the
// database must exist, empty or with the journal in it.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if s.writer, s.reader, err = s.dialect.open(ctx); err != nil {
		return nil, s.dialect.advise(err)
	}
	if err := s.migrate(ctx); err != nil {
		return nil, s.abandon(err)
	}
	if s.unclean, err = s.flagged(ctx); err != nil {
		return nil, s.abandon(err)
	}
	return s, nil
}

// OpenReadOnly opens an existing database for reading, also beside a running daemon. Without a journal the error is
// ops.ErrNotFound.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if s.reader, err = s.dialect.look(ctx); err != nil {
		return nil, s.dialect.advise(err)
	}
	if err := s.requireCurrent(ctx); err != nil {
		return nil, s.abandon(err)
	}
	return s, nil
}

func newStore(o Options) (*Store, error) {
	s := &Store{clock: o.Clock, uptime: o.Uptime, log: o.Logger}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.uptime == nil {
		s.uptime = systemUptime()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.URL != "" && o.Path != "":
		return nil, errors.New("open database: both a path and an address are given: name one of them")
	case o.URL != "":
		p, err := newPostgres(o.URL, s.log)
		if err != nil {
			return nil, err
		}
		s.dialect, s.name = p, p.name
	case o.Path != "":
		path, err := filepath.Abs(o.Path)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		s.dialect, s.name = newSQLite(path, s.clock), path
	default:
		return nil, errors.New("open database: no path given")
	}
	return s, nil
}

// Pool returns the connections to the PostgreSQL server, for others that keep something in the same database; nil on SQLite.
// They must be done with it before Close.
func (s *Store) Pool() *pgxpool.Pool {
	if p, ok := s.dialect.(*postgres); ok {
		return p.pool
	}
	return nil
}

// Listen calls changed after other processes wrote to the database, and once whenever a connection to it was made, because
// something may have been missed before. It returns when ctx ends.
func (s *Store) Listen(ctx context.Context, changed func()) error {
	return s.dialect.listen(ctx, changed)
}

// databaseTime is the time by which hosts compare what each of them wrote: the server's, or on SQLite the store's own.
func (s *Store) databaseTime(ctx context.Context, tx querier) (time.Time, error) {
	t, err := s.dialect.now(ctx, tx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's time: %w", err)
	}
	return t, nil
}

// abandon closes what was opened before err.
func (s *Store) abandon(err error) error {
	return s.dialect.advise(errors.Join(err, s.closePools()))
}

func (s *Store) closePools() error {
	var errs []error
	for _, db := range []*pool{s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.dialect.close())...)
}

// Close ends all use of the database. After MarkOpen it also records the clean stop and empties the write-ahead log.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.marked {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		// Readers first: the log cannot be emptied while one of them still reads from it.
		errs = append(errs, s.reader.Close(), s.clearFlag(ctx), s.dialect.rest(ctx))
	}
	if err := errors.Join(append(errs, s.closePools())...); err != nil {
		return fmt.Errorf("close database %s: %w", s.name, err)
	}
	return nil
}

// UncleanStop reports whether the last process that called MarkOpen ended without Close. Of a database on a server it says
// no: there the lease of each host tells that.
func (s *Store) UncleanStop() bool { return s.unclean }

// MarkOpen records that this process works on the journal; Close removes the mark. Commands that only add a row beside
// a running daemon do not call it.
func (s *Store) MarkOpen(ctx context.Context) error {
	if !s.dialect.marked() {
		return nil
	}
	err := s.write(ctx, "mark_open", func(tx querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, openFlag, formatTime(s.clock()))
		return err
	})
	if err != nil {
		return fmt.Errorf("mark database open: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked = true
	return nil
}

func (s *Store) clearFlag(ctx context.Context) error {
	return s.write(ctx, "mark_closed", func(tx querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM store_state WHERE name = ?`, openFlag)
		return err
	})
}

func (s *Store) flagged(ctx context.Context) (bool, error) {
	if !s.dialect.marked() {
		return false, nil
	}
	var n int
	err := s.writer.QueryRowContext(ctx, `SELECT COUNT(*) FROM store_state WHERE name = ?`, openFlag).Scan(&n)
	return n > 0, err
}

// QuickCheck reads the whole file and reports damage as ErrCorrupt. A server checks its own files; of it only the tables are
// asked for.
func (s *Store) QuickCheck(ctx context.Context) error {
	if err := s.dialect.check(ctx); err != nil {
		return fmt.Errorf("check database %s: %w", s.name, err)
	}
	return nil
}
