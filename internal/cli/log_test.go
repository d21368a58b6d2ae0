package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
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
