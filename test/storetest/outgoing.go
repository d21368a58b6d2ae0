package storetest

import (
	"slices"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func outgoingCases() []testCase {
	return []testCase{
		{"rows that are open or ended lately are news", openAndEndedRowsAreNews},
		{"events are kept once and in order", eventsAreKeptOnceAndInOrder},
		{"a target gets what comes after it was added", targetGetsWhatComesAfter},
		{"old events are removed and counted if somebody lacks them", oldEventsAreRemoved},
		{"a notice of the day is added once", noticeOfTheDayIsAddedOnce},
		{"spending counts today and the window", spendingCountsTodayAndTheWindow},
	}
}

func openAndEndedRowsAreNews(t *testing.T, f *Fixture) {
	open := f.Claim(t, "home")
	done := f.Claim(t, "away")
	f.Commit(t, ops.Transition{Cycle: done.Cycle.ID, At: Start.Add(time.Minute), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "disk full",
		Incident: &ops.IncidentReport{Title: "disk full", Level: ops.LevelCritical, Services: []string{"web"}},
	}})
	news := func(since time.Time) (ids []ops.CycleID, incidents int) {
		t.Helper()
		n, err := f.Store.NewsSince(t.Context(), since)
		must(t, err)
		for _, c := range n.Cycles {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids, len(n.Incidents)
	}
	ids, incidents := news(Start)
	equal(t, "news", ids, []ops.CycleID{open.Cycle.ID, done.Cycle.ID})
	equal(t, "incidents", incidents, 1)
	ids, incidents = news(Start.Add(time.Hour))
	equal(t, "later", ids, []ops.CycleID{open.Cycle.ID})
	equal(t, "incidents that are open", incidents, 1)
	_, err := f.Store.ResolveIncident(t.Context(), 1, "me", "", Start.Add(2*time.Minute))
	must(t, err)
	_, incidents = news(Start.Add(time.Hour))
	equal(t, "incidents that are over", incidents, 0)
	_, incidents = news(Start)
	equal(t, "incidents that ended lately", incidents, 1)
}

func (f *Fixture) outgoing(t *testing.T, at time.Time, ids ...string) {
	t.Helper()
	var all []store.OutgoingEvent
	for _, id := range ids {
		all = append(all, store.OutgoingEvent{EventID: id, Kind: "cycle", Environment: "home", At: at, Data: []byte(`{"id":"` + id + `"}`)})
	}
	must(t, f.Store.QueueEvents(t.Context(), all, at))
}

func (f *Fixture) eventsFor(t *testing.T, target string) (ids []string) {
	t.Helper()
	found, err := f.Store.EventsFor(t.Context(), target, 10)
	must(t, err)
	for _, e := range found {
		ids = append(ids, e.EventID)
		equal(t, "data", string(e.Data), `{"id":"`+e.EventID+`"}`)
	}
	return ids
}

func (f *Fixture) target(t *testing.T, names ...string) {
	t.Helper()
	_, _, err := f.Store.BeginEvents(t.Context(), names, Start.Add(-time.Hour))
	must(t, err)
}

func eventsAreKeptOnceAndInOrder(t *testing.T, f *Fixture) {
	f.target(t, "a")
	f.outgoing(t, Start, "one", "two")
	f.outgoing(t, Start.Add(time.Minute), "two", "three", "one")
	equal(t, "waiting", f.eventsFor(t, "a"), []string{"one", "two", "three"})
	unknown, err := f.Store.UnknownEvents(t.Context(), []string{"one", "four", "three"})
	must(t, err)
	equal(t, "unknown", unknown, map[string]bool{"four": true})
	first, err := f.Store.EventsFor(t.Context(), "a", 2)
	must(t, err)
	must(t, f.Store.EventTaken(t.Context(), "a", first[1].ID))
	must(t, f.Store.EventTaken(t.Context(), "a", first[0].ID)) // a late record does not go back
	equal(t, "after two", f.eventsFor(t, "a"), []string{"three"})
	floor, mark, err := f.Store.BeginEvents(t.Context(), []string{"a"}, Start.Add(-time.Hour))
	must(t, err)
	equal(t, "floor", floor, Start)
	equal(t, "mark", mark, Start.Add(time.Minute))
	floor, _, err = f.Store.BeginEvents(t.Context(), []string{"a"}, Start.Add(time.Hour))
	must(t, err)
	equal(t, "a floor that is too old", floor, Start.Add(time.Hour))
}

func targetGetsWhatComesAfter(t *testing.T, f *Fixture) {
	f.target(t, "a")
	f.outgoing(t, Start, "one")
	f.target(t, "a", "b")
	f.outgoing(t, Start, "two")
	equal(t, "the first target", f.eventsFor(t, "a"), []string{"one", "two"})
	equal(t, "the later one", f.eventsFor(t, "b"), []string{"two"})
	equal(t, "no target", len(f.eventsFor(t, "nobody")), 0)
}

func oldEventsAreRemoved(t *testing.T, f *Fixture) {
	f.target(t, "a", "gone")
	f.outgoing(t, Start, "one", "two")
	f.outgoing(t, Start.Add(time.Hour), "three")
	found, err := f.Store.EventsFor(t.Context(), "a", 1)
	must(t, err)
	must(t, f.Store.EventTaken(t.Context(), "a", found[0].ID))
	lost, err := f.Store.RemoveEvents(t.Context(), []string{"a"}, Start.Add(time.Minute))
	must(t, err)
	equal(t, "lost", lost, int64(1))
	equal(t, "left", f.eventsFor(t, "a"), []string{"three"})
	equal(t, "a target that is not configured any more", len(f.eventsFor(t, "gone")), 0)
}

func noticeOfTheDayIsAddedOnce(t *testing.T, f *Fixture) {
	add := func(key string, at time.Time) bool {
		t.Helper()
		added, err := f.Store.AddNoticeOnce(t.Context(), ops.Notice{Kind: ops.NoticeBudget, Level: ops.LevelWarning, Title: "t", Key: key, CreatedAt: at, NextAt: at},
			ops.Event{At: at, Level: ops.LevelWarning, Kind: ops.EventNotification, Message: "m"}, at.Truncate(24*time.Hour))
		must(t, err)
		return added
	}
	equal(t, "first", add("k", Start), true)
	equal(t, "seven hours later", add("k", Start.Add(7*time.Hour)), false)
	equal(t, "another key", add("other", Start), true)
	equal(t, "the next day", add("k", Start.Add(24*time.Hour)), true)
	events, err := f.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
	must(t, err)
	equal(t, "events", len(events), 3)
}

func spendingCountsTodayAndTheWindow(t *testing.T, f *Fixture) {
	midnight := Start.Truncate(24 * time.Hour)
	spending := func(environment string, window time.Duration, now time.Time) ops.Spending {
		t.Helper()
		spent, err := f.Store.Spending(t.Context(), environment, window, now)
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
