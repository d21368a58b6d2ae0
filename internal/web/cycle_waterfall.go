package web

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	barRow   = 34 // height of a row of the waterfall
	barTop   = 18 // top of its bar, below the label
	barHigh  = 10
	axisHigh = 20 // height of the time axis above the rows
	// markSlots is how many marks fit beside each other on the whole width. Marks in the same slot are drawn as one.
	markSlots = 160
)

// waitRow is a time in which the cycle waited for a person.
type waitRow struct {
	api.Approval
	Title    string
	Duration figure

	from, until time.Time // until is zero while it waits
}

// waits returns the waits of a cycle for answers.
func (m moment) waits(approvals []ops.Approval) []waitRow {
	var out []waitRow
	for _, a := range approvals {
		w := waitRow{Approval: api.ApprovalRow(a), Title: "Waiting for approval", from: a.RequestedAt}
		if a.Kind == ops.ApprovalReview {
			w.Title = "Waiting for review"
		}
		if a.Kind == ops.ApprovalReflex {
			w.Title = "Waiting for a yes to " + a.Handler
		}
		waits := a.AnsweredAt == nil && a.Status == ops.ApprovalPending
		switch {
		case a.AnsweredAt != nil:
			w.until = *a.AnsweredAt
		case waits:
		case a.ExpiresAt != nil && a.Status == ops.ApprovalExpired:
			w.until = *a.ExpiresAt
		default:
			w.until = a.RequestedAt // withdrawn, and nobody recorded when
		}
		w.Duration = m.lasting(&w.from, ops.Ptr(m.orNow(w.until)), waits)
		out = append(out, w)
	}
	return out
}

// addCalls adds what the guard saw of each session.
func (v *chainView) addCalls(calls store.CycleCalls) {
	for i := range v.Rows {
		row := &v.Rows[i]
		if n, seen := calls.Counts[row.ID]; seen {
			row.Calls, row.Refusals = count(&n.Calls), count(&n.Refusals)
		}
	}
}

