package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/agent/keeper/client"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon/control"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/engine"
	"claudeops/internal/engine/river"
	"claudeops/internal/failpoint"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/ledger"
	"claudeops/internal/web"
)

// settleTime is how long a claimed repair may take to show in our own probes.
const settleTime = 10 * time.Second

// Options are what a daemon is made from.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Clock   ops.Clock
	Version string
	// Self is the path of this program, which is also the scripted agent.
	Self string
	// Service tells systemd what the daemon does; nil if systemd did not start it.
	Service *Service
	// CheckConfig checks the configuration as it is now; nil if nobody can.
	CheckConfig func(ctx context.Context) api.ConfigCheck
	// Examine checks this machine as claudeops doctor does, with what this process sees; nil if nobody can.
	Examine func(ctx context.Context) []api.Finding
	// LoadConfig reads the configuration as it is now, with other contents of some files; nil if this process cannot.
	LoadConfig func(instead map[string][]byte) (*config.Config, error)
	// Load makes the options anew from the configuration as it is now; nil: this daemon cannot be reloaded.
	Load func() (Options, error)
	// Hangups tells of each SIGHUP, which reloads too.
	Hangups <-chan struct{}
	// Reload puts the configuration as it is now into effect, or says why the old one stays. Serve sets it.
	Reload func(ctx context.Context) error
	// lock holds the state folder, also while nothing but a damaged database is there.
	lock *control.Lock
	// patience is how long the server of the database may take until it answers. Zero: whoever started a command wants to know at once.
	patience time.Duration
}

// ground is what stays when the configuration is read again: what other processes hold on to (the lock, the listener, the lease, agents
// and their doors), and what must be there once (store, engine, hub). Nothing here depends on a setting that a reload may change.
type ground struct {
	Options      // Config is that of the start: of it only what needs a restart may be read, see config.NeedsRestart
	store        *store.Store
	journal      *journal
	owner        atomic.Pointer[ops.Owner]
	lease        *supervisor.Lease // nil if the database is not shared
	draining     atomic.Bool
	drainGate    sync.Mutex // held from reading the row until it is obeyed
	readiness    *readiness
	unstored     unstored
	networks     networks // of running sessions
	engine       engine.Engine
	waker        engine.Waker
	takeUp       func(all map[string][]string, mine []string) error // tells the engine of other environments; nil: it asks
	hub          *web.Hub
	turns        act.Turns  // actions of two plans do not overlap either
	cloning      sync.Mutex // nor do changes of the clones
	looks        ledger.Looks
	redactor     *redact.Redactor // of the secrets of all live plans, see know
	control      *control.Server
	refusals     refusals
	listener     net.Listener // of the pages; nil while a single cycle runs
	conns        *connections
	ready        atomic.Bool
	closeControl func() error // once
	cleanups     []cleanup
	// sessionKeeper ends the agents when this process dies or is paused.
	sessionKeeper *client.Client
	descriptors   *descriptors
	// loops must keep running, or systemd is asked to restart the daemon.
	loops   loops
	running *services
	life    context.Context //nolint:containedctx // of everything that Serve runs
	end     context.CancelCauseFunc

	swapping sync.Mutex // held while one plan takes the place of another, and by the start and the end of the daemon
	mu       sync.Mutex // of what follows
	plan     atomic.Pointer[plan]
	live     []*plan // also those whose sessions have not ended
}

// cleanup undoes one step of open; the last one is undone first.
type cleanup struct {
	what string
	undo func() error
}

