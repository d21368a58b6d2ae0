package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// problem turns an error into one that the caller sees. Internal errors are logged and not shown.
func (s *server) problem(what string, err error) error {
	if text, wrong := desk.Problem(err); wrong {
		return huma.Error422UnprocessableEntity(text)
	}
	switch {
	case errors.Is(err, ops.ErrNotFound):
		return huma.Error404NotFound(what + ": not found")
	case errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrSlotBusy):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, context.Canceled):
		return huma.Error503ServiceUnavailable("the request was cancelled")
	case s.Trusted:
		return huma.Error500InternalServerError(err.Error())
	case store.Unavailable(err):
		s.Logger.Warn("the database cannot be used for an API request", "request", what, "error", err)
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(what+": "+databaseAway), http.Header{"Retry-After": {retryAfter}})
	}
	s.Logger.Error("cannot answer an API request", "request", what, "error", err)
	return huma.Error500InternalServerError(what + ": internal error; see the supervisor's log")
}

const (
	// databaseAway is told while the database is locked, full or cannot be reached.
	databaseAway = "the database cannot be used for the moment; try again later"
	// retryAfter is when a caller should try again, in seconds.
	retryAfter = "5"
)

func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
}
