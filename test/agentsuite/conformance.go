// Package agentsuite is the suite that every agent adapter passes: whatever program is behind it, a session is started,
// recorded, measured, judged, stopped and continued in the same way.
package agentsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/decide/report"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// Task is what the agent behind an adapter is to do. The adapter's test makes it do so.
type Task string

// The tasks.
const (
	Answer Task = "answer" // says Said; with a schema, the outcome Outcome
	Fail   Task = "fail"   // ends with an error of its own or of its API
	Crash  Task = "crash"  // exits with a code other than 0 and says nothing
	Hang   Task = "hang"   // runs Fixture.Command, which never ends
	Silent Task = "silent" // prints no answer and never ends, without a tool call
	Leak   Task = "leak"   // says the secret
	Many   Task = "many"   // prints a line of more than a megabyte on the way, then does as Answer
)

// Said is what the agent says.
const Said = "all is well"

// Secret is what must never be recorded.
const Secret = "sk-conformance-5dd4f1c09b"

// Outcome is what the agent answers when a schema is given, byte for byte but for spaces and the order of fields.
const Outcome = `{"schema_version":1,"outcome":"healthy","summary":"all is well",` +
	`"check_results":[{"service":"web","check_type":"http","status":"healthy","error":""}],` +
	`"actions":[],"events":[],"memories":[]}`

// Any is a figure that has to be there, whatever it is.
const Any = -1

// Fixture is what a task needs.
type Fixture struct {
	Command string // of Hang: starts a process in a session of its own, and waits
}

// Subject is an adapter with an agent that can be told what to do.
type Subject struct {
	// Make returns the adapter, and the session as far as the adapter's own things go: the model, the environment, a command.
	Make func(t *testing.T, task Task, with Fixture) (agent.Adapter, ops.SessionSpec)
	// Missing is the adapter of a program that is not there.
	Missing func(t *testing.T) (agent.Adapter, ops.SessionSpec)
	Resumes bool // it continues conversations
	// Input and Output are the tokens a run of Answer took, its own share also when it continues a conversation; nil when the
	// agent tells none, Any when they cannot be known before.
	Input, Output *int64
	CostUSD       *float64
	// Structured: it gives an outcome when there is a schema.
	Structured bool
	Walls      func(environment string) agent.Walls // nil: none
}

// Paper is a wall that holds nothing, for an agent that starts only behind the layer of its name.
type Paper string

// Layers names the one layer.
func (p Paper) Layers(ops.Tier) []string { return []string{string(p)} }

// Prepare does nothing.
func (Paper) Prepare(ops.Tier) error { return nil }

// Wrap returns the program as it is.
func (Paper) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) { return p, nil }

// Collect does nothing.
func (Paper) Collect(ops.Tier) error { return nil }

// Hides is nil: nothing is hidden.
func (Paper) Hides(ops.Tier, agent.Program) func(string) bool { return nil }

// GatesShells is false.
func (Paper) GatesShells(ops.Tier) bool { return false }

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"a session is recorded and measured":                 answers,
		"an outcome is given when there is a schema":         structured,
		"a failure has a class and a sentence":               fails,
		"a crash has an exit code":                           crashes,
		"a missing program is reported":                      missing,
		"a stop leaves nothing behind":                       stops,
		"a limit stops a session":                            limits,
		"a deadline stops a session that prints nothing":     deadline,
		"a session that was cancelled before is not started": cancelled,
		"no secret is recorded":                              leaks,
		"a line of any length is read":                       long,
		"output that cannot be stored stops the session":     unstored,
		"a conversation is continued":                        resumes,
		"nothing of an earlier session is found":             finds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// make makes a session of a task.
func (s Subject) make(t *testing.T, task Task) (*agent.Runner, ops.SessionSpec) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "hang.sh")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nsetsid sleep 300 &\nsleep 300\n"), 0o700))
	adapter, spec := s.Make(t, task, Fixture{Command: script})
	s.fill(t, &spec)
	return agent.NewRunner(adapter, agent.Options{Redactor: redact.New([]string{Secret}), Walls: s.Walls}), spec
}

// fill adds what does not depend on the adapter.
func (s Subject) fill(t *testing.T, spec *ops.SessionSpec) {
	t.Helper()
	dir := t.TempDir()
	key := "test-" + uuid.NewString()
	t.Cleanup(func() {
		if killed, err := agent.Sweep(context.Background(), key); err != nil || killed > 0 {
			t.Errorf("the session left %d processes (%v)", killed, err)
		}
	})
	spec.Session.ID, spec.Session.CycleID, spec.Session.Key = 18, 7, key
	spec.Session.Tier = max(spec.Session.Tier, ops.Tier1)
	spec.Session.PlannedID = uuid.NewString()
	if spec.Prompt == "" {
		spec.Prompt = "Look at the services."
	}
	if spec.StateDir == "" {
		spec.StateDir, spec.WorkDir = filepath.Join(dir, "state"), filepath.Join(dir, "work")
	}
	// Far from what any case needs: a real CLI takes long to start on a busy machine.
	spec.Limits = ops.Limits{Wall: 5 * time.Minute, Idle: 5 * time.Minute, Tool: 5 * time.Minute, Grace: 3 * time.Second}
}

