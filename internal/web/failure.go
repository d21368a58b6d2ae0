package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"claudeops/internal/ops"
)

type errorView struct {
	Status int
	Title  string
	Detail string
	Again  string // the same address, where asking once more may help
	Copy   string // what to send to whoever looks into it
}

func (s *server) errorPage(w http.ResponseWriter, r *http.Request, status int, detail string) {
	title := http.StatusText(status)
	switch status {
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusInternalServerError:
		title = "Something went wrong"
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
		Title: title, Still: true,
		Body: view,
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
