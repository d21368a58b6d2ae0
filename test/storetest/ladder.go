package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func ladderCases() []testCase {
	return []testCase{
		{"an attempt is queued with its role, permissions and level", attemptKeepsItsOrders},
		{"what the ladder ordered reads back", recoveryReadsBack},
		{"what a judge made of a claim reads back", verificationReadsBack},
		{"the services of a decision read back", decisionServicesReadBack},
		{"the effects of each session are told", effectsAreTold},
		{"only the latest effects are told", latestEffectsAreTold},
		{"the end keeps what was done and what was not", finishKeepsTheResult},
		{"an attempt that cannot be queued orders nothing", failedOrderLeavesNothing},
	}
}

func attemptKeepsItsOrders(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	equal(t, "role of a plain session", session.Role, ops.RoleWork)
	equal(t, "permissions of a plain session", session.Permissions, ops.Tier1)
	judge := ops.Handler{ID: "gpt", Tier: ops.Tier3, Permissions: ops.Tier1, Family: "gpt", Agent: "codex", Model: "m"}
	tr := f.Escalation(session, 1)
	tr.Step.Session = &ops.NewSession{
		ParentID: &session.ID, Attempt: 1, Role: ops.RoleJudge, Handler: judge, ContextMode: ops.ContextFresh, Level: ops.RecoveryFallback,
	}
	queued := *f.Commit(t, tr).Journal.Newest()
	equal(t, "role", queued.Role, ops.RoleJudge)
	equal(t, "tier", queued.Tier, ops.Tier3)
	equal(t, "permissions", queued.Permissions, ops.Tier1)
	equal(t, "level", queued.RecoveryLevel, ops.RecoveryFallback)

	// Its end does not change what it was for.
	ended := f.Ended(queued, 0.1)
	ended.Role, ended.Permissions, ended.RecoveryLevel = ops.RoleWork, ops.Tier3, ops.RecoveryNone
	got := f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: Start, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepRest},
	}).Journal.Newest()
	equal(t, "after its end", fmt.Sprint(got.Role, got.Permissions, got.RecoveryLevel),
		fmt.Sprint(ops.RoleJudge, ops.Tier1, ops.RecoveryFallback))
}

// recovery is an order of the ladder after a failed session.
func recovery(session ops.SessionID) ops.Recovery {
	return ops.Recovery{
		SessionID: session, Tier: ops.Tier2, Level: ops.RecoveryNudge, Action: "nudge", ErrorType: "schema",
		PreviousLevels: []ops.RecoveryLevel{ops.RecoveryRetry, ops.RecoveryRetry}, EnteredAt: Start.Add(time.Second),
		NotBefore: ops.Ptr(Start.Add(2 * time.Second)), Deadline: ops.Ptr(Start.Add(time.Hour)), Variant: 2, Handler: "tier2",
		Reason: "the outcome has no summary",
	}
}

func recoveryReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	full := recovery(session.ID)
	tr := f.Escalation(session, 1)
	tr.Step.Recovery = &full
	f.Commit(t, tr)
	// What is not said follows from the transition.
	got := f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start.Add(time.Hour), Step: ops.Step{
		Kind: ops.StepPause, Recovery: &ops.Recovery{Tier: ops.Tier2, Level: ops.RecoveryReplan, ErrorType: "loop"},
	}})
	full.CycleID = session.CycleID
	short := ops.Recovery{
		CycleID: session.CycleID, Tier: ops.Tier2, Level: ops.RecoveryReplan, Action: "replan", ErrorType: "loop",
		PreviousLevels: []ops.RecoveryLevel{}, EnteredAt: Start.Add(time.Hour),
	}
	if len(got.Journal.Recoveries) != 2 {
		t.Fatalf("journal has %d recoveries", len(got.Journal.Recoveries))
	}
	full.ID, short.ID = got.Journal.Recoveries[0].ID, got.Journal.Recoveries[1].ID
	equal(t, "journal", got.Journal.Recoveries, []ops.Recovery{full, short})
	listed, err := f.Store.Journal.Recoveries(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "listed", listed, got.Journal.Recoveries)
	// A pause leaves the cycle with its worker.
	equal(t, "status", got.Cycle.Status, ops.CycleRunning)
	if got.Cycle.WakeAt != nil {
		t.Errorf("a pause set the wake time to %s", got.Cycle.WakeAt)
	}
	equal(t, "another cycle", len(f.Claim(t, "office").Journal.Recoveries), 0)
}

func verificationReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	want := ops.Verification{
		SessionID: session.ID, JudgeSessionID: session.ID, Verdict: "FAIL", Confidence: 0.55, TotalScore: 55,
		Dimensions: map[string]int{"goalAlignment": 20, "evidenceOfCompletion": 7}, Reasoning: "no proof",
		FailureReasons: []string{"no log"}, Recommendations: []string{"show the log"}, At: Start.Add(time.Second),
	}
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Step: ops.Step{Kind: ops.StepRest, Verified: &want}})
	got, err := f.Store.Journal.Verifications(t.Context(), session.CycleID)
	must(t, err)
	want.ID, want.CycleID = got[0].ID, session.CycleID
	equal(t, "verifications", got, []ops.Verification{want})
}

func decisionServicesReadBack(t *testing.T, f *Fixture) {
	tr := f.Escalation(f.RunningSession(t, "home"), 1)
	tr.Step.Decision.Services = []string{"web", "db"}
	got := f.Commit(t, tr).Journal.Decisions
	equal(t, "services", got[0].Services, []string{"web", "db"})
}

func effectsAreTold(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	done := f.hook(t, session, "toolu_1", restart("web")...)
	again := f.judged(session, "toolu_1")
	again.Gate = ops.GateShell
	_, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, again, restart("web"), limits())
	must(t, err)
	look := f.judged(session, "toolu_2")
	look.Mutating = false
	_, err = f.Store.Acts.RecordGuard(t.Context(), f.Owner, look, nil, nil)
	must(t, err)
	f.hook(t, session, "toolu_2a", restart("db")...)
	stopped := f.refused(t, session, "toolu_2a")
	refused := f.judged(session, "toolu_3")
	refused.Allowed = false
	refused, err = f.Store.Acts.RecordGuard(t.Context(), f.Owner, refused, nil, nil)
	must(t, err)

	office := f.RunningSession(t, "office")
	f.hook(t, office, "toolu_4", restart("web")...)
	got := f.Commit(t, f.Escalation(session, 1))
	want := map[ops.SessionID]ops.Effects{
		session.ID: {Mutating: true, Done: []ops.GuardRecord{done}, Denied: []ops.GuardRecord{stopped, refused}},
	}
	equal(t, "effects", fmt.Sprintf("%+v", got.Journal.Effects), fmt.Sprintf("%+v", want))
}

func latestEffectsAreTold(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	var last ops.GuardRecord
	for i := range 25 {
		r := f.judged(session, fmt.Sprintf("toolu_%d", i))
		r.Allowed = false
		var err error
		last, err = f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, nil, nil)
		must(t, err)
	}
	e := f.load(t, session.CycleID).Journal.Effects[session.ID]
	if len(e.Denied) != 20 || e.Denied[19].ID != last.ID || e.Mutating {
		t.Errorf("%d refusals are told, mutating %t", len(e.Denied), e.Mutating)
	}
}

func finishKeepsTheResult(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	got := f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CyclePartial, Reason: "no more", Result: json.RawMessage(`{"status":"partial"}`),
		Lessons: []ops.Lesson{{Category: "root_cause", Service: "web", Observation: "the disk is full"}},
	}})
	equal(t, "result", string(got.Cycle.Result), `{"status":"partial"}`)
	known, err := f.Store.People.Recall(t.Context(), "home", []string{"web"}, Start, 0)
	must(t, err)
	if len(known) != 1 || known[0].Source != "force-done" || known[0].Observation != "the disk is full" {
		t.Errorf("recalled %+v", known)
	}
	plain := f.EndCycle(t, f.Claim(t, "home").Cycle.ID)
	equal(t, "result of a plain end", len(plain.Cycle.Result), 0)
}

// Everything that a step orders is stored together with the intent that comes last, or not at all.
func failedOrderLeavesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.open(t, session.CycleID, report("web"))
	before, incidents := f.snapshot(t, session.CycleID), f.incidents(t)
	tr := f.Escalation(session, 1)
	order := recovery(session.ID)
	tr.Step.Recovery, tr.Step.Verified = &order, &ops.Verification{SessionID: session.ID, Verdict: "FAIL"}
	tr.Step.Lessons = []ops.Lesson{{Category: "known_bad", Observation: "restarting does not help"}}
	tr.Step.Recovered, tr.Step.Incident = []ops.Recovered{{Incident: incidents[0].ID, By: ops.ProofProbe, How: "well"}}, ops.Ptr(report("db"))
	tr.Step.Approval = &ops.Approval{Tier: ops.Tier2, Handler: "tier2"}
	tr.Step.Session = &ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, tr)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "journal", f.snapshot(t, session.CycleID), before)
	equal(t, "incidents", f.incidents(t), incidents)
	verified, err := f.Store.Journal.Verifications(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "verifications", len(verified), 0)
	known, err := f.Store.People.Recall(t.Context(), "home", nil, Start, 0)
	must(t, err)
	equal(t, "memories", len(known), 0)
}
