package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// letters keeps what was sent by whom.
type letters struct{ sent []string }

func (l *letters) by(name string) Sender {
	return send(func(_ context.Context, n ops.Notice) error {
		l.sent = append(l.sent, name+" "+n.Title)
		return nil
	})
}

func TestANoticeGoesTheFirstWayThatMatches(t *testing.T) {
	var l letters
	r := Router{First: l.by("first"), Second: l.by("second"), Routes: []Routed{
		{ops.NoticeRoute{Name: "quiet", Kinds: []ops.NoticeKind{"resolved"}, Environment: "lab"}, nil},
		{ops.NoticeRoute{Name: "media", Services: []string{"arr-*", "jelly*n"}}, l.by("media")},
		{ops.NoticeRoute{Name: "night", Level: ops.LevelCritical}, l.by("night")},
		{ops.NoticeRoute{Name: "steps", Kinds: []ops.NoticeKind{"escalated"}, Services: []string{"web"}}, l.by("steps")},
	}}
	for _, tt := range []struct {
		n    ops.Notice
		want string
	}{
		{ops.Notice{Level: ops.LevelInfo}, "first"},
		{ops.Notice{Level: ops.LevelWarning, Service: "web"}, "first"},
		{ops.Notice{Level: ops.LevelCritical, Service: "web"}, "route night"},
		{ops.Notice{Level: ops.LevelCritical, Service: "arr-sonarr"}, "route media"},
		{ops.Notice{Level: ops.LevelInfo, Service: "jellyfin"}, "route media"},
		{ops.Notice{Level: ops.LevelInfo, Service: "jellyfin2"}, "first"},
		{ops.Notice{Level: ops.LevelInfo, Kind: "resolved", Environment: "lab"}, "route quiet"},
		{ops.Notice{Level: ops.LevelInfo, Kind: "resolved", Environment: "home"}, "first"},
		{ops.Notice{Level: ops.LevelCritical, Target: ops.TargetSecond}, "second"},
		{ops.Notice{Level: ops.LevelWarning, Kind: "escalated", Service: "web"}, "route steps"},
		{ops.Notice{Level: ops.LevelCritical, Kind: "escalated", Service: "web"}, "route steps"},
		{ops.Notice{Level: ops.LevelWarning, Kind: "escalated", Service: "jellyfin"}, "nobody"},
		{ops.Notice{Level: ops.LevelCritical, Kind: "escalated"}, "nobody"},
	} {
		if got := r.Route(tt.n); got != tt.want {
			t.Errorf("%+v goes by %q, want %q", tt.n, got, tt.want)
		}
	}
	if err := r.Send(t.Context(), ops.Notice{Kind: "resolved", Environment: "lab"}); !errors.Is(err, ErrMuted) {
		t.Errorf("a muted notice gives %v", err)
	}
	r.Second = nil
	if got := r.Route(ops.Notice{Target: ops.TargetSecond}); got != "first" {
		t.Errorf("without a second target it goes by %q", got)
	}
}

func TestAMutedNoticeIsSkippedWithoutAWord(t *testing.T) {
	r := &rows{}
	r.add("web is well again")
	router := Router{Routes: []Routed{{ops.NoticeRoute{Name: "quiet"}, nil}}}
	must(t, outbox(r, router).Drain(t.Context()))
	if n := r.notice(1); n.Status != ops.NoticeSkipped || len(r.said()) != 0 {
		t.Errorf("it is %s, and %v is said", n.Status, r.said())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestManyNoticesAtOnceAreOneMessage(t *testing.T) {
	r := &rows{}
	for i := range 30 {
		r.add(fmt.Sprintf("Claude Ops: service %d is down", i))
	}
	r.notices[29].Level = ops.LevelCritical
	r.notices[3].Attempts = 1
	var sent []ops.Notice
	o := NewOutbox(OutboxOptions{
		Store: r, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Route: Router{}.Route,
		Link: func(_ context.Context, n ops.Notice) string {
			return fmt.Sprintf("https://ops.example.org/cycles/%d", *n.CycleID)
		},
		Sender: send(func(_ context.Context, n ops.Notice) error { sent = append(sent, n); return nil }),
	})
	must(t, o.Drain(t.Context()))
	if len(sent) != 2 {
		t.Fatalf("%d messages for 30 notices, one of them tried again", len(sent))
	}
	if n := sent[0]; n.Level != ops.LevelCritical || n.Title != "Claude Ops: 29 notices, first: service 29 is down" ||
		strings.Count(n.Body, " is down: https://ops.example.org/cycles/9\n") != 29 {
		t.Errorf("sent %s %q\n%s", n.Level, n.Title, n.Body)
	}
	for i := range 30 {
		if n := r.notice(i + 1); n.Status != ops.NoticeSent || strings.Contains(n.Body, "https://") {
			t.Errorf("notice %d is %s: %s", i+1, n.Status, n.Body)
		}
	}
}

func TestFewNoticesAreSentEachOnItsOwn(t *testing.T) {
	r := &rows{}
	r.add("a", "b", "c")
	var sent int
	o := NewOutbox(OutboxOptions{
		Store: r, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Route: Router{}.Route,
		Sender: send(func(context.Context, ops.Notice) error { sent++; return nil }),
	})
	must(t, o.Drain(t.Context()))
	if sent != 3 {
		t.Errorf("%d messages", sent)
	}
}

func TestPingTellsWhatWentWrongWithoutTheAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/secret-token" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	must(t, Ping(t.Context(), server.Client(), server.URL+"/secret-token"))
	if err := Ping(t.Context(), server.Client(), server.URL+"/other-token"); err == nil || strings.Contains(err.Error(), "other-token") {
		t.Errorf("got %v", err)
	}
	server.Close()
	if err := Ping(t.Context(), server.Client(), server.URL+"/secret-token"); err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("got %v", err)
	}
}
