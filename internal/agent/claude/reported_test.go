package claude

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// What Claude Code 2.1.325 printed when its API failed, without what does not matter.
func retryLine(attempt, delayMS, status int, class string) string {
	return fmt.Sprintf(`{"type":"system","subtype":"api_retry","attempt":%d,"max_retries":2,"retry_delay_ms":%d,"error_status":%d,"error":%q}`, attempt, delayMS, status, class)
}

func madeUp(class string, more string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]},"error":%q%s}`, class, more)
}

func failedWith(status, words, more string) string {
	return fmt.Sprintf(`{"subtype":"success","is_error":true,"api_error_status":%s,"result":%q%s,"type":"result"}`, status, words, more)
}

func TestWhatTheCLITellsOfItsFailure(t *testing.T) {
	const (
		second = time.Second
		spoke  = `{"type":"assistant","message":{"id":"m","model":"claude-haiku-5-5","content":[{"type":"text","text":"529 refusal overloaded"}]}}`
	)
	begun := time.Unix(1_800_000_000, 0)
	limited := fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`, begun.Add(90*time.Minute).Unix())
	for _, tt := range []struct {
		name   string
		lines  []string
		class  ops.FailureClass
		status int
		after  time.Duration
	}{
		{"429", []string{retryLine(1, 511, 429, "rate_limit"), retryLine(2, 1240, 429, "rate_limit"), madeUp("rate_limit", ""), failedWith("429", "slow", "")}, "api_error", 429, 0},
		{"429 for a second", []string{retryLine(1, 1000, 429, "rate_limit"), madeUp("rate_limit", ""), failedWith("429", "slow", "")}, "api_error", 429, second},
		{"429 for 40 seconds", []string{retryLine(1, 1000, 429, "rate_limit"), retryLine(2, 40_000, 429, "rate_limit"), failedWith("429", "slow", "")}, "api_error", 429, 40 * second},
		{"429 for too long", []string{madeUp("rate_limit", `,"api_error_status":429`), failedWith("429", "slow", "")}, "api_error", 429, time.Minute},
		{"429 of a subscription", []string{limited, madeUp("rate_limit", ""), failedWith("429", "slow", "")}, "api_error", 429, 90 * time.Minute},
		{"an old retry", []string{retryLine(1, 9000, 500, "server_error"), spoke, madeUp("server_error", ""), failedWith("500", "oops", "")}, "api_error", 500, 0},
		{"529", []string{retryLine(1, 589, 529, "overloaded"), madeUp("server_error", `,"api_error_status":529`), failedWith("529", "API Error: 529 Overloaded.", "")}, "api_error", 529, 0},
		{"529 without a status", []string{madeUp("server_error", ""), failedWith("null", "API Error: Repeated 529 Overloaded errors", "")}, "api_error", 529, 0},
		{"529 by its retries", []string{retryLine(1, 589, 529, "overloaded"), madeUp("server_error", ""), failedWith("null", "busy", "")}, "api_error", 529, 0},
		{"529 by its class", []string{madeUp("overloaded", ""), failedWith("null", "busy", "")}, "api_error", 529, 0},
		{"no connection", []string{madeUp("server_error", ""), failedWith("null", "API Error: ECONNRESET", "")}, "api_error", 0, 0},
		{"401", []string{madeUp("authentication_failed", ""), failedWith("401", "Invalid API key", "")}, "api_error", 401, 0},
		{"status only in the message", []string{madeUp("authentication_failed", `,"api_error_status":403`), failedWith("null", "no", "")}, "api_error", 403, 0},
		{"no credit", []string{madeUp("billing_error", ""), failedWith("400", "Credit balance is too low", "")}, "billing", 400, 0},
		{"402", []string{madeUp("unknown", ""), failedWith("402", "billing", "")}, "billing", 402, 0},
		{"404", []string{madeUp("model_not_found", ""), failedWith("404", "issue with the model", "")}, "model_not_found", 404, 0},
		{"prompt too long", []string{madeUp("invalid_request", ""), failedWith("400", "Prompt is too long", `,"terminal_reason":"prompt_too_long"`)}, "prompt_too_long", 400, 0},
		{"413", []string{madeUp("invalid_request", ""), failedWith("413", "too large", `,"terminal_reason":"image_error"`)}, "prompt_too_long", 413, 0},
		{"400", []string{madeUp("invalid_request", ""), failedWith("400", "bad", "")}, "api_error", 400, 0},
		{"output limit", []string{madeUp("max_output_tokens", `,"api_error_params":{"cut":"output_limit"}`), failedWith("null", "too long", "")}, "output_limit", 0, 0},
		{"context window", []string{madeUp("max_output_tokens", `,"api_error_params":{"cut":"context_window"}`), failedWith("null", "full", "")}, "prompt_too_long", 0, 0},
		{"refusal", []string{
			`{"type":"system","subtype":"model_refusal_no_fallback","original_model":"m"}`, madeUp("invalid_request", ""),
			failedWith("null", "can't help", `,"stop_reason":"refusal"`),
		}, "refusal", 0, 0},
		{"max turns", []string{spoke, `{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"],"terminal_reason":"max_turns"}`}, "max_turns", 0, 0},
		{"max budget", []string{spoke, `{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($0.25)"]}`}, "max_budget", 0, 0},
		{"structured", []string{spoke, `{"type":"result","subtype":"error_max_structured_output_retries","is_error":true,"errors":["x"]}`}, "structured_output", 0, 0},
		{"during execution", []string{spoke, `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["529 overloaded"]}`}, "agent_error", 0, 0},
		{"what the agent says is no evidence", []string{spoke, failedWith("null", "the service answered 529, refusal, 404", "")}, "agent_error", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &decoder{name: "claude", clock: func() time.Time { return begun }, retries: true}
			for _, line := range tt.lines {
				d.line(line)
			}
			class, text := d.reported()
			status := 0
			if got := d.apiStatusCode(); got != nil {
				status = *got
			}
			if class != tt.class || status != tt.status || d.retryAfter() != tt.after || text == "" {
				t.Errorf("got %q, status %d, after %v (%s); want %q, %d, %v", class, status, d.retryAfter(), text, tt.class, tt.status, tt.after)
			}
		})
	}
}

