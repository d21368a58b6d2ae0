package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

func readinessOf(free int64) *readiness {
	s := newReadiness("/state")
	s.free = func(string) (int64, error) { return free, nil }
	return s
}

func TestNothingStartsWithoutRoomForTheJournal(t *testing.T) {
	s := readinessOf(63 << 20)
	err := s.hold(t.Context(), ops.Tier1)
	if err == nil || !strings.Contains(err.Error(), "only 63 MB are free in /state") {
		t.Errorf("held by %v", err)
	}
	if err := readinessOf(64<<20).hold(t.Context(), ops.Tier1); err != nil {
		t.Errorf("held by %v", err)
	}
	s.free = func(string) (int64, error) { return 0, errors.New("no such folder") }
	if s.trouble() == nil {
		t.Error("what cannot be read counts as room")
	}
}

func TestRepairsWaitForTheCheckOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := readinessOf(1 << 40)
		if err := s.hold(t.Context(), ops.Tier1); err != nil {
			t.Fatalf("Tier 1 waits: %v", err)
		}
		held := make(chan error, 1)
		go func() { held <- s.hold(t.Context(), ops.Tier2) }()
		synctest.Wait()
		select {
		case err := <-held:
			t.Fatalf("Tier 2 did not wait: %v", err)
		default:
		}
		s.check(t.Context(), func(context.Context) error { return nil })
		if err := <-held; err != nil {
			t.Errorf("Tier 2 is held by %v", err)
		}
	})
}

func TestADamagedDatabaseStopsEveryTierForGood(t *testing.T) {
	s := readinessOf(1 << 40)
	s.check(t.Context(), func(context.Context) error { return errors.New("page 7 is never used") })
	s.damaged(errors.New("another"))
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		err := s.hold(t.Context(), tier)
		if err == nil || !strings.Contains(err.Error(), "page 7") || !strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("%s is held by %v", tier, err)
		}
	}
}

func TestAShutdownDuringTheCheckIsNoDamage(t *testing.T) {
	s := readinessOf(1 << 40)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.check(ctx, func(ctx context.Context) error { return ctx.Err() })
	if err := s.trouble(); err != nil {
		t.Errorf("trouble is %v", err)
	}
	if err := readinessOf(1<<40).hold(ctx, ops.Tier3); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped wait returns %v", err)
	}
}

func TestTroubleIsToldWhenItBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(1 << 40)
		s := readinessOf(0)
		s.free = func(string) (int64, error) { return free.Load(), nil }
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 10)
		done := make(chan struct{})
		go func() { defer close(done); s.watch(ctx, func() {}, func(err error) { told <- err }) }()
		synctest.Wait()
		for range 3 {
			free.Store(5 << 20)
			time.Sleep(3 * readinessInterval) //nolint:forbidigo // the clock of the bubble
			free.Store(1 << 40)
			time.Sleep(3 * readinessInterval) //nolint:forbidigo // the clock of the bubble
		}
		cancel()
		<-done
		close(told)
		n := 0
		for err := range told {
			if (err != nil) != (n%2 == 0) {
				t.Errorf("%d. told: %v", n, err)
			}
			n++
		}
		if n != 6 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestServeSaysThatTheDatabaseIsDamaged(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "claudeops.db"), []byte(strings.Repeat("garbage ", 1000)), 0o600))
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_, reason := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(dir, "claudeops.db")}))
	if !store.Damaged(reason) {
		t.Fatalf("opening garbage says %v", reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Config: &config.Config{}, Logger: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- o.refuse(ctx, ln, reason) }()
	for path, word := range map[string]string{"/": "<h1>The database is damaged</h1>", "/healthz": "restore a backup", "/api/v1/stats": "damaged"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+path, http.NoBody)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), word) ||
			strings.Contains(string(body), dir) || strings.Contains(string(body), ".db") {
			t.Errorf("%s answers %d: %s, %v", path, resp.StatusCode, body, err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("it ends with %v", err)
	}
}

func TestAnyOtherReasonNotToStartEndsAtOnce(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	reason := errors.New("the folder is not mine")
	if err := (Options{}).refuse(t.Context(), ln, reason); !errors.Is(err, reason) {
		t.Errorf("it ends with %v", err)
	}
	if ln.Close() == nil {
		t.Error("the listener was left open")
	}
}

func TestPagesTellWhatIsKnownOfTheDatabase(t *testing.T) {
	h := &ground{readiness: readinessOf(1 << 40)}
	if got := h.readiness.state(); got != databaseChecking || !strings.Contains(h.trouble(), "is being checked") || h.unfit() != nil {
		t.Errorf("while it is checked: %s, %q, %v", got, h.trouble(), h.unfit())
	}
	h.readiness.check(t.Context(), func(context.Context) error { return nil })
	if got := h.readiness.state(); got != databaseIntact || h.trouble() != "" || h.unfit() != nil {
		t.Errorf("readiness: %s, %q, %v", got, h.trouble(), h.unfit())
	}
	broken := errors.New("page 7 is torn")
	h = &ground{readiness: readinessOf(1 << 40)}
	h.readiness.check(t.Context(), func(context.Context) error { return broken })
	if got := h.readiness.state(); got != databaseDamaged || !strings.Contains(h.trouble(), "page 7") || h.unfit() == nil || strings.Contains(h.unfit().Error(), "page 7") {
		t.Errorf("damaged: %s, %q, %v", got, h.trouble(), h.unfit())
	}
}

