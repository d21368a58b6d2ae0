package storetest

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // reads copies of files

	"claudeops/internal/decide"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/cycletest"
)

// Step is a stored step of a cycle.
type Step struct {
	Cycle ops.CycleID
	N     int
	At    string
	Row   string
	Facts json.RawMessage
}

// Steps reads the stored steps of all cycles, in order. The program reads no time and no row of them, so it looks into the database itself.
func Steps(tb testing.TB, s *store.Store) []Step {
	tb.Helper()
	const query = `SELECT cycle_id, n, at, "row", facts FROM steps ORDER BY id`
	var out []Step
	scan := func(next func() bool, scan func(...any) error) {
		for next() {
			var step Step
			var facts string
			must(tb, scan(&step.Cycle, &step.N, &step.At, &step.Row, &facts))
			step.Facts = json.RawMessage(facts)
			out = append(out, step)
		}
	}
	if pool := s.Pool(); pool != nil {
		rows, err := pool.Query(tb.Context(), query)
		must(tb, err)
		defer rows.Close()
		scan(rows.Next, rows.Scan)
		must(tb, rows.Err())
		return out
	}
	path := filepath.Join(tb.TempDir(), "copy.db")
	must(tb, s.Rescue(tb.Context(), path))
	file, err := sql.Open("sqlite", path)
	must(tb, err)
	defer func() { _ = file.Close() }()
	rows, err := file.QueryContext(tb.Context(), query)
	must(tb, err)
	defer func() { _ = rows.Close() }()
	scan(rows.Next, rows.Scan)
	must(tb, rows.Err())
	return out
}

// ReplaySteps decides every stored step of every cycle again, from what is stored of it, and reports what is decided otherwise.
func ReplaySteps(tb testing.TB, s *store.Store) []Step {
	tb.Helper()
	all := Steps(tb, s)
	byCycle := map[ops.CycleID][]Step{}
	for _, step := range all {
		byCycle[step.Cycle] = append(byCycle[step.Cycle], step)
	}
	for id, steps := range byCycle {
		var frames []json.RawMessage
		for _, step := range steps {
			frames = append(frames, step.Facts)
		}
		taken, err := cycletest.DecodeFrames(frames)
		must(tb, err)
		for i, d := range taken {
			was := d.Step
			d.Step = decide.Next(notice.Steps{}, ops.Claimed{Cycle: d.Cycle, Journal: d.Journal}, d.At)
			if d.Cycle.ID != id || steps[i].N != i+1 || steps[i].Row != d.Step.Row {
				tb.Errorf("step %d of cycle %d, row %q, is stored as number %d of cycle %d, row %q", i+1, d.Cycle.ID, d.Step.Row, steps[i].N, id, steps[i].Row)
			}
			for _, difference := range cycletest.Differences(tb, was, d.Lean().Step) {
				tb.Errorf("step %d of cycle %d (row %q): %s", i+1, id, steps[i].Row, difference)
			}
		}
	}
	return all
}

func stepCases() []testCase {
	return []testCase{
		{"what a step was decided from is written with it", factsAreWrittenWithTheirStep},
		{"a step that is not written leaves no facts", failedStepLeavesNoFacts},
		{"steps are counted by cycle, whoever writes them", stepsAreCountedByCycle},
		{"the record is read in pages, the newest first", recordIsRead},
	}
}

// decided is a transition with facts.
func decided(t ops.Transition, row, facts string) ops.Transition {
	t.Step.Row, t.Facts = row, []byte(facts)
	return t
}

func factsAreWrittenWithTheirStep(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	equal(t, "before", Steps(t, f.Store), nil)
	const facts = `{"at":"2026-03-14T12:01:00.123456789Z","set":{"cycle.Prompt":"\u0000 'ü' ? $1"},"step":{}}`
	f.Commit(t, decided(f.Escalation(session, 1), "escalation proposed", facts))
	equal(t, "stored", Steps(t, f.Store), []Step{{
		Cycle: session.CycleID, N: 1, At: "2026-03-14T12:01:00.000000Z", Row: "escalation proposed", Facts: json.RawMessage(facts),
	}})
}

func failedStepLeavesNoFacts(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	twice := decided(f.Escalation(session, 1), "escalation proposed", `{}`)
	twice.Step.Session = &ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, twice)
	wantErr(t, err, ops.ErrConflict)
	equal(t, "of a refused step", Steps(t, f.Store), nil)
	foreign := f.Owner
	foreign.Host = "host-b"
	if _, err := f.Store.Journal.Commit(t.Context(), foreign, decided(f.Escalation(session, 1), "escalation proposed", `{}`)); err == nil {
		t.Error("another host committed")
	}
	equal(t, "of another host", Steps(t, f.Store), nil)
}

func stepsAreCountedByCycle(t *testing.T, f *Fixture) {
	home, office := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	f.Commit(t, decided(f.Escalation(home, 1), "a", `{}`))
	f.Commit(t, decided(f.Escalation(office, 1), "b", `{}`))
	owner, err := f.Store.Journal.RegisterHost(t.Context(), Host) // the host starts again
	must(t, err)
	f.Owner = owner
	_, err = f.Store.Journal.Claim(t.Context(), owner, home.CycleID, Policy(), f.At)
	must(t, err)
	f.Commit(t, decided(ops.Transition{Cycle: home.CycleID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy}}, "c", `{}`))
	type place struct {
		Cycle ops.CycleID
		N     int
		Row   string
	}
	equal(t, "steps", ids(Steps(t, f.Store), func(s Step) place { return place{s.Cycle, s.N, s.Row} }),
		[]place{{home.CycleID, 1, "a"}, {office.CycleID, 1, "b"}, {home.CycleID, 2, "c"}})
}

