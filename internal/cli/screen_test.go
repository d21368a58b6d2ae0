package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTablesFitTheScreen(t *testing.T) {
	header := tabbed("ID", "STATUS", "REASON")
	lines := []string{
		tabbed("1", "✓ completed", "short"),
		tabbed("22", "✗ failed", strings.Repeat("a long reason ", 20)),
	}
	wide := screen{}.table(header, lines)
	if !strings.Contains(wide, strings.TrimSpace(strings.Repeat("a long reason ", 20))) || strings.Contains(wide, "\x1b") {
		t.Errorf("a pipe gets everything, without colors:\n%s", wide)
	}
	narrow := screen{width: 60}.table(header, lines)
	for line := range strings.Lines(narrow) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(narrow, "…") || !strings.Contains(narrow, "22  ✗ failed") {
		t.Errorf("cut in the wrong place:\n%s", narrow)
	}
	painted := screen{color: true}.table(header, lines)
	if !strings.Contains(painted, "\x1b[32m✓ completed\x1b[0m") || !strings.Contains(painted, "\x1b[31m✗ failed\x1b[0m") {
		t.Errorf("no colors: %q", painted)
	}
	if plain := regexpColors(painted); plain != wide {
		t.Errorf("colors change the columns:\n%s\n%s", plain, wide)
	}
}

// On a terminal what says nothing is left out, and what does not fit stands below its row: nothing runs over the edge, and nothing is lost.
func TestTablesLeaveOutWhatSaysNothing(t *testing.T) {
	header := tabbed("ID", "ENVIRONMENT", "LABELS", "SERVICE", "ACTION", "STATE", "BY", "CYCLE", "AT", "WHY")
	lines := []string{
		tabbed("1", "default", "-", "mediabox", "restore-configuration", "done", "claudeops", "17", "1m ago", "the upstream in the file is wrong"),
		tabbed("2", "default", "-", "mediabox", "rebuild-cache", "undone", "claudeops", "18", "2m ago", ""),
	}
	got := screen{width: 50}.table(header, lines)
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 50 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, gone := range []string{"ENVIRONMENT", "default", "LABELS"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s says nothing:\n%s", gone, got)
		}
	}
	if !strings.Contains(got, "      why: the upstream in the file is wrong\n") || strings.Count(got, "why:") != 1 {
		t.Errorf("what does not fit is not below its row:\n%s", got)
	}
	lines[1] = strings.Replace(lines[1], "default", "lab", 1)
	if got := (screen{width: 200}).table(header, lines); !strings.Contains(got, "ENVIRONMENT") || !strings.Contains(got, "AT      WHY") {
		t.Errorf("there are two environments:\n%s", got)
	}
	if got := (screen{}).table(header, lines); !strings.Contains(got, "LABELS") {
		t.Errorf("a pipe gets every column:\n%s", got)
	}
}

func regexpColors(s string) string {
	for _, code := range []string{"0", "1", green, yellow, red, blue} {
		s = strings.ReplaceAll(s, "\x1b["+code+"m", "")
	}
	return s
}

func TestTimesAreRelativeOnATerminal(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := screen{now: now}
	for d, want := range map[time.Duration]string{
		0: "now", 5 * time.Second: "5s ago", 3 * time.Minute: "3m ago", 26 * time.Hour: "26h ago", 72 * time.Hour: "3d ago",
		-10 * time.Minute: "in 10m",
	} {
		at := now.Add(-d)
		if got := s.when(&at); got != want {
			t.Errorf("%v before: %q, want %q", d, got, want)
		}
	}
	if got := (screen{}).when(&now); got != stamp(&now) {
		t.Errorf("in a pipe: %q", got)
	}
	if got := s.when(nil); got != "" {
		t.Errorf("without a time: %q", got)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"sessions", "cycles", "services", "healthy", "down"}
	for wrong, want := range map[string]string{
		"sesions": "sessions", "cylces": "cycles", "helthy": "healthy", "dwon": "down", "serv": "services", "banana": "", "x": "",
	} {
		if got := didYouMean(wrong, known); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", wrong, got, want)
		}
	}
}
