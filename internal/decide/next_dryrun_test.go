package decide_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func dry(p *ops.Policy) { p.DryRun = true }

// open is an open incident of web that people were called about, as the last cycle reported it.
func open(report ops.IncidentReport) ops.Journal {
	raw, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	return ops.Journal{Incidents: []ops.Incident{{
		ID: 7, Service: "web", Class: "down", Status: ops.IncidentOpen, LastCycle: 99, CalledAt: &time.Time{}, Report: raw,
	}}}
}

// would checks what the step says would have been done.
func would(texts ...string) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		t.Helper()
		if s.Incident == nil || !s.Incident.DryRun || s.Incident.Waits || s.Incident.Class != "down" || len(s.Incident.Services) != 1 {
			t.Fatalf("the incident is %+v", s.Incident)
		}
		for _, text := range texts {
			if !strings.Contains(s.Incident.Recommendation, text) {
				t.Errorf("the incident recommends %q, not %q", s.Incident.Recommendation, text)
			}
			if len(s.Notices) > 0 && !strings.Contains(s.Notices[0].Body, text) {
				t.Errorf("the notice does not say %q:\n%s", text, s.Notices[0].Body)
			}
		}
		for _, n := range s.Notices {
			if n.Kind != ops.NoticeBlocked || !strings.Contains(n.Body, "CLAUDEOPS_DRY_RUN") || !strings.Contains(n.Body, "claudeops run") {
				t.Errorf("the notice is %+v", n)
			}
		}
	}
}

func dryRunCases() []nextCase {
	found := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}
	plan := []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
		s.HandoffJSON = []byte(strings.TrimSuffix(string(handoffJSON(2)), "}") +
			`,"plan":[{"service":"web","action":"restart","reason":"it hangs","expected_effect":"it answers","way_back":"none"}]}`)
	})}
	silenced := ops.Journal{Silences: []ops.Silence{{Service: "web", Author: "ada", Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}}
	row := func(name string, c nextCase) nextCase {
		c.name, c.row, c.kind, c.status = name, "escalation proposed", ops.StepFinish, ops.CycleSuppressed
		if c.sessions == nil {
			c.sessions = found
		}
		if c.level == "" {
			c.level = ops.LevelWarning
		}
		return c
	}
	return []nextCase{
		row("a dry run tells what it found and what would have been done", nextCase{policy: policy(dry), notices: 1, check: would("Tier 2 (tier2) takes over: restart services")}),
		row("a dry run where a human is asked", nextCase{policy: policy(dry, func(p *ops.Policy) { p.ApprovalTier = 2 }), notices: 1, check: would("you are asked whether Tier 2 (tier2) may start")}),
		row("a dry run with a plan", nextCase{policy: policy(dry, probed, acting, func(p *ops.Policy) { p.ApprovalTier = 2 }), sessions: plan, notices: 1, check: would("you are asked whether the plan may run: restart of web")}),
		row("a dry run beside a rule that objects too", nextCase{policy: policy(dry, func(p *ops.Policy) { p.MaxTier = 1 }), notices: 1, check: would("blocked by the tier limit")}),
		row("a dry run tells once while it lasts", nextCase{policy: policy(dry), journal: open(ops.IncidentReport{DryRun: true}), check: would("takes over")}),
		row("a dry run does not repeat what people were called for", nextCase{policy: policy(dry), journal: open(ops.IncidentReport{}), check: would("takes over")}),
		row("a dry run does not repeat what the watch told", nextCase{policy: policy(dry), cycle: ops.Cycle{Trigger: ops.TriggerProbe}, journal: ops.Journal{Notified: []string{"db", "web"}}, check: would("takes over")}),
		row("a dry run tells what the watch did not", nextCase{policy: policy(dry), cycle: ops.Cycle{Trigger: ops.TriggerProbe}, journal: ops.Journal{Notified: []string{"db"}}, notices: 1, check: would("takes over")}),
		row("a dry run of one cycle calls nobody", nextCase{policy: policy(dry), cycle: ops.Cycle{Options: ops.CycleOptions{DryRun: true}}, check: func(t *testing.T, s ops.Step) {
			if !s.Incident.Handled || !strings.Contains(s.Incident.Recommendation, "run the cycle again without dry run") {
				t.Errorf("the incident is %+v", s.Incident)
			}
		}}),
		row("a dry run opens nothing for what is held back", nextCase{policy: policy(dry), journal: silenced, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if s.Incident != nil {
				t.Errorf("the incident is %+v", s.Incident)
			}
		}}),
		{
			name: "what was only told in a dry run is told when it needs a human", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.MaxTier = 1 }), sessions: found,
			journal: open(ops.IncidentReport{DryRun: true}), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1,
		},
	}
}
