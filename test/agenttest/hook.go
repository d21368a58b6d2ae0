package agenttest

import (
	"context"
	"encoding/json"
	"strings"

	"claudeops/internal/agent/scripted"
)

// askHook asks the hook about the tool calls in a line, as the real program does before it runs them, and remembers what was
// refused and why.
func (f *fake) askHook(line string) {
	if len(f.hook) == 0 || !strings.Contains(line, `"tool_use"`) {
		return
	}
	var e struct {
		Message struct {
			Content []struct {
				Type  string          `json:"type"`
				ID    string          `json:"id"`
				Name  string          `json:"name"`
				Input json.RawMessage `json:"input"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(line), &e) != nil {
		return // a scenario may print what nobody can read
	}
	for _, b := range e.Message.Content {
		if b.Type != "tool_use" {
			continue
		}
		c := scripted.Call{SessionID: f.sessionID(), Cwd: f.call.Dir, Tool: b.Name, Input: b.Input, ID: b.ID}
		if reason := f.hook.Ask(context.Background(), c, nil); reason != "" {
			f.refused[b.ID] = reason
		}
	}
}

// answered turns the result of a refused call into an error, as the real program does.
func (f *fake) answered(line string) string {
	if len(f.refused) == 0 {
		return line
	}
	var e struct {
		Message struct {
			Content []struct {
				ID string `json:"tool_use_id"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(line), &e) != nil || len(e.Message.Content) == 0 {
		return line
	}
	id := e.Message.Content[0].ID
	if reason, ok := f.refused[id]; ok {
		return f.expand(Refused(id, reason), 0)
	}
	return line
}
