package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

const selectDecisions = `SELECT e.id, e.cycle_id, COALESCE(e.session_id, 0), e.source_handler, e.target_handler, e.reason,
	e.proposed, e.depth, e.max_depth, e.target_validated, e.self_escalation_rejected, e.process_mode, e.manager_present,
	e.path, e.services, e.decision, e.check_name, e.policy, e.at FROM escalations e`

func scanDecision(r row) (ops.Decision, error) {
	var d ops.Decision
	err := r.Scan(&d.ID, &d.CycleID, &d.SessionID, &d.SourceHandler, &d.TargetHandler, &d.Reason,
		&d.Proposed, &d.Depth, &d.MaxDepth, &d.TargetValidated, &d.SelfEscalationRejected, &d.ProcessMode, &d.ManagerPresent,
		toJSON(&d.Path), toJSON(&d.Services), &d.Verdict, &d.Check, (*[]byte)(&d.Inputs), toTime(&d.At))
	return d, err
}

// Decisions returns the decisions of a cycle, in order.
func (s *Store) Decisions(ctx context.Context, cycle ops.CycleID) ([]ops.Decision, error) {
	out, err := decisionsOfCycle(ctx, s.reader, cycle)
	if err != nil {
		return nil, fmt.Errorf("list decisions of cycle %d: %w", cycle, err)
	}
	return out, nil
}

func decisionsOfCycle(ctx context.Context, q querier, cycle ops.CycleID) ([]ops.Decision, error) {
	return list(ctx, q, scanDecision, selectDecisions+` WHERE e.cycle_id = ? ORDER BY e.id`, cycle)
}

func insertDecision(ctx context.Context, tx querier, cycle ops.CycleID, d ops.Decision, at time.Time) error {
	if d.At.IsZero() {
		d.At = at
	}
	path, err := asJSON(orEmpty(d.Path))
	if err != nil {
		return err
	}
	var services string
	if len(d.Services) > 0 {
		if services, err = asJSON(d.Services); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO escalations (cycle_id, session_id, source_handler, target_handler, reason,
		proposed, depth, max_depth, target_validated, self_escalation_rejected, process_mode, manager_present,
		path, services, decision, check_name, policy, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, orNull(d.SessionID), d.SourceHandler, d.TargetHandler, d.Reason,
		d.Proposed, d.Depth, d.MaxDepth, d.TargetValidated, d.SelfEscalationRejected, d.ProcessMode, d.ManagerPresent,
		path, optText(services), d.Verdict, d.Check, optText(d.Inputs), formatTime(d.At))
	return err
}
