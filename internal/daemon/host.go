package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/agent/keeper/client"
	"claudeops/internal/api"
	"claudeops/internal/api/webhook"
	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon/control"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/engine"
	"claudeops/internal/engine/river"
	"claudeops/internal/failpoint"
	"claudeops/internal/guard"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/ledger"
	"claudeops/internal/watch/notify"
	"claudeops/internal/watch/probe"
	"claudeops/internal/web"
)

// settleTime is how long a claimed repair may take to show in our own probes.
const settleTime = 10 * time.Second

// Options are what a Host is made from.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Clock   ops.Clock
	Version string
	// Self is the path of this program, which is also the scripted agent.
	Self string
	// Service tells systemd what the daemon does; nil if systemd did not start it.
	Service *Service
	// Lock is what the caller holds the state folder with and releases; nil if the folder is to be released with everything else.
	Lock *control.Lock
	// CheckConfig checks the configuration as it is now; nil if nobody can.
	CheckConfig func(ctx context.Context) api.ConfigCheck
	// Examine checks this machine as claudeops doctor does, with what this process sees; nil if nobody can.
	Examine func(ctx context.Context) []api.Finding
	// LoadConfig reads the configuration as it is now, with other contents of some files, and Reload makes the daemon read it again as
	// SIGHUP does; nil if this process cannot.
	LoadConfig func(instead map[string][]byte) (*config.Config, error)
	Reload     func()
	// patience is how long the server of the database may take until it answers. Zero: whoever started a command wants to know at once.
	patience time.Duration
}

// Host is everything that works on one state folder.
type Host struct {
	Options
	// judge is the guard, made when it is first needed: reading its tables takes time.
	judge      func() (*guard.Guard, error)
	sandboxes  map[string]*wall.Sandbox // the walls by environment; none when they are off
	networks   networks
	store      *store.Store
	journal    *journal
	owner      atomic.Pointer[ops.Owner]
	lease      *supervisor.Lease // nil if the database is not shared
	draining   atomic.Bool
	drainGate  sync.Mutex // held from reading the row until it is obeyed
	readiness  *readiness
	unstored   unstored
	envs       []ops.Environment
	mine       []ops.Environment // those of them that this host works for
	advancer   *cycle.Advancer
	actions    *act.Runner
	prober     *probe.Prober
	commits    *act.Commits
	ledger     *ledger.Ledger
	engine     engine.Engine
	supervisor *supervisor.Supervisor
	outbox     *notify.Outbox
	hub        *web.Hub
	setup      *Setup
	trials     *Trials
	hook       *webhook.Hook
	redact     func(string) string // removes secrets; build sets it
	control    *control.Server
	token      string // for the pages and the API
	refusals   refusals
	// pagesAddress is where people find the pages; nil while there are none.
	pagesAddress atomic.Pointer[string]
	// closeControl closes the socket once.
	closeControl func() error
	cleanups     []cleanup
	discards     *agent.Discards
	// sessionKeeper ends the agents when this process dies or is paused.
	sessionKeeper *client.Client
	// afterStart is closed by endStart. Then the keeper and the check of the database begin; sessions wait for them.
	afterStart  <-chan struct{}
	endStart    func()
	descriptors *descriptors
	// loops must keep running, or systemd is asked to restart the daemon.
	loops loops
}

// cleanup undoes one step of open; the last one is undone first.
type cleanup struct {
	what string
	undo func() error
}

// open locks the state folder and builds the parts. Nothing runs yet; a failure undoes everything.
func open(ctx context.Context, o Options) (h *Host, err error) {
	h = newHost(o, o.Config.Environments())
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
			h = nil
		}
	}()
	if o.Config.Guard.Enabled {
		// The guard reads its tables while the database is opened.
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = h.judge() }) // the error is reported when the guard is needed
		defer reading.Wait()
	}
	for _, build := range []func(context.Context) error{
		hideEnvironment, h.takeFolder, h.makeKeeper, h.openStore, h.build, h.keepLease, h.listenControl,
	} {
		if err := build(ctx); err != nil {
			return h, err
		}
	}
	return h, nil
}

func newHost(o Options, envs []ops.Environment) *Host {
	for i := range envs {
		envs[i].Policy.Watch = envs[i].Watch // a cycle judges its own probes as the watch does
	}
	o.Clock = wallClock(o.Clock)
	h := &Host{
		Options: o, sandboxes: newSandboxes(o, envs), envs: envs, hub: web.NewHub(),
		judge:    sync.OnceValues(func() (*guard.Guard, error) { return newJudge(o.Config, o.Self) }),
		discards: &agent.Discards{Logger: o.Logger}, descriptors: newDescriptors(),
	}
	for i, e := range envs {
		noteFloor(&envs[i], h.box(e))
	}
	h.mine, h.networks.h = labelled(envs, o.Config.Host.Labels), h
	return h
}

