package gate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"claudeops/internal/guard/client"
)

type noTools struct{}

func (noTools) Call(context.Context, string, json.RawMessage) (string, error) { return "", nil }

// The CLI starts the server of the tools by way of its shell. Only exactly this command is let through, and only once it is offered.
func TestTheShellStartsTheServerOfTheToolsAndNothingElse(t *testing.T) {
	f := open(t, nil)
	socket := f.Socket()
	server, err := f.Offer(noTools{})
	if err != nil {
		t.Fatal(err)
	}
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
