package recovery

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/judge"
	"claudeops/internal/ops"
)

// The limits of the ladder, in tries and in time. Only the time of all recovery in a cycle can be set.
const (
	mostRetries  = 3
	retryTotal   = 30 * time.Second // waiting at level 1, all retries together
	mostNudges   = 3                // there are as many texts
	nudgeTime    = 5 * time.Minute  // all nudges together
	replanTime   = 15 * time.Minute // plan and first execution
	fallbackTime = 20 * time.Minute // all fallback handlers together

	// TotalTime is the time of all recovery in a cycle where nothing is configured.
	TotalTime = time.Hour
)

// timeOf returns how long a level may take from its first attempt; 0 where only the waiting is bounded.
func timeOf(level ops.RecoveryLevel) time.Duration {
	return map[ops.RecoveryLevel]time.Duration{
		ops.RecoveryNudge: nudgeTime, ops.RecoveryReplan: replanTime, ops.RecoveryFallback: fallbackTime,
	}[level]
}

// How long the ladder waits between attempts while a provider fails.
const (
	shortestOutage = 8 * time.Second
	longestOutage  = 5 * time.Minute
)

// outageWait is the wait before the next attempt during an outage, after n attempts.
func outageWait(n int) time.Duration {
	wait := shortestOutage
	for n -= mostRetries; n > 0 && wait < longestOutage; n-- {
		wait *= 2
	}
	return min(wait, longestOutage)
}

// backoff is the wait before retry n, counted from 0.
func backoff(n int) time.Duration { return time.Second << n }

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
			brakeCount, ops.Span(brakeWindow), until.UTC().Format(time.RFC3339))
	}
	wait := brakeMost
	if n := len(streak) - 1; n < 5 { // 30 s doubled five times is above the most
		wait = min(brakeMost, brakeFirst<<n)
	}
	left := last.Add(wait).Sub(now)
	if left <= 0 {
		return 0, false, ""
	}
	return left, false, fmt.Sprintf("%s ended at level 5 in a row; the next one waits %s",
		ops.Plural(len(streak), "cycle", "cycles"), ops.Span(wait))
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

// Seed makes the seed of the jitter from what a restart finds again.
func Seed(cycle int64, attempt int) uint64 {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], uint64(cycle))
	binary.LittleEndian.PutUint64(raw[8:], uint64(attempt))
	h := fnv.New64a()
	_, _ = h.Write(raw[:]) // never fails
	return h.Sum64()
}

// spread is how far a wait may be off, in percent, so that many cycles do not come back at the same moment.
const spread = 10

// jittered moves a wait by up to ±10 %, always alike for one seed and one retry.
func (w *walk) jittered(wait time.Duration) time.Duration {
	const steps = 2000
	x := Seed(int64(w.offer.Seed), w.count(ops.RecoveryRetry)) % (steps + 1)
	permille := int64(x) - steps/2
	return wait + time.Duration(int64(wait)*permille*spread/(100*steps/2))
}

// evidence is what a row of the matrix asks for. All that is set must hold; in a list one entry is enough.
type evidence struct {
	classes    []ops.FailureClass
	apiStatus  []int
	apiFamily  int // 5 stands for 500 to 599
	stopCauses []ops.StopCause
	contains   []string // in the error text of the CLI, lower case
	tiers      []ops.Tier
	loop       ops.RecoveryLevel
	verdict    judge.Verdict
	also       func(Failure) bool // what the fields above cannot say
}

func (e evidence) holds(f Failure) bool {
	return among(e.classes, f.Class) &&
		among(e.stopCauses, f.StopCause) &&
		among(e.tiers, f.Tier) &&
		(len(e.apiStatus) == 0 || f.APIStatus != nil && slices.Contains(e.apiStatus, *f.APIStatus)) &&
		(e.apiFamily == 0 || f.APIStatus != nil && *f.APIStatus/100 == e.apiFamily) &&
		(e.loop == ops.RecoveryNone || f.loopLevel() == e.loop) &&
		(e.verdict == "" || f.Judge != nil && f.Judge.Verdict == e.verdict) &&
		mentions(f.Error, e.contains) &&
		(e.also == nil || e.also(f))
}

func among[T comparable](wanted []T, is T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, is)
}

func mentions(text string, wanted []string) bool {
	text = strings.ToLower(text)
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.Contains(text, w) })
}

// The small predicates below read several fields at once.

func noStatus(f Failure) bool { return f.APIStatus == nil }

func interrupted(f Failure) bool {
	return f.Interrupted || f.StopCause == ops.StopShutdown || f.StopCause == ops.StopCrash ||
		f.StopCause == ops.StopLease
}

func harmless(f Failure) bool { return !f.Mutating }

func exitedZero(f Failure) bool { return f.ExitCode != nil && *f.ExitCode == 0 }

func probeRed(f Failure) bool { return len(f.ProbeRed) > 0 }

func wrongGoal(f Failure) bool { return f.Judge.Dimensions.GoalAlignment < 15 }

func noEvidence(f Failure) bool { return f.Judge.Dimensions.EvidenceOfCompletion < 8 }

// A denied call explains an outcome that is missing, not one that is there and wrong.
func deniedInVain(f Failure) bool {
	return exitedZero(f) && f.Outcome == OutcomeMissing && len(f.Denials) > 0
}

func unusable(f Failure) bool {
	return exitedZero(f) && (f.Outcome == OutcomeMissing || f.Outcome == OutcomeInvalid || len(f.OutcomeProblems) > 0)
}

func foreignSignal(f Failure) bool { return f.StopCause == "" && f.signaled() }
