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

func routed(r *rows, router Router, unanswered bool) *Outbox {
	return NewOutbox(OutboxOptions{
		Store: r, Sender: router, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Route: router.Route, Rule: router.Rule,
		Escalate: func(_ context.Context, n ops.Notice) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.ContainsFunc(r.notices, func(o ops.Notice) bool { return o.Key == n.Key }) {
				n.ID = int64(len(r.notices) + 1)
				r.notices = append(r.notices, n)
			}
			return nil
		},
		Unanswered: func(context.Context, ops.Notice) (bool, error) { return unanswered, nil },
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
		}}, true), nil)
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

func TestADigestOfARouteIsOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := &rows{}, &sending{begin: time.Now()}
		stop := start(t, routed(r, Router{Routes: []Routed{
			{NoticeRoute: ops.NoticeRoute{Name: "log", Digest: 6 * time.Hour}, Sender: s.by("log")},
		}}, true), nil)
		defer stop()
		r.write(ops.Notice{Title: "Claude Ops: one", Level: ops.LevelInfo})
		<-time.After(2*time.Hour + time.Second)
		r.write(ops.Notice{Title: "Claude Ops: two", Level: ops.LevelWarning})
		r.write(ops.Notice{Title: "Claude Ops: may Tier 2 start?", Level: ops.LevelWarning, Kind: ops.NoticeReview})
		<-time.After(5 * time.Hour)
		want := []string{"2h1m0s log: Claude Ops: may Tier 2 start?", "6h0m0s log: Claude Ops: 2 notices, first: two"}
		if !slices.Equal(s.sent, want) {
			t.Errorf("sent %q", s.sent)
		}
	})
}

func TestASecondPersonIsToldIfNobodyAnswers(t *testing.T) {
	for _, unanswered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, s := &rows{}, &sending{begin: time.Now()}
			route := ops.NoticeRoute{Name: "phone", EscalateAfter: 15 * time.Minute, EscalateURLs: []string{"json://x"}}
			router := Router{
				First: s.by("first"), Routes: []Routed{{NoticeRoute: route, Sender: s.by("phone")}}, Escalations: map[string]Sender{"phone": s.by("boss")},
			}
			r.write(ops.Notice{Title: "Claude Ops: Your approval is needed", Level: ops.LevelCritical, Kind: ops.NoticeApproval})
			r.write(ops.Notice{Title: "Claude Ops: web has recovered", Level: ops.LevelInfo, Kind: ops.NoticeResolved})
			stop := start(t, routed(r, router, unanswered), nil)
			<-time.After(10 * time.Minute)
			stop() // a restart in between changes nothing
			defer start(t, routed(r, router, unanswered), nil)()
			<-time.After(24 * time.Hour)
			want := []string{"0s phone: Claude Ops: Your approval is needed", "0s phone: Claude Ops: web has recovered"}
			if unanswered {
				want = append(want, "15m0s boss: Claude Ops: Nobody answered for 15m: Your approval is needed")
			} else if n := r.notice(3); n.Status != ops.NoticeSkipped || n.Error != "somebody answered before" || len(r.said()) != 0 {
				t.Errorf("the escalation is %+v, said %q", n, r.said())
			}
			if !slices.Equal(s.sent, want) || len(r.notices) != 3 {
				t.Errorf("sent %q of %d", s.sent, len(r.notices))
			}
		})
	}
}

func TestARetryIsEscalatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := &rows{}, &sending{begin: time.Now()}
		route := ops.NoticeRoute{Name: "phone", EscalateAfter: 15 * time.Minute, EscalateURLs: []string{"json://x"}}
		broken := send(func(context.Context, ops.Notice) error { return fmt.Errorf("no network") })
		r.write(ops.Notice{Title: "Claude Ops: help", Level: ops.LevelCritical, Kind: ops.NoticeNeedsHuman})
		router := Router{Routes: []Routed{{NoticeRoute: route, Sender: broken}}, Escalations: map[string]Sender{"phone": s.by("boss")}}
		defer start(t, routed(r, router, true), nil)()
		<-time.After(24 * time.Hour)
		// The first person could not be reached at all.
		if want := []string{"15m0s boss: Claude Ops: Nobody answered for 15m: help"}; !slices.Equal(s.sent, want) {
			t.Errorf("sent %q", s.sent)
		}
	})
}

func TestTheEscalationOfARemovedRouteIsNotLost(t *testing.T) {
	var l letters
	n := ops.Notice{Target: ops.EscalationOf("gone"), Title: "x"}
	for want, r := range map[string]Router{
		"second": {First: l.by("first"), Second: l.by("second")},
		"first":  {First: l.by("first"), Routes: []Routed{{NoticeRoute: ops.NoticeRoute{Name: "gone"}}}},
	} {
		if got := r.Route(n); got != want {
			t.Errorf("it goes by %q, want %q", got, want)
		}
	}
}
