package codex

import (
	"encoding/json"
	"slices"
	"strings"

	"claudeops/internal/agent"
)

const maxWarnings = 20

// stream is what is known of a session from the events Codex printed so far.
type stream struct {
	thread    string
	began     bool // a turn was started
	completed bool
	failed    bool
	failure   string // what it said when the turn failed
	usage     *usage // of the whole conversation, reported when the turn is complete
	said      string // the last message of the agent
	open      []agent.Call
	warnings  []string
	gates     []string // how a command begins that the gate judges; empty: none is judged
	ungated   []string // the ids of commands that began in another way
}

// systemShell is what Codex starts for a shell that it does not know. The gate is mounted there.
const systemShell = "/bin/sh -"

type streamEvent struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Usage    *usage `json:"usage"`
	Item     *item  `json:"item"`
	Error    *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Message string `json:"message"`
	Command string `json:"command"`
	Tool    string `json:"tool"`
	Query   string `json:"query"`
}

// line reads one line of Codex's output and reports whether the open tool calls changed. A line that is not an event is left
// out.
func (st *stream) line(text string) (changed bool) {
	text = strings.TrimLeft(text, " \t")
	if !strings.HasPrefix(text, "{") {
		return false
	}
	var e streamEvent
	if json.Unmarshal([]byte(text), &e) != nil {
		return false
	}
	switch e.Type {
	case "thread.started":
		st.thread = e.ThreadID
	case "turn.started":
		st.began = true
	case "turn.completed":
		st.completed, st.failed, st.usage = true, false, e.Usage
		changed = st.closeAll()
	case "turn.failed":
		st.failed, st.completed = true, false
		if e.Error != nil {
			st.failure = e.Error.Message
		}
		changed = st.closeAll()
	case "item.started", "item.updated":
		changed = e.Item != nil && st.opened(*e.Item)
	case "item.completed":
		changed = e.Item != nil && st.closed(*e.Item)
	}
	return changed
}

// opened notes a call of a tool.
func (st *stream) opened(i item) bool {
	if !isCall(i.Type) || i.ID == "" || slices.ContainsFunc(st.open, func(c agent.Call) bool { return c.ID == i.ID }) {
		return false
	}
	st.checkGate(i)
	st.open = append(st.open, agent.Call{ID: i.ID, Name: i.tool(), Input: i.input()})
	return true
}

// checkGate notes a command that did not begin with the gate: then Codex no longer finds its shells as we know it.
func (st *stream) checkGate(i item) {
	if i.Type != "command_execution" || len(st.gates) == 0 ||
		slices.ContainsFunc(st.gates, func(gate string) bool { return strings.HasPrefix(i.Command, gate) }) {
		return
	}
	st.ungated = append(st.ungated, i.ID)
}

// closed notes what came of an item. What Codex calls an error there is often a mere warning.
func (st *stream) closed(i item) bool {
	switch i.Type {
	case "agent_message":
		st.said = i.Text
	case "error":
		if len(st.warnings) < maxWarnings && i.Message != "" && !slices.Contains(st.warnings, i.Message) {
			st.warnings = append(st.warnings, i.Message)
		}
	}
	st.checkGate(i)
	before := len(st.open)
	st.open = slices.DeleteFunc(slices.Clone(st.open), func(c agent.Call) bool { return c.ID == i.ID })
	return len(st.open) != before
}

func (st *stream) closeAll() bool {
	had := len(st.open) > 0
	st.open = nil
	return had
}
