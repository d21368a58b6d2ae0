package web

import (
	"context"
	"errors"
	"net/http"

	"claudeops/internal/ops"
)

type errorView struct {
	Status int
	Title  string
	Detail string
}

func (s *server) errorPage(w http.ResponseWriter, r *http.Request, status int, detail string) {
	title := http.StatusText(status)
	switch status {
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusInternalServerError:
		title = "Something went wrong"
	}
	s.render(w, r, status, "error", page{
		Title: title,
		Body:  errorView{Status: status, Title: title, Detail: detail},
	})
}

// fail shows an error. What the visitor cannot act upon is logged and not shown.
func (s *server) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	switch {
	case errors.Is(err, ops.ErrNotFound):
		s.errorPage(w, r, http.StatusNotFound, "There is no such "+what+".")
	case errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrSlotBusy):
		s.errorPage(w, r, http.StatusConflict, "Nothing was done: "+err.Error()+".")
	case errors.Is(err, context.Canceled):
		// The visitor has gone.
	default:
		s.Logger.ErrorContext(r.Context(), "cannot answer a page request", "what", what, "path", r.URL.Path, "error", err)
		s.errorPage(w, r, http.StatusInternalServerError,
			"The "+what+" could not be read or changed. The supervisor's log says why.")
	}
}
