package trace_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"claudeops/internal/daemon/trace"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// receiver is a collector on loopback.
type receiver struct {
	t       *testing.T
	url     string
	refuse  chan struct{} // one answer of 503 for each
	arrived chan struct{}

	mu       sync.Mutex
	spans    []*spans.Span
	resource map[string]string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, refuse: make(chan struct{}, 100), arrived: make(chan struct{}, 1000)}
	server := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(server.Close)
	r.url = server.URL
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
	return r
}

func (r *receiver) take(w http.ResponseWriter, q *http.Request) {
	select {
	case <-r.refuse:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	default:
	}
	body, err := io.ReadAll(q.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || q.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		r.t.Errorf("%s: %v", q.URL.Path, err)
	}
	r.mu.Lock()
	for _, rs := range request.ResourceSpans {
		r.resource = texts(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	r.arrived <- struct{}{}
}

func (r *receiver) named(name string) *spans.Span {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.spans, func(s *spans.Span) bool { return s.Name == name })
	if i < 0 {
		r.t.Fatalf("there is no span %q", name)
	}
	return r.spans[i]
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func texts(attributes []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			out[a.Key] = fmt.Sprint(v.DoubleValue)
		}
	}
	return out
}

func newExporter(t *testing.T, j *apitest.Journal) *trace.Exporter {
	t.Helper()
	e, err := trace.New(trace.Options{Rows: j.Store, Marks: j.Store, Clock: j.Clock, Logger: slog.New(slog.DiscardHandler), Version: "1.2.3"})
	must(t, err)
	return e
}

func open(t *testing.T) *apitest.Journal {
	t.Helper()
	return apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
}

func chain(j *apitest.Journal) {
	j.Chain(ops.NewCycle{Environment: "home"}, ops.CycleFailed, "Tier 2 failed.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 40 * time.Second, Outcome: ops.OutcomeEscalate,
			Figures: ops.Figures{
				CostUSD: ops.Ptr(0.25), NumTurns: ops.Ptr[int64](4), InputTokens: ops.Ptr[int64](100), OutputTokens: ops.Ptr[int64](7),
				CacheReadTokens: ops.Ptr[int64](900), CacheWriteTokens: ops.Ptr[int64](50),
			},
			Lines: []string{
				`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cat /secret"}}]}}`,
				`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no such file"}]}}`,
				`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Read","input":{}}]}}`,
				`not an event with "tool_use" in it`,
			},
		},
		apitest.Run{Tier: 2, Model: "sonnet", For: time.Minute, Status: ops.SessionTimedOut, Stop: ops.StopWall, Error: "the time is over"})
}

func TestAChainIsATraceOfSessionsAndToolCalls(t *testing.T) {
	r, j := newReceiver(t), open(t)
	chain(j) // before tracing began: not told
	e := newExporter(t, j)
	must(t, j.Store.BeginTraces(t.Context()))
	chain(j)
	must(t, e.Flush(t.Context()))
	if r.count() != 5 {
		t.Fatalf("%d spans", r.count())
	}
	root, one, two := r.named("invoke_workflow escalation_chain"), r.named("invoke_agent tier1"), r.named("invoke_agent tier2")
	bash, read := r.named("execute_tool Bash"), r.named("execute_tool Read")
	for _, s := range []*spans.Span{one, two, bash, read} {
		if string(s.TraceId) != string(root.TraceId) || s.Kind != spans.Span_SPAN_KIND_INTERNAL {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	if len(root.ParentSpanId) != 0 || string(one.ParentSpanId) != string(root.SpanId) || string(two.ParentSpanId) != string(root.SpanId) ||
		string(bash.ParentSpanId) != string(one.SpanId) || string(read.ParentSpanId) != string(one.SpanId) {
		t.Error("the spans do not hang together")
	}
	for name, tc := range map[string]struct {
		got  *spans.Span
		want map[string]string
	}{
		"chain": {root, map[string]string{
			"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "escalation_chain", "claudeops.outcome": "failed", "error.type": "failed", "claudeops.environment": "home",
		}},
		"first": {one, map[string]string{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "anthropic", "gen_ai.agent.name": "tier1", "gen_ai.request.model": "haiku",
			"gen_ai.usage.input_tokens": "1050", "gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "900",
			"gen_ai.usage.cache_creation.input_tokens": "50", "claudeops.cost.usd": "0.25", "gen_ai.usage.cost": "0.25", "claudeops.tier": "1", "error.type": "",
		}},
		"second": {two, map[string]string{"error.type": "wall_limit", "gen_ai.usage.input_tokens": "", "claudeops.cost.usd": ""}},
		"Bash":   {bash, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Bash", "gen_ai.tool.call.id": "t1", "gen_ai.tool.type": "function", "error.type": "tool_error"}},
		"Read":   {read, map[string]string{"error.type": "no_result"}},
	} {
		got := texts(tc.got.Attributes)
		for key, want := range tc.want {
			if got[key] != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], want)
			}
		}
		for key, value := range got {
			if key == "gen_ai.tool.call.arguments" || value == "cat /secret" || value == "no such file" {
				t.Errorf("%s tells %s: %s", name, key, value)
			}
		}
	}
	if one.EndTimeUnixNano-one.StartTimeUnixNano != uint64(40*time.Second) || bash.EndTimeUnixNano-bash.StartTimeUnixNano != uint64(10*time.Second) ||
		read.EndTimeUnixNano != one.EndTimeUnixNano {
		t.Error("the times are not those of the rows")
	}
	if r.resource["service.name"] != "claudeops" || r.resource["service.version"] != "1.2.3" || r.resource["deployment.environment.name"] != "lab" {
		t.Errorf("resource %v", r.resource)
	}
	if err := e.Flush(t.Context()); err != nil || r.count() != 5 {
		t.Errorf("sent again: %d spans, %v", r.count(), err)
	}
}

