package trace

import (
	"encoding/json"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// mostCalls bounds the spans of one session.
const mostCalls = 2000

// call is one tool call of a session.
type call struct {
	id     string
	name   string
	begin  time.Time
	end    time.Time // zero: no result was seen
	failed bool
}

// calls finds the tool calls in a transcript.
type calls struct {
	list []call
	at   map[string]int
}

func newCalls() *calls { return &calls{at: map[string]int{}} }

// read reads a line. Other lines contain no tool calls.
func (c *calls) read(l ops.Line) {
	if !strings.Contains(l.Text, `"tool_`) {
		return
	}
	var event struct {
		Message struct {
			Content []struct {
				Type      string `json:"type"`
				ID        string `json:"id"`
				Name      string `json:"name"`
				ToolUseID string `json:"tool_use_id"`
				IsError   bool   `json:"is_error"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(l.Text), &event) != nil {
		return
	}
	for _, b := range event.Message.Content {
		switch b.Type {
		case "tool_use":
			if _, known := c.at[b.ID]; !known && b.ID != "" && len(c.list) < mostCalls {
				c.at[b.ID] = len(c.list)
				c.list = append(c.list, call{id: b.ID, name: b.Name, begin: l.At})
			}
		case "tool_result":
			if i, known := c.at[b.ToolUseID]; known && c.list[i].end.IsZero() {
				c.list[i].end, c.list[i].failed = l.At, b.IsError
			}
		}
	}
}
