package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func reportCases() []testCase {
	return []testCase{
		{"chains are found by what they are about", chainsAreFound},
		{"a list of chains continues where it ended", chainsContinue},
		{"lines are found whatever their case", linesAreFound},
		{"judgements are summed up", judgementsAreSummedUp},
		{"the effects of a session are listed", sessionEffectsAreListed},
		{"the page state changes with every change", pageStateChanges},
		{"the current work is read", workIsRead},
		{"the situation is read", situationIsRead},
		{"endings come newest first", endingsComeNewestFirst},
		{"unresolved incidents are those of the environment", unresolvedIncidents},
		{"notices are listed by status", noticesAreListed},
		{"what is withheld is replaced", withheldIsReplaced},
		{"chains are found by their problem", chainsAreFoundByProblem},
		{"the calls of a cycle are counted once", callsAreCountedOnce},
		{"the incidents of a cycle are found", cycleIncidentsAreFound},
	}
}

func (f *Fixture) chains(t *testing.T, filter store.ChainFilter) []ops.CycleID {
	t.Helper()
	page, err := f.Store.Reports.Chains(t.Context(), filter)
	must(t, err)
	return ids(page.Chains, func(c store.CycleSummary) ops.CycleID { return c.ID })
}

func chainsAreFound(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	escalation := f.Escalation(session, 1)
	escalation.Step.Decision.Services = []string{"Web_1", "db"}
	f.Commit(t, escalation)
	f.EndCycle(t, session.CycleID)
	asked, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{
		Environment: "office", Trigger: ops.TriggerAPI,
		Prompt: "Look at 100% of the MAIL", At: Start.Add(time.Hour),
	})
	must(t, err)
	both := []ops.CycleID{asked, session.CycleID}
	for name, tt := range map[string]struct {
		filter store.ChainFilter
		want   []ops.CycleID
	}{
		"all":                 {store.ChainFilter{}, both},
		"status":              {store.ChainFilter{Status: ops.CycleQueued}, both[:1]},
		"environment":         {store.ChainFilter{Environment: "home"}, both[1:]},
		"trigger":             {store.ChainFilter{Trigger: ops.TriggerAPI}, both[:1]},
		"tier":                {store.ChainFilter{Tier: ops.Tier2}, both[1:]},
		"decided service":     {store.ChainFilter{Service: "Web_1"}, both[1:]},
		"no pattern":          {store.ChainFilter{Service: "Web%1"}, []ops.CycleID{}},
		"service of an event": {store.ChainFilter{Service: "web"}, both[1:]},
		"text of any case":    {store.ChainFilter{Text: "100% of the mail"}, both[:1]},
		"text of the end":     {store.ChainFilter{Text: "ALL is well"}, both[1:]},
		"since":               {store.ChainFilter{Since: Start.Add(time.Minute)}, both[:1]},
		"before":              {store.ChainFilter{Before: asked}, both[1:]},
		"together":            {store.ChainFilter{Text: "mail", Environment: "home"}, []ops.CycleID{}},
	} {
		t.Run(name, func(t *testing.T) { equal(t, "chains", f.chains(t, tt.filter), tt.want) })
	}
	page, err := f.Store.Reports.Chains(t.Context(), store.ChainFilter{Environment: "home"})
	must(t, err)
	equal(t, "sessions", len(page.Chains[0].Sessions), 2)
}

func chainsContinue(t *testing.T, f *Fixture) {
	var want []ops.CycleID
	for range 5 {
		want = append([]ops.CycleID{f.Submit(t, "home")}, want...)
	}
	var got []ops.CycleID
	for before := ops.CycleID(0); ; {
		page, err := f.Store.Reports.Chains(t.Context(), store.ChainFilter{Before: before, Limit: 2})
		must(t, err)
		got = append(got, ids(page.Chains, func(c store.CycleSummary) ops.CycleID { return c.ID })...)
		if before = page.Next; before == 0 {
			break
		}
	}
	equal(t, "chains", got, want)
}

