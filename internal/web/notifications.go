package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (s *server) notifications(w http.ResponseWriter, r *http.Request) {
	status := ops.NoticeStatus(cmp.Or(queried(r, "status"), string(ops.NoticeDead)))
	view, err := listOf(s, r, func(ctx context.Context, before int64, limit int) ([]ops.Notice, error) {
		return s.Store.NoticeList(ctx, store.NoticeFilter{Status: status, Before: before, Limit: limit})
	}, func(n ops.Notice) int64 { return n.ID }, api.NotificationRow)
	for _, one := range []struct {
		status      ops.NoticeStatus
		word, empty string
	}{
		{ops.NoticeDead, "Failed", "No failed notifications"},
		{ops.NoticePending, "Waiting", "No waiting notifications"},
		{ops.NoticeSent, "Sent", "No sent notifications yet"},
		{ops.NoticeSkipped, "No target", "No notifications without a target"},
	} {
		current := one.status == status
		if current {
			view.Tab, view.Empty = string(status), one.empty
		}
		view.Tabs = append(view.Tabs, option{Word: one.word, Path: "/notifications?status=" + string(one.status), Current: current})
	}
	switch {
	case view.Tab == "" || errors.Is(err, ops.ErrNotFound):
		s.errorPage(w, r, http.StatusNotFound, "No such list of notifications. A status is dead, pending, sent or skipped.")
		return
	case err != nil:
		s.fail(w, r, "list of notifications", err)
		return
	}
	p := page{Title: "Notifications", Nav: "events", Body: view}
	if queried(r, "done") == "again" {
		p.Flash = "The notification is sent again now."
	}
	s.render(w, r, http.StatusOK, "notifications", p)
}

// retryNotice puts a failed notification back into the outbox.
func (s *server) retryNotice(w http.ResponseWriter, r *http.Request) {
	id, ok := rowID(r)
	if !ok {
		s.fail(w, r, "notification", ops.ErrNotFound)
		return
	}
	if err := s.desk.RetryNotification(r.Context(), by(r), id); err != nil {
		s.fail(w, r, "notification", err)
		return
	}
	http.Redirect(w, r, "/notifications?status=pending&done=again", http.StatusSeeOther)
}
