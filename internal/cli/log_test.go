package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func TestALogLineIsBounded(t *testing.T) {
	var out bytes.Buffer
	names := make([]string, 40_000)
	for i := range names {
		names[i] = "service"
	}
	newLogger(&out, slog.LevelInfo).Info("failed", "services", names, "error", errors.New(strings.Repeat("x", 1<<20)), "reason", strings.Repeat("ä", 1<<20),
		"cycle", 7)
	line := out.String()
	if len(line) > 4*longestValue || !strings.Contains(line, "more bytes)") || !strings.Contains(line, "cycle=7") {
		t.Errorf("a line of %d bytes: %.100s", len(line), line)
	}
}

// A person at a terminal reads sentences, not keys.
func TestALogLineForAPersonIsASentence(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(&sentences{w: &out, level: slog.LevelInfo, mu: new(sync.Mutex)}).With("environment", "home")
	log.Debug("nobody sees this")
	log.Info("next step", "reason", "session 1 (Tier 1) is due", "cycle", 1, "step", "run", "key", "2f7b19", "failure", "")
	log.Warn("agents may not be able to run", "problem", "no\x1bclaude", "to_do", "install it.")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		" next step: session 1 (Tier 1) is due (environment home, cycle 1)",
		" WARN agents may not be able to run: no claude: install it (environment home)",
	} {
		if len(lines) != 2 || len(lines[i]) < 8 || lines[i][8:] != want {
			t.Errorf("line %d of %q, want %q", i, lines, want)
		}
	}
}
