package ops_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"claudeops/internal/ops"

	"pgregory.net/rapid"
)

func TestTextsAreCutInOneWay(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{ops.Cut("short", 5), "short"},
		{ops.Cut("longer", 5), "long…"},
		{ops.Cut("äöüß", 3), "äö…"},
		{ops.Cut("the web is down", 8), "the web…"},
		{ops.Cut("the web is down", 5), "the…"},
		{ops.First("äöü", 2), "äö"},
		{ops.First("äöü", 0), ""},
		{ops.Start("äöü", 3), "ä"},
		{ops.Start("abc", 3), "abc"},
		{ops.Ends("abcdefgh", 2, 3, "…"), "ab…fgh"},
		{ops.Ends("ääää", 3, 3, "…"), "ä…ä"},
		{ops.Ends("abcdefgh", 0, 2, "…"), "…gh"},
		{ops.OneLine(" two\n\tlines\u202e\x00here ", 80), "two lines here"},
		{ops.OneLine("bad \xff byte", 80), "bad � byte"},
		{ops.Visible("a\u202cb\u200bc\x1bd\u2028e\n\tf 👍"), "a b c d e\n\tf 👍"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestWhatIsCutStaysWithinItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(1, 40).Draw(t, "most")
		for _, cut := range []string{ops.Cut(text, most), ops.OneLine(text, most), ops.First(text, most)} {
			if n := utf8.RuneCountInString(cut); n > most || !utf8.ValidString(cut) {
				t.Fatalf("%q has %d characters of %d", cut, n, most)
			}
		}
		if start := ops.Start(text, most); len(start) > most || !strings.HasPrefix(text, start) || !utf8.ValidString(start) {
			t.Fatalf("%q of %d bytes", start, most)
		}
		if both := ops.Ends(text, most, most, ""); len(both) > 2*most || !utf8.ValidString(both) {
			t.Fatalf("%q of %d bytes", both, 2*most)
		}
	})
}
