package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/ops"
)

const (
	socketName    = "docker.sock"
	maxSocketPath = 107
	headerLimit   = 5 * time.Second
	maxHeader     = 64 << 10
	maxRequests   = 64 // at once
	// maxConnections is more than clients keep open for their requests.
	maxConnections = 4 * maxRequests
)

// Ledger records a decision and reserves what it needs in one transaction. The record it returns is the one that counts: it
// refuses what a cooldown forbids.
type Ledger interface {
	Reserve(ctx context.Context, record ops.GuardRecord, want []ops.Reservation) (ops.GuardRecord, error)
}

// Options are what a broker needs.
type Options struct {
	Engine string // the socket of the Docker or Podman API
	Dir    string // private and short
	Ledger Ledger
	May    func() error // its error says why this host may change nothing now; nil: it may
	Redact func(string) string
	Clock  ops.Clock
	Logger *slog.Logger
}

// Broker opens the Docker sockets of sessions.
type Broker struct {
	o      Options
	engine *engine
}

// New makes a broker.
func New(o Options) (*Broker, error) {
	if o.Ledger == nil || o.Clock == nil || o.Logger == nil || !filepath.IsAbs(o.Engine) || !filepath.IsAbs(o.Dir) {
		return nil, errors.New("make Docker broker: it needs a ledger, a clock, a logger and the absolute paths of engine and folder")
	}
	if o.May == nil {
		o.May = func() error { return nil }
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return &Broker{o: o, engine: newEngine(o.Engine)}, nil
}

// Scope is what a session may do.
type Scope struct {
	Session  ops.Session
	DryRun   bool
	Services func() []Service // those of the incident; asked at every change
	Others   []Service        // those of other environments
}

// Session is the Docker socket of one session.
type Session struct {
	b      *Broker
	scope  Scope
	dir    string
	server *http.Server
	cancel context.CancelFunc
	served sync.WaitGroup
	free   chan struct{}
	open   atomic.Int64 // connections

	mu      sync.Mutex // held while a change is judged and recorded
	changes map[string]*change
}

// Open starts to serve a session, until Close.
func (b *Broker) Open(ctx context.Context, scope Scope) (*Session, error) {
	dir, err := os.MkdirTemp(b.o.Dir, "d"+strconv.FormatInt(int64(scope.Session.ID), 10)+"-")
	if err != nil {
		return nil, fmt.Errorf("open Docker broker: %w", err)
	}
	s := &Session{
		b: b, scope: scope, dir: dir, free: make(chan struct{}, maxRequests), changes: map[string]*change{},
	}
	listener, err := s.listen()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open Docker broker: %w", err), os.RemoveAll(dir))
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: headerLimit, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState:   s.count,
		ErrorLog:    slog.NewLogLogger(b.o.Logger.Handler(), slog.LevelDebug),
	}
	s.served.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			b.o.Logger.ErrorContext(ctx, "the Docker broker stopped", "session_id", scope.Session.ID, "error", err)
		}
	})
	return s, nil
}

// count lets Close wait for every connection. A new one is told here before Serve can return.
func (s *Session) count(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.served.Add(1)
		if s.open.Add(1) > maxConnections {
			_ = conn.Close() // an agent must not use up the descriptors of the supervisor
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
		s.served.Done()
	case http.StateActive, http.StateIdle:
	}
}

func (s *Session) listen() (*net.UnixListener, error) {
	if n := len(s.Socket()); n > maxSocketPath {
		return nil, fmt.Errorf("the path %s has %d bytes, a socket may have %d: choose a shorter folder", s.Socket(), n, maxSocketPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: s.Socket()})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it is removed with its folder
	if err := os.Chmod(s.Socket(), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Socket is the path of the session's socket.
func (s *Session) Socket() string { return filepath.Join(s.dir, socketName) }

// Env are the variables that make Docker clients use the socket. The old docker-compose chooses the API version by the format of the file.
func (s *Session) Env() []string {
	return []string{"DOCKER_HOST=unix://" + s.Socket(), fmt.Sprintf("COMPOSE_API_VERSION=1.%d", oldestMinor)}
}

// Close ends all requests, waits for them and removes the socket.
func (s *Session) Close() error {
	s.cancel()
	err := s.server.Close()
	s.served.Wait()
	if err = errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		return fmt.Errorf("close Docker broker: %w", err)
	}
	return nil
}
