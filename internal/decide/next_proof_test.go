package decide_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// ends checks which incidents a step ends, as "ID by PROOF".
func ends(want ...string) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		t.Helper()
		var got []string
		for _, r := range s.Recovered {
			got = append(got, fmt.Sprint(r.Incident, " by ", r.By))
		}
		if !slices.Equal(got, want) {
			t.Errorf("ends the incidents %q, want %q", got, want)
		}
	}
}

// proves checks who confirms that a cycle is resolved, and then which incidents end.
func proves(proof ops.Proof, want ...string) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		t.Helper()
		if s.ConfirmedBy != proof || s.Confirmed == nil || *s.Confirmed != (proof != ops.ProofNone) {
			t.Errorf("confirmed %v by %q, want %q", s.Confirmed, s.ConfirmedBy, proof)
		}
		ends(want...)(t, s)
	}
}

func about(services ...string) func(*ops.Session) {
	return func(s *ops.Session) {
		var h ops.Handoff
		if err := json.Unmarshal(handoffJSON(2), &h); err != nil {
			panic(err)
		}
		h.ServicesAffected, h.CheckResults = services, nil
		for _, name := range services {
			h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: name, CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502"})
		}
		raw, err := json.Marshal(h)
		if err != nil {
			panic(err)
		}
		s.HandoffJSON = raw
	}
}

// reported is a session's outcome with a check of each service: web/http=healthy.
func reported(kind ops.OutcomeKind, checks ...string) func(*ops.Session) {
	return func(s *ops.Session) {
		o := ops.Outcome{SchemaVersion: 1, Kind: kind, Summary: "what it saw", Actions: []ops.Action{}, Events: []ops.Remark{}, Memories: []ops.Lesson{}}
		for _, c := range checks {
			what, status, _ := strings.Cut(c, "=")
			service, check, _ := strings.Cut(what, "/")
			o.CheckResults = append(o.CheckResults, ops.CheckResult{Service: service, CheckType: ops.CheckType(check), Status: ops.Health(status), Error: "it says so"})
		}
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		s.Outcome, s.OutcomeJSON = kind, raw
	}
}

func blind(s *ops.Session) { s.Unseen = []string{"/srv/data"} }

func inventory(services ...string) func(*ops.Policy) {
	return func(p *ops.Policy) {
		for _, name := range services {
			name, probed := strings.CutSuffix(name, "+")
			p.Inventory.Services = append(p.Inventory.Services, ops.Service{Name: name, Probed: probed})
		}
	}
}

func looked(service string, check ops.CheckType, purpose ops.ProbePurpose, status ops.Health, after ops.SessionID) ops.Check {
	c := ops.Check{Service: service, Probe: string(check), Type: check, Purpose: purpose, Status: status}
	if after != 0 {
		c.AfterSession = &after
	}
	return c
}

