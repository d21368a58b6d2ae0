package process

import "testing"

func TestEnvironmentEntriesAreMatchedAsAWhole(t *testing.T) {
	entry := []byte("KEY=abc")
	for environ, want := range map[string]bool{
		"":                          false,
		"KEY=abc\x00":               true,
		"A=1\x00KEY=abc\x00B=2\x00": true,
		"A=1\x00KEY=abc":            true,
		"KEY=abcd\x00":              false,
		"XKEY=abc\x00":              false,
		"A=KEY=abc\x00":             false,
		"KEY=abcd\x00KEY=abc\x00":   true,
	} {
		if got := holdsEntry([]byte(environ), entry); got != want {
			t.Errorf("%q: got %v", environ, got)
		}
	}
}
