package realcli_test

import (
	"testing"

	"claudeops/test/messagesapi"
)

// costly costs the same with every call, and calls a tool until it is asked to say something once.
func costly(req messagesapi.Request) messagesapi.Answer {
	took := messagesapi.Usage{Input: 100_000, Output: 1000}
	if req.Prompt() == "once" {
		return messagesapi.Text("the answer").Took(took)
	}
	return messagesapi.Bash("", "echo x >> calls").Took(took)
}

func TestAnAnswerBeyondTheBudgetIsLost(t *testing.T) {
	t.Parallel()
	c := newCLI(t, costly)
	out := c.fresh(first, "once", "haiku", "Bash", "--max-budget-usd", "0.0001")
	r := out.result()
	if out.code != 1 || r.Subtype != "error_max_budget_usd" || r.Text != "" || len(c.api.Requests()) != 1 || r.Cost < 0.001 {
		t.Errorf("%d calls, result: %+v", len(c.api.Requests()), r)
	}
}
