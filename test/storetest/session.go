package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func sessionCases() []testCase {
	return []testCase{
		{"every field of an ended session reads back", everyFieldReadsBack},
		{"a figure that was not reported stays unknown", unreportedFigureStaysUnknown},
		{"what was noted at the start outlives the end", startOutlivesTheEnd},
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
	got, err := f.Store.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "session", got, want)
}

func unreportedFigureStaysUnknown(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	ended := session
	ended.Status = ops.SessionFailed
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepRest}})
	got, err := f.Store.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "figures", got.Figures, ops.Figures{})
	if got.ExitCode != nil || got.OutcomeJSON != nil || got.HandoffJSON != nil || got.Proposed() {
		t.Errorf("unset fields read back as set: %+v", got)
	}
	equal(t, "end", got.EndedAt, ops.Ptr(Start))
}

func startOutlivesTheEnd(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	queued := *f.Queue(t, cycle, nil, 1).Journal.Last()
	must(t, f.Start(t, queued.ID, "planned-1", Start.Add(time.Second)))
	must(t, f.Store.NoteProcess(t.Context(), f.Owner, queued.ID, 4711, "123456"))
	// The caller still holds the row as it was queued.
	ended := f.Ended(queued, 0.1)
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepRest}})
	got, err := f.Store.Session(t.Context(), queued.ID)
	must(t, err)
	want := ended
	want.PlannedID, want.PID, want.ProcessStarted = "planned-1", 4711, "123456"
	want.StartedAt = ops.Ptr(Start.Add(time.Second))
	equal(t, "session", got, want)
}

func sessionStartsOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	equal(t, "status", session.Status, ops.SessionRunning)
	equal(t, "planned id", session.PlannedID, "planned-1")
	equal(t, "start", session.StartedAt, ops.Ptr(Start.Add(time.Second)))
	wantErr(t, f.Start(t, session.ID, "planned-2", Start), ops.ErrConflict)
	got, err := f.Store.Session(t.Context(), session.ID)
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
	wantErr(t, f.Store.NoteProcess(t.Context(), f.Owner, session.ID, 4711, "99"), ops.ErrConflict)
	must(t, f.Start(t, session.ID, "planned", Start))
	must(t, f.Store.NoteProcess(t.Context(), f.Owner, session.ID, 4711, "99"))
	got, err := f.Store.Session(t.Context(), session.ID)
	must(t, err)
	equal(t, "pid", got.PID, 4711)
	equal(t, "process start", got.ProcessStarted, "99")
	f.Commit(t, f.Escalation(got, 1))
	wantErr(t, f.Store.NoteProcess(t.Context(), f.Owner, session.ID, 1, "1"), ops.ErrConflict)
}

func runningSessionsAreListed(t *testing.T, f *Fixture) {
	home := f.RunningSession(t, "home")
	office := f.RunningSession(t, "office")
	f.Queue(t, f.Claim(t, "garden").Cycle.ID, nil, 1)
	got, err := f.Store.RunningSessions(t.Context())
	must(t, err)
	equal(t, "running", got, []ops.Session{home, office})
	f.Commit(t, f.Escalation(home, 1))
	got, err = f.Store.RunningSessions(t.Context())
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
		got, err := f.Store.Chain(t.Context(), s.ID)
		must(t, err)
		equal(t, "chain", got, want)
	}
}

func unknownSessionIsNotFound(t *testing.T, f *Fixture) {
	ctx := t.Context()
	_, err := f.Store.Session(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.Chain(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	_, err = f.Store.TranscriptCount(ctx, 999)
	wantErr(t, err, ops.ErrNotFound)
	wantErr(t, f.Start(t, 999, "planned", Start), ops.ErrNotFound)
	wantErr(t, f.Store.NoteProcess(ctx, f.Owner, 999, 1, "1"), ops.ErrNotFound)
	wantErr(t, f.Store.AppendTranscript(ctx, f.Owner, 999, []ops.Line{{Seq: 1, At: Start}}), ops.ErrNotFound)
}
