package gate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMatchesAreWhatAShellFinds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.log", "b.log", ".hidden.log", "c.txt", "x/y.log", ".d/z.log"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"*.log":   {"a.log", "b.log"},
		"?.log":   {"a.log", "b.log"},
		".*.log":  {".hidden.log"},
		"*/*.log": {"x/y.log"},
		"[ab].*":  {"a.log", "b.log"},
		"none*":   nil,
		"[":       nil,
	} {
		var got []string
		for _, name := range Matches(dir + "/" + pattern) {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rel)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