// open locks the state folder and builds the ground with its first plan. Nothing runs yet; a failure undoes everything.
func open(ctx context.Context, o Options) (p *plan, err error) {
	g := newGround(ctx, o)
	p = g.newPlan(o, o.Config.Environments())
	g.plan.Store(p)
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
			p = nil
		}
	}()
	for _, build := range []func(context.Context) error{
		hideEnvironment, g.takeFolder, g.makeKeeper, g.openStore, g.makeEngine, g.keepLease, p.build, g.listenControl,
	} {
		if err := build(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

func newGround(ctx context.Context, o Options) *ground {
	o.Clock = wallClock(o.Clock)
	g := &ground{
		Options: o, hub: web.NewHub(), redactor: redact.New(nil),
		descriptors: newDescriptors(),
	}
	g.networks.g = g
	if o.Load != nil {
		g.Reload = g.reload
	}
	g.life, g.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

// wallClock drops the reading of the monotonic clock, which stops while the machine is suspended: times are compared with those in
// the database and with the schedule, for which that time counts.
func wallClock(clock ops.Clock) ops.Clock {
	return func() time.Time { return clock().Round(0) }
}

func (g *ground) later(what string, undo func() error) {
	g.cleanups = append(g.cleanups, cleanup{what, undo})
}

// close undoes everything that open did, the last thing first.
func (g *ground) close() error {
	g.end(ops.Stop(ops.StopShutdown, "the supervisor has ended"))
	var errs []error
	for i := len(g.cleanups) - 1; i >= 0; i-- {
		if err := g.cleanups[i].undo(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.cleanups[i].what, err))
		}
	}
	g.cleanups = nil
	return errors.Join(errs...)
}

func (g *ground) takeFolder(context.Context) error {
	if err := g.descriptors.enough(); err != nil {
		return err
	}
	if err := os.MkdirAll(g.Config.StateDir, 0o700); err != nil {
		return fmt.Errorf("create state folder: %w; make it writable or set CLAUDEOPS_STATE_DIR", err)
	}
	if err := CheckStateFolder(g.Config.StateDir); err != nil {
		return err
	}
	if err := g.lock.Take(g.Config.StateDir); err != nil {
		return err
	}
	failpoint.Hit("boot.lock.after")
	return nil
}

// makeKeeper starts the process that ends the agents when this one dies.
func (g *ground) makeKeeper(ctx context.Context) error {
	g.sessionKeeper = client.Start(ctx, client.Options{
		Path: g.Self, Lease: leaseLength(), Shared: g.shared(), Capabilities: heldCapabilities(), Logger: g.Logger,
	})
	g.later("end keeper", g.sessionKeeper.Close)
	return nil
}

func (g *ground) openStore(ctx context.Context) error {
	where := StoreOptions(g.Config)
	where.Host, where.Logger, where.MaxOutput, where.Version = g.Clock, g.Logger, mostSessionBytes, g.Version
	s, err := g.awaitStore(ctx, where)
	if err != nil {
		return fmt.Errorf("open database: %w", g.full(err))
	}
	g.store = s
	g.Clock = s.Clock // what is stored is compared by the database's time
	g.later("close database", s.Close)
	failpoint.Hit("boot.store.after")
	g.checkDatabase(ctx, s)
	if err := s.MarkOpen(ctx); err != nil {
		return fmt.Errorf("mark database as open: %w", err)
	}
	if g.shared() {
		g.lease = g.makeLease(ctx)
	}
	if err := g.begin(ctx); err != nil {
		return err
	}
	g.journal = &journal{
		Journal: s.Journal, spool: newSpool(filepath.Join(g.Config.StateDir, "spool")), host: g.Config.Host.Name, log: g.Logger,
		scarce: g.readiness.scarce, elsewhere: g.shared(),
	}
	return nil
}

// mostSessionBytes is what is kept of the output of one session, its beginning and its end: a program that prints without end must not fill
// the disk.
const mostSessionBytes = 64 << 20

// awaitStore opens the database. A server that was started together with this daemon may not answer yet.
func (g *ground) awaitStore(ctx context.Context, where store.Options) (*store.Store, error) {
	const pace = 500 * time.Millisecond
	end := time.Now().Add(g.patience)
	for notified := false; ; notified = true {
		s, err := store.Open(ctx, where)
		if err == nil || !g.shared() || store.Damaged(err) || !store.Unavailable(err) || time.Now().Add(pace).After(end) {
			return s, err
		}
		if !notified {
			g.Logger.WarnContext(ctx, "the database does not answer yet; trying again", "for", g.patience.String(), "error", err)
		}
		if !ops.Pause(ctx, pace) {
			return nil, context.Cause(ctx)
		}
	}
}

// full adds that the disk is full, if it is; the error of the database is only a number.
func (g *ground) full(err error) error {
	const least = 1 << 20
	if free, failed := freeSpace(g.Config.StateDir); failed != nil || free >= least || g.shared() {
		return err
	}
	return fmt.Errorf("%w: the disk of %s is full; free some space and start again", err, g.Config.StateDir)
}

// checkAlways is the size up to which a database file is checked at every start; it takes about a second. The mark of an unclean
// stop is in the file, so it can be damaged too.
const checkAlways = 256 << 20

// checkDatabase checks a database that was not closed properly, or that is small, in the background. Only repairs wait for it.
func (g *ground) checkDatabase(ctx context.Context, s *store.Store) {
	g.readiness = newReadiness(g.Config.StateDir)
	g.readiness.present = s.Present
	g.readiness.also = []func() error{g.sessionKeeper.Trouble, g.descriptors.trouble}
	info, err := os.Stat(DatabasePath(g.Config))
	if small := err == nil && info.Size() <= checkAlways && !g.shared(); !small && !s.UncleanStop() {
		close(g.readiness.checked)
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var looking sync.WaitGroup
	looking.Go(func() { g.readiness.check(ctx, s.QuickCheck) })
	g.later("check database", func() error { stop(); looking.Wait(); return nil })
}

// DatabasePath is the file of the SQLite database.
func DatabasePath(c *config.Config) string { return filepath.Join(c.StateDir, "claudeops.db") }

// makeEngine makes the engine: one for this process alone, or one that all hosts of the database share.
func (g *ground) makeEngine(context.Context) error {
	g.later("close the configuration", func() error { return g.plan.Load().close() })
	p := g.plan.Load()
	if g.shared() {
		e, err := river.New(river.Options{
			Pool: g.store.Pool(), Journal: g.store.Journal, Advance: g.advance, Environments: labelsOf(p.envs), Mine: names(p.mine),
			Host: g.Config.Host.Name, Clock: g.Clock, Logger: g.Logger, Workers: g.Config.Host.Sessions,
			Ready: func(j *river.Jobs) { g.store.Journal.UseJobs(j) },
		})
		if err == nil {
			g.engine, g.waker, g.takeUp = e, e, e.TakeUp
		}
		return err
	}
	e := engine.NewLocal(engine.LocalOptions{
		Journal: g.store.Journal, Advance: g.advance, Clock: g.Clock, Logger: g.Logger, Workers: g.Config.Host.Sessions,
		Known: func(name string) bool { _, ok := g.plan.Load().works(name); return ok }, Ran: g.loops.add("engine"),
	})
	g.engine, g.waker = e, e
	return nil
}

func (g *ground) listenControl(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s, err := control.Listen(g.Config.StateDir, control.Options{
		Rules: g.peerRules(), SignIn: g.signInLink,
		Wake:    func() { g.waker.Submit(0); g.hub.Nudge(); g.checkDrain(ctx) },
		Refused: func(c control.Caller) { g.recordRefusal(ctx, "control socket", c) },
	})
	if err != nil {
		return err
	}
	g.control = s
	g.closeControl = sync.OnceValue(s.Close)
	g.later("close control socket", g.closeControl)
	failpoint.Hit("boot.control.after")
	return nil
}
