package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func claimCases() []testCase {
	return []testCase{
		{"a submitted cycle reads back", submittedCycleReadsBack},
		{"hosts at the same turn of the schedule start one cycle", oneCyclePerTurn},
		{"the first claim stores the narrowed policy", firstClaimStoresPolicy},
		{"a later claim keeps policy and start, or the stricter policy", laterClaimKeepsPolicy},
		{"one cycle per environment runs", oneCyclePerEnvironment},
		{"many claims at once: one wins the slot", oneOfManyWinsTheSlot},
		{"the process that runs a cycle may claim it again", claimMayBeRepeated},
		{"a restarted host adopts its cycle", restartedHostAdopts},
		{"a cycle of another host is not taken", otherHostsCycleIsNotTaken},
		{"an ended cycle cannot be claimed", endedCycleCannotBeClaimed},
		{"an unknown cycle is not found", unknownCycleIsNotFound},
		{"release gives the slot to the next", releaseGivesTheSlot},
	}
}

func submittedCycleReadsBack(t *testing.T, f *Fixture) {
	at := time.Date(2026, 3, 14, 13, 30, 0, 123_456_789, time.FixedZone("", 3600))
	id, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{
		Environment: "home", Trigger: ops.TriggerAPI, Prompt: "look at the mail server",
		Options: ops.CycleOptions{DryRun: true, MaxTier: ops.Tier2}, At: at,
	})
	must(t, err)
	got, err := f.Store.Journal.Cycle(t.Context(), id)
	must(t, err)
	equal(t, "cycle", got, ops.Cycle{
		ID: id, Environment: "home", Trigger: ops.TriggerAPI, Status: ops.CycleQueued, Prompt: "look at the mail server",
		Options: ops.CycleOptions{DryRun: true, MaxTier: ops.Tier2}, Charge: ops.Charge{Open: true}, CreatedAt: at.UTC().Truncate(time.Microsecond),
	})
	if _, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Trigger: ops.TriggerAPI, At: at}); err == nil {
		t.Error("a cycle without an environment was accepted")
	}
}

func oneCyclePerTurn(t *testing.T, f *Fixture) {
	turn := ops.NewCycle{Environment: "home", Trigger: ops.TriggerScheduled, At: Start, Key: "schedule/home/1/0"}
	var ids [4]ops.CycleID
	race(t, len(ids), nil, func(i int) (err error) {
		ids[i], err = f.Store.Journal.SubmitCycle(t.Context(), turn)
		return err
	})
	for _, id := range ids {
		equal(t, "cycle", id, ids[0])
	}
	turn.Key = "schedule/home/2/1"
	next, err := f.Store.Journal.SubmitCycle(t.Context(), turn)
	must(t, err)
	if next == ids[0] {
		t.Error("the next turn started no cycle")
	}
}

func firstClaimStoresPolicy(t *testing.T, f *Fixture) {
	id, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{
		Environment: "home", Trigger: ops.TriggerManual, Options: ops.CycleOptions{DryRun: true, MaxTier: ops.Tier1}, At: Start,
	})
	must(t, err)
	got, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, Policy(), Start.Add(time.Second))
	must(t, err)
	want := Policy()
	want.DryRun, want.MaxTier = true, ops.Tier1
	equal(t, "policy", got.Cycle.Policy, want)
	equal(t, "status", got.Cycle.Status, ops.CycleRunning)
	equal(t, "owner", got.Cycle.Owner, f.Owner)
	equal(t, "start", got.Cycle.StartedAt, ops.Ptr(Start.Add(time.Second)))
	equal(t, "sessions", len(got.Journal.Sessions), 0)
}

func laterClaimKeepsPolicy(t *testing.T, f *Fixture) {
	first := f.Claim(t, "home")
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, first.Cycle.ID))
	other := Policy()
	other.Entry, other.MaxDepth = "tier2", 9
	second, err := f.Store.Journal.Claim(t.Context(), f.Owner, first.Cycle.ID, other, Start.Add(time.Hour))
	must(t, err)
	equal(t, "claimed again", second, first)
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, first.Cycle.ID))
	other.DryRun, other.MaxTier = true, ops.Tier1
	third, err := f.Store.Journal.Claim(t.Context(), f.Owner, first.Cycle.ID, other, Start.Add(2*time.Hour))
	must(t, err)
	first.Cycle.Policy.DryRun, first.Cycle.Policy.MaxTier = true, ops.Tier1
	equal(t, "claimed under a stricter policy", third, first)
}

