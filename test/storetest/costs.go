package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	rows, err := f.Store.Reports.Costs(t.Context(), by, filter)
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
	chains, err := f.Store.Reports.ExpensiveChains(t.Context(), store.CostFilter{Since: day(0)}, 10)
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
	if _, err := f.Store.Reports.Costs(t.Context(), "weekday; DROP TABLE sessions", store.CostFilter{}); err == nil {
		t.Error("an unknown group was accepted")
	}
}

// costsFollowServices escalates twice, and the second decision names another service.
func costsFollowServices(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	step := f.Escalation(session, 1)
	step.Step.Decision.Services = []string{"web"}
	next := *f.Commit(t, step).Journal.Last()
	filter := store.CostFilter{Since: day(0)}
	equal(t, "first", shortened(f.costs(t, store.CostByService, filter)), []short{{day(0), "web", 0.25, 1, 1}})
	must(t, f.Start(t, next.ID, "planned-2", f.At))
	step = f.Escalation(next, 1)
	step.Step.Decision.Services = []string{"mail", "db"}
	f.Commit(t, step)
	equal(t, "second", shortened(f.costs(t, store.CostByService, filter)), []short{{day(0), "db, mail", 0.5, 2, 2}})
	f.sound(t)
}

func (f *Fixture) sound(t *testing.T) {
	t.Helper()
	flaws, err := f.Store.Journal.Verify(t.Context(), true)
	must(t, err)
	if len(flaws) > 0 {
		t.Errorf("flaws: %+v", flaws)
	}
}

// history lives through random cycles: retried, escalated, cancelled, waiting for days, and taken over from a dead host.
type history struct {
	*Fixture
	random *rand.Rand
	cycles []ops.CycleID
	counts map[ops.CycleID][]cost
}

func costsEqualTheRows(t *testing.T, f *Fixture) {
	h := &history{Fixture: f, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // repeatable
	f.Owner = f.enlist(t, Host, "one", lease)
	for range 40 {
		h.cycle(t)
	}
	f.sound(t)
	h.counts = map[ops.CycleID][]cost{}
	for _, id := range h.cycles {
		h.counts[id] = h.counted(t, id)
	}
	for range 40 {
		filter := h.filter()
		for _, by := range store.CostGroups() {
			h.wantCosts(t, by, filter)
		}
		h.wantChains(t, filter, 1+h.random.IntN(8))
		h.wantSum(t, filter)
		if t.Failed() {
			return // the first difference says enough
		}
	}
}

func (h *history) chance(n int) bool { return h.random.IntN(n) == 0 }

// cycle runs one cycle, in most cases to its end.
func (h *history) cycle(t *testing.T) {
	t.Helper()
	if h.chance(3) {
		h.At = h.At.Add(time.Duration(h.random.IntN(30)) * time.Hour)
	}
	environment := []string{"home", "office", "prod"}[h.random.IntN(3)]
	unfinished := h.chance(10)
	if unfinished {
		environment = fmt.Sprintf("busy-%d", len(h.cycles))
	}
	trigger := []ops.Trigger{ops.TriggerManual, ops.TriggerScheduled}[h.random.IntN(2)]
	id, err := h.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: environment, Trigger: trigger, At: h.At})
	must(t, err)
	_, err = h.Store.Journal.Claim(t.Context(), h.Owner, id, Policy(), h.At)
	must(t, err)
	h.cycles = append(h.cycles, id)
	session := *h.Queue(t, id, nil, 1).Journal.Last()
	for n := 0; h.session(t, &session); n++ {
		if unfinished && n == 1 {
			return
		}
	}
}

