package codex

import (
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func read(lines ...string) *stream {
	st := &stream{}
	for _, line := range lines {
		st.line(line)
	}
	return st
}

const (
	started   = `{"type":"thread.started","thread_id":"01a1ddcc-a15e-7232-a682-896116dec749"}`
	turn      = `{"type":"turn.started"}`
	running   = `{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'sleep 9'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`
	ran       = `{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'sleep 9'","aggregated_output":"x","exit_code":3,"status":"failed"}}`
	said      = `{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"done"}}`
	warned    = `{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found."}}`
	completed = `{"type":"turn.completed","usage":{"input_tokens":300,"cached_input_tokens":60,"cache_write_input_tokens":0,"output_tokens":12,"reasoning_output_tokens":6}}`
	failed    = `{"type":"turn.failed","error":{"message":"boom"}}`
)

func TestTheStreamIsUnderstood(t *testing.T) {
	t.Parallel()
	st := read(started, warned, warned, turn, "Reading prompt from stdin...", `{"type":`, running, ran, said, completed)
	if st.thread != "01a1ddcc-a15e-7232-a682-896116dec749" || !st.began || !st.completed || st.failed || st.said != "done" || len(st.open) != 0 {
		t.Errorf("stream: %+v", st)
	}
	if st.usage == nil || *st.usage != (usage{Input: 300, Cached: 60, Output: 12}) {
		t.Errorf("usage: %+v", st.usage)
	}
	if !slices.Equal(st.warnings, []string{"Model metadata not found."}) {
		t.Errorf("warnings: %q", st.warnings)
	}
	if st := read(started, turn, failed); !st.failed || st.completed || st.failure != "boom" {
		t.Errorf("failed: %+v", st)
	}
}

func TestACallIsOpenUntilItIsCompleted(t *testing.T) {
	t.Parallel()
	d := &decoder{}
	p := d.Line(running)
	if !p.Changed || len(p.Open) != 1 || p.Open[0].ID != "item_1" || !strings.Contains(p.Open[0].Input, "sleep 9") {
		t.Fatalf("open: %+v", p.Open)
	}
	if d.Line(running).Changed {
		t.Error("the same call was opened twice")
	}
	if p := d.Line(ran); !p.Changed || len(p.Open) != 0 {
		t.Errorf("still open: %+v", p.Open)
	}
	d.Line(running)
	if p := d.Line(completed); !p.Changed || len(p.Open) != 0 {
		t.Errorf("open after the end: %+v", p.Open)
	}
}

func TestActivities(t *testing.T) {
	t.Parallel()
	call, result := activities(running), activities(ran)
	if len(call) != 1 || call[0].Kind != ops.ActivityCall || call[0].UseID != "item_1" || call[0].Tool != "Bash" || call[0].Input != `{"command":"sleep 9"}` {
		t.Errorf("call: %+v", call)
	}
	if len(result) != 1 || result[0].Kind != ops.ActivityResult || result[0].UseID != "item_1" || !result[0].Failed || result[0].Output != "x" {
		t.Errorf("result: %+v", result)
	}
	for _, line := range []string{started, said, warned, completed, "", "x", `{"type":"item.started"`} {
		if got := activities(line); got != nil {
			t.Errorf("%s tells of %+v", line, got)
		}
	}
}

func TestReported(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]struct {
		class  ops.FailureClass
		text   string
		status int
	}{
		"unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:1/v1/responses, request id: req_1": {ops.FailureAPI, "the API answered 401: bad key", 401},
		"exceeded retry limit, last status: 429 Too Many Requests":                                             {ops.FailureAPI, "the API answered 429", 429},
		`{"error":{"message":"bad schema","code":"x"}}`:                                                        {ops.FailureAPI, "the API answered 400: bad schema", 400},
		"Quota exceeded. Check your plan and billing details.":                                                 {ops.FailureBilling, "the API failed: Quota exceeded. Check your plan and billing details.", 429},
		"something new": {ops.FailureAPI, "the API failed: something new", 0},
		"Missing environment variable: `OPENAI_API_KEY`.": {ops.FailureAgent, "codex has no key for the API: Missing environment variable: `OPENAI_API_KEY`.", 0},
	} {
		got := reported(message)
		status := 0
		if got.status != nil {
			status = *got.status
		}
		if got.class != want.class || got.text != want.text || status != want.status {
			t.Errorf("%s is %+v (%d)", message, got, status)
		}
	}
}

func TestACommandThatPassedTheGateIsNoticed(t *testing.T) {
	t.Parallel()
	spec := ops.SessionSpec{Gate: &ops.GateSpec{ShellPrefix: "/run/gate/1-1/claudeops-guard-shell"}}
	for command, passed := range map[string]bool{
		"/run/gate/1-1/shells/bash -lc 'echo a'": false,
		"/run/gate/1-1/shells/sh -c 'echo a'":    false,
		"/bin/sh -lc 'echo a'":                   false,
		"/bin/bash -lc 'echo a'":                 true,
		"/usr/bin/sh -c 'echo a'":                true,
		"/run/gate/2-1/shells/bash -lc 'echo a'": true,
		"psql":                                   true,
	} {
		line := strings.ReplaceAll(running, "/bin/bash -lc 'sleep 9'", command)
		d := newDecoder(spec, t.TempDir(), "", nil)
		if p := d.Line(line); len(p.Ran) > 0 != passed {
			t.Errorf("%s: %q", command, p.Ran)
		}
		if p := d.Line(completed); len(p.Ran) > 0 {
			t.Errorf("%s is told twice", command)
		}
		if p := newDecoder(ops.SessionSpec{}, t.TempDir(), "", nil).Line(line); len(p.Ran) > 0 {
			t.Errorf("%s: a session without a gate has none to pass", command)
		}
	}
}

func TestCodexFindsNothingButTheGate(t *testing.T) {
	t.Parallel()
	env := gatedEnvironment([]string{"A=b", "PATH=/usr/bin:/bin"}, "/run/gate/1-1")
	want := []string{"A=b", "PATH=/run/gate/1-1/shells", "CLAUDEOPS_SHELL_PATH=/usr/bin:/bin", "CLAUDEOPS_SHELL_GATE=/run/gate/1-1"}
	if !slices.Equal(env, want) {
		t.Errorf("the environment is %q", env)
	}
}
