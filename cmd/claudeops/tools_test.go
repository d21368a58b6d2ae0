package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/realcodex"
	"claudeops/test/responsesapi"
)

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
			{"look", map[string]any{"what": "command", "argv": []string{"ss", "-K"}}, "not on the list", true},
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
