package decide_test

import (
	"testing"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

func TestTheProblemOfASessionIsWhatItReportsAsUnhealthy(t *testing.T) {
	t.Parallel()
	well := ops.CheckResult{Service: "web", Status: ops.Healthy}
	down := ops.CheckResult{Service: "redis", Status: ops.Down, Error: "dial tcp 127.0.0.1:6379: connect: connection refused"}
	slow := ops.CheckResult{Service: "db", Status: ops.Degraded, Error: "slow"}
	handoff := func(affected []string, results ...ops.CheckResult) *ops.Proposal {
		return &ops.Proposal{Handoff: &ops.Handoff{ServicesAffected: affected, CheckResults: results}}
	}
	for name, c := range map[string]struct {
		session ops.Session
		want    string
	}{
		"healthy":            {ops.Session{Outcome: ops.OutcomeHealthy, Report: &ops.Outcome{CheckResults: []ops.CheckResult{well, slow}}}, ""},
		"handoff":            {ops.Session{Outcome: ops.OutcomeEscalate, Proposal: handoff([]string{"redis"}, well, down)}, "redis: connection refused"},
		"affected first":     {ops.Session{Outcome: ops.OutcomeEscalate, Proposal: handoff([]string{"redis"}, slow, down)}, "redis: connection refused and 1 more"},
		"affected, no check": {ops.Session{Outcome: ops.OutcomeEscalate, Proposal: handoff([]string{"cron"}, well)}, "cron: needs attention"},
		"invalid handoff":    {ops.Session{Outcome: ops.OutcomeEscalate, Proposal: &ops.Proposal{Problems: []string{"no"}}}, ""},
		"asks for a human":   {ops.Session{Outcome: ops.OutcomeNeedsHuman, Report: &ops.Outcome{CheckResults: []ops.CheckResult{well, down}}}, "redis: connection refused"},
		"inconclusive":       {ops.Session{Outcome: ops.OutcomeInconclusive, Report: &ops.Outcome{CheckResults: []ops.CheckResult{down}}}, ""},
		"a judge":            {ops.Session{Role: ops.RoleJudge, Outcome: ops.OutcomeNeedsHuman, Report: &ops.Outcome{CheckResults: []ops.CheckResult{down}}}, ""},
		"no report":          {ops.Session{Outcome: ops.OutcomeEscalate}, ""},
	} {
		c.session.Status = ops.SessionCompleted
		if got := ops.ProblemOf(decide.Troubles(c.session)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
