package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

type journal struct {
	mu     sync.Mutex
	ends   []ops.Ending
	told   []ops.Notice
	queued []ops.NewCycle
	open   []ops.Cycle
	ended  map[string]time.Time
}

func (j *journal) SubmitCycle(_ context.Context, n ops.NewCycle) (ops.CycleID, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queued = append(j.queued, n)
	return ops.CycleID(len(j.queued)), nil
}

func (j *journal) RequestCancel(_ context.Context, id ops.CycleID, _ string, _ time.Time) (ops.Cycle, error) {
	if id != 1 {
		return ops.Cycle{}, ops.ErrNotFound
	}
	return ops.Cycle{ID: id}, nil
}

func (j *journal) LastEnded(_ context.Context, env string) (time.Time, bool, error) {
	t, ok := j.ended[env]
	return t, ok, nil
}

func (j *journal) Endings(context.Context, string, int) ([]ops.Ending, error) { return j.ends, nil }

func (j *journal) AddNotice(_ context.Context, n ops.Notice) (int64, error) {
	j.told = append(j.told, n)
	return int64(len(j.told)), nil
}

func (j *journal) AddEvent(context.Context, ops.Event) (int64, error) { return 1, nil }

func (j *journal) Unfinished(context.Context) ([]ops.Cycle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open, nil
}

func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queued)
}

type wakes struct {
	mu        sync.Mutex
	submitted []ops.CycleID
	cancelled []string
}

func (w *wakes) Start(context.Context) error { return nil }
func (w *wakes) Stop(context.Context) error  { return nil }
func (w *wakes) Drain()                      {}
func (w *wakes) Resume() error               { return nil }
func (w *wakes) Draining() bool              { return false }
func (w *wakes) Cancel(_ ops.CycleID, s string) {
	w.mu.Lock()
	w.cancelled = append(w.cancelled, s)
	w.mu.Unlock()
}

func (w *wakes) Submit(id ops.CycleID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.submitted = append(w.submitted, id)
}

func newSupervisor(j *journal, w *wakes, envs ...ops.Environment) *Supervisor {
	if len(envs) == 0 {
		envs = []ops.Environment{{Name: "default", Interval: time.Hour}}
	}
	return New(Options{
		Journal: j, Notices: j, Engine: w, Environments: envs, Scheduled: envs, Clock: time.Now, Jitter: func() float64 { return 0 }, Logger: slog.New(slog.DiscardHandler),
	})
}

func during(t *testing.T, s *Supervisor, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// Without an agent and without anything to watch, a cycle could only fail. It starts as soon as there is one.
func TestNothingStartsBeforeItIsSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		s := newSupervisor(j, &wakes{})
		installed := time.Now().Add(10 * time.Minute)
		s.o.Idle = func(string) bool { return time.Now().Before(installed) }
		during(t, s, 9*time.Minute)
		if j.count() != 0 || len(s.NextChecks()) != 0 {
			t.Errorf("%d cycles, next %v", j.count(), s.NextChecks())
		}
		during(t, s, 2*time.Minute)
		if j.count() != 1 || len(s.NextChecks()) != 1 {
			t.Errorf("%d cycles, next %v", j.count(), s.NextChecks())
		}
	})
}

func TestScheduleStartsAtOnceAndKeepsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		during(t, newSupervisor(j, &wakes{}), 3*time.Hour+time.Minute)
		if j.count() != 4 {
			t.Errorf("%d cycles in three hours", j.count())
		}
		if j.queued[0].Trigger != ops.TriggerScheduled {
			t.Errorf("trigger is %s", j.queued[0].Trigger)
		}
	})
}

func TestScheduleWaitsWhenACycleEndedLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{ended: map[string]time.Time{"default": time.Now().Add(-40 * time.Minute)}}
		s := newSupervisor(j, &wakes{})
		during(t, s, 19*time.Minute)
		if j.count() != 0 {
			t.Errorf("%d cycles before the interval is over", j.count())
		}
		during(t, newSupervisor(j, &wakes{}), 21*time.Minute)
		if j.count() != 1 {
			t.Errorf("%d cycles after it", j.count())
		}
	})
}

func TestScheduleSkipsWhileACycleIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{open: []ops.Cycle{{ID: 9, Environment: "default", Status: ops.CycleRunning}}}
		during(t, newSupervisor(j, &wakes{}), 5*time.Hour)
		if j.count() != 0 {
			t.Errorf("%d cycles piled up", j.count())
		}
	})
}

func TestACycleThatWaitsForAHumanDoesNotStopTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{open: []ops.Cycle{{ID: 9, Environment: "default", Status: ops.CycleWaitingHuman}}}
		during(t, newSupervisor(j, &wakes{}), time.Minute)
		if j.count() != 1 {
			t.Errorf("%d cycles", j.count())
		}
	})
}

