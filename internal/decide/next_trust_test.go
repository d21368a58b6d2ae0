package decide_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// trustCases are cycles in which web, or web and db, are trusted only so far.
func trustCases(now time.Time) []nextCase {
	trust := func(level ops.Trust) func(*ops.Policy) { return func(p *ops.Policy) { p.Trust = level } }
	two := func(level ops.Trust) func(*ops.Policy) {
		return func(p *ops.Policy) {
			p.Inventory.Services = append(p.Inventory.Services, ops.Service{Name: "db", Probed: true, Trust: level})
		}
	}
	found := func(service string, status ops.Health) ops.Check {
		return ops.Check{Service: service, Probe: "GET /", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: status, Error: "HTTP 503"}
	}
	lowered := func(service string, level ops.Trust) ops.Journal {
		return ops.Journal{Lowered: []ops.Lowered{{Service: service, Level: level, At: now.Add(-time.Hour)}}}
	}
	by := func(t ops.Trigger) ops.Cycle { return ops.Cycle{Trigger: t} }
	handedUp := func(from ops.Tier, plan string, services ...string) []ops.Session {
		names, _ := json.Marshal(services)
		text := fmt.Sprintf(`{"schema_version":1,"recommended_tier":%d,"services_affected":%s,"check_results":[{"service":%q,"check_type":"http","status":"down","error":"HTTP 503"}],`+
			`"cooldown_state":{},"investigation_findings":"f","remediation_attempted":"r","plan":[%s]}`, from+1, names, services[0], plan)
		parent := session(1, 1, ops.SessionCompleted, handed(2))
		s := session(ops.SessionID(from), from, ops.SessionCompleted, func(s *ops.Session) { s.HandoffJSON = json.RawMessage(text) })
		if from == 1 {
			return []ops.Session{s}
		}
		s.ParentID = &parent.ID
		return []ops.Session{parent, s}
	}
	const restart = `{"service":"web","action":"restart","reason":"r","expected_effect":"e","way_back":"w"}`
	down := []ops.Check{found("web", ops.Down)}
	incident := func(t *testing.T, step ops.Step) {
		t.Helper()
		if step.Incident == nil || !slices.Equal(step.Incident.Services, []string{"web"}) || step.Incident.Handled {
			t.Errorf("%+v", step.Incident)
		}
	}
	watched := func(name string, c nextCase) nextCase {
		c.name, c.row, c.kind, c.status = name, "trust is watch", ops.StepFinish, ops.CycleNeedsHuman
		c.level, c.notices, c.says, c.check = ops.LevelWarning, 1, "no agent was started: its trust is watch", incident
		return c
	}
	routed := func(name string, c nextCase) nextCase {
		c.name, c.row = name, "escalation proposed"
		return c
	}
	suggest := nextCase{
		policy: policy(trust(ops.TrustSuggest)), sessions: handedUp(1, "", "web"), kind: ops.StepFinish, status: ops.CycleNeedsHuman,
		level: ops.LevelWarning, notices: 1, says: "its trust is suggest", check: incident,
	}
	with := func(c nextCase, change func(*nextCase)) nextCase { change(&c); return c }
	silence := ops.Journal{Silences: []ops.Silence{{Service: "web", From: now.Add(-time.Hour), Until: now.Add(time.Hour), Reason: "x"}}}
	yes := ops.Journal{Approvals: []ops.Approval{{ID: 1, SessionID: 1, Kind: ops.ApprovalTier, Tier: 2, Handler: "tier2", Status: ops.ApprovalApproved, AnsweredBy: "ada", AnsweredAt: &now}}}
	still := ops.Journal{Standstill: &ops.Standstill{By: "ada", Reason: "the switch", At: now}}
	stopped := func(name string, c nextCase) nextCase {
		c.name, c.row, c.kind, c.journal = name, "all is stopped", ops.StepFinish, still
		c.says = "no agent was started: Claude Ops is stopped by ada"
		return c
	}
	return []nextCase{
		stopped("a failing probe while everything is stopped", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed), checks: down, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, check: incident}),
		stopped("a cycle that was queued before", nextCase{cycle: by(ops.TriggerManual), policy: policy(), status: ops.CycleCancelled, level: ops.LevelInfo}),
		stopped("a tier that was decided before", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed), checks: down, sessions: handedUp(1, "", "web"), status: ops.CycleCancelled, level: ops.LevelInfo}),
		watched("a probe finds what no agent may look at", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustWatch)), checks: down}),
		watched("also by lowering", nextCase{cycle: by(ops.TriggerAlert), policy: policy(probed), journal: lowered("web", ops.TrustWatch), checks: down}),
		watched("also when a person asks for a look and there is nothing else", nextCase{cycle: by(ops.TriggerManual), policy: policy(probed, trust(ops.TrustWatch)), checks: down}),
		watched("also in a dry run", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustWatch), func(p *ops.Policy) { p.DryRun = true }), checks: down}),
		with(watched("what the watch has told is not told again", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustWatch)), journal: ops.Journal{Notified: []string{"web"}}, checks: down}), func(c *nextCase) { c.notices = 0 }),
		{name: "a watched service that is well", row: "trust is watch", cycle: by(ops.TriggerScheduled), policy: policy(probed, trust(ops.TrustWatch)), checks: []ops.Check{found("web", ops.Healthy)}, kind: ops.StepFinish, status: ops.CycleHealthy},
		{name: "without probes nobody looks at all", row: "trust is watch", cycle: by(ops.TriggerScheduled), policy: policy(trust(ops.TrustWatch)), kind: ops.StepFinish, status: ops.CycleSuppressed, says: "watch"},
		{name: "a silenced one", row: "trust is watch", cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustWatch)), journal: silence, checks: down, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "silenced"},
		{name: "another service is looked at", row: "nothing ran", cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustWatch), two(ops.TrustSuggest)), checks: []ops.Check{found("web", ops.Down), found("db", ops.Down)}, kind: ops.StepQueue, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Left == nil || !slices.Equal(s.Left.Services, []string{"web"}) {
				t.Errorf("left to people: %+v", s.Left)
			}
		}},
		{name: "suggest lets Tier 1 look", row: "nothing ran", cycle: by(ops.TriggerProbe), policy: policy(probed, trust(ops.TrustSuggest)), checks: down, kind: ops.StepQueue},

		routed("suggest ends with a proposal", suggest),
		routed("and shows its plan", with(suggest, func(c *nextCase) {
			c.policy, c.sessions = policy(probed, acting, trust(ops.TrustSuggest)), handedUp(1, restart, "web")
			c.check = func(t *testing.T, step ops.Step) {
				t.Helper()
				incident(t, step)
				if !strings.Contains(step.Incident.Recommendation, "the agent proposes: restart of web") || !strings.Contains(step.Notices[0].Body, "restart of web") {
					t.Errorf("%q\n%s", step.Incident.Recommendation, step.Notices[0].Body)
				}
			}
		})),
		routed("an approval does not count over a level that was lowered since", with(suggest, func(c *nextCase) {
			c.journal, c.says, c.policy = yes, "its trust is suggest", policy(trust(ops.TrustSuggest))
		})),
		routed("a dry run comes first", with(suggest, func(c *nextCase) {
			c.policy.DryRun, c.status, c.says = true, ops.CycleSuppressed, "dry run is on"
		})),
		routed("the maximum tier comes first", with(suggest, func(c *nextCase) { c.policy.MaxTier, c.says, c.level = 1, "tier limit", ops.LevelWarning })),
		routed("the rest goes on", nextCase{
			policy: policy(probed, two(ops.TrustSuggest)), sessions: handedUp(1, "", "web", "db"), kind: ops.StepQueue, level: ops.LevelInfo, notices: 1, says: "hands web to tier2",
			check: func(t *testing.T, step ops.Step) {
				t.Helper()
				if !slices.Equal(step.Incident.Services, []string{"web"}) || !step.Incident.Handled || step.Left == nil || !slices.Equal(step.Left.Services, []string{"db"}) || step.Left.Handled {
					t.Errorf("%+v\n%+v", step.Incident, step.Left)
				}
			},
		}),
		routed("a silenced service beside a distrusted one", with(suggest, func(c *nextCase) {
			c.policy, c.sessions, c.journal = policy(probed, trust(ops.TrustSuggest), two("")), handedUp(1, "", "web", "db"), ops.Journal{Silences: []ops.Silence{{Service: "db", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}}
		})),
		routed("ask asks before Tier 2", nextCase{policy: policy(trust(ops.TrustAsk)), sessions: handedUp(1, "", "web"), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "trust in web is ask"}),
		routed("and starts it after a yes", nextCase{policy: policy(trust(ops.TrustAsk)), sessions: handedUp(1, "", "web"), journal: yes, kind: ops.StepQueue, level: ops.LevelInfo, says: "hands web to tier2"}),
		routed("a spent budget comes before the question", nextCase{policy: policy(trust(ops.TrustAsk), func(p *ops.Policy) { p.BudgetDayUSD = 25 }), sessions: handedUp(1, "", "web"), journal: ops.Journal{Spend: ops.Spend{DayUSD: 1000}}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "budget"}),
		routed("repair lets Tier 2 start", nextCase{policy: policy(trust(ops.TrustRepair)), sessions: handedUp(1, "", "web"), kind: ops.StepQueue, level: ops.LevelInfo}),
		routed("and asks before Tier 3", nextCase{policy: policy(trust(ops.TrustRepair)), sessions: handedUp(2, "", "web"), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "trust in web is repair"}),
		routed("full asks nobody", nextCase{policy: policy(trust(ops.TrustFull)), sessions: handedUp(2, "", "web"), kind: ops.StepQueue, level: ops.LevelInfo}),
		routed("a lower level in the database holds", nextCase{policy: policy(trust(ops.TrustFull)), journal: lowered("web", ops.TrustAsk), sessions: handedUp(1, "", "web"), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "trust in web is ask"}),
	}
}