func oneCyclePerEnvironment(t *testing.T, f *Fixture) {
	running := f.Claim(t, "home").Cycle.ID
	waiting := f.Submit(t, "home")
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, waiting, Policy(), Start)
	wantErr(t, err, ops.ErrSlotBusy)
	f.Claim(t, "office")
	f.EndCycle(t, running)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, waiting, Policy(), Start)
	must(t, err)
}

// race runs all at once and counts how they ended; every loser must fail with want.
func race(t *testing.T, n int, want error, attempt func(i int) error) (won int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := attempt(i)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.Is(err, want):
				t.Errorf("error is %v, want %v", err, want)
			}
		})
	}
	wg.Wait()
	return won
}

func oneOfManyWinsTheSlot(t *testing.T, f *Fixture) {
	var queued []ops.CycleID
	for range 8 {
		queued = append(queued, f.Submit(t, "home"))
	}
	won := race(t, len(queued), ops.ErrSlotBusy, func(i int) error {
		_, err := f.Store.Journal.Claim(t.Context(), f.Owner, queued[i], Policy(), Start)
		return err
	})
	equal(t, "winners", won, 1)
}

func claimMayBeRepeated(t *testing.T, f *Fixture) {
	first := f.Claim(t, "home")
	again, err := f.Store.Journal.Claim(t.Context(), f.Owner, first.Cycle.ID, Policy(), Start.Add(time.Hour))
	must(t, err)
	equal(t, "claimed again", again, first)
}

func restartedHostAdopts(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	restarted := NewFixture(t, f.Store)
	equal(t, "term", restarted.Owner.Term, f.Owner.Term+1)
	got, err := f.Store.Journal.Claim(t.Context(), restarted.Owner, session.CycleID, Policy(), Start.Add(time.Hour))
	must(t, err)
	equal(t, "owner", got.Cycle.Owner, restarted.Owner)
	equal(t, "start", got.Cycle.StartedAt, ops.Ptr(Start))
	equal(t, "sessions", got.Journal.Sessions, []ops.Session{session})
	_, err = f.Store.Journal.Commit(t.Context(), f.Owner, f.Escalation(session, 1))
	wantErr(t, err, ops.ErrFenced)
	_, err = f.Store.Journal.Commit(t.Context(), restarted.Owner, f.Escalation(session, 1))
	must(t, err)
}

func otherHostsCycleIsNotTaken(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	other, err := f.Store.Journal.RegisterHost(t.Context(), "host-b")
	must(t, err)
	_, err = f.Store.Journal.Claim(t.Context(), other, id, Policy(), Start)
	wantErr(t, err, ops.ErrConflict)
}

func endedCycleCannotBeClaimed(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, id)
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, Policy(), Start)
	wantErr(t, err, ops.ErrConflict)
}

func unknownCycleIsNotFound(t *testing.T, f *Fixture) {
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, 999, Policy(), Start)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.Journal.Load(t.Context(), 999)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.Journal.Cycle(t.Context(), 999)
	wantErr(t, err, ops.ErrNotFound)
	wantErr(t, f.Store.Journal.Release(t.Context(), f.Owner, 999), ops.ErrNotFound)
}

func releaseGivesTheSlot(t *testing.T, f *Fixture) {
	first := f.Claim(t, "home").Cycle.ID
	second := f.Submit(t, "home")
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, first))
	got, err := f.Store.Journal.Cycle(t.Context(), first)
	must(t, err)
	equal(t, "status", got.Status, ops.CycleQueued)
	equal(t, "owner", got.Owner, ops.Owner{})
	equal(t, "runnable", f.runnable(t, Start), []ops.CycleID{first, second})
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, second, Policy(), Start)
	must(t, err)
	wantErr(t, f.Store.Journal.Release(t.Context(), f.Owner, first), ops.ErrFenced)
}
