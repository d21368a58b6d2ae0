package web

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stream reports to a page that the journal changed. The event id is the revision the reader has seen.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	seen := r.URL.Query().Get("seen")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		seen = last
	}
	out, end := s.openStream(w, r, pollEvery)
	if out == nil {
		return
	}
	defer end()
	for {
		counts, err := s.counters.read(r.Context(), batchWindow)
		if err != nil {
			return // the reader reconnects, and the next page request logs the error
		}
		if now := s.counters.revision(counts); now != seen {
			rail, err := s.railCount(counts)
			if err != nil || out.send(message{name: "changed"}, message{id: now, data: newDataBlock(rail)}) != nil {
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
func (s *server) railCount(counts store.PageState) (string, error) {
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

// manyReaders is the number of streams above which they poll less often.
const manyReaders = 100

// noLines is the position of a reader that follows only the state.
const noLines = -1

// sessionStream sends the transcript and the state of a session until its cycle has ended.
func (s *server) sessionStream(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	if !ok {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	if _, err := s.Store.Journal.Session(r.Context(), id); err != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	at := readPosition(r)
	every := feedEvery
	if s.open().Load() > manyReaders {
		every = pollEvery
	}
	out, end := s.openStream(w, r, every)
	if out == nil {
		return
	}
	defer end()
	feed := s.feeds.join(id)
	defer s.feeds.leave(feed)
	for {
		over, err := s.sendNews(out, feed, &at)
		if err != nil {
			return
		}
		if over {
			_ = out.send(message{id: at.String(), name: "ended"}) // the stream ends in any case
			return
		}
		if out.wait() != nil {
			return
		}
	}
}

// sendNews sends everything after the position of the reader and advances it. It reports whether the session is over.
func (s *server) sendNews(out *eventStream, feed *feed, at *position) (over bool, err error) {
	if err := feed.advance(out.ctx, s); err != nil {
		return false, err
	}
	for at.seq != noLines {
		news, err := feed.since(out.ctx, s, at.seq)
		if err != nil {
			return false, err
		}
		if news.last == at.seq {
			break
		}
		at.seq = news.last
		if err := out.send(message{id: at.String(), data: news.data}); err != nil {
			return false, err
		}
		if err := out.throttle(); err != nil {
			return false, err
		}
	}
	state := feed.state()
	// The counters of the end may be shared with a page that was read a moment before it, and nothing follows that would tell it.
	if state.revision != at.revision || state.over {
		at.revision = state.revision
		if err := out.send(message{id: at.String(), data: state.data}); err != nil {
			return false, err
		}
	}
	return state.over, nil
}

// stopped reports whether the session and its cycle have ended.
func stopped(session ops.Session, cycle ops.Cycle) bool {
	return session.Status.Ended() && cycle.Status.Ended()
}

const (
	// pollEvery is how often rows are polled, because other hosts write them too.
	pollEvery = time.Second
	// batchWindow is how long to wait after a change for more changes.
	batchWindow = 50 * time.Millisecond
	// keepAliveEvery keeps an idle stream open through proxies, and detects closed connections.
	keepAliveEvery = 15 * time.Second
	// writeTimeout is the write timeout. A slower reader is disconnected; it reconnects with the id of the last event it got.
	writeTimeout = 10 * time.Second
	// maxReaders limits the number of open streams.
	maxReaders = 2048
	// retryDelay is the reconnect delay of a reader, in milliseconds.
	retryDelay = "1000"
	// streamBytes limits what all streams together send per second, so that many readers do not slow down the sessions. A single
	// reader never reaches it; with a thousand readers, fast output arrives a little later.
	streamBytes = 12 << 20
	// wakeSpread spreads the wake-ups of the readers: the maximum delay grows by this for each of them.
	wakeSpread    = 500 * time.Microsecond
	maxWakeSpread = time.Second
)

// errClosed means that a stream has ended.
var errClosed = errors.New("stream closed")

// eventStream writes server-sent events to one reader.
type eventStream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	ctx       context.Context //nolint:containedctx // the stream lives as long as its request
	server    *server
	changed   <-chan struct{} // closed when something has changed since the last read
	every     time.Duration
	lastWrite time.Time
	lasts     func(context.Context) bool // whether the reader still has access; nil: it never ends
	checked   time.Time                  // when that was last checked
	delay     time.Duration              // delay that the last write costs
}

// openStream starts a stream, unless too many are open. The caller must call the returned function at the end.
func (s *server) openStream(w http.ResponseWriter, r *http.Request, every time.Duration) (*eventStream, func()) {
	most := int64(maxReaders)
	if s.Streams > 0 {
		most = min(most, int64(s.Streams))
	}
	if s.open().Add(1) > most {
		s.open().Add(-1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many open streams; close some tabs", http.StatusServiceUnavailable)
		return nil, nil
	}
	e := &eventStream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), server: s, every: every, lastWrite: time.Now()}
	if e.lasts = admission(r.Context()); e.lasts != nil {
		e.checked = s.Clock()
	}
	leave := s.broadcaster.join()
	e.changed = s.broadcaster.next()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	// The read timeout of the server would end the stream.
	_ = e.rc.SetReadDeadline(time.Time{}) // not every connection supports it
	end := func() {
		leave()
		s.open().Add(-1)
	}
	if e.write([]byte("retry: "+retryDelay+"\n\n")) != nil {
		end()
		return nil, nil
	}
	return e, end
}

// message is one event. Data without a name is swapped into the page; a named event is dispatched to the page.
type message struct {
	id, name string
	data     dataBlock
}

// dataBlock is the data of an event in wire format, encoded once for all readers.
type dataBlock []byte

func newDataBlock(text string) dataBlock {
	var out strings.Builder
	out.Grow(len(text) + len(text)/16 + 16)
	// A carriage return also ends a line in this format.
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		out.WriteString("data: ")
		out.WriteString(line)
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return dataBlock(out.String())
}

// send writes events together, so that a reader gets all of them or none.
func (e *eventStream) send(messages ...message) error {
	parts := make([][]byte, 0, 2*len(messages))
	for _, m := range messages {
		var head strings.Builder
		if m.name != "" {
			head.WriteString("event: " + m.name + "\n")
		}
		if m.id != "" {
			head.WriteString("id: " + m.id + "\n")
		}
		if m.data == nil {
			m.data = newDataBlock("")
		}
		parts = append(parts, []byte(head.String()), m.data)
	}
	return e.write(parts...)
}

func (e *eventStream) write(parts ...[]byte) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every connection supports it
	size := 0
	for _, part := range parts {
		size += len(part)
		if _, err := e.w.Write(part); err != nil {
			return errClosed
		}
	}
	if err := e.rc.Flush(); err != nil {
		return errClosed
	}
	e.lastWrite = time.Now()
	e.delay = time.Duration(float64(size) * float64(e.server.open().Load()) / streamBytes * float64(time.Second))
	return nil
}

// throttle waits until the reader is within its share of streamBytes.
func (e *eventStream) throttle() error {
	delay := e.delay
	e.delay = 0
	return e.pause(delay)
}

// wait returns when there may be something new, or an error when the stream is closed.
func (e *eventStream) wait() error {
	if e.lasts != nil && e.server.Clock().Sub(e.checked) >= recheckEvery {
		if !e.lasts(e.ctx) {
			return errClosed // the reader connects again and is refused
		}
		e.checked = e.server.Clock()
	}
	if time.Since(e.lastWrite) > keepAliveEvery {
		if err := e.write([]byte(": keep-alive\n\n")); err != nil {
			return err
		}
	}
	if err := e.throttle(); err != nil {
		return err
	}
	timer := time.NewTimer(e.every)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return errClosed
	case <-e.server.Done:
		return errClosed
	case <-timer.C:
	case <-e.changed:
		// Readers that are woken together do not all read at once.
		spread := min(maxWakeSpread, time.Duration(e.server.open().Load()-1)*wakeSpread)
		if err := e.pause(time.Duration(rand.Int64N(1 + int64(spread)))); err != nil {
			return err
		}
	}
	// Taken before the rows are read, so that a change during the read wakes the reader again.
	e.changed = e.server.broadcaster.next()
	return nil
}

// pause waits, or returns an error when the stream is closed.
func (e *eventStream) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return errClosed
	case <-e.server.Done:
		return errClosed
	case <-timer.C:
		return nil
	}
}

