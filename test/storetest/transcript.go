package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func transcriptCases() []testCase {
	return []testCase{
		{"output is read as it was stored", outputAsStored},
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
	must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, nil))
	var want []ops.Line
	// Sizes around those of the prepared statements.
	for _, n := range []int{1, 9, 10, 11, 99, 100, 101, 523} {
		batch := lines(len(want)+1, n)
		must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
		want = append(want, batch...)
	}
	must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, other.ID, lines(1, 3)))

	count, err := f.Store.Journal.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	equal(t, "count", count, int64(len(want)))
	var got []ops.Line
	for {
		after := int64(0)
		if len(got) > 0 {
			after = got[len(got)-1].Seq
		}
		page, err := f.Store.Journal.Transcript(t.Context(), session.ID, after, 100)
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
		must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: int64(i + 1), At: Start, Text: text}}))
	}
	got, err := f.Store.Journal.Transcript(t.Context(), session.ID, 0, 10)
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
	must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines(150, 1)))
	wantErr(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines(1, 200)), ops.ErrConflict)
	got, err := f.Store.Journal.Transcript(t.Context(), session.ID, 0, 500)
	must(t, err)
	equal(t, "lines", got, lines(150, 1))
	count, err := f.Store.Journal.TranscriptCount(t.Context(), session.ID)
	must(t, err)
	equal(t, "count", count, 1)
}

func linesAfterTheEnd(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.Commit(t, f.Escalation(session, 1))
	f.EndCycle(t, session.CycleID)
	must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines(1, 1)))
}

// outputAsStored stores output in small and large batches, with a gap, and reads it.
func outputAsStored(t *testing.T, f *Fixture) {
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
		must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, batch))
		must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, other.ID, []ops.Line{{Seq: int64(len(all) + 1), At: at, Text: "other line 1"}}))
		all = append(all, batch...)
	}
	for _, seq := range []int64{all[0].Seq, all[len(all)/2].Seq, all[len(all)-1].Seq} {
		wantErr(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: seq, At: at, Text: "again"}}), ops.ErrConflict)
	}
	large := []ops.Line{{Seq: all[0].Seq, At: at, Text: strings.Repeat("again ", 10_000)}}
	wantErr(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, large), ops.ErrConflict)
	f.wantOutput(t, session.ID, all, random)
	ended := f.Ended(session, 1)
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy},
	})
	must(t, f.Store.Journal.AppendSpooled(t.Context(), Host, session.ID, []ops.Line{{Seq: all[7].Seq, At: at, Text: "again"}}))
	f.wantOutput(t, session.ID, all, random)
	f.sound(t)
}

func (f *Fixture) wantOutput(t *testing.T, id ops.SessionID, all []ops.Line, random *rand.Rand) {
	t.Helper()
	for range 60 {
		from, limit := random.IntN(len(all)), 1+random.IntN([]int{3, 300, 3000}[random.IntN(3)])
		got, err := f.Store.Journal.Transcript(t.Context(), id, all[from].Seq-1, limit)
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
		found, err := f.Store.Journal.FindLines(t.Context(), id, fmt.Sprintf("LINE %d ", seq), 10)
		must(t, err)
		if len(found) != 1 || found[0].Seq != seq {
			t.Errorf("found %+v of line %d", found, seq)
		}
	}
	if found, err := f.Store.Journal.FindLines(t.Context(), id, "né né", 1); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	found, err := f.Store.Journal.FindLines(t.Context(), id, "line 1", 200)
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

func outboxCases() []testCase {
	return []testCase{
		{"a notice is due from its time on", noticeIsDueFromItsTime},
		{"a failed attempt is tried again later", failedAttemptIsTriedAgain},
		{"a notice is settled once, with its event", noticeIsSettledOnce},
		{"an unknown notice is not found", unknownNoticeIsNotFound},
		{"a notice of the day is added once", noticeOfTheDayIsAddedOnce},
	}
}

func (f *Fixture) notice(t *testing.T, title string, next time.Time) ops.Notice {
	t.Helper()
	n := ops.Notice{Kind: "test", Level: ops.LevelCritical, Title: title, Body: "what to do", NextAt: next}
	id, err := f.Store.People.AddNotice(t.Context(), n)
	must(t, err)
	n.ID, n.Status, n.CreatedAt = id, ops.NoticePending, Start
	return n
}

func noticeIsDueFromItsTime(t *testing.T, f *Fixture) {
	later := f.notice(t, "later", Start.Add(time.Minute))
	first := f.notice(t, "first", Start.Add(-time.Minute))
	now := f.notice(t, "now", Start)
	plain := f.notice(t, "plain", time.Time{})
	plain.NextAt = Start

	due := func(at time.Time, limit int) []ops.Notice {
		t.Helper()
		got, err := f.Store.People.DueNotices(t.Context(), at, limit)
		must(t, err)
		return got
	}
	equal(t, "due at the start", due(Start, 10), []ops.Notice{first, now, plain})
	equal(t, "due one", due(Start, 1), []ops.Notice{first})
	equal(t, "due later", noticeIDs(due(Start.Add(time.Hour), 10)), []int64{first.ID, now.ID, plain.ID, later.ID})
	pending, err := f.Store.People.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 4)
	all, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 2})
	must(t, err)
	equal(t, "newest", all, []ops.Notice{plain, now})
}

