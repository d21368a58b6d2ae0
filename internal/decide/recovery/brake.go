package recovery

import (
	"fmt"
	"slices"
	"time"
)

// The figures of the crash-loop brake.
const (
	brakeFirst  = 30 * time.Second
	brakeMost   = 10 * time.Minute
	brakeCount  = 5
	brakeWindow = 15 * time.Minute
	brakeStable = 30 * time.Minute
)

// Brake spaces out the next cycles of a service or handler whose cycles keep ending at level 5. Ends are the times of those
// ends, in any order. The delay is counted from now. With stop nothing may start before it is over, and somebody has to be
// told; half an hour without such an end resets the brake.
func Brake(ends []time.Time, now time.Time) (delay time.Duration, stop bool, reason string) {
	streak := latestStreak(ends, now)
	if len(streak) == 0 {
		return 0, false, ""
	}
	last := streak[len(streak)-1]
	if crowded(streak) {
		until := last.Add(brakeStable)
		return until.Sub(now), true, fmt.Sprintf("%d cycles ended at level 5 within %s; nothing starts before %s unless somebody starts it",
			brakeCount, short(brakeWindow), until.UTC().Format(time.RFC3339))
	}
	wait := brakeMost
	if n := len(streak) - 1; n < 5 { // 30 s doubled five times is above the most
		wait = min(brakeMost, brakeFirst<<n)
	}
	left := last.Add(wait).Sub(now)
	if left <= 0 {
		return 0, false, ""
	}
	return left, false, fmt.Sprintf("%s ended at level 5 in a row; the next one waits %s", plural(len(streak), "cycle", "cycles"), short(wait))
}

// latestStreak are the ends since the last half hour without one. Ends in the future (a clock was set back) count as now.
func latestStreak(ends []time.Time, now time.Time) []time.Time {
	sorted := make([]time.Time, 0, len(ends))
	for _, at := range ends {
		if at.After(now) {
			at = now
		}
		sorted = append(sorted, at)
	}
	slices.SortFunc(sorted, time.Time.Compare)
	after := now
	for i := len(sorted) - 1; i >= 0; i-- {
		if after.Sub(sorted[i]) >= brakeStable {
			return sorted[i+1:]
		}
		after = sorted[i]
	}
	return sorted
}

// crowded reports whether too many ends fell into one window.
func crowded(streak []time.Time) bool {
	for i := brakeCount - 1; i < len(streak); i++ {
		if streak[i].Sub(streak[i-brakeCount+1]) <= brakeWindow {
			return true
		}
	}
	return false
}