func recordIsRead(t *testing.T, f *Fixture) {
	home, office := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	f.Commit(t, decided(f.Escalation(home, 1), "a", `{"a":1}`))
	f.Commit(t, decided(f.Escalation(office, 1), "b", `{"b":1}`))
	f.EndCycle(t, home.CycleID)
	undecided := f.Claim(t, "home").Cycle.ID
	of := func(c ops.Recorded) ops.CycleID { return c.ID }
	for _, page := range []struct {
		filter store.RecordFilter
		want   []ops.CycleID
	}{
		{store.RecordFilter{Limit: 10}, []ops.CycleID{office.CycleID, home.CycleID}},
		{store.RecordFilter{Limit: 1}, []ops.CycleID{office.CycleID}},
		{store.RecordFilter{Limit: 1, Before: int64(office.CycleID)}, []ops.CycleID{home.CycleID}},
		{store.RecordFilter{Limit: 1, Cycle: home.CycleID}, []ops.CycleID{home.CycleID}},
		{store.RecordFilter{Limit: 1, Before: int64(home.CycleID)}, []ops.CycleID{}},
		{store.RecordFilter{Limit: 1, Cycle: undecided}, []ops.CycleID{}},
	} {
		got, err := f.Store.Reports.Recorded(t.Context(), page.filter)
		must(t, err)
		equal(t, "cycles", ids(got, of), page.want)
	}
	got, err := f.Store.Reports.Recorded(t.Context(), store.RecordFilter{Limit: 1, Cycle: home.CycleID})
	must(t, err)
	c := got[0]
	if c.Environment != "home" || len(c.Steps) != 1 || c.Steps[0].N != 1 || string(c.Steps[0].Facts) != `{"a":1}` || len(c.Decisions) != 1 ||
		c.Decisions[0].Family != home.Family || c.At.IsZero() {
		t.Errorf("recorded is %+v", c)
	}
}

// judgedCallsAreRead: those of all sessions, the newest first, with their environments.
func judgedCallsAreRead(t *testing.T, f *Fixture) {
	home, office := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	first, second := f.hook(t, home, "toolu_1"), f.hook(t, office, "toolu_2")
	for _, page := range []struct {
		filter store.RecordFilter
		want   []store.JudgedCall
	}{
		{store.RecordFilter{Limit: 10}, []store.JudgedCall{{GuardRecord: second, Environment: "office"}, {GuardRecord: first, Environment: "home"}}},
		{store.RecordFilter{Limit: 10, Before: second.ID}, []store.JudgedCall{{GuardRecord: first, Environment: "home"}}},
		{store.RecordFilter{Limit: 10, Cycle: office.CycleID}, []store.JudgedCall{{GuardRecord: second, Environment: "office"}}},
	} {
		got, err := f.Store.Reports.JudgedCalls(t.Context(), page.filter)
		must(t, err)
		equal(t, "calls", got, page.want)
	}
}

// Steps go when they are as old as events may be, unless their cycle is still needed, in parts.
func oldStepsGo(t *testing.T, f *Fixture) {
	const rows = 600
	step := func(cycle ops.CycleID) {
		f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Facts: []byte(`{}`), Step: ops.Step{
			Kind: ops.StepRest, Row: "x", Events: []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved}},
		}})
	}
	running := f.Claim(t, "office").Cycle.ID
	step(running)
	old := f.Claim(t, "home").Cycle.ID
	for range rows {
		step(old)
	}
	f.EndCycle(t, old)
	incident := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: incident, At: f.At, Facts: []byte(`{}`), Step: ops.Step{
		Kind: ops.StepFinish, Row: "x", Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "web is down", Level: ops.LevelCritical, Class: "down", Services: []string{"web"}},
	}})
	f.At = f.At.Add(2 * aDay)
	young := f.Claim(t, "home").Cycle.ID
	step(young)
	f.EndCycle(t, young)
	of := func(s Step) ops.CycleID { return s.Cycle }

	if n := f.removeAll(t, ops.Retention{Guard: aDay, Checks: aDay, Notices: aDay}, f.At); n > 0 {
		t.Errorf("%d rows went without a limit for events", n)
	}
	if _, batches := f.remove(t, ops.RecordEvents, ops.Retention{Events: aDay}, f.At); batches < 2*rows/250 {
		t.Errorf("the rows went in %d batches: a writer waits for each of them", batches)
	}
	equal(t, "steps of", ids(Steps(t, f.Store), of), []ops.CycleID{running, incident, young})
	open, err := f.Store.People.Unresolved(t.Context(), "home")
	must(t, err)
	_, err = f.Store.People.ResolveIncident(t.Context(), open[0].ID, "ada", "new disk", f.At)
	must(t, err)
	f.remove(t, ops.RecordEvents, ops.Retention{Events: aDay}, f.At)
	equal(t, "steps of", ids(Steps(t, f.Store), of), []ops.CycleID{running, young})
	f.remove(t, ops.RecordEvents, ops.Retention{Events: aDay}, f.At.Add(2*aDay))
	equal(t, "steps of", ids(Steps(t, f.Store), of), []ops.CycleID{running})
}
