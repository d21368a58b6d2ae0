package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func listCases() []testCase {
	return []testCase{
		{"cycles come newest first, with their sessions", cyclesNewestFirst},
		{"sessions are filtered and paged", sessionsFilteredAndPaged},
		{"events are filtered and paged", eventsFilteredAndPaged},
		{"events after a number come oldest first", eventsAfterOldestFirst},
		{"only open cycles are unfinished", openCyclesAreUnfinished},
		{"a long queue is not read to its end", aLongQueueIsNotReadToItsEnd},
		{"a full queue takes no more from people", aFullQueueTakesNoMore},
		{"the latest check of each probe is found", latestChecksAreFound},
	}
}

func cyclesNewestFirst(t *testing.T, f *Fixture) {
	chain := f.chain(t, "home")
	chain = f.EndCycle(t, chain[0].CycleID).Journal.Sessions
	office := f.RunningSession(t, "office")
	queued := f.Submit(t, "home")

	find := func(filter store.CycleFilter) []ops.CycleID {
		t.Helper()
		got, err := f.Store.Cycles(t.Context(), filter)
		must(t, err)
		return ids(got, func(c store.CycleSummary) ops.CycleID { return c.ID })
	}
	all := []ops.CycleID{queued, office.CycleID, chain[0].CycleID}
	equal(t, "all", find(store.CycleFilter{}), all)
	equal(t, "first page", find(store.CycleFilter{Limit: 2}), all[:2])
	equal(t, "second page", find(store.CycleFilter{Limit: 2, Before: all[1]}), all[2:])
	equal(t, "healthy", find(store.CycleFilter{Status: ops.CycleHealthy}), all[2:])
	equal(t, "home", find(store.CycleFilter{Environment: "home"}), []ops.CycleID{all[0], all[2]})
	equal(t, "none", find(store.CycleFilter{Environment: "home", Status: ops.CycleRunning}), []ops.CycleID{})

	got, err := f.Store.Cycles(t.Context(), store.CycleFilter{})
	must(t, err)
	equal(t, "queued", len(got[0].Sessions), 0)
	equal(t, "office", got[1].Sessions, []ops.Session{office})
	equal(t, "chain", got[2].Sessions, chain)
	one, err := f.Store.Cycle(t.Context(), office.CycleID)
	must(t, err)
	equal(t, "cycle", got[1].Cycle, one)
}

func sessionsFilteredAndPaged(t *testing.T, f *Fixture) {
	chain := f.chain(t, "home")
	office := f.RunningSession(t, "office")
	find := func(filter store.SessionFilter) []ops.SessionID {
		t.Helper()
		got, err := f.Store.Sessions(t.Context(), filter)
		must(t, err)
		return sessionIDs(got)
	}
	all := append(sessionIDs(chain), office.ID)
	slices.Reverse(all)
	equal(t, "all", find(store.SessionFilter{}), all)
	equal(t, "first page", find(store.SessionFilter{Limit: 3}), all[:3])
	equal(t, "second page", find(store.SessionFilter{Limit: 3, Before: all[2]}), all[3:])
	equal(t, "running", find(store.SessionFilter{Status: ops.SessionRunning}), []ops.SessionID{office.ID})
	equal(t, "tier 2", find(store.SessionFilter{Tier: ops.Tier2}), []ops.SessionID{chain[2].ID, chain[1].ID})
	equal(t, "home", find(store.SessionFilter{Environment: "home"}), all[1:])
	equal(t, "tier 1 at home", find(store.SessionFilter{Environment: "home", Tier: ops.Tier1}), []ops.SessionID{chain[0].ID})
}

func eventsFilteredAndPaged(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	add := func(e ops.Event) int64 {
		t.Helper()
		e.Kind = "test"
		id, err := f.Store.AddEvent(t.Context(), e)
		must(t, err)
		return id
	}
	plain := add(ops.Event{Level: ops.LevelInfo})
	cycle := add(ops.Event{Level: ops.LevelWarning, CycleID: &session.CycleID})
	both := add(ops.Event{Level: ops.LevelWarning, CycleID: &session.CycleID, SessionID: &session.ID})
	find := func(filter store.EventFilter) []int64 {
		t.Helper()
		got, err := f.Store.Events(t.Context(), filter)
		must(t, err)
		return eventIDs(got)
	}
	equal(t, "all", find(store.EventFilter{}), []int64{both, cycle, plain})
	equal(t, "first page", find(store.EventFilter{Limit: 2}), []int64{both, cycle})
	equal(t, "second page", find(store.EventFilter{Limit: 2, Before: cycle}), []int64{plain})
	equal(t, "info", find(store.EventFilter{Level: ops.LevelInfo}), []int64{plain})
	equal(t, "cycle", find(store.EventFilter{CycleID: &session.CycleID}), []int64{both, cycle})
	equal(t, "session", find(store.EventFilter{SessionID: &session.ID}), []int64{both})
}

