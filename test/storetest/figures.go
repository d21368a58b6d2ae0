package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func figureCases() []testCase {
	return []testCase{
		{"the day's spend is that of the other cycles of the environment", daySpend},
		{"the context window last reported for a model is read", lastReportedWindow},
		{"costs are summed since a time", costsAreSummed},
		{"costs are unknown when none was reported", costsAreUnknown},
		{"the last end is that of the environment", lastEndOfEnvironment},
		{"the journal is counted", journalIsCounted},
	}
}

// spend runs one cycle with one session that ended at the given time; a nil cost was not reported.
func (f *Fixture) spend(t *testing.T, environment string, cost *float64, at time.Time) ops.CycleID {
	t.Helper()
	session := f.RunningSession(t, environment)
	ended := f.Ended(session, 0)
	ended.CostUSD, ended.EndedAt = cost, &at
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: at, Result: ops.Result{Session: &ended},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved},
	})
	return session.CycleID
}

func daySpend(t *testing.T, f *Fixture) {
	midnight := Start.Truncate(24 * time.Hour)
	f.spend(t, "home", ops.Ptr(100.0), midnight.Add(-time.Microsecond))
	f.spend(t, "home", ops.Ptr(1.0), midnight)
	f.spend(t, "home", ops.Ptr(0.5), Start)
	f.spend(t, "home", nil, Start)
	f.spend(t, "office", ops.Ptr(10.0), Start)

	id := f.Claim(t, "home").Cycle.ID
	session := *f.Queue(t, id, nil, 1).Journal.Last()
	f.Commit(t, f.Escalation(session, 1)) // its own 0.25 does not count
	must(t, f.Store.Release(t.Context(), f.Owner, id))
	got, err := f.Store.Claim(t.Context(), f.Owner, id, Policy(), Start)
	must(t, err)
	equal(t, "on claim", got.Journal.Spend.DayUSD, 1.5)
	got, err = f.Store.Load(t.Context(), id)
	must(t, err)
	equal(t, "on load", got.Journal.Spend.DayUSD, 1.5)
}

func lastReportedWindow(t *testing.T, f *Fixture) {
	for _, window := range []*int64{ops.Ptr[int64](100_000), ops.Ptr[int64](200_000), nil} {
		session := f.RunningSession(t, "home")
		ended := f.Ended(session, 0)
		ended.ContextWindow = window
		f.Commit(t, ops.Transition{
			Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended},
			Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
		})
	}
	equal(t, "windows", f.Claim(t, "office").Journal.Windows, map[string]int64{"haiku": 200_000})
}

func costsAreSummed(t *testing.T, f *Fixture) {
	f.spend(t, "home", ops.Ptr(1.0), Start.Add(-time.Hour))
	f.spend(t, "home", ops.Ptr(2.0), Start)
	f.spend(t, "home", nil, Start)
	f.spend(t, "office", ops.Ptr(4.0), Start)
	for _, tt := range []struct {
		environment string
		since       time.Time
		want        float64
	}{
		{"home", Start, 2}, {"home", Start.Add(-time.Hour), 3}, {"", Start, 6}, {"", Start.Add(time.Second), 0}, {"garden", Start, 0},
	} {
		got, known, err := f.Store.CostSince(t.Context(), tt.environment, tt.since)
		must(t, err)
		if got != tt.want || !known {
			t.Errorf("cost of %q since %s is %v (known %t), want %v", tt.environment, tt.since, got, known, tt.want)
		}
	}
}

func costsAreUnknown(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "office").Cycle.ID
	f.Queue(t, cycle, nil, 1)
	f.EndCycle(t, cycle)
	if _, known, err := f.Store.CostSince(t.Context(), "office", Start); err != nil || !known {
		t.Errorf("a session that never ran makes costs unknown (%v)", err)
	}
	f.spend(t, "home", nil, Start)
	got, known, err := f.Store.CostSince(t.Context(), "home", Start)
	must(t, err)
	if got != 0 || known {
		t.Errorf("cost is %v (known %t), want unknown", got, known)
	}
}

func lastEndOfEnvironment(t *testing.T, f *Fixture) {
	_, ok, err := f.Store.LastEnded(t.Context(), "home")
	must(t, err)
	equal(t, "before any", ok, false)
	f.spend(t, "home", nil, Start)
	f.spend(t, "home", nil, Start.Add(-time.Hour))
	f.spend(t, "office", nil, Start.Add(time.Hour))
	f.Claim(t, "home")
	at, ok, err := f.Store.LastEnded(t.Context(), "home")
	must(t, err)
	if !ok || !at.Equal(Start) {
		t.Errorf("last end is %s (%t), want %s", at, ok, Start)
	}
}

func journalIsCounted(t *testing.T, f *Fixture) {
	got, err := f.Store.Counts(t.Context())
	must(t, err)
	equal(t, "empty", got, store.Counts{})
	f.spend(t, "home", nil, Start.Add(time.Minute))
	f.spend(t, "office", nil, Start)
	f.RunningSession(t, "home")
	got, err = f.Store.Counts(t.Context())
	must(t, err)
	equal(t, "counts", got, store.Counts{
		Sessions: 3, Cycles: 3, RunningSessions: 1, LastCycleEndedAt: ops.Ptr(Start.Add(time.Minute)), LastCycleStatus: ops.CycleResolved,
	})
}
