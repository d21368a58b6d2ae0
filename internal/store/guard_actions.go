package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// ActionIntent is what BeginAction writes in one transaction.
type ActionIntent struct {
	Run    ops.ActionRun
	Record ops.GuardRecord // of a run that a session asks for
	Want   []ops.Reservation
	Limits []ops.CooldownLimit
	At     time.Time
}

// BeginAction records that an action is about to run: the intent, its cooldown, and the approved step that it uses, or nothing of
// it. A refusal is the reason why it must not run. After an error nothing was written, and nothing may run.
func (s *Acts) BeginAction(ctx context.Context, owner ops.Owner, in ActionIntent) (run ops.ActionRun, refusal string, err error) {
	now := s.moment(s.orNow(in.At))
	err = s.db.Write(ctx, "begin_action", func(tx db.Querier) error {
		b := beginning{tx: tx, owner: owner, in: in, now: now}
		run, refusal, err = b.write(ctx)
		return err
	})
	if err != nil {
		return ops.ActionRun{}, "", fmt.Errorf("begin action %s of %s: %w", in.Run.Action, in.Run.Service, err)
	}
	return run, refusal, nil
}

// beginning is one call of BeginAction.
type beginning struct {
	tx    db.Querier
	owner ops.Owner
	in    ActionIntent
	now   moment
}

func (b *beginning) write(ctx context.Context) (ops.ActionRun, string, error) {
	r := &b.in.Run
	if err := b.fence(ctx); err != nil {
		return ops.ActionRun{}, "", err
	}
	if r.ApprovalID != 0 && r.UndoOf == 0 {
		if err := b.approved(ctx); err != nil {
			return ops.ActionRun{}, "", err
		}
	}
	if r.Reflex != "" && r.UndoOf == 0 {
		if err := b.once(ctx); err != nil {
			return ops.ActionRun{}, "", err
		}
	}
	reason, err := b.reserve(ctx)
	if err != nil {
		return ops.ActionRun{}, "", err
	}
	if b.in.Record.SessionID != 0 {
		record := b.in.Record
		record.At, record.CycleID, record.Allowed = b.now.at, *r.CycleID, reason == ""
		if reason != "" {
			record.Rule, record.Reason = ruleCooldown, reason
		}
		if _, err := insertGuard(ctx, b.tx, record); err != nil {
			return ops.ActionRun{}, "", err
		}
	}
	if reason != "" {
		return ops.ActionRun{}, reason, nil
	}
	r.Status, r.Owner, r.Term, r.StartedAt = ops.ActionStarted, b.owner.Host, b.owner.Term, &b.now.at
	if r.ID == 0 {
		r.RequestedAt = b.now.at
		r.ID, err = insertAction(ctx, b.tx, *r)
	} else {
		err = b.takeRequest(ctx)
	}
	if err != nil {
		return ops.ActionRun{}, "", err
	}
	return *r, "", b.count(ctx)
}

// fence refuses a run that this host may not do any more.
func (b *beginning) fence(ctx context.Context) error {
	r := b.in.Run
	switch {
	case b.in.Record.SessionID != 0:
		_, err := fenceRunning(ctx, b.tx, b.owner, b.in.Record.SessionID)
		return err
	case (r.ApprovalID != 0 || r.Reflex != "") && r.UndoOf == 0:
		cycle, err := fenceCycle(ctx, b.tx, b.owner, *r.CycleID)
		if err != nil {
			return err
		}
		return cycle.running()
	}
	return fenceTerm(ctx, b.tx, b.owner)
}

