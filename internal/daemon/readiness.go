package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/cycle"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/decide/health"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/probe"
)

// readiness decides whether this host may start sessions at all: not while the disk is nearly full, not after the database was found
// damaged, and not while its file is gone or cannot be written.
//
// After an unclean stop the database is checked while the host works. Waiting for the check would leave a large installation
// unwatched for minutes, so only sessions that may change something wait for it, in hold.
type readiness struct {
	dir     string
	free    func(dir string) (int64, error)
	present func() error  // why the file of the database is not in its place; nil before it is open
	checked chan struct{} // closed when the database was checked, or needs no check
	damage  atomic.Pointer[error]
	also    []func() error // further reasons why no session may start

	// A session ends when the database file is gone: what it does then cannot be recorded.
	ops.Leash
}

func newReadiness(dir string) *readiness {
	return &readiness{dir: dir, free: freeSpace, checked: make(chan struct{})}
}

// diskReserve is what must be free in the state folder for a session to start: the journal of what already runs needs room to the end.
const diskReserve = 64 << 20

// freeSpace is how much a program without privileges can still write.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}

// check checks a database that was not closed properly. Repairs wait for it.
func (s *readiness) check(ctx context.Context, look func(context.Context) error) {
	if err := look(ctx); err != nil && ctx.Err() == nil {
		s.damaged(err)
	}
	close(s.checked)
}

// damaged stops everything until a restart: only a person can decide how much of the journal is still valid.
func (s *readiness) damaged(err error) {
	err = fmt.Errorf("the database is damaged, so nothing is stored: stop claudeops, copy the state folder, "+
		"restore a backup (claudeops db restore), start it again (%w)", err)
	s.damage.CompareAndSwap(nil, &err)
}

// obstacle is why no session may start now. Strangers are told only what, without paths.
type obstacle struct {
	what string
	error
}

func (o *obstacle) Unwrap() error { return o.error }

// trouble is why no session may start now, or nil.
func (s *readiness) trouble() error {
	found := s.obstacle()
	if found == nil {
		return nil
	}
	return found
}

func (s *readiness) obstacle() *obstacle {
	missing := s.missing()
	if found := s.lost(missing); found != nil {
		return found
	}
	if missing != nil {
		return &obstacle{store.ErrUnwritable.Error(), fmt.Errorf("%w, so nothing is stored: look at the log of the kernel, "+
			"repair the file system, start claudeops again (%w)", store.ErrUnwritable, missing)}
	}
	for _, reason := range s.also {
		if err := reason(); err != nil {
			return &obstacle{err.Error(), err}
		}
	}
	free, err := s.free(s.dir)
	if err != nil {
		return &obstacle{"the free space of the disk is not known", err}
	}
	if free < diskReserve {
		return &obstacle{"the disk is nearly full", fmt.Errorf("only %d MB are free in %s, and %d MB are reserved for the journal: "+
			"no session starts until there is more space", free>>20, s.dir, diskReserve>>20)}
	}
	return nil
}

// lost says what happened to a database that nothing can be read from or written to any more. It is nil for one that is in its place.
func (s *readiness) lost(missing error) *obstacle {
	if store.Damaged(missing) {
		s.damaged(missing)
	}
	if found := s.damage.Load(); found != nil {
		return &obstacle{"the database is damaged", *found}
	}
	if missing == nil || errors.Is(missing, store.ErrUnwritable) {
		return nil
	}
	return &obstacle{"the database file was removed or replaced", fmt.Errorf("the database file was removed or replaced, so "+
		"nothing is stored: stop claudeops, put the file back or restore a backup (claudeops db restore), start it again (%w)", missing)}
}

func (s *readiness) missing() error {
	if s.present == nil {
		return nil
	}
	return s.present()
}

// scarce reports whether so little space is left that not even output may use it: half of the reserve.
func (s *readiness) scarce() bool {
	free, err := s.free(s.dir)
	return err == nil && free < diskReserve/2
}