func linesAreFound(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	for i, text := range []string{"Error: 50% FULL", "all is well", `a_b \ c`, "axb", "ERROR again"} {
		must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, []ops.Line{{Seq: int64(i + 1), At: Start, Text: text}}))
	}
	for text, want := range map[string][]int64{"error": {1, 5}, "50% full": {1}, "a_b": {3}, `\ C`: {3}, "nothing": {}} {
		found, err := f.Store.Journal.FindLines(t.Context(), session.ID, text, 0)
		must(t, err)
		equal(t, text, ids(found, func(l ops.Line) int64 { return l.Seq }), want)
	}
	found, err := f.Store.Journal.FindLines(t.Context(), session.ID, "error", 1)
	must(t, err)
	equal(t, "limit", len(found), 1)
}

func judgementsAreSummedUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	var allowed, denied []int64
	for range 3 {
		allowed = append(allowed, f.hook(t, session, "").ID)
		r := f.judged(session, "")
		r.Allowed = false
		got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, nil, nil)
		must(t, err)
		denied = append(denied, got.ID)
	}
	recordIDs := func(rows []ops.GuardRecord) []int64 { return ids(rows, func(g ops.GuardRecord) int64 { return g.ID }) }
	sum, err := f.Store.Acts.GuardSummary(t.Context(), session.ID, 2)
	must(t, err)
	equal(t, "allowed", sum.Allowed, 3)
	equal(t, "denied", sum.Denied, 3)
	equal(t, "records", recordIDs(sum.Records), append(denied[1:], allowed[1:]...))
	refusals, err := f.Store.Acts.Refusals(t.Context(), session.ID)
	must(t, err)
	equal(t, "refusals", recordIDs(refusals), denied)
	tr := f.Escalation(session, 1)
	tr.Result.Events = append(tr.Result.Events, ops.Event{
		At: Start, CycleID: &session.CycleID, SessionID: &session.ID, Level: ops.LevelWarning, Verb: ops.VerbPermissionWarned,
		Detail: ops.WallDetail{What: "Write", Input: "{}", Call: "toolu_own"},
	})
	f.Commit(t, tr)
	refusals, err = f.Store.Acts.Refusals(t.Context(), session.ID)
	must(t, err)
	own, found := refusals.Of("toolu_own", "", "")
	equal(t, "refused by its own program", []any{found, own.Tool, own.Rule, len(refusals)}, []any{true, "Write", "cli", len(denied) + 1})
}

func sessionEffectsAreListed(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	done := f.hook(t, session, "toolu_1", restart("web")...)
	f.shell(t, session, restart("web")...)
	f.hook(t, session, "toolu_1") // the same call again
	got, err := f.Store.Acts.Effects(t.Context(), session.ID)
	must(t, err)
	equal(t, "changed something", got.Mutating, true)
	equal(t, "first", got.Done[0].ID, done.ID)
	equal(t, "done", len(got.Done), 2) // the call, and the command whose call the shell does not know
	_, err = f.Store.Acts.Effects(t.Context(), session.ID+1)
	wantErr(t, err, ops.ErrNotFound)
}

func pageStateChanges(t *testing.T, f *Fixture) {
	last, err := f.Store.Reports.PageState(t.Context())
	must(t, err)
	again, err := f.Store.Reports.PageState(t.Context())
	must(t, err)
	equal(t, "nothing happened", again, last)
	moved := func(what string) {
		t.Helper()
		now, err := f.Store.Reports.PageState(t.Context())
		must(t, err)
		if now == last {
			t.Errorf("the page state does not change with %s", what)
		}
		last = now
	}
	cycle := f.Submit(t, "home")
	moved("a new cycle")
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, cycle, Policy(), f.At)
	must(t, err)
	moved("a claim")
	session := f.Queue(t, cycle, nil, 1).Journal.Last().ID
	moved("a queued session")
	must(t, f.Start(t, session, "planned", f.At))
	moved("a started session")
	_, err = f.Store.Journal.RequestCancel(t.Context(), cycle, "enough", f.At)
	must(t, err)
	moved("a request to cancel")
	for _, reason := range []string{"2 of 5 failed checks", "3 of 5 failed checks"} {
		must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: ops.HoldUnsettled, Reason: reason}}))
		moved(reason)
	}
	row, err := f.Store.Journal.Session(t.Context(), session)
	must(t, err)
	f.Commit(t, f.Escalation(row, 1))
	moved("an end")
	equal(t, "queued", last.Queued, 0)
	equal(t, "running", last.Running, 0)
}

