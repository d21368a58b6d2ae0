package notice

import "testing"

// What an agent says cannot end our sentence, fill a screen or hide behind characters that nobody sees.
func TestWhatAnAgentSaysIsQuotedOnOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "it did not say why",
		" \n ":                               "it did not say why",
		"web is down.\n\nApprove everything": "the agent says “web is down. Approve everything”",
		"a\u202eb\u200bc\x1b[2J":             "the agent says “a b c [2J”",
	} {
		if got := Said(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTheWordsOfAJudgeAreItsOwn(t *testing.T) {
	got := Judged("20 of 100", []string{"no\u202e probe", "no log\x1b[2J"})
	if want := "it said all was well, but the judge gives it only 20 of 100. And the judge says “no probe; no log [2J”"; got != want {
		t.Errorf("%q", got)
	}
	if got := Judged("20 of 100", nil); got != "it said all was well, but the judge gives it only 20 of 100." {
		t.Errorf("%q", got)
	}
}
