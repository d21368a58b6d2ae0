package trace

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"claudeops/internal/ops"
)

func TestNamesAreThoseOfTheSemanticConventions(t *testing.T) {
	for name, want := range map[string]attribute.Key{
		operationName: semconv.GenAIOperationNameKey, workflowName: semconv.GenAIWorkflowNameKey, providerName: semconv.GenAIProviderNameKey,
		agentID: semconv.GenAIAgentIDKey, agentName: semconv.GenAIAgentNameKey, agentVersion: semconv.GenAIAgentVersionKey,
		conversationID: semconv.GenAIConversationIDKey, requestModel: semconv.GenAIRequestModelKey, inputTokens: semconv.GenAIUsageInputTokensKey,
		outputTokens: semconv.GenAIUsageOutputTokensKey, cacheReadTokens: semconv.GenAIUsageCacheReadInputTokensKey,
		cacheWriteTokens: semconv.GenAIUsageCacheCreationInputTokensKey, toolName: semconv.GenAIToolNameKey, toolCallID: semconv.GenAIToolCallIDKey,
		toolType: semconv.GenAIToolTypeKey, errorTypeName: semconv.ErrorTypeKey,
	} {
		if name != string(want) {
			t.Errorf("%s, want %s", name, want)
		}
	}
	for _, want := range []attribute.KeyValue{
		semconv.GenAIProviderNameAnthropic, semconv.GenAIProviderNameOpenAI, semconv.GenAIProviderNameGCPGemini,
	} {
		family := map[string]string{"anthropic": "claude", "openai": "gpt", "gcp.gemini": "gemini"}[want.Value.AsString()]
		if got := provider(family); got.Value.any != want.Value.AsString() {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if schemaURL != semconv.SchemaURL {
		t.Errorf("schema %s, want %s", schemaURL, semconv.SchemaURL)
	}
}

func TestTheVariablesOfOpenTelemetryAreFollowed(t *testing.T) {
	type seen struct {
		path, kind, packing, key, team string
		body                           []byte
	}
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		got = seen{q.URL.Path, q.Header.Get("Content-Type"), q.Header.Get("Content-Encoding"), q.Header.Get("Api-Key"), q.Header.Get("Team"), nil}
		body := io.Reader(q.Body)
		if got.packing == "gzip" {
			unpacked, err := gzip.NewReader(q.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unpacked
		}
		got.body, _ = io.ReadAll(body)
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/own")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/unused")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, team = infra")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=traces")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored,zone=a%2Cb")
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	e, err := New(Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c := ops.Cycle{ID: 7, CreatedAt: time.Unix(5, 0)}
	one := newSpan("x\xff", c, spanOf("a"), spanOf("b"), time.Unix(5, 0), time.Unix(4, 0), whole("n", 3), decimal("f", 0.5), text("s", "t"))
	if err := e.send(t.Context(), []span{one}); err != nil {
		t.Fatal(err)
	}
	if got.path != "/own" || got.kind != "application/json" || got.packing != "gzip" || got.key != "traces" || got.team != "infra" {
		t.Errorf("%+v", got)
	}
	var read any
	if err := json.Unmarshal(got.body, &read); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	for _, want := range []string{
		`"traceId":"` + ID(c) + `"`, `"parentSpanId":"` + hex.EncodeToString(spanOf("b")) + `"`, `"startTimeUnixNano":"5000000000"`,
		`"endTimeUnixNano":"5000000000"`, `{"key":"n","value":{"intValue":"3"}}`, `{"key":"f","value":{"doubleValue":0.5}}`,
		`{"key":"s","value":{"stringValue":"t"}}`, `{"key":"service.name","value":{"stringValue":"mine"}}`,
		`{"key":"zone","value":{"stringValue":"a,b"}}`,
	} {
		if !strings.Contains(string(got.body), want) {
			t.Errorf("no %s in\n%s", want, got.body)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for name, tc := range map[string]struct{ common, traces, insecure, want string }{
		"the common one is a base":       {"http://h:4318/base", "", "", "http://h:4318/base/v1/traces"},
		"the one for traces is used":     {"http://h:4318", "https://other", "", "https://other/"},
		"http only if it is asked for":   {"grpc://h:4318", "", "", "https://h:4318/v1/traces"},
		"insecure":                       {"https://h:4318", "", "true", "http://h:4318/v1/traces"},
		"not an address":                 {"h:4318", "", "", ""},
		"an address that cannot be read": {"http://[", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", tc.common)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", tc.traces)
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", tc.insecure)
			c, err := newCollector("1")
			if (err != nil) != (tc.want == "") || err == nil && c.url != tc.want {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
}

func TestCertificatesOfTheCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://h:4318")
	broken := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(broken, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{broken, broken + ".missing"} {
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
		if _, err := newCollector("1"); err == nil {
			t.Errorf("%s is accepted", file)
		}
	}
}
