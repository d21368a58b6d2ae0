package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// workflow is the name of every cycle's span; collectors rely on it.
const workflow = "escalation_chain"

// schemaURL names the version of the semantic conventions.
const schemaURL = "https://opentelemetry.io/schemas/1.41.0"

// Names of the semantic conventions.
const (
	operationName    = "gen_ai.operation.name"
	workflowName     = "gen_ai.workflow.name"
	providerName     = "gen_ai.provider.name"
	agentID          = "gen_ai.agent.id"
	agentName        = "gen_ai.agent.name"
	agentVersion     = "gen_ai.agent.version"
	conversationID   = "gen_ai.conversation.id"
	requestModel     = "gen_ai.request.model"
	inputTokens      = "gen_ai.usage.input_tokens"
	outputTokens     = "gen_ai.usage.output_tokens"
	cacheReadTokens  = "gen_ai.usage.cache_read.input_tokens"
	cacheWriteTokens = "gen_ai.usage.cache_creation.input_tokens"
	toolName         = "gen_ai.tool.name"
	toolCallID       = "gen_ai.tool.call.id"
	toolType         = "gen_ai.tool.type"
	errorTypeName    = "error.type"
)

// traceOf is the id of a cycle's trace. The time keeps those of two installations apart.
func traceOf(c ops.Cycle) id {
	sum := sha256.Sum256(fmt.Appendf(nil, "trace %s %d %d", c.Environment, c.ID, c.CreatedAt.UnixMicro()))
	return sum[:16]
}

// ID is the id of a cycle's trace, as a collector shows it.
func ID(c ops.Cycle) string { return hex.EncodeToString(traceOf(c)) }

func spanOf(parts ...any) id {
	sum := sha256.Sum256(fmt.Append([]byte("span "), parts...))
	return sum[:8]
}

func cycleID(c ops.Cycle) id { return spanOf("cycle", c.Environment, c.ID, c.CreatedAt.UnixMicro()) }

func sessionID(s ops.Session) id { return spanOf("session", s.Key) }

func newSpan(name string, c ops.Cycle, self, parent id, begin, end time.Time, attributes ...keyValue) span {
	if end.Before(begin) {
		end = begin // the clock was set back
	}
	return span{
		TraceID: traceOf(c), SpanID: self, Parent: parent, Flags: flagSampled | flagKnowParent, Name: name, Kind: kindInternal,
		Start: unix(begin), End: unix(end), Attributes: attributes,
	}
}

func cycleSpan(c ops.Cycle, recoveries []ops.Recovery) span {
	out := newSpan("invoke_workflow "+workflow, c, cycleID(c), nil,
		first(c.StartedAt, &c.CreatedAt), first(c.EndedAt, &c.CreatedAt),
		text(operationName, "invoke_workflow"), text(workflowName, workflow),
		whole("claudeops.cycle.id", c.ID), text("claudeops.environment", c.Environment),
		text("claudeops.trigger", string(c.Trigger)), text("claudeops.outcome", string(c.Status)))
	for _, r := range recoveries {
		out.Events = append(out.Events, recoveryEvent(r))
	}
	switch c.Status {
	case ops.CycleFailed, ops.CyclePartial:
		out.Attributes = append(out.Attributes, text(errorTypeName, string(c.Status)))
		out.Status = status{Code: statusError, Message: c.Reason}
	default:
	}
	return out
}

// recoveryEvent is one recovery step: what failed, and the action taken. The text of the failure may quote an agent, so it is not
// part of it.
func recoveryEvent(r ops.Recovery) event {
	attributes := []keyValue{
		whole("claudeops.recovery.level", int(r.Level)), text("claudeops.recovery.action", string(r.Action)),
		text(errorTypeName, string(r.ErrorType)), whole("claudeops.tier", int(r.Tier)),
	}
	if r.SessionID != 0 {
		attributes = append(attributes, whole("claudeops.session.id", r.SessionID))
	}
	if r.Handler != "" {
		attributes = append(attributes, text(agentID, r.Handler))
	}
	return event{Name: "recovery", Time: unix(r.EnteredAt), Attributes: attributes}
}

