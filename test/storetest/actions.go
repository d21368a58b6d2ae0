package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func actionCases() []testCase {
	return []testCase{
		{"a run reads back from its intent to its end", actionReadsBack},
		{"actions and commands share one cooldown", actionsShareCooldowns},
		{"a reservation of an action is not another command's", actionReservationIsItsOwn},
		{"stopping opens what starting closes", actionHalves},
		{"a refused action leaves only its refusal", refusedActionLeavesNothing},
		{"the action of a person counts, and clearing clears it", personCounts},
		{"a request is taken once", requestTakenOnce},
		{"a run of an ended supervisor is interrupted and never ends twice", interruptedActions},
		{"an old term begins and ends nothing", oldTermDoesNotAct},
		{"a run is undone once", undoneOnce},
		{"an approved step runs once, as it was approved", approvedStepRunsOnce},
		{"nothing runs of a plan that was changed after it was shown", changedPlanRunsNothing},
		{"a yes to what the cooldown stopped overrides it once", yesOverridesCooldown},
		{"a plan is approved as it was shown, or not at all", planApprovedAsShown},
		{"hosts that use one step at once use it once", stepRace},
		{"a plan says what became of its steps", stepsAreTold},
		{"what appears while agents work is theirs", commitsOfAgents},
		{"the image before an action is remembered", earlierVersion},
	}
}

// intent is a restart of web that a session asks for.
func (f *Fixture) intent(s ops.Session) store.ActionIntent {
	return store.ActionIntent{
		Run: ops.ActionRun{
			Environment: "home", Service: "web", Action: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2, CycleID: &s.CycleID,
			SessionID: &s.ID, Why: "it hangs", Does: "docker restart web", Digest: "d1", Version: "web:1",
			Before: []ops.ServiceHealth{{Service: "web", Status: ops.Down, Error: "HTTP 500"}},
		},
		Record: ops.GuardRecord{
			SessionID: s.ID, Tier: ops.Tier2, Gate: ops.GateAction, ToolUseID: "action:1", Tool: "action_run", Input: "restart web",
			Rule: "action", Mutating: true,
		},
		Want: restart("web"), Limits: limits(), At: f.At,
	}
}

func (f *Fixture) begin(t *testing.T, in store.ActionIntent) ops.ActionRun {
	t.Helper()
	run, refusal, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
	must(t, err)
	if refusal != "" || run.ID == 0 {
		t.Fatalf("refused: %s", refusal)
	}
	return run
}

func (f *Fixture) wantRefused(t *testing.T, in store.ActionIntent, part string) {
	t.Helper()
	_, refusal, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
	must(t, err)
	if !strings.Contains(refusal, part) {
		t.Errorf("refusal is %q, want %q", refusal, part)
	}
}

func (f *Fixture) end(t *testing.T, id int64, status ops.ActionStatus) ops.ActionRun {
	t.Helper()
	r, err := f.Store.Acts.EndAction(t.Context(), f.Owner, store.ActionResult{ID: id, Status: status, At: f.At})
	must(t, err)
	return r
}

func actionReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	stored, err := f.Store.Acts.ActionRun(t.Context(), run.ID)
	must(t, err)
	equal(t, "intent", stored, run)
	equal(t, "status", stored.Status, ops.ActionStarted)
	equal(t, "owner", stored.Owner, Host)
	after := []ops.ServiceHealth{{Service: "web", Status: ops.Healthy}}
	ended, err := f.Store.Acts.EndAction(t.Context(), f.Owner, store.ActionResult{
		ID: run.ID, Status: ops.ActionDone, Output: "web\n\x00\xff", After: after, At: f.At.Add(time.Minute),
		Events:  []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbActionEnded, Reason: "web was restarted"}},
		Notices: []ops.Notice{{Kind: ops.NoticeAction, Level: ops.LevelWarning, Title: "t", Body: "b"}},
	})
	must(t, err)
	equal(t, "status", ended.Status, ops.ActionDone)
	equal(t, "after", ended.After, after)
	loaded, err := f.Store.Journal.Load(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "journal", loaded.Journal.Runs, []ops.ActionRun{ended})
	equal(t, "effects", loaded.Journal.Effects[session.ID].Mutating, true)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAction)})
	must(t, err)
	equal(t, "event is about", events[0].Service, "web")
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 1)
	listed, err := f.Store.Acts.ActionRuns(t.Context(), store.ActionFilter{SessionID: &session.ID, Service: "web", Environment: "home"})
	must(t, err)
	equal(t, "list", listed, []ops.ActionRun{ended})
	_, err = f.Store.Acts.EndAction(t.Context(), f.Owner, store.ActionResult{ID: run.ID, Status: ops.ActionFailed})
	wantErr(t, err, ops.ErrConflict)
}

