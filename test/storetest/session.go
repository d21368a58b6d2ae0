package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func sessionCases() []testCase {
	return []testCase{
		{"every field of an ended session reads back", everyFieldReadsBack},
		{"a figure that was not reported stays unknown", unreportedFigureStaysUnknown},
		{"what was noted at the start outlives the end", startOutlivesTheEnd},
		{"nothing ends before it began", nothingEndsBeforeItBegan},
		{"a session starts once", sessionStartsOnce},
		{"a process is noted while the session runs", processIsNotedWhileRunning},
		{"running sessions are listed", runningSessionsAreListed},
		{"the chain is found from any of its sessions", chainIsFoundFromAny},
		{"an unknown session is not found", unknownSessionIsNotFound},
	}
}

func everyFieldReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	number := func(n int64) *int64 { return &n }
	want := session
	want.Model, want.PlannedID, want.CLISessionID = "claude-haiku", "planned-2", "cli-2"
	want.Status, want.Outcome = ops.SessionTimedOut, ops.OutcomeInconclusive
	want.OutcomeJSON = json.RawMessage(`{"outcome": "healthy",  "ü": "\u00e9"}`)
	want.HandoffJSON = []byte("{\"a\":1,\x00\xff\n}")
	want.HandoffError, want.Failure, want.Error = "it is a symlink", "wall_limit", "it ran too long"
	want.StopCause, want.ContextMode, want.RecoveryLevel = ops.StopWall, ops.ContextHandoff, ops.RecoveryNone
	want.ExitCode, want.CLIVersion, want.PID, want.ProcessStarted = ops.Ptr(137), "2.1.0", 4711, "123456"
	want.APIStatus, want.RetryAfter = ops.Ptr(429), 90*time.Second
	want.Structured, want.OpenTool = true, "Bash"
	want.Conversation = ops.Fingerprint{Path: "/state/conversation.jsonl", Size: 1 << 33, SHA: "abc"}
	want.StartedAt, want.EndedAt = ops.Ptr(Start.Add(2*time.Second)), ops.Ptr(Start.Add(30*time.Minute+time.Microsecond))
	want.Figures = ops.Figures{
		CostUSD: ops.Ptr(0.1), NumTurns: number(0), DurationMS: number(2), InputTokens: number(3), OutputTokens: number(4),
		CacheReadTokens: number(5), CacheWriteTokens: number(6), ContextTokens: number(7), ContextWindow: number(1 << 40),
	}
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &want}, Step: ops.Step{Kind: ops.StepRest}})
	got, err := f.Store.Journal.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "session", got, want)
}

func unreportedFigureStaysUnknown(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	ended := session
	ended.Status = ops.SessionFailed
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepRest}})
	got, err := f.Store.Journal.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "figures", got.Figures, ops.Figures{})
	if got.ExitCode != nil || got.OutcomeJSON != nil || got.HandoffJSON != nil || got.Proposed() {
		t.Errorf("unset fields read back as set: %+v", got)
	}
	equal(t, "end", got.EndedAt, session.StartedAt)
}

func startOutlivesTheEnd(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	queued := *f.Queue(t, cycle, nil, 1).Journal.Last()
	must(t, f.Start(t, queued.ID, "planned-1", Start.Add(time.Second)))
	must(t, f.Store.Journal.NoteProcess(t.Context(), f.Owner, queued.ID, 4711, "123456"))
	// The caller still holds the row as it was queued.
	ended := f.Ended(queued, 0.1)
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepRest}})
	got, err := f.Store.Journal.Session(t.Context(), queued.ID)
	must(t, err)
	want := ended
	want.PlannedID, want.PID, want.ProcessStarted = "planned-1", 4711, "123456"
	want.StartedAt = ops.Ptr(Start.Add(time.Second))
	equal(t, "session", got, want)
}

// nothingEndsBeforeItBegan sets the clock back while a session works.
func nothingEndsBeforeItBegan(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	back := Start.Add(-time.Hour)
	ended := session
	ended.Status, ended.EndedAt = ops.SessionCompleted, &back
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: back, Result: ops.Result{Session: &ended},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "all is well"},
	})
	got, err := f.Store.Journal.Session(t.Context(), session.ID)
	must(t, err)
	cycle, err := f.Store.Journal.Cycle(t.Context(), session.CycleID)
	must(t, err)
	if got.EndedAt.Before(*got.StartedAt) || cycle.EndedAt.Before(*cycle.StartedAt) {
		t.Errorf("the session ran from %s to %s, and its cycle from %s to %s", got.StartedAt, got.EndedAt, cycle.StartedAt, cycle.EndedAt)
	}
}

func sessionStartsOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	equal(t, "status", session.Status, ops.SessionRunning)
	equal(t, "planned id", session.PlannedID, "planned-1")
	equal(t, "start", session.StartedAt, ops.Ptr(Start.Add(time.Second)))
	wantErr(t, f.Start(t, session.ID, "planned-2", Start), ops.ErrConflict)
	got, err := f.Store.Journal.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "session", got, session)

	cycle := f.Claim(t, "office").Cycle.ID
	queued := f.Queue(t, cycle, nil, 1).Journal.Last().ID
	won := race(t, 4, ops.ErrConflict, func(int) error {
		return f.Start(t, queued, "planned", Start)
	})
	equal(t, "starts", won, 1)

	cycle = f.Claim(t, "garden").Cycle.ID
	queued = f.Queue(t, cycle, nil, 1).Journal.Last().ID
	f.EndCycle(t, cycle)
	wantErr(t, f.Start(t, queued, "planned", Start), ops.ErrConflict)
}

func processIsNotedWhileRunning(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	session := *f.Queue(t, cycle, nil, 1).Journal.Last()
	wantErr(t, f.Store.Journal.NoteProcess(t.Context(), f.Owner, session.ID, 4711, "99"), ops.ErrConflict)
	must(t, f.Start(t, session.ID, "planned", Start))
	must(t, f.Store.Journal.NoteProcess(t.Context(), f.Owner, session.ID, 4711, "99"))
	got, err := f.Store.Journal.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "pid", got.PID, 4711)
	equal(t, "process start", got.ProcessStarted, "99")
	f.Commit(t, f.Escalation(got, 1))
	wantErr(t, f.Store.Journal.NoteProcess(t.Context(), f.Owner, session.ID, 1, "1"), ops.ErrConflict)
}

func runningSessionsAreListed(t *testing.T, f *Fixture) {
	home := f.RunningSession(t, "home")
	office := f.RunningSession(t, "office")
	f.Queue(t, f.Claim(t, "garden").Cycle.ID, nil, 1)
	got, err := f.Store.Journal.RunningSessions(t.Context())
	must(t, err)
	equal(t, "running", got, []ops.Session{home, office})
	f.Commit(t, f.Escalation(home, 1))
	got, err = f.Store.Journal.RunningSessions(t.Context())
	must(t, err)
	equal(t, "running", got, []ops.Session{office})
}

// chain runs a cycle through all three tiers, with a second attempt at Tier 2.
func (f *Fixture) chain(t *testing.T, environment string) []ops.Session {
	t.Helper()
	tier1 := f.RunningSession(t, environment)
	f.Commit(t, f.Escalation(tier1, 1))
	retry := f.Commit(t, ops.Transition{Cycle: tier1.CycleID, At: Start, Step: ops.Step{
		Kind: ops.StepQueue, Session: &ops.NewSession{
			ParentID: &tier1.ID, RetryOf: ops.Ptr(tier1.ID + 1), Attempt: 2, Handler: Handler(ops.Tier2), ContextMode: ops.ContextHandoff,
		},
	}}).Journal.Last()
	return f.Commit(t, f.Escalation(*retry, 1)).Journal.Sessions
}

func chainIsFoundFromAny(t *testing.T, f *Fixture) {
	f.RunningSession(t, "office")
	want := f.chain(t, "home")
	if len(want) != 4 {
		t.Fatalf("the chain has %d sessions", len(want))
	}
	parents := ids(want, func(s ops.Session) ops.SessionID {
		if s.ParentID == nil {
			return 0
		}
		return *s.ParentID
	})
	equal(t, "parents", parents, []ops.SessionID{0, want[0].ID, want[0].ID, want[2].ID})
	equal(t, "retry", want[2].RetryOf, &want[1].ID)
	for _, s := range want {
		got, err := f.Store.Journal.Chain(t.Context(), s.ID)
		must(t, err)
		equal(t, "chain", got, want)
	}
}

