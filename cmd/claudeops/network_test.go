package main_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/messagesapi"
	"claudeops/test/pgtest"
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
    probes: [{type: http, url: "%s"}]
`, service.URL)
}

// refusedByNetwork are the rows of what the network refused.
func (b *box) refusedByNetwork() (out []string) {
	for _, e := range b.events("") {
		if e.Kind() == ops.EventGuard && e.SessionID != nil && strings.HasPrefix(e.Message.Words(), "The network refused") {
			out = append(out, e.Message.Words())
		}
	}
	return out
}

func TestRealCLI_AChainInItsOwnNetwork(t *testing.T) {
	t.Parallel()
	for name, credential := range map[string]string{"key": "ANTHROPIC_API_KEY=real-key-9e", "OAuth token": "CLAUDE_CODE_OAUTH_TOKEN=real-token-9e"} {
		if testing.Short() && name != "key" {
			continue // TestTheProgramNeverHoldsTheKey has all kinds
		}
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
			b.read(func(s *store.Store) {
				session, err := s.Journal.Session(t.Context(), 1)
				must(t, err)
				contains(t, "the proof", session.Walls, "they hold: ", "network")
			})
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
	boss := pgtest.URL(t)
	db, err := sql.Open("pgx", boss)
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE orders AS SELECT 7 AS id, 'paid' AS state; CREATE ROLE network_reader LOGIN IN ROLE pg_read_all_data")
	must(t, err)
	reader, err := url.Parse(boss)
	must(t, err)
	reader.User = url.User("network_reader")
	config += fmt.Sprintf(`  - name: db
    probes: [{type: postgres, url: %q}]
    queries: [{name: order, run: "SELECT state FROM orders WHERE id = :id", params: {id: integer}}]
  - {name: boss, probes: [{type: postgres, url: %q}], queries: [{name: one, run: "SELECT 1"}]}
`, reader.String(), boss)
	script := agentScript(t, fmt.Sprintf(`grep -o 'ask with claudeops-act.*'
curl -s %s/ | grep -q 'is up' || exit 7
curl -s --noproxy '' %s/ >/dev/null
try() { echo "$*: $(claudeops-act look "$@" 2>&1)" | tr '\n' ' '; echo; }
try query db order id=7
try query db order 'id=7 OR 1=1'
try query boss one
try sql db 'DELETE FROM orders'
try query db 'DELETE FROM orders'
try -- nft flush ruleset
try
echo '{"schema_version":1,"outcome":"needs_human","summary":"The disk is full.","check_results":[{"service":"web","check_type":"http","status":"down","error":"no space"}],"actions":[],"events":[],"memories":[]}'
`, service.URL, evil.URL))
	b := climbing(t, []agenttest.Play{finds(1)}).configured(fmt.Sprintf(`handlers:
  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}
  - {id: mine, tier: 2, family: local, agent: command, model: qwen3, command: [%s]}
