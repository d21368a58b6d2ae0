package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// stopWithin bounds a shutdown; agents get most of it to end in good order.
const stopWithin = 18 * time.Second

// ErrReload ends Serve so that it can be called again with another configuration.
var ErrReload = errors.New("the configuration is read again")

// listen opens the address of the pages. If another program has it, that is probably the daemon of this state folder.
func (o Options) listen(ctx context.Context) (net.Listener, error) {
	ln, err := listen(ctx, o.Config.Listen)
	if errors.Is(err, ops.ErrConflict) {
		if other := control.Holder(o.Config.StateDir); other != nil && !o.Lock.Holds(o.Config.StateDir) {
			return nil, other
		}
	}
	return ln, err
}

// databasePatience is how long a daemon waits at its start until the server of the database answers: about as long as a new one needs to
// set itself up, and less than systemd and Docker wait for the daemon.
const databasePatience = 30 * time.Second

// Serve works until ctx ends, then shuts down. Started, if given, is called with the address of the web pages once everything
// runs.
func Serve(ctx context.Context, o Options, started func(addr string, h *Host)) (err error) {
	if err := missingSystem(); err != nil {
		return err
	}
	ln, err := o.listen(ctx)
	if err != nil {
		return err
	}
	o.patience = databasePatience
	h, err := open(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return ln.Close() // asked to stop before it had started
	}
	if err != nil {
		return o.refuse(ctx, ln, err)
	}
	conns := newConnections(ln, h.descriptors.connections())
	defer func() { err = errors.Join(err, h.close()) }()

	// Everything below runs until the work is stopped, not until ctx ends: the web pages stay up while agents end.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	var ready atomic.Bool
	server := h.pages(conns, &ready, life.Done())
	h.pagesAddress.Store(new(h.pagesAt(ln)))
	running, stopped := newServices(ctx, h.Logger)
	running.start(life, h.attending(server, conns)...)
	if err = h.prepare(ctx); err == nil {
		err = h.engine.Start(life)
	}
	var work []service
	if err == nil {
		work, err = h.working(life)
	}
	if err == nil {
		running.start(life, work...)
		ready.Store(true)
		o.Service.ready("running; pages on http://" + ln.Addr().String())
		h.Logger.InfoContext(ctx, "ready", "address", "http://"+ln.Addr().String(), "state", o.Config.StateDir, "term", h.Owner().Term)
		h.endStart()
		if started != nil {
			started(ln.Addr().String(), h)
		}
		debug.FreeOSMemory() // the start needs several times what running needs
		if <-stopped.Done(); ctx.Err() == nil {
			err = context.Cause(stopped)
		}
	}
	if store.Damaged(err) && !ready.Load() { // the pages are up, and say so
		h.readiness.damaged(err)
		h.Logger.ErrorContext(ctx, "the database is damaged; nothing starts, and every page says so", "error", err)
		running.start(life, h.tellSystemd())
		o.Service.ready("the database is damaged; nothing starts")
		<-stopped.Done()
	}
	ready.Store(false)
	if !errors.Is(context.Cause(ctx), ErrReload) {
		o.Service.stopping()
	}
	return errors.Join(err, h.shutdown(ctx, server, end, running))
}

// shutdown ends agents first, then the web pages and the other services.
func (h *Host) shutdown(ctx context.Context, server *http.Server, end context.CancelCauseFunc, running *services) error {
	h.Logger.InfoContext(context.WithoutCancel(ctx), "stopping", "cause", context.Cause(ctx))
	all, cancelAll := context.WithTimeout(context.WithoutCancel(ctx), stopWithin+time.Second)
	defer cancelAll()
	ctx, cancel := context.WithTimeout(all, stopWithin)
	defer cancel()
	err := h.engine.Stop(ctx)
	end(ops.Stop(ops.StopShutdown, "the supervisor is shutting down"))
	quick, cancelQuick := context.WithTimeout(ctx, time.Second)
	defer cancelQuick()
	if server.Shutdown(quick) != nil {
		err = errors.Join(err, server.Close()) // an open connection does not delay the shutdown
	}
	return errors.Join(err, h.closeControl(), running.wait(all))
}

