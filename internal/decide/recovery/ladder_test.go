package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func everything() Offer {
	return Offer{CanResume: true, Planner: "planner", Fallbacks: []string{"tier2-b", "tier2-c"}, Seed: Seed(1, 1)}
}

func row1(level ops.RecoveryLevel, at time.Time, edit func(*ops.Recovery)) ops.Recovery {
	t := ops.Recovery{Tier: 2, Level: level, Action: level.Action(), EnteredAt: at}
	edit(&t)
	return t
}

func at(level ops.RecoveryLevel, after time.Duration) ops.Recovery {
	return row1(level, noon.Add(after), func(*ops.Recovery) {})
}

func fallenBack(handler string) ops.Recovery {
	return row1(ops.RecoveryFallback, noon, func(t *ops.Recovery) { t.Handler = handler })
}

// waitedFor is a retry that waited so long.
func waitedFor(d time.Duration) ops.Recovery {
	return row1(ops.RecoveryRetry, noon, func(t *ops.Recovery) { t.NotBefore = ops.Ptr(noon.Add(d)) })
}

func TestNext_Table(t *testing.T) {
	network := failed(func(f *Failure) { f.Error = "ECONNRESET" })
	format := ended(func(f *Failure) { f.Outcome = OutcomeMissing })
	limited := func(seconds int64) Failure {
		return failed(func(f *Failure) { f.APIStatus, f.RetryAfter = ops.Ptr(429), time.Duration(seconds)*time.Second })
	}
	overloaded := failed(func(f *Failure) { f.APIStatus = ops.Ptr(529) })
	alone := func(o *Offer) { o.Fallbacks = nil }
	waits := func(want time.Duration) func(*testing.T, Move) {
		return func(t *testing.T, m Move) {
			if m.Wait < want*9/10 || m.Wait > want*11/10 {
				t.Errorf("waits %s, want about %s", m.Wait, want)
			}
		}
	}
	three := []ops.Recovery{waitedFor(time.Second), waitedFor(2 * time.Second), waitedFor(4 * time.Second)}
	for _, c := range []struct {
		name    string
		f       Failure
		history []ops.Recovery
		offer   func(*Offer)
		after   time.Duration
		level   ops.RecoveryLevel
		passed  []ops.RecoveryLevel
		reason  string
		check   func(*testing.T, Move)
	}{
		{name: "a transient error is retried", f: network, level: ops.RecoveryRetry, reason: "attempt 1 of 3"},
		{name: "three retries are enough", f: network, history: three, level: ops.RecoveryFallback, passed: []ops.RecoveryLevel{ops.RecoveryNudge, ops.RecoveryReplan}, reason: "3 retries did not help"},
		{name: "an outage is waited for", f: overloaded, history: three, offer: alone, level: ops.RecoveryRetry, reason: "for the provider", check: waits(8 * time.Second)},
		{name: "the wait doubles", f: overloaded, history: append(slices.Clone(three), waitedFor(8*time.Second), waitedFor(16*time.Second)), offer: alone, level: ops.RecoveryRetry, check: waits(32 * time.Second)},
		{name: "and has a limit", f: overloaded, history: append(slices.Clone(three), slices.Repeat([]ops.Recovery{waitedFor(time.Minute)}, 12)...), offer: alone, level: ops.RecoveryRetry, check: waits(5 * time.Minute)},
		{name: "it honours retry-after", f: limited(120), offer: alone, level: ops.RecoveryRetry, check: waits(2 * time.Minute)},
		{name: "it ends with the time of recovery", f: overloaded, history: three, offer: alone, after: 59*time.Minute + 55*time.Second, level: ops.RecoveryForceDone, passed: []ops.RecoveryLevel{ops.RecoveryNudge, ops.RecoveryReplan, ops.RecoveryFallback}},
		{name: "a repair in an outage is asked again after a wait", f: failed(func(f *Failure) { f.APIStatus, f.Mutating = ops.Ptr(529), true }), offer: alone, level: ops.RecoveryNudge, passed: []ops.RecoveryLevel{ops.RecoveryRetry}, check: waits(8 * time.Second)},
		{name: "an outage of the fallback is waited for too", f: overloaded, history: []ops.Recovery{fallenBack("tier2-b"), fallenBack("tier2-c")}, level: ops.RecoveryFallback, check: waits(8 * time.Second)},
		{
			name: "what may have had effects is not repeated", f: failed(func(f *Failure) { f.Error, f.Mutating = "ECONNRESET", true }),
			level: ops.RecoveryNudge, passed: []ops.RecoveryLevel{ops.RecoveryRetry}, reason: "may have taken effect",
		},
		{name: "retry-after inside the limit replaces the wait", f: limited(20), level: ops.RecoveryRetry, check: func(t *testing.T, m Move) {
			if m.Wait != 20*time.Second || !m.NotBefore.Equal(noon.Add(20*time.Second)) {
				t.Errorf("waits %s until %s", m.Wait, m.NotBefore)
			}
		}},
		{name: "retry-after beyond the limit goes to another provider", f: limited(3600), level: ops.RecoveryFallback, passed: []ops.RecoveryLevel{ops.RecoveryRetry, ops.RecoveryNudge, ops.RecoveryReplan}, reason: "asks to wait 1 h"},
		{
			name: "retry-after beyond what is left goes to another provider", f: limited(20), history: []ops.Recovery{waitedFor(20 * time.Second)},
			level: ops.RecoveryFallback, passed: []ops.RecoveryLevel{ops.RecoveryNudge, ops.RecoveryReplan}, reason: "does not fit",
		},
		{name: "waiting time runs out before the tries do", f: network, history: []ops.Recovery{waitedFor(29500 * time.Millisecond)}, level: ops.RecoveryFallback, passed: []ops.RecoveryLevel{ops.RecoveryNudge, ops.RecoveryReplan}, reason: "does not fit"},
		{name: "a wrong format is nudged", f: format, level: ops.RecoveryNudge, check: func(t *testing.T, m Move) {
			if m.Variant != 1 || !m.Deadline.Equal(noon.Add(5*time.Minute)) {
				t.Errorf("variant %d until %s", m.Variant, m.Deadline)
			}
		}},
		{name: "the deadline is that of the level", f: format, history: []ops.Recovery{at(ops.RecoveryNudge, 0)}, after: 4 * time.Minute, level: ops.RecoveryNudge, check: func(t *testing.T, m Move) {
			if m.Variant != 2 || !m.Deadline.Equal(noon.Add(5*time.Minute)) {
				t.Errorf("variant %d until %s", m.Variant, m.Deadline)
			}
		}},
		{name: "no conversation, no nudge", f: format, offer: func(o *Offer) { o.CanResume = false }, level: ops.RecoveryReplan, passed: []ops.RecoveryLevel{ops.RecoveryNudge}, reason: "cannot be continued"},
		{name: "three nudges are enough", f: format, history: []ops.Recovery{at(ops.RecoveryNudge, 0), at(ops.RecoveryNudge, time.Second), at(ops.RecoveryNudge, 2*time.Second)}, level: ops.RecoveryReplan, reason: "3 nudges did not help"},
		{name: "five minutes of nudging are enough", f: format, history: []ops.Recovery{at(ops.RecoveryNudge, 0)}, after: 5 * time.Minute, level: ops.RecoveryReplan, reason: "the 5 min of level 2 (nudge) are over"},
		{name: "a nudge that could not resume", f: failed(func(f *Failure) { f.Class = "resume_refused" }), history: []ops.Recovery{at(ops.RecoveryNudge, 0)}, level: ops.RecoveryReplan, reason: "cannot be continued"},
		{name: "a resume refused outside the ladder is none of its business", f: failed(func(f *Failure) { f.Class = "resume_refused" }), level: ops.RecoveryNone},
		{name: "replan asks the planner", f: stopped("wall_limit", same), level: ops.RecoveryReplan, check: func(t *testing.T, m Move) {
			if m.Planner != "planner" || !m.Deadline.Equal(noon.Add(15*time.Minute)) {
				t.Errorf("planner %q until %s", m.Planner, m.Deadline)
			}
		}},
		{name: "one new plan is enough", f: format, history: []ops.Recovery{at(ops.RecoveryReplan, 0)}, level: ops.RecoveryFallback, reason: "the new plan did not help", check: func(t *testing.T, m Move) {
			if m.Handler != "tier2-b" || !m.Deadline.Equal(noon.Add(20*time.Minute)) {
				t.Errorf("handler %q until %s", m.Handler, m.Deadline)
			}
		}},
		{name: "levels never go down", f: network, history: []ops.Recovery{at(ops.RecoveryReplan, 0)}, level: ops.RecoveryFallback},
		{name: "each fallback handler has its turn", f: network, history: []ops.Recovery{fallenBack("tier2-b")}, level: ops.RecoveryFallback, check: func(t *testing.T, m Move) {
			if m.Handler != "tier2-c" {
				t.Errorf("handler %q", m.Handler)
			}
		}},
		{name: "no fallback handler is left", f: format, history: []ops.Recovery{fallenBack("tier2-b"), fallenBack("tier2-c")}, level: ops.RecoveryForceDone, reason: "no fallback handler is left"},
		{name: "twenty minutes of fallback are enough", f: format, history: []ops.Recovery{fallenBack("tier2-b")}, after: 20 * time.Minute, level: ops.RecoveryForceDone, reason: "the 20 min of level 4"},
		{name: "a handler does not fall back to itself", f: stopped("loop", func(f *Failure) { f.Loop = &Loop{Count: 5, Level: ops.RecoveryFallback} }), offer: func(o *Offer) { o.Fallbacks = []string{"tier2"} }, level: ops.RecoveryForceDone, passed: []ops.RecoveryLevel{ops.RecoveryFallback}, reason: "no fallback handler is configured"},
		{name: "credentials end it at once", f: failed(func(f *Failure) { f.APIStatus = ops.Ptr(401) }), level: ops.RecoveryForceDone, reason: "only a human"},
		{name: "an unknown exit ends it at once", f: failed(func(f *Failure) { f.Class, f.ExitCode = "exit", ops.Ptr(77) }), level: ops.RecoveryForceDone, reason: "next scheduled cycle"},
		{name: "cancelled is no failure", f: stopped("user", same), level: ops.RecoveryNone},
		{name: "the total time is over", f: format, history: []ops.Recovery{at(ops.RecoveryNudge, 0)}, after: time.Hour, level: ops.RecoveryForceDone, passed: []ops.RecoveryLevel{ops.RecoveryReplan, ops.RecoveryFallback}, reason: "recovery has taken 1 h"},
		{name: "earlier tier steps count", f: format, offer: func(o *Offer) { o.EarlierTime = time.Hour }, level: ops.RecoveryForceDone, passed: []ops.RecoveryLevel{ops.RecoveryNudge, ops.RecoveryReplan, ops.RecoveryFallback}},
		{name: "the total time cuts the level's", f: format, offer: func(o *Offer) { o.EarlierTime = 58 * time.Minute }, level: ops.RecoveryNudge, check: func(t *testing.T, m Move) {
			if !m.Deadline.Equal(noon.Add(2 * time.Minute)) {
				t.Errorf("until %s", m.Deadline)
			}
		}},
		{name: "another tier starts with none", f: network, history: []ops.Recovery{row1(ops.RecoveryForceDone, noon, func(t *ops.Recovery) { t.Tier = 1 })}, level: ops.RecoveryRetry},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everything()
			if c.offer != nil {
				c.offer(&o)
			}
			m := Next(c.f, Classify(c.f), c.history, o, TotalTime, noon.Add(c.after))
			var passed []ops.RecoveryLevel
			for _, p := range m.Passed {
				passed = append(passed, p.Level)
				if p.Reason == "" {
					t.Errorf("%s passed without a reason", p.Level)
				}
			}
			if m.Level != c.level || m.Action != c.level.Action() || !slices.Equal(passed, c.passed) {
				t.Errorf("got %s passing %v, want %s passing %v (%s)", m.Level, passed, c.level, c.passed, m.Reason)
			}
			if !strings.Contains(m.Reason, c.reason) || m.Reason == "" {
				t.Errorf("reason %q, want %q", m.Reason, c.reason)
			}
			if c.check != nil {
				c.check(t, m)
			}
		})
	}
}

