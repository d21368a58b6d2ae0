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

// denialCases are cycles of an environment in which a human has said no to Tier 2 for web, which answered 502.
func denialCases(now time.Time) []nextCase {
	no := func(change ...func(*ops.Approval)) ops.Journal {
		a := ops.Approval{
			ID: 5, CycleID: 9, SessionID: 90, Kind: ops.ApprovalTier, Tier: 2, Handler: "tier2", Status: ops.ApprovalDenied, AnsweredBy: "ada",
			AnsweredAt: ops.Ptr(now.Add(-time.Hour)), DeniedUntil: ops.Ptr(now.Add(time.Hour)),
			Facts: []ops.Fact{{Service: "web", Probe: "GET /", Type: ops.CheckHTTP, Class: "5xx"}, {Service: "web", Probe: "alert Down 1", Type: ops.CheckService, Class: "down"}},
		}
		for _, c := range change {
			c(&a)
		}
		return ops.Journal{Denials: []ops.Approval{a}}
	}
	found := func(service, failure string) ops.Check {
		return ops.Check{Service: service, Probe: "GET /", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down, Error: failure}
	}
	bad := []ops.Check{found("web", "HTTP 503 Service Unavailable")}
	alert := []ops.Check{{Service: "web", Probe: "alert Down 1", Type: ops.CheckService, Purpose: ops.ProbeAlert, Status: ops.Down, Error: "HTTP 404, says somebody"}, {Service: "web", Probe: "GET /", Purpose: ops.ProbeObserve, Status: ops.Healthy}}
	by := func(t ops.Trigger) ops.Cycle { return ops.Cycle{Trigger: t} }
	scheduled := by(ops.TriggerScheduled)
	gate := func(p *ops.Policy) { p.ApprovalTier = 2 }
	two := func(p *ops.Policy) {
		p.Inventory.Services = append(p.Inventory.Services, ops.Service{Name: "db", Probed: true})
	}
	quiet := policy(probed, probesFirst, gate)
	handedUp := func(services string, plan ...string) []ops.Session {
		var steps []string
		for _, action := range plan {
			steps = append(steps, fmt.Sprintf(`{"service":"web","action":%q,"reason":"r","expected_effect":"e","way_back":"w"}`, action))
		}
		text := fmt.Sprintf(`{"schema_version":1,"recommended_tier":2,"services_affected":%s,"check_results":[{"service":"web","check_type":"http","status":"down","error":"other words every time"}],"cooldown_state":{},"plan":[%s]}`, services, strings.Join(steps, ","))
		return []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.HandoffJSON = json.RawMessage(text) })}
	}
	acts := policy(probed, probesFirst, gate, acting, func(p *ops.Policy) {
		restart := p.Inventory.Services[0].Actions[0]
		restart.Name, restart.Run = "wipe", []string{"/bin/wipe"}
		p.Inventory.Services[0].Actions = append(p.Inventory.Services[0].Actions, restart)
	})
	planned := func(digest string) func(*ops.Approval) {
		return func(a *ops.Approval) {
			a.Plan = []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}, Digest: digest}}
		}
	}
	same := planned(acts.Inventory.Services[0].Actions[0].Digest())
	ends := func(name string, c nextCase) nextCase { // without an agent
		c.name, c.row, c.kind, c.status, c.level = name, "no lasts", ops.StepFinish, ops.CycleSuppressed, ops.LevelInfo
		c.says = "no agent was started: web: ada said no to tier2 on 2026-05-01T11:00:00Z, until 2026-05-01T13:00:00Z"
		return c
	}
	looks := func(name string, c nextCase) nextCase { // with Tier 1
		c.name, c.row, c.kind = name, "nothing ran", ops.StepQueue
		return c
	}
	asks := func(name string, c nextCase) nextCase {
		c.name, c.row, c.kind, c.level, c.notices = name, "escalation proposed", ops.StepAwait, ops.LevelWarning, 1
		return c
	}
	held := func(name string, c nextCase) nextCase { // at the escalation
		c.name, c.row, c.kind, c.status, c.level = name, "escalation proposed", ops.StepFinish, ops.CycleSuppressed, ops.LevelInfo
		c.says = "web (ada said no to tier2"
		return c
	}
	about := func(services ...string) func(*testing.T, ops.Step) {
		return func(t *testing.T, s ops.Step) {
			if s.Decision == nil || !slices.Equal(s.Decision.Services, services) {
				t.Errorf("decided %+v, want it to be about %v", s.Decision, services)
			}
		}
	}
	return []nextCase{
		ends("a no lasts for the schedule", nextCase{cycle: scheduled, policy: quiet, checks: bad, journal: no()}),
		ends("a no lasts for a failing probe", nextCase{cycle: by(ops.TriggerProbe), policy: quiet, checks: bad, journal: no()}),
		ends("a no lasts for an alert, whatever its words are", nextCase{cycle: by(ops.TriggerAlert), policy: quiet, checks: alert, journal: no()}),
		ends("a no lasts in a dry run", nextCase{cycle: scheduled, policy: policy(probed, probesFirst, func(p *ops.Policy) { p.DryRun = true }), checks: bad, journal: no()}),
		ends("a no lasts beside what is silenced", nextCase{cycle: scheduled, policy: policy(probed, probesFirst, two), checks: []ops.Check{bad[0], found("db", "HTTP 500")}, journal: func() ops.Journal {
			j := no()
			j.Silences = []ops.Silence{{Service: "db", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}
			return j
		}()}),
		ends("a no lasts while its actions are the same", nextCase{cycle: scheduled, policy: acts, checks: bad, journal: no(same)}),
		looks("a person who asks gets a look", nextCase{cycle: by(ops.TriggerManual), policy: quiet, checks: bad, journal: no()}),
		looks("so does one who asks by the API", nextCase{cycle: by(ops.TriggerAPI), policy: quiet, checks: bad, journal: no()}),
		held("but the tier is not asked about again", nextCase{cycle: by(ops.TriggerManual), policy: quiet, checks: bad, journal: no(), sessions: handedUp(`["web"]`)}),
		held("nor does it start without a gate", nextCase{cycle: by(ops.TriggerManual), policy: policy(probed), checks: bad, journal: no(), sessions: handedUp(`["web-1"]`)}),
		held("nor by the other mode", nextCase{cycle: by(ops.TriggerManual), policy: policy(probed, func(p *ops.Policy) { p.Mode = ops.ContextResume }), checks: bad, journal: no(), sessions: handedUp(`["web"]`)}),
		held("nor for the same action", nextCase{cycle: by(ops.TriggerManual), policy: acts, checks: bad, journal: no(same), sessions: handedUp(`["web"]`, "restart")}),
		held("nor for a name that means nothing", nextCase{cycle: by(ops.TriggerManual), policy: acts, checks: bad, journal: no(same), sessions: handedUp(`["web"]`, "sing")}),
		looks("another class of failure is another matter", nextCase{cycle: scheduled, policy: quiet, checks: []ops.Check{found("web", "HTTP 404 Not Found")}, journal: no()}),
		looks("so is another way to fail", nextCase{cycle: scheduled, policy: quiet, checks: []ops.Check{found("web", "connection refused")}, journal: no()}),
		looks("so is another probe", nextCase{cycle: scheduled, policy: quiet, checks: append(slices.Clone(bad), ops.Check{Service: "web", Probe: "container web", Type: ops.CheckContainer, Purpose: ops.ProbeObserve, Status: ops.Down}), journal: no()}),
		looks("so is another service", nextCase{cycle: scheduled, policy: policy(probed, probesFirst, two), checks: []ops.Check{bad[0], found("db", "HTTP 500")}, journal: no()}),
		looks("so is an action that was changed", nextCase{cycle: scheduled, policy: acts, checks: bad, journal: no(planned("as it was"))}),
		looks("a no ends with its time", nextCase{cycle: scheduled, policy: quiet, checks: bad, journal: no(func(a *ops.Approval) { a.DeniedUntil = &now })}),
		looks("an agent's own look is not for it", nextCase{cycle: scheduled, policy: policy(probed, probesFirst, func(p *ops.Policy) { p.ObserveEvery = time.Hour }), checks: bad, journal: no()}),
		looks("nor is the look of Tier 1 at every tick", nextCase{cycle: scheduled, policy: policy(probed), checks: bad, journal: no()}),
		asks("another action is asked about", nextCase{cycle: by(ops.TriggerManual), policy: acts, checks: bad, journal: no(same), sessions: handedUp(`["web"]`, "wipe"), check: about("web")}),
		asks("only the other service is asked about", nextCase{cycle: by(ops.TriggerProbe), policy: policy(probed, two, gate), checks: []ops.Check{bad[0], found("db", "HTTP 500")}, journal: no(), sessions: handedUp(`["web","db"]`), check: func(t *testing.T, s ops.Step) {
			about("db")(t, s)
			if want := []ops.Fact{{Service: "db", Probe: "GET /", Type: ops.CheckHTTP, Class: "5xx"}}; s.Approval == nil || !slices.Equal(s.Approval.Facts, want) {
				t.Errorf("asked %+v", s.Approval)
			}
		}}),
		{name: "a later yes counts over it", row: "escalation proposed", cycle: by(ops.TriggerManual), policy: quiet, checks: append(slices.Clone(bad), ops.Check{Service: "web", Probe: "GET /", Type: ops.CheckHTTP, Purpose: ops.ProbeRecheck, Status: ops.Down, Error: "HTTP 502", AfterSession: ops.Ptr(ops.SessionID(1))}), sessions: handedUp(`["web"]`), journal: func() ops.Journal {
			j := no()
			j.Approvals = approval(ops.ApprovalApproved, func(a *ops.Approval) { a.AnsweredAt, a.Facts = &now, []ops.Fact{{Service: "web"}} }).Approvals
			return j
		}(), kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		held("what only an agent sees is compared without its words", nextCase{cycle: scheduled, policy: policy(gate), sessions: handedUp(`["web"]`), journal: no(func(a *ops.Approval) {
			a.Facts = []ops.Fact{{Service: "web", Type: ops.CheckHTTP, Class: "down"}}
		})}),
		asks("if it reports another state, somebody is asked", nextCase{cycle: scheduled, policy: policy(gate), sessions: handedUp(`["web"]`), journal: no(func(a *ops.Approval) {
			a.Facts = []ops.Fact{{Service: "web", Type: ops.CheckHTTP, Class: "degraded"}}
		})}),
	}
}
