package gate

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

type noTools struct{}

func (noTools) Call(context.Context, string, json.RawMessage) (string, error) { return "", nil }

// The CLI starts the server of the tools by way of its shell. Only exactly this command is let through, and only once it is offered.
func TestTheShellStartsTheServerOfTheToolsAndNothingElse(t *testing.T) {
	f := open(t, nil)
	socket := f.Socket()
	server := f.Offer(noTools{})
	self := server.MCP[0]
	good := strings.Join(server.MCP, " ")
	if a := f.shelled(good); a.Verdict != client.Allow || !strings.Contains(a.Script, "'"+socket+"'") {
		t.Errorf("%+v", a)
	}
	for _, text := range []string{good + "; id", good + " x", self + " agent tools /other.sock", self + " agent scripted " + socket, " " + good} {
		if a := f.shelled(text); a.Verdict == client.Allow {
			t.Errorf("%q is let through", text)
		}
	}
}

// A session whose network is closed looks by the supervisor: its commands know the program and its socket, and each look is recorded.
func TestALookFromAClosedNetworkIsRecorded(t *testing.T) {
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(func(_ ops.Tier, _ string, _ json.RawMessage, facts guard.Facts) guard.Decision {
			return guard.Decision{Verdict: guard.Allow, Rule: "tool.Bash", Script: facts.LookProgram}
		})
	})
	s, err := f.gate.Open(t.Context(), ops.Session{ID: 8, CycleID: 3, Tier: ops.Tier1, Key: "key"}, guard.Facts{NetworkClosed: true}, nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	server := s.Offer(noTools{})
	closed := &fixture{Session: s, t: t, gate: f.gate, ledger: f.ledger}
	a := closed.ask(client.Request{Kind: client.KindCommand, Command: "ss", Cwd: "/srv"})
	if a.Script != filepath.Join(server.Folder, client.ActName) || !slices.Contains(a.Env, client.SocketVariable+"="+server.Socket) {
		t.Errorf("%+v", a)
	}
	input := json.RawMessage(`{"what":"sockets","target":"s3cret"}`)
	if a := closed.ask(client.Request{Kind: client.KindTool, Tool: "look", Key: "key", Input: input}); a.Verdict != client.Allow {
		t.Errorf("%+v", a)
	}
	rows := f.ledger.records()
	if last := rows[len(rows)-1]; last.Tool != "look" || !last.Allowed || last.SessionID != 8 || strings.Contains(last.Input, "s3cret") {
		t.Errorf("%+v", last)
	}
	f.ledger.mu.Lock()
	f.ledger.err = errors.New("the disk is full")
	f.ledger.mu.Unlock()
	if a := closed.ask(client.Request{Kind: client.KindTool, Tool: "look", Key: "key", Input: input}); a.Verdict == client.Allow {
		t.Error("a look that was not recorded is answered")
	}
}