// addWaterfall draws when each session of the cycle ran, what the guard saw, and how long the cycle waited for people.
func (m moment) addWaterfall(v *chainView, sessions []ops.Session, waits []waitRow, calls store.CycleCalls) {
	v.addCalls(calls)
	w := waterfall{moment: m, calls: map[ops.SessionID][]ops.GuardRecord{}}
	for _, g := range calls.Records {
		w.calls[g.SessionID] = append(w.calls[g.SessionID], g)
	}
	w.begin, w.end = m.extent(sessions, waits)
	type line struct {
		at   time.Time
		draw func(top int)
		row  chainLine
	}
	var lines []line
	for i, s := range sessions {
		row := &v.Rows[i]
		at := s.CreatedAt
		if s.StartedAt != nil {
			at = *s.StartedAt
		}
		lines = append(lines, line{at, func(top int) { w.session(s, *row, top) }, chainLine{Session: row}})
	}
	for i := range waits {
		wait := &waits[i]
		lines = append(lines, line{wait.from, func(top int) { w.wait(*wait, top) }, chainLine{Wait: wait}})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	high := axisHigh + max(barRow, len(lines)*barRow-2)
	w.axis(high)
	for i, l := range lines {
		l.draw(axisHigh + i*barRow)
		v.Lines = append(v.Lines, l.row)
	}
	v.Waterfall = picture{ID: "waterfall", Title: "When each session of the cycle ran"}
	v.Waterfall.SVG = hatched(w.svg(high, v.Waterfall.Title))
}

// extent returns the first start and the last end.
func (m moment) extent(sessions []ops.Session, waits []waitRow) (begin, end time.Time) {
	add := func(from, until time.Time) {
		if begin.IsZero() || from.Before(begin) {
			begin = from
		}
		if until.After(end) {
			end = until
		}
	}
	for _, s := range sessions {
		if s.StartedAt != nil {
			add(*s.StartedAt, m.lastOf(s))
		}
	}
	for _, w := range waits {
		add(w.from, m.orNow(w.until))
	}
	return begin, end
}

func (m moment) orNow(t time.Time) time.Time {
	if t.IsZero() {
		return m.now
	}
	return t
}

func (m moment) lastOf(s ops.Session) time.Time {
	if s.EndedAt != nil {
		return *s.EndedAt
	}
	return m.now
}

// waterfall is the drawing. The script moves what has data-from or data-place while the cycle runs.
type waterfall struct {
	drawing
	moment
	begin, end time.Time
	calls      map[ops.SessionID][]ops.GuardRecord
}

// place returns where a time is, in percent of the width.
func (w *waterfall) place(t time.Time) float64 {
	whole := w.end.Sub(w.begin)
	if whole <= 0 {
		return 0
	}
	return max(0, min(100, 100*float64(t.Sub(w.begin))/float64(whole)))
}

// axis draws the ticks of the time axis with their labels.
func (w *waterfall) axis(high int) {
	whole := w.end.Sub(w.begin)
	if whole <= 0 {
		return
	}
	step := tickStep(whole)
	for d := time.Duration(0); d <= whole; d += step {
		at := w.begin.Add(d)
		x := w.place(at)
		moves := fmt.Sprintf(` data-place="%d"`, at.UnixMilli())
		w.bar(pc(x), strconv.Itoa(axisHigh-5), "1", strconv.Itoa(high-axisHigh+5), "tick", "", moves)
		anchor := "middle"
		switch {
		case d == 0:
			anchor = "start"
		case x > 94:
			anchor = "end"
		}
		fmt.Fprintf(&w.body, `<text x="%s" y="10" text-anchor="%s" class="axis-label"%s>%s</text>`, pc(x), anchor, moves, esc(tickText(d)))
	}
}

// tickStep returns a round distance between the ticks of an axis, so that there are at most six.
func tickStep(whole time.Duration) time.Duration {
	for _, step := range []time.Duration{
		100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
		2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if whole <= 5*step {
			return step
		}
	}
	const day = 24 * time.Hour
	return day * (1 + whole/(5*day))
}

// tickText is the time since the start, short.
func tickText(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d%time.Second != 0:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour && d%time.Minute == 0:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d%time.Hour == 0 && d < 24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return span(d)
}

// track draws the label of a row and the line below its bar.
func (w *waterfall) track(top int, class, label string) {
	w.drawing.text("0", strconv.Itoa(top+11), "start", class, label)
	w.rect("0", strconv.Itoa(top+barTop+barHigh/2), "100%", "1", "fill-line", "")
}

// lasting draws a bar from a time until another; it grows while until is zero.
func (w *waterfall) lasting(from, until time.Time, top, high int, tone, title string, hatch bool) {
	x := w.place(from)
	width := max(0.8, w.place(w.orNow(until))-x)
	x = max(0, min(x, 100-width))
	y := strconv.Itoa(top + barTop + (barHigh-high)/2)
	last := int64(0)
	if !until.IsZero() {
		last = until.UnixMilli()
	}
	moves := fmt.Sprintf(` data-from="%d" data-until="%d"`, from.UnixMilli(), last)
	w.bar(pc(x), y, pc(width), strconv.Itoa(high), "bar fill-"+tone, title, moves)
	if hatch {
		w.bar(pc(x), y, pc(width), strconv.Itoa(high), "hatched", "", moves)
	}
}

func (w *waterfall) session(s ops.Session, row sessionRow, top int) {
	label := fmt.Sprintf("T%d  #%d", int(s.Tier), s.ID)
	for _, more := range []string{roleText(s.Role), string(s.RecoveryLevel.Action()), plain(s.Model)} {
		if more != "" {
			label += "  " + more
		}
	}
	class := "label"
	if row.Current {
		class = "label current"
	}
	w.track(top, class, label)
	if s.StartedAt == nil || !w.end.After(w.begin) {
		return
	}
	until := time.Time{}
	if s.EndedAt != nil {
		until = *s.EndedAt
	}
	// A higher tier has a higher bar, so that the chart is readable without colours.
	high := barHigh + 2*(int(min(s.Tier, ops.LastTier))-2)
	title := fmt.Sprintf("%s, session #%d: %s, %s", s.Tier, s.ID, row.Badge.Word, row.Duration.Text)
	w.lasting(*s.StartedAt, until, top, high, row.Badge.Tone, title, row.Badge.Tone == "run" || row.Badge.Tone == "bad")
	w.marks(w.calls[s.ID], top)
}

func (w *waterfall) wait(wait waitRow, top int) {
	w.track(top, "label", wait.Title)
	title := fmt.Sprintf("%s: %s, %s", wait.Title, stateOf(kindApproval, wait.Status).Word, wait.Duration.Text)
	w.lasting(wait.from, wait.until, top, barHigh-2, "hand", title, wait.until.IsZero())
}

// marks draws the tool calls of a session on its bar, and the refusals of the guard above it.
func (w *waterfall) marks(calls []ops.GuardRecord, top int) {
	for _, refused := range []bool{false, true} {
		slots := map[int][]ops.GuardRecord{}
		for _, g := range calls {
			if g.Allowed != refused {
				slot := int(w.place(g.At) / 100 * markSlots)
				slots[slot] = append(slots[slot], g)
			}
		}
		order := make([]int, 0, len(slots))
		for slot := range slots {
			order = append(order, slot)
		}
		slices.Sort(order)
		for _, slot := range order {
			w.mark(slots[slot], refused, top)
		}
	}
}

func (w *waterfall) mark(calls []ops.GuardRecord, refused bool, top int) {
	first := calls[0]
	title := fmt.Sprintf("%s: %s", plain(first.Tool), firstLine(commandOf(first.Input), 80))
	if len(calls) > 1 {
		title = plural(len(calls), "tool call", "tool calls") + ", first " + title
	}
	class, width, y, high := "mark-call", "2", top+barTop+2, barHigh-4
	if refused {
		class, width, y, high = "mark-refused", "3", top+barTop-4, barHigh+8
		title = "Refused: " + title
		if len(calls) == 1 {
			title += ". " + firstLine(first.Reason, 100)
		}
	}
	title += ", " + w.precise(first.At).Text
	w.bar(pc(w.place(first.At)), strconv.Itoa(y), width, strconv.Itoa(high), class, title,
		fmt.Sprintf(` data-place="%d"`, first.At.UnixMilli()))
}

// hatched adds the pattern for bars that failed, run or wait.
func hatched(svg template.HTML) template.HTML {
	const pattern = `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect class="hatch-line" width="2.5" height="6"/></pattern></defs></svg>`
	text := strings.TrimSuffix(string(svg), "</svg>") + pattern
	//nolint:gosec // the drawing was escaped when it was written
	return template.HTML(strings.ReplaceAll(text, `class="hatched"`, `class="hatched" fill="url(#hatch)"`))
}
