package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func budgetCases() []testCase {
	return []testCase{
		{"a session gets the least of what is limited", sessionGetsTheLeast},
		{"with nothing left a session stays queued", spentBudgetStartsNothing},
		{"the day's limit counts ends of the day and what others have reserved", dayLimitCounts},
		{"two chains cannot reserve the same dollar", noDollarTwice},
		{"what another chain has reserved counts as the day's spend", reservedCountsOnClaim},
		{"an end keeps what was reserved and frees it", endFreesTheReservation},
	}
}

// queued claims a cycle and queues its first session.
func (f *Fixture) queued(t *testing.T, environment string) ops.Session {
	t.Helper()
	return *f.Queue(t, f.Claim(t, environment).Cycle.ID, nil, 1).Journal.Newest()
}

// reserve starts a session and returns what it may spend.
func (f *Fixture) reserve(t *testing.T, id ops.SessionID, ask ops.BudgetAsk) *float64 {
	t.Helper()
	got, err := f.Store.StartSession(t.Context(), f.Owner, id, "planned", f.At, ask)
	must(t, err)
	s, err := f.Store.Session(t.Context(), id)
	must(t, err)
	equal(t, "stored budget", s.BudgetUSD, got)
	equal(t, "status", s.Status, ops.SessionRunning)
	return got
}

func sessionGetsTheLeast(t *testing.T, f *Fixture) {
	for _, tt := range []struct {
		name string
		ask  ops.BudgetAsk
		want *float64
	}{
		{"none", ops.BudgetAsk{}, nil},
		{"want", ops.BudgetAsk{Want: 2}, ops.Ptr(2.0)},
		{"day", ops.BudgetAsk{DayLimit: 3}, ops.Ptr(3.0)},
		{"want-below-day", ops.BudgetAsk{Want: 2, DayLimit: 3}, ops.Ptr(2.0)},
		{"day-below-want", ops.BudgetAsk{Want: 4, DayLimit: 3}, ops.Ptr(3.0)},
	} {
		equal(t, tt.name, f.reserve(t, f.queued(t, tt.name).ID, tt.ask), tt.want)
	}
}

func spentBudgetStartsNothing(t *testing.T, f *Fixture) {
	f.spend(t, "home", ops.Ptr(0.7), Start)
	f.spend(t, "home", ops.Ptr(0.2), Start)
	f.spend(t, "home", ops.Ptr(0.1), Start)
	session := f.queued(t, "home")
	before := f.snapshot(t, session.CycleID)
	for ask, whose := range map[ops.BudgetAsk]ops.BudgetOwner{
		{DayLimit: 1}:              ops.BudgetDay,
		{Want: 5, DayLimit: 1}:     ops.BudgetDay,
		{Want: 5, DayLimit: 0.5}:   ops.BudgetDay,
		{Want: -0.1}:               ops.BudgetChain,
		{Want: -0.1, DayLimit: 9}:  ops.BudgetChain,
		{Want: -0.1, DayLimit: .5}: ops.BudgetChain,
	} {
		_, err := f.Store.StartSession(t.Context(), f.Owner, session.ID, "planned", Start, ask)
		wantErr(t, err, ops.ErrBudget)
		if spent := (*ops.SpentError)(nil); !errors.As(err, &spent) || spent.Whose != whose {
			t.Errorf("%+v gives %v, want the budget of the %s", ask, err, whose)
		}
	}
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
	equal(t, "with more", f.reserve(t, session.ID, ops.BudgetAsk{DayLimit: 1.25}), ops.Ptr(0.25))
}

func dayLimitCounts(t *testing.T, f *Fixture) {
	midnight := Start.Truncate(24 * time.Hour)
	f.spend(t, "home", ops.Ptr(100.0), midnight.Add(-time.Microsecond))
	f.spend(t, "home", ops.Ptr(1.0), midnight)
	f.spend(t, "home", nil, Start)
	f.spend(t, "office", ops.Ptr(50.0), Start)
	// Its own chain counts too.
	session := f.queued(t, "home")
	equal(t, "first", f.reserve(t, session.ID, ops.BudgetAsk{Want: 2, DayLimit: 5}), ops.Ptr(2.0))
	second := *f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Step: ops.Step{
		Kind: ops.StepQueue, Session: &ops.NewSession{Attempt: 2, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh},
	}}).Journal.Newest()
	equal(t, "beside it", f.reserve(t, second.ID, ops.BudgetAsk{Want: 9, DayLimit: 5}), ops.Ptr(2.0))
}

func noDollarTwice(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	const n = 8
	var queued []ops.SessionID
	for i := range n {
		queued = append(queued, f.Queue(t, cycle, nil, i+1).Journal.Newest().ID)
	}
	var mu sync.Mutex
	var total float64
	won := race(t, n, ops.ErrBudget, func(i int) error {
		granted, err := f.Store.StartSession(t.Context(), f.Owner, queued[i], "planned", Start, ops.BudgetAsk{Want: 2, DayLimit: 5})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			total += *granted
		}
		return err
	})
	equal(t, "starts", won, 3) // 2, 2 and 1
	equal(t, "granted", total, 5.0)
}

func reservedCountsOnClaim(t *testing.T, f *Fixture) {
	f.spend(t, "home", ops.Ptr(1.0), Start)
	running := f.queued(t, "home")
	f.reserve(t, running.ID, ops.BudgetAsk{Want: 2.5})
	// It lost its slot, but its process may still run.
	must(t, f.Store.Release(t.Context(), f.Owner, running.CycleID))
	equal(t, "spend", f.Claim(t, "home").Journal.Spend.DayUSD, 3.5)
	equal(t, "elsewhere", f.Claim(t, "office").Journal.Spend.DayUSD, 0.0)
}

func endFreesTheReservation(t *testing.T, f *Fixture) {
	session := f.queued(t, "home")
	f.reserve(t, session.ID, ops.BudgetAsk{Want: 4})
	// The caller still holds the row as it was queued.
	ended := f.Ended(session, 0.5)
	got := f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	})
	equal(t, "budget", got.Journal.Sessions[0].BudgetUSD, ops.Ptr(4.0))
	equal(t, "spend", f.Claim(t, "home").Journal.Spend.DayUSD, 0.5)
}
