// Package control connects the daemon with commands on the same machine, through the socket control.sock in the state folder. It
// speaks HTTP: a few requests of its own, and the API for callers whose identity the kernel confirms. A lock in the
// same folder keeps a second supervisor away and tells commands that a daemon is there which does not listen yet.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	socketName = "control.sock"
	// base is the address that requests carry; no name is looked up for it.
	base = "http://localhost"

	pathPing   = "/control/ping"
	pathWake   = "/control/wake"
	pathSignIn = "/control/sign-in"
)

// ErrNoDaemon means that no daemon listens in this state folder.
var ErrNoDaemon = errors.New("no daemon is running on this state folder")

// Reply is the daemon's answer.
type Reply struct {
	PID  int    `json:"pid"`
	Link string `json:"link,omitempty"` // with which a browser signs in once
}

// Options are what the socket needs of the daemon.
type Options struct {
	Rules Rules
	// Wake makes the daemon read the journal.
	Wake func()
	// SignIn returns a link that signs a user in once.
	SignIn func(ctx context.Context, user string) (string, error)
	// Refused is told of every caller that was refused.
	Refused func(Caller)
}

// Server answers commands until it is closed.
type Server struct {
	Options
	listener net.Listener
	path     string
	http     *http.Server
	close    func() error
}

// Listen opens the socket. The caller holds the lock of the state folder, so a socket that is there is stale.
func Listen(stateDir string, o Options) (*Server, error) {
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
	if err := protect(path); err != nil {
		return nil, errors.Join(fmt.Errorf("protect control socket: %w", err), l.Close())
	}
	s := &Server{Options: o, listener: l, path: path}
	s.http = &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 64 << 10, ConnContext: s.identify,
	}
	s.close = sync.OnceValue(s.shutdown)
	return s, nil
}

// protect opens the socket to our user, and to the group if there is one that we may give it to.
func protect(path string) error {
	mode := os.FileMode(0o600)
	if group, err := user.LookupGroup(Group); err == nil {
		if gid, err := strconv.Atoi(group.Gid); err == nil && os.Lchown(path, -1, gid) == nil {
			mode = 0o660
		}
	}
	return os.Chmod(path, mode)
}

// callerKey is the context key of the caller of a connection.
type callerKey struct{}

// identify asks the kernel who opened a connection, once per connection.
func (s *Server) identify(ctx context.Context, c net.Conn) context.Context {
	caller := sync.OnceValue(func() Caller {
		if slot, ok := c.(*slotted); ok {
			c = slot.Conn
		}
		socket, ok := c.(*net.UnixConn)
		if !ok {
			return Caller{Refusal: "it is not a Unix socket"}
		}
		found, err := s.Rules.OfUnix(socket)
		if err != nil {
			found.Refusal = err.Error()
		}
		if found.Refusal != "" && s.Refused != nil {
			s.Refused(found)
		}
		return found
	})
	return context.WithValue(ctx, callerKey{}, caller)
}