func TestEachStepOfTheLadderIsAnEventOfTheChain(t *testing.T) {
	r, j := newReceiver(t), open(t)
	e := newExporter(t, j)
	must(t, j.Store.BeginTraces(t.Context()))
	j.Chain(ops.NewCycle{}, ops.CycleHealthy, "", apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy}) // nothing was wrong
	id, sessions := j.Chain(ops.NewCycle{}, "", "",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: "429 s3cret"},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning, Retry: true, Attempt: 2})
	entered := j.Now
	for i, rung := range []ops.Recovery{
		{SessionID: sessions[1], Tier: 2, Level: ops.RecoveryRetry, Action: "retry", ErrorType: "rate_limit", Handler: "tier2", Reason: "429 s3cret"},
		{SessionID: sessions[2], Tier: 2, Level: ops.RecoveryForceDone, Action: "force-done", ErrorType: "claim_refuted", Reason: "s3cret"},
	} {
		rung.CycleID, rung.EnteredAt = id, entered.Add(time.Duration(i)*time.Second)
		j.Step(id, ops.Step{Kind: ops.StepProbe, Recovery: &rung})
	}
	j.End(sessions[2], ops.OutcomeResolved, ops.CyclePartial, "given up")
	must(t, e.Flush(t.Context()))
	var told []*spans.Span_Event
	for _, s := range r.spans {
		if s.Name != "invoke_workflow escalation_chain" && len(s.Events) > 0 {
			t.Errorf("%s has events %v", s.Name, s.Events)
		}
		if told = append(told, s.Events...); len(s.Events) > 0 && texts(s.Attributes)["claudeops.cycle.id"] != fmt.Sprint(id) {
			t.Errorf("another chain tells %v", s.Events)
		}
	}
	want := []map[string]string{
		{
			"claudeops.recovery.level": "1", "claudeops.recovery.action": "retry", "error.type": "rate_limit", "claudeops.tier": "2",
			"claudeops.session.id": fmt.Sprint(sessions[1]), "gen_ai.agent.id": "tier2",
		},
		{
			"claudeops.recovery.level": "5", "claudeops.recovery.action": "force-done", "error.type": "claim_refuted", "claudeops.tier": "2",
			"claudeops.session.id": fmt.Sprint(sessions[2]),
		},
	}
	if len(told) != len(want) {
		t.Fatalf("%d events: %v", len(told), told)
	}
	for i, event := range told {
		if got := texts(event.Attributes); event.Name != "recovery" || !maps.Equal(got, want[i]) {
			t.Errorf("event %d: %s %v, want %v", i, event.Name, got, want[i])
		}
		if at := entered.Add(time.Duration(i) * time.Second); event.TimeUnixNano != uint64(at.UnixNano()) {
			t.Errorf("event %d is at %d, want %s", i, event.TimeUnixNano, at)
		}
	}
}

func TestASessionIsToldBeforeItsChainEnds(t *testing.T) {
	r, j := newReceiver(t), open(t)
	e := newExporter(t, j)
	must(t, j.Store.BeginTraces(t.Context()))
	j.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate}, apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	must(t, e.Flush(t.Context()))
	if r.count() != 1 || r.named("invoke_agent tier1") == nil {
		t.Errorf("%d spans", r.count())
	}
}

func TestNothingIsLostWhileTheCollectorIsAway(t *testing.T) {
	r, j := newReceiver(t), open(t)
	must(t, j.Store.BeginTraces(t.Context()))
	chain(j)
	r.refuse <- struct{}{}
	if err := newExporter(t, j).Flush(t.Context()); err == nil || r.count() != 0 {
		t.Fatalf("refused: %v, %d spans", err, r.count())
	}
	// Another life of the program.
	if err := newExporter(t, j).Flush(t.Context()); err != nil || r.count() != 5 {
		t.Errorf("later: %v, %d spans", err, r.count())
	}
}

func TestTheExporterFollowsTheHubUntilItIsStopped(t *testing.T) {
	r, j := newReceiver(t), open(t)
	e := newExporter(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	wake := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, wake) }()
	wake <- struct{}{} // it has begun when it waits
	chain(j)
	wake <- struct{}{}
	for range 3 { // two sessions and the chain
		<-r.arrived
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
	if r.count() != 5 {
		t.Errorf("%d spans", r.count())
	}
}

func TestALongHistoryIsToldWhole(t *testing.T) {
	r, j := newReceiver(t), open(t)
	must(t, j.Store.BeginTraces(t.Context()))
	for range 55 { // more than one batch
		j.Chain(ops.NewCycle{}, ops.CycleHealthy, "", apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy})
	}
	if err := newExporter(t, j).Flush(t.Context()); err != nil || r.count() != 110 {
		t.Errorf("%d spans, %v", r.count(), err)
	}
	seen := map[string]bool{}
	for _, s := range r.spans {
		seen[string(s.SpanId)] = true
	}
	if len(seen) != 110 {
		t.Errorf("%d different spans", len(seen))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
