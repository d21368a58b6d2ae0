package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stream reports to a page that the journal changed. The event id is the revision the reader has seen.
func (s *sessions) stream(w http.ResponseWriter, r *http.Request) {
	seen := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("seen"))
	out := s.openStream(w, r, pollEvery)
	defer out.leave()
	for {
		counts, err := s.counters.read(r.Context(), batchWindow)
		if err != nil {
			return // the reader reconnects, and the next page request logs the error
		}
		if now := s.counters.revision(counts); now != seen {
			rail, err := s.railCount(counts)
			if err != nil || out.send(message{name: "changed"}, message{id: now, data: rail}) != nil {
				return
			}
			seen = now
		}
		if out.wait() != nil {
			return
		}
	}
}

// railCount renders the number in the navigation as a fragment to swap in.
func (s *sessions) railCount(counts store.PageState) (string, error) {
	count, err := s.piece("session", "rail-count", counts.Approvals+counts.Incidents)
	return `<hx-partial hx-target="#rail-count" hx-swap="outerHTML">` + count + `</hx-partial>`, err
}

// position is what a reader of a session has received: the last line, and the revision of the state.
type position struct {
	seq      int64
	revision string
}

func (p position) String() string { return strconv.FormatInt(p.seq, 10) + "." + p.revision }

// readPosition returns the position in the URL, or the id of the last event the browser got.
func readPosition(r *http.Request) position {
	if seq, state, found := strings.Cut(r.Header.Get("Last-Event-ID"), "."); found {
		if n, err := strconv.ParseInt(seq, 10, 64); err == nil {
			return position{n, state}
		}
	}
	// Without a number no lines are sent: the page shows another part of the transcript.
	n, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || n < 0 {
		n = noLines
	}
	return position{n, r.URL.Query().Get("seen")}
}

// noLines is the position of a reader that follows only the state.
const noLines = -1

// sessionStream sends the transcript and the state of a session until its cycle has ended.
func (s *sessions) sessionStream(w http.ResponseWriter, r *http.Request) {
	id := ops.SessionID(rowID(r))
	if _, err := s.Store.Journal.Session(r.Context(), id); err != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	f := &feed{sessions: s, id: id, at: readPosition(r), out: s.openStream(w, r, feedEvery)}
	defer f.out.leave()
	for {
		over, err := f.sendNews(r.Context())
		if err != nil {
			return
		}
		if over {
			_ = f.out.send(message{id: f.at.String(), name: "ended"}) // the stream ends in any case
			return
		}
		if f.out.wait() != nil {
			return
		}
	}
}

const (
	// pollEvery and feedEvery are how often rows are polled, because other hosts write them too, and lines come without a signal.
	pollEvery = time.Second
	feedEvery = 300 * time.Millisecond
	// batchWindow is how long to wait after a change for more changes. Counters read after it include the change, so readers can share them.
	batchWindow = 50 * time.Millisecond
	// keepAliveEvery keeps an idle stream open through proxies, and detects closed connections.
	keepAliveEvery = 15 * time.Second
	// writeTimeout is the write timeout. A slower reader is disconnected; it reconnects with the id of the last event it got.
	writeTimeout = 10 * time.Second
	// retryDelay is the reconnect delay of a reader, in milliseconds.
	retryDelay = "1000"
)

// errClosed means that a stream has ended.
var errClosed = errors.New("stream closed")

// eventStream writes server-sent events to one reader.
type eventStream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	ctx       context.Context //nolint:containedctx // the stream lives as long as its request
	site      *site
	changed   <-chan struct{} // a signal that something has changed
	leave     func()          // must be called at the end
	every     time.Duration
	lastWrite time.Time
	lasts     func(context.Context) bool // whether the reader still has access; nil: it never ends
	checked   time.Time                  // when that was last checked
}

// openStream starts a stream.
func (s *sessions) openStream(w http.ResponseWriter, r *http.Request, every time.Duration) *eventStream {
	e := &eventStream{
		w: w, rc: http.NewResponseController(w), ctx: r.Context(), site: s.site, every: every, lasts: admission(r.Context()), checked: s.Clock(),
	}
	e.changed, e.leave = s.Hub.Subscribe(ops.ReachPages)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	// The read timeout of the server would end the stream.
	_ = e.rc.SetReadDeadline(time.Time{})                // not every connection supports it
	_ = e.write([]byte("retry: " + retryDelay + "\n\n")) // if it is gone, the next one fails too
	return e
}

// message is one event. Data without a name is swapped into the page; a named event is dispatched to the page.
type message struct {
	id, name, data string
}

// send writes events together, so that a reader gets all of them or none.
func (e *eventStream) send(messages ...message) error {
	var out bytes.Buffer
	for _, m := range messages {
		if m.name != "" {
			out.WriteString("event: " + m.name + "\n")
		}
		if m.id != "" {
			out.WriteString("id: " + m.id + "\n")
		}
		// A carriage return also ends a line in this format.
		for line := range strings.SplitSeq(strings.ReplaceAll(m.data, "\r", ""), "\n") {
			out.WriteString("data: " + line + "\n")
		}
		out.WriteByte('\n')
	}
	return e.write(out.Bytes())
}

func (e *eventStream) write(text []byte) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every connection supports it
	if _, err := e.w.Write(text); err != nil {
		return errClosed
	}
	if err := e.rc.Flush(); err != nil {
		return errClosed
	}
	e.lastWrite = time.Now()
	return nil
}

// wait returns when there may be something new, or an error when the stream is closed.
func (e *eventStream) wait() error {
	if e.lasts != nil && e.site.Clock().Sub(e.checked) >= recheckEvery {
		if !e.lasts(e.ctx) {
			return errClosed // the reader connects again and is refused
		}
		e.checked = e.site.Clock()
	}
	if time.Since(e.lastWrite) > keepAliveEvery {
		if err := e.write([]byte(": keep-alive\n\n")); err != nil {
			return err
		}
	}
	changed, err := e.pause(e.every, e.changed)
	if changed {
		_, err = e.pause(batchWindow, nil)
	}
	return err
}

// pause waits for a time or a signal, or returns an error when the stream is closed.
func (e *eventStream) pause(d time.Duration, signal <-chan struct{}) (signalled bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return false, errClosed
	case <-e.site.Done:
		return false, errClosed
	case <-timer.C:
		return false, nil
	case <-signal:
		return true, nil
	}
}

// Hub tells subscribers that rows changed. It carries no data: a reader continues from the last row it read, even if it missed a signal.
type Hub struct {
	streams streams // that are open, with those that began before the configuration was read again

	mu   sync.Mutex
	subs map[chan struct{}]ops.Reach // from which on each is woken
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub {
	return &Hub{streams: streams{open: map[string]int{}}, subs: map[chan struct{}]ops.Reach{}}
}

// Nudge wakes every subscriber; it never waits for one.
func (h *Hub) Nudge() { h.Tell(ops.ReachAll) }

// Tell wakes the subscribers that something reaches.
func (h *Hub) Tell(reach ops.Reach) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, from := range h.subs {
		if reach < from {
			continue
		}
		select {
		case c <- struct{}{}:
		default: // a signal is already waiting and covers this change
		}
	}
}

// Subscribe returns a channel of signals that reach so far or farther, and the function that ends the subscription.
func (h *Hub) Subscribe(from ops.Reach) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	h.subs[c] = from
	h.mu.Unlock()
	return c, func() {
		h.mu.Lock()
		delete(h.subs, c)
		h.mu.Unlock()
	}
}
