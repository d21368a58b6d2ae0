package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestChildLinkNamesTheLastAttemptToWork(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: "boom"},
		apitest.Run{Tier: 2, Attempt: 2, Retry: true, For: time.Second, Outcome: ops.OutcomeResolved},
		apitest.Run{Tier: 2, Attempt: 3, Role: ops.RoleJudge, Model: "judge-model", For: time.Second})
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, fmt.Sprintf("Escalated to Session #%d (Tier 2)", ids[2]), `<span class="role">Judge</span>`)
	mustNotContain(t, body, fmt.Sprintf("Escalated to Session #%d ", ids[3]))
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[2])), fmt.Sprintf("Escalated from Session #%d (Tier 1)", ids[0]), fmt.Sprintf("Retry of Session #%d (attempt 2)", ids[1]))
	mustContain(t, s.page("/sessions"), "Tier 2 Judge")
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[3])), "Safe remediation · Judge")
}

func TestSessionPageShowsRecoveryAndVerdict(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	s.Step(cycle, ops.Step{
		Kind: ops.StepPause, Until: s.Now,
		Recovery: &ops.Recovery{
			SessionID: ids[0], Tier: 1, Level: ops.RecoveryNudge, Action: "nudge", ErrorType: "schema<b>", EnteredAt: s.Now,
			PreviousLevels: []ops.RecoveryLevel{ops.RecoveryRetry}, Handler: "tier1", Reason: "The outcome <i>did not fit.",
		},
		Verified: &ops.Verification{
			SessionID: ids[0], JudgeSessionID: ids[0], Verdict: "CONDITIONAL", Confidence: 0.72, TotalScore: 72, At: s.Now,
			Dimensions: map[string]int{"goalAlignment": 18}, Reasoning: "It <u>looks</u> well.", FailureReasons: []string{"no proof"},
			Recommendations: []string{"look again"},
		},
	})
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, "Level 2", "<strong>nudge</strong>", "schema&lt;b&gt;", "1 retry", "The outcome &lt;i&gt;did not fit.",
		"Judge's verdict", "Conditional", "72 points, confidence 72 %", "goalAlignment", "It &lt;u&gt;looks&lt;/u&gt; well.", "no proof",
		"look again")
}

func TestSessionPageSaysHowSureTheAgentIs(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff},
		apitest.Run{Tier: 2, For: time.Second, Outcome: ops.OutcomeResolved, Report: `{"outcome":"resolved","summary":"done","confidence":0.4}`})
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "<dt>Confidence")
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[1])), "<dt>Confidence", "40 %")
}

func TestMarkdownIsRenderedAndHTMLIsNot(t *testing.T) {
	s := newSite(t)
	body := s.page(s.transcript(said("# Title\n\nSome **bold** `code`, [a link](https://example.org/x), [a bad one](javascript:alert(1)).\n\n" +
		"- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<div hx-get=\"/run\">raw</div> ![pixel](https://evil.example/p.png)\n\n```\nx < y\n```")))
	_, inside, _ := strings.Cut(body, `id="lines"`)
	mustContain(t, inside, "<p><strong>Title</strong></p>", "<strong>bold</strong>", "<code>code</code>",
		`<a href="https://example.org/x" rel="nofollow noreferrer noopener" target="_blank">a link</a>`,
		"<li>one</li>", "<td>1</td>", "x &lt; y")
	mustNotContain(t, inside, "<h1", "javascript:", `hx-get="/run"`, "<img", "evil.example")
}
