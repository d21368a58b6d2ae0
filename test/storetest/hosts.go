package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const lease = time.Hour // longer than any test

func hostCases() []testCase {
	return []testCase{
		{"a name belongs to one machine while its lease lasts", nameBelongsToOneMachine},
		{"a host follows its own earlier life at once", followsOwnLife},
		{"a host leaves to others what it no longer works for", leavesOtherEnvironments},
		{"the work of a dead host goes to the others, and its writes are refused", reapReturnsWork},
		{"a living host is left alone", livingIsLeftAlone},
		{"a host that was taken for dead cannot renew", deadCannotRenew},
		{"a host that retires leaves nothing to take over", retiredIsNotReaped},
		{"a duty is one host's", dutyIsOneHosts},
		{"of many that ask at once one gets the duty", dutyRace},
		{"somebody can be asked to drain", drainIsTold},
		{"kept output is stored once, also after the cycle went elsewhere", spooledOnce},
	}
}

func (f *Fixture) enlist(t *testing.T, name, identity string, length time.Duration) ops.Owner {
	t.Helper()
	owner, err := f.Store.Journal.Enlist(t.Context(), ops.Host{
		Name: name, Identity: identity, Version: "v", Labels: []string{"x"},
		Environments: []string{"prod"},
	}, length)
	must(t, err)
	return owner
}

func nameBelongsToOneMachine(t *testing.T, f *Fixture) {
	f.enlist(t, "b", "one", lease)
	_, err := f.Store.Journal.Enlist(t.Context(), ops.Host{Name: "b", Identity: "two"}, lease)
	wantErr(t, err, ops.ErrConflict)
	if !strings.Contains(err.Error(), "CLAUDEOPS_HOST") {
		t.Errorf("%q does not say what to do", err)
	}
	f.enlist(t, "c", "one", -time.Second)
	f.enlist(t, "c", "two", lease)
}

func followsOwnLife(t *testing.T, f *Fixture) {
	first := f.enlist(t, "b", "one", lease)
	second := f.enlist(t, "b", "one", lease)
	equal(t, "term", second.Term, first.Term+1)
	hosts, err := f.Store.Journal.Hosts(t.Context())
	must(t, err)
	equal(t, "hosts", len(hosts), 2)
	b := hosts[0]
	if b.Name != "b" || !b.Alive || b.Version != "v" || len(b.Labels) != 1 || len(b.Environments) != 1 || b.Draining {
		t.Errorf("read %+v", b)
	}
}

func leavesOtherEnvironments(t *testing.T, f *Fixture) {
	_, mine := f.dead(t)
	other := *f
	other.Owner = ops.Owner{Host: "dead", Term: 1}
	theirs := other.RunningSession(t, "office")
	f.enlist(t, "dead", "one", lease) // works for prod only
	equal(t, "mine", f.load(t, mine.CycleID).Cycle.Status, ops.CycleRunning)
	equal(t, "theirs", f.load(t, theirs.CycleID).Cycle.Status, ops.CycleQueued)
}

// dead gives a host a running session and lets its lease be over.
func (f *Fixture) dead(t *testing.T) (ops.Owner, ops.Session) {
	t.Helper()
	owner := f.enlist(t, "dead", "one", -time.Second)
	other := *f
	other.Owner = owner
	return owner, other.RunningSession(t, "prod")
}

func reapReturnsWork(t *testing.T, f *Fixture) {
	owner, session := f.dead(t)
	reaped, err := f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	if len(reaped) != 1 || reaped[0].Host != "dead" || len(reaped[0].Cycles) != 1 || reaped[0].Cycles[0] != session.CycleID {
		t.Fatalf("took over %+v", reaped)
	}
	f.refusesEveryWrite(t, owner, session)
	now := f.load(t, session.CycleID)
	s := now.Journal.Session(session.ID)
	if now.Cycle.Status != ops.CycleQueued || s.Status != ops.SessionInterrupted || s.StopCause != ops.StopLease || s.EndedAt == nil {
		t.Errorf("cycle %s, session %s %s", now.Cycle.Status, s.Status, s.StopCause)
	}
	if now.Cycle.WakeSeq == 0 {
		t.Error("nobody is woken")
	}
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	equal(t, "owner", claimed.Cycle.Owner, f.Owner)
	again, err := f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over again", len(again), 0)
}

func livingIsLeftAlone(t *testing.T, f *Fixture) {
	owner := f.enlist(t, "b", "one", lease)
	reaped, err := f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over", len(reaped), 0)
	draining, err := f.Store.Journal.Renew(t.Context(), owner, lease)
	must(t, err)
	equal(t, "draining", draining, false)
}

