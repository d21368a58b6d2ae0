package web

import (
	"slices"
	"strconv"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// chainView is the sessions of one cycle with their totals.
type chainView struct {
	Lines    []chainLine // the sessions and the waits for a person, in order
	Duration figure
	Turns    figure
	Cost     figure
}

// chainLine is one line of the table: a session, or a wait for a person.
type chainLine struct {
	Session *sessionRow
	Wait    *waitRow

	at time.Time
}

// waitRow is a time in which the cycle waited for a person.
type waitRow struct {
	api.Approval
	Title    string
	Duration figure
}

// sessionRow is one session in its cycle.
type sessionRow struct {
	ops.Session
	Badge    badge
	Duration figure
	Turns    figure
	Cost     figure
	Current  bool   // the session of this page
	Calls    figure // of tools, as far as the guard saw them
	Refusals figure // by the guard
}

// chain lists the sessions of a cycle with what the guard saw of them, and how long the cycle waited for people.
func (m moment) chain(
	sessions []ops.Session, approvals []ops.Approval, calls map[ops.SessionID]store.CallCounts, current ops.SessionID,
) chainView {
	view := chainView{Turns: totalTurns(sessions), Cost: totalCost(sessions)}
	var lasted time.Duration
	running := 0
	for _, s := range sessions {
		if s.Status == ops.SessionRunning {
			running++
		}
		row := m.sessionRow(s, sessions)
		row.Current = s.ID == current
		if n, seen := calls[s.ID]; seen {
			row.Calls, row.Refusals = count(&n.Calls), count(&n.Refusals)
		}
		at := s.CreatedAt
		if s.StartedAt != nil {
			at = *s.StartedAt
		}
		view.Lines = append(view.Lines, chainLine{Session: &row, at: at})
		d, _ := m.duration(s)
		lasted += d
	}
	view.Duration = figure{Known: true, Text: span(lasted)}
	if running == 1 {
		view.Duration.Since = m.now.Add(-lasted).UTC().Format(time.RFC3339)
	}
	for _, a := range approvals {
		view.Lines = append(view.Lines, chainLine{Wait: ops.Ptr(m.waitRow(a)), at: a.RequestedAt})
	}
	slices.SortStableFunc(view.Lines, func(a, b chainLine) int { return a.at.Compare(b.at) })
	return view
}

func (m moment) waitRow(a ops.Approval) waitRow {
	row := waitRow{Approval: api.ApprovalRow(a)}
	switch a.Kind {
	case ops.ApprovalTier:
		row.Title = "Waiting for approval"
	case ops.ApprovalReview:
		row.Title = "Waiting for review"
	case ops.ApprovalReflex:
		row.Title = "Waiting for a yes to " + a.Handler
	}
	waits := a.AnsweredAt == nil && a.Status == ops.ApprovalPending
	until := a.RequestedAt // withdrawn, and nobody recorded when
	switch {
	case a.AnsweredAt != nil:
		until = *a.AnsweredAt
	case waits:
		until = m.now
	case a.ExpiresAt != nil && a.Status == ops.ApprovalExpired:
		until = *a.ExpiresAt
	}
	row.Duration = m.lasting(&a.RequestedAt, &until, waits)
	return row
}

func (m moment) sessionRow(s ops.Session, chain []ops.Session) sessionRow {
	ended := s.Status.Ended()
	row := sessionRow{
		Session: s, Badge: sessionBadge(s, childOf(s, chain) != nil), Turns: count(s.NumTurns).yet(ended), Cost: dollars(s.CostUSD).yet(ended),
		Duration: unknown(), Calls: unknown(), Refusals: unknown(),
	}
	if s.Status == ops.SessionQueued {
		row.Duration.Exact = "Not started"
	}
	if d, known := m.duration(s); known {
		row.Duration = duration(d)
	}
	if s.Status == ops.SessionRunning && s.StartedAt != nil {
		row.Duration.Since = s.StartedAt.UTC().Format(time.RFC3339)
	}
	return row
}

// duration is the reported duration, or else the elapsed time.
func (m moment) duration(s ops.Session) (time.Duration, bool) {
	switch {
	case s.DurationMS != nil:
		return time.Duration(*s.DurationMS) * time.Millisecond, true
	case s.StartedAt == nil:
		return 0, false
	case s.EndedAt != nil:
		return s.EndedAt.Sub(*s.StartedAt), true
	case s.Status == ops.SessionRunning:
		return m.now.Sub(*s.StartedAt), true
	}
	return 0, false
}

// totalTurns adds up the known turns.
func totalTurns(sessions []ops.Session) figure {
	var total *int64
	for _, s := range sessions {
		total = plus(total, s.NumTurns)
	}
	return count(total)
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// totalCost adds up the known costs and marks the sum if some are unknown.
func totalCost(sessions []ops.Session) figure {
	sum := store.Cost{Sessions: len(sessions)}
	for _, s := range sessions {
		if s.CostUSD != nil {
			sum.Reported++
		}
		sum.USD = plus(sum.USD, s.CostUSD)
	}
	return atLeast(sum)
}

// childOf returns the session that s escalated to: the last attempt at the work of that tier.
func childOf(s ops.Session, chain []ops.Session) *ops.Session {
	var child *ops.Session
	for i := range chain {
		c := &chain[i]
		if c.ParentID == nil || *c.ParentID != s.ID || c.Tier <= s.Tier || !c.Works() {
			continue
		}
		if child == nil || c.Tier == child.Tier && c.ID > child.ID {
			child = c
		}
	}
	return child
}