func unknownSessionIsNotFound(t *testing.T, f *Fixture) {
	ctx := t.Context()
	_, err := f.Store.Journal.Session(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.Journal.Chain(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.Journal.TranscriptCount(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	wantErr(t, f.Start(t, 999, "planned", Start), ops.ErrNotFound)
	wantErr(t, f.Store.Journal.NoteProcess(ctx, f.Owner, 999, 1, "1"), ops.ErrNotFound)
	wantErr(t, f.Store.Journal.AppendTranscript(ctx, f.Owner, 999, []ops.Line{{Seq: 1, At: Start}}), ops.ErrNotFound)
}

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
		got, err := f.Store.Reports.Cycles(t.Context(), filter)
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

	got, err := f.Store.Reports.Cycles(t.Context(), store.CycleFilter{})
	must(t, err)
	equal(t, "queued", len(got[0].Sessions), 0)
	equal(t, "office", got[1].Sessions, []ops.Session{office})
	equal(t, "chain", got[2].Sessions, chain)
	one, err := f.Store.Journal.Cycle(t.Context(), office.CycleID)
	must(t, err)
	equal(t, "cycle", got[1].Cycle, one)
}

func sessionsFilteredAndPaged(t *testing.T, f *Fixture) {
	chain := f.chain(t, "home")
	office := f.RunningSession(t, "office")
	find := func(filter store.SessionFilter) []ops.SessionID {
		t.Helper()
		got, err := f.Store.Reports.Sessions(t.Context(), filter)
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
		e.Verb = ops.VerbCycleResolved
		id, err := f.Store.Journal.AddEvent(t.Context(), e)
		must(t, err)
		return id
	}
	plain := add(ops.Event{Level: ops.LevelInfo})
	cycle := add(ops.Event{Level: ops.LevelWarning, CycleID: &session.CycleID})
	both := add(ops.Event{Level: ops.LevelWarning, CycleID: &session.CycleID, SessionID: &session.ID})
	find := func(filter store.EventFilter) []int64 {
		t.Helper()
		got, err := f.Store.Journal.Events(t.Context(), filter)
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
		id, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved})
		must(t, err)
		want = append(want, id)
	}
	if !slices.IsSorted(want) {
		t.Fatalf("numbers do not rise: %v", want)
	}
	got, err := f.Store.Journal.Events(t.Context(), store.EventFilter{After: want[1], Limit: 2})
	must(t, err)
	equal(t, "after", eventIDs(got), want[2:4])
}

func openCyclesAreUnfinished(t *testing.T, f *Fixture) {
	ended := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, ended)
	running, queued := f.Claim(t, "home").Cycle.ID, f.Submit(t, "home")
	open, err := f.Store.Journal.Unfinished(t.Context())
	must(t, err)
	equal(t, "unfinished", cycleIDs(open), []ops.CycleID{running, queued})
	equal(t, "runnable", f.runnable(t, Start), []ops.CycleID{queued})
}

func aLongQueueIsNotReadToItsEnd(t *testing.T, f *Fixture) {
	startable := func(want ...ops.CycleID) {
		t.Helper()
		got, err := f.Store.Journal.Startable(t.Context())
		must(t, err)
		equal(t, "startable", cycleIDs(got), want)
	}
	got, err := f.Store.Journal.Startable(t.Context())
	must(t, err)
	equal(t, "startable of nothing", len(got), 0)

	running := f.Claim(t, "home").Cycle.ID
	var home []ops.CycleID
	for range 12 {
		home = append(home, f.Submit(t, "home"))
	}
	office := f.Submit(t, "office")
	startable(append(append([]ops.CycleID{running}, home[:8]...), office)...)

	_, err = f.Store.Journal.RequestCancel(t.Context(), home[11], "not needed", Start) // behind the others, and to be seen at once
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
		_, err := f.Store.Journal.SubmitCycle(t.Context(), n)
		must(t, err)
	}
	if _, err := f.Store.Journal.SubmitCycle(t.Context(), n); !errors.Is(err, ops.ErrQueueFull) {
		t.Errorf("a third is taken: %v", err)
	}
	other := n
	other.Environment = "office"
	_, err := f.Store.Journal.SubmitCycle(t.Context(), other)
	must(t, err)
	n.Behind = 0 // what the watch starts
	_, err = f.Store.Journal.SubmitCycle(t.Context(), n)
	must(t, err)
}

func latestChecksAreFound(t *testing.T, f *Fixture) {
	check := func(environment, service, probe string, status ops.Health) ops.Check {
		return ops.Check{
			At: Start, Environment: environment, Purpose: ops.ProbeWatch, Service: service, Probe: probe,
			Type: ops.CheckHTTP, Status: status,
		}
	}
	none, err := f.Store.Watch.LatestChecks(t.Context(), "")
	must(t, err)
	equal(t, "none", len(none), 0)
	must(t, f.Store.Watch.AddChecks(t.Context(), nil))

	names := [][3]string{
		{"home", "db", "tcp"}, {"home", "web", "/"}, {"home", "web", "/health"}, {"office", "db", "tcp"}, {"office", "mail", "tcp"},
	}
	for round, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Down} {
		var checks []ops.Check
		for _, n := range names {
			checks = append(checks, check(n[0], n[1], n[2], status))
			checks[len(checks)-1].At = Start.Add(time.Duration(round) * time.Minute)
		}
		must(t, f.Store.Watch.AddChecks(t.Context(), checks))
	}
	find := func(environment string) [][3]string {
		t.Helper()
		got, err := f.Store.Watch.LatestChecks(t.Context(), environment)
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
	listed, err := f.Store.Journal.Decisions(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "listed decisions", listed, got.Journal.Decisions)

	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &session.CycleID})
	must(t, err)
	equal(t, "event kinds", ids(events, func(e ops.Event) string { return string(e.Kind()) }), []string{"escalation", "session"})
	equal(t, "event", events[0], written(ops.Event{
		ID: events[0].ID, At: tr.At, CycleID: &session.CycleID, SessionID: &session.ID, Environment: "home",
		Level: ops.LevelWarning, Verb: ops.VerbEscalationDecided, Service: "web", Reason: "goes up",
	}))
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
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
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)

	tr = f.Escalation(session, 1)
	tr.Step.Session.ParentID = ops.Ptr(ops.SessionID(999))
	if _, err := f.Store.Journal.Commit(t.Context(), f.Owner, tr); err == nil {
		t.Error("a parent that does not exist was accepted")
	}
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
}

func cancelledCallerLeavesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	before := f.snapshot(t, session.CycleID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Store.Journal.Commit(ctx, f.Owner, f.Escalation(session, 1))
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
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, again)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
}

func onlyEndsAreRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	tr := f.Escalation(session, 1)
	tr.Result.Session.Status = ops.SessionRunning
	if _, err := f.Store.Journal.Commit(t.Context(), f.Owner, tr); err == nil {
		t.Error("a running session was recorded as a result")
	}
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, ops.Transition{
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
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrConflict)
	tr.Result.Session.ID = 999
	_, err = f.Store.Journal.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrNotFound)
}

func attemptIsQueuedOnce(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.Queue(t, cycle, nil, 1)
	won := race(t, 4, ops.ErrConflict, func(int) error {
		_, err := f.Store.Journal.Commit(t.Context(), f.Owner, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
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
		{Kind: ops.StepRest, Events: []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved}}},
		{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	} {
		_, err := f.Store.Journal.Commit(t.Context(), f.Owner, ops.Transition{Cycle: session.CycleID, At: Start, Step: late})
		wantErr(t, err, ops.ErrConflict)
	}
	wantErr(t, f.Store.Journal.Release(t.Context(), f.Owner, session.CycleID), ops.ErrConflict)
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
	got, err := f.Store.Journal.Commit(t.Context(), ops.Owner{}, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepRest}})
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
		Result: ops.Result{Events: []ops.Event{{At: at, CycleID: &first.CycleID, Environment: "home", Level: ops.LevelInfo, Verb: ops.VerbCycleResolved}}},
		Step: ops.Step{Kind: ops.StepRest, Notices: []ops.Notice{{
			CycleID: &first.CycleID, Level: ops.LevelInfo, Kind: "k", CreatedAt: at, NextAt: Start.Add(time.Hour),
		}}},
	})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "event", events, []ops.Event{written(ops.Event{
		ID: events[0].ID, At: at, CycleID: &first.CycleID, Environment: "home", Level: ops.LevelInfo, Verb: ops.VerbCycleResolved,
	})})
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
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
		Problem: "web: HTTP 502", Events: []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved, Reason: "later"}},
	}})
	stored, err := f.Store.Journal.Cycle(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "problem afterwards", stored.Problem, "redis: connection refused")
}

func cancelCases() []testCase {
	return []testCase{
		{"the first request sets time and reason", firstCancelCounts},
		{"an ended cycle cannot be cancelled", endedCycleIsNotCancelled},
	}
}

func firstCancelCounts(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	first, err := f.Store.Journal.RequestCancel(t.Context(), id, "wrong host", Start)
	must(t, err)
	equal(t, "time", first.CancelRequestedAt, ops.Ptr(Start))
	equal(t, "reason", first.CancelReason, "wrong host")
	equal(t, "status", first.Status, ops.CycleRunning)
	second, err := f.Store.Journal.RequestCancel(t.Context(), id, "another reason", Start.Add(time.Hour))
	must(t, err)
	equal(t, "time", second.CancelRequestedAt, ops.Ptr(Start))
	equal(t, "reason", second.CancelReason, "wrong host")
	if first.WakeSeq != 1 || second.WakeSeq != 2 {
		t.Errorf("wake numbers are %d and %d, want 1 and 2", first.WakeSeq, second.WakeSeq)
	}
	// A request needs no owner and takes nothing from the one that runs the cycle.
	f.EndCycle(t, id)
}

func endedCycleIsNotCancelled(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, id)
	_, err := f.Store.Journal.RequestCancel(t.Context(), id, "too late", Start)
	wantErr(t, err, ops.ErrConflict)
	if err == nil || !strings.Contains(err.Error(), string(ops.CycleHealthy)) {
		t.Errorf("%v does not say how the cycle ended", err)
	}
	_, err = f.Store.Journal.RequestCancel(t.Context(), 999, "nothing there", Start)
	wantErr(t, err, ops.ErrNotFound)
}

// written is an event as it is read back: with who did it, what it is about, and its sentence.
func written(e ops.Event) ops.Event {
	e.Actor, e.Subject, e.Message = e.By(), e.About(), notice.Words(e)
	return e
}
