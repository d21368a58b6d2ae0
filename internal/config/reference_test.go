package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

func TestReferenceDocumentIsUpToDate(t *testing.T) {
	const path = "../../docs/configuration.md"
	want, err := Reference()
	must(t, err)
	if *update {
		must(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s is out of date; run go test ./internal/config -update", path)
	}
}

func TestReferenceNamesEverySetting(t *testing.T) {
	text, err := Reference()
	must(t, err)
	for _, s := range newConfig().settings() {
		if !strings.Contains(text, "`"+anyTier(s.key)+"`") {
			t.Errorf("the reference does not name %s", s.key)
		}
		if s.env != "" && !strings.Contains(text, "`"+anyTier(s.env)+"`") {
			t.Errorf("the reference does not name %s", s.env)
		}
		if s.doc == "" {
			t.Errorf("%s has no description", s.key)
		}
	}
}
