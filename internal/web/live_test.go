package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// sseEvent is one event as a browser reads it.
type sseEvent struct{ id, name, data string }

// reader follows one stream.
type reader struct {
	t      *testing.T
	events chan sseEvent
	last   string
	close  func()
}

// follow opens a stream on a real connection, with what the browser got last.
func follow(t *testing.T, base, path, last string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	must(t, err)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	apitest.Authorize(request)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(got, "text/event-stream") {
		t.Fatalf("%s: status %d, %s", path, response.StatusCode, got)
	}
	r := &reader{t: t, events: make(chan sseEvent, 1000), last: last}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(r.events)
		var e sseEvent
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data += value + "\n"
			case "":
				if e != (sseEvent{}) {
					r.events <- e
				}
				e = sseEvent{}
			}
		}
	}()
	r.close = func() {
		cancel()
		_ = response.Body.Close()
		<-done
	}
	t.Cleanup(r.close)
	return r
}

// until collects what comes until something was said.
func (r *reader) until(what string) string {
	r.t.Helper()
	var got strings.Builder
	timeout := time.After(time.Minute)
	for {
		select {
		case e, ok := <-r.events:
			if !ok {
				r.t.Fatalf("the stream ended before %q; it said\n%s", what, got.String())
			}
			if e.id != "" {
				r.last = e.id
			}
			got.WriteString(e.name + " " + e.data)
			if strings.Contains(got.String(), what) {
				return got.String()
			}
		case <-timeout:
			r.t.Fatalf("%q was not said; only\n%s", what, got.String())
		}
	}
}

func served(t *testing.T, s *site) string {
	t.Helper()
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	return server.URL
}

