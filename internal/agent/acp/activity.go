package acp

import (
	"encoding/json"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxOutput bounds how much of a call's output is passed on.
const maxOutput = 4 << 10

// activities are what one line says about the session. A call is told by the question about it, which comes once and holds the whole
// input; what is repeated of a conversation that goes on holds no questions.
func activities(line string) []ops.Activity {
	if !strings.Contains(line, `"toolCallId"`) {
		return nil
	}
	m, ok := parse(line)
	if !ok {
		return nil
	}
	switch m.Method {
	case methodPermission:
		var p permissionParams
		if json.Unmarshal(m.Params, &p) != nil || p.Call.ID == "" {
			return nil
		}
		c := &call{}
		c.ID = p.Call.ID
		c.take(p.Call)
		q := c.questions("/")[0]
		return []ops.Activity{{Kind: ops.ActivityCall, UseID: c.ID, Tool: q.Tool, Input: string(q.Input)}}
	case methodUpdate:
		var p updateParams
		if json.Unmarshal(m.Params, &p) != nil || p.Update.ID == "" {
			return nil
		}
		u := p.Update
		if u.Status != statusCompleted && u.Status != statusFailed {
			return nil
		}
		out := ops.Ends(returned(u), maxOutput/2, maxOutput/2, " … ")
		return []ops.Activity{{Kind: ops.ActivityResult, UseID: u.ID, Output: out, Failed: u.Status == statusFailed}}
	}
	return nil
}

// Activities reads from one stored line of output what the session did.
func (a *ACP) Activities(line string) []ops.Activity { return activities(line) }

// Gated is for programs that ask nobody; this one does.
func (a *ACP) Gated(ops.SessionSpec, agent.Walls) bool { return false }

// returned is the text that a call returned.
func returned(u update) string {
	var blocks []struct {
		Content textBlock `json:"content"`
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
