package decide_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// pairCases are states in which two things meet that nobody put into one sentence.
func pairCases(now time.Time) []nextCase {
	const pass = `{"verdict":"PASS","confidence":0.9,"dimensions":{"goalAlignment":25,"actionCompleteness":25,"evidenceOfCompletion":25,"finalStateCoherence":25},"totalScore":100,"reasoning":"ok","failureReasons":[],"recommendations":[]}`
	check := func(service, probe string, purpose ops.ProbePurpose, status ops.Health, after ops.SessionID, ago time.Duration) ops.Check {
		c := ops.Check{At: now.Add(-ago), Service: service, Probe: probe, Type: ops.CheckHTTP, Purpose: purpose, Status: status}
		if status != ops.Healthy {
			c.Error = "HTTP 502"
		}
		if after != 0 {
			c.AfterSession = &after
		}
		return c
	}
	unwalled := func(p *ops.Policy) { p.Handlers[1].Unwalled = "sandbox.network is open" }
	two := func(p *ops.Policy) {
		p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Probed: true}, {Name: "db", Probed: true}}}
	}
	gate := func(p *ops.Policy) { p.ApprovalTier = 2 }
	gone := func(p *ops.Policy) { p.Inventory.Services[0].Gone, p.Inventory.Services[0].Probed = true, false }
	tier1 := session(1, 1, ops.SessionCompleted, handed(2))
	both := session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
		s.HandoffJSON = json.RawMessage(`{"schema_version":1,"recommended_tier":2,"reason":"both answer 502","services_affected":["web","db"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"},{"service":"db","check_type":"http","status":"down","error":"502"}],"investigation_findings":"disk","remediation_attempted":"none","cooldown_state":{}}`)
	})
	claim := session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })
	aboutWeb := approval(ops.ApprovalApproved)
	aboutWeb.Decisions = []ops.Decision{{SessionID: 1, TargetHandler: "tier2", Verdict: ops.VerdictApproval, Services: []string{"web"}}}
	stillDown := []ops.Check{check("web", "http", ops.ProbeRecheck, ops.Down, 1, time.Second), check("db", "http", ops.ProbeRecheck, ops.Down, 1, time.Second)}

	judged := []ops.Session{tier1, claim}
	for id := ops.SessionID(3); id < 5; id++ {
		judged = append(judged, session(id, 1, ops.SessionFailed, role(ops.RoleJudge, 2, "")))
	}
	judged = append(judged, session(5, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, pass)))
	judges := func(p *ops.Policy) { p.Judge = "judge" }
	asked := approval(ops.ApprovalPending, review, func(a *ops.Approval) { a.RequestedAt = now.Add(-2 * time.Hour) })
	before := []ops.Check{check("web", "http", ops.ProbeVerify, ops.Healthy, 2, 3*time.Hour)}

	silence := ops.Silence{Service: "web", Probe: "http", Author: "ada", Reason: "known", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	tcp := check("web", "tcp", ops.ProbeObserve, ops.Down, 0, 10*time.Second)
	tcp.Type = ops.CheckService
	earned := ops.Reflex{ID: 3, Service: "web", On: "http", Probes: []string{"http"}, Status: ops.Down, Do: []string{"restart"}, Tries: 2, Per: time.Hour}
	ran := ops.Journal{
		Reflexes: []ops.Reflex{earned},
		Runs:     []ops.ActionRun{{ID: 4, Service: "web", Action: "restart", Reflex: "earned 3", Step: 1, Status: ops.ActionDone, EndedAt: ops.Ptr(now.Add(-5 * time.Second))}},
	}
	closes := func(want ...int64) func(*testing.T, ops.Step) {
		return func(t *testing.T, s ops.Step) {
			var got []int64
			for _, r := range s.Recovered {
				got = append(got, r.Incident)
			}
			if !slices.Equal(got, want) {
				t.Errorf("closes %v, want %v", got, want)
			}
		}
	}
	unproven := func(t *testing.T, s ops.Step) {
		if s.ConfirmedBy != ops.ProofNone {
			t.Errorf("confirmed by %s", s.ConfirmedBy)
		}
	}
	retry := []ops.Session{tier1, session(2, 2, ops.SessionFailed, child(1)), session(3, 2, ops.SessionQueued, child(1), again(2))}
	snoozed := ops.Journal{Incidents: []ops.Incident{{ID: 9, Service: "web", Class: "down", Status: ops.IncidentSnoozed, SnoozedUntil: ops.Ptr(now.Add(time.Hour)), Own: true}}}
	flapping := ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldFlapping, Reason: "web is flapping"}}}
	seen := []ops.Check{check("web", "http", ops.ProbeObserve, ops.Down, 0, time.Minute), check("db", "http", ops.ProbeObserve, ops.Down, 0, time.Minute)}
	noToDB := ops.Approval{
		ID: 8, CycleID: 9, Kind: ops.ApprovalTier, Tier: 2, Handler: "tier2", Status: ops.ApprovalDenied, AnsweredBy: "ada", AnsweredAt: ops.Ptr(now.Add(-time.Hour)),
		DeniedUntil: ops.Ptr(now.Add(time.Hour)), Facts: []ops.Fact{{Service: "db", Probe: "http", Type: ops.CheckHTTP, Class: "5xx"}},
	}
	yesToWeb := approval(ops.ApprovalApproved, func(a *ops.Approval) {
		a.AnsweredAt, a.Facts = ops.Ptr(now.Add(-time.Minute)), []ops.Fact{{Service: "web", Probe: "http", Type: ops.CheckHTTP, Class: "5xx"}}
	})
	yesToWeb.Decisions, yesToWeb.Denials = aboutWeb.Decisions, []ops.Approval{noToDB}
	called := ops.Journal{
		Decisions: []ops.Decision{{SessionID: 1, TargetHandler: "tier2", Verdict: ops.VerdictEscalate, Services: []string{"web"}}},
		Incidents: []ops.Incident{{ID: 6, Service: "db", Class: "down", Status: ops.IncidentOpen, CalledAt: ops.Ptr(now.Add(-time.Hour)), ProbeFailedAt: &now}},
	}
	onlyWeb := func(t *testing.T, s ops.Step) {
		if !slices.Equal(s.Services, []string{"web"}) {
			t.Errorf("it is about %v", s.Services)
		}
	}
	var quiet ops.Journal
	for _, name := range []string{"web", "db"} {
		quiet.Silences = append(quiet.Silences, ops.Silence{Service: name, Author: "ada", Reason: "known", From: now.Add(-time.Hour), Until: now.Add(time.Hour)})
	}
	window := func(p *ops.Policy) { p.Watch.Grouping.Window = 30 * time.Second }
	waits := ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldWaiting, Reason: "web may not be alone", Until: now.Add(27 * time.Second)}}}
	reflexAsked := ops.Journal{Incidents: []ops.Incident{{ID: 4, Service: "web", Class: "down", Status: ops.IncidentOpen, Waiting: ops.Ptr(ops.CycleID(7)), Report: json.RawMessage(`{"waits":true,"reflex":true}`), CalledAt: &now}}}
	covered := ops.Journal{Denials: []ops.Approval{noToDB}, Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldCovered, Reason: "a cycle was started for it"}}}
	return []nextCase{
		{name: "a no to db and a yes to web: web is verified", row: "claim unverified", policy: policy(two, gate), sessions: []ops.Session{both, claim}, checks: seen, journal: yesToWeb, kind: ops.StepProbe, says: "web", check: onlyWeb},
		{name: "a no to db and a yes to web: the repair of web counts", row: "resolved", policy: policy(two, gate), sessions: []ops.Session{both, claim}, checks: append(seen[:2:2], check("web", "http", ops.ProbeVerify, ops.Healthy, 2, time.Second)), journal: yesToWeb, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed"},
		{name: "a neighbour that was left to a human costs a repair nothing", row: "resolved", policy: policy(two), sessions: []ops.Session{both, claim}, checks: append(seen[:2:2], check("web", "http", ops.ProbeVerify, ops.Healthy, 2, time.Second)), journal: called, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed", check: closes()},
		{name: "a proposal about a silenced neighbour leaves its own service to a human", row: "escalation proposed", cycle: ops.Cycle{Trigger: ops.TriggerProbe, Charge: ops.Charge{Services: []string{"db"}}}, policy: policy(two), sessions: []ops.Session{tier1}, checks: seen, journal: ops.Journal{Silences: quiet.Silences[:1]}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "nothing was proposed for db", check: func(t *testing.T, s ops.Step) {
			if s.Incident == nil || !slices.Equal(s.Incident.Services, []string{"db"}) {
				t.Errorf("reported %+v", s.Incident)
			}
		}},
		{name: "a no to db and an outage of web: web gets its agent", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerProbe, Charge: ops.Charge{Services: []string{"web"}}}, policy: policy(two, gate), checks: seen, journal: covered, kind: ops.StepQueue},
		{name: "a person was called while the cycle waited for its turn", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerProbe, Charge: ops.Charge{Services: []string{"db"}}, CreatedAt: now.Add(-2 * time.Hour)}, policy: policy(two), checks: seen, journal: ops.Journal{Incidents: called.Incidents}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "db: incident 6, for which a human was called"},
		{name: "or while the cycle of an alert waited", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerAlert, Charge: ops.Charge{Services: []string{"db"}}, CreatedAt: now.Add(-2 * time.Hour)}, policy: policy(two), checks: seen, journal: ops.Journal{Incidents: called.Incidents}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "db: incident 6, for which a human was called"},
		{name: "or for what no inventory has", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerAlert, Charge: ops.Charge{Open: true}, CreatedAt: now.Add(-2 * time.Hour)}, policy: policy(), checks: []ops.Check{check("disk", "alert:full", ops.ProbeAlert, ops.Down, 0, time.Minute)}, journal: ops.Journal{Incidents: []ops.Incident{{ID: 7, Class: ops.ClassEnvironment, Report: json.RawMessage(`{"unlisted":["disk"]}`), Status: ops.IncidentOpen, CalledAt: ops.Ptr(now.Add(-time.Hour))}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "disk: incident 7, for which a human was called"},
		{name: "whoever starts a cycle for a service knows of earlier calls", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerAlert, Charge: ops.Charge{Services: []string{"db"}}, CreatedAt: now.Add(-time.Minute)}, policy: policy(two), checks: seen, journal: ops.Journal{Incidents: called.Incidents}, kind: ops.StepQueue},
		{name: "a look that waited meanwhile looks", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerScheduled, CreatedAt: now.Add(-2 * time.Hour)}, policy: policy(two), checks: seen, journal: ops.Journal{Incidents: called.Incidents}, kind: ops.StepQueue},
		{name: "and hands on only what nobody was called for", row: "escalation proposed", cycle: ops.Cycle{Trigger: ops.TriggerScheduled, CreatedAt: now.Add(-2 * time.Hour)}, policy: policy(two), sessions: []ops.Session{both}, checks: seen, journal: ops.Journal{Incidents: called.Incidents}, kind: ops.StepQueue, level: ops.LevelInfo, says: "hands web to", check: func(t *testing.T, s ops.Step) {
			if !slices.Equal(s.Decision.Services, []string{"web"}) {
				t.Errorf("hands on %v", s.Decision.Services)
			}
		}},
		{name: "once, and all that is wrong is silenced", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: policy(two), checks: seen, journal: quiet, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "web: silenced by ada until"},
		{name: "a look that is asked for over the API likewise", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerAPI}, policy: policy(two), checks: seen, journal: quiet, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "db: silenced by ada until"},
		{name: "once, and one thing is not silenced", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: policy(two), checks: seen, journal: ops.Journal{Silences: quiet.Silences[:1]}, kind: ops.StepQueue},
		{name: "whoever asks in words gets a look", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerManual, Prompt: "why is web down?"}, policy: policy(two), checks: seen, journal: quiet, kind: ops.StepQueue},
		{name: "but no repair of what is silenced", row: "escalation proposed", cycle: ops.Cycle{Trigger: ops.TriggerManual, Prompt: "why is web down?"}, policy: policy(two), sessions: []ops.Session{both}, checks: seen, journal: quiet, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "silenced by ada"},
		{name: "down at the start: the first look takes what the watch saw after it began", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerScheduled, CreatedAt: now.Add(-5 * time.Second)}, policy: policy(two, probesFirst, window), checks: seen[:1], journal: waits, kind: ops.StepQueue},
		{name: "what the watch saw before a look is left to its cycle", row: "all held", cycle: ops.Cycle{Trigger: ops.TriggerScheduled, CreatedAt: now.Add(-2 * time.Second)}, policy: policy(two, probesFirst, window), checks: seen[:1], journal: waits, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "web may not be alone"},
		{name: "while a reflex waits for a yes, Tier 1 may look", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: policy(two), checks: seen[:1], journal: reflexAsked, kind: ops.StepQueue},
		{name: "but no tier repairs it", row: "escalation proposed", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: policy(two), sessions: []ops.Session{tier1}, checks: seen[:1], journal: reflexAsked, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "web"},
		{name: "another attempt and a snooze", row: "intent held", policy: policy(two), sessions: retry, journal: snoozed, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "Tier 2 is not started"},
		{name: "another attempt and flapping that it may have caused", row: "intent", policy: policy(two), sessions: retry, journal: flapping, kind: ops.StepRun},
		{name: "another attempt and a lower maximum tier", row: "intent stopped", policy: policy(two, func(p *ops.Policy) { p.MaxTier = 1 }), sessions: retry, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "the maximum tier is 1"},
		{name: "another attempt and a dry run", row: "intent stopped", policy: policy(two, func(p *ops.Policy) { p.DryRun = true }), sessions: retry, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "dry run is on"},
		{name: "another attempt and a wall that is gone", row: "intent stopped", policy: policy(two, unwalled), sessions: retry, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "nobody was asked: sandbox.network is open"},
		{name: "another attempt without a wall after a yes", row: "intent", policy: policy(two, unwalled), sessions: retry, journal: approval(ops.ApprovalApproved), kind: ops.StepRun},
		{name: "another attempt and less trust", row: "intent stopped", policy: policy(two, func(p *ops.Policy) { p.Trust = ops.TrustSuggest }), sessions: retry, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "suggest"},
		{name: "an approval and a service that is not configured any more", row: "escalation proposed", policy: policy(two, gate, gone), sessions: []ops.Session{tier1}, journal: approval(ops.ApprovalApproved), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, notices: 1, says: "web (it is not configured any more)"},
		{name: "a yes about web and a snooze of db that is over", row: "escalation proposed", policy: policy(two, gate), sessions: []ops.Session{both}, checks: stillDown, journal: aboutWeb, kind: ops.StepQueue, level: ops.LevelInfo, says: "hands web to", check: func(t *testing.T, s ops.Step) {
			if !slices.Equal(s.Decision.Services, []string{"web"}) {
				t.Errorf("hands on %v", s.Decision.Services)
			}
		}},
		{name: "a repair and a probe that was taken out", row: "resolved", policy: policy(two), sessions: []ops.Session{tier1, claim}, checks: []ops.Check{check("web", "http", ops.ProbeObserve, ops.Down, 0, time.Minute), check("web", "tcp", ops.ProbeVerify, ops.Healthy, 2, time.Second)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified", check: unproven},
		{name: "a judge who is back after hours and probes", row: "judge is back late", policy: policy(withPeople, judges, two), sessions: judged, checks: before, journal: asked, kind: ops.StepProbe, says: "web"},
		{name: "a judge who is back and a repair that holds", row: "judge is back", policy: policy(withPeople, judges, two), sessions: judged, checks: append(before[:1:1], check("web", "http", ops.ProbeVerify, ops.Healthy, 2, time.Second)), journal: asked, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "a judge who is back and a repair that does not hold", row: "answer pending", policy: policy(withPeople, judges, two), sessions: judged, checks: append(before[:1:1], check("web", "http", ops.ProbeVerify, ops.Down, 2, time.Second)), journal: asked, kind: ops.StepAwait},
		{name: "a reflex, a silence of its probe and another probe", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerProbe}, policy: policy(probed, acting, reflexive()), checks: []ops.Check{check("web", "http", ops.ProbeObserve, ops.Down, 0, 10*time.Second), tcp}, journal: ops.Journal{Silences: []ops.Silence{silence}}, kind: ops.StepQueue},
		{name: "a reflex that was earned and a cancel before anybody looked", row: "cancel requested", cycle: ops.Cycle{Trigger: ops.TriggerProbe, CancelRequestedAt: &now}, policy: policy(probed, acting), checks: []ops.Check{check("web", "http", ops.ProbeObserve, ops.Down, 0, 10*time.Second)}, journal: ran, kind: ops.StepFinish, status: ops.CycleCancelled, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if len(s.ReflexOff) != 0 {
				t.Errorf("switched off %+v", s.ReflexOff)
			}
		}},
		{name: "a healthy service with an incident and another one in maintenance", row: "probes find nothing", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(two, probesFirst), checks: []ops.Check{check("web", "http", ops.ProbeObserve, ops.Healthy, 0, time.Second), check("db", "http", ops.ProbeObserve, ops.Down, 0, time.Second)}, journal: ops.Journal{
			Withheld:  []ops.Withheld{{Service: "db", Why: ops.HoldMaintenance, Reason: "db is in maintenance"}},
			Incidents: []ops.Incident{{ID: 7, Service: "web", Class: "down", Status: ops.IncidentOpen, ProbeFailedAt: &now}, {ID: 8, Service: "db", Class: "down", Status: ops.IncidentOpen, ProbeFailedAt: &now}},
		}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "db is in maintenance", check: closes(7)},
	}
}