func deadCannotRenew(t *testing.T, f *Fixture) {
	owner, _ := f.dead(t)
	// Nobody has taken over yet: it may come back.
	_, err := f.Store.Journal.Renew(t.Context(), owner, -time.Second)
	must(t, err)
	_, err = f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	_, err = f.Store.Journal.Renew(t.Context(), owner, lease)
	wantErr(t, err, ops.ErrFenced)
	_, err = f.Store.Journal.Reap(t.Context(), owner)
	must(t, err) // there is no dead host, so nothing is refused
	_, err = f.Store.Journal.TakeDuty(t.Context(), owner, "notices", lease)
	wantErr(t, err, ops.ErrFenced)
}

func retiredIsNotReaped(t *testing.T, f *Fixture) {
	owner := f.enlist(t, "b", "one", -time.Second)
	must(t, f.Store.Journal.Retire(t.Context(), owner))
	reaped, err := f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over", len(reaped), 0)
	_, err = f.Store.Journal.Renew(t.Context(), owner, lease)
	must(t, err)
}

func dutyIsOneHosts(t *testing.T, f *Fixture) {
	a, b := f.enlist(t, "a", "a", lease), f.enlist(t, "b", "b", lease)
	take := func(owner ops.Owner, length time.Duration) bool {
		t.Helper()
		taken, err := f.Store.Journal.TakeDuty(t.Context(), owner, "notices", length)
		must(t, err)
		return taken
	}
	if !take(a, lease) || take(b, lease) || !take(a, -time.Second) {
		t.Error("two hosts have the duty, or none")
	}
	if !take(b, lease) || take(a, lease) {
		t.Error("a duty whose time is over is not free")
	}
	// A sign of life keeps its duties too.
	if !take(b, -time.Second) {
		t.Error("its holder cannot take it again")
	}
	_, err := f.Store.Journal.Renew(t.Context(), b, lease)
	must(t, err)
	if take(a, lease) {
		t.Error("a renewed duty was free")
	}
	must(t, f.Store.Journal.Retire(t.Context(), b))
	if !take(a, lease) {
		t.Error("the duty of a host that retired is not free")
	}
}

func dutyRace(t *testing.T, f *Fixture) {
	const n = 8
	var all sync.WaitGroup
	got := make(chan string, n)
	for i := range n {
		name := string(rune('a' + i))
		owner := f.enlist(t, name, name, lease)
		all.Go(func() {
			taken, err := f.Store.Journal.TakeDuty(t.Context(), owner, "notices", lease)
			if err != nil {
				t.Error(err)
			}
			if taken {
				got <- name
			}
		})
	}
	all.Wait()
	equal(t, "holders", len(got), 1)
}

func drainIsTold(t *testing.T, f *Fixture) {
	owner := f.enlist(t, "b", "one", lease)
	must(t, f.Store.Journal.Drain(t.Context(), "b", true))
	draining, err := f.Store.Journal.Renew(t.Context(), owner, lease)
	must(t, err)
	equal(t, "draining", draining, true)
	wantErr(t, f.Store.Journal.Drain(t.Context(), "nobody", true), ops.ErrNotFound)
	f.enlist(t, "b", "one", lease)
	hosts, err := f.Store.Journal.Hosts(t.Context())
	must(t, err)
	equal(t, "draining after a new start", hosts[0].Draining, false)
}

func spooledOnce(t *testing.T, f *Fixture) {
	owner, session := f.dead(t)
	must(t, f.Store.Journal.AppendTranscript(t.Context(), owner, session.ID, lines(1, 3)))
	_, err := f.Store.Journal.Reap(t.Context(), f.Owner)
	must(t, err)
	for range 2 {
		must(t, f.Store.Journal.AppendSpooled(t.Context(), "dead", session.ID, lines(2, 4)))
	}
	n, err := f.Store.Journal.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	got, err := f.Store.Journal.Transcript(t.Context(), session.ID, 0, 10)
	must(t, err)
	if n != 5 || len(got) != 5 || got[4].Seq != 5 {
		t.Errorf("%d counted, stored %+v", n, got)
	}
	wantErr(t, f.Store.Journal.AppendSpooled(t.Context(), "other", session.ID, lines(6, 1)), ops.ErrFenced)
	wantErr(t, f.Store.Journal.AppendSpooled(t.Context(), "dead", 999, lines(6, 1)), ops.ErrNotFound)
}

