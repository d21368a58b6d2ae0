package trace

import (
	"crypto/sha256"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"claudeops/internal/ops"
)

// workflow is the name of every cycle's span; collectors rely on it.
const workflow = "escalation_chain"

// traceOf is the id of a cycle's trace. The time keeps those of two installations apart.
func traceOf(c ops.Cycle) oteltrace.TraceID {
	sum := sha256.Sum256(fmt.Appendf(nil, "trace %s %d %d", c.Environment, c.ID, c.CreatedAt.UnixMicro()))
	return oteltrace.TraceID(sum[:16])
}

// ID is the id of a cycle's trace, as a collector shows it.
func ID(c ops.Cycle) string { return traceOf(c).String() }

func spanOf(parts ...any) oteltrace.SpanID {
	sum := sha256.Sum256(fmt.Append([]byte("span "), parts...))
	return oteltrace.SpanID(sum[:8])
}

func contextOf(c ops.Cycle, span oteltrace.SpanID) oteltrace.SpanContext {
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: traceOf(c), SpanID: span, TraceFlags: oteltrace.FlagsSampled})
}

func cycleContext(c ops.Cycle) oteltrace.SpanContext {
	return contextOf(c, spanOf("cycle", c.Environment, c.ID, c.CreatedAt.UnixMicro()))
}

func sessionContext(c ops.Cycle, s ops.Session) oteltrace.SpanContext {
	return contextOf(c, spanOf("session", s.Key))
}

func newSpan(name string, self, parent oteltrace.SpanContext, begin, end time.Time, attributes ...attribute.KeyValue) tracetest.SpanStub {
	if end.Before(begin) {
		end = begin // the clock was set back
	}
	return tracetest.SpanStub{
		Name: name, SpanContext: self, Parent: parent, SpanKind: oteltrace.SpanKindInternal,
		StartTime: begin, EndTime: end, Attributes: attributes,
		InstrumentationScope: instrumentation.Scope{Name: "claudeops", SchemaURL: semconv.SchemaURL},
	}
}

func cycleSpan(c ops.Cycle, recoveries []ops.Recovery) tracetest.SpanStub {
	out := newSpan("invoke_workflow "+workflow, cycleContext(c), oteltrace.SpanContext{},
		first(c.StartedAt, &c.CreatedAt), first(c.EndedAt, &c.CreatedAt),
		semconv.GenAIOperationNameInvokeWorkflow, semconv.GenAIWorkflowName(workflow),
		attribute.Int64("claudeops.cycle.id", int64(c.ID)), attribute.String("claudeops.environment", c.Environment),
		attribute.String("claudeops.trigger", string(c.Trigger)), attribute.String("claudeops.outcome", string(c.Status)))
	for _, r := range recoveries {
		out.Events = append(out.Events, recoveryEvent(r))
	}
	switch c.Status {
	case ops.CycleFailed, ops.CyclePartial:
		out.Attributes = append(out.Attributes, semconv.ErrorTypeKey.String(string(c.Status)))
		out.Status = sdktrace.Status{Code: codes.Error, Description: c.Reason}
	default:
	}
	return out
}

// recoveryEvent is one recovery step: what failed, and the action taken. The text of the failure may quote an agent, so it is not
// part of it.
func recoveryEvent(r ops.Recovery) sdktrace.Event {
	attributes := []attribute.KeyValue{
		attribute.Int("claudeops.recovery.level", int(r.Level)), attribute.String("claudeops.recovery.action", string(r.Action)),
		semconv.ErrorTypeKey.String(string(r.ErrorType)), attribute.Int("claudeops.tier", int(r.Tier)),
	}
	if r.SessionID != 0 {
		attributes = append(attributes, attribute.Int64("claudeops.session.id", int64(r.SessionID)))
	}
	if r.Handler != "" {
		attributes = append(attributes, semconv.GenAIAgentID(r.Handler))
	}
	return sdktrace.Event{Name: "recovery", Time: r.EnteredAt, Attributes: attributes}
}

