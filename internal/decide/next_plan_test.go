package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

func acting(p *ops.Policy) {
	p.Inventory.Services[0].Actions = []ops.ActionSpec{{Name: "restart", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Run: []string{"/bin/restart"}}}
}

// planCases are the states after a human has approved a plan of two steps for Tier 2.
func planCases(now time.Time) []nextCase {
	plan := []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}}, {PlanStep: ops.PlanStep{Service: "web", Action: "clear"}}}
	approved := ops.Approval{
		ID: 7, SessionID: 1, Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2", Status: ops.ApprovalApproved, AnsweredBy: "ada", AnsweredAt: &now,
		Plan: plan, Steps: []int{1, 2},
	}
	looked := ops.Check{Service: "web", Purpose: ops.ProbeRecheck, Status: ops.Down, AfterSession: ops.Ptr(ops.SessionID(1))}
	after := func(status ops.Health) ops.Check {
		return ops.Check{Service: "web", Purpose: ops.ProbePlan, Status: status, AfterSession: ops.Ptr(ops.SessionID(1))}
	}
	run := func(step int, status ops.ActionStatus) ops.ActionRun {
		return ops.ActionRun{ID: int64(step), ApprovalID: 7, Step: step, Status: status}
	}
	handedUp := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}
	with := func(a ops.Approval, runs ...ops.ActionRun) ops.Journal {
		return ops.Journal{Approvals: []ops.Approval{a}, Runs: runs}
	}
	part := approved
	part.Steps = []int{2}
	none := approved
	none.Steps = nil
	silent := approved
	silent.Status, silent.AnsweredBy = ops.ApprovalExpired, "claudeops"
	over := func(j ops.Journal) ops.Journal { // the watch closed the incident
		j.Incidents = []ops.Incident{{ID: 9, Service: "web", Waiting: ops.Ptr(ops.CycleID(1)), Status: ops.IncidentResolved, ResolvedAt: &now, ResolvedBy: "claudeops"}}
		return j
	}
	skips := func(why string) func(*testing.T, ops.Step) {
		return func(t *testing.T, s ops.Step) {
			if s.Skipped != why || !strings.Contains(s.Events[len(s.Events)-1].Reason, "step 2 of the plan was skipped: "+why) {
				t.Errorf("skipped because %q, %+v", s.Skipped, s.Events)
			}
		}
	}
	asks := func(step int) func(*testing.T, ops.Step) {
		return func(t *testing.T, s ops.Step) {
			if s.Act == nil || s.Act.Step != step || s.Act.Approval.ID != 7 {
				t.Errorf("act %+v, want step %d", s.Act, step)
			}
		}
	}
	cooling := []ops.Cooldown{{Service: "web", Action: "restart", Until: now.Add(time.Hour)}}
	proposes := []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
		s.HandoffJSON = []byte(strings.TrimSuffix(string(handoffJSON(2)), "}") + `,"plan":[{"service":"web","action":"restart","reason":"it hangs","expected_effect":"it answers","way_back":"none"}]}`)
	})}
	single := with(approved, run(1, ops.ActionDone))
	single.Approvals[0].Plan, single.Approvals[0].Steps, single.Cooldowns = plan[:1], []int{1}, cooling
	return []nextCase{
		{name: "a person can say yes to the step that the cooldown stopped", row: "escalation proposed", policy: policy(probed, acting), sessions: proposes, journal: ops.Journal{Cooldowns: cooling}, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "blocked by cooldown", check: func(t *testing.T, s ops.Step) {
			if s.Approval == nil || len(s.Approval.Plan) != 1 || s.Approval.Plan[0].Does != "/bin/restart" || s.Decision.Verdict != ops.VerdictApproval || !strings.Contains(s.Notices[0].Body, "blocked by cooldown") {
				t.Errorf("asked %+v: %s", s.Approval, s.Notices[0].Body)
			}
		}},
		{name: "what the cooldown stopped and no action is", row: "escalation proposed", policy: policy(probed, acting), sessions: handedUp, journal: ops.Journal{Cooldowns: cooling}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "blocked by cooldown"},
		{name: "a step that did not help is not asked for again", row: "escalation proposed", policy: policy(probed, acting), sessions: proposes, checks: []ops.Check{looked, after(ops.Down)}, journal: single, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "blocked by cooldown"},
		{name: "the first approved step is run", row: "plan due", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved), kind: ops.StepAct, level: ops.LevelInfo, says: "ada", check: asks(1)},
		{name: "then the second", row: "plan due", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionDone)), kind: ops.StepAct, level: ops.LevelInfo, check: asks(2)},
		{name: "only what was approved", row: "plan due", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(part), kind: ops.StepAct, level: ops.LevelInfo, check: asks(2)},
		{name: "probes look first", row: "not seen since", policy: policy(probed), sessions: handedUp, journal: with(approved), kind: ops.StepProbe},
		{name: "a step that was cut off is not repeated", row: "plan step in flight", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionStarted)), kind: ops.StepAct, level: ops.LevelWarning, says: "not repeated"},
		{name: "a failed step ends the plan", row: "plan unverified", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionFailed)), kind: ops.StepProbe},
		{name: "an undone step ends the plan", row: "plan unverified", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionUndone)), kind: ops.StepProbe},
		{name: "a plan that was carried out is checked", row: "plan unverified", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionDone), run(2, ops.ActionDone)), kind: ops.StepProbe, says: "web"},
		{name: "a plan that helped ends the cycle", row: "plan helped", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Healthy)}, journal: with(approved, run(1, ops.ActionDone), run(2, ops.ActionDone)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "ada approved"},
		{name: "a step that repaired it is checked before the next one", row: "plan unverified", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: over(with(approved, run(1, ops.ActionDone))), kind: ops.StepProbe, says: "web"},
		{name: "it gets the credit, and the rest is not needed", row: "plan helped", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Healthy)}, journal: over(with(approved, run(1, ops.ActionDone))), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "resolved by the approved plan, confirmed by probes", check: func(t *testing.T, s ops.Step) {
			skips("not needed: probes found it healthy")(t, s)
			if s.ConfirmedBy != ops.ProofPlan || s.Confirmed == nil || !*s.Confirmed {
				t.Errorf("confirmed by %q", s.ConfirmedBy)
			}
		}},
		{name: "if probes do not agree the plan goes on", row: "plan due", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Down)}, journal: over(with(approved, run(1, ops.ActionDone))), kind: ops.StepAct, level: ops.LevelInfo, check: asks(2)},
		{name: "what probes found before the last step does not count", row: "plan unverified", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Down)}, journal: over(with(approved, run(1, ops.ActionDone), ops.ActionRun{ID: 2, ApprovalID: 7, Step: 2, Status: ops.ActionDone, EndedAt: &now})), kind: ops.StepProbe},
		{name: "a step in flight comes first", row: "plan step in flight", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: over(with(approved, run(1, ops.ActionStarted))), kind: ops.StepAct, level: ops.LevelWarning},
		{name: "a plan that was not begun gets no credit", row: "problem is over", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: over(with(part)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: skips("not needed: the incident was closed")},
		{name: "without a probe nothing says that it helped", row: "problem is over", policy: policy(), sessions: handedUp, journal: over(with(approved, run(1, ops.ActionDone))), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "no answer is not a yes", row: "nobody answered", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(silent), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "no answer is not a yes by itself", row: "nobody answered", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(silent), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "a plan whose only step failed is not credited", row: "plan helped", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Healthy)}, journal: with(approved, run(1, ops.ActionFailed)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "recovered without the plan", check: func(t *testing.T, s ops.Step) {
			if s.ConfirmedBy != ops.ProofProbe {
				t.Errorf("confirmed by %q", s.ConfirmedBy)
			}
		}},
		{name: "a failed step leaves the rest undone", row: "escalation proposed", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Down)}, journal: with(approved, run(1, ops.ActionFailed)), kind: ops.StepQueue, level: ops.LevelInfo, check: skips("step 1 failed, and a plan stops there")},
		{name: "a plan after which something does not run proves nothing", row: "escalation proposed", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Healthy), {Service: "web", Probe: "container web", Purpose: ops.ProbeRunning, Status: ops.Down, Error: "container web is paused", AfterSession: ops.Ptr(ops.SessionID(1))}}, journal: with(approved, run(1, ops.ActionDone), run(2, ops.ActionDone)), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a plan that did not help starts the tier", row: "escalation proposed", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked, after(ops.Down)}, journal: with(approved, run(1, ops.ActionDone), run(2, ops.ActionDone)), kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		{name: "a refused step starts the tier", row: "escalation proposed", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved, run(1, ops.ActionRefused)), kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		{name: "without an approved step the tier starts", row: "escalation proposed", policy: policy(probed), sessions: handedUp, checks: []ops.Check{looked}, journal: with(none), kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		{name: "dry run is stricter than an approval", row: "escalation proposed", policy: policy(probed, func(p *ops.Policy) { p.DryRun = true }), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, step ops.Step) {
			if n := step.Notices[0]; !strings.Contains(n.Title, "The approved repair does not start") || !strings.Contains(n.Body, "set dry_run: false") {
				t.Errorf("the notice is %+v", n)
			}
		}},
		{name: "a lower maximum is stricter than an approval", row: "escalation proposed", policy: policy(probed, func(p *ops.Policy) { p.MaxTier = 1 }), sessions: handedUp, checks: []ops.Check{looked}, journal: with(approved), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
	}
}