func TestOutputIsDroppedAndCountedWhileTheDiskIsNearlyFull(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(dir, "claudeops.db")}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	session := f.RunningSession(t, "home")
	scarce := false
	j := &journal{
		Journal: s.Journal, spool: newSpool(filepath.Join(dir, "spool")), host: storetest.Host, log: slog.New(slog.DiscardHandler),
		scarce: func() bool { return scarce },
	}
	seq := int64(0)
	add := func(n int) {
		t.Helper()
		var lines []ops.Line
		for range n {
			seq++
			lines = append(lines, ops.Line{Seq: seq, At: f.At, Text: fmt.Sprintf("line %05d", seq)})
		}
		must(t, j.AppendTranscript(t.Context(), f.Owner, session.ID, lines))
	}
	add(10)
	scarce = true
	add(20)
	add(5)
	scarce = false
	add(3)
	scarce = true
	add(7)
	scarce = false
	must(t, j.deliver(t.Context()))
	lines, err := s.Journal.Transcript(t.Context(), session.ID, 0, 100)
	must(t, err)
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprint(l.Seq))
	}
	if want := "1 2 3 4 5 6 7 8 9 10 11 36 37 38 39"; strings.Join(got, " ") != want {
		t.Errorf("stored lines %s, want %s", strings.Join(got, " "), want)
	}
	if !strings.Contains(lines[10].Text, "25 lines (") || !strings.Contains(lines[10].Text, "nearly full") || !strings.Contains(lines[14].Text, "7 lines") {
		t.Errorf("the marks are %q and %q", lines[10].Text, lines[14].Text)
	}
	if n, err := s.Journal.TranscriptCount(t.Context(), session.ID); err != nil || n != seq {
		t.Errorf("counted %d of %d lines, %v", n, seq, err)
	}
}

func TestADatabaseThatIsGoneOrCannotBeWrittenEndsWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		fault      error
		does, says string
	}{
		{store.ErrReplaced, "db restore", "the database file was removed or replaced"},
		{store.ErrUnwritable, "repair the file system", "the file system of the database is read-only or cannot be written"},
	} {
		s := readinessOf(1 << 40)
		var gone error
		s.present = func() error { return gone }
		running, free := s.Bound(t.Context())
		defer free()
		gone = fmt.Errorf("%w: /srv/secret", tt.fault)
		err := s.trouble()
		if err == nil || !strings.Contains(err.Error(), tt.does) || s.hold(t.Context(), ops.Tier1) == nil {
			t.Fatalf("trouble is %v", err)
		}
		// Whoever is woken up by it reads what happened and all of what to do.
		told := notice.CannotStart(err.Error()).Body
		if !strings.Contains(strings.ToLower(told), tt.says+", so nothing is stored") || !strings.Contains(told, tt.does) || !strings.Contains(told, " again (") {
			t.Errorf("people are told %q", told)
		}
		h := &ground{readiness: s}
		if got := h.unfit().Error(); got != tt.says {
			t.Errorf("strangers are told %q", got)
		}
		s.follow(err)
		<-running.Done()
		gone = nil
		s.follow(s.trouble())
		again, freeAgain := s.Bound(t.Context())
		defer freeAgain()
		if again.Err() != nil {
			t.Errorf("%v is over, and nothing may run", tt.fault)
		}
	}
}

// TestTheConfiguredSettleTimeIsUsed holds that an operator may also make the supervisor wait less than it would by default.
func TestTheConfiguredSettleTimeIsUsed(t *testing.T) {
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(t.TempDir(), "claudeops.db")}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	e := ops.Environment{Name: "default"}
	e.Policy.Inventory.Services = []ops.Service{{Name: "quick", Settle: 3 * time.Second}, {Name: "slow", Settle: time.Minute}, {Name: "any"}}
	for _, c := range []struct {
		services []string
		want     time.Duration
	}{
		{[]string{"quick"}, 3 * time.Second},
		{[]string{"quick", "slow"}, time.Minute},
		{[]string{"quick", "any"}, settleTime},
		{[]string{"unknown"}, settleTime},
		{nil, settleTime},
	} {
		h := &plan{envs: []ops.Environment{e}, ground: &ground{store: s}}
		h.Logger = slog.New(slog.DiscardHandler)
		if got := (&probeHealth{p: h}).SettleTime(t.Context(), "default", c.services); got != c.want {
			t.Errorf("%v: %s, want %s", c.services, got, c.want)
		}
	}
}

// TestTheClockGoesOnWhileTheMachineIsSuspended: a reading of the monotonic clock in a time would decide every comparison.
func TestTheClockGoesOnWhileTheMachineIsSuspended(t *testing.T) {
	h := newGround(t.Context(), Options{Clock: time.Now})
	defer func() { must(t, h.close()) }()
	if now := h.Clock().String(); strings.Contains(now, "m=") {
		t.Errorf("%s has a reading of the monotonic clock", now)
	}
}
