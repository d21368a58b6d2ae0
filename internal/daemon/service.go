package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Service tells systemd about the state of this process. A nil Service tells nobody, which is right when systemd did not start it.
type Service struct {
	conn     net.Conn
	watchdog time.Duration // systemd ends this process after so long without a sign of life; 0 means never
	log      *slog.Logger
}

// NewService reads what systemd put into the environment and removes it, so that no child can speak for this process.
func NewService(log *slog.Logger) *Service {
	//nolint:forbidigo // not settings: systemd speaks to this process by them
	socket, limit, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // fails only for a name that is not one
	}
	if socket == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "unixgram", socket)
	if err != nil {
		log.Warn("systemd cannot be told when the daemon is ready", "error", err)
		return nil
	}
	s := &Service{conn: conn, log: log}
	if pid == "" || pid == strconv.Itoa(os.Getpid()) {
		if n, err := strconv.ParseInt(limit, 10, 64); err == nil && n > 0 {
			s.watchdog = time.Duration(n) * time.Microsecond
		}
	}
	return s
}

func (s *Service) tell(lines ...string) {
	if s == nil {
		return
	}
	if _, err := s.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		s.log.Warn("systemd could not be told about the state of the daemon", "state", lines[0], "error", err)
	}
}

// ready says that the start, or the reload, is complete.
func (s *Service) ready(status string) { s.tell("READY=1", "STATUS="+status) }

// stopping says that the daemon is shutting down, but not for a reload.
func (s *Service) stopping() { s.tell("STOPPING=1", "STATUS=stopping: agents get time to end") }

// Reloading says that the configuration is read again. The time lets systemd tell this reload from an earlier one.
func (s *Service) Reloading() {
	if s == nil {
		return
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		s.log.Warn("the time of the reload could not be read", "error", err)
		return
	}
	s.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS=reading the configuration again")
}

// Unchanged says that a reload is over and that the daemon works as before.
func (s *Service) Unchanged(why string) { s.ready("the new configuration is not used: " + why) }

// watch gives systemd a sign of life for as long as every loop of the daemon gives one, until ctx ends.
func (s *Service) watch(ctx context.Context, loops *loops) {
	if s == nil || s.watchdog == 0 {
		return
	}
	tick := time.NewTicker(s.watchdog / 4)
	defer tick.Stop()
	for {
		if name, since := loops.silent(s.watchdog * 3 / 4); name != "" {
			s.log.ErrorContext(ctx, "a loop of the daemon does not run; systemd will restart the daemon", "loop", name, "since", since.String())
		} else {
			s.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// loops remembers when each loop of the daemon last ran.
type loops struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// add returns the function that a loop calls each time it runs.
func (l *loops) add(name string) func() {
	beat := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last == nil {
			l.last = map[string]time.Time{}
		}
		l.last[name] = time.Now()
	}
	beat()
	return beat
}

// silent returns a loop that did not run for longer than the limit; "" if there is none.
func (l *loops) silent(limit time.Duration) (name string, since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for loop, at := range l.last {
		if quiet := time.Since(at); quiet > limit {
			return loop, quiet
		}
	}
	return "", 0
}
