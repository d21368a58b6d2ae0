package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/store/spool"
)

const (
	// storeSoon is how long output waits for the database before it is spooled.
	storeSoon = 3 * time.Second
	// spoolPace is how often spooled output is tried again.
	spoolPace = 2 * time.Second
)

// journal is the store with a spool: the output of a session is not lost while the database is unavailable.
type journal struct {
	*store.Store
	spool *spool.Spool
	host  string
	log   *slog.Logger

	mu   sync.Mutex
	next time.Time // no attempt to store output is made before
}

// AppendTranscript stores output, or spools it until it can be stored. While lines of a session are spooled, later ones are
// spooled too, so they keep their order.
func (j *journal) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if j.spool.Holds(id) && !j.retry(ctx, id) {
		return j.spool.Keep(id, lines)
	}
	call, cancel := context.WithTimeoutCause(ctx, storeSoon, errors.New("the database did not store the output in time"))
	defer cancel()
	err := j.Store.AppendTranscript(call, owner, id, lines)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ops.ErrFenced), errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrNotFound):
		return err // the database has answered
	}
	j.pause()
	if kept := j.spool.Keep(id, lines); kept != nil {
		return errors.Join(err, kept)
	}
	return nil
}

// retry tries to store spooled output from time to time, and reports whether none of the session is left.
func (j *journal) retry(ctx context.Context, id ops.SessionID) bool {
	j.mu.Lock()
	early := time.Now().Before(j.next)
	j.mu.Unlock()
	if early {
		return false
	}
	call, cancel := context.WithTimeout(ctx, storeSoon)
	defer cancel()
	if err := j.deliver(call); err != nil {
		j.pause()
	}
	return !j.spool.Holds(id)
}

func (j *journal) pause() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next = time.Now().Add(spoolPace)
}

func (j *journal) deliver(ctx context.Context) error {
	return j.spool.Deliver(ctx, func(ctx context.Context, id ops.SessionID, lines []ops.Line) error {
		return j.AppendSpooled(ctx, j.host, id, lines)
	})
}

// run stores spooled output until ctx ends.
func (j *journal) run(ctx context.Context) {
	ticker := time.NewTicker(spoolPace)
	defer ticker.Stop()
	var failing bool
	for {
		err := j.deliver(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			j.log.WarnContext(ctx, "cannot store agent output; it is spooled in the state folder and stored later", "error", err)
		case err == nil && failing:
			j.log.InfoContext(ctx, "spooled agent output is stored")
		}
		if failing = err != nil; failing {
			j.pause()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