func said(text string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%q}]}}`, text)
}

func TestAStreamThatDropsGoesOnWithoutALineTwice(t *testing.T) {
	s := newSite(t)
	base := served(t, s)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{said("line 1.")}})
	path := fmt.Sprintf("/sessions/%d/stream?after=1", ids[0])
	first := follow(t, base, path, "")
	s.Say(ids[0], said("line 2."), said("line 3."))
	got := first.until("line 3.")
	first.close()
	s.Say(ids[0], said("line 4."), said("line 5."))
	second := follow(t, base, path, first.last)
	s.Say(ids[0], said("line 6."))
	got += second.until("line 6.")
	mustNotContain(t, got, "line 1.")
	for n := 2; n <= 6; n++ {
		if count := strings.Count(got, fmt.Sprintf("line %d.", n)); count != 1 {
			t.Errorf("line %d came %d times", n, count)
		}
	}
}

func TestAReaderFarBehindCatchesUpInOrder(t *testing.T) {
	s := newSite(t)
	base := served(t, s)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: numbered(1000)})
	got := follow(t, base, fmt.Sprintf("/sessions/%d/stream?after=0", ids[0]), "").until("line number 1000.")
	at := -1
	for n := 1; n <= 1000; n++ {
		line := fmt.Sprintf("line number %d.", n)
		if strings.Count(got, line) != 1 || strings.Index(got, line) < at {
			t.Fatalf("%q is missing, doubled or out of order", line)
		}
		at = strings.Index(got, line)
	}
}

func TestAnAnswerChangesTheRowOfItsCall(t *testing.T) {
	s := newSite(t)
	base := served(t, s)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{
		Tier: 1, Status: ops.SessionRunning,
		Lines: []string{said("x"), call("a", "sleep 9")},
	})
	stream := follow(t, base, fmt.Sprintf("/sessions/%d/stream?after=2", ids[0]), "")
	s.Say(ids[0], answered("a", "slept", false))
	got := stream.until("slept")
	mustContain(t, got, `<hx-partial hx-target="#l2-0" hx-swap="outerHTML">`, "sleep 9")
	mustNotContain(t, got, `id="l3-0"`)
}

func TestTheEndIsSwappedInAndEndsTheStream(t *testing.T) {
	s := newSite(t)
	base := served(t, s)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	stream := follow(t, base, fmt.Sprintf("/sessions/%d/stream?after=0", ids[0]), "")
	stream.until("Running")
	s.Say(ids[0], said("the last line."), `{"type":"result","result":"All is well."}`)
	s.End(ids[0], ops.OutcomeHealthy, ops.CycleHealthy, "Tier 1 found nothing.")
	got := stream.until("ended ")
	mustContain(t, got, "the last line.", `hx-target="#session-head" hx-swap="outerMorph"`, "Healthy", "Tier 1 found nothing.", "All is well.")
	if strings.Index(got, "the last line.") > strings.Index(got, "ended ") {
		t.Error("the end is told before the last line")
	}
	if _, more := <-stream.events; more {
		t.Error("the stream goes on behind its end")
	}
}

func TestListsAreToldOnceWhenRowsChange(t *testing.T) {
	s := newSite(t)
	base := served(t, s)
	stream := follow(t, base, "/stream", "")
	stream.until("changed ")
	stream.until("rail-count")
	seen := stream.last
	stream.close()
	// Nothing happened: who comes back is told nothing until something does.
	again := follow(t, base, "/stream", seen)
	s.breaks("jellyfin", "HTTP 502")
	got := again.until("rail-count")
	if n := strings.Count(got, "changed "); n != 1 {
		t.Errorf("told %d times", n)
	}
	mustContain(t, got, `id="rail-count"`, ">1<")
	if again.last == seen {
		t.Error("the id does not tell that something changed")
	}
}

func TestANudgeIsFasterThanLooking(t *testing.T) {
	hub := web.NewHub()
	s := newSite(t, func(o *web.Options) { o.Hub = hub })
	stream := follow(t, served(t, s), "/stream", "")
	stream.until("rail-count")
	s.threeTiers()
	hub.Nudge()
	stream.until("changed ")
}

func TestStreamsEndWithTheServer(t *testing.T) {
	done := make(chan struct{})
	s := newSite(t, func(o *web.Options) { o.Done = done })
	stream := follow(t, served(t, s), "/stream", "")
	stream.until("rail-count")
	close(done)
	select {
	case _, more := <-stream.events:
		if more {
			t.Error("the stream says something more")
		}
	case <-time.After(time.Minute):
		t.Error("the stream stays open")
	}
}

func TestAnUnknownSessionHasNoStream(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/sessions/99/stream", "/sessions/x/stream"} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", path, got)
		}
	}
}

// stalledWriter takes nothing any more once a first line of the session was written to it.
type stalledWriter struct {
	*httptest.ResponseRecorder
	writes  int
	stalled chan struct{} // closed when it takes nothing
	free    chan struct{} // closed when it may go on
}

func (w *stalledWriter) Write(b []byte) (int, error) {
	if w.writes++; w.writes == 2 {
		close(w.stalled)
		<-w.free
	}
	return w.ResponseRecorder.Write(b)
}

func TestAStalledReaderHoldsNobodyUp(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{said("line 1.")}})
	path := fmt.Sprintf("/sessions/%d/stream?after=0", ids[0])
	w := &stalledWriter{ResponseRecorder: httptest.NewRecorder(), stalled: make(chan struct{}), free: make(chan struct{})}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Host = "127.0.0.1"
	apitest.Authorize(request)
	var stalling sync.WaitGroup
	stalling.Go(func() { s.handler.ServeHTTP(w, request) })
	<-w.stalled
	other := follow(t, served(t, s), path, "")
	s.Say(ids[0], said("line 2."))
	other.until("line 2.")
	s.End(ids[0], ops.OutcomeHealthy, ops.CycleHealthy, "fine")
	other.until("ended ")
	close(w.free)
	stalling.Wait()
	mustContain(t, w.Body.String(), "line 1.", "line 2.", "event: ended")
}

func TestANudgeNeverWaitsAndIsNeverLost(t *testing.T) {
	h := web.NewHub()
	slow, endSlow := h.Subscribe(ops.ReachPages)
	quick, endQuick := h.Subscribe(ops.ReachPages)
	for range 1000 {
		h.Nudge()
	}
	<-slow
	<-quick
	select {
	case <-quick:
		t.Error("a thousand nudges are more than one")
	default:
	}
	endQuick()
	h.Nudge()
	<-slow
	select {
	case <-quick:
		t.Error("nudged after the end")
	default:
	}
	endSlow()
}

// movingClock is a clock that a test moves while handlers run.
type movingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movingClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// holds reports whether a file contains a text.
func holds(t *testing.T, path, text string) bool {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return bytes.Contains(content, []byte(text))
}
