package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// copied copies files of a database, as a machine that lost its power leaves them.
func copied(t *testing.T, path string, endings ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, ending := range endings {
		raw, err := os.ReadFile(path + ending)
		succeeds(t, err)
		succeeds(t, os.WriteFile(to+ending, raw, 0o600))
	}
	return to
}

func TestTheLostEndOfALogIsSaid(t *testing.T) {
	path := newFile(t)
	s := openFile(t, path)
	mark := func(s *store.Store) {
		t.Helper()
		if err := s.MarkOpen(t.Context()); err != nil { // its commit always gets a mark
			t.Fatal(err)
		}
	}
	mark(s)
	for range 3 {
		_, err := s.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Verb: ops.VerbRequestDone, Message: ops.Render("ann did something")})
		succeeds(t, err)
	}
	for what, endings := range map[string][]string{"all of it": {"", "-wal", "-mark"}, "no mark": {"", "-wal"}, "a mark that is none": {"", "-wal"}} {
		to := copied(t, path, endings...)
		if what == "a mark that is none" {
			succeeds(t, os.WriteFile(to+"-mark", []byte("gibberish"), 0o600))
		}
		if got := openFile(t, to).Lost(); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	to := copied(t, path, "", "-mark") // the log is gone
	again := openFile(t, to)
	if got := again.Lost(); !strings.Contains(got, "between its beginning and 20") || !strings.Contains(got, "end of its log is missing") {
		t.Errorf("%q", got)
	}
	// A command beside it takes nothing away; whoever works on the journal says it, and then it is said.
	if got := openFile(t, to).Lost(); got == "" {
		t.Error("a command made it forgotten")
	}
	mark(again)
	if got := openFile(t, to).Lost(); got != "" {
		t.Errorf("it is said again: %s", got)
	}
	closeStore(t, s)
	older := copied(t, path, "")
	s = openFile(t, path)
	if got := s.Lost(); got != "" {
		t.Errorf("after a clean stop: %s", got)
	}
	mark(s)
	closeStore(t, s)
	raw, err := os.ReadFile(path + "-mark")
	succeeds(t, err)
	succeeds(t, os.WriteFile(older+"-mark", raw, 0o600))
	if got := openFile(t, older).Lost(); !strings.Contains(got, "an older copy") {
		t.Errorf("an older copy: %q", got)
	}
}
