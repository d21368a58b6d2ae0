package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// speaks is a run that ends with a structured outcome and keeps a record of its conversation, as the CLI does.
func speaks(n int, cost float64, kind ops.OutcomeKind) agenttest.Play {
	record := `mkdir -p "$CLAUDE_CONFIG_DIR/projects/x" && echo "{\"tier\":\"$CLAUDEOPS_TIER\"}" > "$CLAUDE_CONFIG_DIR/projects/x/$PLANNED.jsonl"`
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(report.OutcomeExample(ops.Tier(n), kind))); err != nil {
		panic(err)
	}
	return agenttest.Play{Tier: n, Steps: append([]agenttest.Step{{Run: "PLANNED={{session_id}}; " + record}},
		agenttest.Lines(agenttest.Init(), agenttest.Use("toolu_1", "curl -s http://127.0.0.1/healthz"), agenttest.Answer("toolu_1", "502"),
			agenttest.Structured(cost, "done", compact.String()))...)}
}

func conversation() agenttest.Scenario {
	return plays(speaks(1, 0.03, ops.OutcomeEscalate), speaks(2, 0.47, ops.OutcomeEscalate), speaks(3, 2.00, ops.OutcomeResolved))
}

func resumeBox(t *testing.T, s agenttest.Scenario, env ...string) *box {
	t.Helper()
	return newBox(t, s, append([]string{"CLAUDEOPS_ESCALATION_MODE="}, env...)...)
}

func TestResumeIsTheDefault(t *testing.T) {
	t.Parallel()
	b := resumeBox(t, conversation())
	r := b.once(0)
	calls, sessions := b.calls(), b.cycle().Journal.Sessions
	if len(calls) != 3 || len(sessions) != 3 {
		t.Fatalf("%d calls, %d sessions\n%s", len(calls), len(sessions), r.stderr)
	}
	for i, c := range calls {
		expect(t, c, "--session-id", sessions[i].PlannedID)
		expect(t, c, "--model", []string{"haiku", "sonnet", "opus"}[i])
		expect(t, c, "--json-schema", report.Inline(ops.Tier(i+1)))
		tools, _ := c.Option("--tools")
		if strings.Contains(tools, "Write") != (i > 0) {
			t.Errorf("tier %d has %s", i+1, tools)
		}
		for _, list := range []string{"--allowedTools", "--disallowedTools"} {
			if v, _ := c.Option(list); v == "" {
				t.Errorf("tier %d has no %s", i+1, list)
			}
		}
		if sessions[i].CLISessionID != sessions[i].PlannedID || sessions[i].Conversation.SHA == "" || !sessions[i].Structured {
			t.Errorf("session %d: id %q, record %+v", i+1, sessions[i].CLISessionID, sessions[i].Conversation)
		}
		config, _ := c.Var("CLAUDE_CONFIG_DIR")
		if !strings.HasPrefix(config, b.state) || c.Dir != calls[0].Dir {
			t.Errorf("tier %d works in %s with %s", i+1, c.Dir, config)
		}
	}
	if _, resumed := calls[0].Option("--resume"); resumed {
		t.Error("Tier 1 continues a conversation")
	}
	for i := 1; i < 3; i++ {
		expect(t, calls[i], "--resume", sessions[i-1].CLISessionID)
		if !strings.Contains(strings.Join(calls[i].Args, " "), "--fork-session") {
			t.Errorf("tier %d does not fork", i+1)
		}
		for _, option := range []string{"--append-system-prompt", "--append-system-prompt-file"} {
			if v, ok := calls[i].Option(option); ok {
				t.Errorf("tier %d has %s %.60q", i+1, option, v)
			}
		}
		prompt, _ := calls[i].Option("-p")
		contains(t, "the escalation prompt", prompt, "do not repeat diagnostics", "Rate limits")
	}
	prompt, _ := calls[0].Option("-p")
	contains(t, "Tier 1's prompt", prompt, "## Facts about this environment")
	b.nothingKept()
}

// nothingKept holds that no file of a session is left.
func (b *box) nothingKept() {
	b.t.Helper()
	for _, dir := range []string{"agent", "conversations/*", "discarded/*"} {
		if left, err := filepath.Glob(filepath.Join(b.state, dir)); err != nil || len(left) > 0 {
			b.t.Errorf("left: %v (%v)", left, err)
		}
	}
}

