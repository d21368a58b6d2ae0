package storetest

import (
	"context"
	"regexp"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func commitCases() []testCase {
	return []testCase{
		{"a transition is written as a whole", transitionIsWrittenWhole},
		{"a transition that fails at its end leaves nothing", failedTransitionLeavesNothing},
		{"a cancelled caller leaves nothing", cancelledCallerLeavesNothing},
		{"an ended session is never ended again", endedSessionStays},
		{"only an end can be recorded as one", onlyEndsAreRecorded},
		{"a session of another cycle is refused", foreignSessionIsRefused},
		{"an attempt is queued once", attemptIsQueuedOnce},
		{"checks of an effect belong to its cycle", checksBelongToTheCycle},
		{"a finished cycle takes nothing more", finishedCycleTakesNothing},
		{"an intent that never ran ends with its cycle", intentEndsWithItsCycle},
		{"a rest writes nothing and needs no owner", restWritesNothing},
		{"rows that say whose they are keep it", rowsKeepTheirOwn},
		{"the first problem names the cycle", firstProblemNamesTheCycle},
	}
}

func transitionIsWrittenWhole(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	tr := f.Escalation(session, 1)
	got := f.Commit(t, tr)

	equal(t, "returned journal", got, f.load(t, session.CycleID))

	if len(got.Journal.Sessions) != 2 || len(got.Journal.Decisions) != 1 {
		t.Fatalf("journal has %d sessions and %d decisions", len(got.Journal.Sessions), len(got.Journal.Decisions))
	}
	equal(t, "ended session", got.Journal.Sessions[0], *tr.Result.Session)
	next := got.Journal.Sessions[1]
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(next.Key) || next.Key == session.Key {
		t.Errorf("key %q is not fresh", next.Key)
	}
	equal(t, "next session", next, ops.Session{
		ID: next.ID, Key: next.Key, CycleID: session.CycleID, ParentID: &session.ID, Attempt: 1, Role: ops.RoleWork,
		Tier: ops.Tier2, Permissions: ops.Tier2, Handler: "tier2",
		Family: "claude", Agent: "claude", Model: "sonnet", Status: ops.SessionQueued, ContextMode: ops.ContextHandoff,
		Owner: Host, CreatedAt: tr.At,
	})
	decision := *tr.Step.Decision
	decision.ID, decision.CycleID, decision.At = got.Journal.Decisions[0].ID, session.CycleID, tr.At
	equal(t, "decision", got.Journal.Decisions[0], decision)
	listed, err := f.Store.Decisions(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "listed decisions", listed, got.Journal.Decisions)

	events, err := f.Store.Events(t.Context(), store.EventFilter{CycleID: &session.CycleID})
	must(t, err)
	equal(t, "event kinds", ids(events, func(e ops.Event) string { return string(e.Kind) }), []string{"escalated", "session_ended"})
	equal(t, "event", events[0], ops.Event{
		ID: events[0].ID, At: tr.At, CycleID: &session.CycleID, SessionID: &session.ID, Environment: "home",
		Level: ops.LevelWarning, Kind: "escalated", Service: "web", Message: "goes up",
	})
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", notices, []ops.Notice{{
		ID: notices[0].ID, CycleID: &session.CycleID, Environment: "home", Kind: "escalation", Level: ops.LevelWarning, Title: "Web is down",
		Body: "Tier 2 starts.", Status: ops.NoticePending, NextAt: tr.At, CreatedAt: tr.At,
	}})
}

func failedTransitionLeavesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	before := f.snapshot(t, session.CycleID)
	tr := f.Escalation(session, 1)
	// The last thing written: an attempt that exists already.
	tr.Step.Session = &ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	_, err := f.Store.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)

	tr = f.Escalation(session, 1)
	tr.Step.Session.ParentID = ops.Ptr(ops.SessionID(999))
	if _, err := f.Store.Commit(t.Context(), f.Owner, tr); err == nil {
		t.Error("a parent that does not exist was accepted")
	}
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
}

func cancelledCallerLeavesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	before := f.snapshot(t, session.CycleID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Store.Commit(ctx, f.Owner, f.Escalation(session, 1))
	wantErr(t, err, context.Canceled)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
	f.Commit(t, f.Escalation(session, 1))
}

func endedSessionStays(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.Commit(t, f.Escalation(session, 1))
	before := f.snapshot(t, session.CycleID)
	again := f.Escalation(session, 2)
	again.Result.Session.Status = ops.SessionFailed
	_, err := f.Store.Commit(t.Context(), f.Owner, again)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
}

func onlyEndsAreRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	tr := f.Escalation(session, 1)
	tr.Result.Session.Status = ops.SessionRunning
	if _, err := f.Store.Commit(t.Context(), f.Owner, tr); err == nil {
		t.Error("a running session was recorded as a result")
	}
	_, err := f.Store.Commit(t.Context(), f.Owner, ops.Transition{
		Cycle: session.CycleID, At: Start, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleQueued},
	})
	if err == nil {
		t.Error("a queued cycle was recorded as finished")
	}
}

