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

// sound knows why nothing may be started here, whatever the journal says: there is no room to record it, or the journal
// itself is damaged.
type sound struct {
	dir     string
	reserve int64 // bytes; 0 means that nobody asks
	free    func(dir string) (int64, error)
	checked chan struct{} // closed once the database was looked through, or need not be
	damage  atomic.Pointer[error]
}

func newSound(dir string, reserve int64) *sound {
	return &sound{dir: dir, reserve: reserve, free: freeSpace, checked: make(chan struct{})}
}

// freeSpace is what a program without privileges may still write.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}

// check looks through the database, which was not closed in good order. Repairs wait for it.
func (s *sound) check(ctx context.Context, look func(context.Context) error) {
	if err := look(ctx); err != nil && ctx.Err() == nil {
		s.damaged(err)
	}
	close(s.checked)
}

// damaged stops everything for good: only a person can say what of the journal is still true.
func (s *sound) damaged(err error) {
	err = fmt.Errorf("the database is damaged, so nothing is started any more: stop claudeops, restore a backup, start it again (%w)", err)
	s.damage.CompareAndSwap(nil, &err)
}

// trouble says why nothing may be started now, if there is a reason.
func (s *sound) trouble() error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	if s.reserve == 0 {
		return nil
	}
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < s.reserve {
		return fmt.Errorf("only %d MB are free in %s, and %d MB are kept for the journal (host.disk_reserve): no session is started until there is room", free>>20, s.dir, s.reserve>>20)
	}
	return nil
}

// hold says why a session of the tier must not start. One that changes something first waits until the database was looked
// through.
func (s *sound) hold(ctx context.Context, tier ops.Tier) error {
	if tier > ops.Tier1 {
		select {
		case <-s.checked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.trouble()
}

// soundEvery is how often the room on the disk is looked at while nothing starts.
const soundEvery = 5 * time.Second

// watch tells when trouble begins and ends, until ctx ends.
func (s *sound) watch(ctx context.Context, tell func(trouble error)) {
	var before string
	for {
		now := s.trouble()
		if text := errorText(now); (text == "") != (before == "") {
			tell(now)
			before = text
		}
		timer := time.NewTimer(soundEvery)
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

// tellTrouble tells people that nothing is started any more, and when it is again.
func (h *Host) tellTrouble(ctx context.Context, trouble error) {
	at := h.Clock()
	event := ops.Event{At: at, Level: ops.LevelInfo, Kind: "host", Message: "what kept sessions from being started is over"}
	errs := []error(nil)
	if trouble != nil {
		h.Logger.ErrorContext(ctx, "no session is started", "error", trouble)
		event.Level, event.Message = ops.LevelCritical, trouble.Error()
		_, err := h.store.AddNotice(ctx, ops.Notice{
			Kind: "host", Level: ops.LevelCritical, Title: "Claude Ops: No session is started", Body: trouble.Error() + ".\n",
			Status: ops.NoticePending, NextAt: at, CreatedAt: at,
		})
		errs = append(errs, err)
	} else {
		h.Logger.InfoContext(ctx, event.Message)
		h.supervisor.Wake(0)
	}
	_, err := h.store.AddEvent(ctx, event)
	if err := errors.Join(append(errs, err)...); err != nil {
		h.Logger.ErrorContext(ctx, "what keeps sessions from being started could not be recorded", "error", err)
	}
	h.hub.Nudge()
}