func proofCases(now time.Time) []nextCase {
	tier1 := session(1, 1, ops.SessionCompleted, handed(2))
	claim := session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })
	chain := []ops.Session{tier1, claim}
	incident := func(id int64, service string, change ...func(*ops.Incident)) ops.Incident {
		i := ops.Incident{ID: id, Service: service, Check: "http", Class: "down", Status: ops.IncidentOpen, CalledAt: &now}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	own := func(i *ops.Incident) { i.Own = true }
	failed := func(i *ops.Incident) { i.ProbeFailedAt = &now }
	unverified := func(i *ops.Incident) { i.Status, i.UnverifiedAt = ops.IncidentUnverified, &now }
	ofCheck := func(c ops.CheckType) func(*ops.Incident) { return func(i *ops.Incident) { i.Check = string(c) } }
	unlisted := func(names ...string) func(*ops.Incident) {
		return func(i *ops.Incident) {
			i.Class, i.Check = ops.ClassEnvironment, ""
			i.Report, _ = json.Marshal(ops.IncidentReport{Unlisted: names})
		}
	}
	journal := func(all ...ops.Incident) ops.Journal { return ops.Journal{Incidents: all} }
	verify := func(service string, status ops.Health) ops.Check {
		return looked(service, ops.CheckHTTP, ops.ProbeVerify, status, 2)
	}
	judges := func(p *ops.Policy) { p.Judge = "judge" }
	healthy := func(checks ...string) []ops.Session {
		return []ops.Session{session(1, 1, ops.SessionCompleted, reported(ops.OutcomeHealthy, checks...))}
	}
	quiet := ops.Cycle{Trigger: ops.TriggerScheduled}
	green := []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeObserve, ops.Healthy, 0)}
	silence := ops.Silence{Service: "db", Author: "ada", Reason: "new disk", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	both := session(1, 1, ops.SessionCompleted, about("web", "db"))
	const pass = `{"verdict":"PASS","confidence":1,"totalScore":96,"dimensions":{"goalAlignment":24,"actionCompleteness":24,"evidenceOfCompletion":24,"finalStateCoherence":24},"reasoning":"it answers"}`
	silentJudge := func(n int, change ...func(*ops.Session)) []ops.Session {
		out := slices.Clone(chain)
		for i := range n {
			out = append(out, session(ops.SessionID(3+i), 1, ops.SessionFailed, append([]func(*ops.Session){
				role(ops.RoleJudge, 2, ""), func(s *ops.Session) {
					s.Handler, s.Error, s.EndedAt = "judge", "HTTP 401", ops.Ptr(now.Add(-time.Minute))
				},
			}, change...)...))
		}
		return out
	}
	longAgo := func(s *ops.Session) { s.EndedAt = ops.Ptr(now.Add(-2 * time.Hour)) }
	pendingReview := approval(ops.ApprovalPending, review, func(a *ops.Approval) { a.SessionID = 2 })
	lost := session(1, 1, ops.SessionFailed, func(s *ops.Session) {
		s.Failure, s.Error, s.ExitCode, s.APIStatus = ops.FailureAPI, "HTTP 401", ops.Ptr(1), ops.Ptr(401)
	})
	recovering := func(p *ops.Policy) { p.Recovery.Enabled = true }
	red := looked("web", ops.CheckHTTP, ops.ProbeObserve, ops.Down, 0)
	webOnly := []ops.Decision{{SessionID: 1, TargetHandler: "tier2", Verdict: ops.VerdictEscalate, Services: []string{"web"}}}
	return []nextCase{
		// Who says that it is resolved.
		{name: "a probe that saw it fail proves the repair", row: "resolved", policy: policy(probed), sessions: chain, checks: []ops.Check{red, verify("web", ops.Healthy)}, journal: journal(incident(7, "web", own, failed)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed by our own probes", check: proves(ops.ProofProbe, "7 by probe")},
		{name: "the word of an agent makes no witness of a probe", row: "resolved", policy: policy(probed), sessions: chain, checks: []ops.Check{verify("web", ops.Healthy)}, journal: journal(incident(7, "web", own)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified", check: proves(ops.ProofNone, "7 by none")},
		{name: "a probe that was healthy all the time proves nothing", row: "resolved", policy: policy(probed), sessions: chain, checks: []ops.Check{looked("web", ops.CheckDNS, ops.ProbeObserve, ops.Healthy, 0), looked("web", ops.CheckDNS, ops.ProbeVerify, ops.Healthy, 2)}, journal: journal(incident(7, "web", own)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified", check: proves(ops.ProofNone, "7 by none")},
		{name: "only probed services are confirmed by probes", row: "resolved", policy: policy(inventory("web+", "db")), sessions: []ops.Session{both, claim}, checks: []ops.Check{red, verify("web", ops.Healthy)}, journal: journal(incident(7, "web", own), incident(8, "db", own), incident(9, "db")), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "web confirmed by our own probes, db unverified", check: proves(ops.ProofNone, "7 by probe", "8 by none")},
		{name: "a judge proves what he saw", row: "resolved", policy: policy(withPeople, judges), sessions: append(slices.Clone(chain), session(3, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, pass))), journal: journal(incident(7, "web", own), incident(8, "web")), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: proves(ops.ProofJudge, "7 by judge")},
		{name: "a person who accepts it proves it", row: "review passed", policy: policy(), sessions: chain, journal: approval(ops.ApprovalApproved, review), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: proves(ops.ProofHuman)},
		{name: "what was green before an approval still needs the repair", row: "escalation proposed", policy: policy(probed, func(p *ops.Policy) { p.ApprovalTier = 2 }), sessions: []ops.Session{tier1}, checks: []ops.Check{looked("web", ops.CheckDNS, ops.ProbeRecheck, ops.Healthy, 1)}, journal: approval(ops.ApprovalApproved), kind: ops.StepQueue, level: ops.LevelInfo},
		// What ends an incident.
		{name: "probes close what they saw fail", row: "probes find nothing", cycle: quiet, policy: policy(probed, probesFirst), checks: green, journal: journal(incident(7, "web", failed)), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends("7 by probe")},
		{name: "probes close no call for help that they never saw", row: "probes find nothing", cycle: quiet, policy: policy(probed, probesFirst), checks: green, journal: journal(incident(7, "web"), incident(8, "", unlisted()), incident(9, "", unlisted("ups"))), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "a later report of the same check closes it", row: "healthy", policy: policy(), sessions: healthy("web/http=healthy"), journal: journal(incident(7, "web"), incident(8, "web", ofCheck(ops.CheckDNS)), incident(9, "db")), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends("7 by report")},
		{name: "an alert that fires on is not over because a session says so", row: "healthy", policy: policy(), sessions: healthy("web/http=healthy"), journal: journal(incident(7, "web", func(i *ops.Incident) { i.Class, i.Check = ops.ClassAlert, "" })), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "no session closes what it reported itself", row: "healthy", policy: policy(), sessions: healthy("web/http=healthy"), journal: journal(incident(7, "web", own)), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "a report that contradicts itself closes nothing", row: "healthy", policy: policy(), sessions: healthy("web/http=healthy", "web/dns=degraded"), journal: journal(incident(7, "web")), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "any report closes what is only unverified", row: "healthy", policy: policy(), sessions: healthy("web/container=healthy"), journal: journal(incident(7, "web", unverified)), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends("7 by report")},
		{name: "probes end what they found and nothing else", row: "probes find nothing", cycle: quiet, policy: policy(probed, probesFirst), checks: green, journal: journal(incident(7, "web", failed, func(i *ops.Incident) {
			i.Findings = []ops.IncidentFinding{{Service: "web", By: ops.FoundByProbe, Type: ops.CheckHTTP}, {Service: "web", By: ops.FoundByAgent, Type: ops.CheckService}}
		})), kind: ops.StepFinish, status: ops.CycleHealthy, check: func(t *testing.T, s ops.Step) {
			r := s.Recovered
			if len(r) != 1 || !r[0].Over(ops.IncidentFinding{Service: "web", By: ops.FoundByProbe, Type: ops.CheckHTTP}) ||
				r[0].Over(ops.IncidentFinding{Service: "web", By: ops.FoundByAgent, Type: ops.CheckService}) || r[0].Over(ops.IncidentFinding{Service: "web", By: ops.FoundByLook}) {
				t.Errorf("ends %+v", r)
			}
		}},
		{name: "a call for help names what probes do not see", row: "human asked for", policy: policy(inventory("web+")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, reported(ops.OutcomeNeedsHuman, "web/http=down", "web/service=degraded", "ups/service=down"))}, checks: []ops.Check{red}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			var got []string
			for _, f := range s.Incident.Found {
				got = append(got, string(f.By)+" "+f.Service+"/"+string(f.Type))
			}
			if want := []string{"probe web/http", "agent web/service", "agent /service"}; !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		}},
		{name: "names of no inventory are closed by people alone", row: "healthy", policy: policy(inventory("web")), sessions: healthy("ups/service=healthy"), journal: journal(incident(7, "", unlisted("ups")), incident(8, "", unlisted("ups", "router")), incident(9, "", unlisted())), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "an agent that works closes no call for help", row: "healthy", policy: policy(), sessions: healthy("web/http=healthy"), journal: journal(incident(7, "", unlisted()), incident(8, "", func(i *ops.Incident) { i.Class = ops.ClassAgent }), incident(9, "", func(i *ops.Incident) { i.Class = ops.ClassJudge })), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends("8 by report")},
		{name: "an unverified repair is looked at once", row: "nothing ran", cycle: quiet, policy: policy(probed, probesFirst), checks: green, journal: ops.Journal{LastLook: ops.Ptr(now.Add(-48 * time.Hour)), Incidents: []ops.Incident{incident(7, "db", unverified, func(i *ops.Incident) { i.UnverifiedAt = ops.Ptr(now.Add(-25 * time.Hour)) })}}, kind: ops.StepQueue},
		{name: "and not again after the look", row: "probes find nothing", cycle: quiet, policy: policy(probed, probesFirst), checks: green, journal: ops.Journal{LastLook: ops.Ptr(now.Add(-time.Hour)), Incidents: []ops.Incident{incident(7, "db", unverified, func(i *ops.Incident) { i.UnverifiedAt = ops.Ptr(now.Add(-25 * time.Hour)) })}}, kind: ops.StepFinish, status: ops.CycleHealthy},
		// Whom a call for help is about.
		{name: "a call for help of an agent that could not see something is checked", row: "blind and unsure", policy: policy(inventory("web+")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, blind, reported(ops.OutcomeNeedsHuman, "web/http=down"))}, checks: []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeObserve, ops.Healthy, 0)}, kind: ops.StepProbe, says: "could not see /srv/data"},
		{name: "with green probes it is a warning", row: "agent is blind", policy: policy(inventory("web+")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, blind, reported(ops.OutcomeNeedsHuman, "web/http=down"))}, checks: []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeVerify, ops.Healthy, 1)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Incident != nil || len(s.Recovered) > 0 || s.Notices[0].Level != ops.LevelWarning ||
				!strings.HasPrefix(s.Events[0].Reason, "its probes are green; the agent could not see /srv/data") ||
				!strings.HasPrefix(s.Notices[0].Body, "Its probes are green; the agent could not see /srv/data") {
				t.Errorf("%+v", s)
			}
		}},
		{name: "also about nothing that it names", row: "agent is blind", policy: policy(inventory("web+")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, blind, reported(ops.OutcomeNeedsHuman))}, checks: []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeObserve, ops.Healthy, 0)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "a red probe calls a human", row: "human asked for", policy: policy(inventory("web+")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, blind, reported(ops.OutcomeNeedsHuman, "web/http=down"))}, checks: []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeVerify, ops.Down, 1)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "and so does what no probe asks about", row: "human asked for", policy: policy(inventory("web+", "ups")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, blind, reported(ops.OutcomeNeedsHuman, "ups/service=down"))}, checks: []ops.Check{looked("web", ops.CheckHTTP, ops.ProbeObserve, ops.Healthy, 0)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "a call for help names its services", row: "human asked for", policy: policy(inventory("web", "db", "mail")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, reported(ops.OutcomeNeedsHuman, "web/http=down", "mail/http=healthy", "ups/service=degraded", "db/database=degraded"))}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if !slices.Equal(s.Incident.Services, []string{"web", "db"}) || !slices.Equal(s.Incident.Unlisted, []string{"ups"}) || s.Incident.Class != "down" {
				t.Errorf("reported %+v", s.Incident)
			}
			if !strings.Contains(s.Notices[0].Body, "web, db") || !strings.Contains(s.Notices[0].Body, "ups") {
				t.Errorf("told %s", s.Notices[0].Body)
			}
		}},
		{name: "one without any name is about the environment", row: "human asked for", policy: policy(inventory("web")), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, reported(ops.OutcomeNeedsHuman, "web/http=healthy"))}, journal: journal(incident(7, "", unlisted())), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if len(s.Incident.Services) != 0 || s.Incident.Class != ops.ClassEnvironment {
				t.Errorf("reported %+v", s.Incident)
			}
		}},
		// What is held back is held back service by service.
		{name: "the rest goes on without what is silenced", row: "escalation proposed", policy: policy(inventory("web+", "db+")), sessions: []ops.Session{both}, journal: ops.Journal{Silences: []ops.Silence{silence}}, kind: ops.StepQueue, level: ops.LevelInfo, says: "hands web to", check: func(t *testing.T, s ops.Step) {
			if s.Incident == nil || !slices.Equal(s.Incident.Services, []string{"web"}) || !slices.Equal(s.Decision.Services, []string{"web"}) {
				t.Errorf("reported %+v, decided %+v", s.Incident, s.Decision)
			}
		}},
		{name: "and is verified without it", row: "claim unverified", policy: policy(inventory("web+", "db+")), sessions: []ops.Session{both, claim}, journal: ops.Journal{Silences: []ops.Silence{silence}, Decisions: webOnly}, kind: ops.StepProbe, check: func(t *testing.T, s ops.Step) {
			if !slices.Equal(s.Services, []string{"web"}) {
				t.Errorf("probes %v", s.Services)
			}
		}},
		{name: "and resolved without it", row: "resolved", policy: policy(inventory("web+", "db+")), sessions: []ops.Session{both, claim}, checks: []ops.Check{red, verify("web", ops.Healthy)}, journal: ops.Journal{Silences: []ops.Silence{silence}, Decisions: webOnly, Incidents: []ops.Incident{incident(7, "web", own), incident(8, "db", failed)}}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: proves(ops.ProofProbe, "7 by probe")},
		{name: "an acknowledged incident without a service holds nothing", row: "escalation proposed", policy: policy(), sessions: []ops.Session{tier1}, journal: journal(incident(7, "", unlisted(), func(i *ops.Incident) { i.Status = ops.IncidentAcknowledged }), incident(8, "", func(i *ops.Incident) { i.Class, i.Status = ops.ClassAgent, ops.IncidentAcknowledged })), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "and one that names it holds it", row: "escalation proposed", policy: policy(), sessions: []ops.Session{tier1}, journal: journal(incident(7, "", unlisted("web"), func(i *ops.Incident) { i.Status = ops.IncidentAcknowledged })), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "held back: web"},
		// A judge that does not answer.
		{name: "a judge without an answer is asked once more", row: "claim unjudged", policy: policy(withPeople, judges), sessions: silentJudge(1), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "then the probes end it", row: "judge silent", policy: policy(withPeople, judges, probed, recovering), sessions: silentJudge(2), checks: []ops.Check{red, verify("web", ops.Healthy)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, notices: 1, check: func(t *testing.T, s ops.Step) {
			proves(ops.ProofProbe)(t, s)
			if s.Incident == nil || s.Incident.Class != ops.ClassJudge || len(s.Incident.Services) != 0 || s.Verified != nil {
				t.Errorf("reported %+v, judged %+v", s.Incident, s.Verified)
			}
			if text := s.Reason + s.Notices[0].Title + s.Notices[0].Body; strings.Contains(text, "of 100") || !strings.Contains(text, "HTTP 401") {
				t.Errorf("told %s", text)
			}
		}},
		{name: "and it is told once", row: "judge silent", policy: policy(withPeople, judges, probed), sessions: silentJudge(2), checks: []ops.Check{red, verify("web", ops.Healthy)}, journal: journal(incident(7, "", func(i *ops.Incident) { i.Class = ops.ClassJudge })), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "without probes a human looks", row: "judge silent", policy: policy(withPeople, judges, recovering), sessions: silentJudge(2), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "a human has to look", check: func(t *testing.T, s ops.Step) {
			if s.Approval == nil || s.Approval.Kind != ops.ApprovalReview || s.Session != nil || s.Until.IsZero() || strings.Contains(s.Reason, "of 100") {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "the human is waited for", row: "answer pending", policy: policy(withPeople, judges), sessions: silentJudge(2), journal: pendingReview, kind: ops.StepAwait},
		{name: "and the judge asked again after an hour", row: "judge due again", policy: policy(withPeople, judges), sessions: silentJudge(2, longAgo), journal: pendingReview, kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a judge who is back withdraws the question", row: "judge is back", policy: policy(withPeople, judges), sessions: append(silentJudge(2), session(5, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, pass))), journal: pendingReview, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: proves(ops.ProofJudge)},
		{name: "a judge who works again closes his incident", row: "resolved", policy: policy(withPeople, judges), sessions: append(slices.Clone(chain), session(3, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, pass))), journal: journal(incident(7, "", func(i *ops.Incident) { i.Class = ops.ClassJudge })), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: proves(ops.ProofJudge, "7 by report")},
		// A fault of the set-up is told and opens no incident; one of an installation that worked does.
		{name: "no valid key at the set-up", row: "session failed", policy: policy(recovering), sessions: []ops.Session{lost}, journal: ops.Journal{Before: []ops.Ending{{Status: ops.CyclePartial, At: now}}}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			if s.Incident != nil {
				t.Errorf("reported %+v", s.Incident)
			}
		}},
		{name: "no agent at the set-up", row: "session failed", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed, func(s *ops.Session) { s.Failure, s.Error = ops.FailureNotFound, "not found" })}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Incident != nil {
				t.Errorf("reported %+v", s.Incident)
			}
		}},
		{name: "no valid key any more", row: "session failed", policy: policy(recovering), sessions: []ops.Session{lost}, journal: ops.Journal{Before: []ops.Ending{{Status: ops.CycleHealthy, At: now}}}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Incident == nil {
				t.Error("no incident")
			}
		}},
		// Green probes speak when nobody else can.
		{name: "before a human is called for lost agents probes look", row: "session failed", policy: policy(probed, recovering), sessions: []ops.Session{lost}, checks: []ops.Check{red}, kind: ops.StepProbe},
		{name: "what recovered meanwhile calls nobody", row: "session failed", policy: policy(probed, recovering), sessions: []ops.Session{lost}, checks: []ops.Check{red, looked("web", ops.CheckHTTP, ops.ProbeRecheck, ops.Healthy, 1)}, journal: journal(incident(7, "web", failed)), kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, says: "web recovered; nobody could look", check: func(t *testing.T, s ops.Step) {
			ends("7 by probe")(t, s)
			if s.Incident != nil || s.Notices[0].Level != ops.LevelInfo || len(s.Result) == 0 {
				t.Errorf("reported %+v, told %+v", s.Incident, s.Notices)
			}
		}},
		{name: "and is told once", row: "session failed", policy: policy(probed, recovering), sessions: []ops.Session{lost}, checks: []ops.Check{red, looked("web", ops.CheckHTTP, ops.ProbeRecheck, ops.Healthy, 1)}, journal: ops.Journal{Before: []ops.Ending{{Status: ops.CyclePartial}}}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning},
		{name: "what is still down calls a human", row: "session failed", policy: policy(probed, recovering), sessions: []ops.Session{lost}, checks: []ops.Check{red, looked("web", ops.CheckHTTP, ops.ProbeRecheck, ops.Down, 1)}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelCritical, notices: 1},
		{name: "what is still degraded is told, although the cycle before could not look either", row: "session failed", policy: policy(probed, recovering), sessions: []ops.Session{lost}, checks: []ops.Check{red, looked("web", ops.CheckHTTP, ops.ProbeRecheck, ops.Degraded, 1)}, journal: ops.Journal{Before: []ops.Ending{{Status: ops.CyclePartial}}}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1},
	}
}
