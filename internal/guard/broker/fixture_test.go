package broker_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
	"claudeops/test/dockertest"
)

// ledger keeps what it is given, and refuses when a limit is used up.
type ledger struct {
	mu      sync.Mutex
	records []ops.GuardRecord
	wanted  []ops.Reservation
	limit   int // of reservations; 0 is none
	err     error
}

func (l *ledger) Reserve(_ context.Context, r ops.GuardRecord, want []ops.Reservation) (ops.GuardRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return ops.GuardRecord{}, l.err
	}
	if r.Allowed && len(want) > 0 {
		if l.limit > 0 && len(l.wanted) >= l.limit {
			r.Allowed, r.Rule, r.Reason = false, "cooldown", "The cooldown of web permits the next restart at 2026-03-14T16:00:00Z."
		} else {
			l.wanted = append(l.wanted, want...)
		}
	}
	l.records = append(l.records, r)
	return r, nil
}

func (l *ledger) reserved() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, w := range l.wanted {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", w.Service, w.Action, w.Phase)))
	}
	return out
}

func (l *ledger) refused(rule string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.records {
		if !r.Allowed && r.Rule == rule {
			n++
		}
	}
	return n
}

// setup is what a test says about a session.
type setup struct {
	engine   string
	tier     ops.Tier
	services []broker.Service
	others   []broker.Service
	dryRun   bool
	may      func() error
	ledger   *ledger
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func named(names ...string) []broker.Service {
	var out []broker.Service
	for _, n := range names {
		out = append(out, broker.Service{Name: n})
	}
	return out
}

// open opens the Docker socket of a session and returns its path.
func open(t *testing.T, o setup) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "broker-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if o.ledger == nil {
		o.ledger = &ledger{}
	}
	b, err := broker.New(broker.Options{
		Engine: o.engine, Dir: dir, Ledger: o.ledger, May: o.may, Clock: time.Now, Logger: discard(),
		Redact: func(s string) string { return strings.ReplaceAll(s, "topsecret", "[redacted: secret]") },
	})
	must(t, err)
	s, err := b.Open(t.Context(), broker.Scope{
		Session: ops.Session{ID: 7, CycleID: 3, Tier: o.tier}, DryRun: o.dryRun, Others: o.others,
		Services: func() []broker.Service { return o.services },
	})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Socket()); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	return s.Socket()
}

// call makes one request and returns its status and answer.
func call(t *testing.T, socket, method, uri, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://docker"+uri, strings.NewReader(body))
	must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := dockertest.Client(socket).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, uri, err)
	}
	text, err := dockertest.Body(resp)
	if err != nil {
		t.Fatalf("%s %s: %v", method, uri, err)
	}
	return resp.StatusCode, text
}

// raw sends bytes as they are and returns the status of the first answer; 0 if there is none.
func raw(t *testing.T, socket, text string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
	must(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = conn.Write([]byte(text)) // it may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