// Without a level of trust a refuted claim costs none, with one it costs a step.
func TestARefutedClaimCostsTrust(t *testing.T) {
	for _, level := range []ops.Trust{"", ops.TrustFull} {
		p := policy(probed, func(p *ops.Policy) { p.Trust = level })
		parent := session(1, 1, ops.SessionCompleted, handed(2))
		claims := session(2, 2, ops.SessionCompleted, func(s *ops.Session) { s.ParentID, s.Outcome = &parent.ID, ops.OutcomeResolved })
		j := ops.Journal{Sessions: []ops.Session{parent, claims}, Checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, AfterSession: &claims.ID}}}
		for i := range j.Sessions {
			report.Read(&j.Sessions[i])
		}
		c := ops.Cycle{ID: 7, Status: ops.CycleRunning}
		charged(&c, &j, p)
		step := next(c, j, p, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
		if step.Row != "claim refuted" || (len(step.Reduced) == 1) != (level != "") {
			t.Errorf("%q: row %q, %+v", level, step.Row, step.Reduced)
		}
	}
}

// What an agent may change is what it was handed, as far as the levels permit: not what else is wrong, nor what nobody was asked about.
func TestNobodyChangesWhatIsNotTrusted(t *testing.T) {
	p := policy(func(p *ops.Policy) {
		p.Inventory.Services = []ops.Service{{Name: "web", Trust: ops.TrustFull}, {Name: "db", Trust: ops.TrustSuggest}, {Name: "mail", Trust: ops.TrustAsk}}
	})
	parent, repairs := session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionRunning)
	report.Read(&parent)
	now := ops.Claimed{Cycle: ops.Cycle{ID: 7, Policy: p}, Journal: ops.Journal{
		Sessions: []ops.Session{parent, repairs}, Checks: []ops.Check{{Service: "mail", Purpose: ops.ProbeObserve, Status: ops.Down}},
		Decisions: []ops.Decision{{SessionID: 1, Verdict: ops.VerdictEscalate, Services: []string{"web"}}},
	}}
	brief := decide.BriefFor(notice.Steps{}, now, repairs, time.Now())
	if held := brief.Held(); held["web"] != "" || !strings.Contains(held["db"], "suggest") {
		t.Errorf("%q", held)
	}
	if free := brief.Free(); !slices.Equal(free, []string{"web"}) {
		t.Errorf("it may change %v", free)
	}
}
