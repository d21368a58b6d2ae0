package agenttest

import (
	"encoding/json"
	"fmt"
)

// Init is the first event of a session.
func Init() string {
	return `{"type":"system","subtype":"init","cwd":"/","session_id":"{{session_id}}","tools":["Bash","Read"],` +
		`"mcp_servers":[],"model":"{{model}}","permissionMode":"dontAsk","claude_code_version":"2.1.325"}`
}

// Text is a message of the agent.
func Text(text string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":"msg_{{n}}","model":"{{model}}","content":[{"type":"text","text":%s}],`+
		`"usage":{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":100,"output_tokens":5}},`+
		`"parent_tool_use_id":null,"session_id":"{{session_id}}"}`, quote(text))
}

// Use is a call of the Bash tool; the call with that id is open until Answer.
func Use(id, command string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":"msg_%s","model":"{{model}}",`+
		`"content":[{"type":"tool_use","id":%s,"name":"Bash",`+
		`"input":{"command":%s}}],"usage":{"input_tokens":10,"output_tokens":5}},"parent_tool_use_id":null,"session_id":"{{session_id}}"}`,
		id, quote(id), quote(command))
}

// Answer is the result of a tool call.
func Answer(id, output string) string {
	return fmt.Sprintf(`{"type":"user","message":{"role":"user",`+
		`"content":[{"type":"tool_result","content":%s,"is_error":false,"tool_use_id":%s}]},`+
		`"parent_tool_use_id":null,"session_id":"{{session_id}}"}`, quote(output), quote(id))
}

// Refused is the result of a tool call that was not allowed to run.
func Refused(id, reason string) string {
	return fmt.Sprintf(`{"type":"user","message":{"role":"user",`+
		`"content":[{"type":"tool_result","content":%s,"is_error":true,"tool_use_id":%s}]},`+
		`"parent_tool_use_id":null,"session_id":"{{session_id}}"}`, quote(reason), quote(id))
}

// Result is the result of a session that succeeded, with its cost and last words.
func Result(cost float64, words string) string {
	return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"api_error_status":null,`+
		`"duration_ms":1180,"duration_api_ms":302,`+
		`"num_turns":2,"result":%s,"stop_reason":"end_turn","session_id":"{{session_id}}","total_cost_usd":%g,`+
		`"usage":{"input_tokens":10,"output_tokens":5},"modelUsage":{"{{model}}":{"inputTokens":20,"outputTokens":30,`+
		`"cacheReadInputTokens":2000,"cacheCreationInputTokens":200,"webSearchRequests":0,"costUSD":%g,`+
		`"contextWindow":200000,"maxOutputTokens":32000}},`+
		`"permission_denials":[],"terminal_reason":"completed","uuid":"{{session_id}}"}`, quote(words), cost, cost)
}

// Structured is Result with a structured output, which is JSON.
func Structured(cost float64, words, output string) string {
	result := Result(cost, words)
	return result[:len(result)-1] + `,"structured_output":` + output + `}`
}

// APIError is the result of a session whose API answered with a status other than success. The CLI
// exits 1 then. See Retry for what a 429 without one means.
func APIError(status int, words string) string {
	return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":true,"api_error_status":%d,"duration_ms":900,"num_turns":1,`+
		`"result":%s,"session_id":"{{session_id}}","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0},`+
		`"modelUsage":{},"permission_denials":[]}`,
		status, quote(words))
}

// Interrupted is the result of a session that was interrupted inside a tool.
func Interrupted() string {
	return `{"type":"result","subtype":"error_during_execution","is_error":true,"duration_ms":100,"num_turns":1,` +
		`"session_id":"{{session_id}}","total_cost_usd":0.001,"usage":{},"modelUsage":{},"permission_denials":[],` +
		`"errors":["interrupted"],"terminal_reason":"aborted_tools"}`
}

// Lines makes a step of each line of output.
func Lines(lines ...string) []Step {
	steps := make([]Step, len(lines))
	for i, line := range lines {
		steps[i] = Step{Out: line}
	}
	return steps
}

// Healthy is a run that finds nothing wrong.
func Healthy(cost float64) Play {
	return Play{Steps: Lines(
		Init(), Use("toolu_1", "curl -s http://127.0.0.1/healthz"), Answer("toolu_1", "ok"), Result(cost, "All services are healthy."),
	)}
}

// Escalates is a run of a tier that leaves a valid handoff for the next one.
func Escalates(tier int, cost float64, services ...string) Play {
	p := Healthy(cost)
	p.Tier = tier
	p.Handoff = Handoff(tier+1, services...)
	return p
}

// Handoff is a valid handoff file that recommends a tier.
func Handoff(tier int, services ...string) string { return marshal(handoff(tier, services...)) }

func handoff(tier int, services ...string) map[string]any {
	checks := make([]map[string]any, len(services))
	for i, s := range services {
		checks[i] = map[string]any{
			"service": s, "check_type": "http", "status": "down", "error": "connection refused", "response_time_ms": 3,
		}
	}
	h := map[string]any{
		"schema_version": 1, "recommended_tier": tier, "services_affected": services,
		"check_results": checks, "cooldown_state": map[string]any{},
	}
	if tier > 2 {
		h["investigation_findings"] = "The database refuses connections."
		h["remediation_attempted"] = "Restarted the container; it did not help."
	}
	return h
}

func quote(text string) string { return marshal(text) }

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // a test wrote something that is not JSON
	}
	return string(data)
}
