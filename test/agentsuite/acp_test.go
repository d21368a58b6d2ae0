package agentsuite_test

import (
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/acp"
	"claudeops/internal/ops"
	"claudeops/test/agentsuite"
	"claudeops/test/messagesapi"
	"claudeops/test/realacp"
)

// seats bound how many of the real CLIs run at once: each takes seconds of a processor to start.
var seats = make(chan struct{}, 2)

// realACP is a real CLI that speaks the Agent Client Protocol, with a scripted API.
type realACP struct {
	profile func(testing.TB) acp.Profile
	model   string
	shell   string   // the name of its shell tool
	crash   string   // a command that kills it
	adapter *acp.ACP // shared, because it asks its program for the version, which takes seconds
}

func newRealACP(t *testing.T, profile func(testing.TB) acp.Profile, model, shell, crash string) realACP {
	t.Helper()
	prices := ops.Prices{"claude-sonnet-4-5": {Input: 3, Output: 15}}
	return realACP{profile, model, shell, crash, acp.New(acp.Options{Profile: profile(t), Prices: prices})}
}

func (r realACP) exec(id, command string) messagesapi.Answer {
	return messagesapi.Call(id, r.shell, map[string]any{"command": command, "description": "Run a command"})
}

func (r realACP) make(t *testing.T, task agentsuite.Task, with agentsuite.Fixture) (agent.Adapter, ops.SessionSpec) {
	t.Helper()
	seats <- struct{}{}
	t.Cleanup(func() { <-seats })
	took := messagesapi.Usage{Input: 100, Output: 5}
	answer := func(req messagesapi.Request) messagesapi.Answer {
		if strings.Contains(string(req.Body), "JSON Schema:") {
			return messagesapi.Text(agentsuite.Outcome).Took(took)
		}
		return messagesapi.Text(agentsuite.Said).Took(took)
	}
	scripts := map[agentsuite.Task]messagesapi.Script{
		agentsuite.Answer: answer,
		agentsuite.Fail:   messagesapi.Turns(messagesapi.Fail(401, "the key is wrong")),
		agentsuite.Crash:  messagesapi.Turns(r.exec("toolu_1", r.crash)),
		agentsuite.Hang:   messagesapi.Turns(r.exec("toolu_1", with.Command), messagesapi.Text("done")),
		agentsuite.Silent: messagesapi.Turns(messagesapi.Hang()),
		agentsuite.Leak:   messagesapi.Turns(r.exec("toolu_1", "echo "+agentsuite.Secret), messagesapi.Text(agentsuite.Secret)),
		agentsuite.Many: messagesapi.Turns(
			messagesapi.Text(strings.Repeat("x", 2<<20)).Call("toolu_1", r.shell, map[string]any{"command": "true", "description": "Do nothing"}),
			messagesapi.Text(agentsuite.Said)),
	}
	script := scripts[task]
	api := messagesapi.New(t, func(req messagesapi.Request) messagesapi.Answer {
		if len(req.Tools) == 0 {
			return messagesapi.Text("a title") // opencode asks for one
		}
		return script(req)
	})
	spec := session(realacp.Env(t, api.URL(), "")...)
	spec.Session.Model, spec.Gate = r.model, allowing()
	return r.adapter, spec
}

func (r realACP) missing(t *testing.T) (agent.Adapter, ops.SessionSpec) {
	t.Helper()
	p := r.profile(t)
	p.Command = []string{"/no/such/program"}
	spec := session()
	spec.Gate = allowing()
	return acp.New(acp.Options{Profile: p}), spec
}

func TestOpenCode(t *testing.T) {
	t.Parallel()
	r := newRealACP(t, realacp.OpenCode, "anthropic/claude-sonnet-4-5", "bash", "kill -9 $PPID")
	agentsuite.Run(t, agentsuite.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(100)), Output: ops.Ptr(int64(5)), CostUSD: ops.Ptr((100*3 + 5*15) / 1e6),
		Missing: r.missing, Make: r.make,
	})
}

func TestClaudeAgentACP(t *testing.T) {
	t.Parallel()
	r := newRealACP(t, realacp.ClaudeAgent, "claude-sonnet-4-5", "Bash", "kill -9 $(ps -o ppid= -p $PPID)")
	agentsuite.Run(t, agentsuite.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(100)), Output: ops.Ptr(int64(5)), CostUSD: ops.Ptr((100*3 + 5*15) / 1e6),
		Missing: r.missing, Make: r.make,
	})
}
