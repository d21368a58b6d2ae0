package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
)

// acpMessage is a line of a CLI that speaks the Agent Client Protocol.
type acpMessage struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  struct {
		Update acpUpdate `json:"update"`
		Call   acpUpdate `json:"toolCall"`
	} `json:"params"`
	Result struct {
		Reason string `json:"stopReason"`
		Usage  *struct {
			Input  int64 `json:"inputTokens"`
			Output int64 `json:"outputTokens"`
		} `json:"usage"`
		Agent struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"agentInfo"`
		Session string `json:"sessionId"`
	} `json:"result"`
	Error *struct {
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

type acpUpdate struct {
	Kind    string          `json:"sessionUpdate"`
	Content json.RawMessage `json:"content"`
	ID      string          `json:"toolCallId"`
	Title   string          `json:"title"`
	Tool    string          `json:"kind"`
	Status  string          `json:"status"`
	Input   json.RawMessage `json:"rawInput"`
	Output  json.RawMessage `json:"rawOutput"`
	Used    int64           `json:"used"`
	Size    int64           `json:"size"`
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
}

// readACP reads a message of the protocol; it is not one when ok is not set.
func readACP(line string) (p Part, ok bool) {
	var m acpMessage
	if !strings.Contains(line, `"jsonrpc"`) || !decode([]byte(line), &m) || m.Version == "" {
		return Part{}, false
	}
	switch {
	case m.Method == "session/update":
		return m.Params.Update.part(), true
	case m.Method == "session/request_permission":
		return m.Params.Call.asked(), true
	case m.Method != "":
		return Part{Kind: Event, Text: m.Method}, true
	case m.Error != nil:
		text := m.Error.Message
		if len(m.Error.Data) > 0 {
			text += " " + string(m.Error.Data)
		}
		return Part{Kind: Result, Text: text, Failed: true}, true
	case m.Result.Agent.Version != "":
		return Part{Kind: Start, Text: strings.TrimSpace(m.Result.Agent.Name + " " + m.Result.Agent.Version)}, true
	case m.Result.Reason != "":
		p = Part{Kind: Result, Failed: m.Result.Reason != "end_turn"}
		if p.Failed {
			p.Text = m.Result.Reason
		}
		if u := m.Result.Usage; u != nil {
			p.Figures.Tokens = &Tokens{Read: u.Input, Written: u.Output}
		}
		return p, true
	case m.Result.Session != "":
		return Part{Kind: Event, Text: "A conversation starts."}, true
	}
	return Part{Kind: Event, Text: "answer"}, true
}

func (u acpUpdate) part() Part {
	switch u.Kind {
	case "agent_message_chunk":
		return Part{Kind: Text, Text: u.text()}
	case "agent_thought_chunk":
		return Part{Kind: Thinking, Text: u.text()}
	case "user_message_chunk":
		return Part{Kind: Prompt, Text: u.text()}
	case "plan":
		lines := make([]string, 0, len(u.Entries))
		for _, e := range u.Entries {
			mark := "[ ] "
			if e.Status == "completed" {
				mark = "[x] "
			}
			lines = append(lines, mark+e.Content)
		}
		return Part{Kind: Thinking, Text: strings.Join(lines, "\n")}
	case "usage_update":
		return Part{Kind: Event, Text: fmt.Sprintf("%d of %d tokens of context used", u.Used, u.Size)}
	}
	if (u.Kind == "tool_call" || u.Kind == "tool_call_update") && (u.Status == "completed" || u.Status == "failed") {
		return Part{Kind: Output, Tool: u.tool(), Text: u.output(), Answer: u.ID, Failed: u.Status == "failed"}
	}
	return Part{Kind: Event, Text: strings.TrimSpace(u.Kind + " " + u.Title + " " + u.Status)}
}

// asked is a call that the CLI asks about.
func (u acpUpdate) asked() Part {
	text, paths := arguments(u.Input)
	if text == "" || text == "{}" {
		text = u.Title
	}
	return Part{Kind: Call, Tool: u.tool(), Text: text, Paths: paths, Call: u.ID}
}

// tool is the name of a tool, the same as Claude Code's where it does the same.
func (u acpUpdate) tool() string {
	switch u.Tool {
	case "execute":
		return "Bash"
	case "read":
		return "Read"
	case "edit":
		return "Edit"
	case "search":
		return "Grep"
	case "fetch":
		return "WebFetch"
	case "", "other":
		return u.Title
	}
	return u.Tool
}

// text is what a message says.
func (u acpUpdate) text() string {
	var b block
	_ = json.Unmarshal(u.Content, &b) // what cannot be read says nothing
	return b.Text
}

// output is what a call returned.
func (u acpUpdate) output() string {
	var blocks []struct {
		Content block `json:"content"`
	}
	var out []string
	if json.Unmarshal(u.Content, &blocks) == nil {
		for _, b := range blocks {
			if b.Content.Text != "" {
				out = append(out, b.Content.Text)
			}
		}
	}
	if len(out) == 0 {
		return string(u.Output)
	}
	return strings.Join(out, "\n")
}
