package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
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
	Waterfall picture
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
	Current   bool // the session of this page
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
		Duration: unknown(),
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

// extent returns the first start and the last end.
func (m moment) extent(sessions []ops.Session) (begin, end time.Time) {
	for _, s := range sessions {
		if s.StartedAt == nil {
			continue
		}
		if begin.IsZero() || s.StartedAt.Before(begin) {
			begin = *s.StartedAt
		}
		if last := m.lastOf(s); last.After(end) {
			end = last
		}
	}
	return begin, end
}

func (m moment) lastOf(s ops.Session) time.Time {
	if s.EndedAt != nil {
		return *s.EndedAt
	}
	return m.now
}

const (
	barRow  = 34 // height of a row of the waterfall
	barTop  = 18 // top of its bar, below the label
	barHigh = 10
)

// waterfall draws when each session of a cycle ran.
func (m moment) waterfall(sessions []ops.Session, rows []sessionRow) picture {
	begin, end := m.extent(sessions)
	p := picture{
		ID: "waterfall", Title: "When each session of the cycle ran",
		Head: []string{"Session", "Tier", "Outcome", "Started", "After the start of the cycle", "Duration", "Turns", "Est. cost"},
	}
	var d drawing
	for i, s := range sessions {
		row := rows[i]
		top := i * barRow
		label := fmt.Sprintf("T%d  #%d", int(s.Tier), s.ID)
		for _, more := range []string{row.Role, row.Level, row.Model} {
			if more != "" {
				label += "  " + more
			}
		}
		after, started := "–", "Not started"
		class := "label"
		if row.Current {
			class = "label current"
		}
		d.text("0", strconv.Itoa(top+11), "start", class, label)
		d.rect("0", strconv.Itoa(top+barTop+barHigh/2), "100%", "1", "fill-line", "")
		if s.StartedAt != nil && end.After(begin) {
			m.drawBar(&d, s, row, begin, end, top)
			after, started = span(s.StartedAt.Sub(begin)), row.Started.Exact
		}
		p.Rows = append(p.Rows, []string{
			fmt.Sprintf("#%d", s.ID), s.Tier.String(), row.Badge.Word, started, after, row.Duration.Text, row.Turns.Text, row.Cost.Text,
		})
	}
	p.SVG = hatched(d.svg(max(barRow, len(sessions)*barRow-2), p.Title))
	return p
}

func (m moment) drawBar(d *drawing, s ops.Session, row sessionRow, begin, end time.Time, top int) {
	whole := float64(end.Sub(begin))
	width := max(0.8, 100*float64(m.lastOf(s).Sub(*s.StartedAt))/whole)
	x := max(0, min(100*float64(s.StartedAt.Sub(begin))/whole, 100-width))
	title := fmt.Sprintf("%s, session #%d: %s, %s", s.Tier, s.ID, row.Badge.Word, row.Duration.Text)
	// A higher tier has a higher bar, so that the chart is readable without colours.
	high := barHigh + 2*(int(min(s.Tier, ops.LastTier))-2)
	y := strconv.Itoa(top + barTop + (barHigh-high)/2)
	// The script updates the bars of a running cycle.
	until := int64(0)
	if s.EndedAt != nil {
		until = s.EndedAt.UnixMilli()
	}
	lasting := fmt.Sprintf(` data-from="%d" data-until="%d"`, s.StartedAt.UnixMilli(), until)
	d.bar(pc(x), y, pc(width), strconv.Itoa(high), "bar fill-"+row.Badge.Tone, title, lasting)
	if row.Badge.Tone == "run" || row.Badge.Tone == "bad" {
		d.bar(pc(x), y, pc(width), strconv.Itoa(high), "hatched", "", lasting)
	}
}

// hatched adds the pattern for failed and running bars.
func hatched(svg template.HTML) template.HTML {
	const pattern = `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect class="hatch-line" width="2.5" height="6"/></pattern></defs></svg>`
	text := strings.TrimSuffix(string(svg), "</svg>") + pattern
	//nolint:gosec // the drawing was escaped when it was written
	return template.HTML(strings.ReplaceAll(text, `class="hatched"`, `class="hatched" fill="url(#hatch)"`))
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
