package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func outboxCases() []testCase {
	return []testCase{
		{"a notice is due from its time on", noticeIsDueFromItsTime},
		{"a failed attempt is tried again later", failedAttemptIsTriedAgain},
		{"a notice is settled once, with its event", noticeIsSettledOnce},
		{"an unknown notice is not found", unknownNoticeIsNotFound},
	}
}

func (f *Fixture) notice(t *testing.T, title string, next time.Time) ops.Notice {
	t.Helper()
	n := ops.Notice{Kind: "test", Level: ops.LevelCritical, Title: title, Body: "what to do", NextAt: next}
	id, err := f.Store.AddNotice(t.Context(), n)
	must(t, err)
	n.ID, n.Status, n.CreatedAt = id, ops.NoticePending, Start
	return n
}

func noticeIsDueFromItsTime(t *testing.T, f *Fixture) {
	later := f.notice(t, "later", Start.Add(time.Minute))
	first := f.notice(t, "first", Start.Add(-time.Minute))
	now := f.notice(t, "now", Start)
	plain := f.notice(t, "plain", time.Time{})
	plain.NextAt = Start

	due := func(at time.Time, limit int) []ops.Notice {
		t.Helper()
		got, err := f.Store.DueNotices(t.Context(), at, limit)
		must(t, err)
		return got
	}
	equal(t, "due at the start", due(Start, 10), []ops.Notice{first, now, plain})
	equal(t, "due one", due(Start, 1), []ops.Notice{first})
	equal(t, "due later", noticeIDs(due(Start.Add(time.Hour), 10)), []int64{first.ID, now.ID, plain.ID, later.ID})
	pending, err := f.Store.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 4)
	all, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{Limit: 2})
	must(t, err)
	equal(t, "newest", all, []ops.Notice{plain, now})
}

func failedAttemptIsTriedAgain(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Attempts, n.NextAt, n.Error = 1, Start.Add(time.Minute), "connection refused"
	n.Deliveries = []ops.Delivery{{Route: "first", To: "ntfy at ntfy.sh", At: Start}}
	must(t, f.Store.SettleNotice(t.Context(), n, nil))
	got, err := f.Store.DueNotices(t.Context(), Start, 10)
	must(t, err)
	equal(t, "due at once", len(got), 0)
	got, err = f.Store.DueNotices(t.Context(), Start.Add(time.Minute), 10)
	must(t, err)
	equal(t, "due later", got, []ops.Notice{n})
}

func noticeIsSettledOnce(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Status, n.Attempts, n.SentAt = ops.NoticeSent, 1, ops.Ptr(Start.Add(time.Second))
	event := &ops.Event{Level: ops.LevelInfo, Kind: "notice_sent", Message: "sent"}
	must(t, f.Store.SettleNotice(t.Context(), n, event))
	n.Status = ops.NoticeDead
	wantErr(t, f.Store.SettleNotice(t.Context(), n, event), ops.ErrConflict)
	n.Status = ops.NoticeSent
	got, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", got, []ops.Notice{n})
	events, err := f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", events, []ops.Event{{ID: events[0].ID, At: Start, Level: ops.LevelInfo, Kind: "notice_sent", Message: "sent"}})
	pending, err := f.Store.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 0)
}

func unknownNoticeIsNotFound(t *testing.T, f *Fixture) {
	err := f.Store.SettleNotice(t.Context(), ops.Notice{ID: 999, Status: ops.NoticeSent},
		&ops.Event{Level: ops.LevelInfo, Kind: "notice_sent"})
	wantErr(t, err, ops.ErrNotFound)
	events, err := f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", len(events), 0)
}
