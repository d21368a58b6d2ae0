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
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
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
			must(t, err)
			got = append(got, rel)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
