package recovery

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Explain tells in words what the ladder would do with a failure: class, entry level, limits, and why.
func Explain(f Failure, extra []Rule, l Limits) string {
	c := Classify(f, extra)
	var b strings.Builder
	fmt.Fprintf(&b, "session     %d (Tier %d, %s)\n", f.Session, f.Tier, f.Handler)
	fmt.Fprintf(&b, "class       %s (row %s)\n", c.ErrorType, c.Rule)
	fmt.Fprintf(&b, "entry       %s\n", c.Entry)
	fmt.Fprintf(&b, "why         %s\n", c.Why)
	if c.Entry == ops.RecoveryNone {
		b.WriteString("The ladder is not entered.\n")
		return b.String()
	}
	if c.ProbeFirst {
		b.WriteString("first       probes of the affected services\n")
	}
	b.WriteString("limits\n")
	for level := c.Entry; level <= ops.RecoveryForceDone; level++ {
		fmt.Fprintf(&b, "  %d %-10s  %s\n", int(level), level.Action(), l.words(level))
	}
	if note := notRepeated(f, c, l); note != "" {
		fmt.Fprintf(&b, "note        %s\n", note)
	}
	fmt.Fprintf(&b, "total       %s\n", l.total())
	return b.String()
}

func notRepeated(f Failure, c Class, l Limits) string {
	switch {
	case c.Entry > ops.RecoveryReplan:
		return ""
	case f.wait() > l.RetryTotal:
		return fmt.Sprintf(
			"the provider asks to wait %s, beyond the %s of level 1: levels below 4 are passed over",
			short(f.wait()),
			short(l.RetryTotal),
		)
	case f.Mutating && c.Entry == ops.RecoveryRetry:
		return "an allowed action may have changed something: level 1 is passed over"
	}
	return ""
}

func (l Limits) words(level ops.RecoveryLevel) string {
	switch level {
	case ops.RecoveryRetry:
		waits := make([]string, 0, l.Retries)
		for n := range l.Retries {
			waits = append(waits, short(l.backoff(n)))
		}
		return fmt.Sprintf(
			"%s, after %s (±%d %%), at most %s of waiting",
			plural(l.Retries, "try", "tries"),
			strings.Join(waits, ", "),
			spread,
			short(l.RetryTotal),
		)
	case ops.RecoveryNudge:
		return fmt.Sprintf("%s, %s for all", plural(l.Nudges, "variant", "variants"), short(l.NudgeTime))
	case ops.RecoveryReplan:
		return fmt.Sprintf("1 try, %s for plan and first execution", short(l.ReplanTime))
	case ops.RecoveryFallback:
		return fmt.Sprintf("1 try per fallback handler, %s for all", short(l.FallbackTime))
	case ops.RecoveryForceDone:
		return "at once: a partial result ends the cycle"
	case ops.RecoveryNone:
	}
	return ""
}

func (l Limits) total() string {
	var parts []string
	if l.TotalTime > 0 {
		parts = append(parts, short(l.TotalTime))
	}
	if l.TotalUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", l.TotalUSD))
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, " and ") + " of recovery per cycle"
}
