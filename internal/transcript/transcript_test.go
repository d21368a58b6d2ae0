package transcript_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"claudeops/internal/transcript"
)

func TestBothStreamsGiveTheSameParts(t *testing.T) {
	t.Parallel()
	turns, cost, took := int64(3), 0.25, 1200*time.Millisecond
	for name, c := range map[string]struct {
		line string
		want transcript.Part
	}{
		"printed":          {"not an event", transcript.Part{Kind: transcript.Stdout, Text: "not an event"}},
		"printed number":   {"42", transcript.Part{Kind: transcript.Stdout, Text: "42"}},
		"broken":           {`{"type":"assist`, transcript.Part{Kind: transcript.Stdout, Text: `{"type":"assist`}},
		"no type":          {`{"x":1}`, transcript.Part{Kind: transcript.Stdout, Text: `{"x":1}`}},
		"stderr":           {`{"type":"stderr","text":"warn"}`, transcript.Part{Kind: transcript.Stderr, Text: "warn"}},
		"unknown":          {`{"type":"new","subtype":"thing"}`, transcript.Part{Kind: transcript.Event, Text: "new thing"}},
		"claude start":     {`{"type":"system","subtype":"init","model":"m","tools":["Bash"]}`, transcript.Part{Kind: transcript.Start, Text: "m with 1 tool: Bash"}},
		"claude text":      {`{"type":"assistant","message":{"content":[{"type":"text","text":"hello"}]}}`, transcript.Part{Kind: transcript.Text, Text: "hello"}},
		"claude wrong":     {`{"type":"assistant","num_turns":"x","message":{"content":"hello"}}`, transcript.Part{Kind: transcript.Text, Text: "hello"}},
		"claude no text":   {`{"type":"assistant"}`, transcript.Part{Kind: transcript.Text}},
		"claude odd parts": {`{"type":"assistant","message":{"content":{"a":1}}}`, transcript.Part{Kind: transcript.Event, Text: `{"a":1}`}},
		"claude call": {
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Read","input":{"limit":3,"file_path":"/x"}}]}}`,
			transcript.Part{Kind: transcript.Call, Tool: "Read", Text: "/x", Paths: []string{"/x"}, Call: "a"},
		},
		"claude output": {
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"no"},{"type":"image"}]}]}}`,
			transcript.Part{Kind: transcript.Output, Text: "no\n[image]", Answer: "a", Failed: true},
		},
		"claude result": {
			`{"type":"result","result":"fine","num_turns":3,"duration_ms":1200,"total_cost_usd":0.25}`,
			transcript.Part{Kind: transcript.Result, Text: "fine", Figures: transcript.Figures{Turns: &turns, Duration: &took, CostUSD: &cost}},
		},
		"claude failed": {`{"type":"result","is_error":true,"errors":["a","b"]}`, transcript.Part{Kind: transcript.Result, Text: "a\nb", Failed: true}},
		"codex start":   {`{"type":"thread.started","thread_id":"t"}`, transcript.Part{Kind: transcript.Start, Text: "A conversation starts."}},
		"codex text":    {`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"hello"}}`, transcript.Part{Kind: transcript.Text, Text: "hello"}},
		"codex call": {
			`{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","exit_code":null,"status":"in_progress"}}`,
			transcript.Part{Kind: transcript.Call, Tool: "Bash", Text: "ls", Call: "i"},
		},
		"codex output": {
			`{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","aggregated_output":"no\n","exit_code":2}}`,
			transcript.Part{Kind: transcript.Output, Tool: "Bash", Text: "Exit code 2\nno", Answer: "i", Input: `{"command":"ls"}`, Failed: true},
		},
		"codex tool": {
			`{"type":"item.completed","item":{"id":"i","type":"mcp_tool_call","tool":"run","arguments":{"a":1},"result":{"content":[{"type":"text","text":"done"}]}}}`,
			transcript.Part{Kind: transcript.Output, Tool: "run", Text: "done", Answer: "i"},
		},
		"codex files": {
			`{"type":"item.completed","item":{"id":"i","type":"file_change","changes":[{"path":"/a","kind":"add"},{"path":"/b","kind":"update"}]}}`,
			transcript.Part{Kind: transcript.Output, Tool: "Edit", Text: "add /a\nupdate /b", Paths: []string{"/a", "/b"}, Answer: "i"},
		},
		"codex list": {
			`{"type":"item.completed","item":{"id":"i","type":"todo_list","items":[{"text":"look","completed":true},{"text":"repair"}]}}`,
			transcript.Part{Kind: transcript.Thinking, Text: "[x] look\n[ ] repair"},
		},
		"codex end": {
			`{"type":"turn.completed","usage":{"input_tokens":9,"output_tokens":2}}`,
			transcript.Part{Kind: transcript.Result, Figures: transcript.Figures{Tokens: &transcript.Tokens{Read: 9, Written: 2}}},
		},
		"codex failed":    {`{"type":"turn.failed","error":{"message":"boom"}}`, transcript.Part{Kind: transcript.Result, Text: "boom", Failed: true}},
		"codex reconnect": {`{"type":"error","message":"Reconnecting 1/5"}`, transcript.Part{Kind: transcript.Retry, Text: "Reconnecting 1/5"}},
	} {
		if got := transcript.Read(c.line); len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Output is hostile: nothing in it may stop the page, and every line shows something.
func FuzzRead(f *testing.F) {
	for _, line := range []string{"", "{", `{"type":"item.started","item":7}`, `{"type":"error","message":[1]}`, `{"type":"user","message":{"content":[]}}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		parts := transcript.Read(line)
		if len(parts) == 0 {
			t.Fatal("a line without a part")
		}
		if !strings.HasPrefix(strings.TrimSpace(line), "{") && parts[0].Text != line {
			t.Fatalf("printed text changed: %q", parts[0].Text)
		}
	})
}

func TestACommandIsToldWithoutItsShell(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`/bin/bash -lc true`:                            `true`,
		`/usr/bin/bash -lc 'env | sort; echo e >&2'`:    `env | sort; echo e >&2`,
		`/bin/bash -lc "ls | grep -c '"'^[0-9]'"' \$x"`: `ls | grep -c '^[0-9]' $x`,
		"/bin/bash -lc 'a\nb'":                          "a\nb",
		`/bin/sh -c a\ b`:                               `a b`,
		`/bin/bash -lc 'open`:                           `/bin/bash -lc 'open`,
		`/bin/bash -lc a b`:                             `/bin/bash -lc a b`,
		`python3 -c 'x'`:                                `python3 -c 'x'`,
		``:                                              ``,
	} {
		if got := transcript.Command(command); got != want {
			t.Errorf("%s is %s, want %s", command, got, want)
		}
	}
}
