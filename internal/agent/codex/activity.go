package codex

import (
	"cmp"
	"encoding/json"
	"strings"

	"claudeops/internal/ops"
)

// maxOutput bounds how much of a command's output is passed on.
const maxOutput = 4 << 10

// activities are what one line of Codex's output says about the session. It reports only commands, and not all: one that
// its own sandbox stopped is not printed. What the model used is in the record of the conversation (tail.go).
func activities(line string) []ops.Activity {
	if !strings.Contains(line, `"item.`) {
		return nil
	}
	var e struct {
		Type string `json:"type"`
		Item struct {
			item
			Output string `json:"aggregated_output"`
			Exit   *int   `json:"exit_code"`
			Status string `json:"status"`
		} `json:"item"`
	}
	if json.Unmarshal([]byte(line), &e) != nil || !isCall(e.Item.Type) || e.Item.ID == "" {
		return nil
	}
	switch e.Type {
	case "item.started":
		return []ops.Activity{{Kind: ops.ActivityCall, UseID: e.Item.ID, Tool: e.Item.tool(), Input: e.Item.input()}}
	case "item.completed":
		failed := e.Item.Status == "failed" || e.Item.Status == "declined" || e.Item.Exit != nil && *e.Item.Exit != 0
		return []ops.Activity{{
			Kind: ops.ActivityResult, UseID: e.Item.ID, Tool: e.Item.tool(), Failed: failed,
			Output: ops.Ends(e.Item.Output, maxOutput/2, maxOutput/2, " … "),
		}}
	}
	return nil
}

// Activities reads from one stored line of output what the session did.
func (c *Codex) Activities(line string) []ops.Activity { return activities(line) }

// isCall reports whether an item is something the agent did, not something it said.
func isCall(kind string) bool {
	switch kind {
	case "agent_message", "reasoning", "error", "todo_list", "":
		return false
	}
	return true
}

// tool is the name of a tool, the same as with the other agents where it does the same.
func (i item) tool() string {
	if i.Type == "command_execution" {
		return "Bash"
	}
	return i.Type
}

// input is what a tool was called with, as JSON.
func (i item) input() string {
	shown := cmp.Or(unwrapped(i.Command), i.Tool, i.Query)
	data, _ := json.Marshal(map[string]string{"command": shown}) // strings can always be encoded
	return string(data)
}

// Compiled once; read only. Codex tells a command with the shell it gives it to.
var shellShape = ops.Pattern(`^(?:/\S*/)?(?:ba|z|da)?sh -l?c (.+)$`)

// unwrapped is a command without the shell around it.
func unwrapped(command string) string {
	m := shellShape().FindStringSubmatch(strings.ReplaceAll(command, "\n", "\x00"))
	if m == nil {
		return command
	}
	word, ok := unquoted(strings.ReplaceAll(m[1], "\x00", "\n"))
	if !ok {
		return command
	}
	return word
}

// unquoted reads a text as one word of a shell, and says whether it is one.
func unquoted(text string) (word string, ok bool) {
	var out strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			out.WriteByte(c)
		case c == '\\' && i+1 < len(text) && (quote == 0 || strings.IndexByte("$`\"\\", text[i+1]) >= 0):
			i++
			out.WriteByte(text[i])
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), quote == 0
}
