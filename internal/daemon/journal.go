package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// storeSoon is how long output waits for the database before it is spooled.
	storeSoon = 3 * time.Second
	// spoolPace is how often spooled output is tried again.
	spoolPace = 2 * time.Second
)

// journal is the store with a spool: the output of a session is not lost while the database is unavailable.
type journal struct {
	*store.Journal
	spool *spool
	host  string
	log   *slog.Logger
	// scarce reports whether the disk has no space left for output.
	scarce func() bool
	// elsewhere means that the database is not on this disk.
	elsewhere bool

	mu      sync.Mutex
	next    time.Time // no attempt to store output is made before
	dropped map[ops.SessionID]*lost
}

// lost is output that was not stored because the disk was nearly full.
type lost struct {
	first        ops.Line
	lines, bytes int64
}

// AppendTranscript stores output, or spools it until it can be stored. While lines of a session are spooled, later ones are
// spooled too, so they keep their order. While the disk is nearly full they are dropped and counted: the session goes on to its limits,
// and what is left of the reserve is for the rows that say how it ended.
func (j *journal) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if len(lines) > 0 && !j.elsewhere && j.scarce() {
		j.drop(id, lines)
		return nil
	}
	lines, err := j.withMark(id, lines)
	if err != nil {
		return err
	}
	if err := j.keep(ctx, owner, id, lines); err != nil {
		if !j.scarce() {
			return err
		}
		j.drop(id, lines)
	}
	return nil
}

func (j *journal) keep(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if j.spool.Holds(id) && !j.retry(ctx, id) {
		return j.spool.Keep(id, lines)
	}
	call, cancel := context.WithTimeoutCause(ctx, storeSoon, errors.New("the database did not store the output in time"))
	defer cancel()
	err := j.Journal.AppendTranscript(call, owner, id, lines)
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

// drop counts lines of a session that are not stored.
func (j *journal) drop(id ops.SessionID, lines []ops.Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dropped == nil {
		j.dropped = map[ops.SessionID]*lost{}
	}
	l := j.dropped[id]
	if l == nil {
		l = &lost{first: lines[0]}
		j.dropped[id] = l
	}
	for _, line := range lines {
		l.lines += 1 + line.Dropped
		l.bytes += int64(len(line.Text))
	}
}

// withMark puts a line that says what was dropped before the lines that follow it.
func (j *journal) withMark(id ops.SessionID, lines []ops.Line) ([]ops.Line, error) {
	j.mu.Lock()
	l := j.dropped[id]
	delete(j.dropped, id)
	j.mu.Unlock()
	if l == nil {
		return lines, nil
	}
	mark, err := store.DropMark(l.first, l.lines, l.bytes, "because the disk was nearly full")
	if err != nil {
		return nil, err
	}
	return append([]ops.Line{mark}, lines...), nil
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

// deliver stores what was spooled, and says what was dropped of sessions that print nothing more.
func (j *journal) deliver(ctx context.Context) error {
	if err := j.storeMarks(); err != nil {
		return err
	}
	return j.spool.Deliver(ctx, func(ctx context.Context, id ops.SessionID, lines []ops.Line) error {
		return j.AppendSpooled(ctx, j.host, id, lines)
	})
}

// storeMarks spools the lines that say what was dropped.
func (j *journal) storeMarks() error {
	j.mu.Lock()
	ids := slices.Collect(maps.Keys(j.dropped))
	j.mu.Unlock()
	if len(ids) == 0 || j.scarce() {
		return nil
	}
	for _, id := range ids {
		mark, err := j.withMark(id, nil)
		if err != nil || len(mark) == 0 {
			return err
		}
		if err := j.spool.Keep(id, mark); err != nil {
			return err
		}
	}
	return nil
}

// run stores spooled output until ctx ends.
func (j *journal) run(ctx context.Context) {
	var failing bool
	supervisor.Every(ctx, spoolPace, nil, func() {
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
	})
}
