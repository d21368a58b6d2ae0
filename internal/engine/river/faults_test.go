package river_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/engine/river"
	"claudeops/internal/ops"
	"claudeops/test/enginetest"
	"claudeops/test/pgtest"
)

// patience is after how long a test believes that something will not happen.
const patience = 2 * time.Minute

func stop(t testing.TB, e *river.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// running starts an engine for as long as the test runs.
func running(t testing.TB, o river.Options) *river.Engine {
	t.Helper()
	e := start(t, o)
	t.Cleanup(func() { stop(t, e) })
	return e
}

func began(t testing.TB, h *enginetest.Host, id ops.CycleID) {
	t.Helper()
	select {
	case got := <-h.Began:
		if got != id {
			t.Fatalf("cycle %d began, want %d", got, id)
		}
	case <-time.After(patience):
		t.Fatalf("cycle %d did not begin", id)
	}
}

func quiet(t testing.TB, h *enginetest.Host) {
	t.Helper()
	select {
	case got := <-h.Began:
		t.Fatalf("cycle %d began", got)
	case <-time.After(300 * time.Millisecond):
	}
}

// count asks the database for a number.
func count(t testing.TB, o river.Options, query string, args ...any) (n int) {
	t.Helper()
	must(t, o.Pool.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// until waits for something to become true.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.After(patience); !ok(); {
		select {
		case <-deadline:
			t.Fatal("it did not come about")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestTheSweepFindsWhatNobodySaid(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	o := options(t, pgtest.URL(t), h)
	o.Sweep = 200 * time.Millisecond
	running(t, o)
	for id := range ops.CycleID(5) {
		h.Lose(ops.Cycle{ID: id, Environment: "a"})
		began(t, h, id)
		h.Finish["a"] <- nil
	}
}

func TestAHostSweepsByItselfWithoutALeader(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	o := options(t, pgtest.URL(t), h)
	stop(t, start(t, o))
	if _, err := o.Pool.Exec(t.Context(), `DELETE FROM river_leader`); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Pool.Exec(t.Context(), `INSERT INTO river_leader (leader_id, elected_at, expires_at) VALUES ('gone', now(), now() + interval '1 hour')`); err != nil {
		t.Fatal(err)
	}
	o.Sweep = 100 * time.Millisecond
	running(t, o)
	h.Lose(ops.Cycle{ID: 1, Environment: "a"})
	began(t, h, 1)
	soon := time.Now().Add(300 * time.Millisecond)
	h.Add(ops.Cycle{ID: 2, Environment: "a", WakeAt: &soon})
	h.Finish["a"] <- nil
	began(t, h, 2)
}

func TestAMarkIsSeenAlthoughNobodySaysSo(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	o := options(t, pgtest.URL(t), h)
	o.Sweep = 200 * time.Millisecond
	running(t, o)
	began(t, h, 1)
	h.Mark(1, "from another host")
	select {
	case <-h.Ended:
	case <-time.After(patience):
		t.Fatal("the worker was not stopped")
	}
}

// A configuration that is read again changes the queues, and tears no worker.
func TestAHostTakesUpOtherEnvironments(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a", "b")
	o := options(t, pgtest.URL(t), h)
	o.Mine = []string{"a"}
	e := running(t, o)
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	began(t, h, 1)
	h.Add(ops.Cycle{ID: 2, Environment: "b"})
	quiet(t, h)
	must(t, e.TakeUp(configured(h), []string{"b"}))
	began(t, h, 2)
	h.Finish["a"] <- nil
	h.Finish["b"] <- nil
	for range 2 {
		if end := <-h.Ended; end.Cause != nil {
			t.Errorf("cycle %d was torn: %v", end.ID, end.Cause)
		}
	}
	h.Add(ops.Cycle{ID: 3, Environment: "a"})
	quiet(t, h)
	must(t, e.TakeUp(configured(h), []string{"a", "b"}))
	began(t, h, 3)
	h.Finish["a"] <- nil
}

func TestAJobWhoseHostDiedBeforeItsClaimIsReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	explain(t, url)
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	// A host that does not work for the environment leaves the job in its queue, where another one takes it and dies.
	stop(t, start(t, options(t, url, h.Beside("sender"))))
	o := options(t, url, h)
	tag, err := o.Pool.Exec(t.Context(), `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(),
		attempted_by = ARRAY['dead'] WHERE kind = 'cycle' AND state = 'available'`)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%d jobs were inserted (%v)", tag.RowsAffected(), err)
	}
	o.Sweep = 500 * time.Millisecond
	running(t, o)
	quiet(t, h)
	began(t, h, 1)
	// The dead host comes back and works on its job: the cycle is taken, and the job is completed.
	if _, err := o.Pool.Exec(t.Context(), `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE attempted_by = ARRAY['dead']`); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return count(t, o, `SELECT count(*) FROM river_job WHERE state = 'completed'`) == 1 })
	quiet(t, h)
}

