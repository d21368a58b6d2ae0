// Package chatapi is a scripted Chat Completions API on loopback, for the agents that speak only that. It plays the scripts of
// messagesapi: a conversation is told in its words.
package chatapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"claudeops/test/loopback"
	"claudeops/test/messagesapi"
)

// Server is a Chat Completions API that plays a script.
type Server struct {
	*loopback.Server[messagesapi.Request]
	script messagesapi.Script
}

// New starts a server that is closed when the test ends.
func New(t testing.TB, script messagesapi.Script) *Server {
	t.Helper()
	s := &Server{script: script}
	s.Server = loopback.New(t, refuse, func(mux *http.ServeMux, l *loopback.Server[messagesapi.Request]) {
		s.Server = l
		mux.HandleFunc("POST /v1/chat/completions", s.complete)
	})
	return s
}

// URL is the base address for the agent, with the version of the API.
func (s *Server) URL() string { return s.Address() + "/v1" }

// request is a call of the model in the words of this API.
type request struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string              `json:"role"`
		Content messagesapi.Content `json:"content"`
		Calls   []call              `json:"tool_calls"`
		CallID  string              `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// told is the call in the words of the scripts.
func (r request) told(n int, header http.Header, body []byte) messagesapi.Request {
	out := messagesapi.Request{N: n, Header: header, Body: body, Model: r.Model, Stream: r.Stream}
	for _, m := range r.Messages {
		one := messagesapi.Message{Role: m.Role, Content: m.Content}
		for _, c := range m.Calls {
			one.Content = append(one.Content, messagesapi.Block{
				Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(cmp.Or(c.Function.Arguments, "{}")),
			})
		}
		if m.Role == "tool" {
			one = messagesapi.Message{Role: "user", Content: messagesapi.Content{{Type: "tool_result", ToolUseID: m.CallID, Content: m.Content}}}
		}
		out.Messages = append(out.Messages, one)
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, messagesapi.Tool{Name: t.Function.Name, Schema: t.Function.Parameters})
	}
	return out
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	req, ok := s.Take(w, r, func(n int, body []byte) (messagesapi.Request, error) {
		var in request
		err := json.Unmarshal(body, &in)
		if err == nil && !in.Stream {
			err = errors.New("only streamed answers are served")
		}
		return in.told(n, r.Header.Clone(), body), err
	})
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, delta := range deltas(s.script(req)) {
		delta["id"], delta["object"], delta["model"] = fmt.Sprintf("chatcmpl-scripted-%d", req.N), "chat.completion.chunk", req.Model
		data, err := json.Marshal(delta)
		if err != nil {
			panic(fmt.Sprintf("an answer is not JSON: %v", err)) // a mistake in the test
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

type object = map[string]any

// deltas are the parts in which an answer is streamed.
func deltas(a messagesapi.Answer) []object {
	part := func(delta object, finish any) object {
		return object{"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}}
	}
	out, finish := []object{part(object{"role": "assistant", "content": ""}, nil)}, "stop"
	calls := 0
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			out = append(out, part(object{"content": b.Text}, nil))
		case "tool_use":
			c := call{Index: calls, ID: b.ID, Type: "function"}
			c.Function.Name, c.Function.Arguments = b.Name, string(b.Input)
			out, finish = append(out, part(object{"tool_calls": []call{c}}, nil)), "tool_calls"
			calls++
		}
	}
	usage := object{
		"prompt_tokens": a.Usage.Input, "completion_tokens": a.Usage.Output, "total_tokens": a.Usage.Input + a.Usage.Output,
	}
	return append(out, part(object{}, finish), object{"choices": []object{}, "usage": usage})
}

// refuse writes an error as the API does.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away does not matter.
	_ = json.NewEncoder(w).Encode(object{"error": object{"message": message, "type": "error"}})
}
