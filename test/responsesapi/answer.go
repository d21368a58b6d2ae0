package responsesapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Answer is what the model answers, or how it fails to. The zero value is an empty response.
type Answer struct {
	Items []Item
	Usage Usage

	status     int // an HTTP error instead of a response
	message    string
	retryAfter time.Duration
	hang       bool // never answers
	cut        bool // the stream ends behind the items
	failed     *Error
}

// Usage are the tokens the API says a call took. Cached tokens are part of the input, reasoning is part of the output.
type Usage struct {
	Input, Cached, Output, Reasoning int
}

// Error is how the API says, in the stream, that a response failed.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Text is an answer that calls no tool.
func Text(text string) Answer { return Answer{}.Text(text) }

// Text adds a message.
func (a Answer) Text(text string) Answer {
	return a.with(Item{Type: "message", Role: "assistant", Content: []Part{{Type: "output_text", Text: text}}})
}

// JSON is an answer in the form that was asked for.
func JSON(value any) Answer { return Text(string(encode(value))) }

// Exec is an answer that runs a shell command.
func Exec(id, command string) Answer {
	return Call(id, "exec_command", map[string]any{"cmd": command, "yield_time_ms": 30_000})
}

// Call is an answer that calls a function.
func Call(id, name string, arguments any) Answer { return Answer{}.Call(id, name, arguments) }

// Call adds a call of a function.
func (a Answer) Call(id, name string, arguments any) Answer {
	return a.with(Item{Type: "function_call", Name: name, CallID: id, Arguments: string(encode(arguments))})
}

// CallIn is an answer that calls a function of a namespace, which is how Codex offers the tools of an MCP server.
func CallIn(id, namespace, name string, arguments any) Answer {
	a := Call(id, name, arguments)
	a.Items[0].Namespace = namespace
	return a
}

// Custom is an answer that calls a tool which takes plain text.
func Custom(id, name, input string) Answer {
	return Answer{}.with(Item{Type: "custom_tool_call", Name: name, CallID: id, Input: input})
}

func (a Answer) with(i Item) Answer {
	a.Items = append(a.Items[:len(a.Items):len(a.Items)], i)
	return a
}

// Took sets the tokens of the call.
func (a Answer) Took(u Usage) Answer {
	a.Usage = u
	return a
}

// Fail is an answer with an HTTP error, such as 401, 403, 404, 429 or 500.
func Fail(status int, message string) Answer { return Answer{status: status, message: message} }

// RetryAfter tells the client of a failed call when to come back.
func (a Answer) RetryAfter(d time.Duration) Answer {
	a.retryAfter = d
	return a
}

// Failed is an answer whose stream says that it failed.
func Failed(code, message string) Answer { return Answer{failed: &Error{Code: code, Message: message}} }

// Hang never answers.
func Hang() Answer { return Answer{hang: true} }

// Cut ends the stream behind the items of the answer, before it is complete.
func (a Answer) Cut() Answer {
	a.cut = true
	return a
}

// InOrder plays one answer per request and repeats the last one.
func InOrder(answers ...Answer) Script {
	return func(req Request) Answer { return pick(answers, req.N-1) }
}

// Turns plays one answer per turn of the conversation since the last prompt and repeats the last one. A request that is
// made again gets the same answer again.
func Turns(answers ...Answer) Script {
	return func(req Request) Answer { return pick(answers, req.Turn()) }
}

func pick(answers []Answer, i int) Answer {
	if len(answers) == 0 {
		return Fail(http.StatusInternalServerError, "the script is empty")
	}
	return answers[min(i, len(answers)-1)]
}

func (s *Server) play(ctx context.Context, w http.ResponseWriter, req Request, a Answer) {
	if a.hang {
		s.Hang(ctx)
		return
	}
	if a.status != 0 {
		if a.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatFloat(a.retryAfter.Seconds(), 'f', -1, 64))
		}
		refuse(w, a.status, a.message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range a.events(req) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], encode(e))
		_ = http.NewResponseController(w).Flush()
	}
}

type event map[string]any

// events are the events a response is streamed as.
func (a Answer) events(req Request) []event {
	id := fmt.Sprintf("resp_scripted_%d", req.N)
	out := []event{{"type": "response.created", "response": event{"id": id}}}
	for i, item := range a.Items {
		fields := event{"type": item.Type, "id": fmt.Sprintf("item_scripted_%d_%d", req.N, i)}
		switch item.Type {
		case "message":
			fields["role"], fields["content"] = item.Role, item.Content
		case "function_call":
			fields["name"], fields["arguments"], fields["call_id"] = item.Name, item.Arguments, item.CallID
			if item.Namespace != "" {
				fields["namespace"] = item.Namespace
			}
		case "custom_tool_call":
			fields["name"], fields["input"], fields["call_id"] = item.Name, item.Input, item.CallID
		}
		out = append(out, event{"type": "response.output_item.done", "output_index": i, "item": fields})
	}
	switch {
	case a.cut:
		return out
	case a.failed != nil:
		return append(out, event{"type": "response.failed", "response": event{"id": id, "error": a.failed}})
	}
	return append(out, event{"type": "response.completed", "response": event{"id": id, "usage": event{
		"input_tokens": a.Usage.Input, "input_tokens_details": event{"cached_tokens": a.Usage.Cached},
		"output_tokens": a.Usage.Output, "output_tokens_details": event{"reasoning_tokens": a.Usage.Reasoning},
		"total_tokens": a.Usage.Input + a.Usage.Output,
	}}})
}

// refuse writes an error as the API does.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	kinds := map[int]string{
		http.StatusUnauthorized: "invalid_api_key", http.StatusTooManyRequests: "rate_limit_exceeded",
		http.StatusNotFound: "model_not_found", http.StatusInternalServerError: "server_error",
	}
	// A client that went away does not matter.
	_, _ = w.Write(encode(event{"error": event{"message": message, "type": "error", "code": kinds[status]}}))
}

// encode writes JSON as the API does, without escaping what only matters in HTML.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("an answer is not JSON: %v", err)) // a mistake in the test
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
