package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectApprovals = `SELECT a.id, a.cycle_id, COALESCE(a.session_id, 0), a.environment, a.kind, a.tier, a.handler, a.status,
	a.reason, a.requested_at, a.expires_at, a.answered_at, a.answered_by, a.answer, a.plan, a.plan_hash, a.plan_steps, a.plan_skipped,
	a.facts, a.denied_until FROM approvals a`

func scanApproval(r db.Row, a *ops.Approval) error {
	return r.Scan(&a.ID, &a.CycleID, &a.SessionID, &a.Environment, &a.Kind, &a.Tier, &a.Handler, &a.Status,
		&a.Reason, db.ToTime(&a.RequestedAt), db.ToOptTime(&a.ExpiresAt), db.ToOptTime(&a.AnsweredAt), &a.AnsweredBy, &a.Answer,
		db.ToJSON(&a.Plan), &a.PlanHash, db.ToJSON(&a.Steps), &a.Skipped, db.ToJSON(&a.Facts), db.ToOptTime(&a.DeniedUntil))
}

// addStates adds what became of the steps of plans.
func addStates(ctx context.Context, q db.Querier, all []ops.Approval) error {
	var ids []any
	for _, a := range all {
		if len(a.Plan) > 0 {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	runs, err := db.List(ctx, q, scanAction, selectActions+` WHERE r.approval_id IN (`+marks(len(ids))+`)`, ids...)
	for i := range all {
		all[i].States = all[i].Progress(runs)
	}
	return err
}

// ApprovalFilter chooses approvals; the zero value means all.
type ApprovalFilter struct {
	Status      ops.ApprovalStatus
	Environment string
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// Approvals returns a page of questions to people, newest first.
func (s *People) Approvals(ctx context.Context, f ApprovalFilter) ([]ops.Approval, error) {
	var w db.Filter
	w.Given(`a.status = ?`, f.Status)
	w.Given(`a.environment = ?`, f.Environment)
	w.Given(`a.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanApproval, selectApprovals+w.Where()+` ORDER BY a.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err == nil {
		err = addStates(ctx, s.db.Reader(), out)
	}
	return ops.Returning(out, err, "list approvals")
}

// Approval returns one question.
func (s *People) Approval(ctx context.Context, id int64) (ops.Approval, error) {
	a, err := approvalByID(ctx, s.db.Reader(), id)
	one := []ops.Approval{a}
	if err == nil {
		err = addStates(ctx, s.db.Reader(), one)
	}
	if err != nil {
		return ops.Approval{}, fmt.Errorf("read approval %d: %w", id, err)
	}
	return one[0], nil
}

// ExpiringApprovals returns the pending questions whose time is over, longest over first.
func (s *People) ExpiringApprovals(ctx context.Context, now time.Time) ([]ops.Approval, error) {
	out, err := db.List(ctx, s.db.Reader(), scanApproval, selectApprovals+` WHERE a.status = ? AND a.expires_at <= ?
		ORDER BY a.expires_at, a.id`, ops.ApprovalPending, db.Time(now))
	return ops.Returning(out, err, "list expiring approvals")
}

func approvalByID(ctx context.Context, q db.Querier, id int64) (ops.Approval, error) {
	return db.One(ctx, q, scanApproval, selectApprovals+` WHERE a.id = ?`, id)
}

// askApproval records a question. The same question is recorded once, and a cycle has only one open question.
func askApproval(ctx context.Context, tx db.Querier, cycle held, a ops.Approval, at time.Time) error {
	pending, err := db.One(ctx, tx, scanApproval, selectApprovals+` WHERE a.cycle_id = ? AND a.status = ?`, cycle.id, ops.ApprovalPending)
	switch {
	case errors.Is(err, ops.ErrNotFound):
	case err != nil:
		return err
	case pending.Kind == cmp.Or(a.Kind, ops.ApprovalTier) && pending.SessionID == a.SessionID && pending.Tier == a.Tier &&
		pending.Handler == a.Handler:
		return nil
	default:
		return ops.NewConflict(ops.ConflictState, "approval %d of the cycle is not answered yet", pending.ID)
	}
	if a.RequestedAt.IsZero() {
		a.RequestedAt = at
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO approvals (cycle_id, session_id, environment, kind, tier, handler, status, reason,
		requested_at, expires_at, plan, plan_hash, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle.id, db.OrNull(a.SessionID), cmp.Or(a.Environment, cycle.environment), cmp.Or(a.Kind, ops.ApprovalTier), a.Tier, a.Handler,
		ops.ApprovalPending, a.Reason, db.Time(a.RequestedAt), db.OptTime(a.ExpiresAt), db.OptJSON(a.Plan), a.PlanHash, db.OptJSON(a.Facts))
	return err
}

// dropApprovals closes the questions of a cycle that has ended.
func dropApprovals(ctx context.Context, tx db.Querier, cycle ops.CycleID, at time.Time) error {
	return db.Exec(ctx, tx, `UPDATE approvals SET status = ?, answered_at = ?, answered_by = ?, answer = ?
		WHERE cycle_id = ? AND status = ?`,
		ops.ApprovalWithdrawn, db.Time(at), ops.Supervisor, "the cycle ended", cycle, ops.ApprovalPending)
}

// Answer answers a pending question and wakes its cycle. Only the first answer counts: a later one is an ops.ErrConflict that
// says who answered what and when. A no lasts as long as a no does where nobody says otherwise.
func (s *People) Answer(ctx context.Context, id int64, status ops.ApprovalStatus, by, reason string, at time.Time) (ops.Approval, error) {
	at = s.orNow(at)
	return s.answerApproval(ctx, "answer", id, func(tx db.Querier, asked ops.Approval) (ops.Approval, error) {
		return s.answerIn(ctx, tx, asked, given{status, by, reason, ops.NoLasts}, at)
	})
}

// answerApproval writes what a person answers to a question.
func (s *People) answerApproval(ctx context.Context, verb string, id int64,
	write func(tx db.Querier, asked ops.Approval) (ops.Approval, error),
) (out ops.Approval, err error) {
	err = s.answer(ctx, "answer", func(tx db.Querier) (ops.CycleID, string, error) {
		asked, err := approvalByID(ctx, tx, id)
		if err == nil {
			out, err = write(tx, asked)
		}
		return out.CycleID, out.Environment, err
	})
	return ops.Returning(out, err, "%s approval %d", verb, id)
}

// given is an answer to a question.
type given struct {
	status ops.ApprovalStatus
	by     string
	reason string
	lasts  time.Duration // of a no
}

// answerIn is Answer within a transaction. A conflict has written nothing.
func (s *People) answerIn(ctx context.Context, tx db.Querier, asked ops.Approval, g given, at time.Time) (ops.Approval, error) {
	err := checkAnswer(g.status)
	if err == nil && g.status == ops.ApprovalApproved {
		err = s.inTime(asked, at)
	}
	if err != nil {
		return ops.Approval{}, err
	}
	a, err := s.settleApproval(ctx, tx, asked.ID, g.status, g.by, g.reason, at)
	if err == nil && g.status == ops.ApprovalDenied && g.lasts > 0 {
		err = keepNo(ctx, tx, &a, g.lasts, at)
	}
	if err != nil {
		return ops.Approval{}, err
	}
	if err := wakeCycle(ctx, tx, a.CycleID, at); err != nil {
		return ops.Approval{}, err
	}
	return a, s.offerWhere(ctx, tx, `c.environment = (SELECT environment FROM cycles WHERE id = ?)`, int64(a.CycleID), at)
}

// inTime refuses a yes to a question whose time is over, although its cycle, which waits for its slot, has not noticed that yet. A no is
// never too late.
func (s *kernel) inTime(a ops.Approval, at time.Time) error {
	if a.Status != ops.ApprovalPending || a.ExpiresAt == nil || at.Before(*a.ExpiresAt) {
		return nil
	}
	a.Status, a.AnsweredAt, a.AnsweredBy = ops.ApprovalExpired, a.ExpiresAt, ops.Supervisor
	return s.answered(a)
}

// AnswerPlan approves some steps of the plan of a question, counted from 1. The hash says which plan the person saw: another one is
// an ops.ErrConflict.
func (s *People) AnswerPlan(
	ctx context.Context, id int64, hash string, steps []int, by, reason string, at time.Time,
) (ops.Approval, error) {
	at = s.orNow(at)
	return s.answerApproval(ctx, "answer", id, func(tx db.Querier, asked ops.Approval) (ops.Approval, error) {
		if hash != asked.PlanHash {
			return asked, ops.PlanChanged()
		}
		if err := s.inTime(asked, at); err != nil {
			return asked, err
		}
		err := db.Exec(ctx, tx, `UPDATE approvals SET plan_steps = ? WHERE id = ? AND status = ?`,
			db.JSON(db.OrEmpty(steps)), id, ops.ApprovalPending)
		if err != nil {
			return asked, err
		}
		return s.answerIn(ctx, tx, asked, given{status: ops.ApprovalApproved, by: by, reason: reason}, at)
	})
}

// settleApproval records the answer to a pending question, with its event.
func (s *kernel) settleApproval(ctx context.Context, tx db.Querier, id int64, status ops.ApprovalStatus, by, reason string,
	at time.Time,
) (ops.Approval, error) {
	ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE approvals SET status = ?, answered_at = ?, answered_by = ?, answer = ?
		WHERE id = ? AND status = ?`, status, db.Time(at), by, reason, id, ops.ApprovalPending))
	if err != nil {
		return ops.Approval{}, err
	}
	a, err := approvalByID(ctx, tx, id)
	if err != nil {
		return ops.Approval{}, err
	}
	if !ok {
		return ops.Approval{}, s.answered(a)
	}
	err = s.insertEvent(ctx, tx, ops.Event{
		CycleID: &a.CycleID, SessionID: idOrNil(a.SessionID), Environment: a.Environment, Level: ops.LevelInfo, Verb: ops.VerbApprovalAnswered,
		Actor: ops.Person(a.AnsweredBy), Subject: ops.About(ops.SubjectApproval, a.ID), Reason: a.Answer,
		Detail: a.Detail(),
	}, at)
	return a, err
}

// skipSteps records why the approved steps of a cycle that have not run will not.
func skipSteps(ctx context.Context, tx db.Querier, cycle ops.CycleID, why string) error {
	return db.Exec(ctx, tx, `UPDATE approvals SET plan_skipped = ? WHERE cycle_id = ? AND plan_steps IS NOT NULL AND plan_skipped = ''`,
		why, cycle)
}

// selectLate finds the question of a cycle if its time is over. A cycle that wakes because of that must not find it open and wait again
// for a time that has passed.
const selectLate = `SELECT id FROM approvals WHERE cycle_id = ? AND status = ? AND expires_at <= ?`

func checkAnswer(status ops.ApprovalStatus) error {
	switch status {
	case ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalExpired:
	case ops.ApprovalPending, ops.ApprovalWithdrawn:
		return fmt.Errorf("%s is not an answer", status)
	default:
		return fmt.Errorf("%q is not an answer", status)
	}
	return nil
}

// answered is the conflict with the answer that counts.
func (s *kernel) answered(a ops.Approval) error {
	text := s.words.Answered(a.AnsweredBy, a.Detail())
	if a.AnsweredAt != nil {
		text += " at " + a.AnsweredAt.Format(time.RFC3339)
	}
	return ops.NewConflict(ops.ConflictAnswered, "%s", text)
}

// Deny answers a pending question with a no that lasts for a time: until then no agent starts for what was wrong when it was asked,
// unless something else is wrong. Nil means the usual time; 0 answers this question only. A no that was given already gets the time
// instead of its own, counted from now, so that it can be taken back.
func (s *People) Deny(ctx context.Context, id int64, lasts *time.Duration, by, reason string, at time.Time) (ops.Approval, error) {
	if lasts == nil {
		return s.Answer(ctx, id, ops.ApprovalDenied, by, reason, at)
	}
	at = s.orNow(at)
	return s.answerApproval(ctx, "deny", id, func(tx db.Querier, asked ops.Approval) (ops.Approval, error) {
		if asked.Status == ops.ApprovalDenied && len(asked.Facts) > 0 {
			err := s.changeNo(ctx, tx, &asked, *lasts, by, reason, at)
			return asked, err
		}
		return s.answerIn(ctx, tx, asked, given{ops.ApprovalDenied, by, reason, *lasts}, at)
	})
}

// changeNo gives a no another time.
func (s *kernel) changeNo(ctx context.Context, tx db.Querier, a *ops.Approval, lasts time.Duration, by, reason string, at time.Time) error {
	if err := keepNo(ctx, tx, a, lasts, at); err != nil {
		return err
	}
	return s.insertEvent(ctx, tx, ops.Event{
		CycleID: &a.CycleID, Environment: a.Environment, Level: ops.LevelInfo, Verb: ops.VerbApprovalChanged, Actor: ops.Person(by),
		Subject: ops.About(ops.SubjectApproval, a.ID), Reason: reason,
		Detail: a.Detail(),
	}, at)
}

// keepNo records until when a no lasts. Nobody is reminded of its incidents before.
func keepNo(ctx context.Context, tx db.Querier, a *ops.Approval, lasts time.Duration, at time.Time) error {
	if len(a.Facts) == 0 {
		return nil // nothing could be found to be the same
	}
	until := at.Add(lasts).Truncate(time.Second)
	if a.DeniedUntil = nil; lasts > 0 {
		a.DeniedUntil = &until
	}
	_, err := tx.ExecContext(ctx, `UPDATE approvals SET denied_until = ? WHERE id = ?`, db.OptTime(a.DeniedUntil), a.ID)
	if err != nil {
		return err
	}
	c, err := cycleByID(ctx, tx, a.CycleID)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE incidents SET updated_at = ?, remind_at = ? WHERE last_cycle_id = ? AND resolved_at IS NULL
		AND remind_at IS NOT NULL`, db.Time(at), db.Time(until.Add(c.Policy.Approval.Remind)), a.CycleID)
	return err
}

// Denials returns the questions of an environment to which somebody said no, as long as the no lasts.
func (s *Watch) Denials(ctx context.Context, environment string, now time.Time) ([]ops.Approval, error) {
	out, err := db.List(ctx, s.db.Reader(), scanApproval, selectDenials, environment, db.Time(now))
	return ops.Returning(out, err, "list denials")
}

const selectDenials = selectApprovals + ` WHERE a.environment = ? AND a.denied_until > ? ORDER BY a.id`

// deniedUntil is until when no agent works on an incident, because somebody said no in the cycle that reported it last.
const deniedUntil = `(SELECT MAX(n.denied_until) FROM approvals n WHERE n.cycle_id = i.last_cycle_id AND n.denied_until IS NOT NULL)`

// deniedNow: that time is not over.
const deniedNow = `EXISTS (SELECT 1 FROM approvals n WHERE n.cycle_id = i.last_cycle_id AND n.denied_until > ?)`
