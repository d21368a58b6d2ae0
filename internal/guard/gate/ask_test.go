package gate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// A call of an agent that asks the supervisor itself is judged and recorded as one that comes by the hook.
func TestACallThatDoesNotComeByTheSocket(t *testing.T) {
	f := open(t, nil)
	question := func(id, command string) ops.ToolQuestion {
		return ops.ToolQuestion{ID: id, Tool: "Bash", Input: json.RawMessage(jsonText(t, map[string]string{"command": command})), Cwd: "/srv"}
	}
	if allowed, _ := f.Ask(question("call_1", "ls s3cret")); !allowed || !f.Allowed("call_1") {
		t.Error("it was refused")
	}
	if allowed, reason := f.Ask(question("call_2", "forbidden")); allowed || reason != forbidden || f.Allowed("call_2") {
		t.Errorf("it was not refused: %q", reason)
	}
	rows := f.ledger.records()
	if len(rows) != 2 || rows[0].Gate != ops.GateHook || !rows[0].Allowed || rows[0].ToolUseID != "call_1" || strings.Contains(rows[0].Input, "s3cret") || rows[1].Allowed {
		t.Errorf("recorded %+v", rows)
	}
	for name, q := range map[string]ops.ToolQuestion{
		"no folder": {ID: "c", Tool: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
		"no id":     {Tool: "Bash", Input: json.RawMessage(`{"command":"ls"}`), Cwd: "/"},
		"no tool":   {ID: "c", Input: json.RawMessage(`{}`), Cwd: "/"},
		"no object": {ID: "c", Tool: "Bash", Input: json.RawMessage(`[]`), Cwd: "/"},
		"no JSON":   {ID: "c", Tool: "Bash", Input: json.RawMessage(`{`), Cwd: "/"},
		"too long":  {ID: "c", Tool: "Bash", Input: json.RawMessage(`{"command":"` + strings.Repeat("x", 2<<20) + `"}`), Cwd: "/"},
	} {
		if allowed, reason := f.Ask(q); allowed || reason == "" {
			t.Errorf("%s: it was allowed", name)
		}
	}
	f.ledger.err = errors.New("the database is gone")
	if allowed, _ := f.Ask(question("call_3", "ls")); allowed {
		t.Error("what was not recorded was allowed")
	}
	f.ledger.err = nil
	must(t, f.Close())
	if allowed, _ := f.Ask(question("call_4", "ls")); allowed {
		t.Error("it was allowed after the end of the session")
	}
}
