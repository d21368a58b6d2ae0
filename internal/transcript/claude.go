package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// block is one content block of a message of Claude Code.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (e event) claude() []Part {
	switch {
	case e.Type == "system" && e.Subtype == "init":
		tools := fmt.Sprintf("%d tools", len(e.Tools))
		if len(e.Tools) == 1 {
			tools = "1 tool"
		}
		return []Part{{Kind: Start, Text: fmt.Sprintf("%s with %s: %s", e.Model, tools, strings.Join(e.Tools, ", "))}}
	case e.Type == "system" && e.Subtype == "api_retry":
		return []Part{{Kind: Retry, Text: fmt.Sprintf("The model API failed (%v). Retrying, attempt %d of %d.", e.Error, e.Attempt, e.Retries)}}
	case e.Type == "system":
		return []Part{{Kind: Event, Text: e.Subtype}}
	case e.Type == "result":
		return []Part{e.result()}
	}
	return e.message()
}

// message returns what the agent says or is told. A part that is not understood is shown as it is.
func (e event) message() []Part {
	speaker := Part{Kind: Text}
	if e.Type == "user" {
		speaker.Kind = Prompt
	}
	content := e.Message.Content
	var said string
	if json.Unmarshal(content, &said) == nil || len(content) == 0 {
		speaker.Text = said
		return []Part{speaker}
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return []Part{{Kind: Event, Text: string(content)}}
	}
	parts := make([]Part, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, b.part(speaker))
	}
	if len(parts) == 0 {
		return []Part{speaker}
	}
	return parts
}

func (b block) part(speaker Part) Part {
	switch b.Type {
	case "text":
		speaker.Text = b.Text
		return speaker
	case "thinking":
		return Part{Kind: Thinking, Text: b.Thinking}
	case "tool_use":
		text, paths := arguments(b.Input)
		return Part{Kind: Call, Tool: b.Name, Text: text, Paths: paths, Call: b.ID}
	case "tool_result":
		return Part{Kind: Output, Text: returned(b.Content), Answer: b.ToolUseID, Failed: b.IsError}
	}
	return Part{Kind: Event, Text: b.Type}
}

// arguments returns the main argument of a call, or all of them, and the files that it names.
func arguments(input json.RawMessage) (text string, paths []string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return string(input), nil
	}
	field := func(names ...string) string {
		for _, name := range names {
			var value string
			if json.Unmarshal(fields[name], &value) == nil && value != "" {
				return value
			}
		}
		return ""
	}
	text = field("command", "file_path", "notebook_path", "pattern", "url", "query", "path")
	if text == "" {
		text = string(input)
	}
	if path := field("file_path", "notebook_path"); path != "" {
		paths = []string{path}
	}
	return text, paths
}

// returned is what a tool returned: a string or a list of blocks.
func returned(content json.RawMessage) string {
	var said string
	if json.Unmarshal(content, &said) == nil {
		return said
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	texts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else {
			texts = append(texts, "["+b.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}

func (e event) result() Part {
	p := Part{Kind: Result, Text: e.Result, Failed: e.IsError, Figures: Figures{Turns: e.Turns, CostUSD: e.Cost}}
	if p.Text == "" {
		p.Text = strings.Join(e.Errors, "\n")
	}
	if e.Duration != nil {
		took := time.Duration(*e.Duration) * time.Millisecond
		p.Figures.Duration = &took
	}
	return p
}
