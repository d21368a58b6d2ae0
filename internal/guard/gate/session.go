package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

const (
	maxSocketPath = 107 // what the address of a socket holds on Linux
	maxLine       = 2 * client.MaxInput
)

// Session is the gate of one session.
type Session struct {
	g        *Gate
	session  ops.Session
	facts    guard.Facts
	alarm    func(ops.GuardRecord)
	dir      string
	settings []byte
	listener *net.UnixListener
	cancel   context.CancelFunc
	accepted sync.WaitGroup // the loop and its connections
	checks   sync.WaitGroup // also those nobody waits for any more
	link     func() (string, error)
	tools    Tools
	unseen   atomic.Pointer[func(path string) bool] // nil: everything is visible
	reserved atomic.Bool                            // a call wanted an action that counts

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]struct{}
	allowed map[string]struct{}
	waiting map[string][]string // command → ids of allowed calls the shell has not seen yet
	wall    *confine.Wall       // around every command; nil: none
	wallEnv []string
	lent    []confine.Place // what the rule of a command may let it change
}

// Open starts to answer the questions of a session, until Close. The alarm is told of a recorded attack on the supervisor.
func (g *Gate) Open(ctx context.Context, session ops.Session, facts guard.Facts, alarm func(ops.GuardRecord)) (*Session, error) {
	dir, err := os.MkdirTemp(g.o.Dir, strconv.FormatInt(int64(session.ID), 10)+"-")
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	s, err := g.open(ctx, dir, session, facts, alarm)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open gate: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (g *Gate) open(ctx context.Context, dir string, of ops.Session, facts guard.Facts, alarm func(ops.GuardRecord)) (*Session, error) {
	s := &Session{
		g: g, session: of, facts: facts, dir: dir, alarm: alarm,
		conns: map[net.Conn]struct{}{}, allowed: map[string]struct{}{}, waiting: map[string][]string{},
	}
	if n := len(s.Socket()); n > maxSocketPath {
		return nil, fmt.Errorf("the path %s has %d bytes, a socket may have %d: choose a shorter folder", s.Socket(), n, maxSocketPath)
	}
	act := filepath.Join(dir, client.ActName)
	if err := os.Symlink(g.o.Self, act); err != nil {
		return nil, fmt.Errorf("link the command of the session: %w", err)
	}
	if s.facts.NetworkClosed {
		s.facts.LookProgram = act
	}
	s.link = sync.OnceValues(func() (string, error) {
		name := filepath.Join(dir, client.ShellName)
		err := os.Symlink(g.o.Self, name)
		return ops.Returning(name, err, "link the guard's shell")
	})
	var err error
	if s.settings, err = hookSettings(g.o.Self, s.Socket()); err != nil {
		return nil, err
	}
	if s.listener, err = listen(dir); err != nil {
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.accepted.Go(func() { s.accept(ctx) })
	return s, nil
}

// openingName is that of a socket nobody listens to yet. Another supervisor that sweeps the folder just then would take one with
// the right name for dead.
const openingName = "opening"

// listen makes the socket of a session. It gets its name when it is ready.
func listen(dir string) (*net.UnixListener, error) {
	opening := filepath.Join(dir, openingName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: opening})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it goes with its folder
	// The folder is private, so nobody else could have come in before.
	err = os.Chmod(opening, 0o600)
	if err == nil {
		err = os.Rename(opening, filepath.Join(dir, client.SocketName))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Socket is the path of the session's socket.
func (s *Session) Socket() string { return filepath.Join(s.dir, client.SocketName) }

// Settings are the CLI's settings that set the hook.
func (s *Session) Settings() []byte { return s.settings }

// ShellPrefix is the program the CLI is to put before its shell.
func (s *Session) ShellPrefix() (string, error) { return s.link() }

// Allowed reports whether the hook recorded an allow for a tool call of this session.
func (s *Session) Allowed(toolUseID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.allowed[toolUseID]
	return ok
}

// Reserved reports whether any call wanted an action that counts, so that it may have left something undone.
func (s *Session) Reserved() bool { return s.reserved.Load() }

// Close stops answering, waits for what is being answered and removes the socket and the link.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for conn := range s.conns {
		_ = conn.SetReadDeadline(time.Now()) // who has not asked yet will not be answered
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.accepted.Wait()
	s.cancel()
	s.waitForChecks()
	return ops.Wrapped(errors.Join(err, os.RemoveAll(s.dir)), "close gate")
}

// waitForChecks waits for judgements that took too long, but not forever: they decide nothing any more.
func (s *Session) waitForChecks() {
	done := make(chan struct{})
	go func() { s.checks.Wait(); close(done) }()
	timer := time.NewTimer(s.g.limits.late)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.g.o.Logger.Error("a judgement of the guard does not end", "session_id", s.session.ID)
	}
}

func (s *Session) accept(ctx context.Context) {
	free := make(chan struct{}, maxConnections)
	for {
		free <- struct{}{}
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of files, most likely: those who ask are refused by getting no answer.
			s.g.o.Logger.ErrorContext(ctx, "the guard cannot take a question", "session_id", s.session.ID, "error", err)
			<-free
			s.pause(ctx)
			continue
		}
		s.accepted.Go(func() {
			defer func() { <-free }()
			s.serve(ctx, conn)
		})
	}
}

// pause keeps a loop that fails from spinning.
func (s *Session) pause(ctx context.Context) {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// track notes a connection, so that Close does not wait for one that never asks.
func (s *Session) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || conn.SetReadDeadline(time.Now().Add(s.g.limits.read)) != nil {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Session) untrack(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// serve answers the one question of a connection.
func (s *Session) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the answer was written, or nobody waits for it
	if !s.track(conn) {
		return
	}
	defer s.untrack(conn)
	line, err := readLine(conn)
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return // somebody only wanted to know whether we live
	}
	if err != nil {
		s.g.o.Logger.WarnContext(ctx, "a question to the guard cannot be read", "session_id", s.session.ID, "error", err)
		if !errors.Is(err, errLongLine) {
			return
		}
	}
	answer := s.answer(ctx, line, err)
	text, err := json.Marshal(answer)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(s.g.limits.write))
	}
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	if err != nil {
		s.g.o.Logger.WarnContext(ctx, "an answer of the guard did not arrive", "session_id", s.session.ID, "error", err)
	}
}

var errLongLine = errors.New("the question is too long")

// readLine reads up to the end of the line also where it is too long: closing on unread bytes would take the
// answer away from the one who asked.
func readLine(conn io.Reader) ([]byte, error) {
	reader := bufio.NewReader(io.LimitReader(conn, 8*maxLine))
	var line []byte
	long := false
	for {
		part, err := reader.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long:
			return nil, errLongLine
		default:
			return line, err
		}
	}
}
