package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Claim makes the owner the one that advances a cycle, and returns everything known about it. The first claim stores the policy,
// narrowed by the cycle's options; later ones, after a wait or a restart, store the stricter of it and the current one. A cycle
// that an older term of the same host left running is adopted, and so is one of the same term whose worker could not release it: the
// engine runs one worker per cycle.
//
// A cycle that waits for a human can be claimed when its time has come, or when its question or all of its incidents are
// answered. A question whose time is over expires then. ops.ErrSlotBusy means that another cycle of the environment is running,
// ops.ErrConflict that this one has ended or waits.
func (s *Journal) Claim(ctx context.Context, owner ops.Owner, id ops.CycleID, policy ops.Policy, at time.Time) (ops.Claimed, error) {
	at = s.orNow(at)
	var out ops.Claimed
	err := s.db.WriteIn(ctx, "claim", db.OfCycle(id), func(tx db.Querier) error {
		db.Reaches(tx, ops.ReachPeople)
		var terms, late []int64
		var found []ops.Cycle
		err := db.AtOnce(ctx, tx,
			db.Into(&terms, db.ScanInt, `SELECT term FROM hosts WHERE host = ?`, owner.Host),
			db.Into(&found, scanWhole(&s.inventory), selectWhole+` WHERE c.id = ?`, id),
			db.Into(&late, db.ScanInt, selectLate, id, ops.ApprovalPending, db.Time(at)))
		switch {
		case err != nil:
			return err
		case len(terms) == 0 || terms[0] != owner.Term:
			return termOver(owner)
		case len(found) == 0:
			return ops.ErrNotFound
		}
		c := found[0]
		if err := claimable(c, owner, at); err != nil {
			return err
		}
		for _, question := range late {
			_, err := s.settleApproval(ctx, tx, question, ops.ApprovalExpired, ops.Supervisor, "nobody answered in time", at)
			if err != nil {
				return err
			}
		}
		if c.Policy, err = takeCycle(ctx, tx, c, owner, policy, at); err != nil {
			return err
		}
		out, err = s.loadWhole(ctx, tx, c, at)
		return err
	})
	return ops.Returning(out, err, "claim cycle %d", id)
}

// claimable returns the reason why a cycle cannot be claimed.
func claimable(c ops.Cycle, owner ops.Owner, at time.Time) error {
	// A request to cancel ends every wait: the cycle must be claimed so that it can end.
	woken := c.CancelRequestedAt != nil || (c.WakeAt != nil && !c.WakeAt.After(at))
	switch {
	case c.Status.Ended():
		return ops.NewConflict(ops.ConflictState, "it already ended as %s", c.Status)
	case c.Status == ops.CycleRunning && c.Owner.Host != owner.Host:
		return ops.NewConflict(ops.ConflictTaken, "host %s runs it", c.Owner.Host)
	case c.Status == ops.CycleRunning && c.Owner.Term > owner.Term:
		return ops.NewConflict(ops.ConflictTaken, "a later start of this host runs it")
	case c.Status == ops.CycleWaitingHuman && !woken:
		return ops.NewConflict(ops.ConflictState, "it waits for a human")
	case c.Status == ops.CycleQueued && c.WakeAt != nil && !woken:
		return ops.NewConflict(ops.ConflictState, "it waits until %s", c.WakeAt.Format(time.RFC3339))
	}
	return nil
}

