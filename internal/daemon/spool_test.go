package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func spoolLines(from, n int) []ops.Line {
	var out []ops.Line
	for i := range n {
		out = append(out, ops.Line{Seq: int64(from + i), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Text: strings.Repeat("é\n", i)})
	}
	return out
}

func keepInSpool(t *testing.T, s *spool, id ops.SessionID, l []ops.Line) {
	t.Helper()
	must(t, s.Keep(id, l))
}

func TestWhatIsKeptIsHandedOverInOrderAndThenGone(t *testing.T) {
	s := newSpool(filepath.Join(t.TempDir(), "spool"))
	keepInSpool(t, s, 7, spoolLines(1, 3))
	keepInSpool(t, s, 7, spoolLines(4, 1200))
	keepInSpool(t, s, 8, spoolLines(1, 1))
	got := map[ops.SessionID][]ops.Line{}
	take := func(_ context.Context, id ops.SessionID, l []ops.Line) error {
		got[id] = append(got[id], l...)
		return nil
	}
	must(t, s.Deliver(t.Context(), take))
	if len(got[7]) != 1203 || len(got[8]) != 1 || got[7][2].Text != "é\né\n" || got[7][1202].Seq != 1203 {
		t.Errorf("handed over %d and %d spoolLines", len(got[7]), len(got[8]))
	}
	if s.Holds(7) || s.Holds(8) {
		t.Error("something still waits")
	}
}

func TestNothingIsLostWhileNobodyTakesIt(t *testing.T) {
	dir := t.TempDir()
	s := newSpool(dir)
	keepInSpool(t, s, 7, spoolLines(1, 600))
	taken := 0
	down := errors.New("the database is away")
	err := s.Deliver(t.Context(), func(context.Context, ops.SessionID, []ops.Line) error {
		if taken++; taken == 2 {
			return down
		}
		return nil
	})
	if !errors.Is(err, down) || !s.Holds(7) {
		t.Fatalf("got %v; waits: %v", err, s.Holds(7))
	}
	// A crash in the middle of a write leaves half a line that nobody was told of.
	f, err := os.OpenFile(filepath.Join(dir, "7.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, _ = f.WriteString(`{"seq":601,"at":"20`)
	_ = f.Close()
	n := 0
	if err := newSpool(dir).Deliver(t.Context(), func(_ context.Context, _ ops.SessionID,
		l []ops.Line,
	) error {
		n += len(l)
		return nil
	}); err != nil || n != 600 {
		t.Errorf("handed over %d spoolLines, %v", n, err)
	}
}

func TestWhatIsRefusedForGoodIsSetAside(t *testing.T) {
	dir := t.TempDir()
	s := newSpool(dir)
	keepInSpool(t, s, 7, spoolLines(1, 1))
	keepInSpool(t, s, 8, spoolLines(1, 1))
	var taken []ops.SessionID
	err := s.Deliver(t.Context(), func(_ context.Context, id ops.SessionID, _ []ops.Line) error {
		if id == 7 {
			return ops.ErrNotFound
		}
		taken = append(taken, id)
		return nil
	})
	if err != nil || len(taken) != 1 || s.Holds(7) {
		t.Errorf("took %v, %v", taken, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "7.jsonl.refused")); err != nil {
		t.Error(err)
	}
}

func TestASpoolHasAnEnd(t *testing.T) {
	s := newSpool(t.TempDir())
	big := []ops.Line{{Seq: 1, Text: strings.Repeat("x", 40<<20)}}
	keepInSpool(t, s, 7, big)
	if err := s.Keep(7, big); !errors.Is(err, errSpoolFull) {
		t.Errorf("got %v", err)
	}
}
