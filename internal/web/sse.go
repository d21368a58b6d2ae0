package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// pollEvery is how often rows are looked at without being told: other hosts write them too.
	pollEvery = time.Second
	// gather is how long a reader waits after a nudge for what comes with it.
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
)

// errGone means that a stream has ended.
var errGone = errors.New("the reader has gone")

// eventStream writes server-sent events to one reader.
type eventStream struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context //nolint:containedctx // of the request, which this is a part of
	done   <-chan struct{}
	nudges <-chan struct{}
	every  time.Duration
	beat   time.Time
}

// openStream begins a stream, unless too many are open. Whoever gets one calls the function that ends it.
func (s *server) openStream(w http.ResponseWriter, r *http.Request, every time.Duration) (*eventStream, func()) {
	if s.readers.Add(1) > maxReaders {
		s.readers.Add(-1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many streams are open; close some tabs", http.StatusServiceUnavailable)
		return nil, nil
	}
	e := &eventStream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), done: s.Done, every: every, beat: time.Now()}
	unsubscribe := func() {}
	if s.Hub != nil {
		e.nudges, unsubscribe = s.Hub.Subscribe()
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	// A server that bounds how long a request may take to arrive would end the stream by it.
	_ = e.rc.SetReadDeadline(time.Time{}) // not every connection has one
	end := func() {
		unsubscribe()
		s.readers.Add(-1)
	}
	if e.write("retry: "+comeBack+"\n\n") != nil {
		end()
		return nil, nil
	}
	return e, end
}

// message is one event. Without a name its data is swapped into the page; with one it is told to the page's elements.
type message struct {
	id, name, data string
}

// send writes events at once, so that a reader gets all of them or none.
func (e *eventStream) send(messages ...message) error {
	var out strings.Builder
	for _, m := range messages {
		if m.name != "" {
			out.WriteString("event: " + m.name + "\n")
		}
		if m.id != "" {
			out.WriteString("id: " + m.id + "\n")
		}
		// A carriage return would end a line here as well.
		for line := range strings.SplitSeq(strings.ReplaceAll(m.data, "\r", ""), "\n") {
			out.WriteString("data: " + line + "\n")
		}
		out.WriteString("\n")
	}
	return e.write(out.String())
}

func (e *eventStream) write(text string) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(sendWithin)) // not every connection has one
	if _, err := e.w.Write([]byte(text)); err != nil {
		return errGone
	}
	if err := e.rc.Flush(); err != nil {
		return errGone
	}
	e.beat = time.Now()
	return nil
}

// wait returns when there may be something new, and an error when the stream is over.
func (e *eventStream) wait() error {
	if time.Since(e.beat) > beatEvery {
		if err := e.write(": still here\n\n"); err != nil {
			return err
		}
	}
	timer := time.NewTimer(e.every)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return errGone
	case <-e.done:
		return errGone
	case <-timer.C:
		return nil
	case <-e.nudges:
	}
	timer.Reset(gather)
	select {
	case <-e.ctx.Done():
		return errGone
	case <-e.done:
		return errGone
	case <-timer.C:
		return nil
	}
}

// readerCount counts the streams that are open.
type readerCount = atomic.Int64
