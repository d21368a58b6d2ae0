package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
)

// codexEvent is a line of `codex exec --json`.
type codexEvent struct {
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item  codexItem `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

type codexItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Message   string          `json:"message"`
	Command   string          `json:"command"`
	Output    string          `json:"aggregated_output"`
	Exit      *int            `json:"exit_code"`
	Status    string          `json:"status"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Returned  struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
	Query   string `json:"query"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
	Items []struct {
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	} `json:"items"`
}

func readCodex(line string, e event) Part {
	var c codexEvent
	if !decode([]byte(line), &c) {
		return e.other()
	}
	switch e.Type {
	case "thread.started":
		return Part{Kind: Start, Text: "A conversation starts."}
	case "turn.completed":
		return Part{Kind: Result, Figures: Figures{Tokens: &Tokens{Read: c.Usage.Input, Written: c.Usage.Output}}}
	case "turn.failed":
		return Part{Kind: Result, Text: c.Error.Message, Failed: true}
	case "error":
		return Part{Kind: Retry, Text: c.Message}
	case "item.started":
		return c.Item.started()
	case "item.completed":
		return c.Item.completed()
	}
	return e.other()
}

func (i codexItem) started() Part {
	if text, called := i.call(); called {
		return Part{Kind: Call, Tool: i.tool(), Text: text, Call: i.ID}
	}
	return Part{Kind: Event, Text: i.Type + " started"}
}

func (i codexItem) completed() Part {
	switch i.Type {
	case "agent_message":
		return Part{Kind: Text, Text: i.Text}
	case "reasoning":
		return Part{Kind: Thinking, Text: i.Text}
	case "error":
		return Part{Kind: Event, Text: i.Message}
	case "todo_list":
		return Part{Kind: Thinking, Text: i.list()}
	}
	text, called := i.call()
	if !called {
		return Part{Kind: Event, Text: i.Type}
	}
	p := Part{
		Kind: Output, Tool: i.tool(), Text: i.Output, Answer: i.ID,
		Failed: i.Status == "failed" || i.Status == "declined" || i.Exit != nil && *i.Exit != 0,
	}
	for _, c := range i.Changes {
		p.Paths = append(p.Paths, c.Path)
	}
	switch {
	case i.Error.Message != "":
		p.Text, p.Failed = i.Error.Message, true
	case len(i.Returned.Content) > 0:
		p.Text = returned(i.Returned.Content)
	case i.Type != "command_execution" && p.Text == "":
		p.Text = text
	}
	if i.Exit != nil && *i.Exit != 0 {
		p.Text = strings.TrimSpace(fmt.Sprintf("Exit code %d\n%s", *i.Exit, p.Text))
	}
	return p
}

// tool is the name of a tool, the same as Claude Code's where it does the same.
func (i codexItem) tool() string {
	switch i.Type {
	case "command_execution":
		return "Bash"
	case "file_change":
		return "Edit"
	case "web_search":
		return "WebSearch"
	case "mcp_tool_call":
		return i.Tool
	}
	return i.Type
}

// call returns what a call was given, and whether the item is a call.
func (i codexItem) call() (text string, called bool) {
	switch i.Type {
	case "command_execution":
		return i.Command, true
	case "mcp_tool_call":
		return string(i.Arguments), true
	case "web_search":
		return i.Query, true
	case "file_change":
		lines := make([]string, 0, len(i.Changes))
		for _, c := range i.Changes {
			lines = append(lines, strings.TrimSpace(c.Kind+" "+c.Path))
		}
		return strings.Join(lines, "\n"), true
	}
	return "", false
}

func (i codexItem) list() string {
	lines := make([]string, 0, len(i.Items))
	for _, one := range i.Items {
		mark := "[ ] "
		if one.Completed {
			mark = "[x] "
		}
		lines = append(lines, mark+one.Text)
	}
	return strings.Join(lines, "\n")
}