func actionsShareCooldowns(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.begin(t, f.intent(session))
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantDenied(t, f.hook(t, session, "toolu_2", restart("web")...), "cooldown")
	f.wantRefused(t, f.intent(session), "2026-03-14T16:00:00Z")
	docker := f.judged(session, "docker:web")
	docker.Gate = ops.GateDocker
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, docker, restart("web"), limits())
	must(t, err)
	wantAllowed(t, got) // it is the command that the hook reserved
}

func actionReservationIsItsOwn(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.begin(t, f.intent(session))
	wantDenied(t, f.shell(t, session, restart("web")...), "cooldown.unreserved")
	docker := f.judged(session, "docker:web")
	docker.Gate = ops.GateDocker
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, docker, restart("web"), limits())
	must(t, err)
	wantAllowed(t, got)
	equal(t, "both count", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Until: Start.Add(4 * time.Hour)}})
}

func actionHalves(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	stop := f.intent(session)
	stop.Want = []ops.Reservation{down("web", "")}
	f.begin(t, stop)
	f.wantDown(t, session, "web")
	start := f.intent(session)
	start.Record.ToolUseID, start.Want = "action:2", []ops.Reservation{up("web", "")}
	f.begin(t, start)
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))
}

func refusedActionLeavesNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	in := f.intent(session)
	in.Limits = []ops.CooldownLimit{{Action: restartAction, Count: 0, Window: time.Hour}}
	f.wantRefused(t, in, "No restart of web is permitted")
	runs, err := f.Store.Acts.ActionRuns(t.Context(), store.ActionFilter{})
	must(t, err)
	equal(t, "runs", len(runs), 0)
	equal(t, "cooldowns", len(f.cooldowns(t)), 0)
	judged, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "refusals", len(judged), 1)
	wantDenied(t, judged[0], "cooldown", "No restart")
}

// request asks for a restart of web as a person.
func (f *Fixture) request(t *testing.T) ops.ActionRun {
	t.Helper()
	r, err := f.Store.Acts.RequestAction(t.Context(), ops.ActionRun{
		Environment: "home", Service: "web", Action: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2, Person: "ada", Why: "it hangs",
	}, f.At)
	must(t, err)
	return r
}

func personCounts(t *testing.T, f *Fixture) {
	r := f.request(t)
	waiting, err := f.Store.Acts.RequestedActions(t.Context(), []string{"home"})
	must(t, err)
	equal(t, "requests", len(waiting), 1)
	elsewhere, err := f.Store.Acts.RequestedActions(t.Context(), []string{"office"})
	must(t, err)
	equal(t, "requests elsewhere", len(elsewhere), 0)
	equal(t, "a request counts nothing", len(f.cooldowns(t)), 0)
	f.begin(t, store.ActionIntent{Run: r, Want: restart("web"), Limits: limits(), At: f.At})
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantDenied(t, f.hook(t, session, "toolu_2", restart("web")...), "cooldown")
	second := f.request(t)
	f.wantRefused(t, store.ActionIntent{Run: second, Want: restart("web"), Limits: limits(), At: f.At}, "cooldown")
	must(t, f.Store.Acts.RefuseAction(t.Context(), second.ID, "the cooldown", f.At))
	wantErr(t, f.Store.Acts.RefuseAction(t.Context(), second.ID, "again", f.At), ops.ErrConflict)
	cleared, err := f.Store.Acts.ClearCooldown(t.Context(), "home", "web", restartAction, "new disk", "ada", f.At)
	must(t, err)
	equal(t, "cleared", cleared, 2)
	equal(t, "cooldowns", len(f.cooldowns(t)), 0)
}