func eventsAfterOldestFirst(t *testing.T, f *Fixture) {
	var want []int64
	for range 5 {
		id, err := f.Store.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: "test"})
		must(t, err)
		want = append(want, id)
	}
	if !slices.IsSorted(want) {
		t.Fatalf("numbers do not rise: %v", want)
	}
	got, err := f.Store.Events(t.Context(), store.EventFilter{After: want[1], Limit: 2})
	must(t, err)
	equal(t, "after", eventIDs(got), want[2:4])
}

func openCyclesAreUnfinished(t *testing.T, f *Fixture) {
	ended := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, ended)
	running, queued := f.Claim(t, "home").Cycle.ID, f.Submit(t, "home")
	open, err := f.Store.Unfinished(t.Context())
	must(t, err)
	equal(t, "unfinished", cycleIDs(open), []ops.CycleID{running, queued})
	equal(t, "runnable", f.runnable(t, Start), []ops.CycleID{queued})
}

func aLongQueueIsNotReadToItsEnd(t *testing.T, f *Fixture) {
	startable := func(want ...ops.CycleID) {
		t.Helper()
		got, err := f.Store.Startable(t.Context())
		must(t, err)
		equal(t, "startable", cycleIDs(got), want)
	}
	got, err := f.Store.Startable(t.Context())
	must(t, err)
	equal(t, "startable of nothing", len(got), 0)

	running := f.Claim(t, "home").Cycle.ID
	var home []ops.CycleID
	for range 12 {
		home = append(home, f.Submit(t, "home"))
	}
	office := f.Submit(t, "office")
	startable(append(append([]ops.CycleID{running}, home[:8]...), office)...)

	_, err = f.Store.RequestCancel(t.Context(), home[11], "not needed", Start) // behind the others, and to be seen at once
	must(t, err)
	startable(append(append([]ops.CycleID{running}, home[:8]...), home[11], office)...)

	f.EndCycle(t, running)
	startable(append(append([]ops.CycleID{}, home[:8]...), home[11], office)...)
	waiting := f.await(t, "lab", ops.Step{Approval: question(), Until: Start.Add(time.Hour)}).Cycle.ID // its time is known
	startable(append(append([]ops.CycleID{}, home[:8]...), home[11], office, waiting)...)
}

func aFullQueueTakesNoMore(t *testing.T, f *Fixture) {
	f.Claim(t, "home") // it runs, so it does not wait
	n := ops.NewCycle{Environment: "home", Trigger: ops.TriggerAPI, At: Start, Behind: 2}
	for range 2 {
		_, err := f.Store.SubmitCycle(t.Context(), n)
		must(t, err)
	}
	if _, err := f.Store.SubmitCycle(t.Context(), n); !errors.Is(err, ops.ErrQueueFull) {
		t.Errorf("a third is taken: %v", err)
	}
	other := n
	other.Environment = "office"
	_, err := f.Store.SubmitCycle(t.Context(), other)
	must(t, err)
	n.Behind = 0 // what the watch starts
	_, err = f.Store.SubmitCycle(t.Context(), n)
	must(t, err)
}

func latestChecksAreFound(t *testing.T, f *Fixture) {
	check := func(environment, service, probe string, status ops.Health) ops.Check {
		return ops.Check{
			At: Start, Environment: environment, Purpose: ops.ProbeWatch, Service: service, Probe: probe,
			Type: ops.CheckHTTP, Status: status,
		}
	}
	none, err := f.Store.LatestChecks(t.Context(), "")
	must(t, err)
	equal(t, "none", len(none), 0)
	must(t, f.Store.AddChecks(t.Context(), nil))

	names := [][3]string{
		{"home", "db", "tcp"}, {"home", "web", "/"}, {"home", "web", "/health"}, {"office", "db", "tcp"}, {"office", "mail", "tcp"},
	}
	for round, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Down} {
		var checks []ops.Check
		for _, n := range names {
			checks = append(checks, check(n[0], n[1], n[2], status))
			checks[len(checks)-1].At = Start.Add(time.Duration(round) * time.Minute)
		}
		must(t, f.Store.AddChecks(t.Context(), checks))
	}
	find := func(environment string) [][3]string {
		t.Helper()
		got, err := f.Store.LatestChecks(t.Context(), environment)
		must(t, err)
		out := [][3]string{}
		for _, c := range got {
			if c.Status != ops.Down || !c.At.Equal(Start.Add(2*time.Minute)) {
				t.Errorf("%s of %s is not the latest: %+v", c.Probe, c.Service, c)
			}
			out = append(out, [3]string{c.Environment, c.Service, c.Probe})
		}
		return out
	}
	equal(t, "all", find(""), names)
	equal(t, "home", find("home"), names[:3])
	equal(t, "office", find("office"), names[3:])
	equal(t, "nowhere", find("nowhere"), [][3]string{})
}
