package guard

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// FuzzCheck looks for commands that make the judging code panic, that are judged differently once printed, or that a
// higher tier refuses where a lower one allows.
func FuzzCheck(f *testing.F) {
	for _, c := range readCases(f) {
		f.Add(c.command)
	}
	g, facts := newGuard(f), testFacts()
	f.Fuzz(func(t *testing.T, command string) {
		if !utf8.ValidString(command) {
			return // JSON cannot carry it
		}
		fields := map[string]json.RawMessage{"command": bashText(t, command)}
		var verdicts [ops.LastTier + 1]Decision
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			verdicts[tier] = g.tool(tier, "Bash", fields, facts) // not Check, which hides a panic
			if tier > ops.Tier1 && verdicts[tier-1].Allowed() && !verdicts[tier].Allowed() {
				t.Fatalf("%q is allowed at %s and denied at %s", command, tier-1, tier)
			}
		}
		printed, bad := newReader().parse(command)
		if bad != nil {
			if verdicts[ops.LastTier].Allowed() {
				t.Fatalf("%q does not parse and is allowed", command)
			}
			return
		}
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			again := g.tool(tier, "Bash", map[string]json.RawMessage{"command": bashText(t, printed.text)}, facts)
			if again.Verdict != verdicts[tier].Verdict || again.Rule != verdicts[tier].Rule {
				t.Fatalf("%q is %s (%s) at %s, but printed as %q it is %s (%s)", command, verdicts[tier].Verdict, verdicts[tier].Rule, tier, printed.text, again.Verdict, again.Rule)
			}
			if !verdicts[tier].Allowed() {
				continue
			}
			script := verdicts[tier].Script
			again = g.tool(tier, "Bash", map[string]json.RawMessage{"command": bashText(t, script)}, facts)
			if !again.Allowed() || again.Script != script {
				t.Fatalf("%q: the script %q to be run becomes %s %q (%s)", command, script, again.Verdict, again.Script, again.Reason)
			}
		}
	})
}

func bashText(t testing.TB, s string) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(s)
	must(t, err)
	return data
}
