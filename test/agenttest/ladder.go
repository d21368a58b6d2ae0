package agenttest

import (
	"fmt"
	"slices"
	"time"
)

// At is the play at one tier, in one of its runs; 0 fits every one.
func (p Play) At(tier, attempt int) Play {
	p.Tier, p.Attempt = tier, attempt
	return p
}

// As is the play in a role, such as "judge".
func (p Play) As(role string) Play {
	p.Role = role
	return p
}

// By is the play of one handler.
func (p Play) By(handler string) Play {
	p.Handler = handler
	return p
}

// InOrder are the plays of the runs of a tier, one after the other. The last one is repeated.
func InOrder(tier int, plays ...Play) []Play {
	out := slices.Clone(plays)
	for i := range out {
		out[i].Tier, out[i].Attempt = tier, i+1
	}
	if n := len(out); n > 0 {
		out[n-1].Attempt = 0
	}
	return out
}

// Retry is what the CLI prints before it repeats a call of the model that failed. Without it a 429 means that the API asked to
// wait longer than the CLI does.
func Retry(attempt int, delay time.Duration, status int, class string) string {
	return fmt.Sprintf(`{"type":"system","subtype":"api_retry","attempt":%d,"max_retries":2,"retry_delay_ms":%d,`+
		`"error_status":%d,"error":%s,"session_id":"{{session_id}}"}`,
		attempt, delay.Milliseconds(), status, quote(class))
}

// MadeUp is the message the CLI writes itself when a call of the model failed.
func MadeUp(class, words string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":"made-up","model":"<synthetic>",`+
		`"content":[{"type":"text","text":%s}]},"parent_tool_use_id":null,`+
		`"session_id":"{{session_id}}","error":%s,"is_api_error_message":true}`, quote(words), quote(class))
}

// Failed is the result of a session that the CLI ended itself, such as error_max_turns.
func Failed(subtype, words string) string {
	return fmt.Sprintf(`{"type":"result","subtype":%s,"is_error":true,"duration_ms":900,"num_turns":1,"session_id":"{{session_id}}",`+
		`"total_cost_usd":0.01,"usage":{},"modelUsage":{},"permission_denials":[],"errors":[%s]}`, quote(subtype), quote(words))
}

// RateLimited is a run that ends with a 429 although the CLI tried again. wait is the API's retry-after: 0 for none, more than a
// minute for one the CLI does not wait for and so does not tell.
func RateLimited(wait time.Duration) Play {
	lines := []string{Init()}
	switch {
	case wait == 0:
		lines = append(lines, Retry(1, 511*time.Millisecond, 429, "rate_limit"))
	case wait <= time.Minute:
		lines = append(lines, Retry(1, wait, 429, "rate_limit"))
	}
	lines = append(lines, MadeUp("rate_limit", "API Error"), APIError(429, "API Error: Request rejected (429)"))
	return Play{Steps: Lines(lines...), Exit: 1}
}

// Overloaded is a run that ends with a 529.
func Overloaded() Play {
	return Play{Exit: 1, Steps: Lines(
		Init(), Retry(1, 589*time.Millisecond, 529, "overloaded"), MadeUp("server_error", "API Error: 529"),
		APIError(529, "API Error: 529 Overloaded."),
	)}
}

// Disconnected is a run whose API could not be reached.
func Disconnected() Play {
	result := Failed("success", "")
	const words = "API Error: Connection error. (ECONNRESET)"
	return Play{Exit: 1, Steps: Lines(Init(), MadeUp("server_error", words), result[:len(result)-1]+`,"result":"`+words+`"}`)}
}

// ModelNotFound is a run whose model does not exist.
func ModelNotFound() Play {
	return Play{Exit: 1, Steps: Lines(
		Init(), MadeUp("model_not_found", "API Error"), APIError(404, "There's an issue with the selected model."),
	)}
}

// Refuses is a run whose model refuses to answer.
func Refuses() Play {
	result := Failed("success", "")
	return Play{Exit: 1, Steps: Lines(
		Init(), `{"type":"system","subtype":"model_refusal_no_fallback","session_id":"{{session_id}}"}`,
		MadeUp("invalid_request", "API Error"),
		result[:len(result)-1]+`,"stop_reason":"refusal","result":"API Error: the model can't help with this."}`,
	)}
}

// MaxTurns is a run that reached the CLI's limit of turns.
func MaxTurns() Play {
	return Play{Exit: 1, Steps: Lines(Init(), Text("on it"), Failed("error_max_turns", "Reached maximum number of turns (2)"))}
}

// MaxBudget is a run that reached the CLI's limit in USD.
func MaxBudget() Play {
	return Play{Exit: 1, Steps: Lines(Init(), Text("on it"), Failed("error_max_budget_usd", "Reached maximum budget ($0.25)"))}
}

// Exits is a run that says nothing of use and exits with a code nobody knows.
func Exits(code int) Play {
	return Play{Exit: code, Steps: []Step{{Out: Init()}, {Err: "something odd"}}}
}

// Answers is a run that gives a structured output, whatever it is: an outcome, or the answer of another role.
func Answers(cost float64, output string) Play {
	return Play{Steps: Lines(
		Init(), Use("toolu_1", "curl -s http://127.0.0.1/healthz"), Answer("toolu_1", "ok"), Structured(cost, "done", output),
	)}
}

// InvalidOutcome is a run whose structured output is no outcome.
func InvalidOutcome(cost float64) Play { return Answers(cost, `{"schema_version":1,"outcome":"fine"}`) }

// Claims is a run that says it repaired a service.
func Claims(cost float64, service string) Play { return Answers(cost, marshal(resolved(service))) }

func resolved(service string) map[string]any {
	return map[string]any{
		"schema_version": 1, "outcome": "resolved", "summary": "Restarted " + service + "; it answers again.",
		"check_results": []any{map[string]any{"service": service, "check_type": "http", "status": "healthy", "error": ""}},
		"actions":       []any{map[string]any{"service": service, "action": "restart", "success": true, "detail": "answers 200"}},
		"events":        []any{}, "memories": []any{},
	}
}

// Manager is a run in which the manager chooses a handler.
func Manager(target, reason string) Play {
	return Answers(0.01, marshal(map[string]any{"target": target, "reason": reason})).As("manager")
}

// Repeats are the steps of n rounds of the same commands, each with the same output every time.
func Repeats(n int, commands ...string) []Step {
	var steps []Step
	for i := range n {
		for j, command := range commands {
			id := fmt.Sprintf("toolu_%d_%d", i, j)
			steps = append(steps, Lines(Use(id, command), Answer(id, "the same answer of "+command))...)
		}
	}
	return steps
}

// Loops is a run that repeats the same commands n times and then waits to be stopped: A×8, or A,B,A,B with two commands.
func Loops(n int, commands ...string) Play {
	steps := append(Lines(Init()), Repeats(n, commands...)...)
	return Play{OnInterrupt: "result", Steps: append(steps, Step{Hang: true})}
}

// Busy is a run of n different commands, each of which takes that long. Interrupted, it ends as soon as no command runs.
func Busy(n int, each time.Duration) Play {
	steps := Lines(Init())
	for i := range n {
		id := fmt.Sprintf("toolu_%d", i)
		steps = append(steps,
			Step{Out: Use(id, fmt.Sprintf("check service-%d", i)), Sleep: each},
			Step{Out: Answer(id, fmt.Sprintf("service %d is fine", i)), Sleep: each})
	}
	return Play{OnInterrupt: "boundary", Steps: append(steps, Lines(Result(0.1, "done"))...)}
}
