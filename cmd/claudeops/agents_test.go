package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/realcodex"
	"claudeops/test/responsesapi"
)

// A handler may have fewer permissions than its tier. The tools it is offered and the guard are those of its permissions.
func TestAHandlerIsHeldToItsPermissions(t *testing.T) {
	t.Parallel()
	const reviewed = `{"schema_version":1,"outcome":"needs_human","summary":"web is down","check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"actions":[],"events":[],"memories":[]}`
	for name, tt := range map[string]struct {
		permissions string
		may         ops.Tier
	}{
		"of its tier": {"", ops.Tier2},
		"less":        {", permissions: 1", ops.Tier1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review := agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), agenttest.Use("toolu_restart", "docker restart web"),
				agenttest.Answer("toolu_restart", "web"), agenttest.Structured(0.02, "done", reviewed))}
			b := climbing(t, []agenttest.Play{finds(1).By("look"), review.By("review")}, "CLAUDEOPS_GUARD=on").configured(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [review]}
  - {id: review, tier: 2` + tt.permissions + `, agent: claude, model: sonnet}
`)
			b.once(6)
			s := b.cycle().Journal.Last()
			if s.Handler != "review" || s.Tier != ops.Tier2 || s.May() != tt.may {
				t.Fatalf("the last session is %+v", s)
			}
			allowed := tt.may == ops.Tier2
			records := b.judged(s.ID)
			if len(records) != 1 || records[0].ToolUseID != "toolu_restart" || records[0].Allowed != allowed || records[0].Tier != tt.may || records[0].Rule == "" {
				t.Errorf("judged %+v", records)
			}
			tools, _ := b.calls()[1].Option("--tools")
			if strings.Contains(tools, "Write") != allowed {
				t.Errorf("it is offered %s", tools)
			}
			if listed := b.run("cooldowns", "list").stdout; strings.Contains(listed, "web") != allowed {
				t.Errorf("the cooldowns are:\n%s", listed)
			}
			if !allowed {
				contains(t, "its transcript", b.transcript(s.ID), records[0].Reason)
			}
		})
	}
}

func (b *box) transcript(id ops.SessionID) string {
	b.t.Helper()
	var out strings.Builder
	b.read(func(s *store.Store) {
		lines, err := s.Transcript(b.t.Context(), id, 0, 1000)
		must(b.t, err)
		for _, l := range lines {
			out.WriteString(l.Text + "\n")
		}
	})
	return out.String()
}

// codexBox runs the program with the real Codex as Tier 1 against a scripted API on loopback.
func codexBox(t *testing.T, script responsesapi.Script) (*box, *responsesapi.Server) {
	t.Helper()
	server := responsesapi.New(t, script)
	b := &box{t: t, state: privateFolder(t), bin: agenttest.Fake(t, plays(agenttest.Claims(0.1, "web").At(2, 0))), real: true}
	b.furnish()
	home := t.TempDir()
	b.env = append(realcodex.Env(t, server.URL()), quickExit, "HOME="+home, "CODEX_HOME="+filepath.Join(home, "not-for-agents"),
		"CLAUDEOPS_STATE_DIR="+b.state, "CLAUDEOPS_CODEX_BIN="+realcodex.Path(t), "CLAUDEOPS_CLAUDE_BIN="+b.bin, "CLAUDEOPS_LISTEN=127.0.0.1:0",
		"CLAUDEOPS_SANDBOX_AGENT_FOLDERS="+filepath.Dir(b.bin))
	return b.configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: codex, model: %s, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet}
`, realcodex.Model)), server
}

