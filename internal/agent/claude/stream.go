package claude

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

const (
	maxWarnings = 20
	synthetic   = "<synthetic>" // the model of messages the CLI makes up itself, such as API errors
)

// stream is what is known of a session from the events its CLI printed so far. It only looks at
// text: no clock, no input or output.
type stream struct {
	sessionID string
	version   string
	model     string // of the conversation, as the CLI was started
	lastModel string // that wrote the last message
	open      []toolCall
	ending    bool   // it gave its structured output, so it ends by itself
	context   int64  // tokens in the last call of the model, 0 when unknown
	apiError  string // class of the last error the API answered with
	apiStatus *figure
	cutBy     string // which limit cut the last answer off
	retry     *event // of the last call that failed, until one succeeds
	refusal   bool   // the model refused to answer
	resetsAt  *figure
	result    *resultEvent
	own       usageByModel // the run's own share, where the CLI tells it
	counted   map[string]bool
	warnings  []string
	held      bool     // somebody wants to know which tools ran
	ran       []string // the calls that did, since somebody looked
}

// toolCall is a tool call that was not answered yet.
type toolCall struct {
	agent.Call

	message string
	parent  string // the call of the subagent that made it
}

// line reads one line of the CLI's output and reports whether the open tool calls changed. A line
// that is not an event is left out.
func (st *stream) line(text string) (changed bool) {
	text = strings.TrimLeft(text, " \t")
	if !strings.HasPrefix(text, "{") {
		return false
	}
	e, ok := parseEvent(text)
	if !ok {
		return strings.HasPrefix(text, `{"type":"result"`) && st.final(text) // it says why it cannot be read
	}
	switch e.Kind {
	case "system":
		st.system(e)
	case "assistant":
		return st.assistant(e)
	case "user":
		return st.user(e)
	case "result":
		return st.final(text)
	case "rate_limit_event":
		st.resetsAt = nil
		if e.Limit.Status == "rejected" {
			st.resetsAt = e.Limit.ResetsAt
		}
	}
	return false
}

func (st *stream) warn(text string) {
	if len(st.warnings) < maxWarnings && !slices.Contains(st.warnings, text) {
		st.warnings = append(st.warnings, text)
	}
}

func (st *stream) system(e event) {
	switch e.Subtype {
	case "init":
	case "api_retry":
		st.retry = &e
		return
	case "model_refusal_no_fallback":
		st.refusal = true
		return
	default:
		return
	}
	st.session(e.SessionID)
	if e.Model != "" {
		st.model = e.Model
	}
	if e.Version != "" {
		st.version = e.Version
	}
}

func (st *stream) session(id string) {
	switch {
	case id == "":
	case agent.ValidConversationID(id):
		st.sessionID = id
	default:
		st.warn("the CLI reported a session id that cannot be used, so the conversation cannot be resumed")
	}
}

func (st *stream) assistant(e event) (changed bool) {
	if e.Message.ID != "" && e.Message.Model != synthetic {
		changed, st.ending = st.ending, false
	}
	if e.Err != "" {
		st.apiError, st.apiStatus, st.cutBy = e.Err, e.APIStatus, e.Params.Cut
	}
	if e.Parent == "" && e.Message.Model != synthetic {
		st.apiError, st.apiStatus, st.cutBy = e.Err, e.APIStatus, e.Params.Cut
		st.retry, st.refusal, st.resetsAt = nil, false, nil
		if e.Message.Model != "" && e.Message.Model != st.lastModel {
			st.lastModel = keep(e.Message.Model)
		}
		if tokens := e.Message.Usage.tokens(); tokens > 0 {
			st.context = tokens
		}
	}
	if len(st.open) > 0 && e.Message.ID != "" {
		// The model only goes on after its calls were answered, so an older one was, too.
		before := len(st.open)
		st.open = slices.DeleteFunc(st.open, func(c toolCall) bool {
			return c.parent == e.Parent && c.message != e.Message.ID
		})
		changed = changed || len(st.open) != before
	}
	if st.held && e.Parent != "" {
		st.ran = append(st.ran, e.Parent) // a tool in which others run: it ran, too, and a gate must have allowed it
	}
	for _, b := range e.Message.tools() {
		st.foreign(b)
		if b.Kind != "tool_use" || b.ID == "" {
			continue
		}
		st.open = append(st.open, toolCall{
			Call:    agent.Call{ID: keep(b.ID), Name: keep(b.Name), Input: keep(string(b.Input))},
			message: keep(e.Message.ID), parent: keep(e.Parent),
		})
		changed = true
	}
	return changed
}

func (st *stream) user(e event) (changed bool) {
	for _, b := range e.Message.tools() {
		st.foreign(b)
		if b.Kind != "tool_result" {
			continue
		}
		if st.held && !b.IsError {
			st.ran = append(st.ran, b.ToolUseID)
		}
		before := len(st.open)
		st.ending = !b.IsError && slices.ContainsFunc(st.open, func(c toolCall) bool {
			return c.ID == b.ToolUseID && c.Name == ops.ToolOutcome
		})
		st.open = slices.DeleteFunc(st.open, func(c toolCall) bool { return c.ID == b.ToolUseID })
		changed = changed || len(st.open) != before
	}
	return changed
}

// foreign notes a tool of a kind that no gate is asked about, such as one that the model's provider runs or one that runs others.
func (st *stream) foreign(b block) {
	if st.held && b.Kind != "tool_use" && b.Kind != "tool_result" {
		st.ran = append(st.ran, keep(cmp.Or(b.ID, b.ToolUseID, b.Kind)))
	}
}

// final takes a result event. The last one counts, only the run's own share is summed: it is given
// since the result before.
func (st *stream) final(text string) (changed bool) {
	var r resultEvent
	err := json.Unmarshal([]byte(text), &r)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		// The rest was read.
		st.warn(fmt.Sprintf("the field %s of the result event is not of the expected type and was left out", mismatch.Field))
	case err != nil:
		st.warn(fmt.Sprintf("a result event could not be read: %v", err))
		return false
	}
	st.result = &r
	if st.sessionID == "" && !r.failed() {
		st.session(r.SessionID)
	}
	if r.Since != nil && (r.UUID == "" || !st.counted[r.UUID]) {
		st.own = st.own.plus(r.Since)
		if st.counted == nil {
			st.counted = make(map[string]bool)
		}
		st.counted[r.UUID] = true
	}
	changed = len(st.open) > 0
	st.open = nil
	return changed
}
