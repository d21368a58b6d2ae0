package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"claudeops/internal/api"
)

// shownLines is how many lines of one output are shown; --raw shows all.
const shownLines = 20

// shownArguments is how many characters of a call without a main argument are shown.
const shownArguments = 300

// streamEvent holds what is read from a line of an agent's stream.
type streamEvent struct {
	Type    string   `json:"type"`
	Subtype string   `json:"subtype"`
	Model   string   `json:"model"`
	Tools   []string `json:"tools"`
	Text    string   `json:"text"`
	Attempt int      `json:"attempt"`
	Retries int      `json:"max_retries"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	IsError  bool     `json:"is_error"`
	Result   string   `json:"result"`
	Errors   []string `json:"errors"`
	Turns    *int64   `json:"num_turns"`
	Duration *int64   `json:"duration_ms"`
	Cost     *float64 `json:"total_cost_usd"`
}

// streamBlock is a part of a message.
type streamBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Content  json.RawMessage `json:"content"`
	IsError  bool            `json:"is_error"`
}

// passage is one readable part of a transcript.
type passage struct {
	label, text, color string
	whole              bool // it is never cut
}

// passages makes a line of an agent's stream readable. Text that is not an event is what the agent printed.
func passages(line string) []passage {
	var e streamEvent
	err := json.Unmarshal([]byte(line), &e)
	if _, wrongType := err.(*json.UnmarshalTypeError); err != nil && !wrongType || e.Type == "" { //nolint:errorlint // returned unwrapped
		return []passage{{label: "stdout", text: line}}
	}
	switch {
	case e.Type == "system" && e.Subtype == "init":
		return []passage{{label: "start", text: fmt.Sprintf("%s with %s", e.Model, plural(len(e.Tools), "tool", "tools"))}}
	case e.Type == "system" && e.Subtype == "api_retry":
		return []passage{{label: "retry", text: fmt.Sprintf("the model API failed; attempt %d of %d", e.Attempt, e.Retries), color: yellow}}
	case e.Type == "assistant", e.Type == "user":
		return messagePassages(e)
	case e.Type == "result":
		return []passage{resultPassage(e)}
	case e.Type == "stderr", e.Type == "redacted":
		return []passage{{label: e.Type, text: e.Text, color: yellow}}
	}
	return []passage{{label: "event", text: strings.TrimSpace(e.Type + " " + e.Subtype)}}
}

func messagePassages(e streamEvent) []passage {
	label := "text"
	if e.Type == "user" {
		label = "prompt"
	}
	var said string
	if json.Unmarshal(e.Message.Content, &said) == nil {
		return []passage{{label: label, text: said, whole: label == "text"}}
	}
	var blocks []streamBlock
	if json.Unmarshal(e.Message.Content, &blocks) != nil {
		return []passage{{label: label, text: string(e.Message.Content)}}
	}
	var out []passage
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out = append(out, passage{label: label, text: b.Text, whole: label == "text"})
		case "thinking":
			out = append(out, passage{label: "thinking", text: b.Thinking})
		case "tool_use":
			out = append(out, passage{label: "call", text: b.Name + " " + callText(b.Input), color: blue})
		case "tool_result":
			p := passage{label: "output", text: outputText(b.Content)}
			if b.IsError {
				p.label, p.color = "failed", red
			}
			out = append(out, p)
		default:
			out = append(out, passage{label: "event", text: b.Type})
		}
	}
	return out
}

// callText is the main argument of a call, or all of them.
func callText(input json.RawMessage) string {
	fields := map[string]any{}
	if json.Unmarshal(input, &fields) == nil {
		for _, name := range []string{"command", "file_path", "pattern", "url", "query", "path"} {
			if text, ok := fields[name].(string); ok && text != "" {
				return text
			}
		}
	}
	return shorten(string(input), shownArguments)
}

// outputText is the result of a call: a string or a list of parts.
func outputText(content json.RawMessage) string {
	var said string
	if json.Unmarshal(content, &said) == nil {
		return said
	}
	var blocks []streamBlock
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	var texts []string
	for _, b := range blocks {
		texts = append(texts, or(b.Text, "["+b.Type+"]"))
	}
	return strings.Join(texts, "\n")
}

func resultPassage(e streamEvent) passage {
	var figures []string
	if e.Turns != nil {
		figures = append(figures, turns(e.Turns))
	}
	if e.Duration != nil {
		figures = append(figures, duration(time.Duration(*e.Duration)*time.Millisecond))
	}
	if e.Cost != nil {
		figures = append(figures, money(e.Cost))
	}
	text := or(e.Result, strings.Join(e.Errors, "\n"))
	if len(figures) > 0 {
		text = strings.TrimSpace(text + "\n" + strings.Join(figures, " · "))
	}
	p := passage{label: "result", text: text, color: green, whole: true}
	if e.IsError {
		p.color = red
	}
	return p
}

// printLine writes a line of a transcript for people: a time and a label in front, the text beside them.
func (s screen) printLine(w io.Writer, l api.Line) error {
	for _, p := range passages(l.Line) {
		lines := strings.Split(strings.TrimRight(p.text, "\n"), "\n")
		if more := len(lines) - shownLines; more > 1 && !p.whole {
			lines = append(lines[:shownLines], fmt.Sprintf("… %d more lines; --raw shows them", more))
		}
		for i, text := range lines {
			front := strings.Repeat(" ", len("15:04:05  "))
			label := fmt.Sprintf("%-8s", "")
			if i == 0 {
				front, label = l.At.Local().Format("15:04:05  "), fmt.Sprintf("%-8s", p.label)
				if s.color {
					label = paint(label, p.color)
				}
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(front+label+"  "+clean(strings.ReplaceAll(text, "\t", "    ")), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}