func sessionSpan(c ops.Cycle, s ops.Session) span {
	attributes := []keyValue{
		text(operationName, "invoke_agent"), provider(s.Family), text(agentID, s.Handler), text(agentName, s.Handler),
		text(requestModel, s.Model),
		whole("claudeops.session.id", s.ID), whole("claudeops.cycle.id", s.CycleID),
		whole("claudeops.tier", int(s.Tier)), whole("claudeops.attempt", s.Attempt),
		text("claudeops.environment", c.Environment),
		text("claudeops.context_mode", string(s.ContextMode)), text("claudeops.outcome", string(s.Outcome)),
	}
	for key, value := range map[string]string{
		agentVersion: s.CLIVersion, conversationID: s.CLISessionID,
	} {
		if value != "" {
			attributes = append(attributes, text(key, value))
		}
	}
	attributes = append(attributes, figures(s.Figures)...)
	begin := first(s.StartedAt, &s.CreatedAt)
	out := newSpan("invoke_agent "+s.Handler, c, sessionID(s), cycleID(c), begin, first(s.EndedAt, &begin), attributes...)
	if s.Status != ops.SessionCompleted {
		out.Attributes = append(out.Attributes, text(errorTypeName, errorType(s)))
		out.Status = status{Code: statusError, Message: s.Error}
	}
	return out
}

// figures are the numbers of a session; unreported ones are left out. Input includes cached tokens, as the conventions require.
func figures(f ops.Figures) []keyValue {
	var out []keyValue
	if f.InputTokens != nil {
		all := *f.InputTokens
		for _, cached := range []*int64{f.CacheReadTokens, f.CacheWriteTokens} {
			if cached != nil {
				all += *cached
			}
		}
		out = append(out, whole(inputTokens, all))
	}
	for key, n := range map[string]*int64{
		outputTokens: f.OutputTokens, cacheReadTokens: f.CacheReadTokens,
		cacheWriteTokens: f.CacheWriteTokens, "claudeops.turns": f.NumTurns,
	} {
		if n != nil {
			out = append(out, whole(key, *n))
		}
	}
	if f.CostUSD != nil {
		out = append(out, decimal("claudeops.cost.usd", *f.CostUSD), decimal("gen_ai.usage.cost", *f.CostUSD))
	}
	return out
}

func toolSpan(c ops.Cycle, s ops.Session, call call) span {
	end := call.end
	if end.IsZero() {
		end = first(s.EndedAt, &call.begin)
	}
	out := newSpan("execute_tool "+call.name, c, spanOf("tool", s.Key, call.id), sessionID(s), call.begin, end,
		text(operationName, "execute_tool"), text(toolName, call.name), text(toolCallID, call.id),
		text(toolType, "function"))
	switch {
	case call.end.IsZero():
		out.Attributes = append(out.Attributes, text(errorTypeName, "no_result"))
		out.Status = status{Code: statusError, Message: "the session ended before the tool did"}
	case call.failed:
		out.Attributes = append(out.Attributes, text(errorTypeName, "tool_error"))
		out.Status = status{Code: statusError}
	}
	return out
}

// errorType is the class of a failure, or else why or how the session ended.
func errorType(s ops.Session) string {
	switch {
	case s.Failure != "":
		return string(s.Failure)
	case s.StopCause != ops.StopNone:
		return string(s.StopCause)
	}
	return string(s.Status)
}

func provider(family string) keyValue {
	switch family {
	case "claude":
		return text(providerName, "anthropic")
	case "gpt":
		return text(providerName, "openai")
	case "gemini":
		return text(providerName, "gcp.gemini")
	}
	return text(providerName, family)
}

func first(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

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
