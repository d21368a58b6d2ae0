package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Deny answers a pending question with a no that lasts for a time: until then no agent starts for what was wrong when it was asked,
// unless something else is wrong. Nil means the usual time; 0 answers this question only. A no that was given already gets the time
// instead of its own, counted from now, so that it can be taken back.
func (s *People) Deny(ctx context.Context, id int64, lasts *time.Duration, by, reason string, at time.Time) (ops.Approval, error) {
	if lasts == nil {
		return s.Answer(ctx, id, ops.ApprovalDenied, by, reason, at)
	}
	at = s.orNow(at)
	var out ops.Approval
	err := s.db.Write(ctx, "answer", func(tx db.Querier) (err error) {
		if out, err = approvalByID(ctx, tx, id); err != nil {
			return err
		}
		if out.Status == ops.ApprovalDenied && len(out.Facts) > 0 {
			return changeNo(ctx, tx, &out, *lasts, by, reason, at)
		}
		out, err = s.answerIn(ctx, tx, id, given{ops.ApprovalDenied, by, reason, *lasts}, at)
		return err
	})
	if err != nil {
		return ops.Approval{}, fmt.Errorf("deny approval %d: %w", id, err)
	}
	return out, nil
}

// changeNo gives a no another time.
func changeNo(ctx context.Context, tx db.Querier, a *ops.Approval, lasts time.Duration, by, reason string, at time.Time) error {
	if err := keepNo(ctx, tx, a, lasts, at); err != nil {
		return err
	}
	return insertEvent(ctx, tx, ops.Event{
		CycleID: &a.CycleID, Environment: a.Environment, Level: ops.LevelInfo, Kind: ops.EventApproval,
		Message: withReason(fmt.Sprintf("%s changed the answer to approval %d: %s", by, a.ID, notice.NoLasts(*a)), reason),
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
func (s *People) Denials(ctx context.Context, environment string, now time.Time) ([]ops.Approval, error) {
	out, err := db.List(ctx, s.db.Reader(), scanApproval, selectDenials, environment, db.Time(now))
	if err != nil {
		return nil, fmt.Errorf("list denials: %w", err)
	}
	return out, nil
}

const selectDenials = selectApprovals + ` WHERE a.environment = ? AND a.denied_until > ? ORDER BY a.id`

// deniedUntil is until when no agent works on an incident, because somebody said no in the cycle that reported it last.
const deniedUntil = `(SELECT MAX(n.denied_until) FROM approvals n WHERE n.cycle_id = i.last_cycle_id AND n.denied_until IS NOT NULL)`

// deniedNow: that time is not over.
const deniedNow = `EXISTS (SELECT 1 FROM approvals n WHERE n.cycle_id = i.last_cycle_id AND n.denied_until > ?)`
