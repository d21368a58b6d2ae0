package storetest

import (
	"fmt"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func memoryCases() []testCase {
	return []testCase{
		{"a memory reads back", memoryReadsBack},
		{"an agent's lesson becomes a memory", lessonBecomesMemory},
		{"a lesson learnt again becomes stronger", lessonAgainIsStronger},
		{"the same failure is one memory", sameFailureIsOneMemory},
		{"the memory of a service is bounded", memoryOfAServiceIsBounded},
		{"a memory fades", memoryFades},
		{"an operator's word stays the operator's", operatorsWordStays},
		{"the strongest and newest is recalled first", strongestIsRecalledFirst},
		{"what has expired is neither recalled nor listed", expiredIsForgotten},
		{"memories are listed in pages", memoriesAreListed},
		{"a memory is removed", memoryIsRemoved},
	}
}

func (f *Fixture) remember(t *testing.T, m ops.Memory) int64 {
	t.Helper()
	id, err := f.Store.AddMemory(t.Context(), m)
	must(t, err)
	return id
}

func (f *Fixture) memories(t *testing.T, filter store.MemoryFilter) []ops.Memory {
	t.Helper()
	got, err := f.Store.Memories(t.Context(), filter)
	must(t, err)
	return got
}

func memoryIDs(rows []ops.Memory) []int64 { return ids(rows, func(m ops.Memory) int64 { return m.ID }) }

func memoryReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	full := ops.Memory{
		Environment: "home", Category: "timing", Service: "web", Observation: "starts slowly", Confidence: 0.8, Source: "agent",
		SessionID: &session.ID, CreatedAt: Start.Add(-time.Hour), UpdatedAt: Start.Add(-time.Minute), ExpiresAt: ops.Ptr(Start.Add(time.Hour)),
	}
	full.ID = f.remember(t, full)
	short := ops.Memory{Category: "note", Observation: "call before ten"}
	short.ID = f.remember(t, short)
	short.Confidence, short.Source, short.CreatedAt, short.UpdatedAt = 0.5, "operator", Start, Start
	equal(t, "memories", f.memories(t, store.MemoryFilter{}), []ops.Memory{short, full})
}

// learn ends a session with a lesson at a time.
func (f *Fixture) learn(t *testing.T, at time.Time, lessons ...ops.Lesson) ops.Session {
	t.Helper()
	session := f.RunningSession(t, "home")
	ended := f.Ended(session, 0.1)
	f.Commit(t, ops.Transition{
		Cycle: session.CycleID, At: at, Result: ops.Result{Session: &ended, Lessons: lessons},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved},
	})
	return session
}

func slow() ops.Lesson {
	return ops.Lesson{Category: "timing", Service: "web", Observation: "starts slowly"}
}

func lessonBecomesMemory(t *testing.T, f *Fixture) {
	session := f.learn(t, Start, slow())
	got := f.memories(t, store.MemoryFilter{})
	equal(t, "memories", got, []ops.Memory{{
		ID: got[0].ID, Environment: "home", Category: "timing", Service: "web", Observation: "starts slowly", Confidence: 0.5,
		Source: "agent", SessionID: &session.ID, CreatedAt: Start, UpdatedAt: Start, ExpiresAt: ops.Ptr(Start.AddDate(0, 0, 90)),
	}})
}

func lessonAgainIsStronger(t *testing.T, f *Fixture) {
	f.learn(t, Start, slow())
	first := f.memories(t, store.MemoryFilter{})[0]
	later := Start.Add(24 * time.Hour)
	session := f.learn(t, later, slow())
	got := f.memories(t, store.MemoryFilter{})
	want := first
	want.UpdatedAt, want.ExpiresAt, want.SessionID = later, ops.Ptr(later.AddDate(0, 0, 90)), &session.ID
	if c := got[0].Confidence; c <= 0.58 || c >= 0.6 { // a day has worn off a little of the first half
		t.Errorf("confidence is %v", c)
	}
	want.Confidence = got[0].Confidence
	equal(t, "memories", got, []ops.Memory{want})
	for range 10 {
		f.learn(t, later, slow())
	}
	equal(t, "most", f.memories(t, store.MemoryFilter{})[0].Confidence, 0.95)
	// Anything else is another memory.
	f.learn(t, later, ops.Lesson{Category: "timing", Service: "db", Observation: "starts slowly"},
		ops.Lesson{Category: "other", Service: "web", Observation: "starts slowly"},
		ops.Lesson{Category: "timing", Service: "web", Observation: "Starts slowly!"})
	equal(t, "others", len(f.memories(t, store.MemoryFilter{})), 3)
}

// One bad key fails every cycle: that is one memory, not one per cycle.
func sameFailureIsOneMemory(t *testing.T, f *Fixture) {
	for i := range 31 {
		f.learn(t, Start.Add(time.Duration(i)*time.Hour), ops.Lesson{
			Category: "agent_failure", Observation: fmt.Sprintf("credentials: the API answered 401 at 12:%02d (request req_%012d)", i, i),
		})
	}
	equal(t, "memories", len(f.memories(t, store.MemoryFilter{})), 1)
}

func memoryOfAServiceIsBounded(t *testing.T, f *Fixture) {
	letters := "abcdefghij"
	for i := range 60 {
		f.learn(t, Start.Add(time.Duration(i)*time.Minute), ops.Lesson{
			Category: "c", Service: "web", Observation: "cause " + string(letters[i%10]) + string(letters[i/10]),
		})
	}
	equal(t, "memories", len(f.memories(t, store.MemoryFilter{Service: "web", Limit: 100})), 40)
}

