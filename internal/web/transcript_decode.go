package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// streamEvent holds the fields that pages read from a line of an agent's stream.
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

// block is one content block of a message.
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

// part is one readable part of a line.
type part struct {
	Kind   string // label in the margin
	Icon   string
	Tone   string // colour of the margin; may be empty
	Name   string // the tool
	Text   string
	Prose  bool   // markdown text
	Code   bool   // preformatted text
	Call   string // id of the tool call it makes
	Answer string // id of the tool call it answers
	Failed bool
}

func decodeEvent(line string) (streamEvent, bool) {
	var event streamEvent
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return event, false
	}
	// A field of the wrong type does not affect the others.
	err := json.Unmarshal([]byte(line), &event)
	if _, wrongType := err.(*json.UnmarshalTypeError); err != nil && !wrongType { //nolint:errorlint // returned unwrapped
		return event, false
	}
	return event, event.Type != ""
}

// decodeLine makes a line of output readable. Standard error is wrapped in events, so any other text is standard output.
func decodeLine(line string) []part {
	event, ok := decodeEvent(line)
	if !ok {
		return []part{{Kind: "Stdout", Icon: "terminal", Text: line, Code: true}}
	}
	switch event.Type {
	case "system":
		return []part{systemPart(event)}
	case "assistant", "user":
		return messageParts(event)
	case "result":
		return []part{resultPart(event)}
	case "stderr":
		return []part{{Kind: "Stderr", Icon: "terminal", Tone: "warn", Text: event.Text, Code: true}}
	case store.OutputDropped:
		return []part{{Kind: "Dropped", Icon: "info", Tone: "warn", Text: event.Text}}
	case "redacted":
		return []part{{Kind: "Withheld", Icon: "shield", Tone: "warn", Text: event.Text}}
	}
	return []part{{Kind: "Event", Icon: "info", Text: strings.TrimSpace(event.Type + " " + event.Subtype)}}
}

func systemPart(e streamEvent) part {
	switch e.Subtype {
	case "init":
		return part{Kind: "Start", Icon: "play", Text: fmt.Sprintf("%s with %s: %s",
			e.Model, plural(len(e.Tools), "tool", "tools"), strings.Join(e.Tools, ", "))}
	case "api_retry":
		return part{Kind: "Retry", Icon: "rotate-ccw", Tone: "warn", Text: fmt.Sprintf("The model API failed (%v). Retrying, attempt %d of %d.",
			e.Error, e.Attempt, e.Retries)}
	}
	return part{Kind: "System", Icon: "info", Text: e.Subtype}
}

func messageParts(e streamEvent) []part {
	speaker := part{Kind: "Text", Icon: "message-square-text", Prose: true}
	if e.Type == "user" {
		speaker.Kind, speaker.Icon, speaker.Prose = "Prompt", "user", false
	}
	if e.Message == nil {
		return []part{speaker}
	}
	var said string
	if json.Unmarshal(e.Message.Content, &said) == nil {
		speaker.Text = said
		return []part{speaker}
	}
	var blocks []block
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		speaker.Text, speaker.Code, speaker.Prose = string(e.Message.Content), true, false
		return []part{speaker}
	}
	parts := make([]part, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, blockPart(b, speaker))
	}
	if len(parts) == 0 {
		return []part{speaker}
	}
	return parts
}

func blockPart(b block, speaker part) part {
	switch b.Type {
	case "text":
		speaker.Text = b.Text
		return speaker
	case "thinking":
		return part{Kind: "Thinking", Icon: "brain", Text: b.Thinking, Prose: true}
	case "tool_use":
		return part{Kind: "Call", Icon: "terminal", Name: b.Name, Text: callText(b.Input), Code: true, Call: b.ID}
	case "tool_result":
		if b.IsError {
			return part{
				Kind: "Failed", Icon: "octagon-x", Tone: "bad", Text: contentText(b.Content), Code: true, Answer: b.ToolUseID, Failed: true,
			}
		}
		return part{Kind: "Output", Icon: "corner-down-left", Text: contentText(b.Content), Code: true, Answer: b.ToolUseID}
	}
	return part{Kind: "Event", Icon: "info", Text: b.Type}
}

// callText is the main argument of a call, or all of them.
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

// contentText is the result of a tool, which is a string or a list of blocks.
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
	text := e.finalMessage()
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
		text = strings.TrimSpace(text + "\n\n" + strings.Join(figures, " · "))
	}
	if e.IsError {
		return part{Kind: "Result", Icon: "octagon-x", Tone: "bad", Text: text, Prose: true, Failed: true}
	}
	return part{Kind: "Result", Icon: "flag", Tone: "ok", Text: text, Prose: true}
}

func (e streamEvent) finalMessage() string {
	if e.Result != "" || len(e.Errors) == 0 {
		return e.Result
	}
	return strings.Join(e.Errors, "\n")
}

// exitCode matches the start of the result of a failed command.
//
//nolint:gochecknoglobals // a constant, compiled when first needed
var exitCode = ops.Pattern(`^(?:Error: )?Exit code (\d+)`)

// answerWord is the result of a call in one word.
func answerWord(tool string, p part) string {
	if found := exitCode().FindStringSubmatch(strings.TrimSpace(p.Text)); found != nil {
		return "exit " + found[1]
	}
	switch {
	case p.Failed:
		return "failed"
	case tool == "Bash":
		return "exit 0"
	}
	return "done"
}

// lineText is the full text of one part of a line.
func lineText(line ops.Line, piece int) (string, bool) {
	parts := decodeLine(line.Text)
	if piece < 0 || piece >= len(parts) {
		return "", false
	}
	return plain(parts[piece].Text), true
}
