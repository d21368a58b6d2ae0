package web_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

const readToken = "a-read-only-token-of-a-test"

// bearing sends a token with every request.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// agentOf connects the SDK's client to /mcp of a site.
func agentOf(t *testing.T, s *site, token string) (*sdk.ClientSession, error) {
	t.Helper()
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: bearing(token)}, DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func mcpSite(t *testing.T, use string) *site {
	t.Helper()
	s := newSite(t, func(o *web.Options) { o.MCP, o.ReadToken = use, readToken })
	s.Await(ops.NewCycle{}, ops.Policy{}, ops.Step{Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "disk full", Incident: &ops.IncidentReport{
		Level: ops.LevelCritical, Title: "disk full", Services: []string{"web"},
	}}, apitest.Run{Tier: ops.Tier1})
	return s
}

func use(t *testing.T, s *sdk.ClientSession, name string, input map[string]any) (string, bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: input})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

func offered(t *testing.T, s *sdk.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		must(t, err)
		names = append(names, tool.Name)
	}
	return names
}

func TestAnAgentOfTheOperatorReadsAndActsUnderItsToken(t *testing.T) {
	s := mcpSite(t, "write")
	agent, err := agentOf(t, s, apitest.Token)
	must(t, err)
	if text, failed := use(t, agent, "incidents_list", nil); failed || !strings.Contains(text, `"title":"disk full"`) {
		t.Errorf("incidents: %v %s", failed, text)
	}
	if text, failed := use(t, agent, "cycle_show", map[string]any{"id": 1}); failed || !strings.Contains(text, `"sessions":[`) || strings.Contains(text, `"policy"`) {
		t.Errorf("cycle: %v %s", failed, text)
	}
	for name, input := range map[string]map[string]any{
		"incident_acknowledge": {"id": 1, "reason": "mine"}, "incident_snooze": {"id": 1, "for": "2h", "reason": "disk arrives"},
		"silence_add": {"service": "web", "for": "1h", "reason": "work"}, "cycle_run": {"prompt": "look at the disk"},
	} {
		if text, failed := use(t, agent, name, input); failed {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(s.control.Submitted) != 1 || s.control.Submitted[0].Prompt != "look at the disk" || s.control.Submitted[0].Trigger != ops.TriggerAPI {
		t.Errorf("submitted %+v", s.control.Submitted)
	}
	silences, err := s.Store.Silences(t.Context(), store.SilenceFilter{})
	if err != nil || len(silences) != 1 || silences[0].Author != "mcp (token)" {
		t.Errorf("silences %+v, %v", silences, err)
	}
	events, err := s.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	if err != nil || len(events) != 4 {
		t.Fatalf("%d audit events, %v", len(events), err)
	}
	for _, e := range events {
		if !strings.HasPrefix(e.Message, "mcp (token) from 127.0.0.1: POST /api/v1/") {
			t.Errorf("recorded as %q", e.Message)
		}
	}
}

func TestAReadOnlyTokenGetsNoToolThatChangesAnything(t *testing.T) {
	for name, c := range map[string]struct {
		use, token string
		write      bool
	}{
		"a read-only token":         {"write", readToken, false},
		"the full token, read only": {"read", apitest.Token, false},
		"the full token, write":     {"write", apitest.Token, true},
	} {
		s := mcpSite(t, c.use)
		agent, err := agentOf(t, s, c.token)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names := offered(t, agent)
		if !slices.Contains(names, "incidents_list") || slices.Contains(names, "cycle_run") != c.write || slices.Contains(names, "silence_add") != c.write {
			t.Errorf("%s: %v", name, names)
		}
		_, err = agent.CallTool(t.Context(), &sdk.CallToolParams{Name: "cycle_run", Arguments: map[string]any{"prompt": "x"}})
		if (err == nil) != c.write || (len(s.control.Submitted) == 1) != c.write {
			t.Errorf("%s: %v, submitted %v", name, err, s.control.Submitted)
		}
		if text, failed := use(t, agent, "incidents_list", nil); failed {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestTheMCPServerNeedsATokenAndCanBeOff(t *testing.T) {
	s := mcpSite(t, "read")
	for name, token := range map[string]string{"no token": "", "a wrong token": "a-wrong-token-of-good-length"} {
		if _, err := agentOf(t, s, token); err == nil {
			t.Errorf("%s is enough", name)
		}
	}
	ask := func(s *site, change func(*http.Request)) answer {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		return s.do(r)
	}
	if got := ask(s, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); got.StatusCode != http.StatusForbidden {
		t.Errorf("another site: %d", got.StatusCode)
	}
	if got := ask(s, func(*http.Request) {}); got.StatusCode != http.StatusOK || !strings.Contains(got.body, "incidents_list") {
		t.Errorf("with the token: %d %s", got.StatusCode, got.body)
	}
	off := mcpSite(t, "off")
	if got := ask(off, func(*http.Request) {}); got.StatusCode != http.StatusNotFound || !strings.Contains(got.body, "web.mcp") {
		t.Errorf("off: %d %s", got.StatusCode, got.body)
	}
}