// wallClock drops the reading of the monotonic clock, which stops while the machine is suspended: times are compared with those in
// the database and with the schedule, for which that time counts.
func wallClock(clock ops.Clock) ops.Clock {
	return func() time.Time { return clock().Round(0) }
}

func (h *Host) later(what string, undo func() error) {
	h.cleanups = append(h.cleanups, cleanup{what, undo})
}

// close undoes everything that open did, the last thing first.
func (h *Host) close() error {
	var errs []error
	for i := len(h.cleanups) - 1; i >= 0; i-- {
		if err := h.cleanups[i].undo(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.cleanups[i].what, err))
		}
	}
	h.cleanups = nil
	return errors.Join(errs...)
}

func (h *Host) takeFolder(context.Context) error {
	if err := h.descriptors.enough(); err != nil {
		return err
	}
	for _, e := range h.envs {
		if err := os.MkdirAll(e.StateDir, 0o700); err != nil {
			return fmt.Errorf("create state folder: %w; make it writable or set CLAUDEOPS_STATE_DIR", err)
		}
	}
	if err := CheckStateFolder(h.Config.StateDir); err != nil {
		return err
	}
	if h.Lock == nil {
		h.Lock = &control.Lock{}
		h.later("release lock", h.Lock.Release)
	}
	if err := h.Lock.Take(h.Config.StateDir); err != nil {
		return err
	}
	if err := h.takeToken(); err != nil {
		return err
	}
	failpoint.Hit("boot.lock.after")
	return nil
}

// makeKeeper prepares the process that ends the agents when this one dies. It starts when everything else has: sessions wait for it, and
// the start of this process need not.
func (h *Host) makeKeeper(ctx context.Context) error {
	begun := make(chan struct{})
	h.afterStart, h.endStart = begun, sync.OnceFunc(func() { close(begun) })
	h.sessionKeeper = client.Start(ctx, client.Options{
		Path: h.Self, Lease: h.Config.Host.Lease, Shared: h.shared(), Capabilities: heldCapabilities(), Logger: h.Logger, Begin: begun,
	})
	h.later("end keeper", h.sessionKeeper.Close)
	// This comes first: the keeper keeps an ended session until the last search for its processes.
	h.later("remove files of sessions", func() error { h.discards.Wait(); return nil })
	return nil
}

func (h *Host) openStore(ctx context.Context) error {
	where := StoreOptions(h.Config)
	where.Host, where.Logger, where.MaxOutput, where.Version = h.Clock, h.Logger, mostSessionBytes, h.Version
	s, err := h.awaitStore(ctx, where)
	if err != nil {
		return fmt.Errorf("open database: %w", h.full(err))
	}
	h.store = s
	h.Clock = s.Clock // what is stored is compared by the database's time
	h.later("close database", s.Close)
	failpoint.Hit("boot.store.after")
	h.checkDatabase(ctx, s)
	if err := s.MarkOpen(ctx); err != nil {
		return fmt.Errorf("mark database as open: %w", err)
	}
	if err := h.begin(ctx); err != nil {
		return err
	}
	h.journal = &journal{
		Store: s, spool: newSpool(filepath.Join(h.Config.StateDir, "spool")), host: h.Config.Host.Name, log: h.Logger,
		scarce: h.readiness.scarce, elsewhere: h.shared(),
	}
	return nil
}

// mostSessionBytes is what is kept of the output of one session, its beginning and its end: a program that prints without end must not fill
// the disk.
const mostSessionBytes = 64 << 20

