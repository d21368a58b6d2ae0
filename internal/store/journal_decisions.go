package store

import (
	"cmp"
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const decisionColumns = `SELECT e.id, e.cycle_id, COALESCE(e.session_id, 0), e.source_handler, e.target_handler, e.reason,
	e.proposed, e.depth, e.max_depth, e.target_validated, e.self_escalation_rejected, e.process_mode, e.manager_present,
	e.path, e.services, e.decision, e.check_name, e.policy, e.at`

const selectDecisions = decisionColumns + ` FROM escalations e`

func scanDecision(r db.Row, d *ops.Decision) error {
	return r.Scan(&d.ID, &d.CycleID, &d.SessionID, &d.SourceHandler, &d.TargetHandler, &d.Reason,
		&d.Proposed, &d.Depth, &d.MaxDepth, &d.TargetValidated, &d.SelfEscalationRejected, &d.ProcessMode, &d.ManagerPresent,
		db.ToJSON(&d.Path), db.ToJSON(&d.Services), &d.Verdict, &d.Check, (*[]byte)(&d.Inputs), db.ToTime(&d.At))
}

// Decisions returns the decisions of a cycle, in order.
func (s *Journal) Decisions(ctx context.Context, cycle ops.CycleID) ([]ops.Decision, error) {
	out, err := db.List(ctx, s.db.Reader(), scanDecision, selectDecisions+` WHERE e.cycle_id = ? ORDER BY e.id`, cycle)
	return ops.Returning(out, err, "list decisions of cycle %d", cycle)
}

func insertDecision(ctx context.Context, tx db.Querier, cycle ops.CycleID, d ops.Decision, at time.Time) error {
	if d.At.IsZero() {
		d.At = at
	}
	return db.Exec(ctx, tx, `INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason,
		proposed, depth, max_depth, target_validated, self_escalation_rejected, process_mode, manager_present,
		path, services, decision, check_name, policy, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, db.OrNull(d.SessionID), d.SourceHandler, d.TargetHandler, d.Reason,
		d.Proposed, d.Depth, d.MaxDepth, d.TargetValidated, d.SelfEscalationRejected, d.ProcessMode, d.ManagerPresent,
		db.JSON(db.OrEmpty(d.Path)), db.OptJSON(d.Services), d.Verdict, d.Check, db.OptText(d.Inputs), db.Time(d.At))
}

const selectRecoveries = `SELECT y.id, y.cycle_id, COALESCE(y.session_id, 0), y.tier, y.level, y.action, y.error_type,
	y.previous_levels, y.entered_at, y.not_before, y.deadline, y.variant, y.handler, y.reason FROM recoveries y`

func scanRecovery(r db.Row, y *ops.Recovery) error {
	return r.Scan(&y.ID, &y.CycleID, &y.SessionID, &y.Tier, &y.Level, &y.Action, &y.ErrorType,
		db.ToJSON(&y.PreviousLevels), db.ToTime(&y.EnteredAt), db.ToOptTime(&y.NotBefore), db.ToOptTime(&y.Deadline), &y.Variant, &y.Handler,
		&y.Reason)
}

// Recoveries returns the attempts that the ladder ordered in a cycle, in order.
func (s *Journal) Recoveries(ctx context.Context, cycle ops.CycleID) ([]ops.Recovery, error) {
	out, err := db.List(ctx, s.db.Reader(), scanRecovery, selectRecoveries+` WHERE y.cycle_id = ? ORDER BY y.id`, cycle)
	return ops.Returning(out, err, "list recoveries of cycle %d", cycle)
}

func insertRecovery(ctx context.Context, tx db.Querier, cycle ops.CycleID, y ops.Recovery, at time.Time) error {
	if y.EnteredAt.IsZero() {
		y.EnteredAt = at
	}
	if y.PreviousLevels == nil {
		y.PreviousLevels = []ops.RecoveryLevel{}
	}
	if err := db.OrderFeed(ctx, tx, db.FeedRecoveries); err != nil {
		return err
	}
	return db.Exec(ctx, tx, `INSERT INTO recoveries (cycle_id, session_id, tier, level, action, error_type, previous_levels,
		entered_at, not_before, deadline, variant, handler, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, db.OrNull(y.SessionID), y.Tier, y.Level, cmp.Or(y.Action, y.Level.Action()), y.ErrorType, db.JSON(y.PreviousLevels),
		db.Time(y.EnteredAt), db.OptTime(y.NotBefore), db.OptTime(y.Deadline), y.Variant, y.Handler, y.Reason)
}

const selectVerifications = `SELECT f.id, f.cycle_id, COALESCE(f.session_id, 0), COALESCE(f.judge_session_id, 0), f.verdict,
	COALESCE(f.confidence, 0.0), COALESCE(f.total_score, 0), f.dimensions, f.reasoning, f.failure_reasons, f.recommendations, f.at
	FROM verifications f`

func scanVerification(r db.Row, v *ops.Verification) error {
	return r.Scan(&v.ID, &v.CycleID, &v.SessionID, &v.JudgeSessionID, &v.Verdict,
		&v.Confidence, &v.TotalScore, db.ToJSON(&v.Dimensions), &v.Reasoning, db.ToJSON(&v.FailureReasons), db.ToJSON(&v.Recommendations),
		db.ToTime(&v.At))
}

// Verifications returns what judges made of the claims of a cycle, in order.
func (s *Journal) Verifications(ctx context.Context, cycle ops.CycleID) ([]ops.Verification, error) {
	out, err := db.List(ctx, s.db.Reader(), scanVerification, selectVerifications+` WHERE f.cycle_id = ? ORDER BY f.id`, cycle)
	return ops.Returning(out, err, "list verifications of cycle %d", cycle)
}

func insertVerification(ctx context.Context, tx db.Querier, cycle ops.CycleID, v ops.Verification, at time.Time) error {
	if v.At.IsZero() {
		v.At = at
	}
	return db.Exec(ctx, tx, `INSERT INTO verifications (cycle_id, session_id, judge_session_id, verdict, confidence,
		total_score, dimensions, reasoning, failure_reasons, recommendations, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, db.OrNull(v.SessionID), db.OrNull(v.JudgeSessionID), v.Verdict, v.Confidence,
		v.TotalScore, db.JSON(v.Dimensions), v.Reasoning, db.JSON(db.OrEmpty(v.FailureReasons)), db.JSON(db.OrEmpty(v.Recommendations)),
		db.Time(v.At))
}
