package ops

import (
	"context"
	"sync"
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
