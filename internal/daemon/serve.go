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

// listen opens the address of the pages. If another program has it, that is probably the daemon of this state folder.
func (o Options) listen(ctx context.Context) (net.Listener, error) {
	ln, err := listen(ctx, o.Config.Listen)
	if errors.Is(err, ops.ErrConflict) {
		if other := control.Holder(o.Config.StateDir); other != nil {
			return nil, other
		}
	}
	return ln, err
}

// databasePatience is how long a daemon waits at its start until the server of the database answers: about as long as a new one needs to
// set itself up, and less than systemd and Docker wait for the daemon.
const databasePatience = 30 * time.Second

// SignIn makes a link that signs a browser in once.
type SignIn func(ctx context.Context, user string) (string, error)

// Serve works until ctx ends, then shuts down. Started, if given, is called with the address of the web pages once everything
// runs.
func Serve(ctx context.Context, o Options, started func(addr string, signIn SignIn)) (err error) {
	if err := missingSystem(); err != nil {
		return err
	}
	ln, err := o.listen(ctx)
	if err != nil {
		return err
	}
	o.patience, o.lock = databasePatience, &control.Lock{}
	defer func() { err = errors.Join(err, o.lock.Release()) }()
	p, err := open(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return ln.Close() // asked to stop before it had started
	}
	if err != nil {
		return o.refuse(ctx, ln, err)
	}
	g := p.ground
	defer func() { err = errors.Join(err, g.close()) }()

	// Everything below runs until the work is stopped, not until ctx ends: the web pages stay up while agents end.
	g.listener, g.conns = ln, newConnections(ln, g.descriptors.connections())
	server := g.pages()
	g.running = newServices(ctx, g.Logger)
	g.swapping.Lock() // until it has started
	g.start(g.attending(server)...)
	p.start(p.attending())
	if err = p.prepare(ctx); err == nil {
		err = g.engine.Start(g.life) //nolint:contextcheck // see above
	}
	if err == nil {
		g.start(g.working()...)
		p.start(p.working())
		g.ready.Store(true)
		g.Service.running(ln)
		g.Logger.InfoContext(ctx, "ready", "address", "http://"+ln.Addr().String(), "state", o.Config.StateDir, "term", g.Owner().Term)
		if started != nil {
			started(ln.Addr().String(), g.signInLink)
		}
		debug.FreeOSMemory() // the start needs several times what running needs
		g.swapping.Unlock()
		if <-g.running.asked.Done(); ctx.Err() == nil {
			err = context.Cause(g.running.asked) //nolint:contextcheck // it ends with ctx
		}
		g.swapping.Lock()
	}
	if store.Damaged(err) && !g.ready.Load() { // the pages are up, and say so
		g.readiness.damaged(err)
		g.Logger.ErrorContext(ctx, "the database is damaged; nothing starts, and every page says so", "error", err)
		g.start(g.tellSystemd())
		g.Service.ready("the database is damaged; nothing starts")
		<-g.running.asked.Done()
	}
	g.ready.Store(false)
	g.swapping.Unlock()
	g.Service.stopping()
	return errors.Join(err, g.shutdown(ctx, server))
}

// shutdown ends agents first, then the web pages and the other services.
func (g *ground) shutdown(ctx context.Context, server *http.Server) error {
	g.Logger.InfoContext(context.WithoutCancel(ctx), "stopping", "cause", context.Cause(ctx))
	all, cancelAll := context.WithTimeout(context.WithoutCancel(ctx), stopWithin+time.Second)
	defer cancelAll()
	ctx, cancel := context.WithTimeout(all, stopWithin)
	defer cancel()
	err := g.engine.Stop(ctx)
	g.end(ops.Stop(ops.StopShutdown, "the supervisor is shutting down"))
	quick, cancelQuick := context.WithTimeout(ctx, time.Second)
	defer cancelQuick()
	if server.Shutdown(quick) != nil {
		err = errors.Join(err, server.Close()) // an open connection does not delay the shutdown
	}
	return errors.Join(err, g.closeControl(), g.running.wait(all))
}

func (g *ground) pages() *http.Server {
	return &http.Server{
		Handler: g.site(), ConnContext: g.checkConnection,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ConnState: g.conns.note,
	}
}

// site answers each request by the plan of that moment. A stream stays with the one that it began under: it only says that rows changed.
func (g *ground) site() http.Handler {
	return g.unlessLost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.plan.Load().site().ServeHTTP(w, r) }))
}

// fit is why this daemon is not ready, or nil.
func (g *ground) fit() error {
	if err := g.unfit(); err != nil {
		return err
	}
	if !g.ready.Load() {
		return errors.New("starting or stopping")
	}
	if g.draining.Load() {
		return api.ErrDraining
	}
	return nil
}

