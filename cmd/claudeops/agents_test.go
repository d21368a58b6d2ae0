package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
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
		lines, err := s.Journal.Transcript(b.t.Context(), id, 0, 1000)
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
	b := climbing(t, []agenttest.Play{finds(1)}, "SECRET_OF_THE_HOST=x").configured(handlers)
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

// Nothing holds a session without walls: a person is asked before each one above Tier 1, in the words that status and doctor have.
func TestWithoutWallsAPersonIsAskedBeforeEverySessionAboveTier1(t *testing.T) {
	t.Parallel()
	for sandbox, lacks := range map[string]string{"{mode: off}": "sandbox.mode is off", "{network: open}": "sandbox.network is open"} {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			b := climbing(t, []agenttest.Play{finds(1)}).configured("trust: full\nsandbox: " + sandbox + "\n")
			b.once(6)
			c := b.cycle()
			if c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Sessions) != 1 {
				t.Errorf("the cycle is %s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
			}
			contains(t, "the events", b.run("events").stdout, "Tier 2 needs a human's approval before it starts (a wall is missing: "+lacks+")")
			says := "Walls: " + lacks + ", so a person is asked before every session above Tier 1"
			contains(t, "status", b.run("status", "-o", "json").stdout, says)
			contains(t, "doctor", b.run("doctor", "-o", "json").stdout, strings.TrimPrefix(says, "Walls: "))
		})
	}
}

// A model of another maker judges in the real Codex what Claude repaired.
func TestRealCodex_JudgesWhatClaudeRepaired(t *testing.T) {
	t.Parallel()
	server := responsesapi.New(t, func(responsesapi.Request) responsesapi.Answer {
		return responsesapi.JSON(map[string]any{
			"verdict": "PASS", "confidence": 0.9, "totalScore": 95, "reasoning": "by the record",
			"dimensions": map[string]any{"goalAlignment": 25, "actionCompleteness": 25, "evidenceOfCompletion": 25, "finalStateCoherence": 20},
		}).Took(responsesapi.Usage{Input: 1000, Output: 100})
	})
	plays := append(agenttest.InOrder(1, finds(1)), agenttest.Claims(0.02, "web").By("fix"))
	b := climbing(t, plays, append(realcodex.Env(t, server.URL()), "CLAUDEOPS_GUARD=on", "CLAUDEOPS_CODEX_BIN="+realcodex.Path(t))...)
	b.configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet}
  - {id: second-opinion, tier: 1, agent: codex, model: %s}
escalation: {judge: second-opinion}
`, realcodex.Model))
	b.real = true
	b.once(0)
	c := b.cycle()
	last := c.Journal.Sessions[len(c.Journal.Sessions)-1] // the judge's
	if c.Cycle.Status != ops.CycleResolved || last.Agent != "codex" || last.Family != "gpt" || last.Role != ops.RoleJudge ||
		last.Status != ops.SessionCompleted || last.CLIVersion != realcodex.Version {
		t.Fatalf("the cycle is %s (%s), its last session %+v\n%s", c.Cycle.Status, c.Cycle.Reason, last, b.transcript(last.ID))
	}
	var shown struct {
		Verifications []struct{ Verdict string }
	}
	must(t, json.Unmarshal([]byte(b.run("cycles", "show", "1", "-o", "json").stdout), &shown))
	if v := shown.Verifications; len(v) != 1 || v[0].Verdict != "PASS" {
		t.Errorf("verified %+v", v)
	}
	b.nothingLeft()
}

// repairable configures a service that is healthy while a file exists, with an action that makes the file. It returns the folder of
// the file, in which the action also notes each of its runs.
func (b *box) repairable(config string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	fix := filepath.Join(dir, "fix")
	if err := os.WriteFile(fix, []byte("#!/bin/sh\necho fixed >>"+dir+"/ran\ntouch "+dir+"/grafana\n"), 0o755); err != nil { //nolint:gosec // a program
		b.t.Fatal(err)
	}
	b.configured(config + fmt.Sprintf(`services:
  - name: grafana
    probes: [{type: command, command: [test, -e, %[1]s/grafana]}]
    actions: [{name: fix, run: [%[1]s/fix]}]
  - {name: postgres, actions: [{name: fix, run: [%[1]s/fix]}]}
