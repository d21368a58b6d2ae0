package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
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