// approved checks that a human approved exactly this step. The index on the runs makes sure that it runs once.
func (b *beginning) approved(ctx context.Context) error {
	r := b.in.Run
	a, err := approvalByID(ctx, b.tx, r.ApprovalID)
	if err != nil {
		return err
	}
	switch {
	case a.Status != ops.ApprovalApproved || a.CycleID != *r.CycleID:
		return ops.NewConflict(ops.ConflictChanged, "approval %d does not approve it", a.ID)
	case ops.PlanHash(a.CycleID, a.SessionID, a.Plan) != a.PlanHash:
		return ops.NewConflict(ops.ConflictChanged, "the plan of approval %d was changed", a.ID)
	case r.Step < 1 || r.Step > len(a.Plan) || !slices.Contains(a.Steps, r.Step):
		return ops.NewConflict(ops.ConflictChanged, "step %d of approval %d was not approved", r.Step, a.ID)
	}
	step := a.Plan[r.Step-1]
	if step.Service != r.Service || step.Action != r.Action || step.Branch != r.Branch || step.Digest != r.Digest {
		return ops.NewConflict(ops.ConflictChanged, "step %d of approval %d is something else", r.Step, a.ID)
	}
	done, err := db.One(ctx, b.tx, db.ScanInt, `SELECT COUNT(*) FROM action_runs WHERE approval_id = ? AND step = ? AND undo_of IS NULL`,
		r.ApprovalID, r.Step)
	if err == nil && done > 0 {
		err = ops.NewConflict(ops.ConflictTaken, "step %d of approval %d has been used", r.Step, a.ID)
	}
	return err
}

// once checks that this cycle has not done this part of a reflex yet. The index on the runs makes sure of it.
func (b *beginning) once(ctx context.Context) error {
	r := b.in.Run
	done, err := db.One(ctx, b.tx, db.ScanInt, `SELECT COUNT(*) FROM action_runs WHERE cycle_id = ? AND reflex = ? AND step = ?
		AND undo_of IS NULL`, *r.CycleID, r.Reflex, r.Step)
	if err == nil && done > 0 {
		err = ops.NewConflict(ops.ConflictTaken, "the cycle has done it already")
	}
	return err
}

// reserve reserves the cooldown, or says why not.
func (b *beginning) reserve(ctx context.Context) (string, error) {
	r := b.in.Run
	if len(b.in.Want) == 0 {
		return "", nil
	}
	record, limits := b.in.Record, b.in.Limits
	record.Gate = ops.GateAction
	if known, err := db.One(ctx, b.tx, db.ScanInt, `SELECT COUNT(*) FROM approvals a JOIN escalations e ON e.session_id = a.session_id
		WHERE a.id = ? AND a.status = 'approved' AND e.decision = 'approval' AND e.check_name = 'cooldown'`, r.ApprovalID); err != nil {
		return "", err
	} else if known > 0 { // whoever said yes was told of the cooldown; what is never permitted stays so
		limits = slices.DeleteFunc(slices.Clone(limits), func(l ops.CooldownLimit) bool { return l.Count > 0 })
	}
	pass := reserving{tx: b.tx, environment: r.Environment, record: record, limits: limits, now: b.now, taken: map[int64]bool{}}
	if r.CycleID == nil || r.SessionID == nil {
		for _, w := range b.in.Want {
			if reason, err := pass.refusal(ctx, w); reason != "" || err != nil {
				return reason, err
			}
		}
		return "", nil
	}
	pass.record.CycleID, pass.record.SessionID = *r.CycleID, *r.SessionID
	return pass.all(ctx, b.in.Want)
}

// count makes the run of a person count against its cooldown. Runs of a session count where the commands of sessions do.
func (b *beginning) count(ctx context.Context) error {
	r := b.in.Run
	if r.CycleID != nil && r.SessionID != nil || len(b.in.Want) == 0 {
		return nil
	}
	_, err := b.tx.ExecContext(ctx, `UPDATE action_runs SET counts = TRUE, counts_as = ?, boot = ?, uptime_us = ? WHERE id = ?`,
		b.in.Want[0].Action, b.now.boot, b.now.up.Microseconds(), r.ID)
	return err
}

// takeRequest starts what a person asked for, unless somebody else did.
func (b *beginning) takeRequest(ctx context.Context) error {
	r := b.in.Run
	ok, err := db.Changed(b.tx.ExecContext(ctx, `UPDATE action_runs SET status = ?, started_at = ?, owner = ?, term = ?, kind = ?, tier = ?,
		does = ?, digest = ?, commit_id = ?, version = ?, states_before = ? WHERE id = ? AND status = ?`,
		r.Status, db.Time(b.now.at), r.Owner, r.Term, r.Kind, r.Tier, r.Does, r.Digest, r.Commit, r.Version,
		db.JSON(db.OrEmpty(r.Before)), r.ID, ops.ActionRequested))
	if err == nil && !ok {
		err = ops.NewConflict(ops.ConflictTaken, "it was taken or withdrawn")
	}
	return err
}

