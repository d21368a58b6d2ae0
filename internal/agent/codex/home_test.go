package codex

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

const thread = "01a1ddcc-a15e-7232-a682-896116dec749"

func TestTheRecordTellsTheTokens(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := home + "/sessions/2026/11/15/rollout-2026-11-15T06-04-07-" + thread + ".jsonl"
	put(t, path, `{"type":"session_meta","payload":{"id":"x"}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":300,"output_tokens":12},"last_token_usage":{"total_tokens":207},"model_context_window":258400}}}
{"type":"token_usage_record","payload":{"usage":{"input_tokens":100,"cached_input_tokens":10,"output_tokens":5},"thread_token_usage":{"input_tokens":400,"cached_input_tokens":70,"output_tokens":17}}}
{"type":"event_msg","payload":{"type":"token_count","info":null}}
{"type":"response_item","payload":{"text":"a \"token_count\" that is none"}}
{"type":"token_usage_record","payload":{"usage":{"input_tokens":100,"cached_input_tokens":10,"output_tokens":5},"thread_token_usage":{"input_tokens":500,"cached_input_tokens":80,"output_tokens":22}}}
{"type":"token_usage_record", half a line`)
	found := findRecord(home, thread)
	l := readRecord(found)
	if found != path || l.calls != 2 || l.context != 207 || l.window != 258_400 {
		t.Errorf("%s: %+v", found, l)
	}
	if l.own == nil || *l.own != (usage{Input: 200, Cached: 20, Output: 10}) || l.thread == nil || *l.thread != (usage{Input: 500, Cached: 80, Output: 22}) {
		t.Errorf("own %+v, thread %+v", l.own, l.thread)
	}
}

func TestTheTailOfARecordIsReadOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := home + "/sessions/2026/11/15/rollout-x-" + thread + ".jsonl"
	call := func(id string) string {
		return `{"type":"token_usage_record","payload":{"response_id":"` + id + `","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":1}}}` + "\n"
	}
	l := &tail{home: home, model: "m", st: &stream{thread: thread}}
	told := func() string {
		var ids []string
		for _, a := range l.usage() {
			ids = append(ids, a.Message)
		}
		return strings.Join(ids, " ")
	}
	if got := told(); got != "" {
		t.Errorf("no record tells of %q", got)
	}
	text := ""
	for _, step := range []struct{ add, want string }{
		{call("a") + `{"type":"x"}` + "\n" + call("b"), "a b"},
		{"", ""},
		{call("c")[:20], ""},
		{call("c")[20:] + call("d")[:5], "c"},
		{call("d")[5:], "d"},
	} {
		text += step.add
		put(t, file, text)
		if got := told(); got != step.want {
			t.Errorf("after %q: %q, want %q", step.add, got, step.want)
		}
	}
	must(t, os.Remove(file))
	must(t, syscall.Mkfifo(file, 0o600))
	if got := told(); got != "" {
		t.Errorf("a pipe tells of %q", got)
	}
}

func TestARecordThatIsNoneSaysNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := home + "/sessions/2026/11/15"
	must(t, os.MkdirAll(dir, 0o700))
	pipe := dir + "/rollout-x-" + thread + ".jsonl"
	must(t, syscall.Mkfifo(pipe, 0o600))
	done := make(chan ledger, 1)
	go func() { done <- readRecord(pipe) }()
	select {
	case l := <-done:
		if l != (ledger{}) {
			t.Errorf("a pipe says %+v", l)
		}
	case <-time.After(time.Minute):
		t.Fatal("a pipe was waited for")
	}
	for _, id := range []string{thread, "", "*", "../../x", "01a1ddcc-0000-7232-a682-896116dec749"} {
		if got := findRecord(home, id); got != "" {
			t.Errorf("%q is kept in %s", id, got)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": `"plain"`, "a\"b\\c\nd\te": `"a\"b\\c\nd\te"`, "\x7f": `"\u007f"`, "\x01": `"\u0001"`, "\xff": `"` + "\uFFFD" + `"`, "<&>": `"\u003c\u0026\u003e"`,
	} {
		if got := quote(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	spec := ops.SessionSpec{Session: ops.Session{Model: "m"}, Prompt: "p\x00q", SystemPrompt: strings.Repeat("s", maxSetting+1), Resume: thread}
	args, prompt := arguments(spec, false, "/schema")
	if len(args) < 3 || args[0] != "exec" || args[1] != "fork" || !slices.Equal(args[len(args)-2:], []string{thread, "-"}) {
		t.Errorf("arguments: %q", args)
	}
	if prompt != spec.SystemPrompt+"\n\npq" {
		t.Error("a long system prompt is lost")
	}
	for _, arg := range args {
		if len(arg) > 128<<10 {
			t.Errorf("an argument has %d bytes", len(arg))
		}
	}
	for _, want := range []string{`sandbox_mode="danger-full-access"`, `approval_policy="never"`, "--ignore-user-config", "--strict-config", "/schema"} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %q", want, args)
		}
	}
	spec.Resume = ""
	args, _ = arguments(spec, true, "")
	if slices.Contains(args, "fork") || slices.Contains(args, "--output-schema") || !slices.Contains(args, `sandbox_mode="read-only"`) {
		t.Errorf("arguments: %q", args)
	}
}

func TestWhoOnlySpeaksIsReadOnly(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]ops.Session{
		"Tier 1": {Tier: ops.Tier1}, "a judge": {Tier: ops.Tier3, Role: ops.RoleJudge}, "rights of Tier 1": {Tier: ops.Tier2, Permissions: ops.Tier1},
	} {
		if readOnly, err := sandboxFor(ops.SessionSpec{Session: s}, nil); err != nil || !readOnly {
			t.Errorf("%s: read-only %v, %v", name, readOnly, err)
		}
	}
	if _, err := sandboxFor(ops.SessionSpec{Session: ops.Session{Tier: ops.Tier1, Permissions: ops.Tier2}}, nil); err == nil {
		t.Error("rights of Tier 2 are given without a wall")
	}
}

func TestAVersionThatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script, words string
		class         ops.FailureClass
	}{
		"older":  {"echo codex-cli 0.165.9", "at least " + OldestVersion, ops.FailureTooOld},
		"silent": {"exit 1", "does not run: it exited with code 1", ops.FailureStart},
		"dies":   {"echo cannot find libssl >&2; exit 127", "does not run: it exited with code 127: cannot find libssl", ops.FailureStart},
		"other":  {"echo 2.1.325 '(Claude Code)'", "does not tell its version", ops.FailureTooOld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir() + "/codex"
			must(t, os.WriteFile(bin, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700))
			c := New(Options{Bin: bin})
			if able := c.Able(t.Context(), nil); able.Structured {
				t.Errorf("it can %+v", able)
			}
			spec := ops.SessionSpec{Session: ops.Session{Tier: ops.Tier1, Key: "test-version-" + name}, StateDir: t.TempDir()}
			res := agent.NewRunner(c, agent.Options{}).Run(t.Context(), spec, nil)
			if res.Failure != tc.class || !strings.Contains(res.Err, tc.words) || res.ExitCode != nil {
				t.Errorf("result: %+v", res)
			}
		})
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	u := usage{Input: 1_000_000, Cached: 300_000, CacheWrite: 100_000, Output: 50_000}
	if got := cost(ops.Price{Input: 2, CacheRead: 0.2, CacheWrite: 3, Output: 10}, u); got != 1.2+0.06+0.3+0.5 {
		t.Errorf("cost: %v", got)
	}
	if got := cost(ops.Price{Input: 2, CacheRead: 0.2, Output: 10}, u); got != 1.4+0.06+0.5 {
		t.Errorf("cost without a price for writing: %v", got)
	}
	if got := (usage{Input: 1}).minus(usage{Input: 5}); got != (usage{}) {
		t.Errorf("less than nothing: %+v", got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
