package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// figure is a number as the CLI wrote it: 3.0 counts as 3, and anything else must not
// lose the figures beside it.
type figure float64

// UnmarshalJSON reads a number; anything else becomes one that counts as unknown.
func (f *figure) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		n = math.NaN()
	}
	*f = figure(n)
	return nil
}

// resultEvent is the event in which the CLI says how the session went.
type resultEvent struct {
	Subtype    string            `json:"subtype"`
	IsError    json.RawMessage   `json:"is_error"`
	APIStatus  *figure           `json:"api_error_status"`
	SessionID  string            `json:"session_id"`
	UUID       string            `json:"uuid"`
	Text       *string           `json:"result"`
	StopReason string            `json:"stop_reason"`
	Reason     string            `json:"terminal_reason"`
	Errors     []json.RawMessage `json:"errors"`
	DurationMS *figure           `json:"duration_ms"`
	NumTurns   *figure           `json:"num_turns"`
	TotalCost  *figure           `json:"total_cost_usd"`
	Cost       *figure           `json:"cost_usd"` // the older name
	Usage      *usage            `json:"usage"`
	Models     usageByModel      `json:"modelUsage"`
	Since      usageByModel      `json:"model_usage_since_last_result"`
	Denials    []ops.Denial      `json:"permission_denials"`
	Structured json.RawMessage   `json:"structured_output"`
}

// usage is what the API says of the calls of the conversation itself.
type usage struct {
	Input      *figure `json:"input_tokens"`
	Output     *figure `json:"output_tokens"`
	CacheRead  *figure `json:"cache_read_input_tokens"`
	CacheWrite *figure `json:"cache_creation_input_tokens"`
}

// modelUsage is what the CLI says of all calls of one model.
type modelUsage struct {
	Input      *figure `json:"inputTokens"`
	Output     *figure `json:"outputTokens"`
	CacheRead  *figure `json:"cacheReadInputTokens"`
	CacheWrite *figure `json:"cacheCreationInputTokens"`
	Cost       *figure `json:"costUSD"`
	Window     *figure `json:"contextWindow"`
}

type usageByModel map[string]modelUsage

// plus returns the sum of two shares.
func (m usageByModel) plus(other usageByModel) usageByModel {
	out := make(usageByModel, len(m)+len(other))
	for _, share := range []usageByModel{m, other} {
		for name, u := range share {
			out[name] = out[name].plus(u)
		}
	}
	return out
}

func (u modelUsage) plus(more modelUsage) modelUsage {
	return modelUsage{
		Input: add(u.Input, more.Input), Output: add(u.Output, more.Output), CacheRead: add(u.CacheRead, more.CacheRead),
		CacheWrite: add(u.CacheWrite, more.CacheWrite), Cost: add(u.Cost, more.Cost), Window: cmp.Or(more.Window, u.Window),
	}
}

// total sums over the models.
func (m usageByModel) total() (sum modelUsage) {
	for _, u := range m {
		sum = sum.plus(u)
	}
	return sum
}

// window returns the context window of the first of the models that is listed, or of the one that
// did most.
func (m usageByModel) window(models ...string) *int64 {
	for _, model := range models {
		for name, u := range m {
			if model != "" && baseModel(name) == baseModel(model) && whole(u.Window) != nil {
				return whole(u.Window)
			}
		}
	}
	var most *int64
	best := figure(-1)
	for _, u := range m {
		did := figure(0)
		for _, f := range []*figure{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
			if f != nil {
				did += *f
			}
		}
		if w := whole(u.Window); w != nil && (did > best || did == best && *w < *most) {
			most, best = w, did
		}
	}
	return most
}

// baseModel strips what the CLI adds to a name, such as "[1m]".
func baseModel(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

func add(a, b *figure) *figure {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ops.Ptr(*a + *b)
}

// whole returns a count, or nil for what cannot be one.
func whole(f *figure) *int64 {
	if f == nil || !(*f >= 0 && *f <= 1<<53) {
		return nil
	}
	return ops.Ptr(int64(*f))
}

// count returns a count, or 0 for what cannot be one.
func count(f *figure) int64 {
	if n := whole(f); n != nil {
		return *n
	}
	return 0
}

func (r *resultEvent) failed() bool {
	switch string(r.IsError) {
	case "false":
		return false
	case "", "null":
		return strings.HasPrefix(r.Subtype, "error")
	}
	return true
}

// words are what the agent or the CLI said last.
func (r *resultEvent) words() string {
	if r.Text != nil {
		return *r.Text
	}
	var out []string
	for _, raw := range r.Errors {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// structured returns the structured output, nil when there is none.
func (r *resultEvent) structured() json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(r.Structured), []byte("null")) {
		return nil
	}
	return r.Structured
}

// figures are the numbers of this run only.
func (st *stream) figures() ops.Figures {
	f := ops.Figures{}
	if st.context > 0 {
		f.ContextTokens = ops.Ptr(st.context)
	}
	r := st.result
	if r == nil {
		return f
	}
	f.NumTurns, f.DurationMS = whole(r.NumTurns), whole(r.DurationMS)
	share := st.share()
	f.CostUSD = price(share.Cost)
	f.InputTokens, f.OutputTokens = whole(share.Input), whole(share.Output)
	f.CacheReadTokens, f.CacheWriteTokens = whole(share.CacheRead), whole(share.CacheWrite)
	f.ContextWindow = st.own.window(st.lastModel, st.model)
	if f.ContextWindow == nil {
		f.ContextWindow = r.Models.window(st.lastModel, st.model)
	}
	return f
}

// share is what this run used. What a resumed process reports as its total includes the
// conversation it continues, so the share the CLI tells apart wins.
func (st *stream) share() modelUsage {
	r := st.result
	var out modelUsage
	switch {
	case st.own != nil && len(st.own) == 0:
		zero := ops.Ptr(figure(0))
		return modelUsage{Input: zero, Output: zero, CacheRead: zero, CacheWrite: zero, Cost: zero}
	case st.own != nil:
		out = st.own.total()
	case len(r.Models) > 0:
		out = r.Models.total()
		out.Cost = nil // the total below is complete, also where a model has no price
	case r.Usage != nil:
		u := r.Usage
		out = modelUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	}
	if out.Cost == nil {
		out.Cost = r.total()
	}
	return out
}

// total is what the CLI says the conversation has cost.
func (r *resultEvent) total() *figure {
	if r.TotalCost != nil {
		return r.TotalCost
	}
	return r.Cost
}

func price(f *figure) *float64 {
	if f == nil || !(*f >= 0 && *f <= math.MaxFloat64) {
		return nil
	}
	return ops.Ptr(float64(*f))
}

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
		st.apiError != "" && st.retry != nil && st.retry.Err == "overloaded" ||
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
	delay, attempt := whole(st.retry.DelayMS), whole(st.retry.Attempt)
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