func insertAction(ctx context.Context, tx db.Querier, r ops.ActionRun) (int64, error) {
	var id int64
	err := tx.QueryRowContext(ctx, `INSERT INTO action_runs (environment, service, action, kind, tier, cycle_id, session_id, person, why,
		approval_id, step, undo_of, automatic, status, does, digest, branch, commit_id, version, states_before, owner, term, requested_at,
		started_at, reflex) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		r.Environment, r.Service, r.Action, r.Kind, r.Tier, db.OptID(r.CycleID), db.OptID(r.SessionID), r.Person, r.Why,
		db.OrNull(r.ApprovalID), r.Step, db.OrNull(r.UndoOf), r.Automatic, r.Status, r.Does, r.Digest, r.Branch, r.Commit, r.Version,
		db.JSON(db.OrEmpty(r.Before)), r.Owner, r.Term, db.Time(r.RequestedAt), db.OptTime(r.StartedAt), r.Reflex).Scan(&id)
	return id, err
}

// ActionResult is what EndAction writes in one transaction.
type ActionResult struct {
	ID      int64
	Status  ops.ActionStatus
	Output  string
	Error   string
	After   []ops.ServiceHealth
	Events  []ops.Event
	Notices []ops.Notice
	At      time.Time
}

// EndAction records how a run ended, with what the probes say. A successful undo also ends what it undid.
func (s *Acts) EndAction(ctx context.Context, owner ops.Owner, in ActionResult) (ops.ActionRun, error) {
	at := s.orNow(in.At)
	var out ops.ActionRun
	err := s.db.Write(ctx, "end_action", func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE action_runs SET status = ?, output = ?, error = ?, states_after = ?,
			ended_at = `+db.NotBefore(`started_at`)+` WHERE id = ? AND status = ?`,
			in.Status, db.OptBytes([]byte(in.Output)), in.Error, db.JSON(db.OrEmpty(in.After)), db.Time(at), db.Time(at), in.ID, ops.ActionStarted))
		if err == nil && !ok {
			err = ops.NewConflict(ops.ConflictState, "it is not running")
		}
		if err != nil {
			return err
		}
		if out, err = actionByID(ctx, tx, in.ID); err != nil {
			return err
		}
		if out.UndoOf != 0 && in.Status == ops.ActionDone {
			_, err := tx.ExecContext(ctx, `UPDATE action_runs SET status = ? WHERE id = ?`, ops.ActionUndone, out.UndoOf)
			if err == nil {
				err = s.afterUndo(ctx, tx, out.UndoOf, at)
			}
			if err != nil {
				return err
			}
		}
		return s.recordActionNews(ctx, tx, out, in.Events, in.Notices, at)
	})
	return ops.Returning(out, err, "end action %d", in.ID)
}

func (s *kernel) recordActionNews(
	ctx context.Context, tx db.Querier, r ops.ActionRun, events []ops.Event, notices []ops.Notice, at time.Time,
) error {
	for _, e := range events {
		e.Environment, e.Service, e.CycleID, e.SessionID = r.Environment, r.Service, r.CycleID, r.SessionID
		e.Subject = ops.About(ops.SubjectAction, r.ID)
		if err := s.insertEvent(ctx, tx, e, at); err != nil {
			return err
		}
	}
	for _, n := range notices {
		n.Environment, n.Service, n.CycleID, n.Status = r.Environment, r.Service, r.CycleID, ops.NoticePending
		if _, err := insertNotice(ctx, tx, n, at); err != nil {
			return err
		}
	}
	return nil
}