func answers(t *testing.T, s Subject) {
	runner, spec := s.make(t, Answer)
	able := runner.Able(t.Context(), spec.Env)
	if !able.Known || able.Version == "" || able.Structured != s.Structured {
		t.Errorf("it can %+v", able)
	}
	rec := &agenttest.Recorder{}
	res := runner.Run(t.Context(), spec, rec)
	succeeded(t, res)
	if !strings.Contains(res.Text, Said) || !strings.Contains(rec.Text(), Said) {
		t.Errorf("it said %q; recorded:\n%s", res.Text, rec.Text())
	}
	if rec.PID <= 0 || rec.Since == "" {
		t.Errorf("the process is %d, started %q", rec.PID, rec.Since)
	}
	for i, line := range rec.All {
		if line.Seq != int64(i+1) || line.At.IsZero() {
			t.Errorf("line %d has number %d and time %v", i, line.Seq, line.At)
		}
		runner.Activities(line.Text) // any line must be accepted
	}
	s.measured(t, res)
	if s.Resumes != (res.CLISessionID != "") {
		t.Errorf("the conversation is %q", res.CLISessionID)
	}
}

func succeeded(t *testing.T, res ops.RunResult) {
	t.Helper()
	if !res.Success() || res.Failure != "" || res.Stop != ops.StopNone || res.OpenTool != "" {
		t.Fatalf("the session failed: %+v", res)
	}
}

// measured compares the figures of one run.
func (s Subject) measured(t *testing.T, res ops.RunResult) {
	t.Helper()
	same := func(what string, got, want *int64) {
		t.Helper()
		if (got == nil) != (want == nil) || got != nil && *want != Any && *got != *want {
			t.Errorf("%s: %s, want %s", what, number(got), number(want))
		}
	}
	same("input tokens", res.InputTokens, s.Input)
	same("output tokens", res.OutputTokens, s.Output)
	if (res.CostUSD == nil) != (s.CostUSD == nil) || res.CostUSD != nil && math.Abs(*res.CostUSD-*s.CostUSD) > 1e-9 {
		t.Errorf("cost: %v, want %v", res.CostUSD, s.CostUSD)
	}
	if res.DurationMS == nil || *res.DurationMS < 0 {
		t.Errorf("duration: %s ms", number(res.DurationMS))
	}
}

func number(n *int64) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatInt(*n, 10)
}

func structured(t *testing.T, s Subject) {
	if !s.Structured {
		t.Skip("it gives none")
	}
	runner, spec := s.make(t, Answer)
	spec.OutcomeJSON = report.Inline(spec.Session.Tier)
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	succeeded(t, res)
	if got, want := compact(t, res.Structured), compact(t, json.RawMessage(Outcome)); got != want {
		t.Errorf("the outcome is\n%s, want\n%s", got, want)
	}
}

// compact sorts the fields.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("the outcome %q is not JSON: %v", raw, err)
	}
	var b bytes.Buffer
	must(t, json.NewEncoder(&b).Encode(v))
	return b.String()
}

func fails(t *testing.T, s Subject) {
	runner, spec := s.make(t, Fail)
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	if res.Success() || res.Failure == "" || res.Err == "" || strings.Contains(res.Err, "\n") {
		t.Errorf("the session: %+v", res)
	}
	if res.ExitCode == nil || *res.ExitCode == 0 && !res.IsError {
		t.Errorf("nothing reports the failure: %+v", res)
	}
}

func crashes(t *testing.T, s Subject) {
	runner, spec := s.make(t, Crash)
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	if res.Success() || res.ExitCode == nil || *res.ExitCode == 0 || res.Failure != ops.FailureExit || res.Err == "" {
		t.Errorf("the session: %+v", res)
	}
}

func missing(t *testing.T, s Subject) {
	adapter, spec := s.Missing(t)
	s.fill(t, &spec)
	res := agent.NewRunner(adapter, agent.Options{}).Run(t.Context(), spec, &agenttest.Recorder{})
	if res.Success() || res.ExitCode != nil || res.Failure != ops.FailureNotFound || res.Err == "" || res.CostUSD == nil || *res.CostUSD != 0 {
		t.Errorf("the session: %+v", res)
	}
}

func long(t *testing.T, s Subject) {
	runner, spec := s.make(t, Many)
	rec := &agenttest.Recorder{}
	res := runner.Run(t.Context(), spec, rec)
	succeeded(t, res)
	if !strings.Contains(res.Text, Said) {
		t.Errorf("it said %q", res.Text)
	}
	cut := slices.ContainsFunc(rec.All, func(l ops.Line) bool { return strings.Contains(l.Text, "[cut: ") })
	if !cut {
		t.Error("no line was long enough to be cut")
	}
}

