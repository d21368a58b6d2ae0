package browsertest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestTheStoryOfAnIncidentIsAccessible(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	report := &ops.IncidentReport{
		Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{"jellyfin"}, Waits: true,
		Titles: map[string]string{"jellyfin": "jellyfin: HTTP 502"}, Findings: "the database is locked", Recommendation: "approve or deny Tier 3",
		Checks: []ops.CheckResult{{Service: "jellyfin", CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502"}},
	}
	j.play(j.begin(ops.NewCycle{Environment: "default"}), ops.Step{
		Kind: ops.StepAwait, Reason: "Tier 3 needs approval", Incident: report,
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: "two restarts did not help"},
	}, run{handler: fixer, takes: time.Minute, outcome: ops.OutcomeEscalate, handoff: handoff(3, "jellyfin"), cost: 0.33, turns: 5})
	lookAtAll(t, serve(t, j.store).base(), []sight{
		{name: "incident that waits for a human", path: "/incidents/1"},
		{name: "run again", path: "/incidents/1", then: `document.querySelector('#run-1').showModal()`},
		{name: "open incidents", path: "/incidents?tab=open"},
	})
}