// Serve answers until Close. API returns the handler of the API for a user.
func (s *Server) Serve(api func(user string) http.Handler) error {
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		find, ok := r.Context().Value(callerKey{}).(func() Caller)
		caller := Caller{Refusal: "it is not known"}
		if ok {
			caller = find()
		}
		if caller.Refusal != "" {
			w.Header().Set("Connection", "close")
			problem(w, http.StatusForbidden, "the daemon refuses this caller: "+caller.Refusal)
			return
		}
		s.answer(w, r, caller.User, api)
	})
	if err := s.http.Serve(limited{s.listener, make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, user string, api func(user string) http.Handler) {
	reply := Reply{PID: os.Getpid()}
	switch r.URL.Path {
	case pathPing:
	case pathWake:
		s.Wake()
	case pathSignIn:
		link, err := s.SignIn(r.Context(), user)
		if err != nil {
			problem(w, http.StatusConflict, err.Error())
			return
		}
		reply.Link = link
	default:
		api(user).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply) // the other side may be gone
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

// maxConnections bounds the open connections. The next one waits; a lack of descriptors is waited out by net/http.
const maxConnections = 64

// limited accepts no more connections than there are slots.
type limited struct {
	net.Listener

	slots chan struct{}
}

func (l limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.slots <- struct{}{}
	return &slotted{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// slotted is a connection that frees its slot when it is closed.
type slotted struct {
	net.Conn

	free func()
}

func (c *slotted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// Close ends Serve and removes the socket.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	removed := os.Remove(s.path) // nobody can connect any more; who was not answered asks again
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close() // an open request does not delay the end
	}
	// A server that never served does not know its listener.
	if closed := s.listener.Close(); err == nil && !errors.Is(closed, net.ErrClosed) {
		err = closed
	}
	return errors.Join(err, removed)
}

// Wake asks the daemon of the state folder, if there is one, to read the journal.
func Wake(ctx context.Context, stateDir string) (Reply, error) { return ask(ctx, stateDir, pathWake) }

// Ping returns the process id of the daemon of the state folder.
func Ping(ctx context.Context, stateDir string) (Reply, error) { return ask(ctx, stateDir, pathPing) }

// SignIn asks for a link that signs the caller in once.
func SignIn(ctx context.Context, stateDir string) (Reply, error) {
	return ask(ctx, stateDir, pathSignIn)
}

// patient asks again where the daemon ended before it answered, if asking twice does no harm.
type patient struct{ *http.Transport }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for again := 0; ; again++ {
		answer, err := p.Transport.RoundTrip(r)
		cutOff := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		harmless := r.Method == http.MethodGet || strings.HasPrefix(r.URL.Path, "/control/")
		if !cutOff || !harmless || again == 3 {
			return answer, err
		}
	}
}

// Client returns an HTTP client whose connections all go to the daemon of the state folder, and the address to use with it.
func Client(stateDir string) (client *http.Client, address string) {
	return &http.Client{
		Timeout: time.Minute,
		Transport: patient{&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, stateDir)
		}}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, base
}

// startPatience is how long a command waits for a daemon that has the state folder but does not listen yet: while it starts, and while it
// reads its configuration again.
const startPatience = 10 * time.Second

// dial opens a connection to the daemon. It waits for one that has the folder and does not listen yet.
func dial(ctx context.Context, stateDir string) (net.Conn, error) {
	limit := time.Now().Add(startPatience)
	for {
		c, err := dialOnce(ctx, stateDir)
		if !errors.Is(err, ErrNoDaemon) || Holder(stateDir) == nil || time.Now().After(limit) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func dialOnce(ctx context.Context, stateDir string) (net.Conn, error) {
	short, done, err := shortPath(stateDir)
	if err != nil {
		return nil, ErrNoDaemon
	}
	defer done()
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", short)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("ask daemon: %w; run this as the supervisor's user, as root, or as a member of the group %s",
			os.ErrPermission, Group)
	}
	if err != nil {
		return nil, ErrNoDaemon
	}
	return c, nil
}

func ask(ctx context.Context, stateDir, path string) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience+5*time.Second)
	defer cancel()
	client, address := Client(stateDir)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+path, nil)
	if err != nil {
		return Reply{}, fmt.Errorf("ask daemon: %w", err)
	}
	answer, err := client.Do(r)
	switch {
	case errors.Is(err, ErrNoDaemon):
		return Reply{}, ErrNoDaemon
	case err != nil:
		return Reply{}, fmt.Errorf("ask daemon: %w", errors.Unwrap(err))
	}
	defer func() { _ = answer.Body.Close() }()
	var reply struct {
		Reply
		Detail string `json:"detail"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return Reply{}, fmt.Errorf("read daemon's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return Reply{}, errors.New(reply.Detail)
	}
	return reply.Reply, nil
}