func foreignSessionIsRefused(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	other := f.Claim(t, "office").Cycle.ID
	tr := f.Escalation(session, 1)
	tr.Cycle = other
	_, err := f.Store.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrConflict)
	tr.Result.Session.ID = 999
	_, err = f.Store.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrNotFound)
}

func attemptIsQueuedOnce(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.Queue(t, cycle, nil, 1)
	won := race(t, 4, ops.ErrConflict, func(int) error {
		_, err := f.Store.Commit(t.Context(), f.Owner, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
			Kind: ops.StepQueue, Session: &ops.NewSession{Attempt: 2, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh},
		}})
		return err
	})
	equal(t, "queued", won, 1)
}

func checksBelongToTheCycle(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	got := f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: Start,
		Result: ops.Result{Checks: []ops.Check{{
			Purpose: ops.ProbeVerify, AfterSession: &session.ID, Service: "web", Probe: "GET http://web/", Type: ops.CheckHTTP,
			Status: ops.Down, Error: "status 502", ResponseTimeMS: 12,
		}}},
		Step: ops.Step{Kind: ops.StepProbe},
	})
	equal(t, "checks", got.Journal.Checks, []ops.Check{{
		ID: got.Journal.Checks[0].ID, At: Start, Environment: "home", CycleID: &session.CycleID, AfterSession: &session.ID,
		Purpose: ops.ProbeVerify, Service: "web", Probe: "GET http://web/", Type: ops.CheckHTTP, Status: ops.Down,
		Error: "status 502", ResponseTimeMS: 12,
	}})
}

func finishedCycleTakesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	ended := f.Ended(session, 0.5)
	got := f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: Start.Add(time.Hour), Result: ops.Result{Session: &ended},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "the handoff was refused"},
	})
	equal(t, "status", got.Cycle.Status, ops.CycleNeedsHuman)
	equal(t, "reason", got.Cycle.Reason, "the handoff was refused")
	equal(t, "end", got.Cycle.EndedAt, ops.Ptr(Start.Add(time.Hour)))
	before := f.snapshot(t, session.CycleID)
	for _, late := range []ops.Step{
		{Kind: ops.StepRest, Events: []ops.Event{{Level: ops.LevelInfo, Kind: "late"}}},
		{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	} {
		_, err := f.Store.Commit(t.Context(), f.Owner, ops.Transition{Cycle: session.CycleID, At: Start, Step: late})
		wantErr(t, err, ops.ErrConflict)
	}
	wantErr(t, f.Store.Release(t.Context(), f.Owner, session.CycleID), ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
}

func intentEndsWithItsCycle(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.Commit(t, f.Escalation(session, 1))
	got := f.EndCycle(t, session.CycleID).Journal.Sessions
	equal(t, "statuses", ids(got, func(s ops.Session) ops.SessionStatus { return s.Status }),
		[]ops.SessionStatus{ops.SessionCompleted, ops.SessionCancelled})
	equal(t, "end", got[1].EndedAt, ops.Ptr(Start.Add(time.Hour)))
}

func restWritesNothing(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, cycle)
	before := f.snapshot(t, cycle)
	got, err := f.Store.Commit(t.Context(), ops.Owner{}, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepRest}})
	must(t, err)
	equal(t, "cycle", got.Cycle, before.Claimed.Cycle)
	equal(t, "journal", f.snapshot(t, cycle), before)
}

func rowsKeepTheirOwn(t *testing.T, f *Fixture) {
	first := f.RunningSession(t, "home")
	cycle := f.Claim(t, "office").Cycle.ID
	at := Start.Add(-time.Hour)
	f.Commit(t, ops.Transition{
		Cycle: cycle, At: Start,
		Result: ops.Result{Events: []ops.Event{{At: at, CycleID: &first.CycleID, Environment: "home", Level: ops.LevelInfo, Kind: "k"}}},
		Step: ops.Step{Kind: ops.StepRest, Notices: []ops.Notice{{
			CycleID: &first.CycleID, Level: ops.LevelInfo, Kind: "k", CreatedAt: at, NextAt: Start.Add(time.Hour),
		}}},
	})
	events, err := f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "event", events, []ops.Event{{
		ID: events[0].ID, At: at, CycleID: &first.CycleID, Environment: "home", Level: ops.LevelInfo, Kind: "k",
	}})
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notice", notices, []ops.Notice{{
		ID: notices[0].ID, CycleID: &first.CycleID, Environment: "office", Kind: "k", Level: ops.LevelInfo, Status: ops.NoticePending,
		CreatedAt: at, NextAt: Start.Add(time.Hour),
	}})
}

func firstProblemNamesTheCycle(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	tr := f.Escalation(session, 1)
	tr.Result.Problem = "redis: connection refused"
	got := f.Commit(t, tr)
	equal(t, "problem", got.Cycle.Problem, "redis: connection refused")
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{
		Problem: "web: HTTP 502", Events: []ops.Event{{Level: ops.LevelInfo, Kind: ops.EventCycle, Message: "later"}},
	}})
	stored, err := f.Store.Cycle(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "problem afterwards", stored.Problem, "redis: connection refused")
}
