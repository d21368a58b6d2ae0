package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func costCases() []testCase {
	return []testCase{
		{"costs are summed by day and tier", costsByDayAndTier},
		{"what nobody reported is not known", unreportedCostIsNil},
		{"a session that never ran costs nothing", unstartedIsNoCost},
		{"costs are told apart by model and trigger", costsByModelAndTrigger},
		{"costs are told apart by the services of the chain", costsByServices},
		{"tokens are added up", tokensAreAdded},
		{"the most expensive chains come first, with all they cost", expensiveChains},
		{"an unknown group is refused", unknownGroupIsRefused},
		{"costs follow the services that the last decision names", costsFollowServices},
		{"costs are those of the sessions after any history", costsEqualTheRows},
	}
}

func (f *Fixture) costs(t *testing.T, by store.CostGroup, filter store.CostFilter) []store.CostRow {
	t.Helper()
	rows, err := f.Store.Costs(t.Context(), by, filter)
	must(t, err)
	return rows
}

// day is the UTC day of Start, and days after it.
func day(after int) time.Time {
	return Start.Truncate(24*time.Hour).AddDate(0, 0, after)
}

// short is a row without its tokens.
type short struct {
	Day      time.Time
	Key      string
	USD      float64 // -1 where it is not known
	Sessions int
	Reported int
}

func shortened(rows []store.CostRow) []short {
	out := []short{}
	for _, r := range rows {
		usd := -1.0
		if r.USD != nil {
			usd = *r.USD
		}
		out = append(out, short{r.Day, r.Key, usd, r.Sessions, r.Reported})
	}
	return out
}

func costsByDayAndTier(t *testing.T, f *Fixture) {
	equal(t, "none", len(f.costs(t, store.CostByTier, store.CostFilter{Since: day(-30)})), 0)
	f.spend(t, "home", ops.Ptr(1.0), day(0).Add(-time.Microsecond))
	f.spend(t, "home", ops.Ptr(2.0), day(0))
	f.spend(t, "home", ops.Ptr(0.5), day(1).Add(-time.Microsecond))
	f.spend(t, "office", ops.Ptr(4.0), Start)
	session := f.RunningSession(t, "home")
	f.Commit(t, f.Escalation(session, 1)) // 0.25 at Tier 1, and Tier 2 is queued
	equal(t, "all", shortened(f.costs(t, store.CostByTier, store.CostFilter{Since: day(-30)})), []short{
		{day(-1), "1", 1, 1, 1}, {day(0), "1", 6.75, 4, 4},
	})
	equal(t, "home today", shortened(f.costs(t, store.CostByTier, store.CostFilter{Environment: "home", Since: day(0)})), []short{
		{day(0), "1", 2.75, 3, 3},
	})
	equal(t, "yesterday", shortened(f.costs(t, store.CostByTier, store.CostFilter{Since: day(-1), Until: day(0)})), []short{
		{day(-1), "1", 1, 1, 1},
	})
}

func unreportedCostIsNil(t *testing.T, f *Fixture) {
	f.spend(t, "home", nil, Start)
	equal(t, "unknown", shortened(f.costs(t, store.CostByTier, store.CostFilter{Since: day(0)})), []short{{day(0), "1", -1, 1, 0}})
	f.spend(t, "home", ops.Ptr(0.5), Start)
	equal(t, "partly", shortened(f.costs(t, store.CostByTier, store.CostFilter{Since: day(0)})), []short{{day(0), "1", 0.5, 2, 1}})
	chains, err := f.Store.ExpensiveChains(t.Context(), store.CostFilter{Since: day(0)}, 10)
	must(t, err)
	equal(t, "chains", len(chains), 1)
}

func unstartedIsNoCost(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.Queue(t, cycle, nil, 1)
	f.EndCycle(t, cycle)
	for _, by := range store.CostGroups() {
		equal(t, string(by), len(f.costs(t, by, store.CostFilter{Since: day(-1)})), 0)
	}
}

