package river

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// thin passes on only what helps an operator in River's log: warnings, and equal ones at most once a minute. River
// recovers from every error by itself, so errors are logged as warnings.
type thin struct {
	slog.Handler
	last *lastSaid
}

// lastSaid remembers when a message was logged.
type lastSaid struct {
	mu   sync.Mutex
	when map[string]time.Time
}

func newThin(h slog.Handler) *thin {
	return &thin{h, newLastSaid()}
}

func newLastSaid() *lastSaid { return &lastSaid{when: map[string]time.Time{}} }

// Enabled reports whether the level is logged.
func (t *thin) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && t.Handler.Enabled(ctx, slog.LevelWarn)
}

// Handle passes a record on unless the same message was logged within the last minute.
func (t *thin) Handle(ctx context.Context, r slog.Record) error {
	if !t.last.news(r.Message, r.Time) {
		return nil
	}
	out := slog.NewRecord(r.Time, slog.LevelWarn, "queue: "+r.Message, r.PC)
	stopping := false
	r.Attrs(func(a slog.Attr) bool {
		// River's parts log this when River is stopped.
		stopping = stopping || strings.HasSuffix(a.Value.String(), context.Canceled.Error())
		out.AddAttrs(a)
		return true
	})
	if stopping {
		return nil
	}
	return t.Handler.Handle(ctx, out)
}

// WithAttrs shares the memory of logged messages.
func (t *thin) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &thin{t.Handler.WithAttrs(attrs), t.last}
}

// WithGroup shares the memory of logged messages.
func (t *thin) WithGroup(name string) slog.Handler { return &thin{t.Handler.WithGroup(name), t.last} }

// news reports whether the message was not logged within the last minute.
func (l *lastSaid) news(what string, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.when[what]; ok && at.Sub(before) < time.Minute {
		return false
	}
	l.when[what] = at
	return true
}
