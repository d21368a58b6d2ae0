package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/acptest"
	"claudeops/test/agenttest"
	"claudeops/test/messagesapi"
	"claudeops/test/realacp"
)

// readable lets agents behind walls read the folder of a program, beside that of the fake agent.
func (b *box) readable(program string) *box {
	b.env = append(b.env, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS="+filepath.Dir(filepath.Dir(b.bin))+","+filepath.Dir(program))
	return b
}

// opinion is a model of another maker that judges a repair, and that does first what the trial of its CLI tells it.
func opinion(r messagesapi.Request) messagesapi.Answer {
	if len(r.Tools) == 0 {
		return messagesapi.Text("a title")
	}
	for _, m := range r.Messages {
		for line := range strings.Lines(m.Content.String()) {
			if command := strings.TrimSpace(line); strings.HasPrefix(command, "touch ") && r.Turn() == 0 {
				return messagesapi.Call("toolu_1", "bash", map[string]any{"command": command, "description": "Try it"})
			}
		}
	}
	if !strings.Contains(string(r.Body), "JSON Schema") {
		return messagesapi.Text("done")
	}
	verdict, _ := json.Marshal(map[string]any{
		"verdict": "PASS", "confidence": 0.9, "totalScore": 95, "reasoning": "by the record",
		"dimensions": map[string]any{"goalAlignment": 25, "actionCompleteness": 25, "evidenceOfCompletion": 25, "finalStateCoherence": 20},
	})
	return messagesapi.Text(string(verdict)).Took(messagesapi.Usage{Input: 1000, Output: 100})
}

// Claude repairs, and a model of another maker in opencode judges the repair, as in the example of docs/acp.md. The scripted model speaks
// the Messages API.
func TestRealACP_OpencodeJudgesWhatClaudeRepaired(t *testing.T) {
	t.Parallel()
	api := messagesapi.New(t, opinion)
	program := realacp.OpenCodePath(t)
	plays := append(agenttest.InOrder(1, finds(1)), agenttest.Claims(0.02, "web").By("fix"))
	b := climbing(t, plays, append(realacp.Env(t, api.URL(), ""), "CLAUDEOPS_GUARD=on")...).readable(program).configured(fmt.Sprintf(`agent:
  acp: [{name: opencode, command: [%s, acp]}]
handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet}
  - {id: second-opinion, tier: 1, agent: acp, profile: opencode, model: anthropic/claude-sonnet-4-5, family: other}
escalation: {judge: second-opinion}
`, program))
	b.real = true
	b.once(0)
	c := b.cycle()
	last := c.Journal.Sessions[len(c.Journal.Sessions)-1] // the judge's
	if c.Cycle.Status != ops.CycleResolved || last.Agent != "acp:opencode" || last.Family != "other" || last.Role != ops.RoleJudge ||
		last.Status != ops.SessionCompleted || last.CLIVersion != realacp.OpenCodeVersion {
		t.Fatalf("the cycle is %s (%s), its last session %+v\n%s", c.Cycle.Status, c.Cycle.Reason, last, b.transcript(last.ID))
	}
	var shown struct {
		Verifications []struct{ Verdict string }
	}
	must(t, json.Unmarshal([]byte(b.run("cycles", "show", "1", "-o", "json").stdout), &shown))
	if v := shown.Verifications; len(v) != 1 || v[0].Verdict != "PASS" {
		t.Errorf("verified %+v", v)
	}
	contains(t, "the doctor", b.run("doctor").stdout, "agent opencode", "version "+realacp.OpenCodeVersion+" is trusted: it asked before it ran a command")
	for _, r := range api.Requests() {
		if got := r.Header.Get("X-Api-Key"); got != realacp.Key {
			t.Errorf("the API got %q", got)
		}
	}
	b.nothingLeft()
}

// fakeACP is a box in which a scripted CLI has Tier 2.
func fakeACP(t *testing.T, what acptest.What, with string, env ...string) *box {
	t.Helper()
	command, err := json.Marshal(acptest.Command(t, what, with))
	must(t, err)
	b := climbing(t, []agenttest.Play{finds(1).By("look")}, append(env, "CLAUDEOPS_GUARD=on")...)
	return b.readable(acptest.Command(t, what, with)[0]).configured(fmt.Sprintf(`agent:
  acp: [{name: mine, command: %s, keys: [MY_KEY]}]
handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [fix]}
  - {id: fix, tier: 2, agent: acp, profile: mine, model: m}
recovery: {enabled: false}
`, command))
}

func TestACP_AboveTier1OnlyBehindWalls(t *testing.T) {
	t.Parallel()
	b := fakeACP(t, acptest.Answer, "hello", "CLAUDEOPS_SANDBOX=off")
	b.run("once")
	last := b.cycle().Journal.Last()
	if last.Handler != "fix" || last.Failure != ops.FailureLayer || !strings.Contains(last.Error, "sandbox.mode") {
		t.Errorf("the last session is %+v", last)
	}
	contains(t, "the doctor", b.run("doctor").stdout, "above Tier 1 it needs the sandbox layer")
}

// What the guard allows is recorded and reserves its cooldown, as with every other agent.
func TestACP_TheGuardJudgesEveryCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command string
		allowed bool
	}{
		"allowed": {"uptime", true},
		"refused": {"docker system prune -f", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fakeACP(t, acptest.Runs, tt.command)
			b.run("once")
			last := b.cycle().Journal.Last()
			records := b.judged(last.ID)
			if last.Handler != "fix" || len(records) == 0 || records[0].Allowed != tt.allowed || records[0].Tool != "Bash" || records[0].Gate != ops.GateHook {
				t.Errorf("the last session is %+v, judged %+v\n%s", last, records, b.transcript(last.ID))
			}
			if tt.allowed {
				contains(t, "its transcript", b.transcript(last.ID), "load average")
			}
		})
	}
}

// An agent program that does not start is told in its own last words, not as a matter of the guard.
func TestACP_AProgramThatDoesNotStartHasTheLastWord(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/sh\necho \"Error: Cannot find module '/opt/agent/acp.js'\" >&2\necho Node.js v20.20.2 >&2\nexit 1\n"
	if err := os.WriteFile(bin, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	for name, handler := range map[string]string{
		"acp":    "{id: look, tier: 1, agent: acp, profile: mine, model: m}",
		"codex":  "{id: look, tier: 1, agent: codex, model: m}",
		"claude": "{id: look, tier: 1, agent: claude, model: m}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := climbing(t, nil, "CLAUDEOPS_GUARD=on").readable(bin)
			b.env = append(b.env, "CLAUDEOPS_CLAUDE_BIN="+bin)
			b.configured(fmt.Sprintf("agent: {codex_bin: %s, acp: [{name: mine, command: [%s]}]}\nguard: {require_version: true}\n"+
				"handlers: [%s]\nrecovery: {enabled: false}\n", bin, bin, handler))
			r := b.run("once")
			last := b.cycle().Journal.Last()
			if last.Failure != ops.FailureStart || !strings.Contains(last.Error, "Cannot find module '/opt/agent/acp.js'") ||
				strings.Contains(last.Error, "guard") {
				t.Errorf("the last session is %+v\n%s", last, r.stderr)
			}
		})
	}
}