func workIsRead(t *testing.T, f *Fixture) {
	got, err := f.Store.Reports.Work(t.Context())
	must(t, err)
	equal(t, "nothing", got, store.Work{})
	f.RunningSession(t, "home")
	f.Submit(t, "home")
	f.EndCycle(t, f.Claim(t, "office").Cycle.ID)
	got, err = f.Store.Reports.Work(t.Context())
	must(t, err)
	equal(t, "work", got, store.Work{Running: 1, Queued: 1, LastEndedAt: ops.Ptr(Start.Add(time.Hour)), LastStatus: ops.CycleHealthy})
}

func endingsComeNewestFirst(t *testing.T, f *Fixture) {
	f.spend(t, "home", nil, Start.Add(time.Minute))
	f.spend(t, "home", nil, Start.Add(3*time.Minute))
	f.spend(t, "office", nil, Start.Add(4*time.Minute))
	f.spend(t, "home", nil, Start.Add(2*time.Minute))
	got, err := f.Store.Journal.Endings(t.Context(), "home", 2)
	must(t, err)
	equal(t, "endings", got, []ops.Ending{
		{Status: ops.CycleResolved, At: Start.Add(3 * time.Minute)},
		{Status: ops.CycleResolved, At: Start.Add(2 * time.Minute)},
	})
}

func unresolvedIncidents(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{Kind: ops.StepRest, Incident: &ops.IncidentReport{
		Title: "It is down", Level: ops.LevelCritical, Services: []string{"web", "db"},
	}}})
	got, err := f.Store.People.Unresolved(t.Context(), "home")
	must(t, err)
	equal(t, "services", ids(got, func(i ops.Incident) string { return i.Service }), []string{"db", "web"})
	_, err = f.Store.People.ResolveIncident(t.Context(), got[0].ID, "ann", "repaired", f.At)
	must(t, err)
	got, err = f.Store.People.Unresolved(t.Context(), "home")
	must(t, err)
	equal(t, "left", ids(got, func(i ops.Incident) string { return i.Service }), []string{"web"})
	got, err = f.Store.People.Unresolved(t.Context(), "office")
	must(t, err)
	equal(t, "elsewhere", len(got), 0)
}

func noticesAreListed(t *testing.T, f *Fixture) {
	var all []int64
	for range 3 {
		id, err := f.Store.People.AddNotice(t.Context(), ops.Notice{Kind: "test", Level: ops.LevelInfo, Title: "t", Body: "b"})
		must(t, err)
		all = append([]int64{id}, all...)
	}
	must(t, f.Store.People.SettleNotice(t.Context(), ops.Notice{ID: all[1], Status: ops.NoticeDead, Attempts: 3}, nil))
	for _, tt := range []struct {
		filter store.NoticeFilter
		want   []int64
	}{
		{store.NoticeFilter{}, all},
		{store.NoticeFilter{Status: ops.NoticeDead}, all[1:2]},
		{store.NoticeFilter{Before: all[0], Limit: 1}, all[1:2]},
	} {
		got, err := f.Store.People.NoticeList(t.Context(), tt.filter)
		must(t, err)
		equal(t, "notices", noticeIDs(got), tt.want)
	}
}

func withheldIsReplaced(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: "flapping", Reason: "It comes and goes."}}))
	want := []ops.Withheld{
		{Service: "db", Why: "silenced", Reason: "Ann silenced it.", Until: Start.Add(time.Hour)},
		{Service: "mail", Why: "dependency", Reason: "It needs db."},
	}
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{want[1], want[0]}))
	got, err := f.Store.Watch.Withheld(t.Context(), "home")
	must(t, err)
	equal(t, "withheld", got, want)
}