// InterruptActions ends the runs whose supervisor has ended, and returns them. They are never repeated.
func (s *Acts) InterruptActions(ctx context.Context, owner ops.Owner, at time.Time) ([]ops.ActionRun, error) {
	at = s.orNow(at)
	var out []ops.ActionRun
	err := s.db.Write(ctx, "interrupt_actions", func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		left, err := db.List(ctx, tx, scanAction, selectActions+` WHERE r.status = ? AND NOT EXISTS (SELECT 1 FROM hosts h
			WHERE h.host = r.owner AND h.term = r.term AND (h.expires_at IS NULL OR h.expires_at > ?)) ORDER BY r.id`,
			ops.ActionStarted, db.Time(now))
		if err != nil {
			return err
		}
		for _, r := range left {
			const why = "the supervisor ended while the action was running; it is not repeated"
			_, err := tx.ExecContext(ctx, `UPDATE action_runs SET status = ?, error = ?, ended_at = `+db.NotBefore(`started_at`)+` WHERE id = ?`,
				ops.ActionInterrupted, why, db.Time(at), db.Time(at), r.ID)
			if err != nil {
				return err
			}
			r.Status, r.Error, r.EndedAt = ops.ActionInterrupted, why, &at
			text := s.words.ActionInterrupted(r)
			err = s.recordActionNews(ctx, tx, r, []ops.Event{{
				Level: ops.LevelCritical, Verb: ops.VerbActionInterrupted, Reason: why,
				Detail: ops.ActionDetail{Action: r.Action, UndoOf: r.UndoOf, Status: r.Status},
			}}, []ops.Notice{{
				Kind: ops.NoticeAction, Level: ops.LevelCritical, Title: text.Title, Body: text.Body, NextAt: at, CreatedAt: at,
			}}, at)
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
	return ops.Returning(out, err, "interrupt actions")
}

// NoteAction records what probes say after a run that was interrupted.
func (s *Acts) NoteAction(ctx context.Context, owner ops.Owner, id int64, after []ops.ServiceHealth) error {
	err := s.db.Write(ctx, "note_action", func(tx db.Querier) error {
		if err := fenceTerm(ctx, tx, owner); err != nil {
			return err
		}
		return db.Exec(ctx, tx, `UPDATE action_runs SET states_after = ? WHERE id = ? AND status = ?`, db.JSON(db.OrEmpty(after)), id,
			ops.ActionInterrupted)
	})
	return ops.Wrapped(err, "note action %d", id)
}

// act reserves for an action of the supervisor. What a command of an agent reserved is not used for it, and the other way round.
func (p reserving) act(ctx context.Context, w ops.Reservation) (reason string, err error) {
	if w.Phase == ops.PhaseClose {
		if covered, err := p.cover(ctx, w); covered || err != nil {
			return "", err
		}
	}
	if reason, err := p.refusal(ctx, w); reason != "" || err != nil {
		return reason, err
	}
	status := actionUsed
	if w.Phase == ops.PhaseOpen {
		status = actionOpen
	}
	id, err := p.insert(ctx, w, status, 0)
	if err != nil {
		return "", err
	}
	_, err = p.tx.ExecContext(ctx, `UPDATE cooldown_actions SET used_at = ? WHERE id = ?`, db.Time(p.now.at), id)
	return "", err
}

// RefuseStep records that a step of an approved plan was not run, so that the plan goes no further.
func (s *Acts) RefuseStep(ctx context.Context, owner ops.Owner, r ops.ActionRun, reason string, at time.Time) (ops.ActionRun, error) {
	at = s.orNow(at)
	err := s.db.Write(ctx, "refuse_step", func(tx db.Querier) error {
		if _, err := fenceCycle(ctx, tx, owner, *r.CycleID); err != nil {
			return err
		}
		r.Status, r.Error, r.RequestedAt = ops.ActionRefused, reason, at
		id, err := insertAction(ctx, tx, r)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE action_runs SET error = ?, ended_at = ? WHERE id = ?`, reason, db.Time(at), id)
		if err != nil {
			return err
		}
		if r, err = actionByID(ctx, tx, id); err != nil {
			return err
		}
		return s.recordActionNews(ctx, tx, r, []ops.Event{{
			Level: ops.LevelWarning, Verb: ops.VerbActionRefused, Reason: reason,
			Detail: ops.ActionDetail{Action: r.Action, Status: r.Status, Step: r.Step, Reflex: r.Reflex != ""},
		}}, nil, at)
	})
	return ops.Returning(r, err, "refuse %s of %s", r.Action, r.Service)
}