// takeCycle gives a cycle to an owner, and returns the policy that holds for it.
func takeCycle(ctx context.Context, tx db.Querier, c ops.Cycle, owner ops.Owner, policy ops.Policy, at time.Time) (ops.Policy, error) {
	if c.Status == ops.CycleRunning {
		if err := awaitOutput(ctx, tx, c.ID); err != nil {
			return policy, err
		}
	}
	policy = policy.Narrow(c.Options)
	if c.StartedAt != nil {
		policy = c.Policy.Stricter(policy)
	}
	lean := policy
	lean.Inventory = ops.Inventory{}
	_, err := tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = ?, term = ?, wake_at = NULL, seen_seq = wake_seq,
		policy = ?, inventory = ?, started_at = COALESCE(started_at, ?) WHERE id = ?`,
		ops.CycleRunning, owner.Host, owner.Term, db.JSON(lean), db.JSON(policy.Inventory), db.Time(at), c.ID)
	if db.IsUnique(err) {
		err = ops.ErrSlotBusy
	}
	return policy, err
}

// Release puts a running cycle back into the queue and gives up its slot; what was recorded stays.
func (s *Journal) Release(ctx context.Context, owner ops.Owner, id ops.CycleID) error {
	err := s.db.WriteIn(ctx, "release", db.OfCycle(id), func(tx db.Querier) error {
		cycle, err := fenceCycle(ctx, tx, owner, id)
		if err != nil {
			return err
		}
		if err := cycle.running(); err != nil {
			return err
		}
		if err := awaitOutput(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE cycles SET status = ?, owner = NULL, term = 0 WHERE id = ?`, ops.CycleQueued, id)
		if err != nil {
			return err
		}
		return s.offer(ctx, tx, cycle.environment, s.clock())
	})
	return ops.Wrapped(err, "release cycle %d", id)
}

// wakeWaiting counts an answer from outside and makes a waiting cycle claimable from now on. A running cycle sees the count too,
// so it does not start to wait when there is an answer that it has not seen.
const wakeWaiting = `UPDATE cycles SET wake_seq = wake_seq + 1,
	wake_at = CASE WHEN status = 'waiting_human' AND (wake_at IS NULL OR wake_at > ?) THEN ? ELSE wake_at END
	WHERE ended_at IS NULL`

func wakeCycle(ctx context.Context, tx db.Querier, id ops.CycleID, at time.Time) error {
	return db.Exec(ctx, tx, wakeWaiting+` AND id = ?`, db.Time(at), db.Time(at), id)
}

// wakeAfter wakes the cycles that wait only for this incident, or for others that are resolved too.
func wakeAfter(ctx context.Context, tx db.Querier, incident int64, at time.Time) error {
	_, err := tx.ExecContext(ctx, wakeWaiting+` AND id IN (SELECT cycle_id FROM incident_waits WHERE incident_id = ?)
		AND NOT EXISTS (SELECT 1 FROM incident_waits w JOIN incidents i ON i.id = w.incident_id
			WHERE w.cycle_id = cycles.id AND i.resolved_at IS NULL)`, db.Time(at), db.Time(at), incident)
	return err
}

