package realcli_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

// runner is the supervisor's own runner with the real program.
type runner struct {
	t      *testing.T
	api    *messagesapi.Server
	runner *agent.Runner
	state  string
	env    []string
	lines  []string
}

func newRunner(t *testing.T, script messagesapi.Script, env ...string) *runner {
	t.Helper()
	r := &runner{t: t, api: messagesapi.New(t, script), runner: agent.NewRunner(claude.New(claude.Options{Bin: realcli.Path(t)}), agent.Options{}), state: t.TempDir()}
	r.env = append(realcli.Env(t, r.api.URL()), env...)
	return r
}

// Started is part of ops.Recorder.
func (*runner) Started(context.Context, int, string) error { return nil }

// Lines is part of ops.Recorder.
func (r *runner) Lines(_ context.Context, lines []ops.Line) error {
	for _, l := range lines {
		r.lines = append(r.lines, l.Text)
	}
	return nil
}

// run runs one session; change says what is special about it.
func (r *runner) run(prompt string, change func(*ops.SessionSpec)) ops.RunResult {
	r.t.Helper()
	r.lines = nil
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 1, CycleID: 1, Tier: ops.Tier1, Model: "haiku", Key: uuid.NewString(), PlannedID: uuid.NewString()},
		Prompt:  prompt, StateDir: r.state, Env: r.env, Tools: ops.ToolLists{Tools: []string{"Bash"}, Allowed: []string{"Bash"}},
		Limits: ops.Limits{Wall: patience, Grace: 10 * time.Second},
	}
	if change != nil {
		change(&spec)
	}
	return r.runner.Run(r.t.Context(), spec, r)
}

func TestTheRunnerTellsFailuresOfTheAPIApart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script messagesapi.Script
		class  ops.FailureClass
		status int
		after  time.Duration
	}{
		"429":                   {always(429, "slow down"), "api_error", 429, 0},
		"429, back in 3 s":      {messagesapi.InOrder(messagesapi.Fail(429, "slow down").RetryAfter(3 * time.Second)), "api_error", 429, 3 * time.Second},
		"429, back in 61 s":     {messagesapi.InOrder(messagesapi.Fail(429, "slow down").RetryAfter(61 * time.Second)), "api_error", 429, time.Minute},
		"529":                   {always(529, "Overloaded"), "api_error", 529, 0},
		"401":                   {always(401, "invalid x-api-key"), "api_error", 401, 0},
		"404":                   {always(404, "model: x"), "model_not_found", 404, 0},
		"413":                   {always(413, "request too large"), "prompt_too_long", 413, 0},
		"prompt too long":       {always(400, "prompt is too long: 210000 tokens > 200000 maximum"), "prompt_too_long", 400, 0},
		"no credit":             {always(400, "Your credit balance is too low to access the Anthropic API."), "billing", 400, 0},
		"no connection":         {messagesapi.InOrder(messagesapi.Drop()), "api_error", 502, 0}, // as the key proxy says it
		"output limit":          {messagesapi.InOrder(messagesapi.Text("half").Because("max_tokens")), "output_limit", 0, 0},
		"context window":        {messagesapi.InOrder(messagesapi.Text("half").Because("model_context_window_exceeded")), "prompt_too_long", 0, 0},
		"refusal":               {messagesapi.InOrder(messagesapi.Text("no").Because("refusal")), "refusal", 0, 0},
		"no structured output":  {messagesapi.InOrder(messagesapi.Structured("", raw(`{}`))), "structured_output", 0, 0},
		"a service that is 529": {messagesapi.Turns(messagesapi.Bash("", "echo 'API Error: 529 overloaded_error'; exit 1"), messagesapi.Text("529 Overloaded, 404")), "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, tc.script, "CLAUDE_CODE_MAX_RETRIES=1")
			res := r.run("look around", func(s *ops.SessionSpec) {
				if tc.class == "structured_output" {
					s.OutcomeJSON = `{"type":"object","required":["a"]}`
				}
			})
			status := 0
			if res.APIStatus != nil {
				status = *res.APIStatus
			}
			// The CLI adds up to a quarter to what the API asked for.
			after := res.RetryAfter >= tc.after && res.RetryAfter <= tc.after*5/4
			if res.Failure != tc.class || status != tc.status || !after || res.Stop != ops.StopNone {
				t.Errorf("got %q, status %d, after %v: %s\n%s", res.Failure, status, res.RetryAfter, res.Err, strings.Join(r.lines, "\n"))
			}
		})
	}
}