// session runs one session and decides what follows; it reports whether there is another one.
func (h *history) session(t *testing.T, s *ops.Session) (more bool) {
	t.Helper()
	if h.chance(12) { // cancelled before it started
		h.finish(t, ops.Transition{Cycle: s.CycleID, At: h.At})
		return false
	}
	must(t, h.Start(t, s.ID, "planned", h.At))
	if h.chance(6) {
		*s = h.takeOver(t, *s)
		return true
	}
	step := h.Escalation(*s, int(s.Attempt))
	step.Step.Notices = nil
	h.figures(step.Result.Session)
	step.Step.Decision.Services = [][]string{nil, {"web"}, {"db", "web"}, {"web", "db"}}[h.random.IntN(4)]
	if s.Tier == ops.LastTier || h.chance(4) {
		h.finish(t, step)
		return false
	}
	if h.chance(4) { // the same tier again
		step.Step.Session.Handler, step.Step.Session.RetryOf = Handler(s.Tier), &s.ID
		step.Step.Session.ParentID, step.Step.Session.Attempt = s.ParentID, s.Attempt+1
	} else {
		step.Step.Session.Attempt = 1
	}
	*s = *h.Commit(t, step).Journal.Last()
	if h.chance(5) { // a long wait
		h.At = h.At.Add(20 * time.Hour)
	}
	return true
}

func (h *history) finish(t *testing.T, step ops.Transition) {
	t.Helper()
	step.Step.Kind, step.Step.Session, step.Step.Status = ops.StepFinish, nil, ops.CycleCancelled
	h.Commit(t, step)
}

// figures are random ones, of which some were not reported.
func (h *history) figures(s *ops.Session) {
	tokens := func() *int64 {
		if h.chance(3) {
			return nil
		}
		return ops.Ptr(h.random.Int64N(1_000_000))
	}
	s.CostUSD = ops.Ptr(float64(h.random.IntN(3_000_000)) / 1e6)
	if h.chance(4) {
		s.CostUSD = nil
	}
	s.EndedAt = ops.Ptr(h.At.Add(time.Duration(h.random.IntN(7200)) * time.Second))
	s.InputTokens, s.OutputTokens, s.CacheReadTokens, s.CacheWriteTokens = tokens(), tokens(), tokens(), tokens()
	if h.chance(5) {
		s.Model = "another"
	}
}

// takeOver gives the cycle of a running session back to the queue, as after the death of a host, and continues with another attempt.
func (h *history) takeOver(t *testing.T, s ops.Session) ops.Session {
	t.Helper()
	h.Owner = h.enlist(t, Host, "one", lease) // gives back what is not in prod, which it works for
	claimed, err := h.Store.Journal.Claim(t.Context(), h.Owner, s.CycleID, Policy(), h.At)
	must(t, err)
	last := *claimed.Journal.Last()
	if !last.Status.Ended() {
		ended := h.Ended(last, 0.1)
		h.figures(&ended)
		ended.Status = ops.SessionInterrupted
		return *h.Commit(t, ops.Transition{
			Cycle: s.CycleID, At: h.At, Result: ops.Result{Session: &ended},
			Step: ops.Step{Kind: ops.StepQueue, Session: again(last)},
		}).Journal.Last()
	}
	return *h.Commit(t, ops.Transition{
		Cycle: s.CycleID, At: h.At, Step: ops.Step{Kind: ops.StepQueue, Session: again(last)},
	}).Journal.Last()
}

func again(s ops.Session) *ops.NewSession {
	return &ops.NewSession{
		ParentID: s.ParentID, RetryOf: &s.ID, Attempt: s.Attempt + 1, Handler: Handler(s.Tier), ContextMode: ops.ContextFresh,
	}
}

// filter is a random time, of whole days or not.
func (h *history) filter() store.CostFilter {
	var f store.CostFilter
	span := h.At.Sub(Start) + 48*time.Hour
	at := func() time.Time {
		when := Start.Add(-24*time.Hour + time.Duration(h.random.Int64N(int64(span))))
		if h.chance(2) {
			return when.Truncate(24 * time.Hour)
		}
		return when
	}
	f.Since = at()
	if h.chance(2) {
		f.Until = at()
	}
	if f.Until.Before(f.Since) {
		f.Until = time.Time{}
	}
	f.Environment = []string{"", "", "home", "prod"}[h.random.IntN(4)]
	return f
}

// cost is a session with what it counts for.
type cost struct {
	ops.Session
	environment, trigger, services string
}

