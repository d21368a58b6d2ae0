package river_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"claudeops/internal/engine/river"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/enginetest"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// journal is a real journal whose writes insert jobs, and that nobody works on.
func journal(t *testing.T) (*storetest.Fixture, river.Options) {
	t.Helper()
	url := pgtest.URL(t)
	explain(t, url)
	s, err := store.Open(t.Context(), storetest.With(store.Options{URL: url, Clock: func() time.Time { return storetest.Start }}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	h := enginetest.NewHost() // works for no environment
	o := options(t, url, h)
	o.Journal, o.Environments = s.Journal, map[string][]string{"home": nil, "office": {"lan"}}
	o.Ready = func(j *river.Jobs) { s.Journal.UseJobs(j) }
	running(t, o)
	return storetest.NewFixture(t, s), o
}

const jobsOf = `SELECT count(*) FROM river_job WHERE state = 'available' AND (args->>'cycle')::bigint = $1`

func jobs(t *testing.T, o river.Options, want map[ops.CycleID]int) {
	t.Helper()
	for id, n := range want {
		if got := count(t, o, jobsOf, id); got != n {
			t.Errorf("cycle %d has %d jobs, want %d", id, got, n)
		}
	}
}

func TestWhoeverFreesTheSlotInsertsTheNextJob(t *testing.T) {
	t.Parallel()
	f, o := journal(t)
	first, second, elsewhere := f.Submit(t, "home"), f.Submit(t, "home"), f.Submit(t, "office")
	jobs(t, o, map[ops.CycleID]int{first: 1, second: 0, elsewhere: 1})
	if n := count(t, o, `SELECT count(*) FROM river_job WHERE queue = 'label-lan'`); n != 1 {
		t.Errorf("%d jobs are in the queue of the label", n)
	}
	if _, err := f.Store.Journal.Claim(t.Context(), f.Owner, first, storetest.Policy(), f.At); err != nil {
		t.Fatal(err)
	}
	third := f.Submit(t, "home")
	jobs(t, o, map[ops.CycleID]int{second: 0, third: 0})
	f.EndCycle(t, first)
	jobs(t, o, map[ops.CycleID]int{second: 1, third: 0})
}

func TestAnAnswerACancelAndATakeoverInsertJobs(t *testing.T) {
	t.Parallel()
	f, o := journal(t)
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{
		Kind: ops.StepAwait, Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2"},
	}})
	jobs(t, o, map[ops.CycleID]int{cycle: 1}) // the one that led to the claim; nobody completed it
	asked, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	if err != nil || len(asked) != 1 {
		t.Fatalf("%d questions (%v)", len(asked), err)
	}
	if _, err := f.Store.People.Answer(t.Context(), asked[0].ID, ops.ApprovalApproved, "ada", "", f.At); err != nil {
		t.Fatal(err)
	}
	jobs(t, o, map[ops.CycleID]int{cycle: 2})
	if _, err := f.Store.Journal.RequestCancel(t.Context(), cycle, "enough", f.At); err != nil {
		t.Fatal(err)
	}
	jobs(t, o, map[ops.CycleID]int{cycle: 3})

	other := f.Claim(t, "office").Cycle.ID
	jobs(t, o, map[ops.CycleID]int{other: 1})
	self := ops.Host{Name: storetest.Host}
	if _, err := f.Store.Journal.Enlist(t.Context(), self, time.Minute); err != nil { // it works for the environment no more
		t.Fatal(err)
	}
	jobs(t, o, map[ops.CycleID]int{other: 2})
}

func TestATransactionThatFailsInsertsNoJob(t *testing.T) {
	t.Parallel()
	f, o := journal(t)
	first, second := f.Submit(t, "home"), f.Submit(t, "home")
	if _, err := f.Store.Journal.Claim(t.Context(), f.Owner, first, storetest.Policy(), f.At); err != nil {
		t.Fatal(err)
	}
	stale := f.Owner
	stale.Term--
	if err := f.Store.Journal.Release(t.Context(), stale, first); !errors.Is(err, ops.ErrFenced) {
		t.Fatalf("the error is %v", err)
	}
	jobs(t, o, map[ops.CycleID]int{second: 0})
}

// A worker that gives its own cycle back leaves a job for it, although its own was in the queue until then.
func TestACycleThatIsGivenBackHasAJob(t *testing.T) {
	t.Parallel()
	f, o := journal(t)
	attempts := make(chan struct{}, 10)
	o.Host, o.Mine = "two", []string{"home"}
	o.Advance = func(ctx context.Context, id ops.CycleID, _ string) error {
		if _, err := f.Store.Journal.Claim(ctx, f.Owner, id, storetest.Policy(), f.At); err != nil {
			return err
		}
		attempts <- struct{}{}
		if len(attempts) == 1 {
			return f.Store.Journal.Release(ctx, f.Owner, id)
		}
		_, err := f.Store.Journal.Commit(ctx, f.Owner, ops.Transition{
			Cycle: id, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "all is well"},
		})
		return err
	}
	running(t, o)
	cycle := f.Submit(t, "home")
	until(t, func() bool {
		c, err := f.Store.Journal.Cycle(t.Context(), cycle)
		return err == nil && c.Status == ops.CycleHealthy
	})
	until(t, func() bool { return count(t, o, `SELECT count(*) FROM river_job WHERE state = 'completed'`) == 2 })
}