func requestTakenOnce(t *testing.T, f *Fixture) {
	r := f.request(t)
	in := store.ActionIntent{Run: r, Want: restart("web"), Limits: limits(), At: f.At}
	f.begin(t, in)
	_, _, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "counted once", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	must(t, err)
	wantParts(t, events[0].Message.Words(), "ada", "restart of web", "it hangs")
}

func interruptedActions(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	left, err := f.Store.Acts.InterruptActions(t.Context(), f.Owner, f.At)
	must(t, err)
	equal(t, "our own runs go on", len(left), 0)
	restarted := NewFixture(t, f.Store)
	left, err = f.Store.Acts.InterruptActions(t.Context(), restarted.Owner, f.At)
	must(t, err)
	equal(t, "interrupted", len(left), 1)
	equal(t, "status", left[0].Status, ops.ActionInterrupted)
	again, err := f.Store.Acts.InterruptActions(t.Context(), restarted.Owner, f.At)
	must(t, err)
	equal(t, "interrupted once", len(again), 0)
	_, err = f.Store.Acts.EndAction(t.Context(), restarted.Owner, store.ActionResult{ID: run.ID, Status: ops.ActionDone})
	wantErr(t, err, ops.ErrConflict)
	after := []ops.ServiceHealth{{Service: "web", Status: ops.Healthy}}
	must(t, f.Store.Acts.NoteAction(t.Context(), restarted.Owner, run.ID, after))
	stored, err := f.Store.Acts.ActionRun(t.Context(), run.ID)
	must(t, err)
	equal(t, "what is true", stored.After, after)
	equal(t, "it still counts", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 1)
}

func oldTermDoesNotAct(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	request := f.request(t)
	old := f.Owner
	NewFixture(t, f.Store)
	_, _, err := f.Store.Acts.BeginAction(t.Context(), old, f.intent(session))
	wantErr(t, err, ops.ErrFenced)
	_, _, err = f.Store.Acts.BeginAction(t.Context(), old, store.ActionIntent{Run: request, At: f.At})
	wantErr(t, err, ops.ErrFenced)
	_, err = f.Store.Acts.EndAction(t.Context(), old, store.ActionResult{ID: run.ID, Status: ops.ActionDone})
	wantErr(t, err, ops.ErrFenced)
}

func undoneOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	f.end(t, run.ID, ops.ActionDone)
	undo := f.intent(session)
	undo.Run.UndoOf, undo.Run.Automatic, undo.Want, undo.Record = run.ID, true, nil, ops.GuardRecord{}
	first := f.begin(t, undo)
	if _, _, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, undo); err == nil {
		t.Error("it is undone twice at once")
	}
	f.end(t, first.ID, ops.ActionFailed)
	second := f.begin(t, undo)
	f.end(t, second.ID, ops.ActionDone)
	if _, _, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, undo); err == nil {
		t.Error("it is undone again")
	}
	stored, err := f.Store.Acts.ActionRun(t.Context(), run.ID)
	must(t, err)
	equal(t, "status", stored.Status, ops.ActionUndone)
	equal(t, "undone by", stored.UndoneBy, second.ID)
}

func commitsOfAgents(t *testing.T, f *Fixture) {
	see := func(commit string, agent bool) {
		t.Helper()
		f.at(f.At.Sub(Start) + time.Minute)
		must(t, f.Store.Acts.NoteCommit(t.Context(), Host, "/srv/r", commit, agent, f.At))
	}
	want := func(commit string) {
		t.Helper()
		got, err := f.Store.Acts.TrustedCommit(t.Context(), Host, "/srv/r")
		must(t, err)
		equal(t, "trusted", got, commit)
	}
	see("c1", false)
	want("c1")
	see("c2", true)
	want("c1")
	see("c2", false) // a person checked out the commit of an agent without saying that it is good
	want("c1")
	see("c3", false)
	want("c3")
	see("c1", false) // the operator goes back
	want("c1")
	see("c3", true) // what is known of a commit stays
	see("c3", false)
	want("c3")
	f.at(f.At.Sub(Start) + time.Minute)
	must(t, f.Store.Acts.TrustCommit(t.Context(), Host, "/srv/r", "c2", "ada", f.At))
	want("c2")
	for commit, who := range map[string]string{"c1": "operator", "c2": "approved", "c9": ""} {
		got, err := f.Store.Acts.CommitOrigin(t.Context(), Host, "/srv/r", commit)
		must(t, err)
		equal(t, "origin of "+commit, got, who)
	}
	_, err := f.Store.Acts.TrustedCommit(t.Context(), "host-b", "/srv/r")
	wantErr(t, err, ops.ErrNotFound)
}