// counted are the sessions of a cycle that ran and have ended.
func (h *history) counted(t *testing.T, id ops.CycleID) []cost {
	t.Helper()
	c, err := h.Store.Journal.Load(t.Context(), id)
	must(t, err)
	services := ""
	for _, d := range c.Journal.Decisions {
		if len(d.Services) > 0 {
			services = strings.Join(slices.Sorted(slices.Values(d.Services)), ", ")
		}
	}
	var out []cost
	for _, s := range c.Journal.Sessions {
		if s.EndedAt != nil && s.StartedAt != nil {
			out = append(out, cost{s, c.Cycle.Environment, string(c.Cycle.Trigger), services})
		}
	}
	return out
}

func within(f store.CostFilter, c cost) bool {
	return !c.EndedAt.Before(f.Since.Truncate(time.Microsecond)) && (f.Until.IsZero() || c.EndedAt.Before(f.Until.Truncate(time.Microsecond))) &&
		(f.Environment == "" || f.Environment == c.environment)
}

func costOf(s ops.Session) store.Cost {
	out := store.Cost{
		USD: s.CostUSD, Sessions: 1, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, CacheReadTokens: s.CacheReadTokens,
		CacheWriteTokens: s.CacheWriteTokens,
	}
	if s.CostUSD != nil {
		out.Reported = 1
	}
	return out
}

// cents makes sums of floating-point numbers comparable.
func cents(c store.Cost) store.Cost {
	if c.USD != nil {
		c.USD = ops.Ptr(math.Round(*c.USD*1e6) / 1e6)
	}
	return c
}

func (h *history) wantCosts(t *testing.T, by store.CostGroup, f store.CostFilter) {
	t.Helper()
	sums := map[string]store.CostRow{}
	for _, id := range h.cycles {
		for _, c := range h.counts[id] {
			if !within(f, c) {
				continue
			}
			key := map[store.CostGroup]string{
				store.CostByTier: strconv.Itoa(int(c.Tier)), store.CostByModel: c.Model, store.CostByTrigger: c.trigger, store.CostByService: c.services,
			}[by]
			on := c.EndedAt.Truncate(24 * time.Hour)
			at := on.String() + key
			sums[at] = store.CostRow{Day: on, Key: key, Cost: sums[at].Add(costOf(c.Session))}
		}
	}
	want := []store.CostRow{}
	for _, r := range sums {
		r.Cost = cents(r.Cost)
		want = append(want, r)
	}
	slices.SortFunc(want, func(a, b store.CostRow) int { return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Key, b.Key)) })
	got := append([]store.CostRow{}, h.costs(t, by, f)...)
	for i := range got {
		got[i].Cost = cents(got[i].Cost)
	}
	equal(t, fmt.Sprintf("by %s with %+v", by, f), got, want)
}

func (h *history) wantChains(t *testing.T, f store.CostFilter, limit int) {
	t.Helper()
	var want []store.ChainCost
	for _, id := range h.cycles {
		chain, in := store.ChainCost{Cycle: ops.Cycle{ID: id}}, false
		for _, c := range h.counts[id] {
			chain.Cost, in = chain.Add(costOf(c.Session)), in || within(f, c)
		}
		if in && chain.Reported > 0 {
			want = append(want, chain)
		}
	}
	slices.SortFunc(want, func(a, b store.ChainCost) int { return cmp.Or(cmp.Compare(*b.USD, *a.USD), cmp.Compare(b.ID, a.ID)) })
	want = want[:min(limit, len(want))]
	got, err := h.Store.Reports.ExpensiveChains(t.Context(), f, limit)
	must(t, err)
	text := func(chains []store.ChainCost) []string {
		out := []string{}
		for _, c := range chains {
			out = append(out, fmt.Sprintf("%d %.6f %d %d", c.ID, *c.USD, c.Sessions, c.Reported))
		}
		return out
	}
	equal(t, fmt.Sprintf("chains with %+v", f), text(got), text(want))
}

func (h *history) wantSum(t *testing.T, f store.CostFilter) {
	t.Helper()
	f.Until = time.Time{}
	var sum store.Cost
	for _, id := range h.cycles {
		for _, c := range h.counts[id] {
			if within(f, c) {
				sum = sum.Add(costOf(c.Session))
			}
		}
	}
	got, known, err := h.Store.Reports.CostSince(t.Context(), f.Environment, f.Since)
	must(t, err)
	want := 0.0
	if sum.USD != nil {
		want = *sum.USD
	}
	if math.Abs(got-want) > 1e-6 || known != (sum.Sessions == 0 || sum.Reported > 0) {
		t.Errorf("since %s in %q: %v, %v; want %v of %+v", f.Since, f.Environment, got, known, want, sum)
	}
}

