package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const cycleColumns = `c.id, c.environment, c."trigger", c.status, c.reason, c.policy, c.options, c.charge, c.prompt, c.problem,
	c.wake_at, c.wake_seq, c.cancel_requested_at, c.cancel_reason, c.owner, c.term, c.result, c.verified, c.verified_by, c.refuted_at,
	(SELECT MAX(i.probation_until) FROM incidents i WHERE i.resolved_at BETWEEN c.created_at AND c.ended_at AND i.last_cycle_id = c.id
		AND i.probation_until > i.resolved_at),
	c.created_at, c.started_at, c.ended_at`

const selectCycles = `SELECT ` + cycleColumns + ` FROM cycles c`

// selectWhole also reads the inventory, which scanWhole scans. With thousands of services it takes more than all the rest, so that lists
// leave it out.
const selectWhole = `SELECT ` + cycleColumns + `, c.inventory FROM cycles c`

func scanCycle(r db.Row, c *ops.Cycle) error {
	return r.Scan(&c.ID, &c.Environment, &c.Trigger, &c.Status, &c.Reason, db.ToJSON(&c.Policy), db.ToJSON(&c.Options),
		db.ToJSON(&c.Charge), &c.Prompt, &c.Problem, db.ToOptTime(&c.WakeAt), &c.WakeSeq, db.ToOptTime(&c.CancelRequestedAt), &c.CancelReason,
		db.ToText(&c.Owner.Host), &c.Owner.Term, (*[]byte)(&c.Result), &c.Verified, &c.VerifiedBy, db.ToOptTime(&c.RefutedAt),
		db.ToOptTime(&c.ProbationUntil), db.ToTime(&c.CreatedAt), db.ToOptTime(&c.StartedAt), db.ToOptTime(&c.EndedAt))
}

func scanWhole(last *lastInventory) func(db.Row, *ops.Cycle) error {
	return func(r db.Row, c *ops.Cycle) error {
		var text string
		err := scanCycle(longerRow{r, []any{db.ToText(&text)}}, c)
		if err == nil {
			c.Policy.Inventory, err = last.read(text)
		}
		return err
	}
}

// lastInventory is the one that was read last. A cycle is loaded several times, and most cycles have the same: with thousands of services
// each copy would be megabytes. Nobody may change it.
type lastInventory struct {
	mu    sync.Mutex
	text  string
	value ops.Inventory
}

func (i *lastInventory) read(text string) (ops.Inventory, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if text == i.text {
		return i.value, nil
	}
	var v ops.Inventory
	if err := db.ToJSON(&v).Scan(text); err != nil {
		return v, err
	}
	v.Services = slices.Clip(slices.Clone(v.Services)) // it grew while it was read
	i.text, i.value = text, v
	return v, nil
}

// SubmitCycle queues a cycle and returns its id. It needs no owner.
func (s *Journal) SubmitCycle(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	if n.Environment == "" {
		return 0, errors.New("submit cycle: no environment given")
	}
	var id ops.CycleID
	err := s.db.WriteIn(ctx, "submit", db.InEnvironment(n.Environment), func(tx db.Querier) error {
		if s.jobs.Load() != nil {
			db.Reaches(tx, ops.ReachPages) // who works on it finds its job
		}
		var same, full, running []ops.CycleID
		var stopped []ops.Standstill
		err := db.AtOnce(ctx, tx,
			// Another host may have started it for the same turn of the schedule.
			db.Into(&same, scanCycleID, `SELECT id FROM cycles WHERE request_key = ?`, db.OptText(n.Key)),
			db.Into(&stopped, scanStandstill, selectStandstill, standstillName),
			db.Into(&full, scanCycleID, `SELECT id FROM cycles WHERE environment = ? AND status = 'queued' AND wake_at IS NULL
				ORDER BY id LIMIT 1 OFFSET ?`, n.Environment, max(n.Behind, 1)-1),
			db.Into(&running, scanCycleID, `SELECT id FROM cycles WHERE environment = ? AND status = 'running'`, n.Environment))
		switch {
		case err != nil:
			return err
		case len(same) > 0:
			id = same[0]
			return nil
		case len(stopped) > 0:
			return stopped[0].Refuses()
		case n.Behind > 0 && len(full) > 0:
			return fmt.Errorf("%d cycles of %s wait already: %w", n.Behind, n.Environment, ops.ErrQueueFull)
		}
		id, err = s.insertCycle(ctx, tx, n)
		if err != nil || len(running) > 0 { // whose end offers the next
			return err
		}
		return s.offer(ctx, tx, n.Environment, s.clock())
	})
	return ops.Returning(id, err, "submit cycle")
}

