package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// The judge is told what ran and how it ended; what was refused did not run, and a claim is only a claim.
func TestAJudgeSeesWhatRanAndClaimsAsClaims(t *testing.T) {
	worker := session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) {
		s.Outcome, s.OutcomeJSON = ops.OutcomeResolved, []byte(report.OutcomeExample(2, ops.OutcomeResolved))
	})
	judge := session(3, 1, ops.SessionQueued, role(ops.RoleJudge, 2, ""))
	first := session(1, 1, ops.SessionCompleted, handed(2))
	now := ops.Claimed{Cycle: ops.Cycle{ID: 1, Policy: policy(withPeople)}, Journal: ops.Journal{
		Sessions: []ops.Session{first, worker, judge},
	}}
	for i := range now.Journal.Sessions {
		report.Read(&now.Journal.Sessions[i])
	}
	prompt, _, err := decide.BriefFor(notice.Steps{}, now, judge, time.Now()).Question([]ops.Call{
		{UseID: "a", Tool: "Bash", Input: "docker restart web", Output: "web", Returned: true},
		{UseID: "b", Tool: "Bash", Input: "docker system prune", Output: "refused", Returned: true, Refused: "never"},
		{UseID: "c", Tool: "Bash", Input: "curl web", Output: "200 OK", Returned: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"result": "200 OK"`, `"result": "refused: never"`, `"claims_of_the_agent"`, `"claimed_success": true`} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the judge is not told %s:\n%s", want, prompt)
		}
	}
	if got := strings.Count(prompt, `"allowed": true`); got != 2 {
		t.Errorf("%d calls count as allowed, want 2", got)
	}
}
