package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
)

// Pulse tells whether anything changed that a page shows, and holds the counts that every page shows. Two equal ones mean that
// nothing was written in between, by whichever host; the output of sessions is not among it.
type Pulse struct {
	Approvals int // questions nobody has answered
	Incidents int // nobody has taken them; without those a question is asked about
	Running   int // sessions whose process may exist
	Queued    int // cycles that have not started

	Cycle, Session, Event, Check, Guard, Recovery, Verification int64 // the newest rows
	SessionEnded, CycleEnded, IncidentChanged, CycleStates      string
}

// Pulse reads the counters. All of them are looked up, none is counted over a whole table.
func (s *Store) Pulse(ctx context.Context) (Pulse, error) {
	var p Pulse
	err := s.reader.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM approvals WHERE status = ?),
		(SELECT COUNT(*) FROM incidents i WHERE i.resolved_at IS NULL AND i.status = 'open' AND NOT EXISTS (SELECT 1 FROM incident_waits w
			JOIN approvals a ON a.cycle_id = w.cycle_id WHERE w.incident_id = i.id AND a.status = 'pending')),
		(SELECT COUNT(*) FROM sessions WHERE status = ?),
		(SELECT COUNT(*) FROM cycles WHERE status = ?),
		(SELECT COALESCE(MAX(id), 0) FROM cycles), (SELECT COALESCE(MAX(id), 0) FROM sessions),
		(SELECT COALESCE(MAX(id), 0) FROM events), (SELECT COALESCE(MAX(id), 0) FROM checks),
		(SELECT COALESCE(MAX(id), 0) FROM guard_decisions), (SELECT COALESCE(MAX(id), 0) FROM recoveries),
		(SELECT COALESCE(MAX(id), 0) FROM verifications),
		(SELECT COALESCE(MAX(ended_at), '') FROM sessions WHERE ended_at IS NOT NULL),
		(SELECT COALESCE(MAX(ended_at), '') FROM cycles),
		(SELECT COALESCE(MAX(updated_at), '') FROM incidents WHERE resolved_at IS NULL),
		(SELECT CAST(COALESCE(SUM(id * (wake_seq + 1) * LENGTH(status)), 0) AS TEXT) FROM cycles WHERE ended_at IS NULL)`,
		ops.ApprovalPending, ops.SessionRunning, ops.CycleQueued).
		Scan(&p.Approvals, &p.Incidents, &p.Running, &p.Queued, &p.Cycle, &p.Session, &p.Event, &p.Check, &p.Guard, &p.Recovery,
			&p.Verification, &p.SessionEnded, &p.CycleEnded, &p.IncidentChanged, &p.CycleStates)
	if err != nil {
		return Pulse{}, fmt.Errorf("read pulse: %w", err)
	}
	return p, nil
}
