package responsesapi

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

	Model        string `json:"model"`
	Stream       bool   `json:"stream"`
	Instructions string `json:"instructions"`
	Input        []Item `json:"input"`
	Tools        []Tool `json:"tools"`
	Text         struct {
		Format *Format `json:"format"`
	} `json:"text"`
}

// Format is the form an answer is asked for in.
type Format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// Tool is a tool the model is offered.
type Tool struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Tools []Tool `json:"tools"` // of a namespace
}

// Item is one entry of the conversation. Which fields are set depends on its type.
type Item struct {
	Type string `json:"type"`

	Role    string `json:"role,omitempty"`
	Content []Part `json:"content,omitempty"`

	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Arguments string `json:"arguments,omitempty"` // of a function call
	Input     string `json:"input,omitempty"`     // of a custom tool call
	CallID    string `json:"call_id,omitempty"`
	Output    Output `json:"output,omitempty"`
}

// Part is a part of a message.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Output is what a tool answered: a text, or the texts of its parts.
type Output string

// UnmarshalJSON reads a text or a list of parts.
func (o *Output) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*o = Output(text)
		return nil
	}
	var parts []Part
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	*o = Output(join(parts))
	return nil
}

func join(parts []Part) string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// Output returns what the tool call with this id answered, wherever it is in the conversation.
func (r Request) Output(id string) (string, bool) {
	for _, i := range r.Input {
		if i.isOutput() && i.CallID == id {
			return string(i.Output), true
		}
	}
	return "", false
}

func (i Item) isCall() bool { return i.Type == "function_call" || i.Type == "custom_tool_call" }
func (i Item) isOutput() bool {
	return i.Type == "function_call_output" || i.Type == "custom_tool_call_output"
}

// Developer is what the agent and its operator told the model beforehand.
func (r Request) Developer() string {
	var texts []string
	for _, i := range r.Input {
		if i.Type == "message" && i.Role == "developer" {
			texts = append(texts, join(i.Content))
		}
	}
	return strings.Join(texts, "\n")
}

// Prompts are what the user said, oldest first. What the agent says on its own in the user's name is not counted.
func (r Request) Prompts() []string {
	var prompts []string
	for _, i := range r.Input {
		if text, ok := i.prompt(); ok {
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

// Turn counts the calls of tools since the last prompt: 0 when the prompt is still to be answered. A request that is made
// again is the same turn.
func (r Request) Turn() int {
	turn := 0
	for _, i := range r.Input {
		if _, ok := i.prompt(); ok {
			turn = 0
		} else if i.isCall() {
			turn++
		}
	}
	return turn
}

func (i Item) prompt() (string, bool) {
	if i.Type != "message" || i.Role != "user" {
		return "", false
	}
	text := join(i.Content)
	own := strings.HasPrefix(text, "<environment_context>") || strings.HasPrefix(text, "# AGENTS.md instructions") ||
		strings.HasPrefix(text, "<turn_aborted>")
	return text, !own
}

// ToolNames are the tools on offer, sorted. Those of a namespace are named with it: namespace/name.
func (r Request) ToolNames() []string {
	names := make([]string, 0, len(r.Tools))
	for _, t := range r.Tools {
		name := t.Name
		if name == "" {
			name = t.Type
		}
		for _, inner := range t.Tools {
			names = append(names, name+"/"+inner.Name)
		}
		if len(t.Tools) == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unanswered returns the id of a tool call without its output.
func (r Request) unanswered() string {
	for _, i := range r.Input {
		if i.isCall() {
			if _, ok := r.Output(i.CallID); !ok {
				return i.CallID
			}
		}
	}
	return ""
}
