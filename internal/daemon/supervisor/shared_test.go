package supervisor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// table is a journal that several hosts share: the same key is the same cycle, and every cycle ends at once.
type table struct {
	*journal
	mu   sync.Mutex
	keys map[string]ops.CycleID
	last time.Time
}

func (s *table) SubmitCycle(_ context.Context, n ops.NewCycle) (ops.CycleID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, known := s.keys[n.Key]; known {
		return id, nil
	}
	s.keys[n.Key] = ops.CycleID(len(s.keys) + 1)
	s.last = time.Now()
	return s.keys[n.Key], nil
}

func (s *table) LastEnded(context.Context, string) (time.Time, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, !s.last.IsZero(), nil
}

func TestHostsThatShareAScheduleCheckOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &table{journal: &journal{}, keys: map[string]ops.CycleID{}}
		envs := []ops.Environment{{Name: "default", Interval: time.Hour}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour+time.Minute)
		defer cancel()
		var hosts sync.WaitGroup
		for range 3 {
			s := newSupervisor(&journal{}, &wakes{}, envs...)
			s.o.Journal, s.o.Shared, s.o.Jitter = j, true, New(Options{}).o.Jitter
			hosts.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		hosts.Wait()
		// Whoever's jitter comes first checks, so there may be a few more than one in an hour, and never two for one.
		if n := len(j.keys); n < 23 || n > 31 {
			t.Errorf("%d checks in a day", n)
		}
	})
}

func TestACheckThatAnotherHostHasBegunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{open: []ops.Cycle{{ID: 9, Environment: "default", Status: ops.CycleWaitingHuman, CreatedAt: time.Now()}}}
		s := newSupervisor(j, &wakes{})
		s.o.Shared = true
		during(t, s, 30*time.Minute)
		if j.count() != 0 {
			t.Errorf("%d more checks", j.count())
		}
		during(t, s, 31*time.Minute)
		if j.count() != 1 || j.queued[0].Key == "" {
			t.Errorf("asked for %+v", j.queued)
		}
	})
}