// follow ends what runs when the database is damaged, gone or cannot be written, and lets new work run when it is back.
func (s *readiness) follow(trouble error) {
	switch {
	case store.Damaged(trouble):
		s.Pull(ops.Stop(ops.StopLease, "the database is damaged"))
	case errors.Is(trouble, store.ErrReplaced):
		s.Pull(ops.Stop(ops.StopLease, "the database file was removed or replaced"))
	case errors.Is(trouble, store.ErrUnwritable):
		s.Pull(ops.Stop(ops.StopLease, store.ErrUnwritable.Error()))
	default:
		s.Loosen()
	}
}

// hold returns why a session of the tier must not start. A session that may change something first waits for the check of the
// database.
func (s *readiness) hold(ctx context.Context, tier ops.Tier) error {
	if tier > ops.Tier1 {
		select {
		case <-s.checked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.trouble()
}

// Hold returns why a session of the tier must not start now.
func (g *ground) Hold(ctx context.Context, tier ops.Tier) error {
	if err := g.readiness.hold(ctx, tier); err != nil {
		return err
	}
	return g.sessionKeeper.Check(ctx)
}

// readinessInterval is how often the free space and the database file are looked at while no session starts.
const readinessInterval = time.Second

// watch calls tell when trouble begins, becomes another one, and ends, until ctx ends. It calls ran each time it looks.
func (s *readiness) watch(ctx context.Context, ran func(), tell func(trouble error)) {
	var before string
	supervisor.Every(ctx, readinessInterval, nil, func() {
		ran()
		what := ""
		now := s.obstacle()
		if now != nil {
			what = now.what
		}
		if what != before {
			if now == nil {
				s.follow(nil)
				tell(nil)
			} else {
				s.follow(now)
				tell(now)
			}
			before = what
		}
	})
}

// tellTrouble records and reports that no session can start, or that sessions can start again.
func (g *ground) tellTrouble(ctx context.Context, trouble error) {
	at := g.Clock()
	event := ops.Event{At: at, Level: ops.LevelInfo, Verb: ops.VerbHostReady}
	errs := []error(nil)
	if trouble != nil {
		g.Logger.ErrorContext(ctx, "no session can start", "error", trouble)
		text := notice.CannotStart(trouble.Error())
		n := ops.Notice{
			Kind: ops.NoticeHost, Level: ops.LevelCritical, Title: text.Title, Body: text.Body,
			Status: ops.NoticePending, NextAt: at, CreatedAt: at,
		}
		if gone := errors.Is(trouble, store.ErrReplaced); gone || errors.Is(trouble, store.ErrUnwritable) || store.Damaged(trouble) {
			g.unstored.add(n) // nothing can be recorded
			if gone {
				g.rescue(ctx)
			}
			g.hub.Nudge()
			return
		}
		event.Level, event.Verb, event.Reason = ops.LevelCritical, ops.VerbHostTroubled, trouble.Error()
		_, err := g.store.People.AddNotice(ctx, n)
		errs = append(errs, err)
	} else {
		g.Logger.InfoContext(ctx, "sessions can start again")
		g.waker.Submit(0)
	}
	_, err := g.store.Journal.AddEvent(ctx, event)
	if err := errors.Join(append(errs, err)...); err != nil {
		g.Logger.ErrorContext(ctx, "cannot record whether sessions can start", "error", err)
	}
	g.hub.Nudge()
}

// What is known of the database.
const (
	databaseChecking = "checking"
	databaseIntact   = "sound"
	databaseDamaged  = "damaged"
)

// state says whether the database is being checked, intact or damaged.
func (s *readiness) state() string {
	if s.damage.Load() != nil {
		return databaseDamaged
	}
	select {
	case <-s.checked:
		return databaseIntact
	default:
		return databaseChecking
	}
}

// trouble is the warning on every page: why no session starts, or what waits.
func (g *ground) trouble() string {
	if err := g.may(); err != nil {
		return err.Error()
	}
	if g.draining.Load() {
		return "this host is being drained: it takes no new cycles; other hosts, or its next start, continue the ones it hands over"
	}
	if g.readiness.state() == databaseChecking {
		return "the database was not closed properly and is being checked; sessions that may change something wait for the result"
	}
	return ""
}

// unfit is why this host cannot work now, or nil. It is told to everybody, so it names no path.
func (g *ground) unfit() error {
	if found := g.readiness.obstacle(); found != nil {
		return unready{found}
	}
	if g.lease == nil {
		return nil
	}
	return g.lease.Held()
}

// unready is an obstacle as strangers are told of it.
type unready struct{ *obstacle }

func (u unready) Error() string { return u.what }

// rescue writes a copy of a database whose file was removed or replaced: this process still has it open, and its end would be the end
// of what was stored since the last backup.
func (g *ground) rescue(ctx context.Context) {
	target := DatabasePath(g.Config) + ".rescued-" + g.Clock().UTC().Format("20060102T150405Z")
	if err := g.store.Rescue(ctx, target); err != nil {
		g.Logger.ErrorContext(ctx, "cannot write a copy of the database whose file is gone", "error", err)
		return
	}
	g.Logger.ErrorContext(ctx, "the database file is gone; a copy of what it held was written", "copy", target)
}

// probeHealth judges the results of a cycle's own probes as the watch would.
type probeHealth struct {
	p      *plan
	limits map[string]health.Limits
}

func (p *plan) newProbeHealth(envs map[string]ops.Environment) *probeHealth {
	out := &probeHealth{p: p, limits: map[string]health.Limits{}}
	for name, e := range envs {
		out.limits[name] = health.LimitsOf(e, probe.Describe)
	}
	return out
}

func (h *probeHealth) MoreToFail(environment string, results []ops.Check) int {
	return health.MoreToFail(results, h.limits[environment])
}

func (h *probeHealth) MoreToRecover(environment string, results []ops.Check) int {
	return health.MoreToRecover(results, h.limits[environment])
}

// SettleTime is the longest time that one of the services may take to start. What cannot be read counts as not known.
func (h *probeHealth) SettleTime(ctx context.Context, environment string, services []string) time.Duration {
	var longest time.Duration
	e := h.p.environment(environment)
	for _, s := range e.Policy.Inventory.Services {
		if !slices.Contains(services, s.Name) {
			continue
		}
		starts, err := h.p.store.Watch.StartTimes(ctx, environment, s.Name)
		if err != nil {
			h.p.Logger.WarnContext(ctx, "start times of a service cannot be read", "service", s.Name, "error", err)
		}
		took := settleTime
		if s.Settle > 0 || len(starts) > 0 {
			took = health.SettleTime(s.Settle, starts, longestSettle)
		}
		longest = max(longest, took)
	}
	return failpoint.Wait("settle", cmp.Or(longest, settleTime))
}

// RoundPause is the time between two rounds of probes that verify a repair.
func (h *probeHealth) RoundPause() time.Duration {
	return min(cycle.RoundPause, max(failpoint.Wait("settle", settleTime), time.Millisecond))
}

// HoldTime is the longest time that one of the services must stay good. What cannot be read counts as not known.
func (h *probeHealth) HoldTime(ctx context.Context, environment string, services []string) time.Duration {
	var longest time.Duration
	e := h.p.environment(environment)
	since := h.p.Clock().Add(-holdWindow)
	if len(services) == 0 {
		for _, s := range e.Policy.Inventory.Services {
			services = append(services, s.Name)
		}
	}
	for _, name := range services {
		results, err := h.p.store.Watch.ChecksSince(ctx, environment, name, since)
		if err != nil {
			h.p.Logger.WarnContext(ctx, "results of a service cannot be read", "service", name, "error", err)
			continue
		}
		longest = max(longest, health.HoldTime(results, longestSettle))
	}
	return failpoint.Wait("settle", longest)
}

// holdWindow is how far back failures still say something about a repair.
const holdWindow = 10 * time.Minute

func (h *probeHealth) InGrace(environment, service string, recovered map[string]time.Time, now time.Time) (string, bool) {
	e := h.p.environment(environment)
	dependency, _, in := health.InGrace(e.Policy.Inventory.Services, e.Watch.Grouping, service, recovered, now)
	return dependency, in
}

// longestSettle is the longest that a service may take to answer after a start: what takes longer counts as down.
const longestSettle = 2 * time.Minute

func (p *plan) environment(name string) ops.Environment {
	i := slices.IndexFunc(p.envs, func(e ops.Environment) bool { return e.Name == name })
	if i >= 0 {
		return p.envs[i]
	}
	return ops.Environment{}
}
