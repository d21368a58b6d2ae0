package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Attention counts what waits for people.
type Attention struct {
	Approvals    int // questions nobody has answered
	Open         int // incidents nobody has taken, and those whose snooze is over; without those a question is asked about
	Acknowledged int
	Snoozed      int
}

// NeedYou is how many things a person should look at now.
func (a Attention) NeedYou() int { return a.Approvals + a.Open }

// Attention counts questions and incidents that are not over.
func (s *Store) Attention(ctx context.Context, now time.Time) (Attention, error) {
	var a Attention
	err := s.reader.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM approvals WHERE status = ?),
			COALESCE(SUM(CASE WHEN (i.status = ? OR (i.status = ? AND i.snoozed_until <= ?)) AND NOT EXISTS (
				SELECT 1 FROM incident_waits w JOIN approvals a ON a.cycle_id = w.cycle_id WHERE w.incident_id = i.id AND a.status = ?
			) THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? AND i.snoozed_until > ? THEN 1 ELSE 0 END), 0)
		FROM incidents i WHERE i.resolved_at IS NULL`,
		ops.ApprovalPending, ops.IncidentOpen, ops.IncidentSnoozed, formatTime(now), ops.ApprovalPending, ops.IncidentAcknowledged,
		ops.IncidentSnoozed, formatTime(now)).Scan(&a.Approvals, &a.Open, &a.Acknowledged, &a.Snoozed)
	if err != nil {
		return Attention{}, fmt.Errorf("count what needs people: %w", err)
	}
	return a, nil
}

// maxHistory bounds the story of one incident; the newest are told.
const maxHistory = 100

// IncidentHistory returns what happened to an incident, the oldest first: what people did with it, and what was asked and
// decided in the cycle that opened it and in the last one that saw it.
func (s *Store) IncidentHistory(ctx context.Context, i ops.Incident) ([]ops.Event, error) {
	out, err := list(ctx, s.reader, scanEvent, `SELECT * FROM (`+selectEvents+` WHERE v.cycle_id BETWEEN ? AND ? AND v.environment = ?
			AND (v.kind = ? AND v.message LIKE ? OR v.kind IN ('approval', 'escalation') AND v.cycle_id IN (?, ?))
			ORDER BY v.id DESC LIMIT ?) AS newest ORDER BY id`,
		i.FirstCycle, max(i.FirstCycle, i.LastCycle), i.Environment, kindIncident, fmt.Sprintf("%%incident %d (%%", i.ID),
		i.FirstCycle, i.LastCycle, maxHistory)
	if err != nil {
		return nil, fmt.Errorf("read history of incident %d: %w", i.ID, err)
	}
	return out, nil
}
