package recovery

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"

	"pgregory.net/rapid"
)

func anyFailure() *rapid.Generator[Failure] {
	cases := matrixCases()
	return rapid.Custom(func(t *rapid.T) Failure {
		f := cases[rapid.IntRange(0, len(cases)-1).Draw(t, "case")].f
		f.Tier = ops.Tier(rapid.IntRange(1, 3).Draw(t, "tier"))
		f.Mutating = rapid.Bool().Draw(t, "mutating")
		if rapid.Bool().Draw(t, "asks") {
			f.RetryAfter = time.Duration(rapid.Int64Min(0).Draw(t, "retry after"))
		}
		return f
	})
}

func anyOffer() *rapid.Generator[Offer] {
	return rapid.Custom(func(t *rapid.T) Offer {
		return Offer{
			CanResume: rapid.Bool().Draw(t, "resume"), Planner: rapid.SampledFrom([]string{"", "planner"}).Draw(t, "planner"),
			Fallbacks:   rapid.SliceOfN(rapid.SampledFrom([]string{"b", "c", "d"}), 0, 4).Draw(t, "fallbacks"),
			EarlierTime: rapid.SampledFrom([]time.Duration{0, 0, 30 * time.Second, time.Hour}).Draw(t, "earlier"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
	})
}

func TestProperty_TheLadderEndsRisesAndKeepsItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, TotalTime}).Draw(t, "total")
		tier := rapid.IntRange(1, 3).Draw(t, "tier of the step")
		now := noon
		var history []ops.Recovery
		most := mostRetries + mostNudges + 1 + 3 + 1 // three different fallback handlers, force-done
		for {
			f := anyFailure().Draw(t, "failure")
			f.Tier = ops.Tier(tier)
			c := Classify(f)
			m := Next(f, c, history, anyOffer().Draw(t, "offer"), total, now)
			if m.Level == ops.RecoveryNone {
				if c.Entry != ops.RecoveryNone {
					t.Fatalf("%s got no level: %+v", c.ErrorType, m)
				}
				return // cancelled, or not a matter of the ladder
			}
			r := m.Record(f, c, history, now)
			wantSound(t, f, c, m, r, history, total)
			history = append(history, r)
			if m.Outage {
				most++ // the time of recovery bounds these
			}
			if len(history) > most {
				t.Fatalf("%d transitions, at most %d are allowed", len(history), most)
			}
			if m.Level == ops.RecoveryForceDone {
				wantSixFields(t, f, c, m, history[:len(history)-1])
				return
			}
			now = m.NotBefore.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "took")))
		}
	})
}

func wantSound(t *rapid.T, f Failure, c Class, m Move, r ops.Recovery, history []ops.Recovery, total time.Duration) {
	t.Helper()
	if m.Level < c.Entry {
		t.Fatalf("entered at %s, below the %s of %s", m.Level, c.Entry, c.ErrorType)
	}
	count, waited := map[ops.RecoveryLevel]int{}, m.Wait
	for _, h := range history {
		if h.Level > m.Level {
			t.Fatalf("went down from %s to %s", h.Level, m.Level)
		}
		count[h.Level]++
		if h.Level == ops.RecoveryRetry && h.NotBefore != nil {
			waited += h.NotBefore.Sub(h.EnteredAt)
		}
		if h.Level == m.Level && timeOf(m.Level) > 0 && r.EnteredAt.Sub(h.EnteredAt) >= timeOf(m.Level) {
			t.Fatalf("%s goes on after its time", m.Level)
		}
	}
	if m.Outage {
		if m.Wait <= 0 || m.Wait > total || (m.Level == ops.RecoveryRetry && f.Mutating) {
			t.Fatalf("waits %s at %s, mutating %v", m.Wait, m.Level, f.Mutating)
		}
		return
	}
	switch {
	case m.Level == ops.RecoveryRetry && (f.Mutating || count[ops.RecoveryRetry] >= mostRetries || waited > retryTotal):
		t.Fatalf("retry %d after %s of waiting, mutating %v", count[ops.RecoveryRetry]+1, waited, f.Mutating)
	case m.Level == ops.RecoveryNudge && (count[ops.RecoveryNudge] >= mostNudges || m.Variant != count[ops.RecoveryNudge]+1):
		t.Fatalf("nudge %d has variant %d", count[ops.RecoveryNudge]+1, m.Variant)
	case m.Level == ops.RecoveryReplan && count[ops.RecoveryReplan] > 0:
		t.Fatal("replanned twice")
	case m.Level == ops.RecoveryFallback && m.Handler == "":
		t.Fatal("fallback to nobody")
	case m.Level < ops.RecoveryFallback && m.Wait > retryTotal:
		t.Fatalf("%s waits %s", m.Level, m.Wait)
	case m.Reason == "":
		t.Fatal("no reason")
	}
	for _, p := range m.Passed {
		if p.Reason == "" || count[p.Level] > 0 || p.Level >= m.Level {
			t.Fatalf("passed %+v on the way to %s", p, m.Level)
		}
	}
}

func wantSixFields(t *rapid.T, f Failure, c Class, m Move, history []ops.Recovery) {
	t.Helper()
	e := Finish(Facts{
		Failure: f, Class: c, Move: m, History: history,
		Completed: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "completed"),
	})
	raw, err := e.Encode()
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	for _, field := range []string{"status", "completedSteps", "failedAt", "failureReason", "escalationPath", "recommendation", "partial", "escalationLevel", "summary"} {
		if !strings.Contains(string(raw), `"`+field+`":`) {
			t.Fatalf("%s is missing in %s", field, raw)
		}
	}
	if e.EscalationPath[len(e.EscalationPath)-1] != ops.RecoveryForceDone {
		t.Fatalf("path %v", e.EscalationPath)
	}
}
