package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

const selectVerifications = `SELECT f.id, f.cycle_id, COALESCE(f.session_id, 0), COALESCE(f.judge_session_id, 0), f.verdict,
	COALESCE(f.confidence, 0.0), COALESCE(f.total_score, 0), f.dimensions, f.reasoning, f.failure_reasons, f.recommendations, f.at
	FROM verifications f`

func scanVerification(r row) (ops.Verification, error) {
	var v ops.Verification
	err := r.Scan(&v.ID, &v.CycleID, &v.SessionID, &v.JudgeSessionID, &v.Verdict,
		&v.Confidence, &v.TotalScore, toJSON(&v.Dimensions), &v.Reasoning, toJSON(&v.FailureReasons), toJSON(&v.Recommendations),
		toTime(&v.At))
	return v, err
}

// Verifications returns what judges made of the claims of a cycle, in order.
func (s *Store) Verifications(ctx context.Context, cycle ops.CycleID) ([]ops.Verification, error) {
	out, err := list(ctx, s.reader, scanVerification, selectVerifications+` WHERE f.cycle_id = ? ORDER BY f.id`, cycle)
	if err != nil {
		return nil, fmt.Errorf("list verifications of cycle %d: %w", cycle, err)
	}
	return out, nil
}

func insertVerification(ctx context.Context, tx querier, cycle ops.CycleID, v ops.Verification, at time.Time) error {
	if v.At.IsZero() {
		v.At = at
	}
	var texts [3]string
	for i, value := range []any{v.Dimensions, orEmpty(v.FailureReasons), orEmpty(v.Recommendations)} {
		var err error
		if texts[i], err = asJSON(value); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO verifications (cycle_id, session_id, judge_session_id, verdict, confidence,
		total_score, dimensions, reasoning, failure_reasons, recommendations, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, orNull(v.SessionID), orNull(v.JudgeSessionID), v.Verdict, v.Confidence,
		v.TotalScore, texts[0], v.Reasoning, texts[1], texts[2], formatTime(v.At))
	return err
}