func sessionSpan(c ops.Cycle, s ops.Session) tracetest.SpanStub {
	attributes := []attribute.KeyValue{
		semconv.GenAIOperationNameInvokeAgent, provider(s.Family), semconv.GenAIAgentID(s.Handler), semconv.GenAIAgentName(s.Handler),
		semconv.GenAIRequestModel(s.Model),
		attribute.Int64("claudeops.session.id", int64(s.ID)), attribute.Int64("claudeops.cycle.id", int64(s.CycleID)),
		attribute.Int("claudeops.tier", int(s.Tier)), attribute.Int("claudeops.attempt", s.Attempt),
		attribute.String("claudeops.environment", c.Environment),
		attribute.String("claudeops.context_mode", string(s.ContextMode)), attribute.String("claudeops.outcome", string(s.Outcome)),
	}
	for key, value := range map[attribute.Key]string{
		semconv.GenAIAgentVersionKey: s.CLIVersion, semconv.GenAIConversationIDKey: s.CLISessionID,
	} {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	attributes = append(attributes, figures(s.Figures)...)
	begin := first(s.StartedAt, &s.CreatedAt)
	out := newSpan("invoke_agent "+s.Handler, sessionContext(c, s), cycleContext(c), begin, first(s.EndedAt, &begin), attributes...)
	if s.Status != ops.SessionCompleted {
		out.Attributes = append(out.Attributes, semconv.ErrorTypeKey.String(errorType(s)))
		out.Status = sdktrace.Status{Code: codes.Error, Description: s.Error}
	}
	return out
}

// figures are the numbers of a session; unreported ones are left out. Input includes cached tokens, as the conventions require.
func figures(f ops.Figures) []attribute.KeyValue {
	var out []attribute.KeyValue
	if f.InputTokens != nil {
		all := *f.InputTokens
		for _, cached := range []*int64{f.CacheReadTokens, f.CacheWriteTokens} {
			if cached != nil {
				all += *cached
			}
		}
		out = append(out, semconv.GenAIUsageInputTokensKey.Int64(all))
	}
	for key, n := range map[attribute.Key]*int64{
		semconv.GenAIUsageOutputTokensKey: f.OutputTokens, semconv.GenAIUsageCacheReadInputTokensKey: f.CacheReadTokens,
		semconv.GenAIUsageCacheCreationInputTokensKey: f.CacheWriteTokens, "claudeops.turns": f.NumTurns,
	} {
		if n != nil {
			out = append(out, key.Int64(*n))
		}
	}
	if f.CostUSD != nil {
		out = append(out, attribute.Float64("claudeops.cost.usd", *f.CostUSD), attribute.Float64("gen_ai.usage.cost", *f.CostUSD))
	}
	return out
}

func toolSpan(c ops.Cycle, s ops.Session, call call) tracetest.SpanStub {
	end := call.end
	if end.IsZero() {
		end = first(s.EndedAt, &call.begin)
	}
	out := newSpan("execute_tool "+call.name, contextOf(c, spanOf("tool", s.Key, call.id)), sessionContext(c, s), call.begin, end,
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(call.name), semconv.GenAIToolCallID(call.id),
		semconv.GenAIToolType("function"))
	switch {
	case call.end.IsZero():
		out.Attributes = append(out.Attributes, semconv.ErrorTypeKey.String("no_result"))
		out.Status = sdktrace.Status{Code: codes.Error, Description: "the session ended before the tool did"}
	case call.failed:
		out.Attributes = append(out.Attributes, semconv.ErrorTypeKey.String("tool_error"))
		out.Status = sdktrace.Status{Code: codes.Error}
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

func provider(family string) attribute.KeyValue {
	switch family {
	case "claude":
		return semconv.GenAIProviderNameAnthropic
	case "gpt":
		return semconv.GenAIProviderNameOpenAI
	case "gemini":
		return semconv.GenAIProviderNameGCPGemini
	}
	return semconv.GenAIProviderNameKey.String(family)
}

func first(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}
