package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// feedLines are read at once.
const feedLines = 100

// feed is one session as one reader sees it.
type feed struct {
	*sessions
	id  ops.SessionID
	at  position
	out *eventStream

	seen  store.PageState
	rows  *entries
	state sessionState
}

// sessionState is the rendered page except its transcript.
type sessionState struct {
	revision, data string
	over           bool
}

// sendNews sends everything after the position of the reader and advances it. It reports whether the session is over.
func (f *feed) sendNews(ctx context.Context) (over bool, err error) {
	// The counters are read first, so that later changes are found the next time.
	counts, err := f.counters.read(ctx, batchWindow)
	if err != nil {
		return false, err
	}
	if f.rows == nil {
		f.rows, err = f.openRows(ctx, f.id, max(0, f.at.seq))
	} else if counts.Guard != f.seen.Guard {
		f.rows.denied, err = f.refusals(ctx, f.id)
	}
	if err == nil {
		err = f.sendLines(ctx)
	}
	if err == nil && (f.state.revision == "" || counts != f.seen) {
		f.state, err = f.sessionState(ctx, f.id, counts)
		f.seen = counts
	}
	if err == nil && f.state.over { // the end is reported only after the last line
		err = f.sendLines(ctx)
	}
	// The counters of the end may be shared with a page that was read a moment before it, and nothing follows that would tell it.
	if err == nil && (f.state.revision != f.at.revision || f.state.over) {
		f.at.revision = f.state.revision
		err = f.out.send(message{id: f.at.String(), data: f.state.data})
	}
	return f.state.over, err
}

// sendLines sends the lines after the position of the reader.
func (f *feed) sendLines(ctx context.Context) error {
	for f.at.seq != noLines {
		lines, err := f.Store.Journal.Transcript(ctx, f.id, f.at.seq, feedLines)
		if err != nil || len(lines) == 0 {
			return err
		}
		data, err := f.render(lines)
		if err != nil {
			return err
		}
		f.at.seq = lines[len(lines)-1].Seq
		if err := f.out.send(message{id: f.at.String(), data: data}); err != nil {
			return err
		}
	}
	return nil
}

// openRows returns entries that continue after a line.
func (s *sessions) openRows(ctx context.Context, id ops.SessionID, after int64) (*entries, error) {
	denied, err := s.refusals(ctx, id)
	if err != nil {
		return nil, err
	}
	rows := s.entries(moment{s.Clock()}, id, denied)
	return rows, s.recallCalls(ctx, rows, id, after)
}

// render makes fragments to swap in from lines: rows to append, and rows that changed.
func (f *feed) render(lines []ops.Line) (string, error) {
	var begun, altered []*entry
	mine := map[*entry]bool{}
	for _, line := range lines {
		fresh, changed := f.rows.add(line)
		for _, e := range fresh {
			mine[e] = true
		}
		begun = append(begun, fresh...)
		for _, e := range changed {
			if !mine[e] {
				altered = append(altered, e)
			}
		}
	}
	var out strings.Builder
	for _, e := range altered {
		row, err := f.piece("session", "row", e)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, `<hx-partial hx-target="#%s" hx-swap="outerHTML">%s</hx-partial>`, e.ID, row)
	}
	if len(begun) > 0 {
		out.WriteString(`<hx-partial hx-target="#lines" hx-swap="beforeend">`)
		for _, e := range begun {
			row, err := f.piece("session", "row", e)
			if err != nil {
				return "", err
			}
			out.WriteString(row)
		}
		out.WriteString(`</hx-partial>`)
	}
	fmt.Fprintf(&out, `<hx-partial hx-target="#line-count" hx-swap="innerHTML">%s</hx-partial>`, thousands(lines[len(lines)-1].Seq))
	return out.String(), nil
}

// activityView is one line of the activity.
type activityView struct {
	Badge   badge
	At      stamp
	Service string
	Text    textView
	Link    *pageLink
}

// longActivity is how much of a text the activity shows at once.
const longActivity = 150

