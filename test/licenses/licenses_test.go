package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestTheCollectedLicencesAreUpToDate(t *testing.T) {
	all, err := contents(t.Context(), root)
	must(t, err)
	text, err := document(all)
	must(t, err)
	stored, err := os.ReadFile(filepath.Join(root, file))
	must(t, err)
	if string(stored) != text {
		t.Errorf("%s is out of date: run make licenses", file)
	}
	for _, part := range []string{"Go standard library", "modernc.org/sqlite", "htmx.org", "lucide-static"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is missing", part)
		}
	}
}

func TestWhatHasNoAllowedLicenceIsRefused(t *testing.T) {
	write := func(text string) component {
		name := filepath.Join(t.TempDir(), "LICENSE")
		must(t, os.WriteFile(name, []byte(text), 0o600))
		return component{name: "example.org/x", version: "v1.0.0", files: []string{name}}
	}
	const mit = "Permission is hereby granted, free of charge, to any\n person obtaining a copy"
	for name, tt := range map[string]struct {
		component component
		want      string
	}{
		"none":    {component{name: "example.org/x"}, "no licence"},
		"unknown": {write("You may look at it."), "not known"},
		"gpl": {
			write("GNU GENERAL PUBLIC LICENSE\nEveryone is permitted to copy and distribute verbatim copies"), "not allowed",
		},
		"one of two": {
			write(mit + "\nBusiness Source License 1.1"), "BUSL",
		},
		"mit": {write(mit), ""},
	} {
		_, err := document([]component{tt.component})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABundledFileWithoutALicenceIsNoticed(t *testing.T) {
	sums := filepath.Join(t.TempDir(), "SUMS")
	must(t, os.WriteFile(sums, []byte("# a list\n00  known.js\n00  new.js\n"), 0o600))
	err := listed([]asset{{sums: sums, bundled: []string{"known.js"}}})
	if err == nil || !strings.Contains(err.Error(), "new.js") {
		t.Errorf("got %v", err)
	}
}

func TestZeroClauseBSDIsNotISC(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "licenses", "htmx.txt"))
	must(t, err)
	if got := classify(string(text)); !slices.Equal(got, []string{"0BSD"}) {
		t.Errorf("got %v", got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