func TestTheRunnersBudgetHoldsForAContinuedConversation(t *testing.T) {
	t.Parallel()
	r := newRunner(t, costly)
	parent := r.run("once", nil)
	if !parent.Success() || parent.CostUSD == nil {
		t.Fatalf("got %+v", parent)
	}
	call := *parent.CostUSD
	res := r.run("on and on", func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.SpentUSD, s.BudgetUSD = parent.CLISessionID, parent.Conversation, parent.ReportedUSD, 2.5*call
	})
	if res.Failure != ops.FailureMaxBudget || res.CostUSD == nil || !near(*res.CostUSD, 3*call) {
		t.Errorf("a call costs %v, got %+v", call, res)
	}
}

// TestTheLiveEstimateComesCloseToTheBill compares what the stream lets us guess with what the program says at its end.
func TestTheLiveEstimateComesCloseToTheBill(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("four", 2000)
	r := newRunner(t, messagesapi.Turns(
		messagesapi.Text(words).Call("toolu_a", "Bash", map[string]any{"command": "echo a"}).Took(messagesapi.Usage{Input: 20_000, Output: 2020, CacheRead: 50_000, CacheWrite: 8000}),
		messagesapi.Text(words).Took(messagesapi.Usage{Input: 30_000, Output: 2000}),
	))
	// The program's own prices of the model, as its bills show them.
	prices := ops.Prices{"haiku": {Input: 0.1, Output: 0.5, CacheRead: 0.01, CacheWrite: 0.125}}
	estimate, last := agent.NewEstimate(prices), 0.0
	var told []string
	res := r.run("look around", func(s *ops.SessionSpec) {
		s.Watch = func(a ops.Activity) *ops.Halt {
			last = estimate.Add(a)
			told = append(told, fmt.Sprint(a.Kind, " ", a.Tool, " ", a.UseID, a.Output))
			return nil
		}
	})
	if !res.Success() || res.CostUSD == nil {
		t.Fatalf("got %+v", res)
	}
	if off := math.Abs(last-*res.CostUSD) / *res.CostUSD; off > 0.02 {
		t.Errorf("estimated %v, it was %v", last, *res.CostUSD)
	}
	want := []string{"usage  ", "usage  ", "call Bash toolu_a", "result Bash toolu_aa", "usage  "}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestTheWatcherStopsTheRealProgramAtABoundary(t *testing.T) {
	t.Parallel()
	r := newRunner(t, func(req messagesapi.Request) messagesapi.Answer {
		if req.Turn() < 2 {
			return messagesapi.Bash("toolu_"+strconv.Itoa(req.Turn()), "echo turn")
		}
		return messagesapi.Hang()
	})
	calls := 0
	res := r.run("look around", func(s *ops.SessionSpec) {
		s.Watch = func(a ops.Activity) *ops.Halt {
			if a.Kind != ops.ActivityCall {
				return nil
			}
			if calls++; calls < 2 {
				return nil
			}
			return &ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true}
		}
	})
	if res.Stop != ops.StopBudget || res.Failure != "budget" || res.OpenTool != "" {
		t.Errorf("got %+v", res)
	}
	results := 0
	for _, line := range r.lines {
		for _, a := range r.runner.Activities(line) {
			if a.Kind == ops.ActivityResult && a.Output == "turn" {
				results++
			}
		}
	}
	if results != 2 {
		t.Errorf("%d calls ended by themselves\n%s", results, strings.Join(r.lines, "\n"))
	}
}

func TestTheWatcherStopsTheRealProgramInsideATool(t *testing.T) {
	t.Parallel()
	r := newRunner(t, messagesapi.InOrder(messagesapi.Bash("toolu_a", "sleep 600")))
	res := r.run("look around", func(s *ops.SessionSpec) {
		s.Watch = func(a ops.Activity) *ops.Halt {
			if a.Kind == ops.ActivityCall {
				return &ops.Halt{Cause: ops.StopLoop, Why: "the same again"}
			}
			return nil
		}
	})
	open := res.OpenTool == "Bash: sleep 600" || res.OpenTool == "" && res.ResultRead // it may still end its tool and say so
	if res.Stop != ops.StopLoop || res.Failure != "loop" || res.Err != "the same again" || !open {
		t.Errorf("got %+v", res)
	}
}

// costly costs the same with every call, and calls a tool until it is asked to say something once.
func costly(req messagesapi.Request) messagesapi.Answer {
	took := messagesapi.Usage{Input: 100_000, Output: 1000}
	if req.Prompt() == "once" {
		return messagesapi.Text("the answer").Took(took)
	}
	return messagesapi.Bash("", "echo x >> calls").Took(took)
}

