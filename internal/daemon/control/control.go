// Package control connects the daemon with commands on the same machine: a command writes a row and then wakes the daemon
// through the socket in the state folder. Only wake-ups are sent here.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const socketName = "control.sock"

// ErrNoDaemon means that no daemon listens in this state folder.
var ErrNoDaemon = errors.New("no daemon is running on this state folder")

// Request asks the daemon for something.
type Request struct {
	Command string `json:"command"`
}

// Reply is the daemon's answer.
type Reply struct {
	OK    bool   `json:"ok"`
	PID   int    `json:"pid"`
	Error string `json:"error,omitempty"`
}

// Server answers commands until it is closed.
type Server struct {
	listener net.Listener
	path     string
	wake     func()
	conns    sync.WaitGroup
}

// Listen opens the socket. The caller holds the lock of the state folder, so a socket that is there is stale.
func Listen(stateDir string, wake func()) (*Server, error) {
	path := filepath.Join(stateDir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove stale control socket: %w", err)
	}
	short, done, err := shortPath(stateDir)
	if err != nil {
		return nil, fmt.Errorf("open state folder: %w", err)
	}
	defer done()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket %s: %w", path, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it would unlink the short path, whose descriptor is closed by then
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect control socket: %w", err), l.Close())
	}
	return &Server{listener: l, path: path, wake: wake}, nil
}

// Serve answers until Close. An error of a connection does not end it.
func (s *Server) Serve() error {
	defer s.conns.Wait()
	busy := make(chan struct{}, maxConnections)
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// Out of descriptors, most likely. A command writes its row first, so nothing is lost.
			time.Sleep(acceptPause) //nolint:forbidigo // keeps the loop from spinning; Close waits for it
			continue
		}
		busy <- struct{}{}
		s.conns.Go(func() {
			defer func() { <-busy }()
			s.answer(c)
		})
	}
}

const (
	// acceptPause is the time between two attempts to accept a connection.
	acceptPause = 50 * time.Millisecond
	// maxConnections bounds the connections that are answered at once.
	maxConnections = 64
)

// Close ends Serve and removes the socket.
func (s *Server) Close() error {
	return errors.Join(s.listener.Close(), os.Remove(s.path))
}

func (s *Server) answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	reply := Reply{OK: true, PID: os.Getpid()}
	var r Request
	line, err := bufio.NewReaderSize(c, 4096).ReadSlice('\n')
	switch {
	case err != nil || json.Unmarshal(line, &r) != nil:
		reply = Reply{Error: "send one line of JSON"}
	case r.Command == "wake":
		s.wake()
	case r.Command == "ping":
	default:
		reply = Reply{Error: fmt.Sprintf("unknown command %q", r.Command)}
	}
	_ = json.NewEncoder(c).Encode(reply) // the other side may be gone; the row is already written
}

// Wake asks the daemon of the state folder, if there is one, to read the journal.
func Wake(ctx context.Context, stateDir string) (Reply, error) { return ask(ctx, stateDir, "wake") }

// Ping returns the process id of the daemon of the state folder.
func Ping(ctx context.Context, stateDir string) (Reply, error) { return ask(ctx, stateDir, "ping") }

func ask(ctx context.Context, stateDir, command string) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	short, done, err := shortPath(stateDir)
	if err != nil {
		return Reply{}, ErrNoDaemon
	}
	defer done()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", short)
	if err != nil {
		return Reply{}, ErrNoDaemon
	}
	defer func() { _ = c.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if err := json.NewEncoder(c).Encode(Request{Command: command}); err != nil {
		return Reply{}, fmt.Errorf("ask daemon: %w", err)
	}
	var r Reply
	if err := json.NewDecoder(c).Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("read daemon's answer: %w", err)
	}
	if !r.OK {
		return r, fmt.Errorf("ask daemon: %s", r.Error)
	}
	return r, nil
}

// shortPath names the socket through a descriptor of its folder, because the path of a socket is limited to 107 bytes.
func shortPath(stateDir string) (string, func(), error) {
	fd, err := unix.Open(stateDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName), func() { _ = unix.Close(fd) }, nil
}
