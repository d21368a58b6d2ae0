package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
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

const (
	headSize  = 100 // of the header of a database file
	indexSize = 136 // of the header of the index of a write-ahead log
)

// soundness notices that an open file is damaged: SQLite says so, or something else than a checkpoint has written to it. Only a checkpoint
// writes to the file, and it says so in the index of the log.
type soundness struct {
	found atomic.Pointer[error]

	mu          sync.Mutex
	main, index *os.File // open for as long as SQLite uses them: closing one gives up its locks
	last        written
	known       bool // last is
	checking    sync.WaitGroup
	check       func(look func(context.Context) error) // begins a check beside the work
	end         context.CancelFunc
}

// written is the file as a checkpoint left it. Two of one checkpoint are the same.
type written struct {
	by       [12]byte // which checkpoint: the salts of the log, and how much of it was copied
	head     [headSize]byte
	size     int64
	modified int64
}

func (s *soundness) open(ctx context.Context, path string) (err error) {
	if s.main, err = os.Open(path); err != nil {
		return err
	}
	if s.index, err = os.Open(path + "-shm"); err != nil {
		return err
	}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.check = func(look func(context.Context) error) {
		s.checking.Go(func() { _ = s.note(look(ctx)) }) // one that cannot be made is made at the next start
	}
	s.last, s.known = s.look()
	return nil
}

func (s *soundness) close() error {
	if s.end != nil {
		s.end()
	}
	s.checking.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	main, index := s.main, s.index
	s.main, s.index = nil, nil
	var errs []error
	for _, f := range []*os.File{main, index} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// note remembers the first error with which the database says that it is damaged, and returns its argument.
func (s *soundness) note(err error) error {
	if Damaged(err) {
		err = asDamage(err)
		s.found.CompareAndSwap(nil, &err)
	}
	return err
}

// damage is why nothing may be written any more. What only changed the time of the file, and a change of the same size behind its header,
// is checked meanwhile.
func (s *soundness) damage(check func(context.Context) error) error {
	if found := s.found.Load(); found != nil {
		return *found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		return nil
	}
	now, settled := s.look()
	if !settled {
		return nil
	}
	was, known := s.last, s.known
	s.last, s.known = now, true
	switch {
	case !known || was == now || was.by != now.by:
	case was.size != now.size:
		return s.note(fmt.Errorf("%w: another program changed its size from %d to %d bytes", ErrCorrupt, was.size, now.size))
	case was.head != now.head:
		return s.note(fmt.Errorf("%w: another program has written to it", ErrCorrupt))
	default:
		s.check(check)
	}
	return nil
}

// look reads the file between two looks at the index, so that no checkpoint wrote meanwhile.
func (s *soundness) look() (now written, settled bool) {
	before, settled := s.checkpointed()
	if !settled {
		return now, false
	}
	now.by = before
	n, _ := s.main.ReadAt(now.head[:], 0)
	info, err := s.main.Stat()
	if err != nil {
		return now, false
	}
	clear(now.head[n:])
	now.size, now.modified = info.Size(), info.ModTime().UnixNano()
	after, settled := s.checkpointed()
	return now, settled && before == after
}

// checkpointed names the last checkpoint. One that is under way, or was cut short, has copied less than it wanted.
func (s *soundness) checkpointed() (by [12]byte, settled bool) {
	var header [indexSize]byte
	if _, err := s.index.ReadAt(header[:], 0); err != nil {
		return by, false
	}
	copied, wanted := header[96:100], header[128:132]
	copy(by[:8], header[32:40])
	copy(by[8:], copied)
	return by, bytes.Equal(copied, wanted)
}
