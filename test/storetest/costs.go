package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func costCases() []testCase {
	return []testCase{
		{"what nobody reported is not known", unreportedCostIsNil},
		{"a session that never ran costs nothing", unstartedIsNoCost},
		{"tokens are added up", tokensAreAdded},
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

func unknownGroupIsRefused(t *testing.T, f *Fixture) {
	if _, err := f.Store.Costs(t.Context(), "weekday; DROP TABLE sessions", store.CostFilter{}); err == nil {
		t.Error("an unknown group was accepted")
	}
}