%s`, script, config))
	b.once(6)
	if s := b.cycle().Journal.Last(); s.Agent != "command" || s.Status != ops.SessionCompleted || reached.Load() != 0 {
		t.Errorf("the session is %+v; the unlisted server was reached %d times", s, reached.Load())
	} else {
		contains(t, "what it said", b.transcript(s.ID), "order id=7: state paid", "id=7 OR 1=1: give id=INTEGER", "one: the account of the probe has the rights of a superuser",
			"sql db DELETE FROM orders: look cannot show", "query db DELETE FROM orders: there is no query", "nft flush ruleset: nft is not permitted in this form",
			"the queries are db order id=INTEGER, boss one", "ask with claudeops-act look query")
	}
	if len(b.refusedByNetwork()) == 0 {
		t.Error("the refusal was not recorded")
	}
	b.nothingLeft()
}

// TestRealCLI_WhatInspectsTheNetworkSeesTheHost holds that programs which would answer falsely inside answer as they do outside, and that
// what a wall refused is recorded with its path.
func TestRealCLI_WhatInspectsTheNetworkSeesTheHost(t *testing.T) {
	t.Parallel()
	service, evil, _, config := walledService(t)
	port := service.URL[strings.LastIndex(service.URL, ":")+1:]
	closed := filepath.Join(t.TempDir(), "app.log")
	must(t, os.WriteFile(closed, []byte("secret"), 0o000))
	commands := []string{
		"ss -Htln", "nc -z -v 127.0.0.1 " + port, "ping -c 1 127.0.0.1", "ip -brief address show", "nc -z -v " + strings.Replace(strings.TrimPrefix(evil.URL, "http://"), ":", " ", 1),
		"cat " + closed,
	}
	b, server := realBox(t, func(r messagesapi.Request) messagesapi.Answer {
		if n := r.Turn(); n < len(commands) {
			return messagesapi.Bash(fmt.Sprintf("toolu_%d", n), commands[n])
		}
		return messagesapi.Structured("toolu_end", says(1, ops.OutcomeHealthy))
	}, "CLAUDEOPS_GUARD=on")
	b.configured(quickHooks + strings.Replace(config, "{network: services}", fmt.Sprintf("{network: services, readable: [%q]}", filepath.Dir(closed)), 1))
	b.once(0)
	requests := server.Requests()
	said := make([]string, len(commands))
	for n := range commands {
		got, _ := requests[len(requests)-1].Result(fmt.Sprintf("toolu_%d", n))
		said[n] = got.Text
	}
	for n, want := range []string{"127.0.0.1:" + port + " ", "succeeded", "1 received", "127.0.0.1/8", "is not an address that a probe", "not visible to agents: sandbox.readable"} {
		if !strings.Contains(said[n], want) {
			t.Errorf("%s answers %q", commands[n], said[n])
		}
	}
	b.nothingLeft()
}

// TestACommandMayAskAsItsTierAndItsServiceSay plays a program at each tier above the first, and one in a session without a network.
func TestACommandMayAskAsItsTierAndItsServiceSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tier    int
		network string
		want    []string
		asked   string
	}{
		"tier 2": {2, "services", []string{"get=200", "post=200", "delete=403", "other=403"}, "GET POST"},
		"tier 3": {3, "services", []string{"get=200", "post=200", "delete=403", "other=403"}, "GET POST"},
		"none":   {2, "none", []string{"get=403", "post=403", "delete=403", "other=403"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Method != http.MethodHead { // the probe
					asked = append(asked, r.Method)
				}
			}))
			defer service.Close()
			plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the other service was sent %s", r.Method) }))
			defer plain.Close()
			script := agentScript(t, fmt.Sprintf(`cat >/dev/null
ask() { echo "$1=$(curl -s -m 20 -o /dev/null -w '%%{http_code}' --noproxy '' -X $2 $3)"; }
ask get GET %[1]s/; ask post POST %[1]s/; ask delete DELETE %[1]s/; ask other PUT %[2]s/
echo "metadata=$(curl -s -m 20 -o /dev/null -w '%%{http_code}' http://169.254.169.254/latest/meta-data/)"
echo '{"schema_version":1,"outcome":"needs_human","summary":"The disk is full.","check_results":[{"service":"web","check_type":"http","status":"down","error":"no space"}],"actions":[],"events":[],"memories":[]}'
`, service.URL, plain.URL))
			handlers := "handlers:\n  - {id: look, tier: 1, agent: claude, model: haiku, hands_to: [mine]}\n"
			if c.tier == 3 {
				handlers = strings.Replace(handlers, "mine", "fix", 1) + "  - {id: fix, tier: 2, agent: claude, model: haiku, hands_to: [mine]}\n"
			}
			plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)))
			b := climbing(t, plays).configured(handlers + fmt.Sprintf(`
  - {id: mine, tier: %d, family: local, agent: command, model: qwen3, command: [%s]}
sandbox: {network: %s, network_hosts: ["169.254.169.254:80"]}
services:
  - {name: web, methods: [GET, HEAD, POST], probes: [{type: http, url: "%s", method: HEAD}]}
  - {name: plain, methods: [GET, PUT], probes: [{type: tcp, address: "%s"}]}
`, c.tier, script, c.network, service.URL, strings.TrimPrefix(plain.URL, "http://")))
			b.once(6)
			s := b.cycle().Journal.Last()
			if s.Agent != "command" || s.Status != ops.SessionCompleted {
				t.Fatalf("the session is %+v", s)
			}
			contains(t, "what it said", b.transcript(s.ID), c.want...)
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(asked, " "); got != c.asked {
				t.Errorf("the service was sent %q", got)
			}
			contains(t, "the session", b.run("sessions", "show", fmt.Sprint(s.ID)).stdout, "Refused by the walls", "DELETE http://127.0.0.1")
			rows := b.refusedByNetwork()
			for _, what := range []string{"DELETE http://127.0.0.1", "PUT http://127.0.0.1", "169.254.169.254"} {
				if !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, what) }) {
					t.Errorf("%s is not among what was refused: %v", what, rows)
				}
			}
			b.nothingLeft()
		})
	}
}
