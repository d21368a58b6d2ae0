package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/ops"
)

// readiness decides whether this host may start sessions at all: not while the disk is nearly full, and not after the
// database was found damaged.
//
// After an unclean stop the database is checked while the host works. Waiting for the check would leave a large installation
// unwatched for minutes, so only sessions that may change something wait for it, in hold.
type readiness struct {
	dir     string
	reserve int64 // bytes; 0 switches the check off
	free    func(dir string) (int64, error)
	checked chan struct{} // closed when the database was checked, or needs no check
	damage  atomic.Pointer[error]
	also    []func() error // further reasons why no session may start
}

func newReadiness(dir string, reserve int64) *readiness {
	return &readiness{dir: dir, reserve: reserve, free: freeSpace, checked: make(chan struct{})}
}

// freeSpace is how much a program without privileges can still write.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}

// check checks a database that was not closed properly. Repairs wait for it.
func (s *readiness) check(ctx context.Context, look func(context.Context) error) {
	if err := look(ctx); err != nil && ctx.Err() == nil {
		s.damaged(err)
	}
	close(s.checked)
}

// damaged stops everything until a restart: only a person can decide how much of the journal is still valid.
func (s *readiness) damaged(err error) {
	err = fmt.Errorf("the database is damaged, so no session starts: stop claudeops, restore a backup, start it again (%w)", err)
	s.damage.CompareAndSwap(nil, &err)
}

// trouble is why no session may start now, or nil.
func (s *readiness) trouble() error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	for _, reason := range s.also {
		if err := reason(); err != nil {
			return err
		}
	}
	if s.reserve == 0 {
		return nil
	}
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < s.reserve {
		return fmt.Errorf("only %d MB are free in %s, and %d MB are reserved for the journal (host.disk_reserve): "+
			"no session starts until there is more space", free>>20, s.dir, s.reserve>>20)
	}
	return nil
}

// hold returns why a session of the tier must not start. A session that may change something first waits for the check of the
// database.
func (s *readiness) hold(ctx context.Context, tier ops.Tier) error {
	if tier > ops.Tier1 {
		select {
		case <-s.checked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.trouble()
}

// hold returns why a session of the tier must not start now.
func (h *Host) hold(ctx context.Context, tier ops.Tier) error {
	if err := h.readiness.hold(ctx, tier); err != nil {
		return err
	}
	return h.sessionKeeper.Check(ctx)
}

// readinessInterval is how often the free space is checked while no session starts.
const readinessInterval = 5 * time.Second

// watch calls tell when trouble begins and when it ends, until ctx ends.
func (s *readiness) watch(ctx context.Context, tell func(trouble error)) {
	var before string
	for {
		now := s.trouble()
		if text := errorText(now); (text == "") != (before == "") {
			tell(now)
			before = text
		}
		timer := time.NewTimer(readinessInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// tellTrouble records and reports that no session can start, or that sessions can start again.
func (h *Host) tellTrouble(ctx context.Context, trouble error) {
	at := h.Clock()
	const resumed = "sessions can start again"
	event := ops.Event{At: at, Level: ops.LevelInfo, Kind: "host", Message: resumed}
	errs := []error(nil)
	if trouble != nil {
		h.Logger.ErrorContext(ctx, "no session can start", "error", trouble)
		event.Level, event.Message = ops.LevelCritical, trouble.Error()
		_, err := h.store.AddNotice(ctx, ops.Notice{
			Kind: "host", Level: ops.LevelCritical, Title: "Claude Ops: No session can start", Body: trouble.Error() + ".\n",
			Status: ops.NoticePending, NextAt: at, CreatedAt: at,
		})
		errs = append(errs, err)
	} else {
		h.Logger.InfoContext(ctx, resumed)
		h.supervisor.Wake(0)
	}
	_, err := h.store.AddEvent(ctx, event)
	if err := errors.Join(append(errs, err)...); err != nil {
		h.Logger.ErrorContext(ctx, "cannot record whether sessions can start", "error", err)
	}
	h.hub.Nudge()
}

// What is known of the database.
const (
	databaseChecking = "checking"
	databaseIntact   = "sound"
	databaseDamaged  = "damaged"
)

// state says whether the database is being checked, intact or damaged.
func (s *readiness) state() string {
	if s.damage.Load() != nil {
		return databaseDamaged
	}
	select {
	case <-s.checked:
		return databaseIntact
	default:
		return databaseChecking
	}
}

// trouble is the warning on every page: why no session starts, or what waits.
func (h *Host) trouble() string {
	if text := errorText(h.readiness.trouble()); text != "" {
		return text
	}
	if err := h.may(); err != nil {
		return err.Error()
	}
	if h.draining.Load() {
		return "this host is being drained: it takes no new cycles; other hosts, or its next start, continue the ones it hands over"
	}
	if h.readiness.state() == databaseChecking {
		return "the database was not closed properly and is being checked; sessions that may change something wait for the result"
	}
	return ""
}

// unfit is why this host cannot work at all, or nil.
func (h *Host) unfit() error {
	if h.readiness.damage.Load() != nil {
		return errors.New("the database is damaged; the log says how") // everybody may read this, so it names no file
	}
	for _, reason := range h.readiness.also {
		if err := reason(); err != nil {
			return err
		}
	}
	return nil
}
