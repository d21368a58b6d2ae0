package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Commit writes one transition in one transaction, and returns the cycle and its journal as they are afterwards, or nothing if its step
// leaves the cycle. It leaves out what the journal knows of other cycles (spend, windows): the caller has it from its claim.
func (s *Journal) Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error) {
	if t.Empty() {
		known, err := s.Cycle(ctx, t.Cycle)
		if err != nil {
			return ops.Claimed{}, err
		}
		return s.Look(ctx, known)
	}
	t.At = s.orNow(t.At)
	var out ops.Claimed
	err := s.db.WriteIn(ctx, "commit", db.OfCycle(t.Cycle), func(tx db.Querier) error {
		db.Reaches(tx, t.Reach())
		cycle, err := fenceCycle(ctx, tx, owner, t.Cycle)
		if err != nil {
			return err
		}
		if err := cycle.running(); err != nil {
			return err
		}
		if err := s.record(ctx, tx, cycle, owner, t); err != nil {
			return err
		}
		bad := slices.DeleteFunc(ops.LastOfEach(ownResults(t.Result.Checks)), func(c ops.Check) bool { return !c.Bad() })
		if len(bad) > 0 || !t.Step.Kind.Leaves() {
			if out, err = s.load(ctx, tx, ops.Cycle{ID: cycle.id, Environment: cycle.environment}, t.At); err != nil {
				return err
			}
		}
		reopened, err := s.relapses(ctx, tx, out, t, bad)
		if err == nil && reopened {
			err = db.Together(ctx, tx, incidentsFor(&out.Journal.Incidents, cycle.environment, t.Cycle))
		}
		if err != nil {
			return fmt.Errorf("open incidents again: %w", err)
		}
		if t.Step.Kind.Leaves() && t.Step.Kind != ops.StepRest {
			return s.offer(ctx, tx, cycle.environment, t.At)
		}
		return nil
	})
	return ops.Returning(out, err, "commit step %s of cycle %d", t.Step.Kind, t.Cycle)
}

// record writes a transition and counts what it cost.
func (s *kernel) record(ctx context.Context, tx db.Querier, cycle held, owner ops.Owner, t ops.Transition) error {
	moved, err := uncountCycle(ctx, tx, cycle, t.Step.Decision)
	if err != nil {
		return fmt.Errorf("count costs for other services: %w", err)
	}
	if err := s.recordResult(ctx, tx, cycle, t); err != nil {
		return err
	}
	if err := s.recordStep(ctx, tx, cycle, owner, t); err != nil {
		return err
	}
	return ops.Wrapped(countResult(ctx, tx, moved, t), "count costs")
}

// recordFacts writes what the step was decided from.
func recordFacts(ctx context.Context, tx db.Querier, t ops.Transition) error {
	if len(t.Facts) == 0 {
		return nil
	}
	return db.Exec(ctx, tx, `INSERT INTO steps (cycle_id, n, at, "row", facts)
		VALUES (?, (SELECT COALESCE(MAX(n), 0) + 1 FROM steps WHERE cycle_id = ?), ?, ?, ?)`,
		t.Cycle, t.Cycle, db.Time(t.At), t.Step.Row, string(t.Facts))
}

// recordResult writes what the last effect produced.
func (s *kernel) recordResult(ctx context.Context, tx db.Querier, cycle held, t ops.Transition) error {
	if r := t.Result.Session; r != nil {
		if err := endSession(ctx, tx, cycle, *r, t.At); err != nil {
			return fmt.Errorf("end session %d: %w", r.ID, err)
		}
	}
	if t.Result.Problem != "" && !cycle.named {
		// The problem that started a cycle stays its name.
		if err := db.Exec(ctx, tx, `UPDATE cycles SET problem = ? WHERE id = ? AND problem = ''`, t.Result.Problem, t.Cycle); err != nil {
			return fmt.Errorf("name the problem: %w", err)
		}
	}
	checks := slices.Clone(t.Result.Checks)
	for i := range checks {
		checks[i].Environment = cmp.Or(checks[i].Environment, cycle.environment)
		checks[i].CycleID = orOf(checks[i].CycleID, cycle.id)
	}
	if err := insertChecks(ctx, tx, checks, t.At); err != nil {
		return fmt.Errorf("record checks: %w", err)
	}
	var source *ops.SessionID
	if r := t.Result.Session; r != nil {
		source = &r.ID
	}
	if err := recordLessons(ctx, tx, cycle, sourceAgent, source, t.Result.Lessons, t.At); err != nil {
		return err
	}
	return s.recordEvents(ctx, tx, cycle, t.Result.Events, t.At)
}

