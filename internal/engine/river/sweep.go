package river

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

const (
	// foreign is how much later this host inserts the job of a cycle of an environment that only other hosts work for.
	foreign = time.Second
	// gap is the least time from one reading of the journal to the next.
	gap = 100 * time.Millisecond
)

// sighting is a cycle that could be advanced and that nobody had claimed.
type sighting struct {
	seq   int64
	since time.Time
	job   int64     // the job that a host has fetched for it
	taken time.Time // when that was first seen
}

func (e *Engine) run(ctx context.Context, next time.Duration) {
	for at := time.Now().Add(next); ; {
		timer := time.NewTimer(time.Until(at))
		marks := false
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-e.mark:
			marks = true
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		var err error
		if marks {
			err = e.cancelMarked(ctx)
		} else {
			next, err = e.sweep(ctx)
			err = errors.Join(err, e.startClient(context.WithoutCancel(ctx))) // TakeUp stops it
			at = time.Now().Add(next)
		}
		if err != nil {
			e.complain(ctx, err)
			at = time.Now().Add(again)
		}
		ops.Pause(ctx, gap)
	}
}

// complain logs at most once a minute that the database is unreachable.
func (e *Engine) complain(ctx context.Context, err error) {
	if ctx.Err() == nil && e.said.news("sweep", time.Now()) {
		e.o.Logger.ErrorContext(ctx, "cannot look for lost jobs; trying again every second", "error", err)
	}
}

// cancelMarked stops the workers whose cycles somebody wants to end.
func (e *Engine) cancelMarked(ctx context.Context) error {
	e.mu.Lock()
	idle := len(e.busy) == 0
	e.mu.Unlock()
	if idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	marked, err := e.o.Journal.Cancelled(ctx, e.o.Host)
	if err != nil {
		return fmt.Errorf("read cancelled cycles: %w", err)
	}
	for _, c := range marked {
		e.Cancel(c.ID, engine.Why(c))
	}
	return nil
}

// sweep inserts the jobs that no transaction could: of cycles whose time has come, of cycles that this host held before it was
// restarted, and of cycles whose job is lost. It returns when to sweep again.
func (e *Engine) sweep(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	cycles, err := e.o.Journal.Startable(ctx)
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	due, held, next := e.plan(cycles)
	jobs := e.jobs.Load()
	own := func(ops.Cycle) string { return hostQueue(e.o.Host) }
	adopted, err := jobs.insert(ctx, nil, own, held)
	if err != nil {
		return 0, err
	}
	offered, err := jobs.insert(ctx, nil, jobs.queue, due)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(offered, func(j inserted) bool { return j.known && j.taken }) {
		next = min(next, again) // it ends any moment, or its host is dead
	}
	return next, errors.Join(e.replace(ctx, adopted, own), e.replace(ctx, offered, jobs.queue))
}

// plan returns the cycles that need a job: in the queue of their labels, and in this host's own.
func (e *Engine) plan(cycles []ops.Cycle) (due, held []ops.Cycle, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Clock()
	next = e.o.Sweep
	open, settled, behind := map[ops.CycleID]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range cycles {
		open[c.ID] = true
		if c.Status != ops.CycleRunning {
			continue
		}
		settled[c.Environment] = true
		w := e.busy[c.ID]
		switch {
		case w != nil && c.CancelRequestedAt != nil:
			w.stop(ops.Stop(ops.StopUser, engine.Why(c)))
		case w == nil && c.Owner.Host == e.o.Host && slices.Contains(e.mine, c.Environment) && !e.draining && e.lost(c, false):
			held = append(held, c)
			e.adopting[c.ID] = true
		}
	}
	e.forget(open)
	for _, c := range cycles {
		if settled[c.Environment] || e.busy[c.ID] != nil {
			continue
		}
		paced := e.pace.Wait(c.ID, now)
		if wait := max(paced, engine.Due(c, now)); wait > 0 {
			next = min(next, e.later(c, wait))
			behind[c.Environment] = behind[c.Environment] || paced > 0
			continue
		}
		settled[c.Environment] = true // one at a time, the oldest first
		if e.lost(c, c.WakeAt != nil || behind[c.Environment]) {
			due = append(due, c)
		}
	}
	e.first = false
	return due, held, next
}

// lost reports whether a cycle that can be advanced needs a job from us: at the first sweep, if no transaction could insert one, after
// an attempt of this host, and if nobody has claimed it for the time of a sweep.
func (e *Engine) lost(c ops.Cycle, ours bool) bool {
	s, known := e.seen[c.ID]
	if !known || s.seq != c.WakeSeq {
		s = sighting{seq: c.WakeSeq, since: time.Now()}
		e.seen[c.ID] = s
		return e.first || ours || e.again[c.ID]
	}
	if !e.again[c.ID] && time.Since(s.since) < e.o.Sweep {
		return false
	}
	s.since = time.Now()
	e.seen[c.ID] = s
	return true
}

// forget drops what is known of cycles that have ended.
func (e *Engine) forget(open map[ops.CycleID]bool) {
	e.pace.Keep(func(id ops.CycleID) bool { return open[id] })
	maps.DeleteFunc(e.seen, func(id ops.CycleID, _ sighting) bool { return !open[id] })
	maps.DeleteFunc(e.again, func(id ops.CycleID, _ bool) bool { return !open[id] })
	maps.DeleteFunc(e.adopting, func(id ops.CycleID, _ bool) bool { return !open[id] })
}

func (e *Engine) later(c ops.Cycle, wait time.Duration) time.Duration {
	if !slices.Contains(e.mine, c.Environment) && wait < engine.Never-foreign {
		return wait + foreign
	}
	return wait
}

// replace gives cycles new jobs whose old ones a host has fetched and then left alone for the time of a sweep: that host is dead, or so
// slow that its claim will be refused.
func (e *Engine) replace(ctx context.Context, jobs []inserted, queue func(ops.Cycle) string) error {
	var dead []ops.CycleID
	e.mu.Lock()
	for _, j := range jobs {
		s := e.seen[j.cycle]
		if !j.known || !j.taken {
			delete(e.again, j.cycle)
			s.job = 0
		} else if s.job != j.job {
			s.job, s.taken = j.job, time.Now()
		} else if time.Since(s.taken) >= e.o.Sweep && e.busy[j.cycle] == nil {
			dead = append(dead, j.cycle)
		}
		e.seen[j.cycle] = s
	}
	e.mu.Unlock()
	if len(dead) == 0 {
		return nil
	}
	woken, err := e.o.Journal.Rewake(ctx, dead)
	if err != nil {
		return fmt.Errorf("replace lost jobs: %w", err)
	}
	woken = slices.DeleteFunc(woken, func(c ops.Cycle) bool { return c.Status == ops.CycleRunning && c.Owner.Host != e.o.Host })
	_, err = e.jobs.Load().insert(ctx, nil, queue, woken)
	return err
}
