package web

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

const (
	pingPath = "/ping/"
	// maxPingBody is how much a job may send, readPing how much of its end is read for secrets, and keptPing how much of that is kept.
	maxPingBody = 1 << 20
	readPing    = 64 << 10
	keptPing    = 8 << 10
)

// isPing reports whether a path is the address of a heartbeat.
func isPing(path string) bool { return strings.HasPrefix(path, pingPath) }

// servePings takes the calls of jobs: /ping/TOKEN, with /start, /fail or an exit code behind it. The token is all that a job needs, and
// all wrong ones get the same answer.
func (s *server) servePings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isPing(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			s.refuse(w, r, http.StatusMethodNotAllowed, "Call this address with GET, HEAD or POST.")
			return
		}
		if wait := s.rateLimits.alerts.take(peer(r), s.Clock()); wait > 0 {
			s.tooMany(w, r, wait, "Too many calls from your address.")
			return
		}
		token, how, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, pingPath), "/")
		beat, err := s.Store.Heartbeat(r.Context(), token)
		if errors.Is(err, ops.ErrNotFound) {
			if wait := s.wrongGuess(r, "called a heartbeat with a wrong token"); wait > 0 {
				s.tooMany(w, r, wait, "Too many wrong tokens.")
				return
			}
			s.refuse(w, r, http.StatusNotFound, "No heartbeat has this address.")
			return
		}
		ping, known := pingOf(how)
		switch {
		case err != nil:
		case !known:
			s.refuse(w, r, http.StatusBadRequest, "End the address with nothing, /start, /fail or an exit code from 0 to 255.")
			return
		default:
			ping.At, ping.Output = s.Clock(), s.lastWords(r)
			err = s.Store.Ping(r.Context(), beat, ping)
		}
		if err != nil {
			s.Logger.WarnContext(r.Context(), "cannot record the call of a job", "service", beat.Service, "error", err)
			w.Header().Set("Retry-After", "5")
			s.refuse(w, r, http.StatusServiceUnavailable, "The call could not be recorded. Call again.")
			return
		}
		s.signalChange()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "OK\n")
	})
}

// pingOf is what the end of an address says.
func pingOf(how string) (ops.Ping, bool) {
	switch how {
	case "":
		return ops.Ping{}, true
	case "start":
		return ops.Ping{Start: true}, true
	case "fail":
		return ops.Ping{Failed: true}, true
	}
	code, err := strconv.ParseUint(how, 10, 8)
	return ops.Ping{Failed: code != 0, Exit: int(code)}, err == nil
}

// lastWords is the end of what a job sent, without secrets. A body that is too long or breaks off is no reason to miss the call.
func (s *server) lastWords(r *http.Request) string {
	var end []byte
	for part, err := make([]byte, readPing), error(nil); err == nil; {
		var n int
		n, err = r.Body.Read(part)
		end = append(end, part[:n]...)
		end = end[max(0, len(end)-readPing):]
	}
	text := string(end)
	if s.Redact != nil {
		text = s.Redact(text)
	}
	return strings.TrimSpace(ops.Ends(text, 0, keptPing, "…"))
}
