package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"claudeops/internal/config"
	"claudeops/internal/ops"
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
	exitTimeout     = 124
	exitInterrupted = 130
)

// Reasons for which a command ends early.
var (
	errInterrupted = errors.New("interrupted")
	errTimeout     = errors.New("the time of --timeout is over")
)

// codeError carries its own exit code.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
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
	case errors.As(err, &cfg):
		return exitConfig
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, ops.ErrNotFound):
		return exitNotFound
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

// newLogger returns a logger whose lines are bounded.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: cutValue}))
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
