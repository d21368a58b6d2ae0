package recovery

import (
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Limits bound the ladder in tries and in time.
type Limits struct {
	Retries      int             `json:"retries"`
	Backoff      []time.Duration `json:"backoff"`       // before the first retry, the second, …; the last one stays
	RetryTotal   time.Duration   `json:"retry_total"`   // waiting at level 1, all retries together
	Nudges       int             `json:"nudges"`        // variants at level 2
	NudgeTime    time.Duration   `json:"nudge_time"`    // all variants together
	ReplanTime   time.Duration   `json:"replan_time"`   // plan and first execution
	FallbackTime time.Duration   `json:"fallback_time"` // all fallback handlers together
	TotalTime    time.Duration   `json:"total_time"`    // recovery in one cycle; 0 = no limit
	TotalUSD     float64         `json:"total_usd"`     // recovery in one cycle; 0 = no limit
}

// maxVariants is how many nudges there are texts for.
const maxVariants = 3

// Defaults returns the limits of the ladder where nothing is configured.
func Defaults() Limits {
	return Limits{
		Retries: 3, Backoff: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, RetryTotal: 30 * time.Second,
		Nudges: maxVariants, NudgeTime: 5 * time.Minute, ReplanTime: 15 * time.Minute, FallbackTime: 20 * time.Minute,
		TotalTime: time.Hour,
	}
}

// Check says what is wrong with the limits, all of it at once. Zero retries or nudges switch the level off.
func (l Limits) Check() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if l.Retries < 0 || l.Retries > 10 {
		refuse("recovery retries are %d: use 0 to 10", l.Retries)
	}
	if l.Retries > 0 && len(l.Backoff) == 0 {
		refuse("recovery backoff is empty: give the wait before each retry, such as 1s, 2s, 4s")
	}
	for _, wait := range l.Backoff {
		if wait < 0 || wait > l.RetryTotal {
			refuse("recovery backoff %s is outside 0 to %s, the whole waiting time of retries", wait, l.RetryTotal)
		}
	}
	if l.Nudges < 0 || l.Nudges > maxVariants {
		refuse("recovery nudges are %d: use 0 to %d", l.Nudges, maxVariants)
	}
	for _, t := range []struct {
		name string
		is   time.Duration
	}{{"nudge", l.NudgeTime}, {"replan", l.ReplanTime}, {"fallback", l.FallbackTime}} {
		if t.is <= 0 {
			refuse("recovery %s time is %s: it must be above 0", t.name, t.is)
		}
	}
	if l.RetryTotal < 0 || l.TotalTime < 0 || l.TotalUSD < 0 {
		refuse("recovery totals must not be negative")
	}
	return errors.Join(problems...)
}

// time returns how long a level may take from its first attempt; 0 where only the waiting is bounded.
func (l Limits) time(level ops.RecoveryLevel) time.Duration {
	switch level {
	case ops.RecoveryNudge:
		return l.NudgeTime
	case ops.RecoveryReplan:
		return l.ReplanTime
	case ops.RecoveryFallback:
		return l.FallbackTime
	case ops.RecoveryNone, ops.RecoveryRetry, ops.RecoveryForceDone:
	}
	return 0
}

// How long the ladder waits between attempts while a provider fails.
const (
	shortestOutage = 8 * time.Second
	longestOutage  = 5 * time.Minute
	// longestOutageInAll bounds the waiting where the time of recovery has no limit.
	longestOutageInAll = time.Hour
)

// outageWait is the wait before the next attempt during an outage, after n attempts.
func (l Limits) outageWait(n int) time.Duration {
	wait := shortestOutage
	for n -= l.Retries; n > 0 && wait < longestOutage; n-- {
		wait *= 2
	}
	return min(wait, longestOutage)
}

// backoff is the wait before retry n, counted from 0.
func (l Limits) backoff(n int) time.Duration {
	if len(l.Backoff) == 0 {
		return 0
	}
	return l.Backoff[min(n, len(l.Backoff)-1)]
}
