package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Totals are the sums over sessions of one kind.
type Totals struct {
	Tier    ops.Tier
	Model   string
	Trigger ops.Trigger
	Outcome string // as the session reported it, or else its status

	Sessions         int64
	CostUSD          float64
	InputTokens      int64
	OutputTokens     int64
	CacheReadTokens  int64
	CacheWriteTokens int64

	Durations Distribution // milliseconds
	Turns     Distribution
}

// Distribution counts how many values were at most each bound.
type Distribution struct {
	Count int64
	Sum   float64
	Below []int64 // one for each bound that was asked for
}

// Span is a period without its first moment.
type Span struct {
	After time.Time
	Until time.Time // zero means no end
}

func (p Span) filter(column string) db.Filter {
	w := db.Filter{}
	w.Add(column+` > ?`, db.Time(p.After))
	if !p.Until.IsZero() {
		w.Add(column+` <= ?`, db.Time(p.Until))
	}
	return w
}

// SessionTotals adds up the sessions that ended within a period.
func (s *Reports) SessionTotals(ctx context.Context, p Span, durations, turns []int64) ([]Totals, error) {
	w := p.filter(`s.ended_at`)
	scan := func(r db.Row, t *Totals) error {
		*t = Totals{Durations: Distribution{Below: make([]int64, len(durations))}, Turns: Distribution{Below: make([]int64, len(turns))}}
		to := []any{
			&t.Tier, &t.Model, &t.Trigger, &t.Outcome, &t.Sessions, &t.CostUSD, &t.InputTokens, &t.OutputTokens, &t.CacheReadTokens,
			&t.CacheWriteTokens, &t.Durations.Count, &t.Durations.Sum, &t.Turns.Count, &t.Turns.Sum,
		}
		for _, below := range [][]int64{t.Durations.Below, t.Turns.Below} {
			for i := range below {
				to = append(to, &below[i])
			}
		}
		return r.Scan(to...)
	}
	out, err := db.List(ctx, s.db.Reader(), scan, `SELECT s.tier, s.model, c."trigger", COALESCE(NULLIF(s.outcome, ''), s.status), COUNT(*),
			COALESCE(SUM(s.cost_usd), 0), COALESCE(SUM(s.input_tokens), 0), COALESCE(SUM(s.output_tokens), 0),
			COALESCE(SUM(s.cache_read_tokens), 0), COALESCE(SUM(s.cache_write_tokens), 0),
			COUNT(s.duration_ms), COALESCE(SUM(s.duration_ms), 0), COUNT(s.num_turns), COALESCE(SUM(s.num_turns), 0)`+
		countBelow(`s.duration_ms`, durations)+countBelow(`s.num_turns`, turns)+
		` FROM sessions s JOIN cycles c ON c.id = s.cycle_id`+w.Where()+` GROUP BY 1, 2, 3, 4`, w.Args...)
	return ops.Returning(out, err, "add up sessions")
}

func countBelow(column string, bounds []int64) string {
	var b strings.Builder
	for _, bound := range bounds {
		fmt.Fprintf(&b, `, COUNT(CASE WHEN %s <= %d THEN 1 END)`, column, bound)
	}
	return b.String()
}

// Count is how many rows have the same labels.
type Count struct {
	Words []string
	Rows  int64
}

// counts reads a query of n labels and a number.
func counts(ctx context.Context, q db.Querier, n int, query string, args ...any) ([]Count, error) {
	return db.List(ctx, q, func(r db.Row, c *Count) error {
		c.Words = make([]string, n)
		to := make([]any, 0, n+1)
		for i := range c.Words {
			to = append(to, &c.Words[i])
		}
		return r.Scan(append(to, &c.Rows)...)
	}, query, args...)
}

// EscalationTotals counts, among the sessions that ended within a period, those that a lower tier escalated to, by both tiers.
func (s *Reports) EscalationTotals(ctx context.Context, p Span) ([]Count, error) {
	w := p.filter(`s.ended_at`)
	out, err := counts(ctx, s.db.Reader(), 2, `SELECT CAST(p.tier AS TEXT), CAST(s.tier AS TEXT), COUNT(*) FROM sessions s
		JOIN sessions p ON p.id = s.parent_session_id`+w.Where()+
		` AND s.retry_of_session_id IS NULL AND s.role = 'work' AND s.tier > p.tier GROUP BY 1, 2`, w.Args...)
	return ops.Returning(out, err, "count escalations")
}

// CycleEnd is how and when a cycle ended.
type CycleEnd struct {
	Status    ops.CycleStatus
	StartedAt *time.Time
	EndedAt   time.Time
}

// CycleEnds calls each with every cycle that ended within a period.
func (s *Reports) CycleEnds(ctx context.Context, p Span, each func(CycleEnd)) error {
	w := p.filter(`c.ended_at`)
	_, err := db.List(ctx, s.db.Reader(), func(r db.Row, _ *struct{}) error {
		var c CycleEnd
		err := r.Scan(&c.Status, db.ToOptTime(&c.StartedAt), db.ToTime(&c.EndedAt))
		if err == nil {
			each(c)
		}
		return err
	}, `SELECT c.status, c.started_at, c.ended_at FROM cycles c`+w.Where(), w.Args...)
	return ops.Wrapped(err, "read ends of cycles")
}

