package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Load returns a cycle with its journal as one snapshot.
func (s *Store) Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error) {
	var out ops.Claimed
	err := s.read(ctx, func(tx querier) error {
		var err error
		out, err = s.loadWhole(ctx, tx, id, s.clock())
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("load cycle %d: %w", id, err)
	}
	return out, nil
}

func (s *Store) loadClaimed(ctx context.Context, q querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	var out ops.Claimed
	var has contents
	var err error
	if out.Cycle, has, err = cycleWithContents(ctx, q, id, at); err != nil {
		return ops.Claimed{}, err
	}
	environment := out.Cycle.Environment
	j := &out.Journal
	for _, part := range []struct {
		there bool
		load  func() error
	}{
		{true, func() (err error) { j.Sessions, err = sessionsOfCycle(ctx, q, id); return err }},
		{has.decisions, func() (err error) { j.Decisions, err = decisionsOfCycle(ctx, q, id); return err }},
		{has.checks, func() (err error) {
			j.Checks, err = list(ctx, q, scanCheck, selectChecks+` WHERE k.cycle_id = ? ORDER BY k.id`, id)
			return err
		}},
		{has.recoveries, func() (err error) { j.Recoveries, err = recoveriesOfCycle(ctx, q, id); return err }},
		{has.approvals, func() (err error) { j.Approvals, err = approvalsOfCycle(ctx, q, id); return err }},
		{has.incidents, func() (err error) { j.Incidents, err = incidentsFor(ctx, q, environment, id); return err }},
		{has.judgements, func() (err error) { j.Effects, err = effectsOfCycle(ctx, q, id); return err }},
		{has.silences, func() (err error) { j.Silences, err = silencesAt(ctx, q, environment, at); return err }},
		{true, func() (err error) { j.Withheld, err = withheldFor(ctx, q, out, has.withheld, at); return err }},
		// A session of this cycle may have used something up since the last look.
		{has.actions && len(out.Cycle.Policy.Cooldowns) > 0, func() (err error) {
			j.Cooldowns, err = cooldowns(ctx, q, environment, out.Cycle.Policy.Cooldowns, s.moment(at))
			return err
		}},
	} {
		if !part.there {
			continue
		}
		if err := part.load(); err != nil {
			return ops.Claimed{}, err
		}
	}
	return out, nil
}

// contents tells which parts of a journal there are: most cycles have few, and each that need not be asked for saves a way to
// the database and back.
type contents struct {
	decisions, checks, recoveries, approvals, incidents, judgements, silences, withheld, actions bool
}

const selectContents = `SELECT ` + cycleColumns + `,
	EXISTS (SELECT 1 FROM escalations WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM checks WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM recoveries WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM approvals WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM incidents WHERE environment = c.environment AND resolved_at IS NULL)
		OR EXISTS (SELECT 1 FROM incident_waits WHERE cycle_id = c.id),
	EXISTS (SELECT 1 FROM guard_decisions WHERE session_id IN (SELECT id FROM sessions WHERE cycle_id = c.id)),
	EXISTS (SELECT 1 FROM silences WHERE ends_at > ?),
	EXISTS (SELECT 1 FROM withheld WHERE environment = c.environment),
	EXISTS (SELECT 1 FROM cooldown_actions WHERE environment = c.environment AND counts)
	FROM cycles c WHERE c.id = ?`

func cycleWithContents(ctx context.Context, q querier, id ops.CycleID, at time.Time) (ops.Cycle, contents, error) {
	var has contents
	c, err := one(ctx, q, func(r row) (ops.Cycle, error) {
		return scanCycle(longerRow{r, []any{
			&has.decisions, &has.checks, &has.recoveries, &has.approvals, &has.incidents, &has.judgements, &has.silences, &has.withheld, &has.actions,
		}})
	}, selectContents, formatTime(at), id)
	return c, has, err
}

// longerRow is a row with more columns than who scans it knows.
type longerRow struct {
	row
	more []any
}

func (r longerRow) Scan(dest ...any) error { return r.row.Scan(append(dest, r.more...)...) }

// loadWhole is loadClaimed with what other cycles have to do with it, which only a claim needs to look up.
func (s *Store) loadWhole(ctx context.Context, q querier, id ops.CycleID, at time.Time) (ops.Claimed, error) {
	out, err := s.loadClaimed(ctx, q, id, at)
	if err != nil {
		return ops.Claimed{}, err
	}
	j := &out.Journal
	if j.LastLook, err = lastLook(ctx, q, out.Cycle.Environment); err != nil {
		return ops.Claimed{}, err
	}
	if j.Windows, err = reportedWindows(ctx, q, out.Cycle.Policy.Handlers); err != nil {
		return ops.Claimed{}, err
	}
	const before = 10 // enough to see whether they keep failing
	j.Before, err = endings(ctx, q, out.Cycle.Environment, id, before)
	if err != nil {
		return ops.Claimed{}, err
	}
	if j.Spend.DayUSD, err = spent(ctx, q, out.Cycle.Environment, at, `cycle_id <> ?`, int64(id)); err != nil {
		return ops.Claimed{}, err
	}
	return out, nil
}

// reportedWindows reads the context window that was last reported for each handler's model.
func reportedWindows(ctx context.Context, q querier, handlers []ops.Handler) (map[string]int64, error) {
	out := map[string]int64{}
	for _, h := range handlers {
		if _, done := out[h.Model]; done {
			continue
		}
		window, err := one(ctx, q, scanInt, `SELECT context_window FROM sessions
			WHERE model = ? AND context_window IS NOT NULL ORDER BY id DESC LIMIT 1`, h.Model)
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			return nil, err
		}
		if window > 0 {
			out[h.Model] = window
		}
	}
	return out, nil
}

