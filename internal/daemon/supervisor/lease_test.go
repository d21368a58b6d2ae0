package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
)

const leaseLength = 12 * time.Second

// hostsFake answers as the database would, or not at all.
type hostsFake struct {
	mu       sync.Mutex
	down     error
	hang     bool
	draining bool
	renewed  []time.Time
	reaped   int
	dead     []ops.Reaped
	holder   string // of every duty
	enlist   error

	enlisted, drained, regained int
}

func (f *hostsFake) Renew(ctx context.Context, _ ops.Owner, _ time.Duration) (bool, error) {
	f.mu.Lock()
	hang, err := f.hang, f.down
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return false, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.renewed = append(f.renewed, time.Now())
	}
	return f.draining, err
}

func (f *hostsFake) Reap(context.Context, ops.Owner) ([]ops.Reaped, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reaped++
	dead := f.dead
	f.dead = nil
	return dead, f.down
}

func (f *hostsFake) TakeDuty(_ context.Context, owner ops.Owner, _ string, _ time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == "" {
		f.holder = owner.Host
	}
	return f.holder == owner.Host, f.down
}

func (f *hostsFake) set(change func(*hostsFake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// told is what others did so far.
type told struct {
	renewed                             []time.Time
	reaped, enlisted, drained, regained int
}

func (f *hostsFake) told() told {
	f.mu.Lock()
	defer f.mu.Unlock()
	return told{slices.Clone(f.renewed), f.reaped, f.enlisted, f.drained, f.regained}
}

type leased struct {
	*supervisor.Lease
	fake      *hostsFake
	suspended atomic.Int64 // how long the machine was; timers stop then
}

// inBubble runs a lease in virtual time.
func inBubble(t *testing.T, check func(t *testing.T, l *leased)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &leased{fake: &hostsFake{}}
		start := time.Now()
		l.Lease = supervisor.NewLease(supervisor.LeaseOptions{
			Hosts: l.fake, Owner: func() ops.Owner { return ops.Owner{Host: "a", Term: 1} }, Length: leaseLength,
			Enlist: func(context.Context) error {
				l.fake.mu.Lock()
				defer l.fake.mu.Unlock()
				l.fake.enlisted++
				return l.fake.enlist
			},
			Drain: func(asked bool) {
				if asked {
					l.fake.set(func(f *hostsFake) { f.drained++ })
				}
			},
			Regained: func() { l.fake.set(func(f *hostsFake) { f.regained++ }) }, Logger: slog.New(slog.DiscardHandler),
			Uptime: func() time.Duration { return time.Since(start) + time.Duration(l.suspended.Load()) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		defer running.Wait()
		defer cancel()
		check(t, l)
	})
}

// after lets time go by in the bubble.
func after(d time.Duration) { <-time.After(d); synctest.Wait() }

func TestALeaseIsRenewedAtAThirdOfItsLength(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		after(time.Minute)
		if n := len(l.fake.told().renewed); n < 12 || n > 15 {
			t.Errorf("renewed %d times in a minute", n)
		}
		if err := l.Held(); err != nil {
			t.Error(err)
		}
	})
}

func TestAHostThatCannotRenewChangesNothingAndStopsItsAgentsInTime(t *testing.T) {
	for name, fault := range map[string]func(*hostsFake){
		"refused": func(f *hostsFake) { f.down = errors.New("connection refused") },
		"silence": func(f *hostsFake) { f.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leased) {
				after(20 * time.Second)
				bound, free := l.Bound(t.Context())
				defer free()
				l.fake.set(fault)
				renewed := l.fake.told().renewed
				last := renewed[len(renewed)-1]
				for l.Held() == nil {
					after(100 * time.Millisecond)
				}
				if in := time.Since(last); in > leaseLength*2/3 {
					t.Errorf("the gates closed %s after the last sign of life", in)
				}
				<-bound.Done()
				if in := time.Since(last); in > leaseLength*3/4 {
					t.Errorf("the agents were stopped %s after the last sign of life, others take over after %s", in, leaseLength)
				}
				if stop := (*ops.StopError)(nil); !errors.As(context.Cause(bound), &stop) || stop.Cause != ops.StopLease {
					t.Errorf("stopped with %v", context.Cause(bound))
				}
			})
		})
	}
}

func TestAShortGapStopsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		after(20 * time.Second)
		bound, free := l.Bound(t.Context())
		defer free()
		l.fake.set(func(f *hostsFake) { f.down = errors.New("restarting") })
		for l.Held() == nil {
			after(100 * time.Millisecond)
		}
		l.fake.set(func(f *hostsFake) { f.down = nil })
		after(2 * time.Second)
		if l.Held() != nil || bound.Err() != nil || l.fake.told().regained != 1 {
			t.Errorf("held %v, agents %v, told %d times", l.Held(), bound.Err(), l.fake.told().regained)
		}
	})
}

