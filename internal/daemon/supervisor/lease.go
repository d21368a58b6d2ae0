package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// Hosts is where hosts that share a database renew their leases.
type Hosts interface {
	Renew(ctx context.Context, owner ops.Owner, length time.Duration) (draining bool, err error)
	Reap(ctx context.Context, owner ops.Owner) ([]ops.Reaped, error)
	TakeDuty(ctx context.Context, owner ops.Owner, name string, length time.Duration) (bool, error)
}

// Errors of a host that must not change anything.
var (
	ErrUnheld = errors.New("this host cannot reach its database, so it changes nothing until it can")
	errTaken  = errors.New("the lease of this host ended, and another host took over its cycles")
)

// Lease renews the lease of this host, and stops its work while the lease is in doubt.
//
// The database's clock decides when a lease ends. This host measures the time itself, from before each renewal was sent, so it
// always stops first: after the first failed renewal nothing may be changed, at two thirds of the lease the agents are stopped,
// and only at its end may other hosts take over. Time in which this process was paused or the machine suspended counts: the others
// count it too.
type Lease struct {
	LeaseOptions

	ops.Leash // what may run only while the lease is held; it ends with cause lease when the agents must be stopped

	mu    sync.Mutex
	fault error         // why nothing may be changed now; nil while the lease is held
	sent  time.Duration // when the last renewal that succeeded was sent, by Uptime
	since time.Duration // when the current unbroken lease began, by Uptime
}

// LeaseOptions are what a Lease works with.
type LeaseOptions struct {
	Hosts  Hosts
	Owner  func() ops.Owner
	Length time.Duration
	// Enlist registers this host again after other hosts took over its cycles.
	Enlist func(ctx context.Context) error
	// Drain is called after every renewal with whether this host was asked to take no new cycles.
	Drain func(asked bool)
	// Regained is called when work can continue: after a gap, and when cycles of another host become free.
	Regained func()
	// Uptime measures time that also passes while the machine is suspended; nil means a clock that stops then.
	Uptime func() time.Duration
	Logger *slog.Logger
}

// NewLease returns a lease that has just begun.
func NewLease(o LeaseOptions) *Lease {
	if o.Uptime == nil {
		start := time.Now()
		o.Uptime = func() time.Duration { return time.Since(start) }
	}
	return &Lease{LeaseOptions: o, sent: o.Uptime(), since: o.Uptime()}
}

// Held is nil while this host may change something.
func (l *Lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil && l.Uptime()-l.sent >= l.stopAfter() {
		return ErrUnheld // this process was paused, and has not yet renewed
	}
	return l.fault
}

// stopAfter is when the agents are stopped.
func (l *Lease) stopAfter() time.Duration { return l.Length * 2 / 3 }

// Run renews the lease until ctx ends, and takes over the cycles of hosts whose lease has ended.
func (l *Lease) Run(ctx context.Context) {
	ticker := time.NewTicker(l.interval())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.due() {
			l.renew(ctx)
		}
		l.reap(ctx)
	}
}

// interval is how often leases are checked, so that cycles of a dead host wait not much longer than its lease.
func (l *Lease) interval() time.Duration { return l.Length / 12 }

// due reports whether a third of the lease is over, or the lease is in doubt.
func (l *Lease) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault != nil || l.Uptime()-l.sent >= l.Length/3
}

// renew tries once. It ends early enough to stop the agents in time.
func (l *Lease) renew(ctx context.Context) {
	l.mu.Lock()
	stopAt := l.sent + l.stopAfter()
	ended := l.fault == nil && l.Uptime()-l.sent >= l.Length
	l.mu.Unlock()
	if ended { // this process was paused: another host may already have taken over
		l.lost(ErrUnheld)
	}
	timeout := l.Length / 4
	if left := stopAt - l.Uptime(); left > 0 {
		timeout = min(timeout, left)
	}
	sent := l.Uptime()
	call, cancel := context.WithTimeout(ctx, timeout)
	draining, err := l.Hosts.Renew(call, l.Owner(), l.Length)
	cancel()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.held(sent)
		l.Drain(draining)
	case errors.Is(err, ops.ErrFenced):
		l.lost(errTaken)
		sent = l.Uptime()
		if err := l.Enlist(ctx); err != nil {
			l.Logger.ErrorContext(ctx, "re-registration after losing the lease failed; trying again", "error", err)
			return
		}
		l.held(sent)
	default:
		l.doubt(ctx, err)
		if l.Uptime() >= stopAt {
			l.lost(ErrUnheld)
		}
	}
}

// held records that a renewal sent at that time succeeded.
func (l *Lease) held(sent time.Duration) {
	l.mu.Lock()
	gap := l.fault != nil
	l.fault, l.sent = nil, sent
	if gap {
		l.since = sent
	}
	l.Loosen()
	l.mu.Unlock()
	if gap {
		l.Logger.Info("the database is reachable again; work continues")
		l.Regained()
	}
}

// doubt forbids changes until the next renewal succeeds.
func (l *Lease) doubt(ctx context.Context, err error) {
	l.mu.Lock()
	first := l.fault == nil
	l.fault = ErrUnheld
	l.mu.Unlock()
	if first {
		l.Logger.ErrorContext(ctx, "lease renewal failed; this host changes nothing, and agents are stopped if it keeps failing", "error", err)
	}
}

// lost stops what may run only while the lease is held.
func (l *Lease) lost(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = why
	if l.Pull(ops.Stop(ops.StopLease, why.Error())) {
		l.Logger.Error("stopping agents", "reason", why)
	}
}

// reap takes over the cycles of hosts whose lease has ended. A host that has just regained its own lease waits first: after an
// outage of the database the leases of all hosts have ended.
func (l *Lease) reap(ctx context.Context) {
	l.mu.Lock()
	fit := l.fault == nil && l.Uptime()-l.since >= l.Length
	l.mu.Unlock()
	if !fit {
		return
	}
	call, cancel := context.WithTimeout(ctx, l.Length/4)
	defer cancel()
	reaped, err := l.Hosts.Reap(call, l.Owner())
	if err != nil {
		if ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "cannot check the leases of other hosts; trying again", "error", err)
		}
		return
	}
	for _, r := range reaped {
		l.Logger.WarnContext(ctx, "the lease of a host ended; other hosts continue its cycles", "host", r.Host, "cycles", len(r.Cycles))
	}
	if len(reaped) > 0 {
		l.Regained()
	}
}

// Duty runs f while this host has the named duty, again and again until ctx ends. Everything that f starts must end with its
// context.
func (l *Lease) Duty(ctx context.Context, name string, f func(ctx context.Context) error) error {
	for {
		if l.Held() == nil {
			call, cancel := context.WithTimeout(ctx, l.Length/4)
			taken, err := l.Hosts.TakeDuty(call, l.Owner(), name, l.Length)
			cancel()
			switch {
			case err != nil:
				l.Logger.DebugContext(ctx, "cannot take a duty; trying again", "duty", name, "error", err)
			case taken:
				bound, free := l.Bound(ctx)
				err := f(bound)
				lost := bound.Err() != nil && ctx.Err() == nil
				free()
				switch {
				case err == nil && !lost:
					return nil
				case err != nil && ctx.Err() == nil:
					l.Logger.WarnContext(ctx, "a duty failed; trying again", "duty", name, "error", err)
				}
			}
		}
		if !ops.Pause(ctx, l.Length/3) {
			return nil
		}
	}
}
