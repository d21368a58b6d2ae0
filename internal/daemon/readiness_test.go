package daemon

import (
	"context"
	"errors"
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
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func readinessOf(free int64) *readiness {
	s := newReadiness("/state", 64<<20)
	s.free = func(string) (int64, error) { return free, nil }
	return s
}

func TestNothingStartsWithoutRoomForTheJournal(t *testing.T) {
	s := readinessOf(63 << 20)
	err := s.hold(t.Context(), ops.Tier1)
	if err == nil || !strings.Contains(err.Error(), "only 63 MB are free in /state") || !strings.Contains(err.Error(), "host.disk_reserve") {
		t.Errorf("held by %v", err)
	}
	if err := readinessOf(64<<20).hold(t.Context(), ops.Tier1); err != nil {
		t.Errorf("held by %v", err)
	}
	off := readinessOf(0)
	off.reserve = 0
	if err := off.trouble(); err != nil {
		t.Errorf("held by %v although nobody asked", err)
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
	if err := newReadiness("/state", 0).hold(ctx, ops.Tier3); !errors.Is(err, context.Canceled) {
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
	_, reason := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "claudeops.db")})
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
