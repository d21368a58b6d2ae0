package web

import (
	"fmt"
	"strconv"
	"time"

	"claudeops/internal/ops"
)

// chainView is every session of one cycle side by side, with what they add up to.
type chainView struct {
	Rows     []sessionRow
	Duration string
	Turns    figure
	Cost     figure
}

// sessionRow is one session in a list or in its chain.
type sessionRow struct {
	ID        ops.SessionID
	Tier      ops.Tier
	TierTitle string
	Model     string
	Attempt   int
	Badge     badge
	Duration  figure
	Turns     figure
	Cost      figure
	Started   *stamp
	Parent    *ops.SessionID
	RetryOf   *ops.SessionID
	Current   bool // the session whose page this is
	Bar       bar
}

// bar is when a session ran within its chain, in percent of the chain's time.
type bar struct {
	X, Width string
	Y        int // a higher tier has a higher bar, so that the picture survives without colours
	Height   int
	Tone     string
	Hatched  bool
	Title    string
}

func (m moment) chain(sessions []ops.Session, current ops.SessionID) chainView {
	view := chainView{Rows: make([]sessionRow, 0, len(sessions))}
	begin, end := m.extent(sessions)
	var duration time.Duration
	var turns int64
	var turnsKnown bool
	for _, s := range sessions {
		row := m.sessionRow(s, sessions)
		row.Current = s.ID == current
		row.Bar = m.bar(s, row, begin, end)
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
	view.Turns = figure{Text: "Not available"}
	if turnsKnown {
		view.Turns = count(&turns)
	}
	view.Cost = totalCost(sessions)
	return view
}

func (m moment) sessionRow(s ops.Session, chain []ops.Session) sessionRow {
	child := childOf(s, chain)
	row := sessionRow{
		ID: s.ID, Tier: s.Tier, TierTitle: s.Tier.Title(), Model: plain(s.Model), Attempt: s.Attempt,
		Badge: sessionBadge(s, child != nil), Turns: sessionFigure(s, count(s.NumTurns)),
		Cost:    sessionFigure(s, dollars(s.CostUSD)),
		Started: m.maybe(s.StartedAt), Parent: s.ParentID, RetryOf: s.RetryOf,
		Duration: figure{Text: "Not available"},
	}
	if d, known := m.duration(s); known {
		row.Duration = figure{Known: true, Text: span(d), Exact: d.String()}
	}
	return row
}

// sessionFigure tells a figure that is still to come from one that never will.
func sessionFigure(s ops.Session, f figure) figure {
	if !f.Known && !s.Status.Ended() {
		return figure{Text: "Not yet"}
	}
	return f
}

// duration is what the agent reported, else what the clock on the wall says.
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

// extent is from the first start to the last end.
func (m moment) extent(sessions []ops.Session) (begin, end time.Time) {
	for _, s := range sessions {
		if s.StartedAt == nil {
			continue
		}
		if begin.IsZero() || s.StartedAt.Before(begin) {
			begin = *s.StartedAt
		}
		last := m.now
		if s.EndedAt != nil {
			last = *s.EndedAt
		}
		if last.After(end) {
			end = last
		}
	}
	return begin, end
}

func (m moment) bar(s ops.Session, row sessionRow, begin, end time.Time) bar {
	title := fmt.Sprintf("%s: %s, %s", s.Tier, row.Badge.Word, row.Duration.Text)
	if s.StartedAt == nil || !end.After(begin) {
		return bar{X: "0", Width: "0", Title: title}
	}
	last := m.now
	if s.EndedAt != nil {
		last = *s.EndedAt
	}
	whole := float64(end.Sub(begin))
	width := max(1.2, 100*float64(last.Sub(*s.StartedAt))/whole)
	x := min(100*float64(s.StartedAt.Sub(begin))/whole, 100-width)
	height := 4 + 4*int(s.Tier)
	return bar{
		X: percent(x), Width: percent(width), Y: (16 - height) / 2, Height: height,
		Tone: row.Badge.Tone, Hatched: row.Badge.Tone == "run" || row.Badge.Tone == "bad", Title: title,
	}
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// totalCost adds up what is known, and says so where that is not everything.
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

// childOf is the session that the supervisor started because of what s handed up: the last attempt at its tier.
func childOf(s ops.Session, chain []ops.Session) *ops.Session {
	var child *ops.Session
	for i := range chain {
		c := &chain[i]
		if c.ParentID == nil || *c.ParentID != s.ID || c.Tier <= s.Tier {
			continue
		}
		if child == nil || c.Tier == child.Tier && c.ID > child.ID {
			child = c
		}
	}
	return child
}