func unstored(t *testing.T, s Subject) {
	runner, spec := s.make(t, Answer)
	res := runner.Run(t.Context(), spec, &agenttest.Recorder{Err: os.ErrInvalid})
	if res.Success() || res.Stop != ops.StopJournal || res.Failure != ops.FailureJournal {
		t.Errorf("the session: %+v", res)
	}
}

func resumes(t *testing.T, s Subject) {
	runner, spec := s.make(t, Answer)
	if !s.Resumes {
		spec.Resume = uuid.NewString()
		refused(t, runner.Run(t.Context(), spec, &agenttest.Recorder{}))
		return
	}
	first := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	succeeded(t, first)
	if first.Conversation.Path == "" || first.Conversation.Size == 0 {
		t.Fatalf("the record of the conversation is not known: %+v", first.Conversation)
	}
	again := spec
	again.Session.PlannedID = uuid.NewString()
	again.Resume, again.Conversation, again.SpentUSD = first.CLISessionID, first.Conversation, first.ReportedUSD
	again.Prompt = "Go on."
	// Twice: the conversation that is continued stays as it was.
	for range 2 {
		again.Session.ID++ // each session has an id of its own
		again.Session.PlannedID = uuid.NewString()
		second := runner.Run(t.Context(), again, &agenttest.Recorder{})
		succeeded(t, second)
		s.measured(t, second)
		if second.CLISessionID == "" || second.CLISessionID == first.CLISessionID {
			t.Errorf("the conversation is %q, that of the first run %q", second.CLISessionID, first.CLISessionID)
		}
	}

	unknown := again
	unknown.Resume, unknown.Conversation = uuid.NewString(), ops.Fingerprint{}
	unknown.Session.PlannedID = uuid.NewString()
	refused(t, runner.Run(t.Context(), unknown, &agenttest.Recorder{}))

	must(t, os.WriteFile(first.Conversation.Path, []byte("{}\n"), 0o600))
	again.Session.PlannedID = uuid.NewString()
	refused(t, runner.Run(t.Context(), again, &agenttest.Recorder{}))
}

// finds puts things where an earlier session could have left them. Whoever wants to see what a program makes of them would
// have to look at each program; here they are simply gone.
func finds(t *testing.T, s Subject) {
	runner, spec := s.make(t, Answer)
	spec.WorkDir = filepath.Join(spec.StateDir, "work")
	template := filepath.Join(spec.StateDir, "work.template", "notes.txt")
	const planted = "PLANTED-BY-AN-EARLIER-SESSION"
	for _, name := range []string{
		"agent/home/.gitconfig", "agent/home/.bashrc", "agent/home/.config/git/config", "agent/home/.codex/config.toml",
		"agent/config/settings.json", "agent/config/CLAUDE.md", "agent/exchange/x", "work/CLAUDE.md", "work/.git/config",
	} {
		file := filepath.Join(spec.StateDir, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte(planted), 0o600))
	}
	must(t, os.MkdirAll(filepath.Dir(template), 0o700))
	must(t, os.WriteFile(template, []byte("of the operator"), 0o600))
	during := &looking{dir: spec.StateDir, text: planted}
	succeeded(t, runner.Run(t.Context(), spec, during))
	if during.err != nil || during.notes != "of the operator" {
		t.Errorf("the session found %v and the notes %q", during.err, during.notes)
	}
	for _, dir := range []string{"agent", "work"} {
		if left, err := os.ReadDir(filepath.Join(spec.StateDir, dir)); err == nil && len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
	if _, err := os.Stat(template); err != nil {
		t.Errorf("what the operator put there: %v", err)
	}
}

// looking looks through a state folder once the program was started.
type looking struct {
	agenttest.Recorder

	dir, text string
	notes     string
	err       error
}

func (l *looking) Started(ctx context.Context, pid int, started string) error {
	for _, dir := range []string{"agent", "work"} {
		l.err = errors.Join(l.err, filepath.WalkDir(filepath.Join(l.dir, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // the program makes and removes files of its own meanwhile
			}
			data, _ := os.ReadFile(path)
			if strings.Contains(string(data), l.text) {
				return fmt.Errorf("%s", path)
			}
			return nil
		}))
	}
	notes, _ := os.ReadFile(filepath.Join(l.dir, "work", "notes.txt"))
	l.notes = string(notes)
	return l.Recorder.Started(ctx, pid, started)
}

func refused(t *testing.T, res ops.RunResult) {
	t.Helper()
	if res.Success() || res.Failure != ops.FailureResumeRefused || res.Err == "" {
		t.Errorf("the conversation was continued: %+v", res)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