// recordStep writes the decision and everything that must be stored before the step is taken.
func (s *kernel) recordStep(ctx context.Context, tx db.Querier, cycle held, owner ops.Owner, t ops.Transition) error {
	if err := recordFacts(ctx, tx, t); err != nil {
		return fmt.Errorf("record facts: %w", err)
	}
	if d := t.Step.Decision; d != nil {
		if err := insertDecision(ctx, tx, cycle.id, *d, t.At); err != nil {
			return fmt.Errorf("record decision: %w", err)
		}
	}
	if err := recordAttempt(ctx, tx, cycle, t); err != nil {
		return err
	}
	if err := s.recordEvents(ctx, tx, cycle, t.Step.Events, t.At); err != nil {
		return err
	}
	refuted, err := s.recordPeople(ctx, tx, cycle, t)
	if err != nil {
		return err
	}
	if len(refuted) > 0 {
		t.Step.Notices = slices.Clone(t.Step.Notices)
		t.Step.Notices[0].Body = s.words.AlsoRefutes(t.Step.Notices[0].Body, refuted)
	}
	for _, n := range append(append([]ops.Notice{}, t.Result.Notices...), t.Step.Notices...) {
		n.CycleID = orOf(n.CycleID, cycle.id)
		n.Status = ops.NoticePending
		n.Environment = cycle.environment
		if r := t.Step.Incident; n.Service == "" && r != nil && len(r.Services) == 1 {
			n.Service = r.Services[0]
		}
		if err := queueNotice(ctx, tx, n, t.At); err != nil {
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
		if err := finishCycle(ctx, tx, cycle, t); err != nil || t.Step.Repair == nil {
			return err
		}
		if err := earn(ctx, tx, cycle, *t.Step.Repair, t.At); err != nil {
			return fmt.Errorf("record repair: %w", err)
		}
	case ops.StepAwait:
		if err := awaitHuman(ctx, tx, t); err != nil {
			return fmt.Errorf("await: %w", err)
		}
	case ops.StepDefer:
		if err := deferCycle(ctx, tx, t); err != nil {
			return fmt.Errorf("defer: %w", err)
		}
	case ops.StepRest, ops.StepProbe, ops.StepInterrupt, ops.StepQueue, ops.StepRun, ops.StepPause, ops.StepAct:
	}
	return nil
}

// recordAttempt writes what follows from an attempt: the verdict on its claim, the next attempt, and the lessons.
func recordAttempt(ctx context.Context, tx db.Querier, cycle held, t ops.Transition) error {
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

// recordPeople closes incidents, opens new ones and asks for approval. It closes first: a problem that is reported in the same
// step is a new one. It returns the repairs that did not hold and of which the step's own notice has to tell.
func (s *kernel) recordPeople(ctx context.Context, tx db.Querier, cycle held, t ops.Transition) (refuted []string, err error) {
	if err := s.endIncidents(ctx, tx, cycle, t.Step.Recovered, t.At); err != nil {
		return nil, fmt.Errorf("close incidents: %w", err)
	}
	if t.Step.Incident != nil {
		if refuted, err = s.reportIncident(ctx, tx, cycle, t.Step, t.At); err != nil {
			return nil, fmt.Errorf("report incident: %w", err)
		}
	}
	if t.Step.Left != nil {
		left := t.Step
		left.Incident = left.Left
		if _, err := s.reportIncident(ctx, tx, cycle, left, t.At); err != nil {
			return nil, fmt.Errorf("report what is left to people: %w", err)
		}
	}
	if err := s.reduceAfter(ctx, tx, cycle.id, t.Step.Reduced, t.At); err != nil {
		return nil, fmt.Errorf("lower trust: %w", err)
	}
	if err := switchOff(ctx, tx, t.Step.ReflexOff, t.At); err != nil {
		return nil, fmt.Errorf("switch reflexes off: %w", err)
	}
	if why := t.Step.Skipped; why != "" {
		if err := skipSteps(ctx, tx, cycle.id, why); err != nil {
			return nil, fmt.Errorf("skip steps of the plan: %w", err)
		}
	}
	if a := t.Step.Approval; a != nil {
		if err := askApproval(ctx, tx, cycle, *a, t.At); err != nil {
			return nil, fmt.Errorf("ask for approval: %w", err)
		}
	}
	return refuted, nil
}

func recordLessons(ctx context.Context, tx db.Querier, cycle held, source string, session *ops.SessionID, lessons []ops.Lesson,
	at time.Time,
) error {
	for _, l := range lessons {
		if err := learn(ctx, tx, cycle, source, session, l, at); err != nil {
			return fmt.Errorf("remember %s: %w", l.Category, err)
		}
	}
	return nil
}

func (s *kernel) recordEvents(ctx context.Context, tx db.Querier, cycle held, events []ops.Event, at time.Time) error {
	for _, e := range events {
		e.Environment = cmp.Or(e.Environment, cycle.environment)
		e.CycleID = orOf(e.CycleID, cycle.id)
		err := s.insertEvent(ctx, tx, e, at)
		if err == nil {
			err = s.reduceAlarmed(ctx, tx, e, at)
		}
		if err != nil {
			return fmt.Errorf("record event %s: %w", e.Verb, err)
		}
	}
	return nil
}

// finishCycle ends the cycle; its owner stays recorded.
func finishCycle(ctx context.Context, tx db.Querier, cycle held, t ops.Transition) error {
	if !t.Step.Status.Ended() {
		return fmt.Errorf("finish: %q is not a final status of a cycle", t.Step.Status)
	}
	err := db.Exec(ctx, tx, `UPDATE cycles SET status = ?, reason = ?, result = COALESCE(?, result), verified = ?, verified_by = ?,
		ended_at = `+db.NotBefore(`COALESCE(started_at, created_at)`)+`, wake_at = NULL WHERE id = ?`,
		t.Step.Status, t.Step.Reason, db.OptText(t.Step.Result), t.Step.Confirmed, t.Step.ConfirmedBy, db.Time(t.At), db.Time(t.At), t.Cycle)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if cycle.queued { // that will not run any more
		err = db.Exec(ctx, tx, `UPDATE sessions SET status = ?, ended_at = ? WHERE cycle_id = ? AND status = ?`,
			ops.SessionCancelled, db.Time(t.At), t.Cycle, ops.SessionQueued)
		if err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	if err := addUpCycle(ctx, tx, t.Cycle); err != nil {
		return fmt.Errorf("finish: count costs: %w", err)
	}
	if cycle.asks || t.Step.Approval != nil {
		if err := dropApprovals(ctx, tx, t.Cycle, t.At); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	if cycle.waits || t.Step.Incident != nil {
		if err := dropWaits(ctx, tx, t.Cycle); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	if t.Step.Status == ops.CycleResolved {
		if err := startProbation(ctx, tx, t.Cycle, t.At); err != nil {
			return fmt.Errorf("finish: start probation: %w", err)
		}
	}
	return nil
}

// orOf is p, or a pointer to fallback where p is nil: rows written for a cycle belong to it unless they say otherwise.
func orOf[T any](p *T, fallback T) *T {
	if p == nil {
		return &fallback
	}
	return p
}
