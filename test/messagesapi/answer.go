package messagesapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Answer is what the model answers, or how it fails to. The zero value is an empty message.
type Answer struct {
	Content    []Block
	StopReason string // left empty: tool_use when a tool is called, else end_turn
	Usage      Usage
	Model      string // left empty: the one that was asked for

	status     int // an HTTP error instead of a message
	message    string
	retryAfter time.Duration

	broken bool // the answer ends early,
	after  int  // behind this many events of the stream;
	hang   bool // its connection stays open
}

// Usage are the tokens the API says a call took.
type Usage struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
}

// Text is an answer that calls no tool.
func Text(text string) Answer {
	return Answer{Content: []Block{{Type: "text", Text: text}}}
}

// Call is an answer that calls a tool. An empty id is filled in.
func Call(id, tool string, input any) Answer {
	return Answer{}.Call(id, tool, input)
}

// Bash is an answer that runs a shell command.
func Bash(id, command string) Answer {
	return Call(id, "Bash", map[string]any{"command": command, "description": "Run a command"})
}

// Structured is an answer that gives the structured output.
func Structured(id string, output any) Answer {
	return Call(id, "StructuredOutput", output)
}

// Call adds a call of a tool.
func (a Answer) Call(id, tool string, input any) Answer {
	data, ok := input.(json.RawMessage)
	if !ok {
		var err error
		if data, err = json.Marshal(input); err != nil {
			panic(fmt.Sprintf("the input of %s is not JSON: %v", tool, err)) // a mistake in the test
		}
	}
	a.Content = append(a.Content[:len(a.Content):len(a.Content)], Block{Type: "tool_use", ID: id, Name: tool, Input: data})
	return a
}

// Took sets the tokens of the call.
func (a Answer) Took(u Usage) Answer {
	a.Usage = u
	return a
}

// Because sets the reason the model stopped for.
func (a Answer) Because(stopReason string) Answer {
	a.StopReason = stopReason
	return a
}

// Fail is an answer with an HTTP error, such as 401, 403, 404, 429, 500 or 529.
func Fail(status int, message string) Answer {
	return Answer{status: status, message: message}
}

// RetryAfter tells the client of a failed call when to come back.
func (a Answer) RetryAfter(d time.Duration) Answer {
	a.retryAfter = d
	return a
}

// Hang never answers.
func Hang() Answer { return Answer{broken: true, hang: true, after: -1} }

// Drop closes the connection instead of an answer.
func Drop() Answer { return Answer{broken: true, after: -1} }

// CutAfter closes the connection behind that many events of the stream; 0 sends the header only.
// An answer that is not streamed is cut in the middle.
func (a Answer) CutAfter(events int) Answer {
	a.broken, a.after = true, events
	return a
}

// InOrder plays one answer per request and repeats the last one.
func InOrder(answers ...Answer) Script {
	return func(req Request) Answer { return pick(answers, req.N-1) }
}

// Turns plays one answer per turn of the conversation since the last prompt and repeats the last
// one. A request that is made again gets the same answer again.
func Turns(answers ...Answer) Script {
	return func(req Request) Answer { return pick(answers, req.Turn()) }
}

func pick(answers []Answer, i int) Answer {
	if len(answers) == 0 {
		return Fail(http.StatusInternalServerError, "the script is empty")
	}
	return answers[min(i, len(answers)-1)]
}

// refuse writes an error as the API does.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away does not matter.
	_ = json.NewEncoder(w).Encode(errorBody(status, message))
}

type apiError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func errorBody(status int, message string) apiError {
	e := apiError{Type: "error", RequestID: "req_scripted"}
	e.Error.Type, e.Error.Message = errorType(status), message
	return e
}

func errorType(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case statusOverloaded:
		return "overloaded_error"
	default:
		return "api_error"
	}
}

const statusOverloaded = 529

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}
