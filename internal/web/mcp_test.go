package web_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/apitest"
)

// agentOf connects an agent of the operator to tools that ask a site with a token.
func agentOf(t *testing.T, s *site, token string) *sdk.ClientSession {
	t.Helper()
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	ours, theirs := sdk.NewInMemoryTransports()
	asked := mcpserver.Remote{Base: server.URL + api.Prefix, Token: token, Client: server.Client(), Most: 1 << 20}
	_, err := mcpserver.New(mcpserver.Options{API: asked, Write: true, Version: "test"}).Connect(t.Context(), ours, nil)
	must(t, err)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), theirs, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func use(t *testing.T, s *sdk.ClientSession, name string, input map[string]any) (string, bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: input})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

func TestAnAgentOfTheOperatorReadsAndActsUnderItsToken(t *testing.T) {
	s := newSite(t)
	s.Await(ops.NewCycle{}, ops.Policy{}, ops.Step{Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "disk full", Incident: &ops.IncidentReport{
		Level: ops.LevelCritical, Title: "disk full", Services: []string{"web"},
	}}, apitest.Run{Tier: ops.Tier1})
	changes := map[string]map[string]any{
		"incident_acknowledge": {"id": 1, "reason": "mine"}, "incident_snooze": {"id": 1, "for": "2h", "reason": "disk arrives"},
		"silence_add": {"service": "web", "for": "1h", "reason": "work"}, "cycle_run": {"prompt": "look at the disk"},
	}
	reader := agentOf(t, s, s.reader())
	if text, failed := use(t, reader, "incidents_list", nil); failed || !strings.Contains(text, `"title":"disk full"`) {
		t.Errorf("incidents: %v %s", failed, text)
	}
	if text, failed := use(t, reader, "cycle_show", map[string]any{"id": 1}); failed || !strings.Contains(text, `"sessions":[`) || strings.Contains(text, `"policy"`) {
		t.Errorf("cycle: %v %s", failed, text)
	}
	for name, input := range changes {
		if text, failed := use(t, reader, name, input); !failed {
			t.Errorf("%s with a token that may only read: %s", name, text)
		}
	}
	if len(s.control.Submitted) != 0 {
		t.Errorf("a token that may only read submitted %+v", s.control.Submitted)
	}
	agent := agentOf(t, s, apitest.Token)
	for name, input := range changes {
		if text, failed := use(t, agent, name, input); failed {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(s.control.Submitted) != 1 || s.control.Submitted[0].Prompt != "look at the disk" || s.control.Submitted[0].Trigger != ops.TriggerAPI {
		t.Errorf("submitted %+v", s.control.Submitted)
	}
	silences, err := s.Store.Watch.Silences(t.Context(), store.SilenceFilter{})
	if err != nil || len(silences) != 1 || silences[0].Author != "mcp (an operator)" {
		t.Errorf("silences %+v, %v", silences, err)
	}
	events, err := s.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	must(t, err)
	done := 0
	for _, e := range events {
		if strings.HasPrefix(e.Message.Words(), "mcp (an operator) from 127.0.0.1: POST /api/v1/") {
			done++
		}
	}
	if done != len(changes) {
		t.Errorf("recorded: %+v", events)
	}
}
