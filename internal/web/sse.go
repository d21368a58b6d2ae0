package web

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// pollEvery is how often rows are looked at without being told: other hosts write them too.
	pollEvery = time.Second
	// gather is how long is waited after a nudge for what comes with it.
	gather = 50 * time.Millisecond
	// beatEvery keeps an idle stream open through proxies, and finds readers that have gone.
	beatEvery = 15 * time.Second
	// sendWithin is how long a reader may take for what it is sent. One that is slower is dropped; it comes back by itself
	// and says what it has seen.
	sendWithin = 10 * time.Second
	// maxReaders bounds the streams that are open at once.
	maxReaders = 2048
	// comeBack is what a reader waits before it connects again, in milliseconds.
	comeBack = "1000"
	// streamBytes is what all streams together send per second, at most: those who watch must not slow what they watch. A reader
	// alone never notices; a thousand get what a fast session writes a little later.
	streamBytes = 12 << 20
	// apart is how far readers that are woken together keep from each other, for each of them.
	apart     = 500 * time.Microsecond
	mostApart = time.Second
)

// errGone means that a stream has ended.
var errGone = errors.New("the reader has gone")

// eventStream writes server-sent events to one reader.
type eventStream struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context //nolint:containedctx // of the request, which this is a part of
	server *server
	lit    <-chan struct{} // closed when something has changed since rows were looked at
	every  time.Duration
	beat   time.Time
	owed   time.Duration // to be waited for what was sent
}

// openStream begins a stream, unless too many are open. Whoever gets one calls the function that ends it.
func (s *server) openStream(w http.ResponseWriter, r *http.Request, every time.Duration) (*eventStream, func()) {
	if s.readers.Add(1) > maxReaders {
		s.readers.Add(-1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many streams are open; close some tabs", http.StatusServiceUnavailable)
		return nil, nil
	}
	e := &eventStream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), server: s, every: every, beat: time.Now()}
	leave := s.beacon.join()
	e.lit = s.beacon.next()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	// A server that bounds how long a request may take to arrive would end the stream by it.
	_ = e.rc.SetReadDeadline(time.Time{}) // not every connection has one
	end := func() {
		leave()
		s.readers.Add(-1)
	}
	if e.write([]byte("retry: "+comeBack+"\n\n")) != nil {
		end()
		return nil, nil
	}
	return e, end
}

// message is one event. Without a name its data is swapped into the page; with one it is told to the page's elements.
type message struct {
	id, name string
	data     dataBlock
}

// dataBlock is the data of an event as it goes over the wire, made once for all who get it.
type dataBlock []byte

func newDataBlock(text string) dataBlock {
	var out strings.Builder
	out.Grow(len(text) + len(text)/16 + 16)
	// A carriage return would end a line here as well.
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		out.WriteString("data: ")
		out.WriteString(line)
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return dataBlock(out.String())
}

// send writes events at once, so that a reader gets all of them or none.
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
	_ = e.rc.SetWriteDeadline(time.Now().Add(sendWithin)) // not every connection has one
	size := 0
	for _, part := range parts {
		size += len(part)
		if _, err := e.w.Write(part); err != nil {
			return errGone
		}
	}
	if err := e.rc.Flush(); err != nil {
		return errGone
	}
	e.beat = time.Now()
	e.owed = time.Duration(float64(size) * float64(e.server.readers.Load()) / streamBytes * float64(time.Second))
	return nil
}

// share waits until the reader has had no more than its share of what all may get.
func (e *eventStream) share() error {
	owed := e.owed
	e.owed = 0
	return e.rest(owed)
}

// wait returns when there may be something new, and an error when the stream is over.
func (e *eventStream) wait() error {
	if time.Since(e.beat) > beatEvery {
		if err := e.write([]byte(": still here\n\n")); err != nil {
			return err
		}
	}
	if err := e.share(); err != nil {
		return err
	}
	timer := time.NewTimer(e.every)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return errGone
	case <-e.server.Done:
		return errGone
	case <-timer.C:
	case <-e.lit:
		// Those who are told at the same moment do not all get up at once.
		if err := e.rest(time.Duration(rand.Int64N(1 + int64(min(mostApart, time.Duration(e.server.readers.Load()-1)*apart))))); err != nil {
			return err
		}
	}
	// Before rows are looked at: what is written while they are is told again.
	e.lit = e.server.beacon.next()
	return nil
}

// rest waits for a time, or until the stream is over.
func (e *eventStream) rest(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return errGone
	case <-e.server.Done:
		return errGone
	case <-timer.C:
		return nil
	}
}

// readerCount counts the streams that are open.
type readerCount = atomic.Int64