// Commit writes one transition in one transaction, and returns the cycle and its journal as they read now. What the
// journal knows of other cycles (spend, windows) is left out: the caller has it from its claim.
func (s *Store) Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error) {
	if t.Empty() {
		return s.Load(ctx, t.Cycle)
	}
	t.At = s.orNow(t.At)
	var out ops.Claimed
	err := s.write(ctx, "commit", func(tx querier) error {
		cycle, err := fenceCycle(ctx, tx, owner, t.Cycle)
		if err != nil {
			return err
		}
		if err := cycle.running(); err != nil {
			return err
		}
		if err := recordResult(ctx, tx, cycle, t); err != nil {
			return err
		}
		if err := recordStep(ctx, tx, cycle, owner, t); err != nil {
			return err
		}
		out, err = s.loadClaimed(ctx, tx, t.Cycle, t.At)
		return err
	})
	if err != nil {
		return ops.Claimed{}, fmt.Errorf("commit step %s of cycle %d: %w", t.Step.Kind, t.Cycle, err)
	}
	return out, nil
}

// recordResult writes what the last effect produced.
func recordResult(ctx context.Context, tx querier, cycle held, t ops.Transition) error {
	if r := t.Result.Session; r != nil {
		if err := endSession(ctx, tx, cycle, *r, t.At); err != nil {
			return fmt.Errorf("end session %d: %w", r.ID, err)
		}
	}
	for _, c := range t.Result.Checks {
		if c.Environment == "" {
			c.Environment = cycle.environment
		}
		c.CycleID = orOf(c.CycleID, cycle.id)
		if err := insertCheck(ctx, tx, c, t.At); err != nil {
			return fmt.Errorf("record check of %s: %w", c.Service, err)
		}
	}
	var source *ops.SessionID
	if r := t.Result.Session; r != nil {
		source = &r.ID
	}
	if err := recordLessons(ctx, tx, cycle, sourceAgent, source, t.Result.Lessons, t.At); err != nil {
		return err
	}
	return recordEvents(ctx, tx, cycle, t.Result.Events, t.At)
}