func TestRealCodex_LooksAtTier1AndHandsUp(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "ran")
	b, server := codexBox(t, func(r responsesapi.Request) responsesapi.Answer {
		switch r.Turn() {
		case 0:
			return responsesapi.Exec("call_1", "echo seen by codex").Took(responsesapi.Usage{Input: 1000, Cached: 400, Output: 20})
		case 1:
			return responsesapi.Exec("call_2", "touch "+marker)
		}
		return responsesapi.JSON(says(1, ops.OutcomeEscalate)).Took(responsesapi.Usage{Input: 2000, Output: 30})
	})
	b.once(0)
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleResolved {
		t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	first, second := c.Journal.Sessions[0], c.Journal.Sessions[1]
	if first.Agent != "codex" || first.Family != "gpt" || first.Tier != ops.Tier1 || first.Outcome != ops.OutcomeEscalate || first.CLIVersion != realcodex.Version || first.CLISessionID == "" {
		t.Errorf("the first session is %+v", first)
	}
	if first.InputTokens == nil || *first.InputTokens != 2600 || *first.CacheReadTokens != 400 || *first.OutputTokens != 50 {
		t.Errorf("its figures are %+v", first.Figures)
	}
	// Another family goes on: it cannot continue the conversation, it gets the facts.
	if second.Tier != ops.Tier2 || second.Family != "claude" || second.ContextMode != ops.ContextHandoff {
		t.Errorf("the second session is %+v", second)
	}
	system, _ := b.calls()[0].Option("--append-system-prompt")
	contains(t, "the system prompt of Tier 2", system, "## Escalation Context")
	// The guard lets it look and nothing else.
	requests := server.Requests()
	last := requests[len(requests)-1]
	if got, ok := last.Output("call_1"); !ok || !strings.Contains(got, "seen by codex") {
		t.Errorf("its command answered %q", got)
	}
	if got, ok := last.Output("call_2"); !ok || !strings.Contains(got, "touch "+marker+" is refused") {
		t.Errorf("the command that writes answered %q", got)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("Tier 1 wrote a file")
	}
	if rows := b.judged(first.ID); len(rows) != 2 || !rows[0].Allowed || rows[1].Allowed {
		t.Errorf("the guard recorded %+v", rows)
	}
	contains(t, "its prompt", last.Prompts()[0], "# Tier 1: Observe")
	// Codex does not always print a command that ended at once; that it ran stands in the request above.
	contains(t, "the transcript", b.transcript(first.ID), `"type":"agent_message"`, `"type":"turn.completed"`)
	if key := requests[0].Header.Get("Authorization"); !strings.HasSuffix(key, "dummy-key-of-a-test") || len(server.Others()) > 0 {
		t.Errorf("it sends the key %q, and asks for %v", key, server.Others())
	}
	b.nothingLeft()
}

// agentScript writes a script that is run as an agent.
func agentScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

func TestACommandIsAnAgent(t *testing.T) {
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "seen")
	script := agentScript(t, `cat > "`+seen+`"
echo "tier $CLAUDEOPS_TIER as $CLAUDEOPS_HANDLER with $CLAUDEOPS_MODEL; $1"
test -s "$CLAUDEOPS_OUTCOME_SCHEMA" && test -z "$SECRET_OF_THE_HOST" || exit 3
echo '{"type":"figures","cost_usd":0.02,"input_tokens":1200,"output_tokens":80}'
cat <<END
{"note":"no outcome yet"}
{"schema_version":1,"outcome":"needs_human","summary":"The disk is full.","check_results":[{"service":"web","check_type":"http","status":"down","error":"no space"}],"actions":[],"events":[],"memories":[]}
END
`)
	handlers := `handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}
  - {id: mine, tier: 2, family: local, agent: command, model: qwen3, command: [` + script + `, --careful]}
`
	b := climbing(t, []agenttest.Play{finds(1)}, "SECRET_OF_THE_HOST=x").configured("agent: {command_trusted: true}\n" + handlers)
	b.once(6)
	c := b.cycle()
	s := c.Journal.Last()
	if s.Handler != "mine" || s.Agent != "command" || s.Family != "local" || s.Status != ops.SessionCompleted || s.Outcome != ops.OutcomeNeedsHuman || s.ContextMode != ops.ContextHandoff {
		t.Fatalf("the cycle is %s, its last session %+v", c.Cycle.Status, s)
	}
	if s.CostUSD == nil || *s.CostUSD != 0.02 || *s.InputTokens != 1200 || *s.OutputTokens != 80 {
		t.Errorf("its figures are %+v", s.Figures)
	}
	prompt, err := os.ReadFile(seen)
	must(t, err)
	contains(t, "its prompt", string(prompt), "## Escalation Context", "# Tier 2:", "web")
	contains(t, "its transcript", b.transcript(s.ID), "tier 2 as mine with qwen3; --careful")
	contains(t, "the reason", c.Cycle.Reason, "The disk is full.")
	b.nothingLeft()
}

// Nobody judges what such a program does: without walls, and without the word of the operator, it does not run.
func TestACommandNobodyVouchesForDoesNotRun(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	b := climbing(t, []agenttest.Play{finds(1)}, "CLAUDEOPS_SANDBOX=off").configured(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}
  - {id: mine, tier: 2, family: local, agent: command, command: [` + agentScript(t, "touch "+ran+"\n") + `]}
`)
	b.run("once")
	if _, err := os.Lstat(ran); err == nil {
		t.Error("it ran")
	}
	for _, s := range b.cycle().Journal.Sessions {
		if s.Handler == "mine" && (s.Status != ops.SessionFailed || !strings.Contains(s.Error, "command_trusted")) {
			t.Errorf("the session is %s: %s", s.Status, s.Error)
		}
	}
	if b.cycle().Journal.Last().Handler != "mine" {
		t.Errorf("the last session is %+v", b.cycle().Journal.Last())
	}
}
