package messagesapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/test/messagesapi"
)

// client talks to the server as an agent would, on connections of its own.
type client struct {
	t    *testing.T
	url  string
	http *http.Client
}

func newClient(t *testing.T, s *messagesapi.Server) *client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: s.URL(), http: &http.Client{Transport: transport}}
}

func (c *client) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "dummy")
	return c.http.Do(req)
}

// post returns the status, the header and the body, and how reading it ended.
func (c *client) post(body string) (int, http.Header, string, error) {
	c.t.Helper()
	resp, err := c.do(c.t.Context(), http.MethodPost, "/v1/messages?beta=true", body)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(data), err
}

const (
	hello    = `{"model":"m","max_tokens":9,"system":"be brief","messages":[{"role":"user","content":"hello"}],"tools":[{"name":"Read"},{"name":"Bash","input_schema":{}}]}`
	streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

func TestAnAnswerInOnePiece(t *testing.T) {
	s := messagesapi.New(t, func(messagesapi.Request) messagesapi.Answer {
		return messagesapi.Text("let me <look>").
			Call("", "Bash", map[string]any{"command": "ls"}).
			Took(messagesapi.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4})
	})
	status, header, body, err := newClient(t, s).post(hello)
	want := `{"id":"msg_scripted_1","type":"message","role":"assistant","model":"m","content":[` +
		`{"type":"text","text":"let me <look>"},{"type":"tool_use","id":"toolu_scripted_1_1","name":"Bash","input":{"command":"ls"}}],` +
		`"stop_reason":"tool_use","stop_sequence":null,` +
		`"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}}`
	if err != nil || status != http.StatusOK || body != want {
		t.Errorf("%d %v\n%s\nwant\n%s", status, err, body, want)
	}
	if header.Get("Request-Id") != "req_scripted_1" {
		t.Errorf("header: %v", header)
	}
}

func TestAnAnswerAsAStream(t *testing.T) {
	s := messagesapi.New(t, messagesapi.InOrder(
		messagesapi.Text("one").Call("toolu_a", "Bash", json.RawMessage(`{"command":"ls"}`)).
			Took(messagesapi.Usage{Input: 7, Output: 20, CacheRead: 5}),
	))
	status, header, body, err := newClient(t, s).post(streamed)
	if err != nil || status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %v %v", status, header, err)
	}
	names, data := events(t, body)
	if want := []string{
		"message_start",
		"content_block_start", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop",
	}; !slices.Equal(names, want) {
		t.Fatalf("events: %q", names)
	}
	for i, want := range map[int]string{
		0: `"usage":{"input_tokens":7,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":0}`,
		2: `"delta":{"text":"one","type":"text_delta"}`,
		4: `"content_block":{"id":"toolu_a","input":{},"name":"Bash","type":"tool_use"}`,
		5: `"partial_json":"{\"command\":\"ls\"}"`,
		7: `"stop_reason":"tool_use"`,
	} {
		if !strings.Contains(data[i], want) {
			t.Errorf("event %d is %s, want %s", i, data[i], want)
		}
	}
	if !strings.Contains(data[7], `"output_tokens":20`) || !strings.Contains(data[0], `"content":[]`) || !strings.Contains(data[0], `"stop_reason":null`) {
		t.Errorf("events: %q", data)
	}
}

// events splits a stream, and checks that the data is of the type the event is named.
func events(t *testing.T, body string) (names, data []string) {
	t.Helper()
	scan := bufio.NewScanner(strings.NewReader(body))
	for scan.Scan() {
		if name, ok := strings.CutPrefix(scan.Text(), "event: "); ok {
			names = append(names, name)
		}
		if text, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
			data = append(data, text)
			var head struct{ Type string }
			if err := json.Unmarshal([]byte(text), &head); err != nil || head.Type != names[len(names)-1] {
				t.Errorf("event %s holds %s: %v", names[len(names)-1], text, err)
			}
		}
	}
	return names, data
}

func TestRequestsAreRecorded(t *testing.T) {
	s := messagesapi.New(t, messagesapi.Turns(messagesapi.Text("hi")))
	c := newClient(t, s)
	for _, body := range []string{hello, streamed} {
		if _, _, _, err := c.post(body); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Requests()
	if len(got) != 2 || got[0].N != 1 || got[1].N != 2 || got[0].Stream || !got[1].Stream {
		t.Fatalf("requests: %+v", got)
	}
	r := got[0]
	if r.Model != "m" || r.MaxTokens != 9 || r.System.String() != "be brief" || r.Prompt() != "hello" ||
		!slices.Equal(r.ToolNames(), []string{"Bash", "Read"}) || r.Header.Get("X-Api-Key") != "dummy" || string(r.Body) != hello {
		t.Errorf("request: %+v", r)
	}
}

func TestErrors(t *testing.T) {
	for status, kind := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
	} {
		s := messagesapi.New(t, messagesapi.InOrder(messagesapi.Fail(status, "why").RetryAfter(1500*time.Millisecond)))
		got, header, body, err := newClient(t, s).post(streamed)
		want := `{"type":"error","error":{"type":"` + kind + `","message":"why"},"request_id":"req_scripted"}` + "\n"
		if err != nil || got != status || body != want || header.Get("Retry-After") != "1.5" {
			t.Errorf("%d: %d %v %v\n%s", status, got, header, err, body)
		}
	}
}

