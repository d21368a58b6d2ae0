package claude

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// What the CLI itself reports about a failure, as measured with 2.1.325. All of it is an error result (is_error), and the
// first row that fits decides. Only what the CLI says of itself and of the model's API counts: never the text of a tool.
//
//	evidence                                                               class
//	subtype error_max_turns                                                max_turns
//	subtype error_max_budget_usd                                           max_budget
//	subtype error_max_structured_output_retries                            structured_output
//	stop_reason refusal, or system/model_refusal_no_fallback               refusal
//	error max_output_tokens whose api_error_params.cut is context_window   prompt_too_long
//	error max_output_tokens                                                output_limit
//	terminal_reason prompt_too_long (a status 400), or status 413          prompt_too_long
//	status 404, or error model_not_found                                   model_not_found
//	status 402, or error billing_error (a status 400)                      billing
//	any other status, or any other error                                   api_error
//	any other subtype, or nothing                                          agent_error
//
// error is that of the last assistant event, which the CLI makes up itself then (model <synthetic>).

// statusOverloaded is what the API answers when it has too much to do.
const statusOverloaded = 529

// reported is the failure that the CLI itself reported.
func (d *decoder) reported() (class ops.FailureClass, text string) {
	st := &d.stream
	r := st.result
	class, words := d.reportedClass(), agent.FirstLine(r.words())
	status := whole(cmp.Or(r.APIStatus, st.apiStatus))
	switch {
	case status != nil:
		return class, agent.WithDetail(fmt.Sprintf("the API answered %d", *status), words)
	case st.apiError != "":
		return class, agent.WithDetail("the API failed with "+st.apiError, words)
	case r.Subtype != "" && r.Subtype != "success":
		return class, agent.WithDetail(d.name+" ended with "+r.Subtype, words)
	}
	return class, agent.WithDetail(d.name+" reported an error", words)
}

func (d *decoder) reportedClass() ops.FailureClass {
	st := &d.stream
	r := st.result
	switch r.Subtype {
	case "error_max_turns":
		return ops.FailureMaxTurns
	case "error_max_budget_usd":
		return ops.FailureMaxBudget
	case "error_max_structured_output_retries":
		return ops.FailureStructured
	}
	status := 0
	if code := d.apiStatusCode(); code != nil {
		status = *code
	}
	switch {
	case r.StopReason == "refusal" || st.refusal:
		return ops.FailureRefusal
	case st.apiError == "max_output_tokens" && st.cutBy == "context_window":
		return ops.FailurePromptTooLong
	case st.apiError == "max_output_tokens":
		return ops.FailureOutputLimit
	case r.Reason == "prompt_too_long" || status == http.StatusRequestEntityTooLarge:
		return ops.FailurePromptTooLong
	case status == http.StatusNotFound || st.apiError == "model_not_found":
		return ops.FailureModelNotFound
	case status == http.StatusPaymentRequired || st.apiError == "billing_error":
		return ops.FailureBilling
	case status != 0 || st.apiError != "":
		return ops.FailureAPI
	}
	return ops.FailureAgent
}

// apiStatusCode is the HTTP status the API answered last, nil when it did not answer or the CLI does not say. Some versions do
// not report the status of an overloaded API, only the class of the error or a text of their own.
func (d *decoder) apiStatusCode() *int {
	st := &d.stream
	r := st.result
	if r == nil {
		return nil
	}
	if status := whole(cmp.Or(r.APIStatus, st.apiStatus)); status != nil {
		return ops.Ptr(int(min(*status, math.MaxInt16)))
	}
	overloaded := st.apiError == "overloaded" ||
		st.apiError != "" && st.retry != nil && st.retry.class == "overloaded" ||
		slices.Contains([]string{"server_error", "unknown", "rate_limit"}, st.apiError) &&
			strings.Contains(agent.FirstLine(r.words()), "529")
	if overloaded {
		return ops.Ptr(statusOverloaded)
	}
	return nil
}

const (
	// firstBackoff is how long Claude Code waits by itself before it repeats a call for the first time. It doubles, and up to a
	// quarter is added by chance.
	firstBackoff = 500 * time.Millisecond
	mostBackoff  = 40 * time.Second
	// longestHonored is the longest retry-after that Claude Code waits for: it ends at once when the API asks for more, without
	// telling how much.
	longestHonored = time.Minute
)

// retryAfter is how long the API asked to wait, 0 when that is not known. The header itself is not in the stream. What is:
//   - system/api_retry, before a call is repeated, with retry_delay_ms: the header, or the CLI's own backoff where there is
//     none. Only more than the backoff can have been asked for; less than that does not matter.
//   - nothing, after a 429 whose header is longer than a minute: then it is at least that.
//   - rate_limit_event with resetsAt, for subscriptions (known from the program's own schema, never seen).
func (d *decoder) retryAfter() time.Duration {
	st := &d.stream
	if at := whole(st.resetsAt); at != nil {
		return max(time.Unix(*at, 0).Sub(d.clock()), 0)
	}
	if st.retry == nil {
		if status := d.apiStatusCode(); d.retries && status != nil && *status == http.StatusTooManyRequests {
			return longestHonored
		}
		return 0
	}
	delay, attempt := whole(st.retry.delayMS), whole(st.retry.attempt)
	if delay == nil || attempt == nil || *attempt < 1 {
		return 0
	}
	own := min(firstBackoff<<min(*attempt-1, 16), mostBackoff)
	asked := time.Duration(min(*delay, math.MaxInt32)) * time.Millisecond
	if asked <= own+own/4 {
		return 0
	}
	return asked
}
