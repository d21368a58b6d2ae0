package messagesapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// reply is a message of the model as the API sends it.
type reply struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []Block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        Usage   `json:"usage"`
}

func (s *Server) play(ctx context.Context, w http.ResponseWriter, req Request, a Answer) {
	w.Header().Set("Request-Id", fmt.Sprintf("req_scripted_%d", req.N))
	if a.status != 0 {
		if a.retryAfter > 0 {
			w.Header().Set("Retry-After", seconds(a.retryAfter))
		}
		refuse(w, a.status, a.message)
		return
	}
	if a.broken && a.after < 0 {
		s.breakOff(ctx, a.hang)
	}
	if req.Stream {
		s.stream(ctx, w, a, a.reply(req))
		return
	}
	s.whole(ctx, w, a, a.reply(req))
}

// breakOff ends an answer before its end. It does not return.
func (s *Server) breakOff(ctx context.Context, hang bool) {
	if hang {
		s.hang(ctx)
	}
	drop()
}

func (a Answer) reply(req Request) reply {
	m := reply{
		ID: fmt.Sprintf("msg_scripted_%d", req.N), Type: "message", Role: "assistant",
		Model: a.Model, Content: make([]Block, len(a.Content)), Usage: a.Usage,
	}
	if m.Model == "" {
		m.Model = req.Model
	}
	stop := "end_turn"
	for i, b := range a.Content {
		if b.Type == "tool_use" {
			stop = "tool_use"
			if b.ID == "" {
				b.ID = fmt.Sprintf("toolu_scripted_%d_%d", req.N, i)
			}
		}
		m.Content[i] = b
	}
	if a.StopReason != "" {
		stop = a.StopReason
	}
	m.StopReason = &stop
	return m
}

// whole sends an answer in one piece.
func (s *Server) whole(ctx context.Context, w http.ResponseWriter, a Answer, m reply) {
	data := encode(m)
	w.Header().Set("Content-Type", "application/json")
	if a.broken {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		send(w, data[:len(data)/2])
		s.breakOff(ctx, a.hang)
	}
	send(w, data)
}

// stream sends an answer as server-sent events.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, a Answer, m reply) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	send(w, nil)
	for i, e := range events(m) {
		if a.broken && i >= a.after {
			break
		}
		send(w, e.bytes())
	}
	if a.broken {
		s.breakOff(ctx, a.hang)
	}
}

// event is one event of a stream.
type event struct {
	name string
	data any
}

func (e event) bytes() []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, encode(e.data))
}

// events are the events a message is streamed as: one start, three for each block, two at the end.
func events(m reply) []event {
	type fields map[string]any
	begin := m
	begin.Content, begin.StopReason, begin.Usage.Output = []Block{}, nil, min(1, m.Usage.Output)
	out := []event{{"message_start", fields{"type": "message_start", "message": begin}}}
	for i, b := range m.Content {
		start := fields{"type": "text", "text": ""}
		delta := fields{"type": "text_delta", "text": b.Text}
		if b.Type == "tool_use" {
			start = fields{"type": "tool_use", "id": b.ID, "name": b.Name, "input": fields{}}
			delta = fields{"type": "input_json_delta", "partial_json": string(b.Input)}
		}
		out = append(
			out,
			event{"content_block_start", fields{"type": "content_block_start", "index": i, "content_block": start}},
			event{"content_block_delta", fields{"type": "content_block_delta", "index": i, "delta": delta}},
			event{"content_block_stop", fields{"type": "content_block_stop", "index": i}},
		)
	}
	end := fields{"stop_reason": m.StopReason, "stop_sequence": nil}
	return append(
		out,
		event{"message_delta", fields{"type": "message_delta", "delta": end, "usage": m.Usage}},
		event{"message_stop", fields{"type": "message_stop"}},
	)
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

// send writes at once. A client that went away does not matter.
func send(w http.ResponseWriter, data []byte) {
	_, _ = w.Write(data)
	_ = http.NewResponseController(w).Flush()
}
