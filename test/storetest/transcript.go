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

func outboxCases() []testCase {
	return []testCase{
		{"a notice is due from its time on", noticeIsDueFromItsTime},
		{"a failed attempt is tried again later", failedAttemptIsTriedAgain},
		{"a notice is settled once, with its event", noticeIsSettledOnce},
		{"an unknown notice is not found", unknownNoticeIsNotFound},
	}
}

func (f *Fixture) notice(t *testing.T, title string, next time.Time) ops.Notice {
	t.Helper()
	n := ops.Notice{Kind: "test", Level: ops.LevelCritical, Title: title, Body: "what to do", NextAt: next}
	id, err := f.Store.AddNotice(t.Context(), n)
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
		got, err := f.Store.DueNotices(t.Context(), at, limit)
		must(t, err)
		return got
	}
	equal(t, "due at the start", due(Start, 10), []ops.Notice{first, now, plain})
	equal(t, "due one", due(Start, 1), []ops.Notice{first})
	equal(t, "due later", noticeIDs(due(Start.Add(time.Hour), 10)), []int64{first.ID, now.ID, plain.ID, later.ID})
	pending, err := f.Store.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 4)
	all, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{Limit: 2})
	must(t, err)
	equal(t, "newest", all, []ops.Notice{plain, now})
}

func failedAttemptIsTriedAgain(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Attempts, n.NextAt, n.Error = 1, Start.Add(time.Minute), "connection refused"
	n.Deliveries = []ops.Delivery{{Route: "first", To: "ntfy at ntfy.sh", At: Start}}
	must(t, f.Store.SettleNotice(t.Context(), n, nil))
	got, err := f.Store.DueNotices(t.Context(), Start, 10)
	must(t, err)
	equal(t, "due at once", len(got), 0)
	got, err = f.Store.DueNotices(t.Context(), Start.Add(time.Minute), 10)
	must(t, err)
	equal(t, "due later", got, []ops.Notice{n})
}

func noticeIsSettledOnce(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	n.Status, n.Attempts, n.SentAt = ops.NoticeSent, 1, ops.Ptr(Start.Add(time.Second))
	event := &ops.Event{Level: ops.LevelInfo, Kind: "notice_sent", Message: "sent"}
	must(t, f.Store.SettleNotice(t.Context(), n, event))
	n.Status = ops.NoticeDead
	wantErr(t, f.Store.SettleNotice(t.Context(), n, event), ops.ErrConflict)
	n.Status = ops.NoticeSent
	got, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", got, []ops.Notice{n})
	events, err := f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", events, []ops.Event{{ID: events[0].ID, At: Start, Level: ops.LevelInfo, Kind: "notice_sent", Message: "sent"}})
	pending, err := f.Store.PendingNotices(t.Context())
	must(t, err)
	equal(t, "pending", pending, 0)
}

func unknownNoticeIsNotFound(t *testing.T, f *Fixture) {
	err := f.Store.SettleNotice(t.Context(), ops.Notice{ID: 999, Status: ops.NoticeSent},
		&ops.Event{Level: ops.LevelInfo, Kind: "notice_sent"})
	wantErr(t, err, ops.ErrNotFound)
	events, err := f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", len(events), 0)
}

func outgoingCases() []testCase {
	return []testCase{
		{"rows that are open or ended lately are news", openAndEndedRowsAreNews},
		{"events are kept once and in order", eventsAreKeptOnceAndInOrder},
		{"a target gets what comes after it was added", targetGetsWhatComesAfter},
		{"old events are removed and counted if somebody lacks them", oldEventsAreRemoved},
		{"a notice of the day is added once", noticeOfTheDayIsAddedOnce},
		{"spending counts today and the window", spendingCountsTodayAndTheWindow},
	}
}

func openAndEndedRowsAreNews(t *testing.T, f *Fixture) {
	open := f.Claim(t, "home")
	done := f.Claim(t, "away")
	f.Commit(t, ops.Transition{Cycle: done.Cycle.ID, At: Start.Add(time.Minute), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "disk full",
		Incident: &ops.IncidentReport{Title: "disk full", Level: ops.LevelCritical, Services: []string{"web"}},
	}})
	news := func(since time.Time) (ids []ops.CycleID, incidents int) {
		t.Helper()
		n, err := f.Store.NewsSince(t.Context(), since)
		must(t, err)
		for _, c := range n.Cycles {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids, len(n.Incidents)
	}
	ids, incidents := news(Start)
	equal(t, "news", ids, []ops.CycleID{open.Cycle.ID, done.Cycle.ID})
	equal(t, "incidents", incidents, 1)
	ids, incidents = news(Start.Add(time.Hour))
	equal(t, "later", ids, []ops.CycleID{open.Cycle.ID})
	equal(t, "incidents that are open", incidents, 1)
	_, err := f.Store.ResolveIncident(t.Context(), 1, "me", "", Start.Add(2*time.Minute))
	must(t, err)
	_, incidents = news(Start.Add(time.Hour))
	equal(t, "incidents that are over", incidents, 0)
	_, incidents = news(Start)
	equal(t, "incidents that ended lately", incidents, 1)
}

func (f *Fixture) outgoing(t *testing.T, at time.Time, ids ...string) {
	t.Helper()
	var all []store.OutgoingEvent
	for _, id := range ids {
		all = append(all, store.OutgoingEvent{EventID: id, Kind: "cycle", Environment: "home", At: at, Data: []byte(`{"id":"` + id + `"}`)})
	}
	must(t, f.Store.QueueEvents(t.Context(), all, at))
}

func (f *Fixture) eventsFor(t *testing.T, target string) (ids []string) {
	t.Helper()
	found, err := f.Store.EventsFor(t.Context(), target, 10)
	must(t, err)
	for _, e := range found {
		ids = append(ids, e.EventID)
		equal(t, "data", string(e.Data), `{"id":"`+e.EventID+`"}`)
	}
	return ids
}

