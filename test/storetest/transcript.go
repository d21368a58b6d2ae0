package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func transcriptCases() []testCase {
	return []testCase{
		{"output is read the same from rows and from blocks", outputInBlocks},
		{"lines read back in order, page by page", linesReadBack},
		{"any text reads back unchanged", anyTextReadsBack},
		{"a number that is taken refuses the whole batch", takenNumberRefusesBatch},
		{"lines may still come after the session ended", linesAfterTheEnd},
	}
}

func lines(from, count int) []ops.Line {
	out := make([]ops.Line, count)
	for i := range out {
		n := from + i
		out[i] = ops.Line{Seq: int64(n), At: Start.Add(time.Duration(n) * time.Microsecond), Text: fmt.Sprintf("line %d", n)}
	}
	return out
}

func linesReadBack(t *testing.T, f *Fixture) {
	session, other := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, nil))
	var want []ops.Line
	// Sizes around those of the prepared statements.
	for _, n := range []int{1, 9, 10, 11, 99, 100, 101, 523} {
		batch := lines(len(want)+1, n)
		must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
		want = append(want, batch...)
	}
	must(t, f.Store.AppendTranscript(t.Context(), f.Owner, other.ID, lines(1, 3)))

	count, err := f.Store.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	equal(t, "count", count, int64(len(want)))
	var got []ops.Line
	for {
		after := int64(0)
		if len(got) > 0 {
			after = got[len(got)-1].Seq
		}
		page, err := f.Store.Transcript(t.Context(), session.ID, after, 100)
		must(t, err)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines read back, want %d, in order", len(got), len(want))
	}
}

func anyTextReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	texts := []string{"", " ", "ü – 漢字 – 🙂", `quo"te ' ; DROP TABLE sessions; -- ?`, strings.Repeat("long ", 400_000)}
	for i, text := range texts {
		must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: int64(i + 1), At: Start, Text: text}}))
	}
	got, err := f.Store.Transcript(t.Context(), session.ID, 0, 10)
	must(t, err)
	if len(got) != len(texts) {
		t.Fatalf("%d lines read back, want %d", len(got), len(texts))
	}
	for i, l := range got {
		if l.Text != texts[i] {
			t.Errorf("line %d changed", l.Seq)
		}
	}
}

func takenNumberRefusesBatch(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, lines(150, 1)))
	wantErr(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, lines(1, 200)), ops.ErrConflict)
	got, err := f.Store.Transcript(t.Context(), session.ID, 0, 500)
	must(t, err)
	equal(t, "lines", got, lines(150, 1))
	count, err := f.Store.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	equal(t, "count", count, 1)
}

func linesAfterTheEnd(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.Commit(t, f.Escalation(session, 1))
	f.EndCycle(t, session.CycleID)
	must(t, f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, lines(1, 1)))
}
