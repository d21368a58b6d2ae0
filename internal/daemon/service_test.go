package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// TestEveryServiceMayFailAtOnce: the daemon is told of the first one and ends; all of them are named in the log.
func TestEveryServiceMayFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		life, end := context.WithCancel(t.Context())
		s, stopped := newServices(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		var list []service
		for i := range 50 {
			list = append(list, service{name: fmt.Sprintf("service-%d.", i), run: func(context.Context) error {
				return fmt.Errorf("failure %d", i)
			}})
		}
		s.start(life, list...)
		<-stopped.Done()
		if err := context.Cause(stopped); err == nil || !strings.Contains(err.Error(), ".: failure") {
			t.Errorf("the cause is %v", err)
		}
		synctest.Wait()
		end()
		if err := s.wait(t.Context()); err != nil {
			t.Error(err)
		}
		for _, one := range list {
			if !strings.Contains(log.String(), "service="+one.name) {
				t.Errorf("%s is not named", one.name)
			}
		}
	})
}

func TestWhatEndsWithTheDaemonDidNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		life, end := context.WithCancelCause(t.Context())
		s, stopped := newServices(ctx, slog.New(slog.DiscardHandler))
		s.start(life,
			service{name: "canceled", run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			service{name: "told why", run: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }},
			service{name: "early", run: endless(func(context.Context) {})})
		synctest.Wait()
		if stopped.Err() != nil {
			t.Fatalf("stopped by %v", context.Cause(stopped))
		}
		cancel()
		end(errors.New("shutting down"))
		if err := s.wait(t.Context()); err != nil || !errors.Is(context.Cause(stopped), context.Canceled) {
			t.Errorf("%v, %v", err, context.Cause(stopped))
		}
	})
}

// TestAServiceThatDoesNotEndIsNamed: it does not keep the daemon from ending.
func TestAServiceThatDoesNotEndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		life, end := context.WithCancel(t.Context())
		s, _ := newServices(t.Context(), slog.New(slog.DiscardHandler))
		s.start(life,
			service{name: "hangs", run: endless(func(context.Context) { <-release })},
			service{name: "ends", run: endless(func(ctx context.Context) { <-ctx.Done() })})
		end()
		patience, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.wait(patience)
		if err == nil || !strings.HasSuffix(err.Error(), ": hangs") {
			t.Errorf("waited: %v", err)
		}
		close(release)
	})
}

func TestAStartWarnsOfOldPricesOnce(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	for _, tc := range []struct {
		now  time.Time
		want int
	}{{time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), 0}, {time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC), 1}} {
		var log bytes.Buffer
		h := &Host{Options: Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return tc.now }}}
		h.warnOfOldPrices(t.Context())
		if got := strings.Count(log.String(), "built-in prices are old"); got != tc.want {
			t.Errorf("at %s it warns %d times, want %d:\n%s", tc.now, got, tc.want, log.String())
		}
	}
}

func TestNoSessionStartsWithTheLastDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, failure := 100, error(nil)
		d := &descriptors{limit: 256, count: func() (int, error) { return open, failure }}
		if err := d.trouble(); err != nil {
			t.Error(err)
		}
		open = 225
		<-time.After(2 * time.Second)
		if err := d.trouble(); err == nil || !strings.Contains(err.Error(), "225 of 256 file descriptors") {
			t.Errorf("with 31 left: %v", err)
		}
		open = 30
		<-time.After(2 * time.Second)
		if err := d.trouble(); err != nil {
			t.Error(err)
		}
		failure = syscall.EMFILE
		<-time.After(2 * time.Second)
		if err := d.trouble(); err == nil {
			t.Error("without any left a session may start")
		}
		failure = errors.New("no /proc")
		<-time.After(2 * time.Second)
		if err := d.trouble(); err != nil {
			t.Errorf("what cannot be counted counts as none: %v", err)
		}
	})
	if few := (&descriptors{limit: 63}).enough(); few == nil || !strings.Contains(few.Error(), "ulimit -n") {
		t.Errorf("63 descriptors: %v", few)
	}
	if err := (&descriptors{limit: 64}).enough(); err != nil {
		t.Errorf("64 descriptors: %v", err)
	}
	if d := newDescriptors(); d.used() < 3 || d.limit < d.used() || d.connections() > d.limit/2 {
		t.Errorf("%d of %d", d.used(), d.limit)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := newConnections(ln, 3)
	server := &http.Server{
		ConnState: c.note, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "well")
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(c) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	until := func(cond func() bool) {
		for !cond() {
			<-time.After(time.Millisecond)
		}
	}
	active := func(n int) func() bool {
		return func() bool {
			n := n
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, since := range c.open {
				if since.IsZero() {
					n--
				}
			}
			return n <= 0
		}
	}
	// Idle ones make room for others.
	first := dial("")
	for range 10 {
		dial("")
	}
	if n, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || n != 0 {
		t.Errorf("the oldest idle connection stays: %d, %v", n, err)
	}
	if open, _, refused := c.counts(); open > 3 || refused > 0 {
		t.Errorf("%d open, %d refused", open, refused)
	}
	// Busy ones do not.
	var busy []net.Conn
	for i := range 3 {
		busy = append(busy, dial("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n"))
		until(active(i + 1))
	}
	answer, err := bufio.NewReader(dial("")).ReadString('\n')
	if err != nil || !strings.Contains(answer, "503") {
		t.Errorf("one too many is answered %q, %v", answer, err)
	}
	if _, _, refused := c.counts(); refused != 1 {
		t.Errorf("%d refused", refused)
	}
	_ = busy[0].Close()
	until(func() bool { open, _, _ := c.counts(); return open < 3 })
	answer, err = bufio.NewReader(dial("GET / HTTP/1.1\r\nHost: here\r\n\r\n")).ReadString('\n')
	if err != nil || !strings.Contains(answer, "200") {
		t.Errorf("with room again: %q, %v", answer, err)
	}
}
