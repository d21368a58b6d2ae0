package claude

import (
	"encoding/json"
	"testing"
)

// FuzzUnquote compares with encoding/json.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{
		`""`, `"a"`, `"a\nb\tc\r\"d\\e\/f"`, `"\u00e9"`, `"é"`, `"\b"`, `"a\"`, `"a"b"`, "\"\n\"", "\"\xff\"", `[]`, `"`, `a"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := unquote(s)
		var want string
		err := json.Unmarshal([]byte(s), &want)
		if ok && (err != nil || got != want) {
			t.Errorf("unquote(%q) is %q, want %q, %v", s, got, want, err)
		}
	})
}

func TestUnquoteReadsCommonStrings(t *testing.T) {
	for _, s := range []string{`""`, `"plain é"`, `"a\nb\tc\r\"d\\e\/f"`} {
		if _, ok := unquote(s); !ok {
			t.Errorf("%s was not read", s)
		}
	}
}