func chainsAreFoundByProblem(t *testing.T, f *Fixture) {
	id, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerProbe, Problem: "Redis: 100% busy"})
	must(t, err)
	f.Submit(t, "home")
	equal(t, "by problem", f.chains(t, store.ChainFilter{Text: "redis: 100%"}), []ops.CycleID{id})
	equal(t, "no pattern", f.chains(t, store.ChainFilter{Text: "red%100"}), []ops.CycleID{})
}

func callsAreCountedOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.hook(t, session, "toolu_1", restart("web")...)
	f.shell(t, session, restart("web")...)
	refused := f.judged(session, "toolu_2")
	refused.Allowed = false
	_, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, refused, nil, nil)
	must(t, err)
	got, err := f.Store.Acts.CycleCalls(t.Context(), session.CycleID)
	must(t, err)
	equal(t, "counts", got, map[ops.SessionID]store.CallCounts{session.ID: {Calls: 2, Refusals: 1}})
	none, err := f.Store.Acts.CycleCalls(t.Context(), session.CycleID+1)
	must(t, err)
	equal(t, "none", len(none), 0)
}

func cycleIncidentsAreFound(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	other := f.Claim(t, "office").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{Kind: ops.StepRest, Incident: &ops.IncidentReport{
		Title: "It is down", Level: ops.LevelCritical, Services: []string{"web", "db"},
	}}})
	got, err := f.Store.Reports.CycleIncidents(t.Context(), cycle)
	must(t, err)
	equal(t, "services", ids(got, func(i ops.Incident) string { return i.Service }), []string{"web", "db"})
	_, err = f.Store.People.ResolveIncident(t.Context(), got[0].ID, "ann", "repaired", f.At)
	must(t, err)
	got, err = f.Store.Reports.CycleIncidents(t.Context(), cycle)
	must(t, err)
	equal(t, "with the resolved one", len(got), 2)
	got, err = f.Store.Reports.CycleIncidents(t.Context(), other)
	must(t, err)
	equal(t, "of another cycle", len(got), 0)
}

func situationIsRead(t *testing.T, f *Fixture) {
	running := f.RunningSession(t, "office")
	states := []ops.CheckState{{Service: "web", Probe: "GET", Bad: 2, FailAfter: 3}, {Service: "db", Probe: "SELECT"}}
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, states, nil, nil))
	until := Start.Add(time.Hour)
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{
		{Service: "db", Why: ops.HoldSilenced, Until: until}, {Service: "web", Why: ops.HoldUnsettled, Reason: "2 of 3"},
	}))
	row := ops.Cause{Key: "web", Environment: "home", Services: []string{"web"}, Level: ops.Down, Began: f.At, At: f.At}
	cause, _, err := f.Store.Watch.OpenCause(t.Context(), row, ops.NewCycle{Environment: "home", Trigger: ops.TriggerProbe, At: f.At}, nil, nil, f.At)
	must(t, err)
	got, err := f.Store.Reports.Situation(t.Context(), map[string][]string{"home": {"web"}, "office": {"mail"}})
	must(t, err)
	equal(t, "open cycles", []ops.CycleID{got.Open[0].ID, got.Open[1].ID}, []ops.CycleID{cause.Cycle, running.CycleID})
	equal(t, "sessions of the running one", got.Open[1].Sessions[0].ID, running.ID)
	equal(t, "causes", got.Causes[0].Services, []string{"web"})
	equal(t, "held", got.Held, []store.HeldService{{Environment: "home", Withheld: ops.Withheld{Service: "web", Why: ops.HoldUnsettled, Reason: "2 of 3"}}})
	equal(t, "states", len(got.States), 1)
	equal(t, "failed checks", got.States[0].Bad, 2)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, cause.Cycle, Policy(), f.At)
	must(t, err)
	f.EndCycle(t, cause.Cycle)
	got, err = f.Store.Reports.Situation(t.Context(), nil)
	must(t, err)
	equal(t, "ended cycles of open causes", []ops.CycleID{got.Ended[0].ID}, []ops.CycleID{cause.Cycle})
	equal(t, "held without services", len(got.Held), 0)
}
