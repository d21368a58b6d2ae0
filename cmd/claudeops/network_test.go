package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/messagesapi"
	"claudeops/test/realcodex"
	"claudeops/test/responsesapi"
)

// walledService is a declared service and a server that nobody listed, and the configuration that closes the network.
func walledService(t *testing.T) (service, evil *httptest.Server, reached *atomic.Int64, config string) {
	t.Helper()
	reached = &atomic.Int64{}
	service = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the service is up\n")) }))
	evil = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(service.Close)
	t.Cleanup(evil.Close)
	return service, evil, reached, fmt.Sprintf(`sandbox: {network: services}
services:
  - name: web
    probes: [{type: tcp, address: "%s"}]
`, strings.TrimPrefix(service.URL, "http://"))
}

// refusedByNetwork are the rows of what the network refused.
func (b *box) refusedByNetwork() (out []string) {
	for _, e := range b.events("") {
		if e.Kind == ops.EventGuard && e.SessionID != nil && strings.HasPrefix(e.Message, "The network refused") {
			out = append(out, e.Message)
		}
	}
	return out
}

func TestRealCLI_AChainInItsOwnNetwork(t *testing.T) {
	t.Parallel()
	for name, credential := range map[string]string{"key": "ANTHROPIC_API_KEY=real-key-9e", "OAuth token": "CLAUDE_CODE_OAUTH_TOKEN=real-token-9e"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, evil, reached, config := walledService(t)
			b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
				n := tierOf(r)
				switch r.Turn() {
				case 0:
					return messagesapi.Bash(fmt.Sprintf("toolu_service_%d", n), "curl -s "+service.URL+"/")
				case 1:
					return messagesapi.Bash(fmt.Sprintf("toolu_evil_%d", n), "curl -s "+evil.URL+"/ || curl -s http://198.51.100.7/")
				}
				if n == 1 {
					return messagesapi.Structured("toolu_1", says(1, ops.OutcomeEscalate))
				}
				return messagesapi.Structured("toolu_2", says(2, ops.OutcomeResolved))
			}, "CLAUDEOPS_GUARD=on", "ANTHROPIC_API_KEY=", credential)
			b.configured(quickHooks + config)
			b.once(0)
			c := b.cycle()
			if len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleResolved {
				t.Fatalf("the cycle is %s with %d sessions: %s\n%v", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason, b.events(""))
			}
			requests := server.Requests()
			for n := 1; n <= 2; n++ {
				got, _ := requests[len(requests)-1].Result(fmt.Sprintf("toolu_service_%d", n))
				if n == 2 && !strings.Contains(got.Text, "the service is up") {
					t.Errorf("tier %d saw %q", n, got.Text)
				}
			}
			got, _ := requests[len(requests)-1].Result("toolu_evil_2")
			contains(t, "what the agent is told", got.Text, "claudeops refused GET http://198.51.100.7:80/", "This session reaches: ")
			if reached.Load() != 0 || len(b.refusedByNetwork()) == 0 {
				t.Errorf("the unlisted server was reached %d times; rows: %v", reached.Load(), b.refusedByNetwork())
			}
			header := requests[0].Header
			if sent := header.Get("X-Api-Key") + header.Get("Authorization"); !strings.HasSuffix(sent, "-9e") {
				t.Errorf("the API was sent %q", sent)
			}
			for _, e := range b.events(ops.LevelInfo) {
				if strings.HasPrefix(e.Message, "The walls of the session hold") && !strings.Contains(e.Message, "network") {
					t.Errorf("the proof is %q", e.Message)
				}
			}
			b.nothingLeft()
		})
	}
}

func TestRealCodex_InItsOwnNetwork(t *testing.T) {
	t.Parallel()
	service, evil, reached, config := walledService(t)
	b, server := codexBox(t, func(r responsesapi.Request) responsesapi.Answer {
		switch r.Turn() {
		case 0:
			return responsesapi.Exec("call_1", "curl -s "+service.URL+"/")
		case 1:
			return responsesapi.Exec("call_2", "curl -s "+evil.URL+"/")
		}
		return responsesapi.JSON(says(1, ops.OutcomeEscalate))
	})
	b.configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: codex, model: %s, hands_to: [fix]}
  - {id: fix, tier: 2, agent: claude, model: sonnet}
%s`, realcodex.Model, config))
	b.once(0)
	c := b.cycle()
	if len(c.Journal.Sessions) != 2 || c.Cycle.Status != ops.CycleResolved {
		t.Fatalf("the cycle is %s with %d sessions: %s\n%v", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason, b.events(""))
	}
	requests := server.Requests()
	if got, _ := requests[len(requests)-1].Output("call_1"); !strings.Contains(got, "the service is up") {
		t.Errorf("it saw %q", got)
	}
	if reached.Load() != 0 {
		t.Errorf("the unlisted server was reached %d times", reached.Load())
	}
	b.nothingLeft()
}

func TestACommandInItsOwnNetwork(t *testing.T) {
	t.Parallel()
	service, evil, reached, config := walledService(t)
	script := agentScript(t, fmt.Sprintf(`cat >/dev/null
curl -s %s/ | grep -q 'is up' || exit 7
curl -s --noproxy '' %s/ >/dev/null
echo '{"schema_version":1,"outcome":"needs_human","summary":"The disk is full.","check_results":[{"service":"web","check_type":"http","status":"down","error":"no space"}],"actions":[],"events":[],"memories":[]}'
`, service.URL, evil.URL))
	b := climbing(t, []agenttest.Play{finds(1)}).configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}
  - {id: mine, tier: 2, family: local, agent: command, model: qwen3, command: [%s]}
%s`, script, config))
	b.once(6)
	if s := b.cycle().Journal.Last(); s.Agent != "command" || s.Status != ops.SessionCompleted || reached.Load() != 0 {
		t.Errorf("the session is %+v; the unlisted server was reached %d times", s, reached.Load())
	}
	if len(b.refusedByNetwork()) == 0 {
		t.Error("the refusal was not recorded")
	}
	b.nothingLeft()
}
