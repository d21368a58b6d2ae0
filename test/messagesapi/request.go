package messagesapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Request is one call of the model.
type Request struct {
	N      int             `json:"-"` // counts from 1 over the life of the server
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"-"`

	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	System   Content         `json:"system"`
	Messages []Message       `json:"messages"`
	Tools    []Tool          `json:"tools"`
	Choice   json.RawMessage `json:"tool_choice"`
}

// Message is one message of the conversation.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// Tool is a tool the model is offered.
type Tool struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"input_schema"`
}

// Content is a list of blocks; the API also takes a plain text for a single one.
type Content []Block

// Block is a part of a message. Which fields are set depends on its type.
type Block struct {
	Type string `json:"type"`

	Text string `json:"text,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	ToolUseID string  `json:"tool_use_id,omitempty"`
	Content   Content `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`
}

// UnmarshalJSON reads a list of blocks or a plain text.
func (c *Content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = Content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]Block)(c))
}

// String joins the texts of the blocks.
func (c Content) String() string {
	var texts []string
	for _, b := range c {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Result is what a tool answered.
type Result struct {
	Text    string
	IsError bool
}

// Result returns what the tool call with this id answered, wherever it is in the conversation.
func (r Request) Result(id string) (Result, bool) {
	for _, m := range r.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_result" && b.ToolUseID == id {
				return Result{Text: b.Content.String(), IsError: b.IsError}, true
			}
		}
	}
	return Result{}, false
}

// Answered reports whether the result of the tool call with this id is what the model is to answer
// now.
func (r Request) Answered(id string) bool {
	for _, m := range slices.Backward(r.Messages) {
		switch m.Role {
		case "user":
			return slices.ContainsFunc(m.Content, func(b Block) bool {
				return b.Type == "tool_result" && b.ToolUseID == id
			})
		case "assistant":
			return false
		}
	}
	return false
}

// placeholder is a tool Claude Code offers newer models for technical reasons. It cannot be called.
const placeholder = "DeferredToolPlaceholder"

// ToolNames are the tools on offer, sorted.
func (r Request) ToolNames() []string {
	names := make([]string, 0, len(r.Tools))
	for _, t := range r.Tools {
		if t.Name != placeholder {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Prompts are what the user said, oldest first. What the agent says on its own in the user's name
// is not counted.
func (r Request) Prompts() []string {
	var prompts []string
	for _, m := range r.Messages {
		if text, ok := m.prompt(); ok {
			prompts = append(prompts, text)
		}
	}
	return prompts
}

// Prompt is what the user said last.
func (r Request) Prompt() string {
	if p := r.Prompts(); len(p) > 0 {
		return p[len(p)-1]
	}
	return ""
}

// Turn counts the answers of the model since the last prompt: 0 when the prompt is still to be
// answered. A request that is made again is the same turn.
func (r Request) Turn() int {
	turn := 0
	for _, m := range r.Messages {
		if _, ok := m.prompt(); ok {
			turn = 0
		} else if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

func (m Message) prompt() (string, bool) {
	if m.Role != "user" {
		return "", false
	}
	var texts []string
	for _, b := range m.Content {
		if b.Type == "text" && !ownWords(b.Text) {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// ownWords reports whether a text in the user's name was written by the agent.
func ownWords(text string) bool {
	return text == "(no content)" ||
		strings.HasPrefix(text, "<system-reminder>") ||
		strings.HasPrefix(text, "[structured-output-enforce]") ||
		strings.HasPrefix(text, "[Request interrupted by user")
}

// unpaired returns the id of a tool call without its result in the next message, or of a result
// without its call in the one before.
func (r Request) unpaired() string {
	var calls []string
	for _, m := range r.Messages {
		if m.Role == "system" { // a notice of the agent in between
			continue
		}
		var results, next []string
		for _, b := range m.Content {
			switch b.Type {
			case "tool_result":
				results = append(results, b.ToolUseID)
			case "tool_use":
				next = append(next, b.ID)
			}
		}
		for _, id := range calls {
			if !slices.Contains(results, id) {
				return id
			}
		}
		for _, id := range results {
			if !slices.Contains(calls, id) {
				return id
			}
		}
		calls = next
	}
	if len(calls) > 0 {
		return calls[0]
	}
	return ""
}