func totalsCases() []testCase {
	return []testCase{
		{"sessions are added up by kind within a stretch of time", sessionsAreAddedUp},
		{"escalations are counted by both tiers", escalationsAreCounted},
		{"ends of cycles are told one by one", endsAreTold},
		{"feeds are counted from where one left off", feedsAreCounted},
		{"what stands is read at once", standingIsRead},
	}
}

func sessionsAreAddedUp(t *testing.T, f *Fixture) {
	end := func(cost *float64, turns *int64, ms int64, at time.Time) {
		session := f.runningBefore(t, "home", at)
		ended := f.Ended(session, 0)
		ended.CostUSD, ended.NumTurns, ended.DurationMS, ended.EndedAt = cost, turns, &ms, &at
		ended.InputTokens = ops.Ptr[int64](1 << 40)
		f.Commit(t, ops.Transition{
			Cycle: session.CycleID, At: at, Result: ops.Result{Session: &ended},
			Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved},
		})
	}
	end(ops.Ptr(9.0), nil, 1, Start)
	end(ops.Ptr(0.25), ops.Ptr[int64](3), 1_000, Start.Add(time.Minute))
	end(nil, nil, 2_500, Start.Add(2*time.Minute))
	end(ops.Ptr(0.5), ops.Ptr[int64](8), 60_000, Start.Add(3*time.Minute))
	end(ops.Ptr(9.0), nil, 1, Start.Add(4*time.Minute))
	got, err := f.Store.Reports.SessionTotals(t.Context(), store.Span{After: Start, Until: Start.Add(3 * time.Minute)}, []int64{1_000, 5_000},
		[]int64{5})
	must(t, err)
	equal(t, "totals", got, []store.Totals{{
		Tier: ops.Tier1, Model: "haiku", Trigger: ops.TriggerManual, Outcome: string(ops.OutcomeEscalate),
		Sessions: 3, CostUSD: 0.75, InputTokens: 3 << 40,
		Durations: store.Distribution{Count: 3, Sum: 63_500, Below: []int64{1, 2}},
		Turns:     store.Distribution{Count: 2, Sum: 11, Below: []int64{1}},
	}})
}

func escalationsAreCounted(t *testing.T, f *Fixture) {
	for _, environment := range []string{"home", "office"} {
		session := f.RunningSession(t, environment)
		second := *f.Commit(t, f.Escalation(session, 1)).Journal.Last()
		must(t, f.Start(t, second.ID, "planned", f.At))
		f.Commit(t, f.Escalation(second, 1))
	}
	got, err := f.Store.Reports.EscalationTotals(t.Context(), store.Span{After: Start.Add(-time.Hour)})
	must(t, err)
	equal(t, "escalations", got, []store.Count{{Words: []string{"1", "2"}, Rows: 2}})
}

func endsAreTold(t *testing.T, f *Fixture) {
	first, err := f.Store.Reports.FirstEnd(t.Context())
	must(t, err)
	equal(t, "before any end", first, time.Time{})
	f.spend(t, "home", nil, Start.Add(2*time.Minute))
	f.spend(t, "home", nil, Start.Add(time.Minute))
	f.spend(t, "home", nil, Start.Add(3*time.Minute))
	first, err = f.Store.Reports.FirstEnd(t.Context())
	must(t, err)
	equal(t, "first end", first, Start.Add(time.Minute))
	var got []time.Time
	must(t, f.Store.Reports.CycleEnds(t.Context(), store.Span{After: Start.Add(time.Minute), Until: Start.Add(3 * time.Minute)},
		func(e store.CycleEnd) {
			equal(t, "status", e.Status, ops.CycleResolved)
			got = append(got, e.EndedAt)
		}))
	slices.SortFunc(got, time.Time.Compare)
	equal(t, "ends", got, []time.Time{Start.Add(2 * time.Minute), Start.Add(3 * time.Minute)})
}