func failedAttemptIsTriedAgain(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Attempts, n.NextAt, n.Error = 1, Start.Add(time.Minute), "connection refused"
	n.Deliveries = []ops.Delivery{{Route: "first", To: "ntfy at ntfy.sh", At: Start}}
	must(t, f.Store.People.SettleNotice(t.Context(), n, nil))
	got, err := f.Store.People.DueNotices(t.Context(), Start, 10)
	must(t, err)
	equal(t, "due at once", len(got), 0)
	got, err = f.Store.People.DueNotices(t.Context(), Start.Add(time.Minute), 10)
	must(t, err)
	equal(t, "due later", got, []ops.Notice{n})
}

func noticeIsSettledOnce(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Status, n.Attempts, n.SentAt = ops.NoticeSent, 1, ops.Ptr(Start.Add(time.Second))
	event := &ops.Event{Level: ops.LevelInfo, Verb: ops.VerbNoticeRetried, Reason: "sent"}
	must(t, f.Store.People.SettleNotice(t.Context(), n, event))
	n.Status = ops.NoticeDead
	wantErr(t, f.Store.People.SettleNotice(t.Context(), n, event), ops.ErrConflict)
	n.Status = ops.NoticeSent
	got, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", got, []ops.Notice{n})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", events, []ops.Event{
		written(ops.Event{ID: events[0].ID, At: Start, Level: ops.LevelInfo, Verb: ops.VerbNoticeRetried, Reason: "sent"}),
	})
	pending, err := f.Store.People.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 0)
}

func unknownNoticeIsNotFound(t *testing.T, f *Fixture) {
	err := f.Store.People.SettleNotice(t.Context(), ops.Notice{ID: 999, Status: ops.NoticeSent},
		&ops.Event{Level: ops.LevelInfo, Verb: ops.VerbNoticeRetried})
	wantErr(t, err, ops.ErrNotFound)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", len(events), 0)
}

func noticeOfTheDayIsAddedOnce(t *testing.T, f *Fixture) {
	add := func(key string, at time.Time) bool {
		t.Helper()
		added, err := f.Store.People.AddNoticeOnce(t.Context(), ops.Notice{Kind: ops.NoticeBudget, Level: ops.LevelWarning, Title: "t", Key: key, CreatedAt: at, NextAt: at},
			ops.Event{At: at, Level: ops.LevelWarning, Verb: ops.VerbNoticeFailed, Reason: "m"}, at.Truncate(24*time.Hour))
		must(t, err)
		return added
	}
	equal(t, "first", add("k", Start), true)
	equal(t, "seven hours later", add("k", Start.Add(7*time.Hour)), false)
	equal(t, "another key", add("other", Start), true)
	equal(t, "the next day", add("k", Start.Add(24*time.Hour)), true)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
	must(t, err)
	equal(t, "events", len(events), 3)
}