// awaitStore opens the database. A server that was started together with this daemon may not answer yet.
func (h *Host) awaitStore(ctx context.Context, where store.Options) (*store.Store, error) {
	const pace = 500 * time.Millisecond
	end := time.Now().Add(h.patience)
	for told := false; ; told = true {
		s, err := store.Open(ctx, where)
		if err == nil || !h.shared() || store.Damaged(err) || !store.Unavailable(err) || time.Now().Add(pace).After(end) {
			return s, err
		}
		if !told {
			h.Logger.WarnContext(ctx, "the database does not answer yet; trying again", "for", h.patience.String(), "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pace):
		}
	}
}

// full adds that the disk is full, if it is; the error of the database is only a number.
func (h *Host) full(err error) error {
	const least = 1 << 20
	if free, failed := freeSpace(h.Config.StateDir); failed != nil || free >= least || h.shared() {
		return err
	}
	return fmt.Errorf("%w: the disk of %s is full; free some space and start again", err, h.Config.StateDir)
}

// checkAlways is the size up to which a database file is checked at every start; it takes about a second. The mark of an unclean
// stop is in the file, so it can be damaged too.
const checkAlways = 256 << 20

// checkDatabase checks a database that was not closed properly, or that is small, in the background. Only repairs wait for it.
func (h *Host) checkDatabase(ctx context.Context, s *store.Store) {
	h.readiness = newReadiness(h.Config.StateDir)
	h.readiness.present = s.Present
	h.readiness.also = []func() error{h.sessionKeeper.Trouble, h.descriptors.trouble}
	info, err := os.Stat(DatabasePath(h.Config))
	if small := err == nil && info.Size() <= checkAlways && !h.shared(); !small && !s.UncleanStop() {
		close(h.readiness.checked)
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var looking sync.WaitGroup
	looking.Go(func() {
		select {
		case <-h.afterStart: // the check would compete with the start for the disk
			h.readiness.check(ctx, s.QuickCheck)
		case <-ctx.Done():
		}
	})
	h.later("check database", func() error { stop(); looking.Wait(); return nil })
}

// DatabasePath is the file of the SQLite database.
func DatabasePath(c *config.Config) string { return filepath.Join(c.StateDir, "claudeops.db") }

func (h *Host) build(ctx context.Context) error {
	byName := map[string]ops.Environment{}
	for _, e := range h.mine {
		byName[e.Name] = e
	}
	parts, err := h.parts(ctx, byName)
	if err != nil {
		return err
	}
	h.advancer = cycle.New(parts)
	waker, err := h.newEngine(byName)
	if err != nil {
		return err
	}
	h.supervisor = supervisor.New(supervisor.Options{
		Journal: h.store, Failures: h.store, Engine: waker, Environments: h.envs, Scheduled: h.mine, Shared: h.shared(),
		Clock: h.Clock, Logger: h.Logger, Ran: h.loops.add("schedule"), Idle: h.idle,
	})
	h.setup = NewSetup(ctx, h.Config, h.envs, h.store, h.trials, h.hub.Nudge)
	h.later("end checks of the set-up", h.setup.Close)
	h.outbox = h.newOutbox()
	return nil
}

// newEngine makes the engine: one for this process alone, or one that all hosts of the database share.
func (h *Host) newEngine(envs map[string]ops.Environment) (engine.Waker, error) {
	if h.shared() {
		e, err := river.New(river.Options{
			Pool: h.store.Pool(), Journal: h.store, Advance: h.advance,
			Environments: labelsOf(h.envs), Mine: slices.Sorted(maps.Keys(envs)), Host: h.Config.Host.Name,
			Clock: h.Clock, Logger: h.Logger, Workers: h.Config.Host.Sessions, Ready: func(j *river.Jobs) { h.store.UseJobs(j) },
		})
		h.engine = e
		return e, err
	}
	e := engine.NewLocal(engine.LocalOptions{
		Journal: h.store, Advance: h.advance, Clock: h.Clock, Logger: h.Logger, Workers: h.Config.Host.Sessions,
		Known: func(name string) bool { _, ok := envs[name]; return ok }, Ran: h.loops.add("engine"),
	})
	h.engine = e
	return e, nil
}

func (h *Host) listenControl(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s, err := control.Listen(h.Config.StateDir, control.Options{
		Rules: h.peerRules(), SignIn: h.SignInLink,
		Wake:    func() { h.supervisor.Wake(0); h.hub.Nudge(); h.checkDrain(ctx) },
		Refused: func(c control.Caller) { h.recordRefusal(ctx, "control socket", c) },
	})
	if err != nil {
		return err
	}
	h.control = s
	h.closeControl = sync.OnceValue(s.Close)
	h.later("close control socket", h.closeControl)
	failpoint.Hit("boot.control.after")
	return nil
}

// prepare logs what the operator should know and removes files of an earlier run.
func (h *Host) prepare(ctx context.Context) error {
	for _, n := range h.Config.Notices {
		h.Logger.WarnContext(ctx, "configuration notice", "notice", n)
	}
	h.warnOfOldPrices(ctx)
	failpoint.Hit("boot.welcome.before")
	files := cycle.HandoffFiles{}
	for _, e := range h.envs {
		if err := files.Delete(e.StateDir); err != nil {
			return fmt.Errorf("delete stale handoff file: %w", err)
		}
	}
	if err := h.sweepFolders(ctx); err != nil {
		return err
	}
	if err := h.interruptActions(ctx); err != nil {
		return err
	}
	return h.warnUnconfigured(ctx)
}

// warnUnconfigured logs the open cycles of environments that are no longer configured; no worker takes them.
func (h *Host) warnUnconfigured(ctx context.Context) error {
	open, err := h.store.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("read open cycles: %w", err)
	}
	known := map[string]bool{}
	for _, e := range h.envs {
		known[e.Name] = true
	}
	for _, c := range open {
		if !known[c.Environment] {
			h.Logger.WarnContext(ctx, "an open cycle belongs to an environment that is not configured; configure it again to continue the cycle",
				"cycle", c.ID, "environment", c.Environment)
		}
	}
	return nil
}