func TestBrokenAnswers(t *testing.T) {
	half := messagesapi.Text("half")
	for name, tc := range map[string]struct {
		answer messagesapi.Answer
		body   string
		events int
		err    error
	}{
		"dropped":             {messagesapi.Drop(), streamed, 0, io.EOF},
		"cut stream":          {half.CutAfter(3), streamed, 3, io.ErrUnexpectedEOF},
		"cut before an event": {half.CutAfter(0), streamed, 0, io.ErrUnexpectedEOF},
		"cut piece":           {half.CutAfter(3), hello, 0, io.ErrUnexpectedEOF},
		"error in the stream": {half.ErrorAfter(2), streamed, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := messagesapi.New(t, messagesapi.InOrder(tc.answer))
			_, _, body, err := newClient(t, s).post(tc.body)
			if !errors.Is(err, tc.err) {
				t.Errorf("it ended with %v", err)
			}
			if n := strings.Count(body, "event: "); n != tc.events {
				t.Errorf("%d events: %s", n, body)
			}
		})
	}
}

func TestAHangEndsWithTheClient(t *testing.T) {
	for name, answer := range map[string]messagesapi.Answer{"at once": messagesapi.Hang(), "in the stream": messagesapi.Text("half").StallAfter(2)} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			s := messagesapi.New(t, func(messagesapi.Request) messagesapi.Answer {
				close(asked)
				return answer
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				resp, err := newClient(t, s).do(ctx, http.MethodPost, "/v1/messages", streamed)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				ended <- err
			}()
			<-asked
			select {
			case err := <-ended:
				t.Errorf("it was answered: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestAHangEndsWithTheTest(t *testing.T) {
	ended := make(chan error, 1)
	t.Run("a test that leaves a call open", func(t *testing.T) {
		asked := make(chan struct{})
		s := messagesapi.New(t, func(messagesapi.Request) messagesapi.Answer {
			close(asked)
			return messagesapi.Hang()
		})
		url := s.URL()
		go func() {
			req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url+"/v1/messages", strings.NewReader(streamed))
			if err == nil {
				var resp *http.Response
				if resp, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
			}
			ended <- err
		}()
		<-asked
	})
	if err := <-ended; err == nil {
		t.Error("the call was answered")
	}
}

func TestWhatIsNoCallOfTheModel(t *testing.T) {
	s := messagesapi.New(t, messagesapi.Turns(messagesapi.Text("hi")))
	c := newClient(t, s)
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{http.MethodHead, "/", http.StatusOK},
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/v1/models", http.StatusOK}, // the free request that tests a key
		{http.MethodGet, "/v1/other", http.StatusNotFound},
	} {
		resp, err := c.do(t.Context(), tc.method, tc.path, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tc.status {
			t.Errorf("%s %s: %d", tc.method, tc.path, resp.StatusCode)
		}
	}
	if got := s.Others(); !slices.Equal(got, []string{"HEAD /", "GET /", "GET /v1/other"}) || len(s.Requests()) != 0 {
		t.Errorf("others: %q, requests: %d", got, len(s.Requests()))
	}
}

func TestADamagedConversationIsRefused(t *testing.T) {
	s := messagesapi.New(t, messagesapi.Turns(messagesapi.Text("hi")))
	c := newClient(t, s)
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}`
	for name, tc := range map[string]struct {
		messages string
		status   int
	}{
		"whole":                {call + "," + result, 200},
		"a notice in between":  {call + `,{"role":"system","content":"n"},` + result, 200},
		"a call only":          {call, 400},
		"a call passed over":   {call + `,{"role":"user","content":"go on"}`, 400},
		"a result only":        {result, 400},
		"a result of long ago": {call + "," + result + `,{"role":"assistant","content":"ok"},` + result, 400},
	} {
		status, _, body, err := c.post(`{"model":"m","messages":[` + tc.messages + `]}`)
		if err != nil || status != tc.status {
			t.Errorf("%s: %d %v %s", name, status, err, body)
		}
	}
	if status, _, _, _ := c.post(`{"model":`); status != http.StatusBadRequest {
		t.Errorf("no JSON: %d", status)
	}
}

func TestAScriptThatNeverEndsIsStopped(t *testing.T) {
	s := messagesapi.New(t, messagesapi.Turns(messagesapi.Text("hi")))
	c := newClient(t, s)
	for n := 1; ; n++ {
		status, _, _, err := c.post(hello)
		if err != nil || n > 1000 {
			t.Fatalf("request %d: %v", n, err)
		}
		if status == http.StatusBadRequest {
			break
		}
	}
	if n := len(s.Requests()); n != 500 {
		t.Errorf("%d requests were answered", n)
	}
}

func TestAnAnswerIsNotChangedByAnother(t *testing.T) {
	base := messagesapi.Text("base")
	a, b := base.Call("a", "Bash", map[string]any{}), base.Call("b", "Bash", map[string]any{})
	if a.Content[1].ID != "a" || b.Content[1].ID != "b" || len(base.Content) != 1 {
		t.Errorf("%+v %+v %+v", base, a, b)
	}
	if again := a.Call("c", "Bash", map[string]any{}); len(a.Content) != 2 || len(again.Content) != 3 {
		t.Errorf("%+v", a)
	}
	if !bytes.Equal(a.Content[1].Input, []byte("{}")) {
		t.Errorf("input: %s", a.Content[1].Input)
	}
}