func fenceCases() []testCase {
	return []testCase{
		{"a write of an older term changes nothing", olderTermChangesNothing},
		{"a write of a host that does not hold the cycle changes nothing", otherHostChangesNothing},
		{"a write of an unknown host changes nothing", unknownHostChangesNothing},
		{"a write after release changes nothing", writeAfterReleaseChangesNothing},
		{"each registration begins a term of its own host", registrationBeginsTerm},
	}
}

// refusesEveryWrite tries all fenced writes as owner.
func (f *Fixture) refusesEveryWrite(t *testing.T, owner ops.Owner, running ops.Session) {
	t.Helper()
	before := f.snapshot(t, running.CycleID)
	ctx := t.Context()
	writes := map[string]func() error{
		"commit": func() error {
			_, err := f.Store.Journal.Commit(ctx, owner, f.Escalation(running, 1))
			return err
		},
		"finish": func() error {
			_, err := f.Store.Journal.Commit(ctx, owner, ops.Transition{
				Cycle: running.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleFailed},
			})
			return err
		},
		"start": func() error {
			_, err := f.Store.Journal.StartSession(ctx, owner, running.ID, "planned", f.At, ops.BudgetAsk{Want: 1})
			return err
		},
		"note": func() error { return f.Store.Journal.NoteProcess(ctx, owner, running.ID, 4711, "99") },
		"transcript": func() error {
			return f.Store.Journal.AppendTranscript(ctx, owner, running.ID, []ops.Line{{Seq: 1, At: f.At}})
		},
		"guard": func() error {
			_, err := f.Store.Acts.RecordGuard(ctx, owner, f.judged(running, "toolu_fence"), restart("web"), limits())
			return err
		},
		"release": func() error { return f.Store.Journal.Release(ctx, owner, running.CycleID) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) { wantErr(t, write(), ops.ErrFenced) })
	}
	equal(t, "journal", f.snapshot(t, running.CycleID), before)
}

func olderTermChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	NewFixture(t, f.Store)
	f.refusesEveryWrite(t, f.Owner, session)
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "office"), Policy(), Start)
	wantErr(t, err, ops.ErrFenced)
}

func otherHostChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	other, err := f.Store.Journal.RegisterHost(t.Context(), "host-b")
	must(t, err)
	f.refusesEveryWrite(t, other, session)
}

func unknownHostChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.refusesEveryWrite(t, ops.Owner{Host: "nobody", Term: 1}, session)
	f.refusesEveryWrite(t, ops.Owner{}, session)
}

func writeAfterReleaseChangesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, session.CycleID))
	f.refusesEveryWrite(t, f.Owner, session)
}

func registrationBeginsTerm(t *testing.T, f *Fixture) {
	equal(t, "first", f.Owner, ops.Owner{Host: Host, Term: 1})
	other, err := f.Store.Journal.RegisterHost(t.Context(), "host-b")
	must(t, err)
	equal(t, "other host", other, ops.Owner{Host: "host-b", Term: 1})
	again, err := f.Store.Journal.RegisterHost(t.Context(), Host)
	must(t, err)
	equal(t, "again", again, ops.Owner{Host: Host, Term: 2})
	if _, err := f.Store.Journal.RegisterHost(t.Context(), ""); err == nil {
		t.Error("a host without a name was accepted")
	}
}

func parallelCases() []testCase {
	return []testCase{
		{"fifty reservations at once take exactly what is free", fiftyReservations},
		{"who follows a feed misses nothing and sees nothing twice", feedIsFollowed},
		{"one of many hosts gets a cycle", oneHostGetsTheCycle},
		{"one of many hosts gets the slot", oneHostGetsTheSlot},
		{"no output is stored after a takeover", noOutputAfterTakeover},
	}
}

// processes opens the database again, n times.
func (f *Fixture) processes(t *testing.T, n int) []*store.Store {
	t.Helper()
	out := make([]*store.Store, n)
	for i := range out {
		out[i] = f.database(t)
	}
	return out
}

