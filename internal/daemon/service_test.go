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
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
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
		s.reloading()
		s.unchanged("nothing")
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
		s := newServices(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		stopped := s.asked
		var list []service
		for i := range 50 {
			list = append(list, service{name: fmt.Sprintf("service-%d.", i), run: func(context.Context) error {
				return fmt.Errorf("failure %d", i)
			}})
		}
		s.start(life, nil, list...)
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
		s := newServices(ctx, slog.New(slog.DiscardHandler))
		stopped := s.asked
		s.start(life, nil,
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

// TestServicesOfTwoPlansTakeTurns: the same one of a later plan begins when that of every plan before has ended, also of one that was
// replaced before its own could begin. What has begun is not torn.
func TestServicesOfTwoPlansTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		s := newServices(t.Context(), slog.New(slog.DiscardHandler))
		whole, end := context.WithCancel(t.Context())
		finish := make(chan struct{})
		begin := func(name string) (replace func(), counted *sync.WaitGroup) {
			life, replace := ops.Replaceable(whole)
			counted = &sync.WaitGroup{}
			s.start(life, counted, service{name: "updates", run: endless(func(ctx context.Context) {
				log = append(log, name+" begins")
				work, free := ops.Lasting(ctx)
				defer free()
				<-ctx.Done()
				if ops.Pause(t.Context(), time.Second); work.Err() != nil {
					log = append(log, name+" is torn")
				}
				<-finish
				log = append(log, name+" ends")
			})})
			synctest.Wait()
			return replace, counted
		}
		replace, first := begin("first")
		replace()
		replaceSecond, second := begin("second")
		replaceSecond()
		replaceThird, third := begin("third")
		if synctest.Wait(); strings.Join(log, ", ") != "first begins" {
			t.Errorf("%q", log)
		}
		ops.Pause(t.Context(), 2*time.Second)
		close(finish)
		first.Wait()
		second.Wait()
		synctest.Wait()
		replaceThird()
		third.Wait()
		if strings.Join(log, ", ") != "first begins, first ends, third begins, third ends" {
			t.Errorf("%q", log)
		}
		end()
		if err := s.wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSecretsAreRemovedForAsLongAsAPlanKnowsThem: those of the old and the new one, while sessions of the old one run.
func TestSecretsAreRemovedForAsLongAsAPlanKnowsThem(t *testing.T) {
	g := newGround(t.Context(), Options{Clock: time.Now})
	defer func() { must(t, g.close()) }()
	var plans []*plan
	for _, secret := range []string{"first-secret", "second-secret"} {
		plans = append(plans, g.newPlan(Options{Config: &config.Config{Secrets: []string{secret}}}, nil))
		g.know(func([]*plan) []*plan { return slices.Clone(plans) })
	}
	if got := g.redact("first-secret second-secret"); got != "[redacted: secret] [redacted: secret]" {
		t.Errorf("while both live: %s", got)
	}
	must(t, plans[0].close())
	if got := g.redact("first-secret second-secret"); got != "first-secret [redacted: secret]" {
		t.Errorf("after the first: %s", got)
	}
	must(t, plans[1].close())
}

// TestTenReloadsLeaveNothing: every goroutine and descriptor of an earlier plan is gone.
func TestTenReloadsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	turn := 0
	load := func() (Options, error) {
		turn++
		text := fmt.Sprintf("listen: 127.0.0.1:0\nstate_dir: %s\ntrust: watch\ninterval: 24h\nsecrets: [secret-of-turn-%d]\n"+
			"services: [{name: web, probes: [{type: http, url: %q, interval: 1s}]}]\n", dir, turn, web.URL)
		must(t, os.WriteFile(filepath.Join(dir, "claudeops.yaml"), []byte(text), 0o600))
		c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
		return Options{
			Config: c, Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Self: "/bin/true",
			LoadConfig:  func(map[string][]byte) (*config.Config, error) { return c, nil },
			CheckConfig: func(context.Context) api.ConfigCheck { return api.ConfigCheck{Valid: true} },
		}, err
	}
	o, err := load()
	must(t, err)
	o.Load = load
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, o, func(addr string, _ SignIn) { started <- addr }) }()
	var addr string
	select {
	case addr = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "api-token"))
	must(t, err)
	client := &http.Client{}
	ask := func(method, path string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		answer, err := client.Do(r)
		must(t, err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s answers %s: %s %v", path, answer.Status, text, err)
		}
		return string(text)
	}
	reload := func() {
		t.Helper()
		ask(http.MethodPost, "/api/v1/config/reload")
		ask(http.MethodGet, "/") // so that each plan has pages
	}
	count := func() (running, open int) {
		open, err := openDescriptors()
		must(t, err)
		return runtime.NumGoroutine(), open
	}
	reload()
	var running, open int
	for range 20 { // until the first plan is closed
		if now, files := count(); running == 0 || now < running {
			running, open = now, files
		}
		ops.Pause(t.Context(), 100*time.Millisecond)
	}
	for range 10 {
		reload()
	}
	for end := time.Now().Add(20 * time.Second); ; ops.Pause(t.Context(), 50*time.Millisecond) {
		now, files := count()
		if now <= running && files < open+10 { // the database may have opened more connections
			break
		}
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines and %d descriptors after one reload, %d and %d after ten more\n%s",
				running, open, now, files, stacks[:runtime.Stack(stacks, true)])
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAServiceThatDoesNotEndIsNamed: it does not keep the daemon from ending.
func TestAServiceThatDoesNotEndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		life, end := context.WithCancel(t.Context())
		s := newServices(t.Context(), slog.New(slog.DiscardHandler))
		s.start(life, nil,
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
		h := &plan{Options: Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return tc.now }}}
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