func earlierVersion(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	f.end(t, run.ID, ops.ActionDone)
	for current, want := range map[string]string{"web:2": "web:1", "web:1": ""} {
		got, err := f.Store.Acts.LastVersion(t.Context(), "home", "web", current)
		must(t, err)
		equal(t, "before "+current, got, want)
	}
}

// asked is a running cycle whose plan of two steps a human has approved in part.
func (f *Fixture) asked(t *testing.T) (ops.Session, ops.Approval) {
	t.Helper()
	return f.askedBy(t, f.RunningSession(t, "home"), nil)
}

// askedBy lets a running session ask for the approval of a plan.
func (f *Fixture) askedBy(t *testing.T, session ops.Session, decided *ops.Decision) (ops.Session, ops.Approval) {
	t.Helper()
	plan := []ops.ApprovedStep{
		{PlanStep: ops.PlanStep{Service: "web", Action: "restart", Reason: "it hangs"}, Does: "docker restart web", Digest: "d1"},
		{PlanStep: ops.PlanStep{Service: "db", Action: "restart"}, Does: "docker restart db", Digest: "d2"},
	}
	ended := f.Ended(session, 0.1)
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{
		Kind: ops.StepAwait, Decision: decided, Approval: &ops.Approval{
			SessionID: session.ID, Tier: ops.Tier3, Handler: "tier3", Plan: plan, PlanHash: ops.PlanHash(session.CycleID, session.ID, plan),
		},
	}})
	found, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	equal(t, "plan", found[0].Plan, plan)
	return session, found[0]
}

func (f *Fixture) planStep(s ops.Session, a ops.Approval, step int) store.ActionIntent {
	p := a.Plan[step-1]
	return store.ActionIntent{
		Run: ops.ActionRun{
			Environment: "home", Service: p.Service, Action: p.Action, Kind: ops.ActionRestart, Tier: ops.Tier3, CycleID: &s.CycleID,
			SessionID: &s.ID, Why: p.Reason, ApprovalID: a.ID, Step: step, Automatic: true, Digest: p.Digest,
		},
		Want: restart(p.Service), Limits: limits(), At: f.At,
	}
}

func approvedStepRunsOnce(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	in := f.planStep(session, question, 1)
	_, err := f.Store.People.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1}, "ada", "go", f.At)
	must(t, err)
	_, _, err = f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
	if err == nil {
		t.Error("it runs while nobody has claimed the cycle")
	}
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	for name, change := range map[string]func(*store.ActionIntent){
		"not approved":     func(i *store.ActionIntent) { *i = f.planStep(session, question, 2) },
		"other service":    func(i *store.ActionIntent) { i.Run.Service = "db" },
		"other action":     func(i *store.ActionIntent) { i.Run.Action = "stop" },
		"other command":    func(i *store.ActionIntent) { i.Run.Digest = "d9" },
		"other branch":     func(i *store.ActionIntent) { i.Run.Branch = "main" },
		"no such step":     func(i *store.ActionIntent) { i.Run.Step = 3 },
		"no such approval": func(i *store.ActionIntent) { i.Run.ApprovalID = 99 },
	} {
		other := in
		change(&other)
		if _, _, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, other); err == nil {
			t.Errorf("%s: it runs", name)
		}
	}
	run := f.begin(t, in)
	f.end(t, run.ID, ops.ActionDone)
	_, _, err = f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "it counts", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
}

func changedPlanRunsNothing(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	ended, shown := f.Ended(session, 0.1), []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}, Digest: "d1"}}
	stored := []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}, Digest: "d1", Does: "something else"}}
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{
		Kind: ops.StepAwait, Approval: &ops.Approval{
			SessionID: session.ID, Tier: ops.Tier3, Handler: "tier3", Plan: stored, PlanHash: ops.PlanHash(session.CycleID, session.ID, shown),
		},
	}})
	all, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	_, err = f.Store.People.AnswerPlan(t.Context(), all[0].ID, all[0].PlanHash, []int{1}, "ada", "go", f.At)
	must(t, err)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	_, _, err = f.Store.Acts.BeginAction(t.Context(), f.Owner, f.planStep(session, all[0], 1))
	wantErr(t, err, ops.ErrConflict)
}