func fiftyReservations(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	processes := f.processes(t, 8)
	const each = 50
	services := []string{"web", "db", "mail", "dns"}
	for _, service := range services {
		var allowed, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range each {
			wg.Go(func() {
				judged := f.judged(session, fmt.Sprintf("%s_%d", service, i))
				got, err := processes[i%len(processes)].Acts.RecordGuard(t.Context(), f.Owner, judged, restart(service), limits())
				for tries := 0; waitedTooLong(err) && tries < 20; tries++ {
					got, err = processes[i%len(processes)].Acts.RecordGuard(t.Context(), f.Owner, judged, restart(service), limits())
				}
				switch {
				case err != nil:
					t.Error(err)
				case got.Allowed:
					allowed.Add(1)
				default:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		equal(t, service+" allowed", allowed.Load(), 2)
		equal(t, service+" refused", refused.Load(), each-2)
	}
	judged, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(judged), each*len(services))
}

// waitedTooLong reports whether PostgreSQL gave up because others came first for too long, as on a very busy machine. Nothing was written.
func waitedTooLong(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "55P03"
}

func feedIsFollowed(t *testing.T, f *Fixture) {
	first, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved, Reason: "first"})
	must(t, err)
	const writers, each = 8, 25
	processes := f.processes(t, 4)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				_, err := processes[w%len(processes)].Journal.AddEvent(t.Context(), ops.Event{
					Level: ops.LevelInfo, Verb: ops.VerbCycleResolved,
					Reason: fmt.Sprintf("%d/%d", w, n),
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	seen := map[string]int{}
	after := first
	follow := func() {
		page, err := f.Store.Journal.Events(t.Context(), store.EventFilter{After: after, Limit: 7})
		must(t, err)
		for _, e := range page {
			if e.ID <= after {
				t.Errorf("event %d comes after %d", e.ID, after)
			}
			after = e.ID
			seen[e.Message.Words()]++
		}
	}
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
			follow()
		}
	}
	for before := int64(-1); before != after; {
		before = after
		follow()
	}
	equal(t, "events seen", len(seen), writers*each)
	for message, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", message, n)
		}
	}
}

// hosts registers n hosts, each with a process of its own.
func (f *Fixture) hosts(t *testing.T, n int) []*Fixture {
	t.Helper()
	out := make([]*Fixture, n)
	for i, s := range f.processes(t, n) {
		owner, err := s.Journal.RegisterHost(t.Context(), fmt.Sprintf("host-%d", i))
		must(t, err)
		out[i] = &Fixture{Store: s, Owner: owner, At: f.At}
	}
	return out
}

func oneHostGetsTheCycle(t *testing.T, f *Fixture) {
	hosts := f.hosts(t, 4)
	for range 5 {
		id := f.Submit(t, "home")
		won := race(t, len(hosts), ops.ErrConflict, func(i int) error {
			_, err := hosts[i].Store.Journal.Claim(t.Context(), hosts[i].Owner, id, Policy(), Start)
			return err
		})
		equal(t, "winners", won, 1)
		cycle, err := f.Store.Journal.Cycle(t.Context(), id)
		must(t, err)
		for _, h := range hosts {
			if h.Owner == cycle.Owner {
				h.EndCycle(t, id)
			}
		}
	}
}

func oneHostGetsTheSlot(t *testing.T, f *Fixture) {
	hosts := f.hosts(t, 4)
	var queued []ops.CycleID
	for range 8 {
		queued = append(queued, f.Submit(t, "home"))
	}
	won := race(t, len(queued), ops.ErrSlotBusy, func(i int) error {
		h := hosts[i%len(hosts)]
		_, err := h.Store.Journal.Claim(t.Context(), h.Owner, queued[i], Policy(), Start)
		return err
	})
	equal(t, "winners", won, 1)
}

func noOutputAfterTakeover(t *testing.T, f *Fixture) {
	elsewhere := f.database(t)
	const batch = 5000 // storing it takes longer than a takeover
	for round := range 3 {
		session := f.RunningSession(t, fmt.Sprintf("home-%d", round))
		started := make(chan struct{})
		refused := make(chan error, 1)
		stored := int64(0)
		go func() {
			for n := 1; ; n += batch {
				if err := f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines(n, batch)); err != nil {
					refused <- err
					return
				}
				stored += batch
				if n == 1 {
					close(started)
				}
			}
		}()
		<-started
		successor := NewFixture(t, elsewhere)
		_, err := elsewhere.Journal.Claim(t.Context(), successor.Owner, session.CycleID, Policy(), Start.Add(time.Hour))
		must(t, err)
		found, err := elsewhere.Journal.TranscriptCount(t.Context(), session.ID)
		must(t, err)
		wantErr(t, <-refused, ops.ErrFenced)
		left, err := elsewhere.Journal.TranscriptCount(t.Context(), session.ID)
		must(t, err)
		equal(t, "lines after the takeover", left, found)
		equal(t, "lines stored", left, stored)
		f.Owner = successor.Owner
	}
}
