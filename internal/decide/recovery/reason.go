package recovery

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// reason is the move in one sentence, stored, shown and notified unchanged.
func (w *climb) reason(level ops.RecoveryLevel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %d failed (%s): %s", w.failure.Session, w.class.ErrorType, w.doing(level))
	if why := cmp.Or(w.because(), w.class.Why); why != "" {
		b.WriteString(", because " + why)
	}
	return b.String()
}

// because is why no lower level was taken; empty when the failure entered right here.
func (w *climb) because() string {
	if w.left == "" && len(w.move.Passed) > 0 {
		return w.move.Passed[len(w.move.Passed)-1].Reason
	}
	return w.left
}

func (w *climb) doing(level ops.RecoveryLevel) string {
	switch level {
	case ops.RecoveryRetry:
		return fmt.Sprintf("retry %d of %d in %s", w.count(ops.RecoveryRetry)+1, w.limits.Retries, short(w.move.Wait))
	case ops.RecoveryNudge:
		return fmt.Sprintf("nudge %d of %d in the same conversation", w.move.Variant, w.limits.Nudges)
	case ops.RecoveryReplan:
		if w.move.Planner != "" {
			return fmt.Sprintf("a fresh session with a new plan of %s", w.move.Planner)
		}
		return "a fresh session with a new plan"
	case ops.RecoveryFallback:
		return "fallback to " + w.move.Handler
	case ops.RecoveryForceDone:
		return "a partial result ends the cycle"
	case ops.RecoveryNone:
	}
	return "nothing to do"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short writes a duration without zero parts: 5m, not 5m0s.
func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if d < time.Minute {
		text = d.Round(100 * time.Millisecond).String()
	}
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
