package scripted

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
)

func TestEachAttemptHasItsScript(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenario = `
tiers:
  2:
    attempts:
      - {exit: 77, no_result: true}
      - {result: second}
      - {result: ever after}
roles:
  judge: {attempts: [{result: judge one}, {result: judge two}]}
`
	for _, tt := range []struct{ runs, role, want string }{
		{"", "", "exit 77"},
		{"2/work/tier2", "judge", "judge one"}, // another role counts for itself
		{"2/work/tier2 2/judge/other", "work", "second"},
		{"2/work/tier2 2/work/tier2", "work", "ever after"},
		{"2/work/tier2 2/judge/other", "judge", "judge two"},
		{"2/work/tier2 2/work/tier2 2/work/tier2", "work", "ever after"},
	} {
		p := (&play{tier: "2", scenario: scenario, args: []string{"--session-id", uuid.NewString()}, env: []string{
			envRuns + "=" + tt.runs, envRole + "=" + tt.role,
		}}).run(t)
		got := "exit 77"
		if p.code != 77 {
			got = *p.result(t).Result
		}
		if got != tt.want {
			t.Errorf("after %q as %q: got %q, want %q (%s)", tt.runs, tt.role, got, tt.want, p.stderr)
		}
	}
}

func TestRoleAndHandlerChooseTheScript(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenario = `
tiers: {1: {result: tier}}
handlers:
  other: {result: handler}
  planner: {result: handler of the planner}
roles:
  manager: {outcome: {target: tier2, reason: it knows}, result: manager}
`
	for _, tt := range []struct{ role, handler, want string }{
		{"", "", "tier"},
		{"work", "tier1", "tier"},
		{"work", "other", "handler"},
		{"manager", "other", "manager"},
		{"planner", "planner", "handler of the planner"},
		{"judge", "tier1", ""},
	} {
		p := (&play{scenario: scenario, args: []string{"--json-schema", "{}"}, env: []string{envRole + "=" + tt.role, envHandler + "=" + tt.handler}}).run(t)
		if tt.want == "" {
			if p.code != 1 || !strings.Contains(p.stderr, `neither a role "judge" nor a handler "tier1"`) {
				t.Errorf("exit %d: %s", p.code, p.stderr)
			}
			continue
		}
		r := p.result(t)
		if *r.Result != tt.want || (tt.role == "manager") != (r.Structured["target"] == "tier2") {
			t.Errorf("%s as %q: got %q, %v", tt.handler, tt.role, *r.Result, r.Structured)
		}
	}
}

func TestAFailureOfTheAPIIsToldLikeTheRealOne(t *testing.T) {
	t.Chdir(t.TempDir())
	p := (&play{scenario: "tiers: {1: {api_status: 429, retry_after: 3s, stderr: oops, outcome: {a: 1}}}", args: []string{"--json-schema", "{}"}}).run(t)
	r := p.result(t)
	if p.code != 1 || !r.IsError || r.Subtype != "success" || r.TerminalReason != "api_error" || r.Structured != nil || p.stderr != "oops\n" {
		t.Errorf("exit %d, %+v, %q", p.code, r, p.stderr)
	}
	all := strings.Join(p.lines, "")
	for _, want := range []string{`"subtype":"api_retry","attempt":1,"max_retries":1,"retry_delay_ms":3000,"error_status":429,"error":"rate_limit"`, `"api_error_status":429`, `"model":"<synthetic>"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, all)
		}
	}
	p = (&play{scenario: "tiers: {1: {subtype: error_max_turns, result: too many}}"}).run(t)
	if r := p.result(t); p.code != 1 || !r.IsError || r.Subtype != "error_max_turns" || !slices.Equal(r.Errors, []string{"too many"}) || r.Result != nil {
		t.Errorf("exit %d, %+v", p.code, r)
	}
}

func TestAScriptBeyondItsBudgetLosesItsAnswer(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenario = "tiers: {1: {cost_usd: 0.3, steps: [{bash: 'echo x'}], result: done}}"
	p := (&play{scenario: scenario, args: []string{"--max-budget-usd", "0.25"}}).run(t)
	if r := p.result(t); p.code != 1 || !r.IsError || r.Subtype != "error_max_budget_usd" || r.Result != nil || *r.TotalCostUSD != 0.3 || len(p.answers()) != 1 {
		t.Errorf("exit %d, %+v", p.code, r)
	}
	if p := (&play{scenario: scenario, args: []string{"--max-budget-usd", "0.3"}}).run(t); p.code != 0 {
		t.Errorf("exit %d: %s", p.code, p.stderr)
	}
	for _, wrong := range []string{"0", "-1", "much", "NaN"} {
		if p := (&play{scenario: scenario, args: []string{"--max-budget-usd=" + wrong}}).run(t); p.code != 1 || !strings.Contains(p.stderr, "positive number") {
			t.Errorf("%s: exit %d: %s", wrong, p.code, p.stderr)
		}
	}
}

func TestARepetitionIsToldCallByCall(t *testing.T) {
	t.Chdir(t.TempDir())
	p := (&play{scenario: `
tiers:
  1:
    steps:
      - repeat: 3
        steps:
          - bash: echo same
          - bash: echo x >> n; wc -l < n
      - repeat: 5
        steps:
          - finish: {result: at once}
`}).run(t)
	var calls, outputs []string
	usage := 0
	for _, line := range p.lines {
		for _, a := range claude.New(claude.Options{}).Activities(line) {
			switch a.Kind {
			case ops.ActivityCall:
				calls = append(calls, a.Tool+a.Input)
			case ops.ActivityResult:
				outputs = append(outputs, a.Output)
			case ops.ActivityUsage:
				usage++
			}
		}
	}
	if !slices.Equal(outputs, []string{"same", "1", "same", "2", "same", "3"}) || len(calls) != 6 || calls[0] != `Bash{"command":"echo same"}` || usage != 7 {
		t.Errorf("calls %q, outputs %q, %d usages", calls, outputs, usage)
	}
	if r := p.result(t); *r.Result != "at once" {
		t.Errorf("got %+v", r)
	}
}
