package web

import (
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stream tells a page that something in the journal changed. Its ids name what the reader has seen.
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
		counts, err := s.pulse.look(r.Context(), gather)
		if err != nil {
			return // the reader comes back, and the log has what the next page request finds
		}
		if now := mark(counts); now != seen {
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

// railCount is the figure in the navigation, as something to swap in.
func (s *server) railCount(counts store.PageState) (string, error) {
	count, err := s.piece("session", "rail-count", counts.Approvals+counts.Incidents)
	return `<hx-partial hx-target="#rail-count" hx-swap="outerHTML">` + count + `</hx-partial>`, err
}

// position is how far a reader of a session has come: the last line it has, and the state it shows.
type position struct {
	seq  int64
	mark string
}

func (p position) String() string { return strconv.FormatInt(p.seq, 10) + "." + p.mark }

// readPosition takes the position from the address, or from what the browser got last.
func readPosition(r *http.Request) position {
	if seq, state, found := strings.Cut(r.Header.Get("Last-Event-ID"), "."); found {
		if n, err := strconv.ParseInt(seq, 10, 64); err == nil {
			return position{n, state}
		}
	}
	// Without a number no lines are wanted: the page shows another part of the transcript.
	n, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || n < 0 {
		n = noLines
	}
	return position{n, r.URL.Query().Get("seen")}
}

// manyReaders is how many streams make each of them a little slower, so that all of them together stay cheap.
const manyReaders = 100

// noLines is the position of a reader that follows the state alone.
const noLines = -1

// sessionStream sends what a session writes, and what becomes of it, until its cycle has ended.
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
			_ = out.send(message{id: at.String(), name: "ended"}) // the stream ends with it in any case
			return
		}
		if out.wait() != nil {
			return
		}
	}
}

// sendNews sends everything behind the reader's position and moves it on. It reports whether nothing will follow.
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
		if err := out.share(); err != nil {
			return false, err
		}
	}
	state := feed.state()
	if state.mark != at.mark {
		at.mark = state.mark
		if err := out.send(message{id: at.String(), data: state.data}); err != nil {
			return false, err
		}
	}
	return state.over, nil
}

// stopped reports whether nothing of the session or its cycle changes any more.
func stopped(session ops.Session, cycle ops.Cycle) bool {
	return session.Status.Ended() && cycle.Status.Ended()
}