func (h *Host) pages(ln *connections, ready *atomic.Bool, done <-chan struct{}) *http.Server {
	return &http.Server{
		Handler: h.unlessLost(h.site(ln, h.names(ln), h.webhooks(), done, func() error {
			if err := h.unfit(); err != nil {
				return err
			}
			if !ready.Load() {
				return errors.New("starting or stopping")
			}
			if h.draining.Load() {
				return api.ErrDraining
			}
			return nil
		})),
		ConnContext:       h.checkConnection,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ConnState: ln.note,
	}
}

// site is the handler of the pages and the API.
func (h *Host) site(
	conns *connections, names []string, webhooks http.Handler, done <-chan struct{}, ready func() error,
) http.Handler {
	return web.New(web.Options{
		Options: api.Options{
			Store: h.store, Control: h.supervisor, Logger: h.Logger, Clock: h.Clock, Version: h.Version,
			Environments: h.envs, NextCheck: h.supervisor.NextChecks, Walls: sync.OnceValue(h.wallRows), Address: h.reachedAt,
			Database: h.readiness.state, Ready: ready, Guard: Explainer(h.Config, h.judge), CheckConfig: h.checkedConfig(),
			ConfigFile: ConfigFile(h.Options),
			Setup:      h.setup.Rows, Examine: h.examined(),
			Process: func() api.Process {
				open, most, refused := conns.counts()
				return api.Process{
					Connections: open, MaxConnections: most, RefusedConnections: refused,
					Descriptors: h.descriptors.used(), MaxDescriptors: h.descriptors.limit,
				}
			},
		},
		Token: h.token, OperatorToken: h.Config.APIToken != "", OIDC: h.provider(),
		Refuse: refuseConnection, StrictApprovals: !AgentsSeparated(h.Config), Host: h.Config.Host.Name, ListenHosts: names,
		Settings: settings(h.Config), Hub: h.hub, Webhooks: webhooks, Done: done,
		KeepTranscripts: h.Config.Retention.Transcripts, Redact: h.redact, Trouble: h.trouble,
		Streams: conns.streams(), DrainAsked: h.checkDrain, Targets: h.targetNames(),
		Rehearse: h.rehearseDraft(), Try: h.tryDraft(), HideSetup: h.Config.Agent.Scripted(),
	})
}

// checkedConfig checks the configuration for the API, without its secrets; nil if nobody can check it.
func (h *Host) checkedConfig() func(context.Context) api.ConfigCheck {
	if h.CheckConfig == nil {
		return nil
	}
	return func(ctx context.Context) api.ConfigCheck {
		out := h.CheckConfig(ctx)
		for _, texts := range [][]string{out.Problems, out.Notes} {
			for i := range texts {
				texts[i] = h.redact(texts[i])
			}
		}
		return out
	}
}

// names are the host names that requests may use: the listen address and the public URL.
func (h *Host) names(ln net.Listener) []string {
	host, _, err := net.SplitHostPort(h.Config.Listen)
	if err != nil {
		host = ln.Addr().String()
	}
	names := []string{host}
	if public, err := url.Parse(h.Config.Edges.PublicURL); err == nil && public.Hostname() != "" {
		names = append(names, public.Hostname())
	}
	return names
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, ops.NewConflict(ops.ConflictTaken, "listen on %s: the address is in use; stop the other program, or give another port "+
			"with --listen or listen in the configuration (CLAUDEOPS_LISTEN)", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return ln, nil
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// settings is the configuration for the configuration page. Secrets are already masked.
func settings(c *config.Config) []web.Setting {
	var out []web.Setting
	for _, s := range c.Show() {
		out = append(out, web.Setting{Key: s.Key, Value: s.Value, Origin: s.Origin, Env: s.Env, Doc: s.Doc})
	}
	return out
}

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