func costsByModelAndTrigger(t *testing.T, f *Fixture) {
	f.spend(t, "home", ops.Ptr(1.0), Start)
	session := f.RunningSession(t, "home")
	next := *f.Commit(t, f.Escalation(session, 1)).Journal.Last()
	must(t, f.Start(t, next.ID, "planned-2", f.At))
	ended := f.Ended(next, 3)
	f.Commit(t, ops.Transition{
		Cycle: next.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved},
	})
	filter := store.CostFilter{Since: day(0)}
	equal(t, "model", shortened(f.costs(t, store.CostByModel, filter)), []short{{day(0), "haiku", 1.25, 2, 2}, {day(0), "sonnet", 3, 1, 1}})
	equal(t, "trigger", shortened(f.costs(t, store.CostByTrigger, filter)), []short{{day(0), "manual", 4.25, 3, 3}})
}

// escalated runs a chain whose decision names services; Tier 1 costs 0.25.
func (f *Fixture) escalated(t *testing.T, environment string, services ...string) ops.CycleID {
	t.Helper()
	session := f.RunningSession(t, environment)
	step := f.Escalation(session, 1)
	step.Step.Kind, step.Step.Session, step.Step.Status = ops.StepFinish, nil, ops.CycleNeedsHuman
	step.Step.Decision.Services = services
	f.Commit(t, step)
	return session.CycleID
}

func costsByServices(t *testing.T, f *Fixture) {
	f.spend(t, "home", ops.Ptr(1.0), Start)
	f.escalated(t, "home", "web")
	f.escalated(t, "home", "web")
	f.escalated(t, "home", "web", "db")
	f.escalated(t, "home")
	equal(t, "service", shortened(f.costs(t, store.CostByService, store.CostFilter{Since: day(0)})), []short{
		{day(0), "", 1.25, 2, 2}, {day(0), "db, web", 0.25, 1, 1}, {day(0), "web", 0.5, 2, 2},
	})
}

func tokensAreAdded(t *testing.T, f *Fixture) {
	for _, n := range []*int64{ops.Ptr[int64](100), nil, ops.Ptr[int64](20)} {
		session := f.RunningSession(t, "home")
		ended := f.Ended(session, 0.1)
		ended.InputTokens, ended.CacheReadTokens = n, n
		f.Commit(t, ops.Transition{
			Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
		})
	}
	rows := f.costs(t, store.CostByTier, store.CostFilter{Since: day(0)})
	if len(rows) != 1 {
		t.Fatalf("rows are %+v", rows)
	}
	equal(t, "input", rows[0].InputTokens, ops.Ptr[int64](120))
	equal(t, "cache read", rows[0].CacheReadTokens, ops.Ptr[int64](120))
	equal(t, "output", rows[0].OutputTokens, nil)
	sum := rows[0].Add(store.Cost{OutputTokens: ops.Ptr[int64](5), InputTokens: ops.Ptr[int64](1)})
	equal(t, "sum of input", sum.InputTokens, ops.Ptr[int64](121))
	equal(t, "sum of output", sum.OutputTokens, ops.Ptr[int64](5))
}

func expensiveChains(t *testing.T, f *Fixture) {
	old := f.spend(t, "home", ops.Ptr(9.0), day(-2))
	cheap := f.spend(t, "home", ops.Ptr(1.0), Start)
	dear := f.spend(t, "office", ops.Ptr(3.0), Start)
	f.spend(t, "home", nil, Start)
	find := func(filter store.CostFilter, limit int) []ops.CycleID {
		t.Helper()
		got, err := f.Store.ExpensiveChains(t.Context(), filter, limit)
		must(t, err)
		return ids(got, func(c store.ChainCost) ops.CycleID { return c.ID })
	}
	equal(t, "today", find(store.CostFilter{Since: day(0)}, 10), []ops.CycleID{dear, cheap})
	equal(t, "all", find(store.CostFilter{Since: day(-30)}, 2), []ops.CycleID{old, dear})
	equal(t, "home", find(store.CostFilter{Since: day(0), Environment: "home"}, 10), []ops.CycleID{cheap})
	got, err := f.Store.ExpensiveChains(t.Context(), store.CostFilter{Since: day(0)}, 1)
	must(t, err)
	if got[0].Environment != "office" || *got[0].USD != 3 || got[0].Trigger != ops.TriggerManual {
		t.Errorf("chain is %+v", got[0])
	}
}

func unknownGroupIsRefused(t *testing.T, f *Fixture) {
	if _, err := f.Store.Costs(t.Context(), "weekday; DROP TABLE sessions", store.CostFilter{}); err == nil {
		t.Error("an unknown group was accepted")
	}
}
