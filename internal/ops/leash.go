package ops

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Leash ends what runs on it when it is pulled. The zero value lets work run.
type Leash struct {
	mu    sync.Mutex
	cause error // why nothing may run now
	ends  map[*context.CancelCauseFunc]bool
}

// Bound returns a context that also ends when the leash is pulled.
func (l *Leash) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		end(l.cause)
	}
	if l.ends == nil {
		l.ends = map[*context.CancelCauseFunc]bool{}
	}
	l.ends[&end] = true
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ends, &end)
		end(nil)
	}
}

// Pull ends what runs, and what starts until Loosen. It reports whether work was allowed before.
func (l *Leash) Pull(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	for end := range l.ends {
		(*end)(cause)
	}
	return true
}

// Loosen lets new work run.
func (l *Leash) Loosen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = nil
}

// ErrReplaced is the cause with which the work of a configuration ends when another one takes its place.
var ErrReplaced = errors.New("another configuration took its place")

// lastingKey is where a context has the one that it was made from.
type lastingKey struct{}

// Replaceable returns a context that the returned function ends because another configuration took the place of the one that it is of.
func Replaceable(whole context.Context) (ctx context.Context, replace func()) {
	ctx, end := context.WithCancelCause(context.WithValue(whole, lastingKey{}, whole))
	return ctx, func() { end(ErrReplaced) }
}

// Pause waits, and reports whether it did so to the end: false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Lasting returns a context for what has begun and is not to be torn by a new configuration: it ends with ctx, but not because that was
// replaced.
func Lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	whole, ok := ctx.Value(lastingKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	out, end := context.WithCancelCause(whole)
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrReplaced) {
			end(cause)
		}
	})
	return out, func() { stop(); end(nil) }
}
