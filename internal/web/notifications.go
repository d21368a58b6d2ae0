package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/postmortem"
	"claudeops/internal/store"
)

func (s *server) notifications(r *http.Request) (page, error) {
	status := ops.NoticeStatus(cmp.Or(queried(r, "status"), "all"))
	view, err := listOf(s, r, func(ctx context.Context, before int64, limit int) ([]ops.Notice, error) {
		f := store.NoticeFilter{Status: status, Before: before, Limit: limit}
		if status == "all" {
			f.Status = ""
		}
		return s.Store.NoticeList(ctx, f)
	}, func(n ops.Notice) int64 { return n.ID }, api.NotificationRow)
	for _, one := range []struct {
		status      ops.NoticeStatus
		word, empty string
	}{
		{"all", "All", "No notifications yet"},
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
	if view.Tab == "" || errors.Is(err, ops.ErrNotFound) {
		return page{}, noSuch("No such list of notifications. A status is all, dead, pending, sent or skipped.")
	}
	p := page{Title: "Notifications", Nav: "events", Body: struct {
		listView[api.Notification]
		Targets []string
		MayAdd  bool
	}{view, s.Targets, s.mayConfigure(r)}}
	switch queried(r, "done") {
	case "again":
		p.Flash = "The notification is sent again now."
	case "test":
		p.Flash = "A test is on its way. Who got it is in the list below."
	}
	return p, err
}

// testNotice sends a test to whom every other notice of its kind goes.
func (s *server) testNotice(r *http.Request) (string, error) {
	return "/notifications?status=all&done=test", s.desk.TestNotification(r.Context())
}

// untold says whether the newest notices reached nobody; empty if they reached somebody.
func (s *server) untold(ctx context.Context) (string, error) {
	const looked = 20
	notices, err := s.Store.NoticeList(ctx, store.NoticeFilter{Limit: looked})
	if err != nil {
		return "", fmt.Errorf("list notices: %w", err)
	}
	slices.Reverse(notices)
	return postmortem.ToldBy(notices).Nobody, nil
}

// retryNotice puts a failed notification back into the outbox.
func (s *server) retryNotice(r *http.Request) (string, error) {
	return "/notifications?status=pending&done=again", s.desk.RetryNotification(r.Context(), by(r), rowID(r))
}