func TestAnOldJobOfACycleThatAnotherHostRunsIsCompleted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	one := enginetest.NewHost("a")
	two := one.Beside("two", "a")
	o := options(t, url, one)
	e := running(t, o)
	running(t, options(t, url, two))
	e.Drain() // so that the other one gets the cycle
	one.Add(ops.Cycle{ID: 1, Environment: "a"})
	began(t, two, 1)
	must(t, e.Resume())
	jobs, err := river.NewJobs(o.Pool, o.Environments)
	must(t, err)
	for seq := range int64(6) { // some of them reach the host that runs it, some the other one
		must(t, jobs.Insert(t.Context(), nil, []ops.Cycle{{ID: 1, Environment: "a", WakeSeq: 100 + seq}}))
		until(t, func() bool {
			return count(t, o, `SELECT count(*) FROM river_job WHERE state = 'completed'`) == int(seq)+1
		})
	}
	quiet(t, one)
	quiet(t, two)
	if runs, _ := one.Counts(); runs[1] != 1 {
		t.Errorf("it ran %d times", runs[1])
	}
}

func TestAHostThatResumesTakesCyclesWhileOneFromBeforeTheDrainStillRuns(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a", "b")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := running(t, options(t, pgtest.URL(t), h))
	began(t, h, 1)
	e.Drain()
	h.Add(ops.Cycle{ID: 2, Environment: "b"})
	quiet(t, h)
	must(t, e.Resume())
	began(t, h, 2)
	h.Finish["a"] <- nil
	if end := <-h.Ended; end.ID != 1 || end.Cause != nil {
		t.Errorf("cycle %d ended with %v", end.ID, end.Cause)
	}
}

func TestTheEngineGoesOnWhenPostgreSQLReturns(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	h := enginetest.NewHost("a", "b")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	o := options(t, cluster.Address("postgres"), h)
	o.Poll, o.Sweep = time.Second, time.Second
	e := running(t, o)
	began(t, h, 1)
	must(t, cluster.Stop(t.Context()))
	h.Add(ops.Cycle{ID: 2, Environment: "b"})
	e.Submit(2)
	quiet(t, h)
	h.Add(ops.Cycle{ID: 3, Environment: "a"})
	h.Finish["a"] <- nil
	if end := <-h.Ended; end.Cause != nil {
		t.Errorf("the running cycle was stopped: %v", end.Cause)
	}
	quiet(t, h)
	must(t, cluster.Resume(t.Context()))
	got := map[ops.CycleID]bool{}
	for range 2 {
		select {
		case id := <-h.Began:
			got[id] = true
		case <-time.After(patience):
			t.Fatalf("began %v", got)
		}
	}
	if !got[2] || !got[3] {
		t.Errorf("began %v", got)
	}
}

func TestAHostStopsInTimeWhilePostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	e := start(t, options(t, cluster.Address("postgres"), h))
	began(t, h, 1)
	must(t, cluster.Stop(t.Context()))
	stop(t, e)
}

func TestHostsThatStartAtOncePrepareTheTablesOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	h := enginetest.NewHost("a")
	var all sync.WaitGroup
	engines := make([]*river.Engine, 6)
	for i := range engines {
		o := options(t, url, h.Beside(fmt.Sprintf("host-%d", i), "a"))
		all.Go(func() {
			e, err := river.New(o)
			if err == nil {
				err = e.Start(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
			engines[i] = e
		})
	}
	all.Wait()
	for _, e := range engines {
		if e != nil {
			stop(t, e)
		}
	}
}

func TestAnAttemptThatChangesNothingIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	o := options(t, pgtest.URL(t), h)
	o.Sweep = time.Second
	var calls atomic.Int64
	o.Advance = func(context.Context, ops.CycleID, string) error { calls.Add(1); return nil }
	at := time.Now()
	running(t, o)
	until(t, func() bool { return calls.Load() >= 3 })
	if took := time.Since(at); took < 2*o.Sweep {
		t.Errorf("three attempts took %s", took)
	}
}

func TestAJobIsUniqueByCycleAndNumber(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost()
	h.Add(ops.Cycle{ID: 1, Environment: "gone"})
	o := options(t, pgtest.URL(t), h)
	e := running(t, o)
	const waiting = `SELECT count(*) FROM river_job WHERE kind = 'cycle' AND state = 'available'`
	until(t, func() bool { return count(t, o, waiting) == 1 })
	h.Answer(1)
	e.Submit(1)
	until(t, func() bool { return count(t, o, waiting) == 2 })
	e.Submit(1)
	h.Change(1, func(*ops.Cycle) {}) // nothing from outside
	stop(t, e)
	if n := count(t, o, waiting); n != 2 {
		t.Errorf("%d jobs wait", n)
	}
}

