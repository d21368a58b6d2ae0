package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
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
	owner, err := f.Store.Enlist(t.Context(), ops.Host{
		Name: name, Identity: identity, Version: "v", Labels: []string{"x"},
		Environments: []string{"prod"},
	}, length)
	must(t, err)
	return owner
}

func nameBelongsToOneMachine(t *testing.T, f *Fixture) {
	f.enlist(t, "b", "one", lease)
	_, err := f.Store.Enlist(t.Context(), ops.Host{Name: "b", Identity: "two"}, lease)
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
	hosts, err := f.Store.Hosts(t.Context())
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
	reaped, err := f.Store.Reap(t.Context(), f.Owner)
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
	claimed, err := f.Store.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	equal(t, "owner", claimed.Cycle.Owner, f.Owner)
	again, err := f.Store.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over again", len(again), 0)
}

func livingIsLeftAlone(t *testing.T, f *Fixture) {
	owner := f.enlist(t, "b", "one", lease)
	reaped, err := f.Store.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over", len(reaped), 0)
	draining, err := f.Store.Renew(t.Context(), owner, lease)
	must(t, err)
	equal(t, "draining", draining, false)
}

func deadCannotRenew(t *testing.T, f *Fixture) {
	owner, _ := f.dead(t)
	// Nobody has taken over yet: it may come back.
	_, err := f.Store.Renew(t.Context(), owner, -time.Second)
	must(t, err)
	_, err = f.Store.Reap(t.Context(), f.Owner)
	must(t, err)
	_, err = f.Store.Renew(t.Context(), owner, lease)
	wantErr(t, err, ops.ErrFenced)
	_, err = f.Store.Reap(t.Context(), owner)
	must(t, err) // there is no dead host, so nothing is refused
	_, err = f.Store.TakeDuty(t.Context(), owner, "notices", lease)
	wantErr(t, err, ops.ErrFenced)
}

func retiredIsNotReaped(t *testing.T, f *Fixture) {
	owner := f.enlist(t, "b", "one", -time.Second)
	must(t, f.Store.Retire(t.Context(), owner))
	reaped, err := f.Store.Reap(t.Context(), f.Owner)
	must(t, err)
	equal(t, "taken over", len(reaped), 0)
	_, err = f.Store.Renew(t.Context(), owner, lease)
	must(t, err)
}

func dutyIsOneHosts(t *testing.T, f *Fixture) {
	a, b := f.enlist(t, "a", "a", lease), f.enlist(t, "b", "b", lease)
	take := func(owner ops.Owner, length time.Duration) bool {
		t.Helper()
		taken, err := f.Store.TakeDuty(t.Context(), owner, "notices", length)
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
	_, err := f.Store.Renew(t.Context(), b, lease)
	must(t, err)
	if take(a, lease) {
		t.Error("a renewed duty was free")
	}
	must(t, f.Store.Retire(t.Context(), b))
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
			taken, err := f.Store.TakeDuty(t.Context(), owner, "notices", lease)
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
	must(t, f.Store.Drain(t.Context(), "b", true))
	draining, err := f.Store.Renew(t.Context(), owner, lease)
	must(t, err)
	equal(t, "draining", draining, true)
	wantErr(t, f.Store.Drain(t.Context(), "nobody", true), ops.ErrNotFound)
	f.enlist(t, "b", "one", lease)
	hosts, err := f.Store.Hosts(t.Context())
	must(t, err)
	equal(t, "draining after a new start", hosts[0].Draining, false)
}

func spooledOnce(t *testing.T, f *Fixture) {
	owner, session := f.dead(t)
	must(t, f.Store.AppendTranscript(t.Context(), owner, session.ID, lines(1, 3)))
	_, err := f.Store.Reap(t.Context(), f.Owner)
	must(t, err)
	for range 2 {
		must(t, f.Store.AppendSpooled(t.Context(), "dead", session.ID, lines(2, 4)))
	}
	n, err := f.Store.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	got, err := f.Store.Transcript(t.Context(), session.ID, 0, 10)
	must(t, err)
	if n != 5 || len(got) != 5 || got[4].Seq != 5 {
		t.Errorf("%d counted, stored %+v", n, got)
	}
	wantErr(t, f.Store.AppendSpooled(t.Context(), "other", session.ID, lines(6, 1)), ops.ErrFenced)
	wantErr(t, f.Store.AppendSpooled(t.Context(), "dead", 999, lines(6, 1)), ops.ErrNotFound)
}