func TestOnlyAProgramKnownToRetryTellsByNotRetrying(t *testing.T) {
	d := &decoder{name: "claude", clock: time.Now}
	d.line(failedWith("429", "slow", ""))
	if got := d.retryAfter(); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestTheResultCarriesTheAPIsAnswer(t *testing.T) {
	res := runFake(t.Context(), t, play(say(retryLine(1, 7000, 429, "rate_limit"), failedWith("429", "slow down", ""))...), testSpec(t), &agenttest.Recorder{})
	if res.Failure != ops.FailureAPI || res.APIStatus == nil || *res.APIStatus != 429 || res.RetryAfter != 7*time.Second || res.Err != "the API answered 429: slow down" {
		t.Errorf("got %+v", res)
	}
}

func TestTheFakesFailuresAreReadLikeTheRealOnes(t *testing.T) {
	for name, tt := range map[string]struct {
		play   agenttest.Play
		class  ops.FailureClass
		status int
		after  time.Duration
	}{
		"429":             {agenttest.RateLimited(0), "api_error", 429, 0},
		"429, 3 s":        {agenttest.RateLimited(3 * time.Second), "api_error", 429, 3 * time.Second},
		"429, an hour":    {agenttest.RateLimited(time.Hour), "api_error", 429, time.Minute},
		"529":             {agenttest.Overloaded(), "api_error", 529, 0},
		"disconnected":    {agenttest.Disconnected(), "api_error", 0, 0},
		"model not found": {agenttest.ModelNotFound(), "model_not_found", 404, 0},
		"refusal":         {agenttest.Refuses(), "refusal", 0, 0},
		"max turns":       {agenttest.MaxTurns(), "max_turns", 0, 0},
		"max budget":      {agenttest.MaxBudget(), "max_budget", 0, 0},
		"exit 77":         {agenttest.Exits(77), "exit", 0, 0},
		"a claim":         {agenttest.Claims(0.1, "web"), "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{tt.play}}, testSpec(t), &agenttest.Recorder{})
			status := 0
			if res.APIStatus != nil {
				status = *res.APIStatus
			}
			if res.Failure != tt.class || status != tt.status || res.RetryAfter != tt.after {
				t.Errorf("got %q, status %d, after %v: %s", res.Failure, status, res.RetryAfter, res.Err)
			}
		})
	}
}

func TestABusySessionStopsBetweenItsCalls(t *testing.T) {
	spec, rec := testSpec(t), &agenttest.Recorder{}
	calls := 0
	spec.Watch = func(a ops.Activity) *ops.Halt {
		if a.Kind == ops.ActivityCall {
			calls++
		}
		if calls < 3 {
			return nil
		}
		return &ops.Halt{Cause: ops.StopDeadline, Why: "late", Boundary: true}
	}
	res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Busy(500, 20*time.Millisecond)}}, spec, rec)
	wantStop(t, res, ops.StopDeadline, "deadline")
	if text := rec.Text(); res.OpenTool != "" || calls > 10 || strings.Count(text, `"tool_use"`) != strings.Count(text, `"tool_result"`) {
		t.Errorf("%d calls, open tool %q", calls, res.OpenTool)
	}
}
