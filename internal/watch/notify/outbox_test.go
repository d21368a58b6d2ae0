package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// rows keeps notices in memory.
type rows struct {
	mu      sync.Mutex
	notices []ops.Notice
	events  []ops.Event
	broken  error
}

func (r *rows) add(titles ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, title := range titles {
		r.notices = append(r.notices, ops.Notice{
			ID: int64(
				len(r.notices) + 1,
			),
			CycleID: ops.Ptr(ops.CycleID(9)),
			Title:   title,
			Body:    title,
			Status:  ops.NoticePending,
			NextAt:  time.Now(),
		})
	}
}

func (r *rows) DueNotices(ctx context.Context, now time.Time, limit int) ([]ops.Notice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.broken, ctx.Err()); err != nil {
		return nil, err
	}
	var due []ops.Notice
	for _, n := range r.notices {
		if n.Status == ops.NoticePending && !n.NextAt.After(now) {
			due = append(due, n)
		}
	}
	return due[:min(len(due), limit)], nil
}

func (r *rows) SettleNotice(ctx context.Context, n ops.Notice, event *ops.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.broken, ctx.Err()); err != nil {
		return err
	}
	if r.notices[n.ID-1].Status != ops.NoticePending {
		return ops.ErrConflict
	}
	r.notices[n.ID-1] = n
	if event != nil {
		r.events = append(r.events, *event)
	}
	return nil
}

func (r *rows) PendingNotices(context.Context) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := 0
	for _, n := range r.notices {
		if n.Status == ops.NoticePending {
			pending++
		}
	}
	return pending, r.broken
}

func (r *rows) notice(id int) ops.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notices[id-1]
}

func (r *rows) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, fmt.Sprintf("%s: %s", e.Level, notice.Words(e).Words()))
	}
	return out
}

type send func(ctx context.Context, n ops.Notice) error

func (f send) Send(ctx context.Context, n ops.Notice) ([]string, error) {
	if err := f(ctx, n); err != nil {
		return nil, err
	}
	return []string{"phone"}, nil
}

func outbox(store Store, sender Sender) *Outbox {
	return NewOutbox(OutboxOptions{Store: store, Sender: sender, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
}

// start runs the outbox until the returned function stops it and has seen it end.
func start(t *testing.T, o *Outbox, wake <-chan struct{}) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := o.Run(ctx, wake); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return func() {
		cancel(errors.New("test ends"))
		running.Wait()
	}
}

func TestANoticeIsTriedSixTimesThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		store.add("disk full")
		begin := time.Now()
		var tried []time.Duration
		stop := start(t, outbox(store, send(func(context.Context, ops.Notice) error {
			tried = append(tried, time.Since(begin))
			return errors.New("apprise is not installed")
		})), nil)
		<-time.After(24 * time.Hour)
		stop()
		want := []time.Duration{0, 5 * time.Second, 35 * time.Second, 155 * time.Second, 755 * time.Second, 2555 * time.Second}
		if !slices.Equal(tried, want) {
			t.Errorf("tried at %v, want %v", tried, want)
		}
		n := store.notice(1)
		if n.Status != ops.NoticeDead || n.Attempts != 6 || n.Error != "apprise is not installed" || n.SentAt != nil {
			t.Errorf("got %+v", n)
		}
		wantSaid := []string{
			`warning: notice "disk full" could not be delivered and is tried again: apprise is not installed`,
			`warning: notice "disk full" was given up after 6 attempts: apprise is not installed`,
		}
		if got := store.said(); !slices.Equal(got, wantSaid) {
			t.Errorf("events %q", got)
		}
		if e := store.events[0]; e.Kind() != "notification" || *e.CycleID != 9 || !e.At.Equal(begin) {
			t.Errorf("event %+v", e)
		}
	})
}

func TestANoticeThatSucceedsLaterIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		store.add("disk full")
		begin, tries := time.Now(), 0
		stop := start(t, outbox(store, send(func(context.Context, ops.Notice) error {
			if tries++; tries < 3 {
				return errors.New("busy")
			}
			return nil
		})), nil)
		<-time.After(time.Hour)
		stop()
		n := store.notice(1)
		if n.Status != ops.NoticeSent || n.Attempts != 3 || n.Error != "" || n.SentAt == nil || n.SentAt.Sub(begin) != 35*time.Second {
			t.Errorf("got %+v", n)
		}
		if got := store.said(); len(got) != 1 {
			t.Errorf("events %q", got)
		}
	})
}

func TestAFailingNoticeDoesNotHoldTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		for i := range 120 { // more than one batch
			store.add(fmt.Sprint(i))
		}
		err := outbox(store, send(func(_ context.Context, n ops.Notice) error {
			if n.ID%2 == 0 {
				return errors.New("refused")
			}
			return nil
		})).Drain(t.Context())
		must(t, err)
		for id := 1; id <= 120; id++ {
			n := store.notice(id)
			if want := map[bool]ops.NoticeStatus{true: ops.NoticePending, false: ops.NoticeSent}[id%2 == 0]; n.Status != want || n.Attempts != 1 {
				t.Errorf("got %+v", n)
			}
		}
	})
}

