package realcli_test

import (
	"os"
	"path/filepath"
	"strings"
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

// TestTheBudgetCountsTheRunAlone holds that a continued conversation does not count: the limit is the run's own.
func TestTheBudgetCountsTheRunAlone(t *testing.T) {
	t.Parallel()
	c := newCLI(t, costly)
	call := c.fresh(first, "once", "haiku", "Bash").succeeded().Cost
	if call <= 0 {
		t.Fatal("a call costs nothing")
	}
	limit := format(2.5 * call)
	before := len(c.api.Requests())
	out := c.fork(first, second, "on and on", "haiku", "Bash", append([]string{"--max-budget-usd", limit}, snapshotOff...)...)
	r := out.result()
	if out.code != 1 || !r.IsError || r.Subtype != "error_max_budget_usd" || r.Reason != "budget_exhausted" || r.Text != "" ||
		len(r.Errors) != 1 || !strings.HasPrefix(r.Errors[0], "Reached maximum budget ($") {
		t.Errorf("result: %+v", r)
	}
	// Were the parent's call counted, two calls would be too many.
	if n := len(c.api.Requests()) - before; n != 3 {
		t.Errorf("%d calls were made", n)
	}
	for _, own := range r.Own {
		if !near(own.Cost, 3*call) {
			t.Errorf("the run spent %v, a call costs %v", own.Cost, call)
		}
	}
	if !near(r.Cost, 4*call) {
		t.Errorf("the total is %v", r.Cost)
	}
	// What the last answer asks for is not done.
	if done, err := os.ReadFile(filepath.Join(c.dir, "calls")); err != nil || string(done) != "x\nx\n" {
		t.Errorf("the tool ran: %q, %v", done, err)
	}
	// A continued conversation that stays below its own limit ends well, whatever it had cost before.
	c.fork(first, third, "once", "haiku", "Bash", "--max-budget-usd", format(1.2*call)).succeeded()
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
