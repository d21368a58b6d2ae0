package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// shownText is as much of a text as a row shows unfolded; rawLimit as much of the line itself.
	shownText = 1200
	shownRows = 16
	fullText  = 32 << 10
	rawLimit  = 8 << 10
)

// part is one readable piece of an event.
type part struct {
	Kind string // the word in the margin
	Icon string
	Tone string // colour of the margin; empty for none
	Name string // the tool
	Text string
	Rest string // the whole text, where Text is only its beginning
	Code bool   // keep its columns
}

// streamEvent is what pages read of a line of an agent's stream. Unknown fields are the raw line's matter.
type streamEvent struct {
	Type      string   `json:"type"`
	Subtype   string   `json:"subtype"`
	Model     string   `json:"model"`
	Tools     []string `json:"tools"`
	SessionID string   `json:"session_id"`
	Attempt   int      `json:"attempt"`
	Retries   int      `json:"max_retries"`
	Error     any      `json:"error"`
	Text      string   `json:"text"`
	Message   *struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	IsError  bool     `json:"is_error"`
	Result   string   `json:"result"`
	Errors   []string `json:"errors"`
	Turns    *int64   `json:"num_turns"`
	Duration *int64   `json:"duration_ms"`
	Cost     *float64 `json:"total_cost_usd"`
}

// block is one piece of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Content  json.RawMessage `json:"content"`
	IsError  bool            `json:"is_error"`
}

func decodeEvent(line string) (streamEvent, bool) {
	var event streamEvent
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return event, false
	}
	// A field of a wrong type leaves the others readable.
	err := json.Unmarshal([]byte(line), &event)
	if _, wrongType := err.(*json.UnmarshalTypeError); err != nil && !wrongType { //nolint:errorlint // returned unwrapped
		return event, false
	}
	return event, event.Type != ""
}

// decodeLine makes a line of output readable. The recorder wraps error output, so what is no event was printed among them.
func decodeLine(line string) []part {
	event, ok := decodeEvent(line)
	if !ok {
		return []part{newPart("Stdout", "terminal", "", line, true)}
	}
	switch event.Type {
	case "system":
		return []part{systemPart(event)}
	case "assistant", "user":
		return messageParts(event)
	case "result":
		return []part{resultPart(event)}
	case "stderr":
		return []part{newPart("Stderr", "terminal", "warn", event.Text, true)}
	}
	return []part{newPart("Event", "info", "", strings.TrimSpace(event.Type+" "+event.Subtype), false)}
}

func systemPart(e streamEvent) part {
	switch e.Subtype {
	case "init":
		return newPart("Start", "play", "", fmt.Sprintf("%s with %s: %s",
			e.Model, plural(len(e.Tools), "tool", "tools"), strings.Join(e.Tools, ", ")), false)
	case "api_retry":
		return newPart("Retry", "retry", "warn", fmt.Sprintf("The model's API failed (%v). Attempt %d of %d follows.",
			e.Error, e.Attempt, e.Retries), false)
	}
	return newPart("System", "info", "", e.Subtype, false)
}

func messageParts(e streamEvent) []part {
	speaker := newPart("Text", "text", "", "", false)
	if e.Type == "user" {
		speaker.Kind = "Prompt"
	}
	if e.Message == nil {
		return []part{speaker}
	}
	var said string
	if json.Unmarshal(e.Message.Content, &said) == nil {
		return []part{newPart(speaker.Kind, speaker.Icon, "", said, false)}
	}
	var blocks []block
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		return []part{newPart(speaker.Kind, speaker.Icon, "", string(e.Message.Content), true)}
	}
	parts := make([]part, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, blockPart(b, speaker.Kind))
	}
	if len(parts) == 0 {
		return []part{speaker}
	}
	return parts
}

func blockPart(b block, speaker string) part {
	switch b.Type {
	case "text":
		return newPart(speaker, "text", "", b.Text, false)
	case "thinking":
		return newPart("Thinking", "text", "", b.Thinking, false)
	case "tool_use":
		call := newPart("Call", "terminal", "run", callText(b.Input), true)
		call.Name = plain(b.Name)
		return call
	case "tool_result":
		if b.IsError {
			return newPart("Failed", "octagon-x", "bad", contentText(b.Content), true)
		}
		return newPart("Output", "reply", "", contentText(b.Content), true)
	}
	return newPart("Event", "info", "", b.Type, false)
}

// callText is the argument that says what a call does, or all of them.
func callText(input json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return string(input)
	}
	for _, name := range []string{"command", "file_path", "pattern", "url", "query", "path"} {
		var value string
		if json.Unmarshal(fields[name], &value) == nil && value != "" {
			return value
		}
	}
	return string(input)
}

// contentText is a tool's answer, which is a string or a list of blocks.
func contentText(content json.RawMessage) string {
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

func resultPart(e streamEvent) part {
	text := e.lastWords()
	var figures []string
	if e.Turns != nil {
		figures = append(figures, plural(int(*e.Turns), "turn", "turns"))
	}
	if e.Duration != nil {
		figures = append(figures, span(time.Duration(*e.Duration)*time.Millisecond))
	}
	if e.Cost != nil {
		figures = append(figures, dollars(e.Cost).Text)
	}
	if len(figures) > 0 {
		text = strings.TrimSpace(text + "\n" + strings.Join(figures, " · "))
	}
	if e.IsError {
		return newPart("Result", "octagon-x", "bad", text, false)
	}
	return newPart("Result", "flag", "ok", text, false)
}

func (e streamEvent) lastWords() string {
	if e.Result != "" || len(e.Errors) == 0 {
		return e.Result
	}
	return strings.Join(e.Errors, "\n")
}

// newPart shows the beginning of a long text and keeps the whole to unfold.
func newPart(kind, icon, tone, text string, code bool) part {
	whole, cut := clip(plain(strings.TrimRight(text, "\n")), fullText)
	if cut {
		whole += "\n… cut here"
	}
	p := part{Kind: kind, Icon: icon, Tone: tone, Text: whole, Code: code}
	short, long := clip(whole, shownText)
	if rows := strings.SplitN(short, "\n", shownRows+1); len(rows) > shownRows {
		short, long = strings.Join(rows[:shownRows], "\n"), true
	}
	if long {
		p.Text, p.Rest = short+" …", whole
	}
	return p
}