func TestTheQueueShowsWhatIsWorkedOn(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	h.Add(ops.Cycle{ID: 2, Environment: "a"})
	o := options(t, pgtest.URL(t), h)
	running(t, o)
	states := func() (out string) {
		err := o.Pool.QueryRow(t.Context(), `SELECT coalesce(string_agg((args->>'cycle') || ' ' || state, ', ' ORDER BY id), '')
			FROM river_job WHERE kind = 'cycle'`).Scan(&out)
		must(t, err)
		return out
	}
	began(t, h, 1)
	if got := states(); got != "1 running" { // the other one has no job before the slot is free
		t.Errorf("while it is worked on: %s", got)
	}
	h.Finish["a"] <- nil
	began(t, h, 2)
	until(t, func() bool { return states() == "1 completed, 2 running" })
}

func TestNoMoreCyclesThanWorkers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	names := make([]string, 12)
	for i := range names {
		names[i] = fmt.Sprintf("env-%d", i)
	}
	one := enginetest.NewHost(names...)
	for i := range 36 {
		one.Add(ops.Cycle{ID: ops.CycleID(i + 1), Environment: names[i%len(names)]})
	}
	one.Change(36, func(c *ops.Cycle) { c.Status, c.Owner = ops.CycleRunning, ops.Owner{Host: one.Name} })
	for _, h := range []*enginetest.Host{one, one.Beside("two", names...)} {
		var here, worst atomic.Int64
		var first atomic.Int64
		h.Work = func(_ context.Context, id ops.CycleID) error {
			first.CompareAndSwap(0, int64(id))
			now := here.Add(1)
			defer here.Add(-1)
			for old := worst.Load(); now > old && !worst.CompareAndSwap(old, now); old = worst.Load() {
			}
			<-time.After(60 * time.Millisecond)
			return nil
		}
		o := options(t, url, h)
		o.Workers = 2
		running(t, o)
		t.Cleanup(func() {
			if worst.Load() != 2 {
				t.Errorf("%s worked on %d cycles at once", h.Name, worst.Load())
			}
			if h == one && first.Load() != 36 {
				t.Errorf("cycle %d came before the one that had begun", first.Load())
			}
		})
	}
	until(t, func() bool { open, _ := one.Unfinished(t.Context()); return len(open) == 0 })
	runs, vain := one.Counts()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("cycle %d ran %d times", id, n)
		}
	}
	if len(runs) != 36 || vain > 36 {
		t.Errorf("%d cycles ran, workers came %d times in vain", len(runs), vain)
	}
}

func TestAHostThatIsToDrainBeforeItStartsBeginsNothing(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	h.Add(ops.Cycle{ID: 2, Environment: "a", Status: ops.CycleRunning, Owner: ops.Owner{Host: h.Name}})
	e, err := river.New(options(t, pgtest.URL(t), h))
	must(t, err)
	e.Drain()
	must(t, e.Start(t.Context()))
	quiet(t, h)
	stop(t, e)
}

func TestAHostThatStopsLeavesWhatItHeldToAnother(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a", Status: ops.CycleRunning, Owner: ops.Owner{Host: h.Name}})
	other := h.Beside("two", "a")
	running(t, options(t, url, other))
	e := start(t, options(t, url, h))
	began(t, h, 1)
	stop(t, e)
	began(t, other, 1)
}

func TestStopSaysWhenAWorkerHangs(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	h.Add(ops.Cycle{ID: 1, Environment: "a"})
	o := options(t, pgtest.URL(t), h)
	release, in := make(chan struct{}), make(chan struct{})
	o.Advance = func(context.Context, ops.CycleID, string) error { close(in); <-release; return nil }
	e := start(t, o)
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if e.Stop(ctx) == nil {
		t.Error("Stop returned although a worker hangs")
	}
	close(release)
	stop(t, e)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	h := enginetest.NewHost("a")
	good := options(t, pgtest.URL(t), h)
	for name, spoil := range map[string]func(o *river.Options){
		"no pool":        func(o *river.Options) { o.Pool = nil },
		"a host no name": func(o *river.Options) { o.Host = "" },
		"a pool too small": func(o *river.Options) {
			c := o.Pool.Config()
			c.MaxConns = 3
			o.Pool = poolOf(t, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			spoil(&o)
			if _, err := river.New(o); err == nil {
				t.Error("it was taken")
			}
		})
	}
	e, err := river.New(good)
	must(t, err)
	stop(t, e) // one that never started has nothing to wait for
}

func TestStartSaysThatPostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	o := options(t, cluster.Address("postgres"), enginetest.NewHost("a"))
	must(t, cluster.Stop(t.Context()))
	e, err := river.New(o)
	must(t, err)
	if e.Start(t.Context()) == nil {
		t.Error("it started")
	}
	stop(t, e)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
