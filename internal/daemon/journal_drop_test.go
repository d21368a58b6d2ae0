package daemon

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

func TestOutputIsDroppedAndCountedWhileTheDiskIsNearlyFull(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "claudeops.db")})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f := storetest.NewFixture(t, s)
	session := f.RunningSession(t, "home")
	scarce := false
	j := &journal{
		Store: s, spool: newSpool(filepath.Join(dir, "spool")), host: storetest.Host, log: slog.New(slog.DiscardHandler),
		scarce: func() bool { return scarce },
	}
	seq := int64(0)
	add := func(n int) {
		t.Helper()
		var lines []ops.Line
		for range n {
			seq++
			lines = append(lines, ops.Line{Seq: seq, At: f.At, Text: fmt.Sprintf("line %05d", seq)})
		}
		must(t, j.AppendTranscript(t.Context(), f.Owner, session.ID, lines))
	}
	add(10)
	scarce = true
	add(20)
	add(5)
	scarce = false
	add(3)
	scarce = true
	add(7)
	scarce = false
	must(t, j.deliver(t.Context()))
	lines, err := s.Transcript(t.Context(), session.ID, 0, 100)
	must(t, err)
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprint(l.Seq))
	}
	if want := "1 2 3 4 5 6 7 8 9 10 11 36 37 38 39"; strings.Join(got, " ") != want {
		t.Errorf("stored lines %s, want %s", strings.Join(got, " "), want)
	}
	if !strings.Contains(lines[10].Text, "25 lines (") || !strings.Contains(lines[10].Text, "nearly full") || !strings.Contains(lines[14].Text, "7 lines") {
		t.Errorf("the marks are %q and %q", lines[10].Text, lines[14].Text)
	}
	if n, err := s.TranscriptCount(t.Context(), session.ID); err != nil || n != seq {
		t.Errorf("counted %d of %d lines, %v", n, seq, err)
	}
}

func TestADatabaseThatIsGoneOrCannotBeWrittenEndsWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		fault      error
		does, says string
	}{
		{store.ErrReplaced, "db restore", "the database file was removed or replaced"},
		{store.ErrUnwritable, "repair the file system", "the file system of the database is read-only or cannot be written"},
	} {
		s := readinessOf(1 << 40)
		var gone error
		s.present = func() error { return gone }
		running, free := s.Bound(t.Context())
		defer free()
		gone = fmt.Errorf("%w: /srv/secret", tt.fault)
		err := s.trouble()
		if err == nil || !strings.Contains(err.Error(), tt.does) || s.hold(t.Context(), ops.Tier1) == nil {
			t.Fatalf("trouble is %v", err)
		}
		h := &Host{readiness: s}
		if got := h.unfit().Error(); got != tt.says {
			t.Errorf("strangers are told %q", got)
		}
		s.follow(err)
		<-running.Done()
		gone = nil
		s.follow(s.trouble())
		again, freeAgain := s.Bound(t.Context())
		defer freeAgain()
		if again.Err() != nil {
			t.Errorf("%v is over, and nothing may run", tt.fault)
		}
	}
}