// insertCycle writes the row of a cycle. One that is about certain services has a closed charge.
func (s *kernel) insertCycle(ctx context.Context, tx db.Querier, n ops.NewCycle) (id ops.CycleID, err error) {
	charge := ops.Charge{Services: n.Services, Open: len(n.Services) == 0}
	err = tx.QueryRowContext(ctx, `INSERT INTO cycles (environment, "trigger", status, options, charge, prompt, problem, created_at,
		request_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, n.Environment, n.Trigger, ops.CycleQueued, db.JSON(n.Options),
		db.JSON(charge), n.Prompt, n.Problem, db.Time(s.orNow(n.At)), db.OptText(n.Key)).Scan(&id)
	return id, err
}

func scanCycleID(r db.Row, id *ops.CycleID) error { return r.Scan(id) }

// RequestCancel asks the owner of a cycle to end it. The first request sets the time and the reason; each request wakes the
// cycle.
func (s *Journal) RequestCancel(ctx context.Context, id ops.CycleID, reason string, at time.Time) (ops.Cycle, error) {
	var c ops.Cycle
	err := s.db.WriteIn(ctx, "cancel", db.OfCycle(id), func(tx db.Querier) error {
		var err error
		if c, err = cycleByID(ctx, tx, id); err != nil {
			return err
		}
		if c.Status.Ended() {
			return ops.NewConflict(ops.ConflictState, "it already ended as %s", c.Status)
		}
		if c.CancelRequestedAt == nil {
			_, err = tx.ExecContext(ctx, `UPDATE cycles SET cancel_requested_at = ?, cancel_reason = ? WHERE id = ?`,
				db.Time(s.orNow(at)), reason, id)
			if err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1 WHERE id = ?`, id); err != nil {
			return err
		}
		if c, err = cycleByID(ctx, tx, id); err != nil {
			return err
		}
		return s.offer(ctx, tx, c.Environment, s.clock())
	})
	return ops.Returning(c, err, "cancel cycle %d", id)
}

// Unfinished returns the cycles that have not ended, oldest first.
func (s *Journal) Unfinished(ctx context.Context) ([]ops.Cycle, error) {
	return s.openCycles(ctx, "list unfinished cycles", `TRUE`)
}

// startable is how many queued cycles of an environment are read: those before may have to wait because they failed to advance.
const startable = 8

// Startable returns the open cycles that an engine may have to do something about, oldest first: those that run, wait for a time or are
// to be cancelled, and the oldest queued ones of each environment. It takes as long with a long queue as with a short one.
func (s *Journal) Startable(ctx context.Context) ([]ops.Cycle, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCycle, `WITH RECURSIVE e (name) AS (
			SELECT MIN(environment) FROM cycles WHERE status = 'queued' AND wake_at IS NULL
			UNION ALL SELECT (SELECT MIN(environment) FROM cycles WHERE status = 'queued' AND wake_at IS NULL AND environment > e.name)
				FROM e WHERE e.name IS NOT NULL)
		`+selectCycles+` WHERE c.id IN (
			SELECT id FROM cycles WHERE ended_at IS NULL AND (status = 'running' OR wake_at IS NOT NULL OR cancel_requested_at IS NOT NULL)
			UNION ALL SELECT q.id FROM e JOIN cycles q ON q.id IN (SELECT id FROM cycles
				WHERE environment = e.name AND status = 'queued' AND wake_at IS NULL ORDER BY id LIMIT ?))
		ORDER BY c.id`, startable)
	return ops.Returning(out, err, "list startable cycles")
}

func (s *Journal) openCycles(ctx context.Context, what, cond string, args ...any) ([]ops.Cycle, error) {
	out, err := db.List(ctx, s.db.Reader(), scanCycle, selectCycles+` WHERE c.ended_at IS NULL AND `+cond+` ORDER BY c.id`, args...)
	return ops.Returning(out, err, "%s", what)
}

// Cycle returns one cycle.
func (s *Journal) Cycle(ctx context.Context, id ops.CycleID) (ops.Cycle, error) {
	c, err := cycleByID(ctx, s.db.Reader(), id)
	return ops.Returning(c, err, "read cycle %d", id)
}

func cycleByID(ctx context.Context, q db.Querier, id ops.CycleID) (ops.Cycle, error) {
	return db.One(ctx, q, scanWhole(&lastInventory{}), selectWhole+` WHERE c.id = ?`, id)
}

// LastEnded returns when the newest ended cycle of an environment ended; false when none has.
func (s *Journal) LastEnded(ctx context.Context, environment string) (time.Time, bool, error) {
	var t *time.Time
	err := s.db.Reader().QueryRowContext(ctx, `SELECT MAX(ended_at) FROM cycles WHERE environment = ?`, environment).
		Scan(db.ToOptTime(&t))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read last ended cycle: %w", err)
	}
	if t == nil {
		return time.Time{}, false, nil
	}
	return *t, true, nil
}

func scanEnding(r db.Row, e *ops.Ending) error {
	return r.Scan(&e.Status, db.ToTime(&e.At))
}

// Endings are how the environment's last cycles ended, newest first.
func (s *Journal) Endings(ctx context.Context, environment string, limit int) ([]ops.Ending, error) {
	out, err := db.List(ctx, s.db.Reader(), scanEnding, selectEndings, environment, 0, limit)
	return ops.Returning(out, err, "read endings of %s", environment)
}

const selectEndings = `SELECT status, ended_at FROM cycles WHERE environment = ? AND ended_at IS NOT NULL AND id <> ?
	ORDER BY ended_at DESC, id DESC LIMIT ?`
