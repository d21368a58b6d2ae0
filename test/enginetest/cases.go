package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func findsAtStart(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	s.start(t, h)
	s.began(t, h, 1)
}

func oneCycleEach(t *testing.T, s suite) {
	h := NewHost("a", "b")
	e := s.start(t, h)
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	h.Add(ops.Cycle{ID: 2, Environment: "a"})
	h.Add(ops.Cycle{ID: 3, Environment: "b"})
	e.Submit(2)
	got := map[ops.CycleID]bool{s.any(t, h): true, s.any(t, h): true}
	if !got[1] || !got[3] {
		t.Fatalf("running are %v", got)
	}
	s.finish(t, h, "a", nil)
	s.began(t, h, 2)
}

func holderFirst(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	h.Add(ops.Cycle{ID: 2, Environment: "a", Status: ops.CycleRunning, Owner: ops.Owner{Host: h.Name}})
	s.start(t, h)
	s.began(t, h, 2)
	s.finish(t, h, "a", nil)
	s.began(t, h, 1)
}

func wakesAt(t *testing.T, s suite) {
	h := NewHost("a")
	e := s.start(t, h)
	at := time.Now().Add(s.Later)
	h.Add(ops.Cycle{ID: 1, Environment: "a", WakeAt: &at})
	e.Submit(1)
	s.began(t, h, 1)
	if time.Now().Before(at) {
		t.Errorf("woken %s early", time.Until(at))
	}
}

func humanHoldsNothing(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a", Status: ops.CycleWaitingHuman})
	h.Add(ops.Cycle{ID: 2, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 2)
	s.finish(t, h, "a", nil)
	s.quiet(t, h)
	h.Answer(1)
	e.Submit(1)
	s.began(t, h, 1)
}

func canceledIsTakenUp(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a", Status: ops.CycleWaitingHuman})
	e := s.start(t, h)
	h.Mark(1, "by ada")
	e.Cancel(1, "by ada")
	e.Submit(1)
	s.began(t, h, 1)
}

func cancels(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 1)
	s.quiet(t, h) // a scan under way would see the mark first
	h.Mark(1, "said elsewhere")
	e.Cancel(1, "by ada")
	s.ended(t, h, ops.StopUser, "by ada")
}

func marks(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 1)
	h.Mark(1, "from another process")
	e.Submit(0)
	s.ended(t, h, ops.StopUser, "from another process")
}

func stops(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 1)
	s.stop(t, e)
	s.ended(t, h, ops.StopShutdown, "the supervisor is shutting down")
	e.Submit(1)
	s.quiet(t, h)
}

func slowsDown(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 1)
	began := time.Now()
	for range 4 {
		s.finish(t, h, "a", context.DeadlineExceeded)
		e.Submit(1) // being asked again does not hurry it
		s.began(t, h, 1)
	}
	if waited := time.Since(began); waited < 15*s.Pause || waited > 15*s.Pause+s.Patience {
		t.Errorf("five attempts took %s", waited)
	}
	s.finish(t, h, "a", nil)
	s.quiet(t, h)
}

func leavesStrangers(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "gone"})
	h.Add(ops.Cycle{ID: 2, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 2)
	e.Submit(1)
	s.quiet(t, h)
}

func losesNoAnswer(t *testing.T, s suite) {
	h := NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	h.Work = func(context.Context, ops.CycleID) error { <-time.After(s.Pause / 50); return ErrAwait }
	e := s.start(t, h)
	for n := range int64(100) {
		h.Answer(1)
		e.Submit(1)
		if n%3 == 0 { // else the next one comes while this one is on its way
			s.until(t, fmt.Sprintf("answer %d was seen", n+1), func() bool { return h.Seen(1) == n+1 })
		}
	}
	s.until(t, "the last answer was seen", func() bool { return h.Seen(1) == 100 })
}

func outlastsFaults(t *testing.T, s suite) {
	h := NewHost("a")
	e := s.start(t, h)
	h.Break(errors.New("the database is away"))
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e.Submit(1)
	s.quiet(t, h)
	h.Break(nil)
	s.began(t, h, 1)
}

func drains(t *testing.T, s suite) {
	h := NewHost("a", "b")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, h)
	s.began(t, h, 1)
	if e.Draining() {
		t.Error("it drains although nobody said so")
	}
	e.Drain()
	if !e.Draining() {
		t.Error("it does not say that it drains")
	}
	h.Add(ops.Cycle{ID: 2, Environment: "a"})
	h.Add(ops.Cycle{ID: 3, Environment: "b"})
	e.Submit(3)
	s.quiet(t, h)
	h.Finish["a"] <- ErrHandOver
	if end := <-h.Ended; end.Cause != nil {
		t.Errorf("the running cycle was stopped: %v", end.Cause)
	}
	s.quiet(t, h)
	if err := e.Resume(); err != nil || e.Draining() {
		t.Fatalf("it cannot be undone: %v", err)
	}
	begun := map[bool]int{}
	for range 2 {
		begun[s.any(t, h) == 3]++
	}
	if begun[true] != 1 || begun[false] != 1 {
		t.Errorf("both environments should have begun a cycle: %v", begun)
	}
	e.Drain()
	h.Add(ops.Cycle{ID: 4, Environment: "b"})
	h.Finish["b"] <- nil
	<-h.Ended
	s.quiet(t, h)
}

// census counts who works where at the same time.
type census struct {
	mu    sync.Mutex
	there map[string]int
	worst int
}

func (c *census) work(environment string, long time.Duration) {
	c.mu.Lock()
	c.there[environment]++
	c.worst = max(c.worst, c.there[environment])
	c.mu.Unlock()
	<-time.After(long)
	c.mu.Lock()
	c.there[environment]--
	c.mu.Unlock()
}

// fill adds cycles to environments in turn and says how a host works on them.
func fill(h *Host, cycles int, c *census, long time.Duration) func(ctx context.Context, id ops.CycleID) error {
	n := len(h.Environments)
	for i := range cycles {
		h.Add(ops.Cycle{ID: ops.CycleID(i), Environment: h.Environments[i%n]})
	}
	return func(_ context.Context, id ops.CycleID) error {
		c.work(h.Environments[int(id)%n], long)
		return nil
	}
}

// once wants every cycle to have run once, never two at a time in an environment, and few workers to have come in vain.
func (s suite) once(t *testing.T, h *Host, cycles int, c *census) {
	t.Helper()
	s.until(t, "all cycles ended", func() bool {
		open, _ := h.Unfinished(t.Context())
		return len(open) == 0
	})
	runs, vain := h.Counts()
	for i := range cycles {
		if runs[ops.CycleID(i)] != 1 {
			t.Errorf("cycle %d ran %d times", i, runs[ops.CycleID(i)])
		}
	}
	if c.worst != 1 {
		t.Errorf("%d cycles ran at once in an environment", c.worst)
	}
	if vain > cycles {
		t.Errorf("workers came %d times in vain for %d cycles", vain, cycles)
	}
}

func environments(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("env-%d", i)
	}
	return out
}

func runsOnce(t *testing.T, s suite) {
	h := NewHost(environments(20)...)
	c := &census{there: map[string]int{}}
	h.Work = fill(h, 200, c, s.Pause/100)
	e := s.start(t, h)
	for id := range ops.CycleID(200) {
		e.Submit(id)
	}
	s.once(t, h, 200, c)
}
