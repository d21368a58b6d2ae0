package responsesapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/test/responsesapi"
)

// conversation is the shape Codex gives a resumed conversation.
const conversation = `{"model":"m","stream":true,"text":{"format":{"type":"json_schema","strict":true,"schema":{"type":"object"}}},
	"tools":[{"type":"function","name":"exec_command"},{"type":"web_search"}],"input":[
	{"type":"message","role":"developer","content":[{"type":"input_text","text":"be good"}]},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>here</environment_context>"}]},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"first"}]},
	{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"a"},
	{"type":"function_call_output","call_id":"a","output":"x"},
	{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"second"}]},
	{"type":"custom_tool_call","name":"exec","input":"1","call_id":"b"},
	{"type":"custom_tool_call_output","call_id":"b","output":[{"type":"input_text","text":"y"},{"type":"input_text","text":"z"}]}]}`

func TestTheConversationIsUnderstood(t *testing.T) {
	t.Parallel()
	var r responsesapi.Request
	if err := json.Unmarshal([]byte(conversation), &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Prompts(); !slices.Equal(got, []string{"first", "second"}) || r.Prompt() != "second" || r.Turn() != 1 {
		t.Errorf("prompts %q, turn %d", got, r.Turn())
	}
	if got, ok := r.Output("b"); !ok || got != "y\nz" {
		t.Errorf("output: %q", got)
	}
	if _, ok := r.Output("c"); ok {
		t.Error("there is an output of no call")
	}
	if r.Developer() != "be good" || !slices.Equal(r.ToolNames(), []string{"exec_command", "web_search"}) || !r.Text.Format.Strict {
		t.Errorf("request: %+v", r)
	}
}

// post sends a request and returns what came back.
func post(t *testing.T, s *responsesapi.Server, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

const prompt = `{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"p"}]}]}`

func TestAnAnswerIsStreamed(t *testing.T) {
	t.Parallel()
	s := responsesapi.New(t, responsesapi.Turns(responsesapi.Text("I look").Call("c1", "exec_command", map[string]any{"cmd": "a && b"}).Took(responsesapi.Usage{Input: 3, Cached: 1, Output: 2})))
	resp, text := post(t, s, prompt)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("answer: %v", resp)
	}
	var kinds []string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		kind, _, _ := strings.Cut(strings.TrimPrefix(block, "event: "), "\n")
		kinds = append(kinds, kind)
	}
	if want := []string{"response.created", "response.output_item.done", "response.output_item.done", "response.completed"}; !slices.Equal(kinds, want) {
		t.Errorf("events: %q", kinds)
	}
	if !strings.Contains(text, `"arguments":"{\"cmd\":\"a && b\"}"`) || !strings.Contains(text, `"cached_tokens":1`) {
		t.Errorf("stream:\n%s", text)
	}
	if got := s.Requests(); len(got) != 1 || got[0].N != 1 || got[0].Prompt() != "p" {
		t.Errorf("requests: %+v", got)
	}
}

func TestHowAnAnswerFails(t *testing.T) {
	t.Parallel()
	s := responsesapi.New(t, responsesapi.InOrder(
		responsesapi.Fail(429, "slow down").RetryAfter(1500*time.Millisecond), responsesapi.Failed("server_error", "oops"), responsesapi.Text("half").Cut(),
	))
	resp, text := post(t, s, prompt)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1.5" || !strings.Contains(text, `"message":"slow down"`) {
		t.Errorf("%v: %s", resp, text)
	}
	if _, text := post(t, s, prompt); !strings.Contains(text, "response.failed") || strings.Contains(text, "response.completed") {
		t.Errorf("failed: %s", text)
	}
	if _, text := post(t, s, prompt); !strings.Contains(text, "half") || strings.Contains(text, "response.completed") {
		t.Errorf("cut: %s", text)
	}
}

func TestWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	s := responsesapi.New(t, responsesapi.Turns(responsesapi.Text("done")))
	for name, body := range map[string]string{
		"no JSON":               "{",
		"not streamed":          strings.Replace(prompt, "true", "false", 1),
		"a call without output": strings.Replace(prompt, `"input":[`, `"input":[{"type":"function_call","name":"x","call_id":"a"},`, 1),
	} {
		if resp, _ := post(t, s, body); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := s.Others(); resp.StatusCode != http.StatusNotFound || !slices.Equal(got, []string{"GET /v1/models"}) {
		t.Errorf("others: %q", got)
	}
}
