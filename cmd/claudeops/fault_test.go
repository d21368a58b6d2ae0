package main_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFaults makes a short selection of what `make fault` makes in full: kills at places where an effect has happened and its
// record has not, at random moments, of an agent, a storm of children, a deleted database file, too much output, and answers that
// come too late or for another plan.
func TestFaults(t *testing.T) {
	t.Parallel()
	// The program without the race detector: with it a start takes five times as long, and the other tests have it.
	harness, plain := filepath.Join(t.TempDir(), "fault"), filepath.Join(t.TempDir(), "claudeops")
	for path, args := range map[string][]string{harness: {"claudeops/test/fault"}, plain: {"-tags", "failpoint", "."}} {
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", path}, args...)...)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, harness, "-binary", plain, "-only", "kill,random,memory,storm,deleted,output,answers", "-seed", "1", "-random", "2", "-times", "1",
		"-parallel", "2", "-courses", "serve,ladder", "-points", `^(spawn\.after|gate\.close\.before|record\.queue\.before|record_guard\.after)$`)
	c.Dir = t.TempDir()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, group := range []string{"| kill | 4 | 0 | 0 |", "| random | 2 |", "| memory | 2 | 0 | 0 |", "| storm | 1 | 0 | 0 |", "| deleted | 2 | 0 | 0 |", "| output | 1 | 0 | 0 |", "| answers | 2 | 0 | 0 |"} {
		if !strings.Contains(out.String(), group) {
			t.Errorf("the report does not hold %q:\n%s", group, out.String())
		}
	}
}
