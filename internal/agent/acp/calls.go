package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxCalls bounds what is kept of a session; no honest one makes as many calls.
const maxCalls = 20_000

// call is one tool call, as far as it was told.
type call struct {
	toolCall

	tool    string // its name, as it was told first: CLIs replace the title by one for people
	judged  []ops.ToolQuestion
	asked   bool
	allowed bool
	done    bool // it was reported as completed
}

// name is what the CLI calls the tool.
func (c *call) name() string {
	return cmp.Or(c.Meta.Claude.Tool, c.Meta.Tool, c.tool, "an unnamed tool")
}

// kind is what a tool does. A CLI that has the tools of Claude Code names them exactly.
func (c *call) kind() string {
	switch c.Meta.Claude.Tool {
	case toolBash:
		return "execute"
	case toolRead, "LS":
		return "read"
	case toolWrite, "Edit", "MultiEdit", "NotebookEdit":
		return "edit"
	case toolGrep, toolGlob:
		return "search"
	case toolFetch, toolSearch:
		return "fetch"
	}
	return c.ToolKind
}

// String names the call for people.
func (c *call) String() string {
	q := c.judged
	if len(q) == 0 {
		q = c.questions("/")
	}
	return fmt.Sprintf("%s (%s)", c.ID, agent.Call{Name: q[0].Tool, Input: string(q[0].Input)})
}

// take adds what another part tells of the call.
func (c *call) take(part toolCall) {
	if part.Name != "" && c.Name == "" {
		c.Name, c.tool = part.Name, part.Name
	}
	if part.Title != "" && c.tool == "" {
		c.tool, _, _ = strings.Cut(part.Title, " ")
	}
	if part.Title != "" {
		c.Title = part.Title
	}
	if part.ToolKind != "" {
		c.ToolKind = part.ToolKind
	}
	if len(part.Locations) > 0 {
		c.Locations = part.Locations
	}
	if part.Meta.Claude.Tool+part.Meta.Tool != "" {
		c.Meta = part.Meta
	}
	c.Input = joined(c.Input, part.Input)
}

// joined is an input with the fields of a later one. Some CLIs tell in a question only what is not in the call already.
func joined(before, after json.RawMessage) json.RawMessage {
	after = bytes.TrimSpace(after)
	if len(after) == 0 || bytes.Equal(after, []byte("null")) || bytes.Equal(after, []byte("{}")) {
		return before
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(before, &a) != nil || a == nil || json.Unmarshal(after, &b) != nil {
		return bytes.Clone(after)
	}
	for name, value := range b {
		a[name] = value
	}
	out, err := json.Marshal(a)
	if err != nil {
		return bytes.Clone(after)
	}
	return out
}

// ledger keeps the calls of a session and what was allowed.
type ledger struct {
	work     string
	asksLate bool
	byID     map[string]*call
	open     []agent.Call
	changed  bool     // open is not what it was
	ran      []string // calls that ran and were not allowed, as they were told
}

func newLedger(work string, asksLate bool) *ledger {
	return &ledger{work: work, asksLate: asksLate, byID: map[string]*call{}}
}

// call returns the call of an id.
func (l *ledger) call(id string) *call {
	c := l.byID[id]
	if c == nil {
		c = &call{toolCall: toolCall{ID: id}}
		if len(l.byID) < maxCalls {
			l.byID[id] = c
		}
	}
	return c
}

// update takes what the CLI tells of a call. A call that runs and was not allowed is noted, and one that runs with another input than
// the one that was judged.
func (l *ledger) update(part toolCall) {
	c := l.call(part.ID)
	if c.done && part.Status == statusInProgress {
		l.broken(c, "ran again under the same id")
		return
	}
	c.take(part)
	if c.allowed && len(part.Input) > 0 && !sameQuestions(c.judged, c.questions(l.work)) {
		c.allowed = false
		l.broken(c, "ran with another input than the one that was judged")
	}
	switch part.Status {
	case statusInProgress:
		if !c.allowed && !l.asksLate {
			l.broken(c, "")
		}
		l.opened(c)
	case statusCompleted:
		if !c.allowed {
			l.broken(c, "")
		}
		c.done = true
		l.closed(c.ID)
	case statusFailed:
		l.closed(c.ID)
	}
}

// broken notes a call that was not allowed as it ran.
func (l *ledger) broken(c *call, how string) {
	text := c.String()
	if how != "" {
		text += " " + how + ","
	}
	l.ran = append(l.ran, text)
}

// ask judges a call that the CLI asks about, once: for another question under the same id nothing was allowed.
func (l *ledger) ask(part toolCall, judge func([]ops.ToolQuestion) bool) (*call, bool) {
	if part.ID == "" {
		return &call{}, false
	}
	c := l.call(part.ID)
	if c.done {
		l.broken(c, "was asked about after it had run")
		return c, false
	}
	c.take(part)
	questions := c.questions(l.work)
	switch {
	case c.asked && sameQuestions(c.judged, questions):
		return c, c.allowed
	case c.asked:
		c.allowed = false
		return c, false
	}
	c.asked, c.judged = true, questions
	c.allowed = judge(questions)
	if c.allowed {
		l.opened(c)
	} else {
		l.closed(c.ID)
	}
	return c, c.allowed
}

// sameQuestions reports whether nothing else is asked. The supervisor's own tools are judged by name, as the supervisor decides about the
// input when it gets the call: opencode asks about them without it.
func sameQuestions(a, b []ops.ToolQuestion) bool {
	return slices.EqualFunc(a, b, func(x, y ops.ToolQuestion) bool {
		_, own := ownTool(x.Tool)
		return x.Tool == y.Tool && x.Cwd == y.Cwd && (own || bytes.Equal(x.Input, y.Input))
	})
}

func (l *ledger) opened(c *call) {
	if slices.ContainsFunc(l.open, func(o agent.Call) bool { return o.ID == c.ID }) {
		return
	}
	q := c.questions(l.work)
	l.open = append(slices.Clone(l.open), agent.Call{ID: c.ID, Name: q[0].Tool, Input: string(q[0].Input)})
	l.changed = true
}

func (l *ledger) closed(id string) {
	before := len(l.open)
	l.open = slices.DeleteFunc(slices.Clone(l.open), func(o agent.Call) bool { return o.ID == id })
	l.changed = l.changed || len(l.open) != before
}

// closeAll notes that the turn is over.
func (l *ledger) closeAll() {
	l.changed = l.changed || len(l.open) > 0
	l.open = nil
}

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