// TestAConversationOutlivesACrash holds that what a killed supervisor left is removed, except what its cycle still needs.
func TestAConversationOutlivesACrash(t *testing.T) {
	t.Parallel()
	b := resumeBox(t, conversation())
	if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=commit.after:2"}, "once"); r.code != -1 {
		t.Fatalf("not killed: %d\n%s", r.code, r.stderr)
	}
	for _, name := range []string{"agent/home/.gitconfig", "agent/settings-x.json", "discarded/x/file", "conversations/77/1/config/x.jsonl"} {
		file := filepath.Join(b.state, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte("x"), 0o600))
	}
	b.run("once")
	sessions := chainOf(b, 1)
	if len(sessions) != 3 || sessions[1].ContextMode != ops.ContextResume || sessions[1].Status != ops.SessionCompleted {
		t.Fatalf("sessions: %+v", sessions)
	}
	b.nothingKept()
}

func TestAnEditedConversationIsNotResumed(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(string) error{
		"edited":    func(f string) error { return os.WriteFile(f, []byte("something else entirely"), 0o600) },
		"truncated": func(f string) error { return os.Truncate(f, 3) },
		"gone":      os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := resumeBox(t, conversation())
			// The supervisor is killed when Tier 2 is queued, so that there is time to change the record of Tier 1.
			if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=commit.after:2"}, "once"); r.code != -1 {
				t.Fatalf("not killed: %d\n%s", r.code, r.stderr)
			}
			files, err := filepath.Glob(filepath.Join(b.state, "conversations/1/*/config/projects/x/*.jsonl"))
			if err != nil || len(files) != 1 {
				t.Fatalf("records: %v, %v", files, err)
			}
			must(t, edit(files[0]))
			b.run("once")
			sessions := chainOf(b, 1)
			if len(sessions) != 4 || sessions[1].Failure != ops.FailureResumeRefused || sessions[2].ContextMode != ops.ContextHandoff {
				t.Fatalf("sessions: %+v", sessions)
			}
			if *sessions[2].RetryOf != sessions[1].ID || *sessions[2].ParentID != sessions[0].ID {
				t.Errorf("the second attempt is linked to %v and %v", *sessions[2].RetryOf, *sessions[2].ParentID)
			}
			contains(t, "the failure", sessions[1].Error, "the record of conversation")
		})
	}
}

func TestAnUnknownVersionIsNotAskedForStructuredOutput(t *testing.T) {
	t.Parallel()
	s := chain()
	s.NoVersion = true
	b := resumeBox(t, s)
	b.once(0)
	calls, sessions := b.calls(), b.cycle().Journal.Sessions
	for _, c := range calls {
		if _, ok := c.Option("--json-schema"); ok {
			t.Errorf("tier %d is asked for structured output", c.Tier)
		}
	}
	expect(t, calls[1], "--resume", sessions[0].CLISessionID)
	warned := false
	for _, e := range b.events(ops.LevelWarning) {
		warned = warned || strings.Contains(e.Message, "does not tell its version")
	}
	if !warned {
		t.Error("no warning about the version")
	}
}

func TestAnOldVersionMayOnlyLook(t *testing.T) {
	t.Parallel()
	s := chain()
	s.Version = "2.1.100 (Claude Code)"
	b := resumeBox(t, s)
	r := b.once(8)
	contains(t, "the last line of once", lastLine(r.stdout), "To do: ", "version 2.1.100", "claudeops agent install or npm install -g @anthropic-ai/claude-code@2.")
	c := b.cycle()
	if len(b.calls()) != 1 || c.Journal.Last().Failure != "too_old" {
		t.Errorf("%d calls, the last session failed with %q: %s", len(b.calls()), c.Journal.Last().Failure, c.Journal.Last().Error)
	}
	contains(t, "doctor", b.run("doctor").stdout, "2.1.100", "2.1.295")
}

func TestAHealthyOutcomeCostsOneSession(t *testing.T) {
	t.Parallel()
	b := resumeBox(t, plays(speaks(1, 0.01, ops.OutcomeHealthy)))
	b.once(0)
	silent := resumeBox(t, plays(agenttest.Healthy(0.01)))
	silent.once(8)
	if s := silent.cycle().Journal.Sessions[0]; s.Outcome != ops.OutcomeInconclusive || s.Status != ops.SessionCompleted {
		t.Errorf("a session that said nothing is %s, %s", s.Status, s.Outcome)
	}
}

func chainOf(b *box, id ops.SessionID) (out []ops.Session) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Chain(b.t.Context(), id); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}
