package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func shares(t *testing.T, s suite) {
	one := NewHost(environments(10)...)
	two := one.Beside("two", one.Environments...)
	c := &census{there: map[string]int{}}
	work := fill(one, 100, c, s.Pause/10)
	worked := map[string]chan struct{}{"one": make(chan struct{}, 100), "two": make(chan struct{}, 100)}
	for _, h := range []*Host{one, two} {
		h.Work = func(ctx context.Context, id ops.CycleID) error {
			worked[h.Name] <- struct{}{}
			return work(ctx, id)
		}
		e := s.start(t, h)
		for id := range ops.CycleID(100) {
			e.Submit(id)
		}
	}
	s.once(t, one, 100, c)
	if len(worked["one"]) == 0 || len(worked["two"]) == 0 {
		t.Errorf("one did %d and two %d", len(worked["one"]), len(worked["two"]))
	}
}

func takesItsOwn(t *testing.T, s suite) {
	one := NewHost("a")
	two := one.Beside("two", "b", "An odd name: B/2")
	e := s.start(t, one)
	s.start(t, two)
	one.Add(ops.Cycle{ID: 1, Environment: "b"})
	one.Add(ops.Cycle{ID: 2, Environment: "An odd name: B/2"})
	e.Submit(1)
	got := map[ops.CycleID]bool{s.any(t, two): true, s.any(t, two): true}
	if !got[1] || !got[2] {
		t.Errorf("running are %v", got)
	}
	s.quiet(t, one)
}

func leavesOthers(t *testing.T, s suite) {
	one := NewHost("a")
	one.Add(ops.Cycle{ID: 1, Environment: "a", Status: ops.CycleRunning, Owner: ops.Owner{Host: "two"}})
	one.Add(ops.Cycle{ID: 2, Environment: "a"})
	e := s.start(t, one)
	e.Submit(1)
	s.quiet(t, one)
	// Two is dead, and somebody gives back what it held.
	one.Change(1, func(c *ops.Cycle) { c.Status, c.Owner = ops.CycleQueued, ops.Owner{} })
	e.Submit(0)
	s.began(t, one, 1)
	if _, vain := one.Counts(); vain > 0 {
		t.Errorf("workers came %d times in vain", vain)
	}
}

func marksElsewhere(t *testing.T, s suite) {
	one := NewHost("a")
	two := one.Beside("two", "b")
	s.start(t, one)
	other := s.start(t, two)
	one.Add(ops.Cycle{ID: 1, Environment: "b"})
	other.Submit(1)
	s.began(t, two, 1)
	one.Mark(1, "from one")
	marked := time.Now()
	other.Submit(0) // what a host does that hears of a change
	s.ended(t, two, ops.StopUser, "from one")
	if took := time.Since(marked); took > time.Second {
		t.Errorf("it took %s", took)
	}
}

func losesNoAnswerElsewhere(t *testing.T, s suite) {
	one := NewHost("a")
	two := one.Beside("two", "a")
	one.Add(ops.Cycle{ID: 1, Environment: "a"})
	for _, h := range []*Host{one, two} {
		h.Work = func(context.Context, ops.CycleID) error { <-time.After(s.Pause / 50); return ErrAwait }
	}
	e, other := s.start(t, one), s.start(t, two)
	for n := range int64(60) {
		one.Answer(1)
		if n%2 == 0 {
			e.Submit(1)
		} else {
			other.Submit(1)
		}
		if n%3 == 0 { // else the next one comes while this one is on its way
			s.until(t, fmt.Sprintf("answer %d was seen", n+1), func() bool { return one.Seen(1) == n+1 })
		}
	}
	s.until(t, "the last answer was seen", func() bool { return one.Seen(1) == 60 })
}

func drainsElsewhere(t *testing.T, s suite) {
	one := NewHost("a", "b")
	two := one.Beside("two", "a", "b")
	one.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, one)
	s.began(t, one, 1)
	s.start(t, two)
	e.Drain()
	one.Add(ops.Cycle{ID: 2, Environment: "b"})
	e.Submit(2)
	s.began(t, two, 2)
	s.finish(t, one, "a", ErrHandOver)
	s.began(t, two, 1)
	s.quiet(t, one)
}

func stopsElsewhere(t *testing.T, s suite) {
	one := NewHost("a")
	two := one.Beside("two", "a")
	one.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := s.start(t, one)
	s.began(t, one, 1)
	s.start(t, two)
	s.stop(t, e)
	s.began(t, two, 1)
}
