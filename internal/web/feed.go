package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// feedEvery is how often the rows of a watched session are polled.
	feedEvery = 300 * time.Millisecond
	// feedLines are read at once; feedKept pieces are cached for readers that are a little behind.
	feedLines = 100
	feedKept  = 64
)

// feeds are the watched sessions. The rows of a session are read and rendered once for all its readers.
type feeds struct {
	mu   sync.Mutex
	open map[ops.SessionID]*feed
}

// feed is one session as its readers see it.
type feed struct {
	id      ops.SessionID
	readers int // guarded by feeds.mu

	mu     sync.Mutex
	readAt time.Time
	seen   store.PageState
	begun  bool
	rows   *entries
	last   int64 // the last line that was read
	pieces []piece
	now    sessionState

	behind sync.Mutex      // held while a piece for slow readers is rendered
	old    map[int64]piece // pieces for slow readers, by the line before their first
}

// piece is rendered lines: rows to append, and rows that changed.
type piece struct {
	first int64 // the line before its first line
	last  int64
	data  dataBlock
}

// sessionState is the rendered page except its transcript.
type sessionState struct {
	revision string
	data     dataBlock
	over     bool
}

func newFeeds() *feeds { return &feeds{open: map[ops.SessionID]*feed{}} }

func (f *feeds) join(id ops.SessionID) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.open[id]
	if one == nil {
		one = &feed{id: id, old: map[int64]piece{}}
		f.open[id] = one
	}
	one.readers++
	return one
}

func (f *feeds) leave(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.readers--; one.readers == 0 {
		delete(f.open, one.id)
	}
}

// advance reads new rows, unless another reader just did.
func (f *feed) advance(ctx context.Context, s *server) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun && time.Since(f.readAt) < batchWindow {
		return nil
	}
	// The counters are read first, so that later changes are found the next time.
	counts, err := s.counters.read(ctx, batchWindow)
	if err != nil {
		return err
	}
	if !f.begun {
		if err := f.begin(ctx, s); err != nil {
			return err
		}
	}
	if counts.Guard != f.seen.Guard {
		if f.rows.denied, err = s.refusals(ctx, f.id); err != nil {
			return err
		}
	}
	if err := f.read(ctx, s); err != nil {
		return err
	}
	if f.now.revision == "" || counts != f.seen {
		if f.now, err = s.sessionState(ctx, f.id, counts); err != nil {
			return err
		}
		f.seen = counts
	}
	// The end is reported only after the last line.
	if f.now.over {
		if err := f.read(ctx, s); err != nil {
			return err
		}
	}
	f.readAt = time.Now()
	return nil
}

// begin starts at the newest line; readers that need older lines read them separately.
func (f *feed) begin(ctx context.Context, s *server) error {
	total, err := s.Store.Journal.TranscriptCount(ctx, f.id)
	if err != nil {
		return fmt.Errorf("count transcript: %w", err)
	}
	if f.rows, err = s.openRows(ctx, f.id, total); err != nil {
		return err
	}
	f.last, f.begun = total, true
	return nil
}

// openRows returns entries that continue after a line.
func (s *server) openRows(ctx context.Context, id ops.SessionID, after int64) (*entries, error) {
	denied, err := s.refusals(ctx, id)
	if err != nil {
		return nil, err
	}
	rows := s.entries(moment{s.Clock()}, id, denied)
	return rows, s.recallCalls(ctx, rows, id, after)
}

func (f *feed) read(ctx context.Context, s *server) error {
	for {
		news, err := s.readPiece(ctx, f.rows, f.id, f.last, feedLines)
		if err != nil || news.last == f.last {
			return err
		}
		f.last = news.last
		f.pieces = append(f.pieces, news)
		if len(f.pieces) > feedKept {
			f.pieces = append([]piece(nil), f.pieces[len(f.pieces)-feedKept:]...)
		}
	}
}

// readPiece renders the lines after a given one as fragments to swap in.
func (s *server) readPiece(ctx context.Context, rows *entries, id ops.SessionID, after int64, limit int) (piece, error) {
	news := piece{first: after, last: after}
	lines, err := s.Store.Journal.Transcript(ctx, id, after, limit)
	if err != nil || len(lines) == 0 {
		return news, err
	}
	var begun []*entry
	mine := map[*entry]bool{}
	var altered []*entry
	for _, line := range lines {
		fresh, changed := rows.add(line)
		for _, e := range fresh {
			mine[e] = true
		}
		begun = append(begun, fresh...)
		for _, e := range changed {
			if !mine[e] {
				altered = append(altered, e)
			}
		}
		news.last = line.Seq
	}
	var out strings.Builder
	for _, e := range altered {
		row, err := s.piece("session", "row", e)
		if err != nil {
			return news, err
		}
		fmt.Fprintf(&out, `<hx-partial hx-target="#%s" hx-swap="outerHTML">%s</hx-partial>`, e.ID, row)
	}
	if len(begun) > 0 {
		out.WriteString(`<hx-partial hx-target="#lines" hx-swap="beforeend">`)
		for _, e := range begun {
			row, err := s.piece("session", "row", e)
			if err != nil {
				return news, err
			}
			out.WriteString(row)
		}
		out.WriteString(`</hx-partial>`)
	}
	fmt.Fprintf(&out, `<hx-partial hx-target="#line-count" hx-swap="innerHTML">%s</hx-partial>`, thousands(news.last))
	news.data = newDataBlock(out.String())
	return news, nil
}

// since returns the first piece after a line. Readers that are further behind than the cache share what one of them reads.
func (f *feed) since(ctx context.Context, s *server, after int64) (piece, error) {
	f.mu.Lock()
	last := f.last
	for _, p := range f.pieces {
		if p.first == after {
			f.mu.Unlock()
			return p, nil
		}
	}
	f.mu.Unlock()
	if after >= last {
		return piece{first: after, last: after}, nil
	}
	f.behind.Lock()
	defer f.behind.Unlock()
	if p, found := f.old[after]; found {
		return p, nil
	}
	rows, err := s.openRows(ctx, f.id, after)
	if err != nil {
		return piece{}, err
	}
	// Pieces end at multiples of feedLines, so that readers with different starts soon share them.
	news, err := s.readPiece(ctx, rows, f.id, after, int(min(feedLines-after%feedLines, last-after)))
	if err == nil && news.last%feedLines == 0 {
		if len(f.old) >= feedKept {
			clear(f.old)
		}
		f.old[after] = news
	}
	return news, err
}

func (f *feed) state() sessionState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
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
	var out []activityView
	for _, f := range found[:min(limit, len(found))] {
		out = append(out, f.view)
	}
	return out
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
