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
	// storeSoon is how long output waits for the database before it is kept beside it.
	storeSoon = 3 * time.Second
	// spoolPace is how often kept output is offered again.
	spoolPace = 2 * time.Second
)

// journal is the store with a spool beside it: what a session said is never lost because the database is away for a while.
type journal struct {
	*store.Store
	spool *spool.Spool
	host  string
	log   *slog.Logger

	mu   sync.Mutex
	next time.Time // no attempt to store output is made before
}

// AppendTranscript stores output, or keeps it until it can be stored. Lines keep their order: behind kept ones all are kept.
func (j *journal) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if j.spool.Holds(id) && !j.retry(ctx, id) {
		return j.spool.Keep(id, lines)
	}
	call, cancel := context.WithTimeoutCause(ctx, storeSoon, errors.New("the database did not take the output in time"))
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

// retry offers what is kept, now and then, and says whether nothing of the session waits any more.
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

// run hands over what is kept until ctx ends; the last try is made by whoever stops the host.
func (j *journal) run(ctx context.Context) {
	ticker := time.NewTicker(spoolPace)
	defer ticker.Stop()
	var failing bool
	for {
		err := j.deliver(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			j.log.WarnContext(ctx, "output of agents waits in the state folder until it can be stored", "error", err)
		case err == nil && failing:
			j.log.InfoContext(ctx, "output that waited is stored")
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
