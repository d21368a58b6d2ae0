package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type errorView struct {
	Status int
	Title  string
	Detail string
	Again  string // the same URL, if a retry may help
	Copy   string // details for a bug report
}

func (s *server) errorPage(w http.ResponseWriter, r *http.Request, status int, detail string) {
	title := http.StatusText(status)
	switch status {
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusInternalServerError:
		title = "Something went wrong"
	case http.StatusServiceUnavailable:
		title = "Not available"
	}
	view := errorView{Status: status, Title: title, Detail: detail}
	if r.Method == http.MethodGet && status >= http.StatusInternalServerError {
		view.Again = r.URL.RequestURI()
	}
	view.Copy = fmt.Sprintf("%d %s: %s\n%s %s\n%s", status, title, detail, r.Method, r.URL.Path, s.Clock().UTC().Format(time.RFC3339))
	if trace := r.Header.Get("Traceparent"); trace != "" {
		view.Copy += "\ntrace " + plain(trace)
	}
	s.render(w, r, status, "error", page{
		Title: title, Static: true,
		Body: view,
	})
}

// fail shows an error. Internal errors are logged and not shown.
func (s *server) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	if refused(err, "Nothing was changed.", func(problem string) { s.errorPage(w, r, http.StatusUnprocessableEntity, problem) }) {
		return
	}
	switch {
	case errors.Is(err, ops.ErrNotFound):
		s.errorPage(w, r, http.StatusNotFound, "No such "+what+".")
	case errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrSlotBusy):
		s.errorPage(w, r, http.StatusConflict, "Nothing was changed: "+err.Error()+".")
	case errors.Is(err, context.Canceled):
		// The client has disconnected.
	case store.Unavailable(err):
		s.Logger.WarnContext(r.Context(), "the database cannot be used for a page", "what", what, "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "5")
		s.errorPage(w, r, http.StatusServiceUnavailable,
			"The database cannot be used for the moment, so the "+what+" could not be read or changed. Try again later.")
	default:
		s.Logger.ErrorContext(r.Context(), "page request failed", "what", what, "path", r.URL.Path, "error", err)
		s.errorPage(w, r, http.StatusInternalServerError,
			"The "+what+" could not be read or changed. See the log of the supervisor.")
	}
}
