package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// outputInBlocks stores output in small and large batches, with a gap, and reads it before and after it is packed.
func outputInBlocks(t *testing.T, f *Fixture) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // repeatable
	session, other := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	var all []ops.Line
	at := Start
	for seq := int64(0); len(all) < 6000; {
		var batch []ops.Line
		for range []int{1, 3, 20, 400, 900}[random.IntN(5)] {
			seq++
			at = at.Add(time.Duration(random.IntN(2_000_000)-100) * time.Microsecond) // a clock may be set back
			batch = append(batch, ops.Line{Seq: seq, At: at, Text: fmt.Sprintf("Line %d %s", seq, strings.Repeat("né ", random.IntN(60)))})
		}
		if random.IntN(10) == 0 {
			seq += 5 // these are missing
		}
		must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
		must(t, f.Store.AppendTranscript(t.Context(), f.Owner, other.ID, []ops.Line{{Seq: int64(len(all) + 1), At: at, Text: "other line 1"}}))
		all = append(all, batch...)
	}
	for _, seq := range []int64{all[0].Seq, all[len(all)/2].Seq, all[len(all)-1].Seq} {
		wantErr(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: seq, At: at, Text: "again"}}), ops.ErrConflict)
	}
	large := []ops.Line{{Seq: all[0].Seq, At: at, Text: strings.Repeat("again ", 10_000)}}
	wantErr(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, large), ops.ErrConflict)
	f.wantOutput(t, session.ID, all, random)
	ended := f.Ended(session, 1)
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	})
	if batches := f.pack(t, f.At.Add(23*time.Hour)); batches != 0 {
		t.Errorf("%d blocks were made within a day", batches)
	}
	if batches := f.pack(t, f.At.Add(25*time.Hour)); batches == 0 {
		t.Error("nothing was packed after a day")
	}
	must(t, f.Store.AppendSpooled(t.Context(), Host, session.ID, []ops.Line{{Seq: all[7].Seq, At: at, Text: "again"}}))
	f.wantOutput(t, session.ID, all, random)
	f.sound(t)
}

// pack packs what is to be packed at a time, and returns how many blocks were made.
func (f *Fixture) pack(t *testing.T, now time.Time) (blocks int) {
	t.Helper()
	for {
		n, more, err := f.Store.RemoveOld(t.Context(), ops.RecordTranscripts, ops.Retention{}, now)
		must(t, err)
		equal(t, "removed", n, 0)
		if !more {
			return blocks
		}
		blocks++
	}
}

func (f *Fixture) wantOutput(t *testing.T, id ops.SessionID, all []ops.Line, random *rand.Rand) {
	t.Helper()
	for range 60 {
		from, limit := random.IntN(len(all)), 1+random.IntN([]int{3, 300, 3000}[random.IntN(3)])
		got, err := f.Store.Transcript(t.Context(), id, all[from].Seq-1, limit)
		must(t, err)
		want := all[from:min(len(all), from+limit)]
		if len(got) != len(want) {
			t.Fatalf("%d lines from %d on, want %d", len(got), all[from].Seq, len(want))
		}
		for i := range want {
			if got[i].Seq != want[i].Seq || got[i].Text != want[i].Text || !got[i].At.Equal(want[i].At) {
				t.Fatalf("line %+v, want %+v", got[i], want[i])
			}
		}
	}
	for _, seq := range []int64{all[0].Seq, all[len(all)/3].Seq, all[len(all)-1].Seq} {
		found, err := f.Store.FindLines(t.Context(), id, fmt.Sprintf("LINE %d ", seq), 10)
		must(t, err)
		if len(found) != 1 || found[0].Seq != seq {
			t.Errorf("found %+v of line %d", found, seq)
		}
	}
	if found, err := f.Store.FindLines(t.Context(), id, "né né", 1); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	found, err := f.Store.FindLines(t.Context(), id, "line 1", 200)
	must(t, err)
	n := 0
	for _, l := range all {
		if strings.HasPrefix(l.Text, "Line 1") && n < 200 {
			if n >= len(found) || found[n].Seq != l.Seq {
				t.Fatalf("%d of the lines that contain it were found, not line %d", len(found), l.Seq)
			}
			n++
		}
	}
}