// countAnswer counts an answer for the cycles that wait for an incident, without waking them.
func countAnswer(ctx context.Context, tx db.Querier, incident int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1
		WHERE ended_at IS NULL AND id IN (SELECT cycle_id FROM incident_waits WHERE incident_id = ?)`, incident)
	return err
}

// awaitHuman makes a cycle wait and frees its slot. An answer that came after its claim wakes it at once.
func awaitHuman(ctx context.Context, tx db.Querier, t ops.Transition) error {
	var until *time.Time
	if !t.Step.Until.IsZero() {
		until = &t.Step.Until
	}
	return db.Exec(ctx, tx, `UPDATE cycles SET status = ?, reason = ?, owner = NULL, term = 0,
		wake_at = CASE WHEN wake_seq > seen_seq THEN ? ELSE ? END WHERE id = ?`,
		ops.CycleWaitingHuman, t.Step.Reason, db.Time(t.At), db.OptTime(until), t.Cycle)
}

// deferCycle puts a cycle back into the queue until a time and frees its slot.
func deferCycle(ctx context.Context, tx db.Querier, t ops.Transition) error {
	return db.Exec(ctx, tx, `UPDATE cycles SET status = ?, reason = ?, owner = NULL, term = 0, wake_at = ? WHERE id = ?`,
		ops.CycleQueued, t.Step.Reason, db.Time(t.Step.Until), t.Cycle)
}

// Jobs inserts one job for each cycle that can be advanced, in the transaction that made it so.
type Jobs interface {
	Insert(ctx context.Context, tx pgx.Tx, cycles []ops.Cycle) error
}

// UseJobs makes every later write that lets a cycle be advanced insert its job. A file needs none: its only host reads the journal.
func (s *Journal) UseJobs(j Jobs) { s.jobs.Store(&j) }

// nextCycle finds the cycle of an environment that can be advanced now: the oldest one that waits for nothing, unless one is running.
const nextCycle = `SELECT c.id, c.environment, c.wake_seq, c.started_at FROM cycles c WHERE c.ended_at IS NULL AND c.status <> 'running'
	AND (c.cancel_requested_at IS NOT NULL OR (c.status = 'queued' AND c.wake_at IS NULL) OR c.wake_at <= ?)
	AND NOT EXISTS (SELECT 1 FROM cycles r WHERE r.environment = c.environment AND r.status = 'running')`

func scanNext(r db.Row, c *ops.Cycle) error {
	c.Status = ops.CycleQueued
	return r.Scan(&c.ID, &c.Environment, &c.WakeSeq, db.ToOptTime(&c.StartedAt))
}

// offer inserts the job of the environment's next cycle. Whoever frees the slot of an environment, or wakes one of its cycles, calls it.
func (s *kernel) offer(ctx context.Context, tx db.Querier, environment string, at time.Time) error {
	return s.offerWhere(ctx, tx, `c.environment = ?`, environment, at)
}

func (s *kernel) offerWhere(ctx context.Context, tx db.Querier, cond string, arg any, at time.Time) error {
	jobs, server := s.jobs.Load(), db.Server(tx)
	if jobs == nil || server == nil {
		return nil
	}
	if now := s.clock(); now.After(at) {
		at = now
	}
	next, err := db.List(ctx, tx, scanNext, nextCycle+` AND `+cond+` ORDER BY c.id LIMIT 1`, db.Time(at), arg)
	if err != nil {
		return fmt.Errorf("find next cycle: %w", err)
	}
	if len(next) == 0 {
		return nil
	}
	return ops.Wrapped((*jobs).Insert(ctx, server, next), "insert job of cycle %d", next[0].ID)
}

// Rewake raises the wake numbers of cycles whose jobs are lost: their host took them and died before it claimed the cycles. It returns
// the cycles with their new numbers.
func (s *Journal) Rewake(ctx context.Context, ids []ops.CycleID) ([]ops.Cycle, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := ops.Map(ids, func(id ops.CycleID) any { return int64(id) })
	which := ` WHERE ended_at IS NULL AND id IN (` + db.Placeholders(len(ids)) + `)`
	var out []ops.Cycle
	err := s.db.Write(ctx, "rewake", func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1`+which, args...); err != nil {
			return err
		}
		var err error
		out, err = db.List(ctx, tx, scanCycle, selectCycles+which+` ORDER BY id`, args...)
		return err
	})
	return ops.Returning(out, err, "wake cycles again")
}

// Cancelled returns the cycles that a host runs and that somebody wants to end.
func (s *Journal) Cancelled(ctx context.Context, host string) ([]ops.Cycle, error) {
	return s.openCycles(ctx, "list cancelled cycles", `c.status = 'running' AND c.owner = ? AND c.cancel_requested_at IS NOT NULL`, host)
}

// held is the cycle that a fenced write belongs to.
type held struct {
	id          ops.CycleID
	environment string
	status      ops.CycleStatus
	named       bool   // its problem has a name
	ran         bool   // a session has ended
	services    string // that its newest decision named, as they are stored
	// queued, asks and waits: it has a queued session, an open question, and incidents that it waits for.
	queued, asks, waits bool
	session             ops.SessionStatus // of the session by which the cycle was found
}