func feedsAreCounted(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.hook(t, session, "toolu_1")
	_, _, marks, err := f.Store.Reports.FeedTotals(t.Context(), store.Marks{})
	must(t, err)
	f.hook(t, session, "toolu_2")
	f.hook(t, session, "toolu_3")
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepRest, Recovery: &ops.Recovery{
		SessionID: session.ID, Tier: ops.Tier1, Level: 1, ErrorType: "network", Reason: "again",
	}}})
	guard, recoveries, now, err := f.Store.Reports.FeedTotals(t.Context(), marks)
	must(t, err)
	equal(t, "judgements", guard, []store.Count{{Words: []string{"2", "allow", "R4"}, Rows: 2}})
	equal(t, "recoveries", recoveries, []store.Count{{Words: []string{"1", "network"}, Rows: 1}})
	guard, recoveries, again, err := f.Store.Reports.FeedTotals(t.Context(), now)
	must(t, err)
	equal(t, "nothing new", len(guard)+len(recoveries), 0)
	equal(t, "marks", again, now)
}

func standingIsRead(t *testing.T, f *Fixture) {
	f.RunningSession(t, "home")
	f.spend(t, "office", nil, Start.Add(time.Minute))
	waiting := f.Claim(t, "garden").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: waiting, At: f.At, Step: ops.Step{
		Kind: ops.StepAwait, Reason: "asks", Approval: &ops.Approval{Tier: ops.Tier2, Handler: "tier2"},
		Incident: &ops.IncidentReport{Title: "It is down", Level: ops.LevelCritical, Services: []string{"web"}},
	}})
	pending, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	got, err := f.Store.Reports.Gauges(t.Context(), []string{"home", "office"})
	must(t, err)
	equal(t, "pending", got.PendingApprovals, int64(1))
	equal(t, "running", got.Running, []store.Count{{Words: []string{"1"}, Rows: 1}})
	equal(t, "incidents", got.OpenIncidents, []store.Count{{Words: []string{"critical"}, Rows: 1}})
	equal(t, "last successes", got.LastSuccess, map[string]time.Time{"office": Start.Add(time.Minute)})
	_, err = f.Store.People.Answer(t.Context(), pending[0].ID, ops.ApprovalApproved, "ann", strings.Repeat("x", 10), f.At.Add(time.Minute))
	must(t, err)
	got, err = f.Store.Reports.Gauges(t.Context(), nil)
	must(t, err)
	equal(t, "pending", got.PendingApprovals, int64(0))
	equal(t, "waits", got.ApprovalWaits, []time.Duration{time.Minute})
}

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

// runningBefore starts a session a minute before a time.
func (f *Fixture) runningBefore(t *testing.T, environment string, at time.Time) ops.Session {
	t.Helper()
	defer func(was time.Time) { f.At = was }(f.At)
	f.At = at.Add(-time.Minute)
	return f.RunningSession(t, environment)
}

// spend runs one cycle with one session that ended at the given time; a nil cost was not reported.
func (f *Fixture) spend(t *testing.T, environment string, cost *float64, at time.Time) ops.CycleID {
	t.Helper()
	session := f.runningBefore(t, environment, at)
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
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, id))
	got, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, Policy(), Start)
	must(t, err)
	equal(t, "on claim", got.Journal.Spend.DayUSD, 1.5)
	got, err = f.Store.Journal.Load(t.Context(), id)
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
		got, known, err := f.Store.Reports.CostSince(t.Context(), tt.environment, tt.since)
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
	if _, known, err := f.Store.Reports.CostSince(t.Context(), "office", Start); err != nil || !known {
		t.Errorf("a session that never ran makes costs unknown (%v)", err)
	}
	f.spend(t, "home", nil, Start)
	got, known, err := f.Store.Reports.CostSince(t.Context(), "home", Start)
	must(t, err)
	if got != 0 || known {
		t.Errorf("cost is %v (known %t), want unknown", got, known)
	}
}