`, dir))
	return dir
}

// repairedByTool checks that exactly one action was run for the session of Tier 2, outside its walls.
func (b *box) repairedByTool(dir string) {
	b.t.Helper()
	runs := b.actionRuns()
	if len(runs) != 1 || runs[0].Status != ops.ActionDone || runs[0].Service != "grafana" || runs[0].Before[0].Status != ops.Down ||
		runs[0].After[0].Status != ops.Healthy || runs[0].Tier != ops.Tier2 {
		b.t.Errorf("runs %+v", runs)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || string(text) != "fixed\n" {
		b.t.Errorf("it ran %q, %v", text, err)
	}
}

// toolCalls are what the model calls at each tier, with what the answer must hold.
func toolCalls(repair int) map[int][]toolCall {
	run := func(service string) map[string]any {
		return map[string]any{"service": service, "action": "fix", "why": "the file is gone"}
	}
	return map[int][]toolCall{
		1: {
			{"actions_list", map[string]any{}, "[", false}, {"action_run", run("grafana"), "needs Tier 2", true},
		},
		repair: {
			{"actions_list", map[string]any{}, `"action":"fix"`, false},
			{"action_run", run("nothing"), "No service", true},
			{"action_run", run("grafana"), `"status":"done"`, false},
			{"services_status", map[string]any{}, "grafana", false},
			{"probe_now", map[string]any{"services": []string{"grafana"}}, "healthy", false},
			{"cooldowns", map[string]any{}, "restart", false},
			{"look", map[string]any{"what": "http", "target": "https://example.org/"}, "no probe of this environment names an address", true},
			{"look", map[string]any{"what": "command", "argv": []string{"ss", "-tln"}}, "Local Address", false},
			{"look", map[string]any{"what": "command", "argv": []string{"ss", "-K"}}, " not ", true}, // by the guard, or else by its form
			{"look", map[string]any{"what": "query", "target": "grafana", "query": "SELECT 1"}, "the queries are none", true},
			{"action_undo", map[string]any{"id": 1, "why": "try"}, "has no way back", true},
		},
	}
}

type toolCall struct {
	tool    string
	input   map[string]any
	answer  string
	refused bool
}

// The real Claude Code, behind the default walls, is offered the tools of the supervisor and repairs a service by one of them.
func TestRealCLI_RepairsByATool(t *testing.T) {
	t.Parallel()
	calls := toolCalls(2)
	b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		n := tierOf(r)
		if !done(r, callID("tool", n, 0)) {
			var a messagesapi.Answer
			for i, c := range calls[n] {
				a = a.Call(callID("tool", n, i), "mcp__claudeops__"+c.tool, c.input)
			}
			return a
		}
		kind := ops.OutcomeEscalate
		if n == 2 {
			kind = ops.OutcomeResolved
		}
		return messagesapi.Structured(fmt.Sprintf("toolu_said_%d", n), says(n, kind))
	})
	dir := b.repairable(quickHooks)
	r := b.run("once")
	requests := server.Requests()
	for _, req := range requests {
		for _, name := range ops.SessionTools() {
			if !slices.Contains(req.ToolNames(), "mcp__claudeops__"+name) {
				t.Errorf("tier %d is not offered %s: %v", tierOf(req), name, req.ToolNames())
			}
		}
	}
	last := requests[len(requests)-1]
	for n, list := range calls {
		for i, c := range list {
			if got, ok := last.Result(callID("tool", n, i)); !ok || got.IsError != c.refused || !strings.Contains(got.Text, c.answer) {
				t.Errorf("tier %d, %s: %v %+v\n%s", n, c.tool, ok, got, r.stderr)
			}
		}
	}
	b.repairedByTool(dir)
	b.nothingLeft()
}

// codexTier tells from a request of Codex which tier speaks.
func codexTier(r responsesapi.Request) int {
	for n := 3; n >= 1; n-- {
		if strings.Contains(r.Prompt(), fmt.Sprintf("Tier %d:", n)) {
			return n
		}
	}
	return 0
}

// The real Codex is offered the same tools, at once and not only to a model that searches for them, and may use those that change
// something. Tier 2 continues the conversation of Tier 1.
func TestRealCodex_RepairsByATool(t *testing.T) {
	t.Parallel()
	calls := toolCalls(2)
	b, server := codexBox(t, func(r responsesapi.Request) responsesapi.Answer {
		n := codexTier(r)
		for i, c := range calls[n] {
			if _, answered := r.Output(callID("tool", n, i)); !answered {
				return responsesapi.CallIn(callID("tool", n, i), "mcp__claudeops", c.tool, c.input)
			}
		}
		kind := ops.OutcomeEscalate
		if n == 2 {
			kind = ops.OutcomeResolved
		}
		return responsesapi.JSON(says(n, kind))
	})
	dir := b.repairable(fmt.Sprintf(`%shandlers:
  - {id: look, tier: 1, agent: codex, model: %[2]s, hands_to: [fix]}
  - {id: fix, tier: 2, agent: codex, model: %[2]s}
