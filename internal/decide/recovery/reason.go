package recovery

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// reason is the move in one sentence, stored, shown and notified unchanged.
func (w *walk) reason(level ops.RecoveryLevel) string {
	text := fmt.Sprintf("%s. %s", w.what(), w.doing(level))
	if why := cmp.Or(w.because(), w.class.Why); why != "" {
		text += ": " + why
	}
	return text
}

// what says which session failed, and how.
func (w *walk) what() string {
	if w.class.ErrorType == TypeFormat && len(w.failure.OutcomeProblems) > 0 {
		return fmt.Sprintf("Session %d's report was invalid (%s)", w.failure.Session, ops.Cut(w.failure.OutcomeProblems[0].Message, 161))
	}
	return fmt.Sprintf("Session %d failed (%s)", w.failure.Session, w.class.ErrorType)
}

// because is why no lower level was taken; empty when the failure entered right here.
func (w *walk) because() string {
	if w.left == "" && len(w.move.Passed) > 0 {
		return w.move.Passed[len(w.move.Passed)-1].Reason
	}
	return w.left
}

func (w *walk) doing(level ops.RecoveryLevel) string {
	if w.move.Outage {
		return fmt.Sprintf("Waiting %s for the provider, then trying again", short(w.move.Wait))
	}
	switch level {
	case ops.RecoveryRetry:
		return fmt.Sprintf("Retrying in %s, attempt %d of %d", short(w.move.Wait), w.count(ops.RecoveryRetry)+1, w.limits.Retries)
	case ops.RecoveryNudge:
		return fmt.Sprintf("Asking again in the same conversation, attempt %d of %d", w.move.Variant, w.limits.Nudges)
	case ops.RecoveryReplan:
		if w.move.Planner != "" {
			return fmt.Sprintf("Starting a fresh session with a new plan of %s", w.move.Planner)
		}
		return "Starting a fresh session with a new plan"
	case ops.RecoveryFallback:
		return "Falling back to " + w.move.Handler
	case ops.RecoveryForceDone:
		return "Ending the cycle with a partial result"
	case ops.RecoveryNone:
	}
	return "Nothing to do"
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