func (f *Fixture) target(t *testing.T, names ...string) {
	t.Helper()
	_, _, err := f.Store.BeginEvents(t.Context(), names, Start.Add(-time.Hour))
	must(t, err)
}

func eventsAreKeptOnceAndInOrder(t *testing.T, f *Fixture) {
	f.target(t, "a")
	f.outgoing(t, Start, "one", "two")
	f.outgoing(t, Start.Add(time.Minute), "two", "three", "one")
	equal(t, "waiting", f.eventsFor(t, "a"), []string{"one", "two", "three"})
	unknown, err := f.Store.UnknownEvents(t.Context(), []string{"one", "four", "three"})
	must(t, err)
	equal(t, "unknown", unknown, map[string]bool{"four": true})
	first, err := f.Store.EventsFor(t.Context(), "a", 2)
	must(t, err)
	must(t, f.Store.EventTaken(t.Context(), "a", first[1].ID))
	must(t, f.Store.EventTaken(t.Context(), "a", first[0].ID)) // a late record does not go back
	equal(t, "after two", f.eventsFor(t, "a"), []string{"three"})
	floor, mark, err := f.Store.BeginEvents(t.Context(), []string{"a"}, Start.Add(-time.Hour))
	must(t, err)
	equal(t, "floor", floor, Start)
	equal(t, "mark", mark, Start.Add(time.Minute))
	floor, _, err = f.Store.BeginEvents(t.Context(), []string{"a"}, Start.Add(time.Hour))
	must(t, err)
	equal(t, "a floor that is too old", floor, Start.Add(time.Hour))
}

func targetGetsWhatComesAfter(t *testing.T, f *Fixture) {
	f.target(t, "a")
	f.outgoing(t, Start, "one")
	f.target(t, "a", "b")
	f.outgoing(t, Start, "two")
	equal(t, "the first target", f.eventsFor(t, "a"), []string{"one", "two"})
	equal(t, "the later one", f.eventsFor(t, "b"), []string{"two"})
	equal(t, "no target", len(f.eventsFor(t, "nobody")), 0)
}

func oldEventsAreRemoved(t *testing.T, f *Fixture) {
	f.target(t, "a", "gone")
	f.outgoing(t, Start, "one", "two")
	f.outgoing(t, Start.Add(time.Hour), "three")
	found, err := f.Store.EventsFor(t.Context(), "a", 1)
	must(t, err)
	must(t, f.Store.EventTaken(t.Context(), "a", found[0].ID))
	lost, err := f.Store.RemoveEvents(t.Context(), []string{"a"}, Start.Add(time.Minute))
	must(t, err)
	equal(t, "lost", lost, int64(1))
	equal(t, "left", f.eventsFor(t, "a"), []string{"three"})
	equal(t, "a target that is not configured any more", len(f.eventsFor(t, "gone")), 0)
}

func noticeOfTheDayIsAddedOnce(t *testing.T, f *Fixture) {
	add := func(key string, at time.Time) bool {
		t.Helper()
		added, err := f.Store.AddNoticeOnce(t.Context(), ops.Notice{Kind: ops.NoticeBudget, Level: ops.LevelWarning, Title: "t", Key: key, CreatedAt: at, NextAt: at},
			ops.Event{At: at, Level: ops.LevelWarning, Kind: ops.EventNotification, Message: "m"}, at.Truncate(24*time.Hour))
		must(t, err)
		return added
	}
	equal(t, "first", add("k", Start), true)
	equal(t, "seven hours later", add("k", Start.Add(7*time.Hour)), false)
	equal(t, "another key", add("other", Start), true)
	equal(t, "the next day", add("k", Start.Add(24*time.Hour)), true)
	events, err := f.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
	must(t, err)
	equal(t, "events", len(events), 3)
}

func spendingCountsTodayAndTheWindow(t *testing.T, f *Fixture) {
	midnight := Start.Truncate(24 * time.Hour)
	spending := func(environment string, window time.Duration, now time.Time) ops.Spending {
		t.Helper()
		spent, err := f.Store.Spending(t.Context(), environment, window, now)
		must(t, err)
		return spent
	}
	equal(t, "nothing", spending("home", 3*time.Hour, Start), ops.Spending{})

	f.spend(t, "home", ops.Ptr(16.0), midnight.Add(-time.Microsecond)) // yesterday
	f.spend(t, "home", ops.Ptr(1.0), midnight)
	f.spend(t, "home", ops.Ptr(2.0), Start.Add(-3*time.Hour-time.Microsecond)) // before the window
	f.spend(t, "home", ops.Ptr(4.0), Start.Add(-3*time.Hour))
	f.spend(t, "home", ops.Ptr(8.0), Start.Add(-time.Minute))
	f.spend(t, "home", nil, Start.Add(-time.Minute)) // its cost is not known
	f.spend(t, "away", ops.Ptr(64.0), Start.Add(-time.Minute))

	equal(t, "today and the last hours", spending("home", 3*time.Hour, Start), ops.Spending{TodayUSD: 15, RecentUSD: 12})
	equal(t, "of another environment", spending("away", 3*time.Hour, Start), ops.Spending{TodayUSD: 64, RecentUSD: 64})
	equal(t, "the window reaches into yesterday", spending("home", 13*time.Hour, Start), ops.Spending{TodayUSD: 15, RecentUSD: 31})
	tomorrow := midnight.Add(24 * time.Hour)
	equal(t, "the next day", spending("home", 13*time.Hour, tomorrow), ops.Spending{RecentUSD: 8})
	equal(t, "long ago", spending("home", time.Hour, tomorrow), ops.Spending{})
}