func TestAPlanIsShownAsTheSupervisorWouldRunIt(t *testing.T) {
	handoffWith := func(plan string) []byte {
		return []byte(`{"schema_version":1,"recommended_tier":2,"services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"cooldown_state":{},"plan":` + plan + `}`)
	}
	const good = `{"service":"web","action":"restart","reason":"r","expected_effect":"e","way_back":"w"}`
	for name, c := range map[string]struct {
		plan  string
		steps int
	}{
		"good":            {`[` + good + `]`, 1},
		"empty":           {`[]`, 0},
		"unknown action":  {`[{"service":"web","action":"wipe","reason":"r","expected_effect":"e","way_back":"w"}]`, 0},
		"other service":   {`[{"service":"db","action":"restart","reason":"r","expected_effect":"e","way_back":"w"}]`, 0},
		"branch":          {`[{"service":"web","action":"restart","branch":"b","reason":"r","expected_effect":"e","way_back":"w"}]`, 0},
		"one of two good": {`[` + good + `,{"service":"web","action":"wipe","reason":"r","expected_effect":"e","way_back":"w"}]`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.HandoffJSON = handoffWith(c.plan) })
			report.Read(&s)
			p := policy(probed, acting, func(p *ops.Policy) { p.ApprovalTier = 2 })
			cycle := ops.Cycle{ID: 3, Status: ops.CycleRunning}
			step := next(cycle, ops.Journal{Sessions: []ops.Session{s}}, p, time.Now())
			if step.Approval == nil || len(step.Approval.Plan) != c.steps {
				t.Fatalf("%s: %+v", step.Row, step.Approval)
			}
			if c.steps == 0 {
				if step.Approval.PlanHash != "" {
					t.Error("an empty plan has a hash")
				}
				return
			}
			shown := step.Approval.Plan[0]
			a := p.Inventory.Services[0].Actions[0]
			if shown.Does != "/bin/restart" || shown.Digest != a.Digest() || step.Approval.PlanHash != ops.PlanHash(3, 1, step.Approval.Plan) {
				t.Errorf("%+v", step.Approval)
			}
		})
	}
}
