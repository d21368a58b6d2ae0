package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/store"
)

// heard is what a service told the other side of its connection.
func heard(t *testing.T, conn net.Conn, into chan<- string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			close(into)
			return
		}
		into <- string(buffer[:n])
	}
}

func TestSystemdGetsNoSignOfLifeFromADaemonWhoseLoopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		told := make(chan string, 1000)
		go heard(t, there, told)
		s := &Service{conn: here, watchdog: 2 * time.Minute, log: slog.New(slog.DiscardHandler)}
		var l loops
		schedule, engine := l.add("schedule"), l.add("engine")
		ctx, cancel := context.WithCancel(t.Context())
		go s.watch(ctx, &l)
		for range 20 { // ten minutes in which both work
			schedule()
			engine()
			time.Sleep(30 * time.Second) //nolint:forbidigo // of the fake clock
		}
		synctest.Wait()
		if n := len(told); n < 20 || n > 22 {
			t.Errorf("%d signs of life in ten minutes", n)
		}
		for range 20 {
			schedule()
			time.Sleep(30 * time.Second) //nolint:forbidigo // of the fake clock
		}
		synctest.Wait()
		if n := len(told); n > 24 {
			t.Errorf("%d signs of life, though the engine hangs", n)
		}
		engine()
		time.Sleep(30 * time.Second) //nolint:forbidigo // of the fake clock
		synctest.Wait()
		before := len(told)
		cancel()
		synctest.Wait()
		_ = here.Close()
		synctest.Wait()
		if before < 22 {
			t.Errorf("%d signs of life after the engine worked again", before)
		}
		for text := range told {
			if text != "WATCHDOG=1" {
				t.Errorf("told %q", text)
			}
		}
	})
}

func TestOnlyThisProcessSpeaksForTheService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer func() { _ = conn.Close() }()
	for name, c := range map[string]struct {
		pid  string
		want time.Duration
	}{
		"its own watchdog":       {strconv.Itoa(os.Getpid()), 30 * time.Second},
		"nobody's watchdog":      {"", 30 * time.Second},
		"another one's watchdog": {"1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", path)
			t.Setenv("WATCHDOG_USEC", "30000000")
			t.Setenv("WATCHDOG_PID", c.pid)
			s := NewService(slog.New(slog.DiscardHandler))
			if s == nil || s.watchdog != c.want {
				t.Fatalf("service is %+v", s)
			}
			//nolint:forbidigo // what children would inherit
			if left := os.Getenv("NOTIFY_SOCKET") + os.Getenv("WATCHDOG_USEC"); left != "" {
				t.Errorf("children inherit %s", left)
			}
		})
	}
	t.Run("no systemd", func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", "")
		s := NewService(slog.New(slog.DiscardHandler))
		if s != nil {
			t.Fatalf("service is %+v", s)
		}
		s.ready("nobody hears it")
		s.Reloading()
		s.Unchanged("nothing")
		s.stopping()
		s.watch(t.Context(), &loops{})
	})
}

// A daemon that only shows that the database is damaged must not be restarted again and again.
func TestADamagedDatabaseIsReadyForSystemd(t *testing.T) {
	here, there := net.Pipe()
	told := make(chan string, 10)
	go heard(t, there, told)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	o := Options{Config: &config.Config{}, Logger: log, Service: &Service{conn: here, watchdog: time.Minute, log: log}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.refuse(ctx, ln, store.ErrCorrupt) }()
	if text := <-told; !strings.HasPrefix(text, "READY=1\nSTATUS=the database is damaged") {
		t.Errorf("told %q", text)
	}
	if text := <-told; text != "WATCHDOG=1" {
		t.Errorf("told %q", text)
	}
	cancel()
	<-ended
}
