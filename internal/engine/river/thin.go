package river

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// thin lets through what an operator can use of River's log: warnings, and of equal ones one a minute. River goes on
// by itself after every error, so none is worse than a warning here.
type thin struct {
	slog.Handler
	last *lastSaid
}

// lastSaid knows when something was said.
type lastSaid struct {
	mu   sync.Mutex
	when map[string]time.Time
}

func newThin(h slog.Handler) *thin {
	return &thin{h, newLastSaid()}
}

func newLastSaid() *lastSaid { return &lastSaid{when: map[string]time.Time{}} }

// Enabled reports whether the level is let through.
func (t *thin) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && t.Handler.Enabled(ctx, slog.LevelWarn)
}

// Handle passes a record on unless the same was said a moment ago.
func (t *thin) Handle(ctx context.Context, r slog.Record) error {
	if !t.last.news(r.Message, r.Time) {
		return nil
	}
	out := slog.NewRecord(r.Time, slog.LevelWarn, "queue: "+r.Message, r.PC)
	stopping := false
	r.Attrs(func(a slog.Attr) bool {
		// River's parts say so when it is stopped.
		stopping = stopping || strings.HasSuffix(a.Value.String(), context.Canceled.Error())
		out.AddAttrs(a)
		return true
	})
	if stopping {
		return nil
	}
	return t.Handler.Handle(ctx, out)
}

// WithAttrs keeps the memory of what was said.
func (t *thin) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &thin{t.Handler.WithAttrs(attrs), t.last}
}

// WithGroup keeps the memory of what was said.
func (t *thin) WithGroup(name string) slog.Handler { return &thin{t.Handler.WithGroup(name), t.last} }

// news reports whether something was not said within the last minute.
func (l *lastSaid) news(what string, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.when[what]; ok && at.Sub(before) < time.Minute {
		return false
	}
	l.when[what] = at
	return true
}