func TestAfterAnOutageEverybodyGetsTimeToComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		after(leaseLength + 2*time.Second)
		if l.fake.told().reaped == 0 {
			t.Fatal("nobody looks after the dead")
		}
		l.fake.set(func(f *hostsFake) { f.down = errors.New("gone") })
		after(time.Minute)
		l.fake.set(func(f *hostsFake) { f.down, f.reaped = nil, 0 })
		after(leaseLength - 2*time.Second)
		if l.fake.told().reaped != 0 {
			t.Error("took over before the others could come back")
		}
		after(5 * time.Second)
		if l.fake.told().reaped == 0 {
			t.Error("never looks after the dead again")
		}
		if bound, free := l.Bound(t.Context()); bound.Err() != nil {
			t.Error("nothing may run after the database came back")
		} else {
			free()
		}
	})
}

func TestAHostThatWasTakenForDeadBeginsANewTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		bound, free := l.Bound(t.Context())
		defer free()
		l.fake.set(func(f *hostsFake) { f.down, f.enlist = ops.ErrFenced, errors.New("not yet") })
		after(8 * time.Second)
		if bound.Err() == nil || l.Held() == nil {
			t.Fatalf("it goes on working: %v, %v", bound.Err(), l.Held())
		}
		l.fake.set(func(f *hostsFake) { f.down, f.enlist = nil, nil })
		after(leaseLength)
		if l.Held() != nil || l.fake.told().regained == 0 || l.fake.told().enlisted == 0 {
			t.Errorf("held %v, told %d, enlisted %d times", l.Held(), l.fake.told().regained, l.fake.told().enlisted)
		}
	})
}

func TestADeadHostsWorkWakesTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		after(leaseLength)
		l.fake.set(func(f *hostsFake) { f.dead = []ops.Reaped{{Host: "b", Cycles: []ops.CycleID{1}}} })
		after(2 * time.Second)
		if l.fake.told().regained != 1 {
			t.Errorf("woken %d times", l.fake.told().regained)
		}
	})
}

func TestAHostHearsThatItIsToDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		l.fake.set(func(f *hostsFake) { f.draining = true })
		after(leaseLength / 2)
		if l.fake.told().drained == 0 {
			t.Error("nobody told it")
		}
	})
}

func TestADutyIsDoneByWhoHoldsItAndOnlyWhileTheLeaseIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		ctx, cancel := context.WithCancel(t.Context())
		var duty sync.WaitGroup
		var began, ended atomic.Int32
		l.fake.set(func(f *hostsFake) { f.holder = "b" })
		duty.Go(func() {
			if err := l.Duty(ctx, "outbox", func(ctx context.Context) error { began.Add(1); <-ctx.Done(); ended.Add(1); return nil }); err != nil {
				t.Error(err)
			}
		})
		defer duty.Wait()
		defer cancel()
		after(time.Minute)
		if began.Load() != 0 {
			t.Fatal("two hosts do it")
		}
		l.fake.set(func(f *hostsFake) { f.holder = "" })
		after(leaseLength / 2)
		if began.Load() != 1 {
			t.Fatalf("begun %d times", began.Load())
		}
		l.fake.set(func(f *hostsFake) { f.down = errors.New("gone") })
		after(time.Minute)
		if ended.Load() != 1 || began.Load() != 1 {
			t.Fatalf("begun %d, ended %d times", began.Load(), ended.Load())
		}
		l.fake.set(func(f *hostsFake) { f.down = nil })
		after(leaseLength)
		if began.Load() != 2 {
			t.Errorf("begun %d times", began.Load())
		}
	})
}

// TestAHostThatWasPausedGivesUpItsLeaseFirst: other hosts may have taken over while a machine was suspended, although no timer of
// this host has ended.
func TestAHostThatWasPausedGivesUpItsLeaseFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leased) {
		after(20 * time.Second)
		bound, free := l.Bound(t.Context())
		defer free()
		l.suspended.Store(int64(time.Hour))
		if err := l.Held(); !errors.Is(err, supervisor.ErrUnheld) {
			t.Errorf("right after the pause the lease is held: %v", err)
		}
		after(2 * time.Second)
		if stop := (*ops.StopError)(nil); !errors.As(context.Cause(bound), &stop) || stop.Cause != ops.StopLease {
			t.Errorf("what ran before the pause goes on: %v", context.Cause(bound))
		}
		if err := l.Held(); err != nil {
			t.Errorf("the lease is not held again: %v", err)
		}
	})
}