func lastEndOfEnvironment(t *testing.T, f *Fixture) {
	_, ok, err := f.Store.Journal.LastEnded(t.Context(), "home")
	must(t, err)
	equal(t, "before any", ok, false)
	f.spend(t, "home", nil, Start)
	f.spend(t, "home", nil, Start.Add(-time.Hour))
	f.spend(t, "office", nil, Start.Add(time.Hour))
	f.Claim(t, "home")
	at, ok, err := f.Store.Journal.LastEnded(t.Context(), "home")
	must(t, err)
	if !ok || !at.Equal(Start) {
		t.Errorf("last end is %s (%t), want %s", at, ok, Start)
	}
}

func journalIsCounted(t *testing.T, f *Fixture) {
	got, err := f.Store.Reports.Counts(t.Context())
	must(t, err)
	equal(t, "empty", got, store.Counts{})
	f.spend(t, "home", nil, Start.Add(time.Minute))
	f.spend(t, "office", nil, Start)
	f.RunningSession(t, "home")
	got, err = f.Store.Reports.Counts(t.Context())
	must(t, err)
	equal(t, "counts", got, store.Counts{
		Sessions: 3, Cycles: 3, RunningSessions: 1, LastCycleEndedAt: ops.Ptr(Start.Add(time.Minute)), LastCycleStatus: ops.CycleResolved,
	})
}

func budgetCases() []testCase {
	return []testCase{
		{"a session gets the least of what is limited", sessionGetsTheLeast},
		{"with nothing left a session stays queued", spentBudgetStartsNothing},
		{"the day's limit counts ends of the day and what others have reserved", dayLimitCounts},
		{"two chains cannot reserve the same dollar", noDollarTwice},
		{"what another chain has reserved counts as the day's spend", reservedCountsOnClaim},
		{"an end keeps what was reserved and frees it", endFreesTheReservation},
		{"spending counts today and the window", spendingCountsTodayAndTheWindow},
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
	got, err := f.Store.Journal.StartSession(t.Context(), f.Owner, id, "planned", f.At, ask)
	must(t, err)
	s, err := f.Store.Journal.Session(t.Context(), id)
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
		_, err := f.Store.Journal.StartSession(t.Context(), f.Owner, session.ID, "planned", Start, ask)
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
		granted, err := f.Store.Journal.StartSession(t.Context(), f.Owner, queued[i], "planned", Start, ops.BudgetAsk{Want: 2, DayLimit: 5})
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
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, running.CycleID))
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

func spendingCountsTodayAndTheWindow(t *testing.T, f *Fixture) {
	midnight := Start.Truncate(24 * time.Hour)
	spending := func(environment string, window time.Duration, now time.Time) ops.Spending {
		t.Helper()
		spent, err := f.Store.Reports.Spending(t.Context(), environment, window, now)
		must(t, err)
		return spent
	}
	equal(t, "nothing", spending("home", 3*time.Hour, Start), ops.Spending{})

	f.spend(t, "home", ops.Ptr(16.0), midnight.Add(-time.Microsecond)) // yesterday
	f.spend(t, "home", ops.Ptr(1.0), midnight)
	f.spend(t, "home", ops.Ptr(2.0), Start.Add(-3*time.Hour-time.Microsecond)) // before the window
	f.spend(t, "home", ops.Ptr(4.0), Start.Add(-3*time.Hour))
	f.spend(t, "home", ops.Ptr(8.0), Start.Add(-time.Minute))
	f.spend(t, "home", nil, Start.Add(-time.Minute)) // its cost is not known
	f.spend(t, "away", ops.Ptr(64.0), Start.Add(-time.Minute))

	equal(t, "today and the last hours", spending("home", 3*time.Hour, Start), ops.Spending{TodayUSD: 15, RecentUSD: 12})
	equal(t, "of another environment", spending("away", 3*time.Hour, Start), ops.Spending{TodayUSD: 64, RecentUSD: 64})
	equal(t, "the window reaches into yesterday", spending("home", 13*time.Hour, Start), ops.Spending{TodayUSD: 15, RecentUSD: 31})
	tomorrow := midnight.Add(24 * time.Hour)
	equal(t, "the next day", spending("home", 13*time.Hour, tomorrow), ops.Spending{RecentUSD: 8})
	equal(t, "long ago", spending("home", time.Hour, tomorrow), ops.Spending{})
}