// fenceTerm refuses a writer whose term is over.
func fenceTerm(ctx context.Context, tx db.Querier, owner ops.Owner) error {
	var term int64
	err := tx.QueryRowContext(ctx, `SELECT term FROM hosts WHERE host = ?`, owner.Host).Scan(&term)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err != nil || term != owner.Term {
		return termOver(owner)
	}
	return nil
}

func termOver(owner ops.Owner) error {
	return fmt.Errorf("term %d of host %q is not the current one: %w", owner.Term, owner.Host, ops.ErrFenced)
}

// fenceCycle refuses a writer whose term is over or that does not hold the cycle.
func fenceCycle(ctx context.Context, tx db.Querier, owner ops.Owner, id ops.CycleID) (held, error) {
	return fence(ctx, tx, owner, `, '' FROM cycles c WHERE c.id = ?`, int64(id))
}

// fenceSession is fenceCycle for the cycle of a session. What is to be asked before goes with it.
func fenceSession(ctx context.Context, tx db.Querier, owner ops.Owner, id ops.SessionID, before ...db.Part) (held, error) {
	return fence(ctx, tx, owner, fromSession, int64(id), before...)
}

func fence(ctx context.Context, tx db.Querier, owner ops.Owner, from string, id int64, before ...db.Part) (held, error) {
	f := fenced{owner: owner}
	if err := db.Together(ctx, tx, append(before, f.part(from, id))...); err != nil {
		return held{}, err
	}
	return f.check(ctx, tx)
}

// fenced is what decides whether an owner may write.
type fenced struct {
	owner  ops.Owner
	found  []held
	holder ops.Owner
	term   *int64
}

const fromSession = `, s.status FROM sessions s JOIN cycles c ON c.id = s.cycle_id WHERE s.id = ?`

func (f *fenced) part(from string, id int64) db.Part {
	scan := func(r db.Row, h *held) error {
		return r.Scan(&h.id, &h.environment, &h.status, db.ToText(&f.holder.Host), &f.holder.Term, &f.term,
			&h.named, &h.ran, db.ToText(&h.services), &h.queued, &h.asks, &h.waits, &h.session)
	}
	return db.Into(&f.found, scan, `SELECT c.id, c.environment, c.status, c.owner, c.term, (SELECT h.term FROM hosts h WHERE h.host = ?),
		c.problem <> '', EXISTS (SELECT 1 FROM sessions e WHERE e.cycle_id = c.id AND e.ended_at IS NOT NULL),
		(SELECT e.services FROM escalations e WHERE e.cycle_id = c.id AND e.services IS NOT NULL ORDER BY e.id DESC LIMIT 1),
		EXISTS (SELECT 1 FROM sessions e WHERE e.cycle_id = c.id AND e.status = 'queued'),
		EXISTS (SELECT 1 FROM approvals a WHERE a.cycle_id = c.id AND a.status = 'pending'),
		EXISTS (SELECT 1 FROM incident_waits w WHERE w.cycle_id = c.id)`+from, f.owner.Host, id)
}

func (f *fenced) check(ctx context.Context, q db.Querier) (held, error) {
	if len(f.found) == 0 {
		if err := fenceTerm(ctx, q, f.owner); err != nil {
			return held{}, err
		}
		return held{}, ops.ErrNotFound
	}
	if f.term == nil || *f.term != f.owner.Term {
		return held{}, termOver(f.owner)
	}
	if f.holder != f.owner {
		return held{}, fmt.Errorf("the cycle is held by %q term %d, not by %q term %d: %w",
			f.holder.Host, f.holder.Term, f.owner.Host, f.owner.Term, ops.ErrFenced)
	}
	return f.found[0], nil
}

// running refuses a write that needs a running cycle.
func (h held) running() error {
	if h.status != ops.CycleRunning {
		return ops.NewConflict(ops.ConflictState, "the cycle is %s", h.status)
	}
	return nil
}
