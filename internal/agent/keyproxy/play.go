package keyproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// Play answers in the place of an API, in the form of Claude's or of OpenAI's: it asks the program for one command and for one file, and
// ends when both were answered. No model is asked, so it costs nothing.
type Play struct {
	Command string // for the shell
	File    string // to be written

	ended atomic.Bool
}

// Ended reports whether the program answered what it was asked for.
func (p *Play) Ended() bool { return p.ended.Load() }

// The ids of the calls that a play asks for.
const (
	PlayedCommand = "toolu_trial_command"
	PlayedFile    = "toolu_trial_file"
)

func (p *Play) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		return
	}
	answered := bytes.Contains(body, []byte(PlayedCommand)) && bytes.Contains(body, []byte(PlayedFile))
	if answered {
		p.ended.Store(true)
	}
	var events []fields
	if strings.HasSuffix(r.URL.Path, "/responses") {
		events = p.responses(body, answered)
	} else {
		events = p.messages(answered)
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range events {
		data, _ := json.Marshal(e) // it always has a JSON form
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	}
}

type fields map[string]any

// messages is a streamed message of Claude's API.
func (p *Play) messages(answered bool) []fields {
	usage := fields{"input_tokens": 1, "output_tokens": 1}
	out := []fields{{"type": "message_start", "message": fields{
		"id": "msg_trial", "type": "message", "role": "assistant", "model": "trial", "content": []any{}, "stop_reason": nil, "usage": usage,
	}}}
	block := func(start, delta fields) {
		at := (len(out) - 1) / 3 //nolint:mnd // events of a block
		out = append(out, fields{"type": "content_block_start", "index": at, "content_block": start},
			fields{"type": "content_block_delta", "index": at, "delta": delta}, fields{"type": "content_block_stop", "index": at})
	}
	stop := "end_turn"
	if answered {
		block(fields{"type": "text", "text": ""}, fields{"type": "text_delta", "text": "done"})
	} else {
		stop = "tool_use"
		for _, c := range []struct {
			id, tool string
			input    fields
		}{
			{PlayedCommand, "Bash", fields{"command": p.Command, "description": "Trial"}},
			{PlayedFile, "Write", fields{"file_path": p.File, "content": "trial\n"}},
		} {
			text, _ := json.Marshal(c.input) // it always has a JSON form
			block(fields{"type": "tool_use", "id": c.id, "name": c.tool, "input": fields{}},
				fields{"type": "input_json_delta", "partial_json": string(text)})
		}
	}
	return append(out, fields{"type": "message_delta", "delta": fields{"stop_reason": stop}, "usage": usage}, fields{"type": "message_stop"})
}

// responses is a streamed response of OpenAI's API.
func (p *Play) responses(body []byte, answered bool) []fields {
	items := []fields{{"type": "message", "role": "assistant", "content": []any{fields{"type": "output_text", "text": "done"}}}}
	if !answered {
		run := func(id, command string) fields {
			text, _ := json.Marshal(fields{"cmd": command, "yield_time_ms": 10_000})
			return fields{"type": "function_call", "name": "exec_command", "call_id": id, "arguments": string(text)}
		}
		items = []fields{run(PlayedCommand, p.Command), run(PlayedFile, "printf trial > "+p.File)}
		if bytes.Contains(body, []byte(`"apply_patch"`)) {
			items[1] = fields{
				"type": "custom_tool_call", "name": "apply_patch", "call_id": PlayedFile,
				"input": "*** Begin Patch\n*** Add File: " + p.File + "\n+trial\n*** End Patch\n",
			}
		}
	}
	out := []fields{{"type": "response.created", "response": fields{"id": "resp_trial"}}}
	for i, item := range items {
		item["id"] = fmt.Sprintf("item_trial_%d", i)
		out = append(out, fields{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	return append(out, fields{"type": "response.completed", "response": fields{
		"id": "resp_trial", "usage": fields{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
	}})
}