// recordStep writes the decision and everything that must stand before the step is taken.
func recordStep(ctx context.Context, tx querier, cycle held, owner ops.Owner, t ops.Transition) error {
	if d := t.Step.Decision; d != nil {
		if err := insertDecision(ctx, tx, cycle.id, *d, t.At); err != nil {
			return fmt.Errorf("record decision: %w", err)
		}
	}
	if err := recordAttempt(ctx, tx, cycle, t); err != nil {
		return err
	}
	if err := recordEvents(ctx, tx, cycle, t.Step.Events, t.At); err != nil {
		return err
	}
	if err := recordPeople(ctx, tx, cycle, t); err != nil {
		return err
	}
	for _, n := range append(append([]ops.Notice{}, t.Result.Notices...), t.Step.Notices...) {
		n.CycleID = orOf(n.CycleID, cycle.id)
		n.Status = ops.NoticePending
		n.Environment = cycle.environment
		if r := t.Step.Incident; n.Service == "" && r != nil && len(r.Services) == 1 {
			n.Service = r.Services[0]
		}
		if _, err := insertNotice(ctx, tx, n, t.At); err != nil {
			return fmt.Errorf("record notice: %w", err)
		}
	}
	if n := t.Step.Session; n != nil {
		if err := queueSession(ctx, tx, cycle, owner, *n, t.At); err != nil {
			return fmt.Errorf("queue attempt %d of %s: %w", n.Attempt, n.Handler.ID, err)
		}
	}
	switch t.Step.Kind {
	case ops.StepFinish:
		return finishCycle(ctx, tx, t)
	case ops.StepAwait:
		if err := awaitHuman(ctx, tx, t); err != nil {
			return fmt.Errorf("await: %w", err)
		}
	case ops.StepRest, ops.StepProbe, ops.StepInterrupt, ops.StepQueue, ops.StepRun, ops.StepPause:
	}
	return nil
}

// recordAttempt writes what is made of an attempt: the verdict on its claim, what was learnt, and the next one.
func recordAttempt(ctx context.Context, tx querier, cycle held, t ops.Transition) error {
	if v := t.Step.Verified; v != nil {
		if err := insertVerification(ctx, tx, cycle.id, *v, t.At); err != nil {
			return fmt.Errorf("record verification: %w", err)
		}
	}
	if y := t.Step.Recovery; y != nil {
		if err := insertRecovery(ctx, tx, cycle.id, *y, t.At); err != nil {
			return fmt.Errorf("record recovery: %w", err)
		}
	}
	return recordLessons(ctx, tx, cycle, sourceForceDone, nil, t.Step.Lessons, t.At)
}

// recordPeople writes what people are told to look at, and what they are asked. What is over ends first: a problem that is
// reported in the same step is a new one.
func recordPeople(ctx context.Context, tx querier, cycle held, t ops.Transition) error {
	if err := closeRecovered(ctx, tx, cycle, t.Step.Recovered, t.At); err != nil {
		return fmt.Errorf("close incidents: %w", err)
	}
	if r := t.Step.Incident; r != nil {
		if err := reportIncident(ctx, tx, cycle, *r, t.At); err != nil {
			return fmt.Errorf("report incident: %w", err)
		}
	}
	if a := t.Step.Approval; a != nil {
		if err := askApproval(ctx, tx, cycle, *a, t.At); err != nil {
			return fmt.Errorf("ask for approval: %w", err)
		}
	}
	return nil
}

func recordLessons(ctx context.Context, tx querier, cycle held, source string, session *ops.SessionID, lessons []ops.Lesson, at time.Time) error {
	for _, l := range lessons {
		if err := learn(ctx, tx, cycle, source, session, l, at); err != nil {
			return fmt.Errorf("remember %s: %w", l.Category, err)
		}
	}
	return nil
}

func recordEvents(ctx context.Context, tx querier, cycle held, events []ops.Event, at time.Time) error {
	for _, e := range events {
		if e.Environment == "" {
			e.Environment = cycle.environment
		}
		e.CycleID = orOf(e.CycleID, cycle.id)
		if _, err := insertEvent(ctx, tx, e, at); err != nil {
			return fmt.Errorf("record event %s: %w", e.Kind, err)
		}
	}
	return nil
}

// finishCycle ends the cycle; its owner stays on record.
func finishCycle(ctx context.Context, tx querier, t ops.Transition) error {
	if !t.Step.Status.Ended() {
		return fmt.Errorf("finish: %q is no end of a cycle", t.Step.Status)
	}
	_, err := tx.ExecContext(ctx, `UPDATE cycles SET status = ?, reason = ?, result = COALESCE(?, result), ended_at = ?, wake_at = NULL
		WHERE id = ?`, t.Step.Status, t.Step.Reason, optText(t.Step.Result), formatTime(t.At), t.Cycle)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	// What was intended and never ran will not run any more.
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET status = ?, ended_at = ? WHERE cycle_id = ? AND status = ?`,
		ops.SessionCancelled, formatTime(t.At), t.Cycle, ops.SessionQueued)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if err := dropApprovals(ctx, tx, t.Cycle, t.At); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if err := dropWaits(ctx, tx, t.Cycle); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}
