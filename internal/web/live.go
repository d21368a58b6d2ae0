package web

import (
	"net/http"
	"strconv"
	"strings"

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
	if _, err := s.Store.Session(r.Context(), id); err != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	at := readPosition(r)
	every := feedEvery
	if s.readers.Load() > manyReaders {
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
	if state.revision != at.revision {
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