func TestWithoutATargetNoticesAreSkippedAndThatIsSaidOnce(t *testing.T) {
	store := &rows{}
	store.add("one", "two")
	o := outbox(store, NewSender(AppriseOptions{}, Native{}))
	for range 2 {
		must(t, o.Drain(t.Context()))
		store.add("three")
	}
	for id := 1; id <= 3; id++ {
		if n := store.notice(id); n.Status != ops.NoticeSkipped || n.Attempts != 0 {
			t.Errorf("got %+v", n)
		}
	}
	said := store.said()
	if len(said) != 1 || !strings.HasPrefix(said[0], "info: notices are only recorded, not sent: no notification target is configured") {
		t.Errorf("events %q", said)
	}
}

func TestAWakeUpDeliversAtOnceAndALostOneWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		wake := make(chan struct{})
		stop := start(t, outbox(store, send(func(context.Context, ops.Notice) error { return nil })), wake)
		defer stop()
		begin := time.Now()
		synctest.Wait()
		store.add("woken")
		wake <- struct{}{}
		synctest.Wait()
		if n := store.notice(1); n.Status != ops.NoticeSent || time.Since(begin) != 0 {
			t.Errorf("got %+v", n)
		}
		store.add("not woken")
		<-time.After(time.Minute)
		synctest.Wait()
		if n := store.notice(2); n.Status != ops.NoticeSent {
			t.Errorf("got %+v", n)
		}
		close(wake) // must not make a busy loop
		store.add("after close")
		<-time.After(2 * time.Minute)
		if n := store.notice(3); n.Status != ops.NoticeSent {
			t.Errorf("got %+v", n)
		}
	})
}

func TestAShutdownIsNoFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		store.add("disk full")
		stop := start(t, outbox(store, send(func(ctx context.Context, _ ops.Notice) error {
			<-ctx.Done()
			return ctx.Err()
		})), nil)
		synctest.Wait()
		stop()
		if n := store.notice(1); n.Status != ops.NoticePending || n.Attempts != 0 || len(store.said()) != 0 {
			t.Errorf("got %+v, %q", n, store.said())
		}
	})
}

func TestWhatWasSentDuringAShutdownIsRecorded(t *testing.T) {
	store := &rows{}
	store.add("disk full")
	ctx, cancel := context.WithCancel(t.Context())
	err := outbox(store, send(func(context.Context, ops.Notice) error { cancel(); return nil })).Drain(ctx)
	if n := store.notice(1); err != nil || n.Status != ops.NoticeSent {
		t.Errorf("got %+v, %v", n, err)
	}
}

func TestABrokenStoreIsTriedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{broken: errors.New("database is locked")}
		store.add("disk full")
		o := outbox(store, send(func(context.Context, ops.Notice) error { return nil }))
		if err := o.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "database is locked") {
			t.Errorf("got %v", err)
		}
		stop := start(t, o, nil)
		<-time.After(time.Minute)
		store.mu.Lock()
		store.broken = nil
		store.mu.Unlock()
		<-time.After(10 * time.Second)
		stop()
		if n := store.notice(1); n.Status != ops.NoticeSent {
			t.Errorf("got %+v", n)
		}
	})
}

func TestASecondPassWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		store.add("disk full")
		sent := 0
		o := outbox(store, send(func(context.Context, ops.Notice) error {
			sent++
			<-time.After(time.Second)
			return nil
		}))
		var passes sync.WaitGroup
		for range 3 {
			passes.Go(func() {
				if err := o.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		passes.Wait()
		if sent != 1 {
			t.Errorf("sent %d times", sent)
		}
	})
}

func TestDrainForDeliversOrGivesUp(t *testing.T) {
	cases := []struct {
		name   string
		sender func(try int, ctx context.Context) error
		took   time.Duration
		status ops.NoticeStatus
		tries  int
		events int
		err    string
	}{
		{"at once", func(int, context.Context) error { return nil }, 0, ops.NoticeSent, 1, 0, ""},
		{"second try", func(try int, _ context.Context) error {
			if try == 1 {
				return errors.New("busy")
			}
			return nil
		}, 5 * time.Second, ops.NoticeSent, 2, 1, ""},
		{
			"never",
			func(int, context.Context) error { return errors.New("no such host") },
			5 * time.Second,
			ops.NoticePending,
			2,
			1,
			"1 notices are not delivered yet",
		},
		{
			"hangs",
			func(_ int, ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			10 * time.Second,
			ops.NoticePending,
			1,
			1,
			"1 notices are not delivered yet",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &rows{}
				store.add("disk full")
				begin, tries := time.Now(), 0
				err := outbox(store, send(func(ctx context.Context, _ ops.Notice) error {
					tries++
					return c.sender(tries, ctx)
				})).DrainFor(t.Context(), 10*time.Second)
				if (c.err == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				n := store.notice(1)
				if took := time.Since(begin); took != c.took || n.Status != c.status || n.Attempts != c.tries || len(store.said()) != c.events {
					t.Errorf("after %s: %+v, %q", took, n, store.said())
				}
			})
		})
	}
}

func TestDrainForWithNothingToDoReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := outbox(&rows{}, NewSender(AppriseOptions{}, Native{})).DrainFor(t.Context(), 10*time.Second); err != nil || time.Since(begin) != 0 {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestDrainForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{}
		store.add("disk full")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("interrupted")) })
		err := outbox(store, send(func(ctx context.Context, _ ops.Notice) error { <-ctx.Done(); return ctx.Err() })).DrainFor(ctx, 10*time.Second)
		if err == nil || !strings.Contains(err.Error(), "interrupted") && !errors.Is(err, context.Canceled) || store.notice(1).Attempts != 0 {
			t.Errorf("got %v, %+v", err, store.notice(1))
		}
	})
}