// newSite makes the handler of the pages and the API. A single cycle has no pages and takes no alerts.
func (p *plan) newSite() http.Handler {
	o := web.Options{
		Options: api.Options{
			Store: p.store, Control: p.supervisor, Logger: p.Logger, Clock: p.Clock, Version: p.Version,
			Environments: p.envs, NextCheck: p.supervisor.NextChecks, Walls: sync.OnceValue(p.wallRows), Address: entrance{p}.reachedAt,
			Database: p.readiness.state, Guard: Explainer(p.Config, p.judge), CheckConfig: p.checkedConfig(),
			ConfigFile: ConfigFile(p.Options),
			Setup:      p.setup.Rows, Examine: p.examined(),
			Process: func() api.Process {
				open, most, refused := p.conns.counts()
				return api.Process{
					Connections: open, MaxConnections: most, RefusedConnections: refused,
					Descriptors: p.descriptors.used(), MaxDescriptors: p.descriptors.limit,
				}
			},
		},
		Token: p.token, OperatorToken: p.Config.APIToken != "", OIDC: entrance{p}.provider(),
		Refuse: refuseConnection, StrictApprovals: !AgentsSeparated(p.Config), Host: p.Config.Host.Name,
		Settings: settings(p.Config), Hub: p.hub, Done: p.ground.life.Done(),
		KeepTranscripts: p.Config.Retention.Transcripts, Redact: p.redact, Trouble: p.trouble,
		Streams: p.conns.streams(), DrainAsked: p.checkDrain, Targets: letters{p}.targetNames(),
		Rehearse: p.rehearseDraft(), Try: p.tryDraft(), HideSetup: p.Config.Agent.Scripted(),
	}
	if p.listener != nil {
		o.Ready, o.ListenHosts, o.Webhooks = p.fit, p.hostNames(), p.hook
	}
	return web.New(o)
}

// checkedConfig checks the configuration for the API, without its secrets; nil if nobody can check it.
func (p *plan) checkedConfig() func(context.Context) api.ConfigCheck {
	if p.CheckConfig == nil {
		return nil
	}
	return func(ctx context.Context) api.ConfigCheck {
		out := p.CheckConfig(ctx)
		for _, texts := range [][]string{out.Problems, out.Notes} {
			for i := range texts {
				texts[i] = p.redact(texts[i])
			}
		}
		return out
	}
}

// hostNames are those that requests may use: the listen address and the public URL.
func (p *plan) hostNames() []string {
	host, _, err := net.SplitHostPort(p.Config.Listen)
	if err != nil {
		host = p.listener.Addr().String()
	}
	names := []string{host}
	if public, err := url.Parse(p.Config.Edges.PublicURL); err == nil && public.Hostname() != "" {
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
	return ops.Returning(ln, err, "listen on %s", addr)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// settings is the configuration for the configuration page. Secrets are already masked.
func settings(c *config.Config) []web.Setting {
	return ops.Map(c.Show(), func(s config.Setting) web.Setting {
		return web.Setting{Key: s.Key, Value: s.Value, Origin: s.Origin, Env: s.Env, Doc: s.Doc}
	})
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

// running says that the daemon works, and where its pages are.
func (s *Service) running(ln net.Listener) { s.ready("running; pages on http://" + ln.Addr().String()) }

// stopping says that the daemon is shutting down.
func (s *Service) stopping() { s.tell("STOPPING=1", "STATUS=stopping: agents get time to end") }

// reloading says that the configuration is read again. The time lets systemd tell this reload from an earlier one.
func (s *Service) reloading() {
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

// unchanged says that a reload is over and that the daemon works as before.
func (s *Service) unchanged(why string) { s.ready("the new configuration is not used: " + why) }

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

// refuse serves one page that says that the database is damaged, until ctx ends. Any other reason not to start ends the program
// at once.
func (o Options) refuse(ctx context.Context, ln net.Listener, reason error) error {
	if !store.Damaged(reason) {
		return errors.Join(reason, ln.Close())
	}
	o.Logger.ErrorContext(ctx, "the database is damaged; nothing starts, and every page says so", "error", reason)
	server := &http.Server{Handler: damagedPage("the database is damaged"), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	o.Service.ready("the database is damaged; nothing starts")
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { o.Service.watch(ctx, &loops{}) })
	defer watching.Wait()
	defer stop()
	select {
	case err := <-ended:
		return errors.Join(reason, err)
	case <-ctx.Done():
	}
	err := server.Close()
	<-ended
	return errors.Join(reason, err)
}

// unlessLost answers nothing from a database that is damaged or gone.
func (g *ground) unlessLost(site http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := site
		if found := g.readiness.lost(g.readiness.missing()); found != nil {
			answer = damagedPage(found.what)
		}
		answer.ServeHTTP(w, r)
	})
}

// damagedPage answers every request with the same text and status 503. Without a database nobody can be recognised, so the page does
// not name files; the log does.
func damagedPage(what string) http.Handler {
	words := "Claude Ops: " + what + ". No service is watched or repaired. Stop claudeops, restore a backup " +
		"(claudeops db restore), and start it again. The log of the supervisor says more."
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Retry-After", "60")
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasSuffix(r.URL.Path, "z") {
			http.Error(w, words, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>%[1]s · Claude Ops</title></head>"+
			"<body><main><h1>%[1]s</h1><p>%[2]s</p></main></body></html>\n", strings.ToUpper(what[:1])+what[1:], words)
	})
}
