package web

import (
	"fmt"
	"net/http"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type notificationsView struct {
	Tabs    []option
	Notices []noticeView
	Dead    bool // the failed ones are shown
	Several bool
	Empty   string
	Pager   pager
}

// noticeView is a notification and its delivery status.
type noticeView struct {
	ID          int64
	Title       string
	Body        string
	Kind        string
	Service     string
	Environment string
	Level       badge
	Status      badge
	Created     stamp
	Sent        *stamp
	Next        *stamp // time of the next attempt
	Attempts    int
	Error       string
	Cycle       *cycleRef
	Second      bool   // for the second contact, used when the first does not answer
	Retry       string // URL for another attempt; empty if there can be none
}

func (s *server) notifications(w http.ResponseWriter, r *http.Request) {
	before, ok := cursor(r)
	status := ops.NoticeStatus(queried(r, "status"))
	if status == "" {
		status = ops.NoticeDead
	}
	view := notificationsView{Dead: status == ops.NoticeDead, Several: len(s.Environments) > 1}
	known := false
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
			known, view.Empty = true, one.empty
		}
		view.Tabs = append(view.Tabs, option{Word: one.word, Path: "/notifications?status=" + string(one.status), Current: current})
	}
	if !ok || !known {
		s.errorPage(w, r, http.StatusNotFound, "No such list of notifications. A status is dead, pending, sent or skipped.")
		return
	}
	found, err := s.Store.NoticeList(r.Context(), store.NoticeFilter{Status: status, Before: before, Limit: listed + 1})
	if err != nil {
		s.fail(w, r, "list of notifications", err)
		return
	}
	found, view.Pager = paged(r, found, func(row ops.Notice) int64 { return row.ID })
	m := moment{s.Clock()}
	for _, n := range found {
		view.Notices = append(view.Notices, m.notice(n))
	}
	p := page{Title: "Notifications", Nav: "events", Body: view}
	if queried(r, "done") == "again" {
		p.Flash = "The notification is sent again now."
	}
	s.render(w, r, http.StatusOK, "notifications", p)
}

func (m moment) notice(n ops.Notice) noticeView {
	view := noticeView{
		ID: n.ID, Title: firstLine(n.Title, 200), Body: plain(n.Body), Kind: plain(string(n.Kind)), Service: plain(n.Service),
		Environment: plain(n.Environment), Level: levelBadge(n.Level), Status: noticeBadge(n.Status), Created: m.stamp(n.CreatedAt),
		Sent: m.maybe(n.SentAt), Error: plain(n.Error), Attempts: n.Attempts, Second: n.Target == ops.TargetSecond,
	}
	if n.CycleID != nil {
		ref := refer(*n.CycleID)
		view.Cycle = &ref
	}
	switch n.Status {
	case ops.NoticePending:
		view.Next = m.maybe(&n.NextAt)
	case ops.NoticeDead, ops.NoticeSkipped:
		view.Retry = fmt.Sprintf("/notifications/%d/retry", n.ID)
	case ops.NoticeSent:
	}
	return view
}

func noticeBadge(status ops.NoticeStatus) badge {
	switch status {
	case ops.NoticePending:
		return badge{"run", "clock", "Waiting"}
	case ops.NoticeSent:
		return badge{"ok", "circle-check", "Sent"}
	case ops.NoticeDead:
		return badge{"bad", "octagon-x", "Failed"}
	case ops.NoticeSkipped:
		return badge{"unknown", "bell-off", "No target"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(status))}
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
