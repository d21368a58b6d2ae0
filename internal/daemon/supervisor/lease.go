package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// Hosts is where hosts that share a database tell each other that they live.
type Hosts interface {
	Renew(ctx context.Context, owner ops.Owner, length time.Duration) (draining bool, err error)
	Reap(ctx context.Context, owner ops.Owner) ([]ops.Reaped, error)
	TakeDuty(ctx context.Context, owner ops.Owner, name string, length time.Duration) (bool, error)
}

// Errors of a host that may not act.
var (
	ErrUnheld = errors.New("this host cannot reach its database, so it changes nothing until it does")
	errTaken  = errors.New("another host took over while this one gave no sign of life")
)

// Lease keeps this host alive among the others, and from harm while it cannot tell whether it is.
//
// The database's clock says when a lease ends; this host counts on its own from before it asked, so it always stops first:
// at the first failed renewal nothing may be changed any more, at two thirds of the lease the agents are stopped, and only at
// its end may others take over.
type Lease struct {
	LeaseOptions

	mu    sync.Mutex
	fault error           // why nothing may be changed now; nil while the lease is held
	sent  time.Time       // when the last renewal that succeeded was sent
	since time.Time       // since when it is held without a gap
	life  context.Context //nolint:containedctx // what may run only while the lease is held
	end   context.CancelCauseFunc
}

// LeaseOptions are what a Lease works with.
type LeaseOptions struct {
	Hosts  Hosts
	Owner  func() ops.Owner
	Length time.Duration
	// Enlist begins a new term after others took this host for dead.
	Enlist func(ctx context.Context) error
	// Drain is called when somebody asked this host to take no new work.
	Drain func()
	// Regained is called when work may go on: at the start, after a gap, and when another host's work is free.
	Regained func()
	Logger   *slog.Logger
}

// NewLease returns a lease that was just begun.
func NewLease(o LeaseOptions) *Lease {
	l := &Lease{LeaseOptions: o, sent: time.Now(), since: time.Now()}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// Held is nil while this host may change something.
func (l *Lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// Bound returns a context that also ends, with cause lease, when the agents must be stopped.
func (l *Lease) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	life := l.life
	l.mu.Unlock()
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { end(context.Cause(life)) })
	return ctx, func() { stop(); end(nil) }
}

// Run renews until ctx ends, and takes over from hosts that do not.
func (l *Lease) Run(ctx context.Context) {
	ticker := time.NewTicker(l.look())
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

// look is how often the hosts are looked at: a dead one should not be dead for much longer than its lease.
func (l *Lease) look() time.Duration { return l.Length / 12 }

// due: a third of the lease has gone by, or it is in doubt.
func (l *Lease) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault != nil || time.Since(l.sent) >= l.Length/3
}

// renew tries once. It never takes so long that the agents would be stopped late.
func (l *Lease) renew(ctx context.Context) {
	l.mu.Lock()
	stopAt := l.sent.Add(l.Length * 2 / 3)
	l.mu.Unlock()
	patience := l.Length / 4
	if left := time.Until(stopAt); left > 0 {
		patience = min(patience, left)
	}
	sent := time.Now()
	call, cancel := context.WithTimeout(ctx, patience)
	draining, err := l.Hosts.Renew(call, l.Owner(), l.Length)
	cancel()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.held(sent)
		if draining {
			l.Drain()
		}
	case errors.Is(err, ops.ErrFenced):
		l.lost(errTaken)
		sent = time.Now()
		if err := l.Enlist(ctx); err != nil {
			l.Logger.ErrorContext(ctx, "this host could not begin anew after others took it for dead; trying again", "error", err)
			return
		}
		l.held(sent)
	default:
		l.doubt(ctx, err)
		if !time.Now().Before(stopAt) {
			l.lost(ErrUnheld)
		}
	}
}

// held notes a lease that was renewed by a question sent then.
func (l *Lease) held(sent time.Time) {
	l.mu.Lock()
	gap := l.fault != nil
	l.fault, l.sent = nil, sent
	if gap {
		l.since = sent
	}
	if l.life.Err() != nil {
		l.life, l.end = context.WithCancelCause(context.Background())
	}
	l.mu.Unlock()
	if gap {
		l.Logger.Info("the database answers again; work goes on")
		l.Regained()
	}
}

// doubt closes the gates.
func (l *Lease) doubt(ctx context.Context, err error) {
	l.mu.Lock()
	first := l.fault == nil
	l.fault = ErrUnheld
	l.mu.Unlock()
	if first {
		l.Logger.ErrorContext(ctx, "the lease could not be renewed: nothing is changed any more, and agents are stopped if this lasts", "error", err)
	}
}

// lost stops what may run only while the lease is held.
func (l *Lease) lost(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = why
	if l.life.Err() == nil {
		l.end(ops.Stop(ops.StopLease, why.Error()))
		l.Logger.Error("agents are stopped", "why", why)
	}
}

// reap takes over from the dead. A host that has just come back itself gives the others the same time to do so: after an
// outage of the database all of them look dead.
func (l *Lease) reap(ctx context.Context) {
	l.mu.Lock()
	fit := l.fault == nil && time.Since(l.since) >= l.Length
	l.mu.Unlock()
	if !fit {
		return
	}
	call, cancel := context.WithTimeout(ctx, l.Length/4)
	defer cancel()
	reaped, err := l.Hosts.Reap(call, l.Owner())
	if err != nil {
		if ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "other hosts could not be looked after; trying again", "error", err)
		}
		return
	}
	for _, r := range reaped {
		l.Logger.WarnContext(ctx, "a host gave no sign of life; its cycles go on elsewhere", "host", r.Host, "cycles", len(r.Cycles))
	}
	if len(reaped) > 0 {
		l.Regained()
	}
}

// Duty runs f while this host is the one that looks after the name, again and again until ctx ends. What f starts must end with
// its context.
func (l *Lease) Duty(ctx context.Context, name string, f func(ctx context.Context) error) error {
	for {
		if l.Held() == nil {
			call, cancel := context.WithTimeout(ctx, l.Length/4)
			taken, err := l.Hosts.TakeDuty(call, l.Owner(), name, l.Length)
			cancel()
			switch {
			case err != nil:
				l.Logger.DebugContext(ctx, "a duty could not be asked for; trying again", "duty", name, "error", err)
			case taken:
				bound, free := l.Bound(ctx)
				err := f(bound)
				lost := bound.Err() != nil && ctx.Err() == nil
				free()
				switch {
				case err == nil && !lost:
					return nil
				case err != nil && ctx.Err() == nil:
					l.Logger.WarnContext(ctx, "a duty was not done; it is tried again", "duty", name, "error", err)
				}
			}
		}
		timer := time.NewTimer(l.Length / 3)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
