package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

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

// Options say which database to open.
type Options struct {
	Path   string
	Clock  ops.Clock    // nil: the system's
	Uptime Uptime       // nil: the system's
	Logger *slog.Logger // nil: no log
}

// Store is an open database.
type Store struct {
	path    string
	clock   ops.Clock
	uptime  Uptime
	log     *slog.Logger
	writer  *sql.DB // nil when opened for reading only
	reader  *sql.DB
	unclean bool

	statements *statements

	mu     sync.Mutex // guards what follows
	marked bool
	closed bool
}

// Open opens the database for writing; it creates the file if there is none and migrates an older one.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	// The file is made here because the database would let everybody read it; its side files take over its mode.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w: check that its folder exists and that this user may write there", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if s.writer, err = openWriter(ctx, s.path); err != nil {
		return nil, s.openError(err)
	}
	if s.reader, err = openReaders(s.path); err != nil {
		return nil, s.abandon(err)
	}
	if err := s.migrate(ctx); err != nil {
		return nil, s.abandon(err)
	}
	if s.unclean, err = s.flagged(ctx); err != nil {
		return nil, s.abandon(err)
	}
	return s, nil
}

// OpenReadOnly opens an existing database for reading, also beside a running daemon. Without a file the error is
// ops.ErrNotFound.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open database %s: %w: start claudeops once to create it", s.path, ops.ErrNotFound)
	} else if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if s.reader, err = openReaders(s.path); err != nil {
		return nil, s.openError(err)
	}
	if err := s.requireCurrent(ctx); err != nil {
		return nil, s.abandon(err)
	}
	return s, nil
}

func newStore(o Options) (*Store, error) {
	if o.Path == "" {
		return nil, errors.New("open database: no path given")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Store{path: path, clock: o.Clock, uptime: o.Uptime, log: o.Logger, statements: newStatements()}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.uptime == nil {
		s.uptime = systemUptime()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// openError names the file and, for a damaged one, the way out.
func (s *Store) openError(err error) error {
	if isCorrupt(err) {
		err = fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	if errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("open database %s: %w: move the file away or restore a backup, then start again", s.path, err)
	}
	return fmt.Errorf("open database %s: %w", s.path, err)
}

// abandon closes what was opened before err.
func (s *Store) abandon(err error) error {
	return s.openError(errors.Join(err, s.closePools()))
}

func (s *Store) closePools() error {
	var errs []error
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
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
		errs = append(errs, s.reader.Close(), s.clearFlag(ctx), checkpoint(ctx, s.writer))
	}
	errs = append(errs, s.statements.close(), s.closePools())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}

// UncleanStop reports whether the last process that called MarkOpen ended without Close.
func (s *Store) UncleanStop() bool { return s.unclean }

// MarkOpen records that this process works on the journal; Close removes the mark. Commands that only add a row beside
// a running daemon do not call it.
func (s *Store) MarkOpen(ctx context.Context) error {
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
	var n int
	err := s.writer.QueryRowContext(ctx, `SELECT COUNT(*) FROM store_state WHERE name = ?`, openFlag).Scan(&n)
	return n > 0, err
}

// QuickCheck reads the whole database and reports damage as ErrCorrupt.
func (s *Store) QuickCheck(ctx context.Context) error {
	if err := quickCheck(ctx, s.reader); err != nil {
		if isCorrupt(err) {
			err = fmt.Errorf("%w (%w)", ErrCorrupt, err)
		}
		return fmt.Errorf("check database %s: %w", s.path, err)
	}
	return nil
}
