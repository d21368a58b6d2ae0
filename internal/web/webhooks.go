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
	webhooksPath = "/api/v1/webhooks/"
	// maxAlertBody limits the body of a webhook; grouped alerts are larger than forms.
	maxAlertBody = 1 << 20
)

// isWebhook reports whether a path receives alerts of other systems.
func (s *door) isWebhook(path string) bool {
	return s.Webhooks != nil && strings.HasPrefix(path, webhooksPath)
}

// bodyLimit is the maximum body size for a path.
func (s *door) bodyLimit(path string) int64 {
	if s.isWebhook(path) {
		return maxAlertBody
	}
	if isPing(path) {
		return maxPingBody
	}
	return maxBody
}

// serveWebhooks serves webhooks. Their handler authenticates the senders itself, by token or signature, so they need no login; all
// other protection applies to them too.
func (s *door) serveWebhooks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isWebhook(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if wait := s.rateLimits.alerts.take(peer(r), s.Clock()); wait > 0 {
			s.tooMany(w, r, wait, "Too many alerts from your address.")
			return
		}
		s.Webhooks.ServeHTTP(&wrongTokenWriter{ResponseWriter: w, door: s, request: r}, r)
	})
}

// wrongTokenWriter counts responses that report a wrong token or signature, and limits them like wrong tokens everywhere else.
type wrongTokenWriter struct {
	http.ResponseWriter
	door    *door
	request *http.Request
	done    bool // the limit response has replaced the handler's
}

// WriteHeader starts the response.
func (w *wrongTokenWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		if wait := w.door.wrongGuess(w.request, "sent an alert without a valid token or signature"); wait > 0 {
			w.done = true
			w.door.tooMany(w.ResponseWriter, w.request, wait, "Too many wrong tokens.")
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write continues the response.
func (w *wrongTokenWriter) Write(b []byte) (int, error) {
	if w.done {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController access to the original writer.
func (w *wrongTokenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
func (s *door) servePings(next http.Handler) http.Handler {
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
		beat, err := s.Store.Watch.Heartbeat(r.Context(), token)
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
			err = s.Store.Watch.Ping(r.Context(), beat, ping)
		}
		if err != nil {
			s.Logger.WarnContext(r.Context(), "cannot record the call of a job", "service", beat.Service, "error", err)
			w.Header().Set("Retry-After", "5")
			s.refuse(w, r, http.StatusServiceUnavailable, "The call could not be recorded. Call again.")
			return
		}
		s.Hub.Nudge()
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
func (s *door) lastWords(r *http.Request) string {
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