// A yes to a step that the cooldown stopped overrides the cooldown for this run; what is never permitted stays so.
func yesOverridesCooldown(t *testing.T, f *Fixture) {
	for _, why := range []ops.Objection{ops.ObjectionApproval, ops.ObjectionCooldown} {
		session := f.RunningSession(t, "home")
		if why == ops.ObjectionApproval { // nobody was told of the cooldown, so nobody said yes to overriding it
			wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
			wantAllowed(t, f.hook(t, session, "toolu_2", restart("web")...))
		}
		_, question := f.askedBy(t, session, &ops.Decision{SessionID: session.ID, Verdict: ops.VerdictApproval, Check: why, Services: []string{"web"}, At: f.At})
		_, err := f.Store.People.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1}, "ada", "go", f.At)
		must(t, err)
		_, err = f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
		must(t, err)
		in := f.planStep(session, question, 1)
		never := in
		never.Limits = []ops.CooldownLimit{{Action: restartAction, Window: time.Hour}}
		f.wantRefused(t, never, "No restart of web is permitted")
		if why == ops.ObjectionApproval {
			f.wantRefused(t, in, "permits the next restart")
			f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleBlocked}})
			continue
		}
		f.end(t, f.begin(t, in).ID, ops.ActionDone)
		_, _, err = f.Store.Acts.BeginAction(t.Context(), f.Owner, in)
		wantErr(t, err, ops.ErrConflict)
	}
}

func planApprovedAsShown(t *testing.T, f *Fixture) {
	_, question := f.asked(t)
	answer := func(hash string, steps ...int) error {
		_, err := f.Store.People.AnswerPlan(t.Context(), question.ID, hash, steps, "ada", "", f.At)
		return err
	}
	wantErr(t, answer("another", 1), ops.ErrConflict)
	must(t, answer(question.PlanHash, 1, 2))
	wantErr(t, answer(question.PlanHash, 1), ops.ErrConflict)
	stored, err := f.Store.People.Approval(t.Context(), question.ID)
	must(t, err)
	equal(t, "steps", stored.Steps, []int{1, 2})
	equal(t, "status", stored.Status, ops.ApprovalApproved)
}

func stepRace(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	_, err := f.Store.People.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1}, "ada", "go", f.At)
	must(t, err)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	var wg sync.WaitGroup
	won := make(chan int64, 8)
	for range 8 {
		wg.Go(func() {
			if run, refusal, err := f.Store.Acts.BeginAction(t.Context(), f.Owner, f.planStep(session, question, 1)); err == nil && refusal == "" {
				won <- run.ID
			}
		})
	}
	wg.Wait()
	equal(t, "runs", len(won), 1)
}

func stepsAreTold(t *testing.T, f *Fixture) {
	session, question := f.asked(t)
	states := func(want ...ops.PlanState) {
		t.Helper()
		one, err := f.Store.People.Approval(t.Context(), question.ID)
		must(t, err)
		var got []ops.PlanState
		for _, s := range one.States {
			got = append(got, s.State)
		}
		equal(t, "states", got, want)
		all, err := f.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
		must(t, err)
		equal(t, "in a list", all[0], one)
	}
	states(ops.PlanPending, ops.PlanPending)
	_, err := f.Store.People.AnswerPlan(t.Context(), question.ID, question.PlanHash, []int{1, 2}, "ada", "go", f.At)
	must(t, err)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, session.CycleID, Policy(), f.At)
	must(t, err)
	states(ops.PlanApproved, ops.PlanApproved)
	run := f.begin(t, f.planStep(session, question, 1))
	states(ops.PlanRunning, ops.PlanApproved)
	f.end(t, run.ID, ops.ActionDone)
	const why = "not needed: probes found it healthy"
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At.Add(time.Second), Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved, Skipped: why}})
	states(ops.PlanDone, ops.PlanSkipped)
	one, err := f.Store.People.Approval(t.Context(), question.ID)
	must(t, err)
	equal(t, "why", one.States, []ops.PlanProgress{{State: ops.PlanDone, Run: run.ID}, {State: ops.PlanSkipped, Why: why}})
}