// What nobody repeats fades, and what an operator said does not.
func memoryFades(t *testing.T, f *Fixture) {
	said := f.remember(t, ops.Memory{Environment: "home", Category: "c", Service: "web", Observation: "said", Confidence: 0.4, CreatedAt: Start})
	f.learn(t, Start, ops.Lesson{Category: "c", Service: "web", Observation: "seen once"})
	recall := func(at time.Time) []ops.Memory {
		out, err := f.Store.Recall(t.Context(), "home", []string{"web"}, at, 10)
		must(t, err)
		return out
	}
	equal(t, "fresh", recall(Start)[0].Observation, "seen once")
	equal(t, "after two months", recall(Start.AddDate(0, 2, 0))[0].ID, said)
}

func operatorsWordStays(t *testing.T, f *Fixture) {
	m := ops.Memory{Environment: "home", Category: "timing", Service: "web", Observation: "starts slowly", Confidence: 1}
	id := f.remember(t, m)
	f.learn(t, Start.Add(time.Hour), slow())
	got := f.memories(t, store.MemoryFilter{})
	if len(got) != 1 || got[0].Source != "operator" || got[0].Confidence != 1 || got[0].ExpiresAt != nil || got[0].SessionID != nil {
		t.Errorf("memories are %+v", got)
	}
	equal(t, "added again", f.remember(t, m), id)

	// What an operator confirms no longer expires.
	f.learn(t, Start, ops.Lesson{Category: "timing", Service: "db", Observation: "starts slowly"})
	m.Service, m.Confidence = "db", 0
	f.remember(t, m)
	got = f.memories(t, store.MemoryFilter{Service: "db"})
	if len(got) != 1 || got[0].Source != "operator" || got[0].Confidence != 0.6 || got[0].ExpiresAt != nil {
		t.Errorf("memories are %+v", got)
	}
}

func strongestIsRecalledFirst(t *testing.T, f *Fixture) {
	add := func(environment, service, text string, confidence float64, at time.Time) int64 {
		return f.remember(t, ops.Memory{
			Environment: environment, Category: "c", Service: service, Observation: text, Confidence: confidence, CreatedAt: at,
		})
	}
	old := add("home", "web", "old", 0.5, Start.Add(-time.Hour))
	recent := add("home", "web", "recent", 0.5, Start)
	strong := add("home", "web", "strong", 0.9, Start.Add(-time.Hour))
	general := add("home", "", "general", 0.4, Start)
	everywhere := add("", "", "everywhere", 0.3, Start)
	db := add("home", "db", "db", 0.6, Start)
	add("office", "web", "office", 1, Start)
	for _, tt := range []struct {
		services []string
		limit    int
		want     []int64
	}{
		{[]string{"web"}, 0, []int64{strong, recent, old, general, everywhere}},
		{[]string{"web", "db"}, 3, []int64{strong, db, recent}},
		{[]string{"mail"}, 0, []int64{general, everywhere}},
		{nil, 0, []int64{strong, db, recent, old, general, everywhere}},
	} {
		got, err := f.Store.Recall(t.Context(), "home", tt.services, Start, tt.limit)
		must(t, err)
		equal(t, "recalled", memoryIDs(got), tt.want)
	}
}

func expiredIsForgotten(t *testing.T, f *Fixture) {
	gone := f.remember(t, ops.Memory{Environment: "home", Category: "c", Observation: "gone", ExpiresAt: ops.Ptr(Start)})
	here := f.remember(t, ops.Memory{Environment: "home", Category: "c", Observation: "here", ExpiresAt: ops.Ptr(Start.Add(time.Hour))})
	equal(t, "listed", memoryIDs(f.memories(t, store.MemoryFilter{})), []int64{here})
	equal(t, "all", memoryIDs(f.memories(t, store.MemoryFilter{All: true})), []int64{here, gone})
	for at, want := range map[time.Time][]int64{Start: {here}, Start.Add(time.Hour): {}, Start.Add(-time.Second): {here, gone}} {
		got, err := f.Store.Recall(t.Context(), "home", nil, at, 0)
		must(t, err)
		equal(t, "recalled", memoryIDs(got), want)
	}
}

func memoriesAreListed(t *testing.T, f *Fixture) {
	a := f.remember(t, ops.Memory{Environment: "home", Category: "x", Service: "web", Observation: "1"})
	b := f.remember(t, ops.Memory{Environment: "home", Category: "y", Service: "db", Observation: "2"})
	c := f.remember(t, ops.Memory{Environment: "office", Category: "x", Service: "web", Observation: "3"})
	for _, tt := range []struct {
		filter store.MemoryFilter
		want   []int64
	}{
		{store.MemoryFilter{}, []int64{c, b, a}},
		{store.MemoryFilter{Environment: "home"}, []int64{b, a}},
		{store.MemoryFilter{Service: "web"}, []int64{c, a}},
		{store.MemoryFilter{Category: "y"}, []int64{b}},
		{store.MemoryFilter{Limit: 1}, []int64{c}},
		{store.MemoryFilter{Before: c, Limit: 1}, []int64{b}},
	} {
		equal(t, "memories", memoryIDs(f.memories(t, tt.filter)), tt.want)
	}
}

func memoryIsRemoved(t *testing.T, f *Fixture) {
	id := f.remember(t, ops.Memory{Category: "c", Observation: "wrong"})
	must(t, f.Store.RemoveMemory(t.Context(), id, "ann", Start))
	equal(t, "left", len(f.memories(t, store.MemoryFilter{All: true})), 0)
	wantErr(t, f.Store.RemoveMemory(t.Context(), id, "ann", Start), ops.ErrNotFound)
	f.remember(t, ops.Memory{Category: "c", Observation: "right\nand long", By: "bob"})
	events, err := f.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventMemory)})
	must(t, err)
	equal(t, "events", []string{events[0].Message, events[1].Message}, []string{"bob added memory 2: right", "ann removed memory 1: wrong"})
}