func TestTimetable(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	envs := []ops.Environment{{Name: "a", Interval: time.Hour}}
	none := func() float64 { return 0 }
	table := func() *timetable {
		return &timetable{next: map[string]time.Time{"a": start.Add(time.Hour)}, seen: start}
	}

	t.Run("a long sleep is made up by one cycle", func(t *testing.T) {
		tt := table()
		woken := start.Add(8 * time.Hour)
		if got := tt.due(woken, envs, none); len(got) != 1 {
			t.Fatalf("%d cycles after a long sleep", len(got))
		}
		if got := tt.due(woken.Add(time.Minute), envs, none); len(got) != 0 {
			t.Errorf("another one right after it")
		}
	})
	t.Run("a clock set back a year does not stop the schedule", func(t *testing.T) {
		tt := table()
		back := start.AddDate(-1, 0, 0)
		if got := tt.due(back, envs, none); len(got) != 0 {
			t.Fatalf("due at once")
		}
		if got := tt.due(back.Add(time.Hour), envs, none); len(got) != 1 {
			t.Errorf("not due an interval later; next is %s", tt.next["a"])
		}
	})
	t.Run("a clock set forward a year fires once", func(t *testing.T) {
		tt := table()
		ahead := start.AddDate(1, 0, 0)
		if first, second := tt.due(ahead, envs, none), tt.due(ahead, envs, none); len(first) != 1 || len(second) != 0 {
			t.Errorf("fired %d and %d times", len(first), len(second))
		}
	})
	t.Run("jitter stays within a tenth", func(t *testing.T) {
		for jitter, want := range map[float64]time.Duration{-1: 54 * time.Minute, 0: time.Hour, 1: 66 * time.Minute} {
			if got := nextDue(start, time.Hour, jitter).Sub(start); got != want {
				t.Errorf("jitter %v gives %s, want %s", jitter, got, want)
			}
		}
	})
	t.Run("a last end in the future counts as never", func(t *testing.T) {
		if got := firstDue(start, start.AddDate(1, 0, 0), true, time.Hour); !got.Equal(start) {
			t.Errorf("first due is %s", got)
		}
	})
	t.Run("the loop never sleeps long", func(t *testing.T) {
		if got := table().wait(start); got > time.Minute {
			t.Errorf("sleeps %s: a machine that slept would be noticed too late", got)
		}
	})
}

func TestSubmit(t *testing.T) {
	j, w := &journal{}, &wakes{}
	s := newSupervisor(j, w)
	id, err := s.Submit(t.Context(), ops.NewCycle{Environment: "default", Trigger: ops.TriggerAPI})
	if err != nil || id != 1 || len(w.submitted) != 1 || j.queued[0].At.IsZero() {
		t.Errorf("got %d, %v; woken %v", id, err, w.submitted)
	}
	if _, err := s.Submit(t.Context(), ops.NewCycle{Environment: "nowhere"}); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("an unknown environment gives %v", err)
	}
}

func TestCancel(t *testing.T) {
	w := &wakes{}
	s := newSupervisor(&journal{}, w)
	if err := s.Cancel(t.Context(), 1, "by ada"); err != nil || len(w.cancelled) != 1 || w.cancelled[0] != "by ada" {
		t.Errorf("got %v, %v", err, w.cancelled)
	}
	if err := s.Cancel(t.Context(), 2, ""); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("an unknown cycle gives %v", err)
	}
}

func TestFailingCyclesAreSpacedOutAndThenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		minute := ops.Environment{Name: "default", Interval: time.Minute}
		j := &journal{ends: []ops.Ending{{Status: ops.CyclePartial, At: now.Add(-time.Second)}}}
		during(t, newSupervisor(j, &wakes{}, minute), 25*time.Second)
		if j.count() != 0 {
			t.Errorf("%d cycles right after one that failed", j.count())
		}
		during(t, newSupervisor(j, &wakes{}, minute), 10*time.Second)
		if j.count() != 1 || len(j.told) != 0 {
			t.Errorf("%d cycles after the wait, %d notices", j.count(), len(j.told))
		}
		now = time.Now()
		j = &journal{}
		for i := range 5 {
			j.ends = append(j.ends, ops.Ending{Status: ops.CyclePartial, At: now.Add(-time.Duration(i) * time.Minute)})
		}
		during(t, newSupervisor(j, &wakes{}, minute), 20*time.Minute)
		if j.count() != 0 || len(j.told) != 1 {
			t.Errorf("%d cycles while the brake holds, told %d times", j.count(), len(j.told))
		}
		j.ends = append([]ops.Ending{{Status: ops.CycleHealthy, At: time.Now()}}, j.ends...)
		during(t, newSupervisor(j, &wakes{}, minute), 90*time.Second)
		if j.count() == 0 {
			t.Error("a healthy cycle does not let go of the brake")
		}
	})
}

// TestASuspendedMachineCatchesUpWithOneCycle: timers stop while a machine is suspended, its clock does not.
func TestASuspendedMachineCatchesUpWithOneCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		var suspended atomic.Int64
		envs := []ops.Environment{{Name: "default", Interval: 10 * time.Minute}}
		s := New(Options{
			Journal: j, Notices: j, Engine: &wakes{}, Environments: envs, Scheduled: envs, Jitter: func() float64 { return 0 },
			Clock:  func() time.Time { return time.Now().Add(time.Duration(suspended.Load())).Round(0) },
			Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		before := j.count()
		suspended.Store(int64(time.Hour))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if got := j.count() - before; got != 1 {
			t.Errorf("%d cycles after the machine was suspended", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