// open counts the open streams, with those that began before the configuration was read again.
func (s *server) open() *atomic.Int64 {
	if s.Hub == nil {
		return &s.readers
	}
	return &s.Hub.streams
}

// broadcaster passes changes on to all streams. It is one subscriber of the hub, however many streams are open: it collects
// changes for a moment, and then wakes all streams by closing one channel.
type broadcaster struct {
	hub *Hub // nil: streams only poll

	mu      sync.Mutex
	readers int
	changed chan struct{} // closed at the next change
	stop    func()        // ends the goroutine that waits for changes
}

// join counts a reader until it leaves. The first one starts the subscription, the last one ends it.
func (b *broadcaster) join() (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers++; b.readers == 1 {
		b.changed = make(chan struct{})
		if b.hub != nil {
			b.stop = b.watch()
		}
	}
	return b.leave
}

func (b *broadcaster) leave() {
	b.mu.Lock()
	stop := func() {}
	if b.readers--; b.readers == 0 && b.stop != nil {
		stop, b.stop = b.stop, nil
	}
	b.mu.Unlock()
	stop()
}

// next returns a channel that is closed at the next change.
func (b *broadcaster) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// watch waits for changes until the returned function is called, which waits for its goroutine.
func (b *broadcaster) watch() (stop func()) {
	nudges, unsubscribe := b.hub.Subscribe(ops.ReachPages)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-nudges:
			}
			// Counters read after this delay include the change, so readers can share them.
			timer := time.NewTimer(batchWindow)
			select {
			case <-quit:
				timer.Stop()
				return
			case <-timer.C:
			}
			b.wake()
		}
	})
	return func() {
		unsubscribe()
		close(quit)
		running.Wait()
	}
}

func (b *broadcaster) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// Hub tells subscribers that rows changed. It carries no data: a reader continues from the last row it read, even if it missed a signal.
type Hub struct {
	streams atomic.Int64 // that are open

	mu   sync.Mutex
	subs map[chan struct{}]ops.Reach // from which on each is woken
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub { return &Hub{subs: map[chan struct{}]ops.Reach{}} }

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
