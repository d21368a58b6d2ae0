package scripted_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/agent/scripted"
)

func TestOnlyAClearYesOfTheHookLetsACallThrough(t *testing.T) {
	t.Parallel()
	answer := func(decision, reason string) string {
		return `echo '{"hookSpecificOutput":{"permissionDecision":"` + decision + `","permissionDecisionReason":"` + reason + `"}}'`
	}
	for name, tt := range map[string]struct{ hook, refused string }{
		"none":      {"", ""},
		"allow":     {answer("allow", "ok"), ""},
		"deny":      {answer("deny", "Not at Tier 1."), "PreToolUse:Bash hook error: Not at Tier 1."},
		"ask":       {answer("ask", ""), `it answered "ask"`},
		"exit 2":    {"echo refused >&2; exit 2", "refused"},
		"garbage":   {"echo yes", "read its answer"},
		"silent":    {"exit 0", "read its answer"},
		"missing":   {"/nonexistent/program", "hook error"},
		"too odd":   {answer("deny", ""), `it answered "deny"`},
		"its event": {`grep -q '"hook_event_name":"PreToolUse"' && ` + answer("allow", "ok"), ""},
		"its input": {`grep -q '"tool_use_id":"toolu_1"' && ` + answer("allow", "ok"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scripted.Call{SessionID: "s", Cwd: t.TempDir(), Tool: "Bash", ID: "toolu_1", Input: json.RawMessage(`{"command":"ls <x>"}`)}
			var hook scripted.Hook
			if tt.hook != "" {
				hook = scripted.Hook{"/bin/sh", "-c", tt.hook}
			}
			got := hook.Ask(t.Context(), c, []string{"PATH=/usr/bin:/bin"})
			if (got == "") != (tt.refused == "") || !strings.Contains(got, tt.refused) {
				t.Errorf("refused with %q, want %q", got, tt.refused)
			}
		})
	}
}

func TestTheHookIsReadFromTheSettings(t *testing.T) {
	t.Parallel()
	settings := `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"ask","args":["me"]}]}]}}`
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{settings, file} {
		if got, err := scripted.HookIn(given); err != nil || !slices.Equal(got, scripted.Hook{"ask", "me"}) {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"", "{}"} {
		if got, err := scripted.HookIn(given); err != nil || len(got) > 0 {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"/nonexistent/settings.json", "{broken"} {
		if _, err := scripted.HookIn(given); err == nil {
			t.Errorf("%q is taken", given)
		}
	}
}