// FirstEnd is when the first session or cycle ended; zero without one.
func (s *Reports) FirstEnd(ctx context.Context) (time.Time, error) {
	found, err := db.List(ctx, s.db.Reader(), scanTime, `SELECT at FROM (SELECT MIN(ended_at) AS at FROM sessions WHERE ended_at IS NOT NULL
		UNION ALL SELECT MIN(ended_at) FROM cycles WHERE ended_at IS NOT NULL) AS ends WHERE at IS NOT NULL ORDER BY at LIMIT 1`)
	if err != nil {
		return time.Time{}, fmt.Errorf("read first end: %w", err)
	}
	if len(found) == 0 {
		return time.Time{}, nil
	}
	return found[0], nil
}

// Marks are the ids of the newest rows of feeds that only grow.
type Marks struct {
	Guard    int64
	Recovery int64
}

// FeedTotals counts the rows after the marks: guard decisions by tier, verdict and rule; recoveries by level and error.
func (s *Reports) FeedTotals(ctx context.Context, after Marks) (guard, recoveries []Count, now Marks, err error) {
	err = s.db.Read(ctx, func(tx db.Querier) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COALESCE(MAX(id), 0) FROM guard_decisions),
			(SELECT COALESCE(MAX(id), 0) FROM recoveries)`).
			Scan(&now.Guard, &now.Recovery)
		if err != nil {
			return err
		}
		if guard, err = counts(ctx, tx, 3, `SELECT CAST(tier AS TEXT), verdict, rule, COUNT(*) FROM guard_decisions WHERE id > ?
			GROUP BY 1, 2, 3`,
			after.Guard); err != nil {
			return err
		}
		recoveries, err = counts(ctx, tx, 2, `SELECT CAST(level AS TEXT), error_type, COUNT(*) FROM recoveries WHERE id > ? GROUP BY 1, 2`,
			after.Recovery)
		return err
	})
	if err != nil {
		return nil, nil, Marks{}, fmt.Errorf("count feeds: %w", err)
	}
	return guard, recoveries, now, nil
}

// Gauges are figures of this moment.
type Gauges struct {
	Running          []Count // sessions by tier
	OpenIncidents    []Count // by level
	Notices          []Count // settled ones, by status
	PendingApprovals int64
	ApprovalWaits    []time.Duration // of those that were answered
	LastSuccess      map[string]time.Time
}

// Gauges reads the current figures. The environments are those whose last success is wanted.
func (s *Reports) Gauges(ctx context.Context, environments []string) (Gauges, error) {
	out := Gauges{LastSuccess: map[string]time.Time{}}
	err := s.db.Read(ctx, func(tx db.Querier) (err error) {
		if out.Running, err = counts(ctx, tx, 1, `SELECT CAST(tier AS TEXT), COUNT(*) FROM sessions WHERE status = ? GROUP BY 1`,
			ops.SessionRunning); err != nil {
			return err
		}
		if out.OpenIncidents, err = counts(ctx, tx, 1, `SELECT level, COUNT(*) FROM incidents WHERE resolved_at IS NULL GROUP BY 1`); err != nil {
			return err
		}
		if out.Notices, err = counts(ctx, tx, 1, `SELECT status, COUNT(*) FROM notifications WHERE status <> ? GROUP BY 1`,
			ops.NoticePending); err != nil {
			return err
		}
		if err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM approvals WHERE status = ?`,
			ops.ApprovalPending).Scan(&out.PendingApprovals); err != nil {
			return err
		}
		out.ApprovalWaits, err = db.List(ctx, tx, func(r db.Row, wait *time.Duration) error {
			var asked, answered time.Time
			err := r.Scan(db.ToTime(&asked), db.ToTime(&answered))
			*wait = answered.Sub(asked)
			return err
		}, `SELECT requested_at, answered_at FROM approvals WHERE status IN (?, ?) AND answered_at IS NOT NULL`,
			ops.ApprovalApproved, ops.ApprovalDenied)
		if err != nil {
			return err
		}
		return lastSuccesses(ctx, tx, environments, out.LastSuccess)
	})
	return ops.Returning(out, err, "read current figures")
}

func scanTime(r db.Row, t *time.Time) error {
	return r.Scan(db.ToTime(t))
}

func lastSuccesses(ctx context.Context, tx db.Querier, environments []string, into map[string]time.Time) error {
	for _, e := range environments {
		found, err := db.List(ctx, tx, scanTime, `SELECT ended_at FROM cycles WHERE environment = ? AND ended_at IS NOT NULL
			AND status IN (?, ?) AND refuted_at IS NULL ORDER BY ended_at DESC LIMIT 1`,
			e, ops.CycleHealthy, ops.CycleResolved)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			into[e] = found[0]
		}
	}
	return nil
}