func TestNext_JitterIsSmallAndTheSameAfterARestart(t *testing.T) {
	f := failed(func(f *Failure) { f.Error = "ECONNRESET" })
	seen := map[time.Duration]bool{}
	for cycle := range int64(200) {
		o := Offer{Seed: Seed(cycle, 1)}
		m := Next(f, Classify(f), nil, o, TotalTime, noon)
		if m.Wait < 900*time.Millisecond || m.Wait > 1100*time.Millisecond {
			t.Fatalf("cycle %d waits %s", cycle, m.Wait)
		}
		if again := Next(f, Classify(f), nil, o, TotalTime, noon); again.Wait != m.Wait {
			t.Fatalf("cycle %d waits %s, then %s", cycle, m.Wait, again.Wait)
		}
		seen[m.Wait] = true
	}
	if len(seen) < 50 {
		t.Errorf("only %d different waits in 200 cycles", len(seen))
	}
}

func TestNext_ARestartInTheMiddleOfALevelKeepsItsTime(t *testing.T) {
	f := ended(func(f *Failure) { f.Outcome = OutcomeMissing })
	history := []ops.Recovery{at(ops.RecoveryNudge, 0)}
	for _, c := range []struct {
		after time.Duration
		level ops.RecoveryLevel
	}{{time.Minute, ops.RecoveryNudge}, {5*time.Minute - 1, ops.RecoveryNudge}, {5 * time.Minute, ops.RecoveryReplan}, {10 * time.Minute, ops.RecoveryReplan}} {
		if m := Next(f, Classify(f), history, everything(), TotalTime, noon.Add(c.after)); m.Level != c.level {
			t.Errorf("after %s: %s, want %s", c.after, m.Level, c.level)
		}
	}
}

func TestRecord_TellsTheLevelsBefore(t *testing.T) {
	f := ended(func(f *Failure) { f.Outcome = OutcomeMissing })
	history := []ops.Recovery{at(ops.RecoveryRetry, 0), at(ops.RecoveryRetry, 1), at(ops.RecoveryNudge, 2), row1(ops.RecoveryForceDone, noon, func(t *ops.Recovery) { t.Tier = 1 })}
	r := Move{Level: ops.RecoveryReplan, Action: ops.ActionReplan, Reason: "r"}.Record(f, Class{ErrorType: TypeFormat}, history, noon)
	if fmt.Sprint(r.PreviousLevels) != fmt.Sprint([]ops.RecoveryLevel{1, 2}) || r.Tier != 2 || r.SessionID != 7 || r.EnteredAt != noon || r.ErrorType != TypeFormat {
		t.Errorf("%+v", r)
	}
	if got := entered(append(history, r), 2, ops.RecoveryForceDone+1); !slices.Equal(got, []ops.RecoveryLevel{1, 2, 3}) {
		t.Errorf("path %v", got)
	}
}
