package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func cooldownCases() []testCase {
	return []testCase{
		{"the window slides, exact at its edges", windowSlides},
		{"several services are reserved all or none", allOrNone},
		{"a service's own limit wins over the general ones", ownLimitWins},
		{"every general limit holds", everyLimitHolds},
		{"an action without a limit is recorded all the same", unlimitedIsRecorded},
		{"a limit of none is said so", limitOfNone},
		{"environments do not share cooldowns", environmentsAreApart},
		{"a jump of the clock backwards shortens nothing", jumpBack},
		{"a jump of the clock forwards and back shortens nothing", jumpForwardAndBack},
		{"a released action counts no longer", releasedCountsNoLonger},
		{"a cleared cooldown counts no longer and says who and why", clearedCountsNoLonger},
		{"clearing needs something to clear and a reason", clearingNeedsReason},
	}
}

// at moves the fixture's time, counted from Start.
func (f *Fixture) at(after time.Duration) { f.At = Start.Add(after) }

func windowSlides(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	const window = 4 * time.Hour
	ask := func(after time.Duration) ops.GuardRecord {
		t.Helper()
		f.at(after)
		return f.hook(t, session, "", restart("web")...)
	}
	wantAllowed(t, ask(0))
	equal(t, "one left", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantAllowed(t, ask(time.Hour))
	equal(t, "none left", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Until: Start.Add(window)}})
	wantDenied(t, ask(window-time.Microsecond), "cooldown", "2026-03-14T16:00:00Z")
	wantAllowed(t, ask(window)) // the refusal before does not count
	wantDenied(t, ask(window+time.Hour-time.Microsecond), "cooldown", "2026-03-14T17:00:00Z")
	wantAllowed(t, ask(window+time.Hour))
	f.at(2*window + time.Hour - time.Microsecond)
	equal(t, "last moment", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	f.at(2*window + time.Hour)
	equal(t, "over", len(f.cooldowns(t)), 0)
}

func allOrNone(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("db", "db")...))
	wantDenied(t, f.hook(t, session, "toolu_2", restart("web", "mail", "db")...), "cooldown", "db")
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web", "web", "web")...), "cooldown", "web")
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "db", Action: restartAction, Until: Start.Add(4 * time.Hour)}})
	wantDenied(t, f.shell(t, session, restart("web")...), "cooldown.unreserved")
	wantAllowed(t, f.hook(t, session, "toolu_4", restart("web", "mail")...))
	equal(t, "cooldowns", len(f.cooldowns(t)), 3)
}

// restarts asks for n restarts at once under other limits.
func (f *Fixture) restarts(t *testing.T, s ops.Session, n int, service string, limits ...ops.CooldownLimit) ops.GuardRecord {
	t.Helper()
	var want []ops.Reservation
	for range n {
		want = append(want, restart(service)...)
	}
	got, err := f.Store.RecordGuard(t.Context(), f.Owner, f.judged(s, ""), want, limits)
	must(t, err)
	return got
}

func ownLimitWins(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	general := ops.CooldownLimit{Action: restartAction, Count: 1, Window: 24 * time.Hour}
	own := ops.CooldownLimit{Service: "web", Action: restartAction, Count: 3, Window: time.Hour}
	wantDenied(t, f.restarts(t, session, 2, "db", general, own), "cooldown")
	wantAllowed(t, f.restarts(t, session, 3, "web", general, own))
	wantDenied(t, f.restarts(t, session, 1, "web", own, general), "cooldown", "2026-03-14T13:00:00Z")
	got, err := f.Store.Cooldowns(t.Context(), "home", []ops.CooldownLimit{general, own}, f.At.Add(time.Minute))
	must(t, err)
	equal(t, "cooldowns", got, []ops.Cooldown{{Service: "web", Action: restartAction, Until: Start.Add(time.Hour)}})
}

func everyLimitHolds(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	hour := ops.CooldownLimit{Action: restartAction, Count: 2, Window: time.Hour}
	day := ops.CooldownLimit{Action: restartAction, Count: 3, Window: 24 * time.Hour}
	wantAllowed(t, f.restarts(t, session, 2, "web", day, hour))
	wantDenied(t, f.restarts(t, session, 1, "web", day, hour), "cooldown", "2026-03-14T13:00:00Z")
	f.at(time.Hour)
	wantAllowed(t, f.restarts(t, session, 1, "web", day, hour))
	wantDenied(t, f.restarts(t, session, 1, "web", hour, day), "cooldown", "2026-03-15T12:00:00Z")
}

func unlimitedIsRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	for i := range 5 {
		f.at(time.Duration(i) * time.Minute)
		wantAllowed(t, f.restarts(t, session, 1, "web"))
	}
	equal(t, "without a limit", func() int {
		got, err := f.Store.Cooldowns(t.Context(), "home", nil, f.At)
		must(t, err)
		return len(got)
	}(), 0)
	// A limit that is set later counts them: four of the five must leave its window.
	wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown", "2026-03-14T16:03:00Z")
}

func limitOfNone(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	none := ops.CooldownLimit{Service: "web", Action: restartAction, Window: time.Hour}
	got := f.restarts(t, session, 1, "web", none)
	wantDenied(t, got, "cooldown", "web", "restart")
	if strings.Contains(got.Reason, "2026") {
		t.Errorf("%q promises a time", got.Reason)
	}
}

func environmentsAreApart(t *testing.T, f *Fixture) {
	home, office := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	wantAllowed(t, f.hook(t, home, "", restart("web", "web")...))
	wantAllowed(t, f.hook(t, office, "", restart("web")...))
	wantDenied(t, f.hook(t, home, "", restart("web")...), "cooldown")
}

const year = 365 * 24 * time.Hour

func jumpBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web", "web")...))
	for _, after := range []time.Duration{-time.Second, -24 * time.Hour, -year} {
		f.at(after)
		wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown", f.At.Add(4*time.Hour).Format(time.RFC3339))
	}
	f.at(4*time.Hour - time.Microsecond)
	wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown")
	f.at(4 * time.Hour)
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
}

func jumpForwardAndBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.at(year)
	wantAllowed(t, f.hook(t, session, "", restart("web", "web")...))
	for _, after := range []time.Duration{0, time.Hour, year - time.Hour, year, year + 4*time.Hour - time.Microsecond} {
		f.at(after)
		wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown")
	}
}

func releasedCountsNoLonger(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web", "db")...))
	wantAllowed(t, f.shell(t, session, restart("web")...)) // uses the first
	for _, tt := range []struct {
		id   string
		want int
	}{{"toolu_1", 0}, {"toolu_2", 2}, {"toolu_2", 0}, {"toolu_3", 0}} {
		n, err := f.Store.ReleaseActions(t.Context(), f.Owner, session.ID, tt.id)
		must(t, err)
		equal(t, "released by "+tt.id, n, tt.want)
	}
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantDenied(t, f.shell(t, session, restart("db")...), "cooldown.unreserved")
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web")...)) // asked again, it takes a place again
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web")...), "cooldown")
}

func clearedCountsNoLonger(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web", "web", "db")...))
	wantAllowed(t, f.hook(t, session, "", ops.Reservation{Service: "web", Action: redeployAction}))
	n, err := f.Store.ClearCooldown(t.Context(), "home", "web", restartAction, "the disk was replaced", "alice", f.At)
	must(t, err)
	equal(t, "cleared", n, 2)
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{
		{Service: "db", Action: restartAction, Left: 1},
		{Service: "web", Action: redeployAction, Until: Start.Add(24 * time.Hour)},
	})
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
	n, err = f.Store.ClearCooldown(t.Context(), "home", "web", "", "all of it", "bob", f.At)
	must(t, err)
	equal(t, "cleared", n, 2)

	events, err := f.Store.Events(t.Context(), store.EventFilter{Level: ops.LevelWarning})
	must(t, err)
	equal(t, "events", len(events), 2)
	e := events[1]
	equal(t, "event", e, ops.Event{
		ID: e.ID, At: f.At, Environment: "home", Level: ops.LevelWarning, Kind: "cooldown_cleared", Service: "web",
		Message: "alice cleared the cooldown of web for restart: the disk was replaced",
	})
}

func clearingNeedsReason(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
	for _, tt := range []struct{ environment, service, action string }{
		{"office", "web", restartAction}, {"home", "db", restartAction}, {"home", "web", redeployAction},
	} {
		_, err := f.Store.ClearCooldown(t.Context(), tt.environment, tt.service, tt.action, "because", "alice", f.At)
		wantErr(t, err, ops.ErrNotFound)
	}
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	events, err := f.Store.Events(t.Context(), store.EventFilter{Level: ops.LevelWarning})
	must(t, err)
	equal(t, "events", len(events), 0)
}
