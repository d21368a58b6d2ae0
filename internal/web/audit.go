package web

import (
	"context"
	"fmt"
	"net/http"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

// auditKind is the kind of the events that say who did what.
const auditKind = "audit"

// caller is who a request comes from.
func caller(r *http.Request) api.Caller { return api.CallerOf(r.Context()) }

// audited records every action: who asked for what, and what came of it.
func (s *server) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if looks(r.Method) || ownMatter(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		path, _ := clip(r.URL.EscapedPath(), 200)
		s.record(r, caller(r), ops.LevelInfo, fmt.Sprintf("%s %s (%d %s)", r.Method, path, seen.status, http.StatusText(seen.status)))
	})
}

// record keeps what somebody did. It must not fail with the request that did it.
func (s *server) record(r *http.Request, by api.Caller, level ops.Level, what string) {
	name := by.Name
	if from := peer(r); from != name {
		name += " from " + from
	}
	ctx := context.WithoutCancel(r.Context())
	_, err := s.Store.AddEvent(ctx, ops.Event{At: s.Clock(), Level: level, Kind: auditKind, Message: name + ": " + what})
	if err != nil {
		s.Logger.ErrorContext(ctx, "cannot record who did something", "who", name, "what", what, "error", err)
	}
}

// looks tells the methods that change nothing.
func looks(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// ownMatter tells what a visitor changes for nobody else: the colours, the views that were saved, and the login, which is recorded on its own.
func ownMatter(path string) bool {
	return path == "/theme" || path == "/login" || path == "/logout" || path == viewsPath || path == viewsPath+"/remove"
}

// statusWriter remembers what an action was answered with.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(b)
}

// Unwrap lets the server's own controls through.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