`, quickHooks, realcodex.Model))
	r := b.run("once")
	requests := server.Requests()
	if len(requests) == 0 {
		t.Fatalf("no request: %s", r.stderr)
	}
	for _, req := range requests {
		for _, name := range ops.SessionTools() {
			if !slices.Contains(req.ToolNames(), "mcp__claudeops/"+name) {
				t.Fatalf("tier %d is not offered %s: %v", codexTier(req), name, req.ToolNames())
			}
		}
	}
	last := requests[len(requests)-1]
	contains(t, "its prompt", last.Prompt(), "ask with the tool mcp__claudeops__action_run", "grafana: fix")
	for n, list := range calls {
		for i, c := range list {
			if got, ok := last.Output(callID("tool", n, i)); !ok || !strings.Contains(got, c.answer) {
				t.Errorf("tier %d, %s: %v %q\n%s", n, c.tool, ok, got, r.stderr)
			}
		}
	}
	if s := b.cycle().Journal.Last(); s.ContextMode != ops.ContextResume {
		t.Errorf("the last session is %+v", s)
	}
	b.repairedByTool(dir)
	b.nothingLeft()
}

// ownModel is the only one that the servers of the documented local models know.
const ownModel = "qwen3-coder"

// localBox is a box with the nth configuration of the document about local models, and the variables that go with it. Only the address is
// another one.
func localBox(t *testing.T, n int, address string, env ...string) *box {
	t.Helper()
	blocks, _ := blocksOf(readDocument(t, filepath.Join("..", "..", "docs", "howto", "local-model.md")))
	const written = "127.0.0.1:11434"
	here := func(b block) string { return strings.ReplaceAll(b.text, written, address) }
	configs := slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return !b.has("config") })
	shells := slices.DeleteFunc(blocks, func(b block) bool { return !b.has("run") })
	exported, ok := strings.CutPrefix(here(shells[n]), "export ")
	if !ok {
		t.Fatalf("the document does not begin with the variables: %s", exported)
	}
	line, _, _ := strings.Cut(exported, "\n")
	b := &box{t: t, state: privateFolder(t), real: true}
	b.furnish()
	b.env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") || strings.HasPrefix(v, "OPENAI_") })
	b.env = append(append(b.env, quickExit, "CLAUDEOPS_STATE_DIR="+b.state, "CLAUDEOPS_LISTEN=127.0.0.1:0"), strings.Fields(line)...)
	return b.configured(here(configs[n]))
}

// resolvedByOwnModel checks that a cycle ended well, and that no other model was at work.
func (b *box) resolvedByOwnModel(agent string, sessions int) {
	b.t.Helper()
	b.once(0)
	c := b.cycle()
	if len(c.Journal.Sessions) != sessions || c.Cycle.Status != ops.CycleResolved {
		b.t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	for _, s := range c.Journal.Sessions {
		if s.Agent != agent || s.Model != ownModel || s.Status != ops.SessionCompleted {
			b.t.Errorf("session %d of %s with %s is %s: %s", s.ID, s.Agent, s.Model, s.Status, s.Error)
		}
	}
	b.nothingLeft()
}

// The real Claude Code works with a server of one's own that is set up as the document says and knows one model only.
func TestRealCLI_ALocalModelAsDocumented(t *testing.T) {
	t.Parallel()
	server := messagesapi.New(t, func(r messagesapi.Request) messagesapi.Answer {
		if r.Model != ownModel {
			return messagesapi.Fail(http.StatusNotFound, "model "+r.Model+" not found")
		}
		return incident(r)
	})
	b := localBox(t, 0, strings.TrimPrefix(server.URL(), "http://"), append(realcli.Env(t, ""), "CLAUDEOPS_CLAUDE_BIN="+realcli.Path(t))...)
	b.resolvedByOwnModel("claude", 3)
	for _, r := range server.Requests() {
		if key := r.Header.Get("X-Api-Key"); r.Model != ownModel || key != "any-word-will-do" {
			t.Errorf("the server was asked for %s with the key %q", r.Model, key)
		}
	}
	if others := server.Others(); len(others) > 0 {
		t.Errorf("other requests: %v", others)
	}
}

// The same by the real Codex.
func TestRealCodex_ALocalModelAsDocumented(t *testing.T) {
	t.Parallel()
	server := responsesapi.New(t, func(r responsesapi.Request) responsesapi.Answer {
		n := codexTier(r)
		switch {
		case r.Model != ownModel:
			return responsesapi.Fail(http.StatusNotFound, "model "+r.Model+" not found")
		case r.Turn() == 0:
			return responsesapi.Exec(callID("look", n, 0), "echo seen")
		case n == 1:
			return responsesapi.JSON(says(n, ops.OutcomeEscalate))
		}
		return responsesapi.JSON(says(n, ops.OutcomeResolved))
	})
	address := strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/v1")
	b := localBox(t, 1, address, append(realcodex.Env(t, ""), "HOME="+t.TempDir(), "CLAUDEOPS_CODEX_BIN="+realcodex.Path(t))...)
	b.resolvedByOwnModel("codex", 2)
	for _, r := range server.Requests() {
		if key := r.Header.Get("Authorization"); r.Model != ownModel || key != "Bearer any-word-will-do" {
			t.Errorf("the server was asked for %s with the key %q", r.Model, key)
		}
	}
}

// npmLeaves lays Codex out as npm does, in a folder that agents do not see: a link in a folder of PATH to a script for Node, and the native
// program in a package of its own.
func npmLeaves(t *testing.T) string {
	t.Helper()
	native := filepath.Dir(filepath.Dir(realcodex.Path(t)))
	dir, err := os.MkdirTemp(filepath.Dir(native), "npm-*") //nolint:usetesting // on the same file system
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	modules := filepath.Join(dir, ".local/lib/node_modules/@openai/codex")
	to := filepath.Join(modules, "node_modules/@openai", "codex-"+agent.Platform(), "vendor/x86_64-unknown-linux-musl")
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))                 //nolint:gosec // as npm does
	must(t, exec.Command("cp", "-al", native, to).Run())          //nolint:gosec // hundreds of megabytes
	must(t, os.MkdirAll(filepath.Join(modules, "bin"), 0o755))    //nolint:gosec // as npm does
	must(t, os.MkdirAll(filepath.Join(dir, ".local/bin"), 0o755)) //nolint:gosec // as npm does
	script := []byte("#!/usr/bin/env node\nimport { spawn } from \"node:child_process\";\n")
	must(t, os.WriteFile(filepath.Join(modules, "bin/codex.js"), script, 0o755)) //nolint:gosec // a program
	bin := filepath.Join(dir, ".local/bin/codex")
	must(t, os.Symlink("../lib/node_modules/@openai/codex/bin/codex.js", bin))
	return bin
}

// The built-in fallback to another family depends on it.
func TestRealCodex_RunsAsNPMLeavesIt(t *testing.T) {
	t.Parallel()
	b, server := codexBox(t, func(r responsesapi.Request) responsesapi.Answer {
		if r.Turn() == 0 {
			return responsesapi.Exec("call_1", "echo seen by codex")
		}
		return responsesapi.JSON(says(1, ops.OutcomeHealthy))
	})
	b.env = append(b.env, "CLAUDEOPS_GUARD=on", "CLAUDEOPS_CODEX_BIN="+npmLeaves(t))
	contains(t, "doctor", strings.Join(strings.Fields(b.run("doctor").stdout), " "), realcodex.Version+", held: in its trial running a command was refused by its gate, and writing a file had no effect")
	b.once(0)
	first := b.cycle().Journal.Sessions[0]
	if first.Agent != "codex" || first.Status != ops.SessionCompleted || first.CLIVersion != realcodex.Version {
		t.Errorf("the session is %+v", first)
	}
	requests := server.Requests()
	if got, ok := requests[len(requests)-1].Output("call_1"); !ok || !strings.Contains(got, "seen by codex") {
		t.Errorf("its command answered %q", got)
	}
	b.nothingLeft()
}

// A program that its walls cannot start is not available: nothing is paid, another takes its place, and people read which folder is hidden.
func TestAnAgentThatCannotBeStartedIsNotAvailable(t *testing.T) {
	t.Parallel()
	root := filepath.Dir(filepath.Dir(realcodex.Path(t)))
	tools, err := os.MkdirTemp(filepath.Dir(root), "tools-*") //nolint:usetesting // on the same file system
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tools) })
	must(t, os.WriteFile(filepath.Join(tools, "agent"), []byte("#!/bin/sh\necho started\n"), 0o755)) //nolint:gosec // a program
	wrapper := agentScript(t, "exec "+tools+"/agent \"$@\"\n")
	b := climbing(t, []agenttest.Play{finds(1)}).configured(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}
  - {id: mine, tier: 2, family: local, agent: command, command: [` + wrapper + `]}
`)
	b.run("once")
	last := b.cycle().Journal.Last()
	if last.Handler != "mine" || last.Failure != ops.FailureStart || last.CostUSD == nil || *last.CostUSD != 0 {
		t.Errorf("the last session is %+v", last)
	}
	contains(t, "its error", last.Error, "could not be started", "sandbox.readable: ["+tools+"]")
	for _, r := range b.cycle().Journal.Recoveries {
		if r.ErrorType != "agent_unavailable" {
			t.Errorf("it counts as %+v", r)
		}
	}
	contains(t, "what to do", b.run("cycles", "show", "1").stdout, "sandbox.readable")
}
