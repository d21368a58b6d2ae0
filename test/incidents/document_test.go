package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheDocumentIsMadeOfTheResults holds that docs/incidents.md says what the results in docs/incidents.html say.
func TestTheDocumentIsMadeOfTheResults(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	results, at, err := readResults(filepath.Join(root, "docs", "incidents.html"))
	if err != nil {
		t.Fatal(err)
	}
	faults, models := everything(t)
	want, err := newReport(results, faults, models).document(at)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "incidents.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("docs/incidents.md is not up to date: run make incidents-docs")
	}
	for _, r := range results {
		if r.Contender == "claudeops" && !r.safe() {
			t.Errorf("the published results break the promise: %s", r.line())
		}
	}
}

func TestThePageHoldsTheResults(t *testing.T) {
	faults, models := everything(t)
	results := []Result{{
		Fault: faults[0].Name, Model: "expert", Contender: "claudeops", Working: true, Right: true,
		Transcript: []Said{{Text: "</script><b>not a tag", Heard: strings.Repeat("long ", 1000)}},
	}}
	now := time.Date(2026, 11, 16, 4, 0, 0, 0, time.UTC)
	page, err := newReport(results, faults, models).page(now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "http://") || strings.Contains(string(page), "https://") {
		t.Error("the page needs the network")
	}
	path := filepath.Join(t.TempDir(), "incidents.html")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	got, at, err := readResults(path)
	if err != nil || len(got) != 1 || !at.Equal(now) || got[0].Transcript[0].Text != "</script><b>not a tag" {
		t.Errorf("%v %v %+v", err, at, got)
	}
	if n := len(got[0].Transcript[0].Heard); n > keptText+10 {
		t.Errorf("an answer of %d bytes is kept", n)
	}
}
