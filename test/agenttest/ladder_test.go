package agenttest_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// runAs starts the fake in a role.
func runAs(t *testing.T, bin, role, handler string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "-p", "x")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "CLAUDEOPS_TIER=1", "CLAUDEOPS_ROLE=" + role, "CLAUDEOPS_HANDLER=" + handler}
	out, _ := cmd.Output() // the exit code tells
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

func TestRolesHandlersAndAttemptsChooseThePlay(t *testing.T) {
	says := func(text string) agenttest.Play { return agenttest.Play{Steps: agenttest.Lines(text)} }
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: append([]agenttest.Play{
		says("judge once").At(1, 1).As("judge"), says("judge again").As("judge"), says("the other").By("other"),
	}, agenttest.InOrder(1, says("first"), says("second"), says("ever after"))...)})
	for _, tt := range []struct{ role, handler, want string }{
		{"work", "tier1", "first"},
		{"judge", "judge", "judge once"},
		{"", "tier1", "second"},
		{"judge", "judge", "judge again"},
		{"work", "other", "the other"},
		{"work", "tier1", "ever after"},
		{"work", "tier1", "ever after"},
		{"planner", "tier1", ""},
	} {
		if got, _ := runAs(t, bin, tt.role, tt.handler); got != tt.want {
			t.Errorf("%s as %s: got %q, want %q", tt.handler, tt.role, got, tt.want)
		}
	}
	if c := agenttest.Calls(t, bin)[4]; c.Role != "work" || c.Handler != "other" || c.Attempt != 3 {
		t.Errorf("got %+v", c)
	}
}

func TestEveryPlayOfTheLadderPrintsEvents(t *testing.T) {
	for name, p := range map[string]agenttest.Play{
		"rate limited": agenttest.RateLimited(3 * time.Second), "overloaded": agenttest.Overloaded(), "disconnected": agenttest.Disconnected(),
		"no model": agenttest.ModelNotFound(), "refuses": agenttest.Refuses(), "max turns": agenttest.MaxTurns(), "max budget": agenttest.MaxBudget(),
		"invalid": agenttest.InvalidOutcome(0.1), "claims": agenttest.Claims(0.1, "web"), "two decisions": agenttest.TwoDecisions(2, 0.1, "web"),
		"manager": agenttest.Manager("tier2", "why"), "planner": agenttest.Planner("disk", "clean it"), "judge": agenttest.Judge(20, 20, 20, 20),
		"loops": agenttest.Loops(8, "a"), "polls": agenttest.Polls(3, 0.1, "{}"), "busy": agenttest.Busy(3, 0), "exits": agenttest.Exits(77),
	} {
		for _, s := range p.Steps {
			if s.Out != "" && !json.Valid([]byte(s.Out)) {
				t.Errorf("%s prints what is no JSON: %s", name, s.Out)
			}
		}
	}
}

// output is the structured output of a play.
func output(t *testing.T, p agenttest.Play) []byte {
	t.Helper()
	var r struct {
		Structured json.RawMessage `json:"structured_output"`
	}
	if err := json.Unmarshal([]byte(p.Steps[len(p.Steps)-1].Out), &r); err != nil {
		t.Fatal(err)
	}
	return r.Structured
}

func TestThePlaysAreWhatTheySayTheyAre(t *testing.T) {
	if o, found := report.Outcome(output(t, agenttest.Claims(0.1, "web")), ops.Tier2); !found.OK() || o.Kind != ops.OutcomeResolved {
		t.Errorf("a claim: %+v", found)
	}
	for name, p := range map[string]agenttest.Play{"invalid": agenttest.InvalidOutcome(0.1), "two decisions": agenttest.TwoDecisions(2, 0.1, "web")} {
		if _, found := report.Outcome(output(t, p), ops.Tier2); found.OK() {
			t.Errorf("%s was accepted", name)
		}
	}
	for want, p := range map[judge.Verdict]agenttest.Play{
		judge.Pass: agenttest.Judge(20, 20, 20, 20), judge.Conditional: agenttest.Judge(15, 15, 15, 17), judge.Fail: agenttest.Judge(25, 25, 7, 25),
	} {
		if got, problems := judge.Parse(output(t, p)); len(problems) > 0 || got.Verdict != want {
			t.Errorf("want %s, got %+v, %v", want, got, problems)
		}
	}
}

func TestABusyRunEndsAtABoundary(t *testing.T) {
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Busy(500, 20*time.Millisecond)}})
	cmd := exec.CommandContext(t.Context(), bin, "-p", "x")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var calls, answers int
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		calls += strings.Count(last, `"tool_use"`)
		answers += strings.Count(last, `"tool_result"`)
		if calls == 3 && answers == 2 {
			// In the middle of the third command.
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // the exit code tells
	if calls != answers || calls >= 500 || !strings.Contains(last, "aborted_tools") || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%d calls, %d answers, exit %d, last %s", calls, answers, cmd.ProcessState.ExitCode(), last)
	}
}
