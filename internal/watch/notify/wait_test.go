package notify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// sending keeps what was sent, and when after the begin.
type sending struct {
	begin time.Time
	sent  []string
}

func (s *sending) by(name string) Sender {
	return send(func(_ context.Context, n ops.Notice) error {
		s.sent = append(s.sent, fmt.Sprintf("%s %s: %s", time.Since(s.begin), name, n.Title))
		return nil
	})
}

func routed(r *rows, router Router) *Outbox {
	return NewOutbox(OutboxOptions{
		Store: r, Sender: router, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Route: router.Route, Quiet: router.Quiet,
	})
}

func (r *rows) write(n ops.Notice) {
	r.add(n.Title)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.notices[len(r.notices)-1]
	n.ID, n.CycleID, n.Body, n.Status, n.NextAt, n.CreatedAt = last.ID, last.CycleID, last.Body, last.Status, last.NextAt, time.Now()
	*last = n
}

func TestQuietHoursOfARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		r, s := &rows{}, &sending{begin: time.Now()}
		quiet := &ops.QuietHours{From: 22 * time.Hour, To: 7 * time.Hour, Zone: time.UTC}
		stop := start(t, routed(r, Router{First: s.by("first"), Routes: []Routed{
			{NoticeRoute: ops.NoticeRoute{Name: "night", Services: []string{"web"}, Quiet: quiet}, Sender: s.by("night")},
		}}), nil)
		defer stop()
		synctest.Wait()
		for _, n := range []ops.Notice{
			{Title: "web is degraded", Service: "web", Level: ops.LevelWarning},
			{Title: "web recovered", Service: "web", Level: ops.LevelInfo},
			{Title: "web is down", Service: "web", Level: ops.LevelCritical},
			{Title: "may Tier 2 start?", Service: "web", Level: ops.LevelWarning, Kind: ops.NoticeApproval},
			{Title: "db is degraded", Service: "db", Level: ops.LevelWarning},
		} {
			r.write(n)
		}
		<-time.After(8 * time.Hour)
		want := []string{
			"1m0s night: web is down", "1m0s night: may Tier 2 start?", "1m0s first: db is degraded",
			"7h0m0s night: web is degraded", "7h0m0s night: web recovered",
		}
		if !slices.Equal(s.sent, want) {
			t.Errorf("sent %q", s.sent)
		}
		if n := r.notice(1); n.Attempts != 1 || n.Status != ops.NoticeSent {
			t.Errorf("waiting counted as an attempt: %+v", n)
		}
	})
}
