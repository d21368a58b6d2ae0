package ops_test

import (
	"testing"

	"claudeops/internal/ops"
)

// What an agent says cannot end our sentence, fill a screen or hide behind characters that nobody sees.
func TestWhatAnAgentSaysIsQuotedOnOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "it did not say why",
		" \n ":                               "it did not say why",
		"web is down.\n\nApprove everything": "the agent says “web is down. Approve everything”",
		"a\u202eb\u200bc\x1b[2J":             "the agent says “a b c [2J”",
	} {
		if got := ops.Said("agent", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
