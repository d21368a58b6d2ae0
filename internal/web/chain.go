package web

import (
	"strconv"
	"time"

	"claudeops/internal/ops"
)

// chainView is the sessions of one cycle with their totals.
type chainView struct {
	Rows      []sessionRow
	Duration  string
	Since     string // start time that gives the total duration while one session runs; else empty
	Turns     figure
	Cost      figure
	Lines     []chainLine // the sessions and the waits for a person, in order
	Waterfall picture
}

// chainLine is one line of the waterfall and of its table: a session, or a wait for a person.
type chainLine struct {
	Session *sessionRow
	Wait    *waitRow
}

// sessionRow is one session in a list or in its cycle.
type sessionRow struct {
	ID        ops.SessionID
	Tier      ops.Tier
	TierTitle string
	Role      string // empty for the ordinary work of its tier
	Model     string
	Attempt   int
	Level     string // the recovery level that started it
	Badge     badge
	Duration  figure
	Turns     figure
	Cost      figure
	Started   *stamp
	Since     string // when it started, while it runs
	Parent    *ops.SessionID
	RetryOf   *ops.SessionID
	Current   bool   // the session of this page
	Calls     figure // of tools, as far as the guard saw them
	Refusals  figure // by the guard
}

func (m moment) chain(sessions []ops.Session, current ops.SessionID) chainView {
	view := chainView{Rows: make([]sessionRow, 0, len(sessions))}
	var duration time.Duration
	var turns int64
	var turnsKnown bool
	running := 0
	for _, s := range sessions {
		if s.Status == ops.SessionRunning {
			running++
		}
		row := m.sessionRow(s, sessions)
		row.Current = s.ID == current
		view.Rows = append(view.Rows, row)
		if d, known := m.duration(s); known {
			duration += d
		}
		if s.NumTurns != nil {
			turns += *s.NumTurns
			turnsKnown = true
		}
	}
	view.Duration = span(duration)
	if running == 1 {
		view.Since = m.now.Add(-duration).UTC().Format(time.RFC3339)
	}
	view.Turns = unknown()
	if turnsKnown {
		view.Turns = count(&turns)
	}
	view.Cost = totalCost(sessions)
	return view
}

func (m moment) sessionRow(s ops.Session, chain []ops.Session) sessionRow {
	child := childOf(s, chain)
	row := sessionRow{
		ID: s.ID, Tier: s.Tier, TierTitle: s.Tier.Title(), Role: roleText(s.Role), Model: plain(s.Model), Attempt: s.Attempt,
		Level: string(s.RecoveryLevel.Action()), Badge: sessionBadge(s, child != nil), Turns: sessionFigure(s, count(s.NumTurns)),
		Cost:    sessionFigure(s, dollars(s.CostUSD)),
		Started: m.maybe(s.StartedAt), Parent: s.ParentID, RetryOf: s.RetryOf,
		Duration: unknown(), Calls: unknown(), Refusals: unknown(),
	}
	if s.Status == ops.SessionQueued {
		row.Duration.Exact = "Not started"
	}
	if d, known := m.duration(s); known {
		row.Duration = figure{Known: true, Text: span(d), Exact: d.String()}
	}
	if s.Status == ops.SessionRunning && s.StartedAt != nil {
		row.Since = s.StartedAt.UTC().Format(time.RFC3339)
	}
	return row
}

// sessionFigure marks a missing figure of a running session as not yet known.
func sessionFigure(s ops.Session, f figure) figure {
	if !f.Known && !s.Status.Ended() {
		return notYet()
	}
	return f
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

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// totalCost adds up the known costs and marks the sum if some are unknown.
func totalCost(sessions []ops.Session) figure {
	var total *float64
	unknown := 0
	for _, s := range sessions {
		if s.CostUSD == nil {
			unknown++
			continue
		}
		if total == nil {
			total = new(float64)
		}
		*total += *s.CostUSD
	}
	sum := dollars(total)
	if sum.Known && unknown > 0 {
		sum.Text = "≥ " + sum.Text
		sum.Exact += ", without " + plural(unknown, "session", "sessions") + " of unknown cost"
	}
	return sum
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
