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
