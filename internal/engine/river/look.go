package river

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// foreign is how much later this host wakes a cycle of an environment that other hosts work for.
const foreign = time.Second

// stale is how old a delivery may be before its host counts as dead. A delivery normally takes milliseconds.
const stale = 3 * time.Second

func (e *Engine) run(ctx context.Context, next time.Duration) {
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		var err error
		if next, err = e.look(ctx); err != nil {
			e.complain(ctx, err)
			pause(ctx, again-gap) // the next look sees all changes until then
		}
		pause(ctx, gap)
	}
}

// complain logs at most once a minute that the database is unreachable.
func (e *Engine) complain(ctx context.Context, err error) {
	if ctx.Err() == nil && e.said.news("look", time.Now()) {
		e.o.Logger.ErrorContext(ctx, "cannot wake cycles; trying again every second", "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// look reads the journal, stops workers whose cycle was cancelled, and inserts missing wake-ups. It returns when to look
// again.
func (e *Engine) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	// Attempts that ended before this point are visible in the journal that is read next.
	e.mu.Lock()
	ended := e.ended
	e.ended = nil
	e.mu.Unlock()
	cycles, err := e.o.Journal.Unfinished(ctx)
	if err != nil {
		e.mu.Lock()
		e.ended = append(ended, e.ended...)
		e.mu.Unlock()
		return 0, fmt.Errorf("read journal: %w", err)
	}
	wakes, next := e.plan(cycles, ended) //nolint:contextcheck // a worker outlives the look
	if err := e.insert(ctx, wakes); err != nil {
		return 0, err
	}
	return next, nil
}

// plan returns which cycles to wake and when to look again.
func (e *Engine) plan(cycles []ops.Cycle, ended []attempt) ([]ops.Cycle, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Clock()
	next := 3 * e.o.Sweep
	if len(e.busy) > 0 {
		next = e.o.Sweep // a cancel request may have come without a notification
	}
	open, running := map[ops.CycleID]ops.Cycle{}, map[string]bool{}
	for _, c := range cycles {
		open[c.ID] = c
		if c.Status == ops.CycleRunning {
			running[c.Environment] = true
		}
	}
	e.judge(ended, open, running, now)
	var wakes []ops.Cycle
	room := e.free()
	for _, c := range holdersFirst(cycles) {
		w := e.busy[c.Environment]
		if w != nil && w.cycle == c.ID && c.CancelRequestedAt != nil {
			w.stop(ops.Stop(ops.StopUser, engine.Why(c)))
		}
		held := c.Status == ops.CycleRunning
		if w != nil || (running[c.Environment] && !held) {
			continue // its worker causes another look when it ends
		}
		wait := max(e.pace.Wait(c.ID, now), engine.Due(c, now))
		switch {
		case held && (c.Owner.Host != e.o.Host || !e.mine[c.Environment] || e.draining):
		case wait > 0:
			next = min(next, e.later(c, wait))
		case e.mine[c.Environment] && room == 0 && !e.draining:
			// The next worker that ends here wakes it, or a host with a free worker. We may have one if others take what we wake now.
			if e.free() > 0 {
				next = min(next, again)
			}
		case held:
			room--
			e.begin(attempt{c.ID, c.Environment, c.WakeSeq})
		default:
			if e.mine[c.Environment] {
				room--
			}
			wakes = append(wakes, c)
			running[c.Environment] = true // one at a time, the oldest first
		}
	}
	return wakes, next
}

// holdersFirst moves cycles that hold the slot of their environment to the front.
func holdersFirst(cycles []ops.Cycle) []ops.Cycle {
	return slices.SortedStableFunc(slices.Values(cycles), func(a, b ops.Cycle) int {
		return rank(a) - rank(b)
	})
}

func rank(c ops.Cycle) int {
	if c.Status == ops.CycleRunning {
		return 0
	}
	return 1
}

func (e *Engine) later(c ops.Cycle, wait time.Duration) time.Duration {
	if !e.mine[c.Environment] && wait < engine.Never-foreign {
		return wait + foreign
	}
	return wait
}

// judge delays cycles whose last attempt changed nothing. Otherwise two hosts with different clocks could wake each other forever.
func (e *Engine) judge(ended []attempt, open map[ops.CycleID]ops.Cycle, running map[string]bool, now time.Time) {
	e.pace.Keep(func(id ops.CycleID) bool { _, ok := open[id]; return ok })
	for _, a := range ended {
		c, ok := open[a.cycle]
		if ok && c.WakeSeq == a.seq && engine.Due(c, now) == 0 && !running[c.Environment] && !e.draining {
			e.pace.Failed(a.cycle, now)
		} else {
			e.pace.Forget(a.cycle)
		}
	}
}

// insert wakes cycles. A wake-up that is already on its way is not inserted twice.
func (e *Engine) insert(ctx context.Context, cycles []ops.Cycle) error {
	if len(cycles) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(cycles))
	for i, c := range cycles {
		jobs[i] = river.InsertManyParams{Args: wakeArgs{c.ID, c.WakeSeq}, InsertOpts: &river.InsertOpts{Queue: queue(c.Environment)}}
	}
	results, err := e.client.InsertMany(ctx, jobs)
	if err != nil {
		return fmt.Errorf("insert wake-ups: %w", err)
	}
	var stuck []int64
	of := map[int64]river.InsertManyParams{}
	for i, r := range results {
		if r.UniqueSkippedAsDuplicate && r.Job.State != rivertype.JobStateAvailable {
			stuck = append(stuck, r.Job.ID)
			of[r.Job.ID] = jobs[i]
		}
	}
	return e.replace(ctx, stuck, of)
}

// replace discards deliveries of hosts that have died, by database time, and wakes their cycles again.
func (e *Engine) replace(ctx context.Context, stuck []int64, of map[int64]river.InsertManyParams) error {
	if len(stuck) == 0 {
		return nil
	}
	rows, err := e.o.Pool.Query(ctx, `UPDATE river_job SET state = 'discarded', finalized_at = now()
		WHERE id = ANY($1) AND (state = 'retryable' OR (state = 'running' AND attempted_at < now() - $2::interval)) RETURNING id`, stuck, stale)
	if err != nil {
		return fmt.Errorf("discard stale wake-ups: %w", err)
	}
	gone, err := collect(rows)
	if err != nil {
		return fmt.Errorf("discard stale wake-ups: %w", err)
	}
	if len(gone) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(gone))
	for i, id := range gone {
		jobs[i] = of[id]
	}
	if _, err := e.client.InsertMany(ctx, jobs); err != nil {
		return fmt.Errorf("replace stale wake-ups: %w", err)
	}
	return nil
}
