package realcli_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/test/messagesapi"
)

func TestAPIFailures(t *testing.T) {
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
