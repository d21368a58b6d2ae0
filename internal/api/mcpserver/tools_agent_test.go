package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"claudeops/internal/api/mcpserver"
	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/gate"
	"claudeops/internal/ops"
)

type tools struct{ calls []string }

func (f *tools) Call(_ context.Context, tool string, input json.RawMessage) (string, error) {
	f.calls = append(f.calls, tool+" "+string(input))
	if tool == "action_undo" {
		return "", errors.New("It has no way back. Report hunter2 for a human.")
	}
	return `{"status":"done"}`, nil
}

type judge struct{}

func (judge) Check(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision {
	return guard.Decision{}
}

type ledger struct{}

func (ledger) RecordGuard(_ context.Context, _ ops.Owner, r ops.GuardRecord, _ []ops.Reservation, _ []ops.CooldownLimit) (ops.GuardRecord, error) {
	return r, nil
}

// offered is the socket of a session that has tools.
func offered(t *testing.T, f *tools) ops.ToolServer {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mcp-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g, err := gate.New(gate.Options{
		Judge: judge{}, Ledger: ledger{}, Owner: func() ops.Owner { return ops.Owner{} }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Dir: filepath.Join(dir, "g"), Self: "/bin/true", Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") },
	})
	must(t, err)
	s, err := g.Open(t.Context(), ops.Session{ID: 7, Key: "key-7"}, guard.Facts{}, nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	server := s.Offer(f)
	return server
}

func connectAgent(t *testing.T, o mcpserver.AgentOptions) *sdk.ClientSession {
	t.Helper()
	ours, theirs := sdk.NewInMemoryTransports()
	if _, err := mcpserver.NewForAgent(o).Connect(t.Context(), ours, nil); err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "agent"}, nil).Connect(t.Context(), theirs, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestAnAgentReachesTheSupervisorsTools(t *testing.T) {
	f := &tools{}
	server := offered(t, f)
	s := connectAgent(t, mcpserver.AgentOptions{Socket: server.Socket, Environ: []string{"CLAUDEOPS_SESSION_KEY=key-7"}})
	listed, err := s.ListTools(t.Context(), nil)
	must(t, err)
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	want := ops.SessionTools()
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	if text, failed := call(t, s, "action_run", map[string]any{"service": "web", "action": "restart", "why": "it hangs"}); failed || text != `{"status":"done"}` {
		t.Errorf("%q %v", text, failed)
	}
	if text, failed := call(t, s, "action_undo", map[string]any{"id": 3, "why": "x"}); !failed || !strings.Contains(text, "no way back. Report [redacted]") {
		t.Errorf("%q %v", text, failed)
	}
	// Arguments are typed: what the schema does not know never reaches the supervisor.
	for _, input := range []any{
		map[string]any{"service": "web", "action": "restart", "why": "x", "command": "rm -rf /"},
		map[string]any{"service": "web"},
		map[string]any{"service": []string{"web"}, "action": "restart", "why": "x"},
	} {
		if text, failed := call(t, s, "action_run", input); !failed {
			t.Errorf("%v: %q", input, text)
		}
	}
	if len(f.calls) != 2 || f.calls[0] != `action_run {"service":"web","action":"restart","why":"it hangs"}` {
		t.Errorf("calls %q", f.calls)
	}
}

func TestOneSessionCannotUseTheToolsOfAnother(t *testing.T) {
	f := &tools{}
	server := offered(t, f)
	for _, environ := range [][]string{nil, {"CLAUDEOPS_SESSION_KEY=key-8"}, {"CLAUDEOPS_SESSION_KEY="}} {
		s := connectAgent(t, mcpserver.AgentOptions{Socket: server.Socket, Environ: environ})
		if text, failed := call(t, s, "actions_list", nil); !failed || !strings.Contains(text, "does not come from this session") {
			t.Errorf("%q: %q", environ, text)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("calls %q", f.calls)
	}
}

func TestTheCommandAsksTheSame(t *testing.T) {
	f := &tools{}
	server := offered(t, f)
	environ := []string{"CLAUDEOPS_TOOL_SOCKET=" + server.Socket, "CLAUDEOPS_SESSION_KEY=key-7"}
	for line, want := range map[string]struct {
		code int
		call string
	}{
		"list":                            {0, "actions_list {}"},
		"run web restart --why hangs":     {0, `action_run {"action":"restart","service":"web","why":"hangs"}`},
		"run web push --branch=b --why=x": {0, `action_run {"action":"push","branch":"b","service":"web","why":"x"}`},
		"undo 3 --why x":                  {7, `action_undo {"id":3,"why":"x"}`},
		"probe web db":                    {0, `probe_now {"services":["web","db"]}`},
		"status":                          {0, "services_status {}"},
		"cooldowns":                       {0, "cooldowns {}"},
		"look sockets":                    {0, `look {"what":"sockets"}`},
		"look query db order id=1 n=a=b":  {0, `look {"params":{"id":"1","n":"a=b"},"query":"order","target":"db","what":"query"}`},
		"look dns web MX":                 {0, `look {"query":"MX","target":"web","what":"dns"}`},
		"look -- ss -tlnp --no-header":    {0, `look {"argv":["ss","-tlnp","--no-header"],"what":"command"}`},
		"look":                            {0, "look {}"},
		"run web":                         {2, ""},
		"undo x":                          {2, ""},
		"run web restart --force":         {2, ""},
		"wipe":                            {2, ""},
	} {
		f.calls = nil
		var stdout, stderr bytes.Buffer
		code := client.Act(strings.Fields(line), environ, &stdout, &stderr)
		if code != want.code || strings.Join(f.calls, ";") != want.call || (code != 0) != (stderr.Len() > 0) {
			t.Errorf("%s: %d %q %q", line, code, f.calls, stderr.String())
		}
	}
	if code := client.Act([]string{"list"}, nil, &bytes.Buffer{}, &bytes.Buffer{}); code != 1 {
		t.Errorf("outside of a session: %d", code)
	}
	if _, err := os.Lstat(filepath.Join(server.Folder, client.ActName)); err != nil {
		t.Error(err)
	}
}
