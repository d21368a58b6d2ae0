package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		{ops.NoticeRoute{Name: "quiet", Kinds: []ops.NoticeKind{"resolved"}}, nil},
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
	if _, err := r.Send(t.Context(), ops.Notice{Kind: "resolved", Environment: "lab"}); !errors.Is(err, ErrMuted) {
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

// Who took a notice is on record with its route and time, also when another target failed, and is not sent to again.
func TestDeliveriesAreOnRecord(t *testing.T) {
	broken := true
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "second-topic") && broken {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got = append(got, string(body))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	r := &rows{}
	r.add("web is down")
	router := Router{First: NewSender(AppriseOptions{URLs: []string{"ntfy://" + host + "/first-topic/second-topic"}}, Native{})}
	o := NewOutbox(OutboxOptions{
		Store: r, Sender: router, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Route: router.Route,
	})
	must(t, o.Drain(t.Context()))
	n := r.notice(1)
	if n.Status != ops.NoticePending || len(n.Deliveries) != 1 || n.Deliveries[0].Route != "first" || n.Deliveries[0].At.IsZero() ||
		!strings.HasPrefix(n.Deliveries[0].To, "ntfy at "+host) || strings.Contains(n.Deliveries[0].To, "topic)") {
		t.Fatalf("after the first attempt: %s %+v", n.Status, n.Deliveries)
	}
	broken = false
	r.notices[0].NextAt = time.Time{}
	must(t, o.Drain(t.Context()))
	if n := r.notice(1); n.Status != ops.NoticeSent || len(n.Deliveries) != 2 || len(got) != 2 {
		t.Errorf("after the second: %s %+v, sent %d times", n.Status, n.Deliveries, len(got))
	}
}

func TestNamesOfTargetsHoldNoSecret(t *testing.T) {
	s := NewSender(AppriseOptions{URLs: []string{
		"ntfys://tk_secret@ntfy.example.org/hidden-topic", "tgram://123456:secrettoken/42", "discord://webhookid/secrettoken",
		"mailto://ada:secret@example.org",
	}}, Native{})
	names := strings.Join(s.Names(), "; ")
	for _, secret := range []string{"secret", "hidden", "webhookid", "ada"} {
		if strings.Contains(names, secret) {
			t.Errorf("%q is in the names: %s", secret, names)
		}
	}
	if !strings.Contains(names, "Telegram chat 42") || !strings.Contains(names, "discord, mailto at example.org") {
		t.Errorf("names are %s", names)
	}
}

// The message that something is over begins with its story; the row keeps its own text.
func TestAMessageSentAloneHasItsStory(t *testing.T) {
	r := &rows{}
	r.add("web is well again", "db is down")
	var sent []ops.Notice
	o := NewOutbox(OutboxOptions{
		Store: r, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Sender: send(func(_ context.Context, n ops.Notice) error { sent = append(sent, n); return nil }),
		Story: func(_ context.Context, n ops.Notice) string {
			if n.ID == 1 {
				return "Down 22 s · verified"
			}
			return ""
		},
	})
	must(t, o.Drain(t.Context()))
	if len(sent) != 2 || !strings.HasPrefix(sent[0].Body, "Down 22 s · verified\n\n") || strings.Contains(sent[1].Body, "Down 22 s") ||
		strings.Contains(r.notice(1).Body, "Down 22 s") {
		t.Errorf("sent %+v", sent)
	}
}
