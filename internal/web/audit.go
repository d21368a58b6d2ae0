package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
)

// caller returns the caller of a request.
func caller(r *http.Request) api.Caller { return api.CallerOf(r.Context()) }

// recordActions records every action with its caller and its result.
func (s *server) recordActions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operationOf(r)
		// What is open to everybody changes nothing, or is recorded by its handler.
		if operation == access.Look || operation == access.Personal || isPublic(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		path := recordedPath(r)
		event := ops.Event{
			Level: ops.LevelInfo, CycleID: startedCycle(seen.Header().Get("Location")),
			Message: fmt.Sprintf("%s %s (%d %s)", r.Method, path, seen.status, http.StatusText(seen.status)),
		}
		s.recordEvent(r, caller(r), event)
	})
}

// startedCycle is the cycle that a response leads to, or nil.
func startedCycle(location string) *ops.CycleID {
	for _, prefix := range []string{"/?queued=", "/api/v1/cycles/"} {
		if text, found := strings.CutPrefix(location, prefix); found {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
				return ops.Ptr(ops.CycleID(id))
			}
		}
	}
	return nil
}

// record stores an action. It does not depend on the request being still open.
func (s *server) record(r *http.Request, by api.Caller, level ops.Level, what string) {
	s.recordEvent(r, by, ops.Event{Level: level, Message: what})
}

func (s *server) recordEvent(r *http.Request, by api.Caller, e ops.Event) {
	name := by.Recorded()
	if from := peer(r); from != name {
		name += " from " + from
	}
	ctx := context.WithoutCancel(r.Context())
	what := e.Message
	e.At, e.Kind, e.Message = s.Clock(), ops.EventAudit, name+": "+what
	id, err := s.Store.AddEvent(ctx, e)
	if err != nil {
		s.Logger.ErrorContext(ctx, "record action failed", "caller", name, "action", what, "error", err)
		return
	}
	s.actors.add(id, s.visitor(r))
}

// statusWriter remembers the status of the response.
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

// Unwrap gives http.ResponseController access to the original writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