func TestCLI_AnAnswerBeyondTheBudgetIsLost(t *testing.T) {
	t.Parallel()
	c := newCLI(t, costly)
	out := c.fresh(first, "once", "haiku", "Bash", "--max-budget-usd", "0.0001")
	r := out.result()
	if out.code != 1 || r.Subtype != "error_max_budget_usd" || r.Text != "" || len(c.api.Requests()) != 1 || r.Cost < 0.001 {
		t.Errorf("%d calls, result: %+v", len(c.api.Requests()), r)
	}
}

func TestCLI_APIFailures(t *testing.T) {
	t.Parallel()
	const busy = 529
	none := 0
	for name, tc := range map[string]struct {
		script  messagesapi.Script
		env     string
		calls   string // S streamed, w whole
		status  int    // as the result tells it
		class   string // as the last message of the CLI tells it
		reason  string
		words   string
		retries int
	}{
		"401, no retry":       {always(401, "invalid x-api-key"), "CLAUDE_CODE_MAX_RETRIES=0", "S", 401, "authentication_failed", "api_error", "Invalid API key", 0},
		"401, one retry":      {always(401, "invalid x-api-key"), "CLAUDE_CODE_MAX_RETRIES=1", "SS", 401, "authentication_failed", "api_error", "Invalid API key", 1},
		"401, two retries":    {always(401, "invalid x-api-key"), "CLAUDE_CODE_MAX_RETRIES=2", "SSS", 401, "authentication_failed", "api_error", "Invalid API key", 2},
		"403":                 {always(403, "not yours"), "", "S", 403, "authentication_failed", "api_error", "403 not yours", 0},
		"404":                 {always(404, "model: x"), "", "Sw", 404, "model_not_found", "api_error", "issue with the selected model", 0},
		"prompt too long":     {always(400, "prompt is too long: 210000 tokens > 200000 maximum"), "", "S", 400, "invalid_request", "prompt_too_long", "Prompt is too long", 0},
		"no credit":           {always(400, "Your credit balance is too low to access the Anthropic API."), "", "S", 400, "billing_error", "api_error", "Credit balance is too low", 0},
		"429":                 {always(429, "slow down"), "", "SSS", 429, "rate_limit", "api_error", "slow down", 2},
		"429, back in 1 hour": {messagesapi.InOrder(messagesapi.Fail(429, "slow down").RetryAfter(time.Hour)), "", "S", 429, "rate_limit", "api_error", "slow down", 0},
		"500":                 {always(500, "oops"), "", "SSS", 500, "server_error", "api_error", "500 oops", 2},
		"529":                 {always(busy, "Overloaded"), "", "SSS", busy, "server_error", "api_error", "529 Overloaded", 2},
		"dropped":             {messagesapi.InOrder(messagesapi.Drop()), "", "SSS", none, "server_error", "api_error", "ECONNRESET", 2},
		"cut again and again": {messagesapi.InOrder(messagesapi.Text("half").CutAfter(3)), "CLAUDE_CODE_MAX_RETRIES=1", "SSw", none, "server_error", "api_error", "ECONNRESET", 1},
		"no answer":           {messagesapi.InOrder(messagesapi.Hang()), "API_TIMEOUT_MS=1000", "SSS", none, "server_error", "api_error", "Request timed out", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, tc.script)
			c.env = append(c.env, tc.env)
			out := c.fresh(first, "look around", "haiku", "Bash")
			r := out.result()
			// It is the subtype of a success all the same.
			if out.code != 1 || !r.IsError || r.Subtype != "success" || r.Reason != tc.reason || !strings.Contains(r.Text, tc.words) {
				t.Errorf("result: %+v\n%s", r, out)
			}
			if (r.APIStatus == nil) != (tc.status == none) || r.APIStatus != nil && *r.APIStatus != tc.status {
				t.Errorf("status: %s, want %d", jsonOf(r.APIStatus), tc.status)
			}
			said := out.all("assistant", "")
			if len(said) != 1 || said[0].Error != tc.class || said[0].Message.Model != "<synthetic>" {
				t.Errorf("messages: %s", jsonOf(said))
			}
			if got := len(out.all("system", "api_retry")); got != tc.retries {
				t.Errorf("%d events of a retry", got)
			}
			if got := callsOf(c); got != tc.calls {
				t.Errorf("calls: %s, want %s", got, tc.calls)
			}
		})
	}
}

func always(status int, message string) messagesapi.Script {
	return messagesapi.InOrder(messagesapi.Fail(status, message))
}

func callsOf(c *cli) string {
	calls := ""
	for _, req := range c.api.Requests() {
		if req.Stream {
			calls += "S"
		} else {
			calls += "w"
		}
	}
	return calls
}
