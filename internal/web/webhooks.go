package web

import (
	"net/http"
	"strings"
)

const (
	webhooksPath = "/api/v1/webhooks/"
	// maxAlertBody is as much as an alert may say; those who group many of them need more than a form does.
	maxAlertBody = 1 << 20
)

// isWebhook tells the addresses to which other systems send their alerts.
func (s *server) isWebhook(path string) bool {
	return s.Webhooks != nil && strings.HasPrefix(path, webhooksPath)
}

// bodyLimit is how much a request to an address may carry.
func (s *server) bodyLimit(path string) int64 {
	if s.isWebhook(path) {
		return maxAlertBody
	}
	return maxBody
}

// alerts is the way in for other systems. They prove who they are to the handler itself, by token or signature, so what
// people and programs need a login for is not asked of them; everything else that protects this server holds for them too.
func (s *server) alerts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isWebhook(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if wait := s.bounds.alerts.take(peer(r), s.Clock()); wait > 0 {
			s.tooMany(w, r, wait, "Too many alerts from your address.")
			return
		}
		s.Webhooks.ServeHTTP(&guessWriter{ResponseWriter: w, server: s, request: r}, r)
	})
}

// guessWriter counts the answers that say a token or signature was wrong, and answers too many of them like too many
// wrong tokens anywhere else.
type guessWriter struct {
	http.ResponseWriter
	server  *server
	request *http.Request
	done    bool // the answer was given in the handler's place
}

// WriteHeader begins the answer.
func (w *guessWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		if wait := w.server.bounds.wrong.take(peer(w.request), w.server.Clock()); wait > 0 {
			w.done = true
			w.server.tooMany(w.ResponseWriter, w.request, wait, "Too many wrong tokens from your address.")
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write goes on with the answer.
func (w *guessWriter) Write(b []byte) (int, error) {
	if w.done {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets the server's own controls through.
func (w *guessWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
