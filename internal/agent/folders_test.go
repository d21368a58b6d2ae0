package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// keeps makes the fake agent keep a record of its conversation, as Claude Code does.
const keeps = `mkdir -p "$CLAUDE_CONFIG_DIR/projects/x" && echo '{"type":"user"}' > "$CLAUDE_CONFIG_DIR/projects/x/{{session_id}}.jsonl"`

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

func gone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

func TestAfterACrashOnlyConversationsOfOpenCyclesAreKept(t *testing.T) {
	spec := testSpec(t)
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{
		Steps: append(agenttest.Lines(agenttest.Init(), agenttest.Result(0.1, "done")), agenttest.Step{Run: keeps}),
	}}})
	runner := agent.NewRunner(claude.New(claude.Options{Bin: bin}), agent.Options{})
	first := runner.Run(t.Context(), spec, &agenttest.Recorder{})
	if !first.Success() || first.Conversation.Path == "" {
		t.Fatalf("got %+v", first)
	}
	at := func(name string) string { return filepath.Join(spec.StateDir, name) }
	write(t, at("agent/home/.gitconfig"), "x")
	write(t, at("agent/settings-x.json"), "x")
	write(t, at("discarded/y/z"), "x")
	write(t, at("conversations/8/1/config/x"), "x")
	must(t, agent.SweepFolders(spec.StateDir, func(id ops.CycleID) bool { return id == spec.Session.CycleID }))
	gone(t, at("agent"), at("discarded/y"), at("conversations/8"))

	again := spec
	again.Session.PlannedID, again.Session.ID = uuid.NewString(), 19
	again.Resume, again.Conversation = first.CLISessionID, first.Conversation
	if res := runner.Run(t.Context(), again, &agenttest.Recorder{}); !res.Success() {
		t.Fatalf("the conversation was not continued: %+v", res)
	}
	must(t, agent.ForgetConversations(spec.StateDir, func(id ops.CycleID) bool { return id == spec.Session.CycleID }))
	if res := runner.Run(t.Context(), again, &agenttest.Recorder{}); res.Failure != ops.FailureResumeRefused || !strings.Contains(res.Err, "is gone") {
		t.Errorf("got %+v", res)
	}
	gone(t, at("agent"), at("conversations/7"))
}

func TestARecordThatIsNoFileIsNotKept(t *testing.T) {
	for name, command := range map[string]string{
		"a pipe": "mkfifo", "a link": "ln -s /etc/hostname", "a folder": "mkdir", "a folder that is a link": "rm -r ../x; ln -s /etc ../x; true",
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(t)
			record := `mkdir -p "$CLAUDE_CONFIG_DIR/projects/x" && cd "$CLAUDE_CONFIG_DIR/projects/x" && ` + command + ` {{session_id}}.jsonl`
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{
				Steps: append(agenttest.Lines(agenttest.Init(), agenttest.Result(0.1, "done")), agenttest.Step{Run: record}),
			}}})
			res := newRunner(claude.Options{Bin: bin}).Run(t.Context(), spec, &agenttest.Recorder{})
			if !res.Success() || res.Conversation != (ops.Fingerprint{}) {
				t.Errorf("got %+v", res)
			}
			if kept, _ := filepath.Glob(filepath.Join(spec.StateDir, "conversations/*/*/*/*/*/*")); len(kept) > 0 {
				t.Errorf("kept: %v", kept)
			}
		})
	}
}

func TestTheOperatorsOwnWorkingFolderIsLeftAlone(t *testing.T) {
	spec := testSpec(t)
	notes := filepath.Join(spec.WorkDir, "notes") // outside the state folder
	write(t, notes, "mine")
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{Steps: agenttest.Lines(agenttest.Init(), agenttest.Result(0.1, "done"))}}})
	if res := newRunner(claude.Options{Bin: bin}).Run(t.Context(), spec, &agenttest.Recorder{}); !res.Success() {
		t.Fatalf("got %+v", res)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}
