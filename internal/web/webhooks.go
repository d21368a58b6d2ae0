package web

import (
	"net/http"
	"strings"
)

const (
	webhooksPath = "/api/v1/webhooks/"
	// maxAlertBody limits the body of a webhook; grouped alerts are larger than forms.
	maxAlertBody = 1 << 20
)

// isWebhook reports whether a path receives alerts of other systems.
func (s *server) isWebhook(path string) bool {
	return s.Webhooks != nil && strings.HasPrefix(path, webhooksPath)
}

// bodyLimit is the maximum body size for a path.
func (s *server) bodyLimit(path string) int64 {
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
func (s *server) serveWebhooks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isWebhook(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if wait := s.rateLimits.alerts.take(peer(r), s.Clock()); wait > 0 {
			s.tooMany(w, r, wait, "Too many alerts from your address.")
			return
		}
		s.Webhooks.ServeHTTP(&wrongTokenWriter{ResponseWriter: w, server: s, request: r}, r)
	})
}

// wrongTokenWriter counts responses that report a wrong token or signature, and limits them like wrong tokens everywhere else.
type wrongTokenWriter struct {
	http.ResponseWriter
	server  *server
	request *http.Request
	done    bool // the limit response has replaced the handler's
}

// WriteHeader starts the response.
func (w *wrongTokenWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		if wait := w.server.wrongGuess(w.request, "sent an alert without a valid token or signature"); wait > 0 {
			w.done = true
			w.server.tooMany(w.ResponseWriter, w.request, wait, "Too many wrong tokens.")
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