// activity makes the lines of the activity: the rows of events, and the starts of cycles.
type activity struct{ m moment }

type activityLine struct {
	at   time.Time
	id   int64
	view activityView
}

// lines returns the newest lines first.
func (a activity) lines(events []ops.Event, cycles []store.CycleSummary, limit int) []activityView {
	starters := map[ops.CycleID]string{}
	var found []activityLine
	for _, e := range events {
		if e.Verb == ops.VerbCycleStarted && e.CycleID != nil {
			starters[*e.CycleID] = e.Actor.Name
		}
		if view, ok := a.event(e); ok {
			found = append(found, activityLine{e.At, e.ID, view})
		}
	}
	oldest := time.Time{} // before it there may be events that were not read
	if len(events) >= readEvents {
		oldest = events[len(events)-1].At
	}
	for _, c := range cycles {
		if view, ok := a.start(c.Cycle, starters[c.ID]); ok && !c.CreatedAt.Before(oldest) {
			found = append(found, activityLine{at: c.CreatedAt, view: view})
		}
	}
	slices.SortStableFunc(found, func(x, y activityLine) int { return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.id, x.id)) })
	return ops.Map(found[:min(limit, len(found))], func(f activityLine) activityView { return f.view })
}

// start says who started a cycle. For failed probes and alerts, the watch has recorded an event.
func (a activity) start(c ops.Cycle, person string) (activityView, bool) {
	view := activityView{Badge: badge{"unknown", "play", "Started"}, At: a.m.stamp(c.CreatedAt), Link: a.cycleLink(c.ID)}
	who := ""
	switch c.Trigger {
	case ops.TriggerScheduled:
		who, view.Badge.Icon = "The schedule", "clock"
	case ops.TriggerManual, ops.TriggerAPI:
		who, view.Badge.Icon = begins(plain(cmp.Or(person, "Somebody")), person), "user"
	case ops.TriggerAlert, ops.TriggerProbe:
		return view, false
	default:
		return view, false
	}
	view.Text = textView{Short: who + " started"}
	if title := cycleTitle(c); title != c.Trigger.Title() {
		view.Text = clamp(who+" started a cycle: "+title, longActivity)
	}
	return view, true
}

func (a activity) cycleLink(id ops.CycleID) *pageLink {
	return &pageLink{cyclePath(id), fmt.Sprintf("C-%d", id)}
}

// event is the row of an event; false for one that another row tells, or that is shown with its session and under Guard.
func (a activity) event(e ops.Event) (activityView, bool) {
	view := activityView{Badge: stateOf("", e.Level), At: a.m.stamp(e.At), Service: plain(e.Service)}
	elsewhere := []ops.Verb{
		ops.VerbWallRefused, ops.VerbAccessRefused, ops.VerbCycleStarted, ops.VerbReplyTaken, ops.VerbRequestDone,
	}
	if slices.Contains(elsewhere, e.Verb) {
		return view, false
	}
	switch {
	case e.SessionID != nil:
		view.Link = &pageLink{fmt.Sprintf("/sessions/%d", *e.SessionID), fmt.Sprintf("#%d", *e.SessionID)}
	case e.CycleID != nil:
		view.Link = a.cycleLink(*e.CycleID)
	}
	message := spoken(e.Message.Words())
	if e.Actor.Kind == ops.ActorPerson {
		view.Badge.Icon, view.Service = "user", "" // the sentence names both
	}
	if text, ok := strings.CutPrefix(message, view.Service+" "); ok && view.Service != "" {
		message = text // the name is shown before the message
	} else if strings.Contains(message, view.Service) {
		view.Service = "" // the sentence names it
	}
	if view.Service == "" {
		message = begins(message, e.Actor.Name)
	}
	view.Text = clamp(message, longActivity)
	return view, true
}

// begins begins a sentence, which a person's own name does as it is written.
func begins(text, person string) string {
	if person != "" && person != nameOperator {
		return text
	}
	return ops.Capital(text)
}
