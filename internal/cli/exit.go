package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Exit codes; scripts rely on them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitConfig      = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitNeedsHuman  = 6
	exitBlocked     = 7
	exitFailed      = 8
	exitDifferent   = 8 // rehearse
	exitTimeout     = 124
	exitInterrupted = 130
)

// Reasons for which a command ends early.
var (
	errInterrupted = errors.New("interrupted")
	errTimeout     = errors.New("the time of --timeout is over")
)

// codeError carries its own exit code. Without an error everything was printed already.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}
func (e *codeError) Unwrap() error { return e.err }

func usage(err error) error { return &codeError{exitUsage, err} }

// exitCode is the exit code for an error.
func exitCode(err error) int {
	var code *codeError
	var cfg *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &cfg), errors.Is(err, store.ErrUnmarked), errors.Is(err, store.ErrForeign):
		return exitConfig
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, ops.ErrNotFound):
		return exitNotFound
	case errors.Is(err, ops.ErrStopped), errors.Is(err, ops.ErrRestart):
		return exitBlocked
	case errors.Is(err, ops.ErrConflict):
		return exitConflict
	default:
		return exitError
	}
}

// exitOf is the exit code for the status of a cycle.
func exitOf(s ops.CycleStatus) int {
	switch s {
	case ops.CycleHealthy, ops.CycleResolved:
		return exitOK
	case ops.CycleNeedsHuman, ops.CycleWaitingHuman:
		return exitNeedsHuman
	case ops.CycleSuppressed, ops.CycleBlocked:
		return exitBlocked
	case ops.CycleFailed, ops.CyclePartial:
		return exitFailed
	case ops.CycleCancelled:
		return exitInterrupted
	case ops.CycleQueued, ops.CycleRunning:
		return exitError
	}
	return exitError
}

// longestValue is how much of one value a log line shows: a list of thousands of services fills no log.
const longestValue = 2000

// newLogger returns a logger whose lines are bounded: sentences for a person at a terminal, key=value for programs.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	if terminal(w) {
		return slog.New(&sentences{w: w, level: level, mu: new(sync.Mutex)})
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cutValue}))
}

// sentences writes records for a person: the time, the level unless it is ordinary, what happened, and the rest in brackets.
type sentences struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
	mu    *sync.Mutex // of w, shared by all loggers made from one
}

func (h *sentences) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Concat(h.attrs, attrs)
	return &next
}

// WithGroup forgets the group: a person knows the words without it.
func (h *sentences) WithGroup(string) slog.Handler { return h }

func (h *sentences) Handle(_ context.Context, r slog.Record) error {
	text, said := clean(r.Message), ""
	var rest []string
	add := func(a slog.Attr) bool {
		value := clean(cutValue(nil, a).Value.String())
		switch {
		case value == "":
		case slices.Contains([]string{"reason", "error", "problem", "to_do", "message"}, a.Key):
			said += ": " + strings.TrimSuffix(value, ".")
		case slices.Contains([]string{"step", "row", "kind", "severity", "key", "settings", "term"}, a.Key): // for programs
		default:
			rest = append(rest, strings.ReplaceAll(a.Key, "_", " ")+" "+value)
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if r.Level != slog.LevelInfo {
		text = r.Level.String() + " " + text
	}
	if len(rest) > 0 {
		said += " (" + strings.Join(rest, ", ") + ")"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintf(h.w, "%s %s%s\n", r.Time.Format(time.TimeOnly), text, said)
	return err
}

func cutValue(_ []string, a slog.Attr) slog.Attr {
	var text string
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		text = fmt.Sprint(a.Value.Any())
	default:
		return a
	}
	if len(text) <= longestValue {
		return a
	}
	a.Value = slog.StringValue(fmt.Sprintf("%s… (%d more bytes)", strings.ToValidUTF8(text[:longestValue], ""), len(text)-longestValue))
	return a
}
