package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

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
	flaws, err := f.Store.Verify(t.Context(), true)
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
	id, err := h.Store.SubmitCycle(t.Context(), ops.NewCycle{Environment: environment, Trigger: trigger, At: h.At})
	must(t, err)
	_, err = h.Store.Claim(t.Context(), h.Owner, id, Policy(), h.At)
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
	claimed, err := h.Store.Claim(t.Context(), h.Owner, s.CycleID, Policy(), h.At)
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
	c, err := h.Store.Load(t.Context(), id)
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
	got, err := h.Store.ExpensiveChains(t.Context(), f, limit)
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
	got, known, err := h.Store.CostSince(t.Context(), f.Environment, f.Since)
	must(t, err)
	want := 0.0
	if sum.USD != nil {
		want = *sum.USD
	}
	if math.Abs(got-want) > 1e-6 || known != (sum.Sessions == 0 || sum.Reported > 0) {
		t.Errorf("since %s in %q: %v, %v; want %v of %+v", f.Since, f.Environment, got, known, want, sum)
	}
}
