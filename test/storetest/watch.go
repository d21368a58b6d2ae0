package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func watchCases() []testCase {
	return []testCase{
		{"an alert told again is one alert", alertToldAgain},
		{"what is not watched any more is not shown", unwatchedIsNotShown},
		{"an alert ends by its id", alertEndsByItsID},
		{"notices of one problem share a thread", noticesShareAThread},
		{"a signed request counts once", signedRequestOnce},
		{"an alert told while it is settled stays pending", alertToldWhileSettled},
		{"an alert nobody repeats expires", alertExpires},
		{"a state is what was saved last", stateIsSaved},
		{"a cause starts a cycle that knows what was found", causeStartsCycle},
		{"a cause takes the cycle that found the same", causeTakesCycle},
		{"a cause that is over closes what its cycle left", causeIsOver},
		{"the end of a service is told once", onlyNewsIsTold},
		{"a service that recovers closes its incidents of this failure only", serviceRecovers},
		{"a silence holds from its start to its end", silenceHolds},
		{"what is stopped for all hosts starts nothing until somebody takes it back", standstill},
		{"a journal knows silences, what is withheld and the last look", journalIsWatched},
		{"a cycle leaves services in maintenance alone", maintenanceHolds},
		{"a cycle's own probes obey silences and dependencies", ownProbesObey},
		{"a question holds every cycle but the one that asks", questionHoldsOthers},
		{"the time of the last check is known", lastCheckIsKnown},
		{"the time of a start is learned", startIsLearned},
		{"what is told once is not told twice", noticeIsToldOnce},
		{"a notice that was given up is tried again", noticeIsRetried},
	}
}

func firing(fingerprint, service string) ops.Alert {
	return ops.Alert{
		Environment: "home", Source: "generic", Fingerprint: fingerprint, Status: ops.AlertFiring, Level: ops.LevelCritical,
		Name: "Down", Service: service, Summary: "it does not answer", Labels: map[string]string{"team": "web"}, LastAt: Start,
	}
}

func (f *Fixture) alerts(t *testing.T) []ops.Alert {
	t.Helper()
	got, err := f.Store.Watch.Alerts(t.Context(), store.AlertFilter{})
	must(t, err)
	return got
}

func alertToldAgain(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web"), firing("b", "db"), firing("a", "web")}))
	over := firing("a", "web")
	over.Status, over.EndsAt, over.LastAt = ops.AlertResolved, ops.Ptr(Start.Add(time.Minute)), Start.Add(time.Minute)
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{over}))
	got := f.alerts(t)
	equal(t, "alerts", len(got), 2)
	want := over
	want.ID, want.Count, want.Seq, want.Pending, want.FirstAt, want.StartsAt = got[1].ID, 3, 3, true, Start, Start.Add(time.Minute)
	want.ChangedAt = over.LastAt
	equal(t, "alert", got[1], want)
	n, err := f.Store.Watch.CountPendingAlerts(t.Context(), 1)
	must(t, err)
	equal(t, "pending, at most one", n, 1)
	left, err := f.Store.Watch.FiringAlerts(t.Context(), "home")
	must(t, err)
	equal(t, "firing", len(left), 1)
}

// The end of an alert may say no more than its id: the rest of it stays. The end of one that is unknown leaves nothing.
func alertEndsByItsID(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	over := func(id string) ops.Alert {
		at := Start.Add(time.Minute)
		return ops.Alert{Environment: "home", Source: "generic", Fingerprint: id, Status: ops.AlertResolved, Level: ops.LevelWarning, StartsAt: at, EndsAt: &at, LastAt: at, Content: "other"}
	}
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{over("a"), over("b")}))
	got := f.alerts(t)
	equal(t, "alerts", len(got), 1)
	want := firing("a", "web")
	want.ID, want.Count, want.Seq, want.Pending, want.FirstAt, want.StartsAt = got[0].ID, 2, 2, true, Start, Start
	want.Status, want.EndsAt, want.LastAt, want.ChangedAt, want.Content = ops.AlertResolved, got[0].EndsAt, Start.Add(time.Minute), Start.Add(time.Minute), "other"
	equal(t, "alert", got[0], want)
}

func noticesShareAThread(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	thread := func(n ops.Notice) ops.CycleID {
		t.Helper()
		got, err := f.Store.People.NoticeThread(t.Context(), n)
		must(t, err)
		return got
	}
	equal(t, "about nothing", thread(ops.Notice{}), 0)
	equal(t, "before there is an incident", thread(ops.Notice{CycleID: &cycle}), cycle)
	report := ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "unresolved", Services: []string{"web"}}
	got := f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepRest, Incident: &report}})
	equal(t, "of its cycle", thread(ops.Notice{CycleID: &cycle}), cycle)
	other := cycle + 100
	equal(t, "of the incident", thread(ops.Notice{CycleID: &other, Incident: got.Journal.Incidents[0].ID}), cycle)
}

func signedRequestOnce(t *testing.T, f *Fixture) {
	one := ops.SignedAlerts{Alerts: []ops.Alert{firing("a", "web")}, Signature: "s1", Expires: Start.Add(time.Hour)}
	two := ops.SignedAlerts{Alerts: []ops.Alert{firing("b", "db")}, Signature: "s2", Expires: Start.Add(time.Hour)}
	replayed, err := f.Store.Watch.AddSignedAlerts(t.Context(), []ops.SignedAlerts{one, two, one})
	must(t, err)
	equal(t, "replayed", replayed, []bool{false, false, true})
	replayed, err = f.Store.Watch.AddSignedAlerts(t.Context(), []ops.SignedAlerts{two})
	must(t, err)
	equal(t, "replayed later", replayed, []bool{true})
	got := f.alerts(t)
	equal(t, "alerts", len(got), 2)
	equal(t, "told", []int{got[0].Count, got[1].Count}, []int{1, 1})
	old := ops.SignedAlerts{Alerts: []ops.Alert{firing("c", "db")}, Signature: "s3", Expires: Start.Add(-time.Second)}
	for range 2 { // an expired signature is refused before, so it is not kept
		replayed, err = f.Store.Watch.AddSignedAlerts(t.Context(), []ops.SignedAlerts{old})
		must(t, err)
		equal(t, "expired", replayed, []bool{false})
	}
}

func alertToldWhileSettled(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	seen, err := f.Store.Watch.PendingAlerts(t.Context(), 10)
	must(t, err)
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, nil, nil, seen))
	again, err := f.Store.Watch.PendingAlerts(t.Context(), 10)
	must(t, err)
	equal(t, "pending", len(again), 1)
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, nil, nil, again))
	again, err = f.Store.Watch.PendingAlerts(t.Context(), 10)
	must(t, err)
	equal(t, "pending after", len(again), 0)
}

func alertExpires(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	n, err := f.Store.Watch.ExpireAlerts(t.Context(), Start, Start.Add(time.Hour))
	must(t, err)
	equal(t, "too early", n, 0)
	n, err = f.Store.Watch.ExpireAlerts(t.Context(), Start.Add(time.Second), Start.Add(time.Hour))
	must(t, err)
	equal(t, "expired", n, 1)
	equal(t, "status", f.alerts(t)[0].Status, ops.AlertResolved)
}

func look(service string, status ops.Health) ops.Check {
	return ops.Check{
		At: Start, Environment: "home", Purpose: ops.ProbeObserve, Service: service, Probe: "GET", Type: ops.CheckHTTP,
		Status: status,
	}
}

func stateIsSaved(t *testing.T, f *Fixture) {
	s, _ := health.Observe(ops.CheckState{}, look("web", ops.Down), health.Thresholds{FailAfter: 1}, Start)
	other, _ := health.Observe(ops.CheckState{}, look("db", ops.Healthy), health.Thresholds{}, Start)
	event := ops.Event{Level: ops.LevelWarning, Verb: ops.VerbWatchChanged, Environment: "home", Service: "web", Reason: "web is down."}
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", []ops.Check{look("web", ops.Down)}, []ops.Check{look("db", ops.Healthy)},
		[]ops.CheckState{s, other}, []ops.Event{event}, nil))
	s.Bad++
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, []ops.CheckState{s}, nil, nil))
	got, err := f.Store.Watch.States(t.Context(), "home")
	must(t, err)
	equal(t, "states", got, []ops.CheckState{other, s})
	checks, err := f.Store.Watch.LatestChecks(t.Context(), "home")
	must(t, err)
	equal(t, "checks", len(checks), 1)
	must(t, f.Store.Watch.ForgetStates(t.Context(), "home", []ops.CheckState{other}))
	got, err = f.Store.Watch.States(t.Context(), "home")
	must(t, err)
	equal(t, "states left", len(got), 1)
}

func cause(services ...string) ops.Cause {
	return ops.Cause{
		Key: "k", Environment: "home", Services: services, Level: ops.Down, Reason: "web is down.", Began: Start.Add(-time.Minute), At: Start,
	}
}

func (f *Fixture) openCause(t *testing.T, c ops.Cause, notice *ops.Notice) (ops.Cause, bool) {
	t.Helper()
	got, started, err := f.Store.Watch.OpenCause(t.Context(), c, ops.NewCycle{
		Environment: "home", Trigger: ops.TriggerProbe, At: Start,
		Prompt: "look",
	},
		[]ops.Check{look("web", ops.Down)}, notice, Start.Add(-time.Hour))
	must(t, err)
	return got, started
}

func causeStartsCycle(t *testing.T, f *Fixture) {
	got, started := f.openCause(t, cause("web"), &ops.Notice{Kind: "opened", Level: ops.LevelCritical, Title: "web is down", Key: "opened:k"})
	equal(t, "started", started, true)
	loaded, err := f.Store.Journal.Load(t.Context(), got.Cycle)
	must(t, err)
	equal(t, "trigger", loaded.Cycle.Trigger, ops.TriggerProbe)
	equal(t, "checks", len(loaded.Journal.Checks), 1)
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 10})
	must(t, err)
	equal(t, "notices", len(notices), 1)
	equal(t, "notice of the cycle", *notices[0].CycleID, got.Cycle)
	causes, err := f.Store.Watch.Causes(t.Context(), "home", Start.Add(time.Hour))
	must(t, err)
	equal(t, "causes", causes, []ops.Cause{got})
	story, err := f.Store.Reports.CycleStory(t.Context(), got.Cycle)
	must(t, err)
	equal(t, "it began before the cycle", story.Cycles[0].Began, ops.Ptr(Start.Add(-time.Minute)))
}

func causeTakesCycle(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	seen := ops.Transition{Cycle: cycle, At: Start, Result: ops.Result{Checks: []ops.Check{look("web", ops.Down)}}, Step: ops.Step{
		Kind: ops.StepQueue, Session: &ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh},
	}}
	f.Commit(t, seen)
	both, started := f.openCause(t, cause("db", "web"), nil)
	equal(t, "a cause it did not see as a whole starts a cycle", started, true)
	equal(t, "another cycle", both.Cycle != cycle, true)
	got, started := f.openCause(t, cause("web"), nil)
	equal(t, "started", started, false)
	equal(t, "taken", got.Cycle, cycle)
	_, started = f.openCause(t, cause("web"), nil)
	equal(t, "taken once only", started, true)
}

func (f *Fixture) incidentOf(t *testing.T, cycle ops.CycleID, service string) {
	t.Helper()
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start.Add(time.Minute), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "no",
		Incident: &ops.IncidentReport{Title: "needs you", Level: ops.LevelCritical, Services: []string{service}},
	}})
}

func (f *Fixture) openIncidents(t *testing.T) []ops.Incident {
	t.Helper()
	got, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{Open: true})
	must(t, err)
	return got
}

// ending makes the notice of an end.
func ending(title string) func([]string, []ops.Incident) ops.Notice {
	return func(services []string, _ []ops.Incident) ops.Notice {
		return ops.Notice{Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: title, Environment: "home", Service: services[0]}
	}
}

// What people were told of one service of a cause is not told again with the end of the other.
func onlyNewsIsTold(t *testing.T, f *Fixture) {
	got, _ := f.openCause(t, cause("db", "web"), &ops.Notice{Kind: ops.NoticeOpened, Title: "db is down, and 1 more", Environment: "home", Service: "db"})
	other := ops.Notice{Kind: ops.NoticeResolved, Title: "an incident of db is over", Environment: "home", Service: "db", CreatedAt: Start.Add(time.Minute)}
	_, err := f.Store.People.AddNotice(t.Context(), other)
	must(t, err)
	var news []string
	must(t, f.Store.Watch.ResolveCause(t.Context(), got, "both recovered", func(services []string, _ []ops.Incident) ops.Notice {
		news = services
		return ending("over")(services, nil)
	}, Start.Add(time.Hour)))
	equal(t, "news", news, []string{"web"})
}

func causeIsOver(t *testing.T, f *Fixture) {
	got, _ := f.openCause(t, cause("web"), nil)
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, got.Cycle, Policy(), Start)
	must(t, err)
	f.incidentOf(t, got.Cycle, "web")
	over := ending("web recovered")
	must(t, f.Store.Watch.ResolveCause(t.Context(), got, "web recovered", over, Start.Add(time.Hour)))
	must(t, f.Store.Watch.ResolveCause(t.Context(), got, "web recovered", over, Start.Add(time.Hour)))
	equal(t, "open incidents", len(f.openIncidents(t)), 0)
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 10})
	must(t, err)
	equal(t, "notices", len(notices), 1)
	causes, err := f.Store.Watch.Causes(t.Context(), "home", Start.Add(time.Minute))
	must(t, err)
	equal(t, "causes that were over since", len(causes), 1)
	causes, err = f.Store.Watch.Causes(t.Context(), "home", Start.Add(2*time.Hour))
	must(t, err)
	equal(t, "open causes", len(causes), 0)
}

func serviceRecovers(t *testing.T, f *Fixture) {
	f.incidentOf(t, f.Claim(t, "home").Cycle.ID, "web")
	n, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start.Add(time.Hour), "web is well", Start.Add(2*time.Hour))
	must(t, err)
	equal(t, "older than the failure", n, 0)
	n, err = f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start, "web is well", Start.Add(2*time.Hour))
	must(t, err)
	equal(t, "closed", n, 1)
	equal(t, "open incidents", len(f.openIncidents(t)), 0)
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 10})
	must(t, err)
	equal(t, "notice", fmt.Sprintf("%d %s %s", len(notices), notices[0].Kind, notices[0].Service), "1 resolved web")
}

func silence() ops.Silence {
	return ops.Silence{
		Environment: "home", Service: "web*", Labels: map[string]string{"team": "a*"}, Reason: "disk is replaced", Author: "ann",
		CreatedAt: Start, From: Start, Until: Start.Add(time.Hour),
	}
}

func silenceHolds(t *testing.T, f *Fixture) {
	q, err := f.Store.Watch.AddSilence(t.Context(), silence())
	must(t, err)
	got, err := f.Store.Watch.SilencesSince(t.Context(), "home", Start.Add(59*time.Minute))
	must(t, err)
	equal(t, "silences", got, []ops.Silence{q})
	for _, f2 := range []store.SilenceFilter{{Environment: "office"}, {Active: Start.Add(time.Hour)}} {
		got, err = f.Store.Watch.Silences(t.Context(), f2)
		must(t, err)
		equal(t, fmt.Sprint(f2), len(got), 0)
	}
	_, err = f.Store.Watch.EndSilence(t.Context(), q.ID, "bob", Start.Add(time.Minute))
	must(t, err)
	_, err = f.Store.Watch.EndSilence(t.Context(), q.ID, "bob", Start.Add(time.Minute))
	wantErr(t, err, ops.ErrConflict)
	_, err = f.Store.Watch.EndSilence(t.Context(), 999, "bob", Start)
	wantErr(t, err, ops.ErrNotFound)
}

func standstill(t *testing.T, f *Fixture) {
	s := f.RunningSession(t, "home")
	still, err := f.Store.People.StopAll(t.Context(), ops.Standstill{By: "ann", Reason: "the switch", At: Start})
	must(t, err)
	_, err = f.Store.People.StopAll(t.Context(), ops.Standstill{By: "bob", At: Start})
	wantErr(t, err, ops.ErrConflict)
	found, err := f.Store.People.Standstill(t.Context())
	must(t, err)
	equal(t, "who stopped it", *found, still)
	loaded, err := f.Store.Journal.Load(t.Context(), s.CycleID)
	must(t, err)
	equal(t, "the journal says", *loaded.Journal.Standstill, still)
	_, err = f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: Start})
	wantErr(t, err, ops.ErrStopped)
	wantErr(t, err, ops.ErrConflict)
	running, err := f.Store.Journal.ToStop(t.Context(), f.Owner.Host)
	must(t, err)
	equal(t, "to stop", len(running), 1)
	page, err := f.Store.Reports.PageState(t.Context())
	must(t, err)
	equal(t, "every page says", page.Standstill, still)
	_, err = f.Store.Journal.RequestCancel(t.Context(), s.CycleID, "everything was stopped", Start)
	must(t, err)
	running, err = f.Store.Journal.ToStop(t.Context(), f.Owner.Host)
	must(t, err)
	equal(t, "told already", len(running), 0)
	_, err = f.Store.People.ResumeAll(t.Context(), "bob", "", Start.Add(time.Minute))
	must(t, err)
	_, err = f.Store.People.ResumeAll(t.Context(), "bob", "", Start.Add(time.Minute))
	wantErr(t, err, ops.ErrConflict)
	_, err = f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: Start})
	must(t, err)
}

func journalIsWatched(t *testing.T, f *Fixture) {
	s := f.RunningSession(t, "home")
	q, err := f.Store.Watch.AddSilence(t.Context(), silence())
	must(t, err)
	onHold := []ops.Withheld{
		{Service: "api", Why: "dependency", Reason: "api is down; it depends on db."},
		{Service: "web", Why: "waiting", Reason: "wait.", Until: Start},
	}
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", onHold))
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", onHold))
	loaded, err := f.Store.Journal.Load(t.Context(), s.CycleID)
	must(t, err)
	equal(t, "silences", loaded.Journal.Silences, []ops.Silence{q})
	equal(t, "withheld", loaded.Journal.Withheld, onHold)
	equal(t, "last look", loaded.Journal.LastLook, nil)
	f.Commit(t, f.Escalation(s, 1))
	loaded, err = f.Store.Journal.Load(t.Context(), s.CycleID)
	must(t, err)
	equal(t, "last look", loaded.Journal.LastLook, ops.Ptr(Start.Add(time.Minute)))
	// An agent that failed, or ended without a usable report, has not looked.
	for environment, fail := range map[string]func(*ops.Session){
		"failed":       func(s *ops.Session) { s.Status, s.Outcome = ops.SessionFailed, "" },
		"timed out":    func(s *ops.Session) { s.Status, s.Outcome = ops.SessionTimedOut, "" },
		"inconclusive": func(s *ops.Session) { s.Outcome = ops.OutcomeInconclusive },
	} {
		s := f.RunningSession(t, environment)
		e := f.Escalation(s, 1)
		fail(e.Result.Session)
		f.Commit(t, e)
		loaded, err = f.Store.Journal.Load(t.Context(), s.CycleID)
		must(t, err)
		equal(t, "last look of an agent that "+environment, loaded.Journal.LastLook, nil)
	}
}

func noticeIsToldOnce(t *testing.T, f *Fixture) {
	n := ops.Notice{
		Kind: "opened", Level: ops.LevelCritical, Title: "web is down", Key: "k", Environment: "home", Service: "web",
		Target: ops.TargetSecond, CreatedAt: Start,
	}
	first, err := f.Store.People.AddNotice(t.Context(), n)
	must(t, err)
	n.CreatedAt = Start.Add(time.Hour)
	second, err := f.Store.People.AddNotice(t.Context(), n)
	must(t, err)
	equal(t, "the same", second, first)
	n.CreatedAt = Start.Add(24 * time.Hour)
	third, err := f.Store.People.AddNotice(t.Context(), n)
	must(t, err)
	equal(t, "a day later it is news", third != first, true)
	got, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 1})
	must(t, err)
	equal(t, "target and route", fmt.Sprintf("%s %s %s", got[0].Target, got[0].Environment, got[0].Service), "second home web")
}

func noticeIsRetried(t *testing.T, f *Fixture) {
	n := f.notice(t, "web is down", Start)
	wantErr(t, f.Store.People.RetryNotice(t.Context(), n.ID, "ann", Start), ops.ErrConflict)
	wantErr(t, f.Store.People.RetryNotice(t.Context(), 999, "ann", Start), ops.ErrNotFound)
	n.Status, n.Attempts, n.Error = ops.NoticeDead, 6, "refused"
	must(t, f.Store.People.SettleNotice(t.Context(), n, nil))
	dead, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Status: ops.NoticeDead, Limit: 10})
	must(t, err)
	equal(t, "dead", dead, []ops.Notice{n})
	must(t, f.Store.People.RetryNotice(t.Context(), n.ID, "ann", Start.Add(time.Hour)))
	due, err := f.Store.People.DueNotices(t.Context(), Start.Add(time.Hour), 10)
	must(t, err)
	n.Status, n.Attempts, n.Error, n.NextAt = ops.NoticePending, 0, "", Start.Add(time.Hour)
	equal(t, "due", due, []ops.Notice{n})
}

// probing claims a cycle under a policy and records what its own probes found.
func (f *Fixture) probing(t *testing.T, policy ops.Policy, bad ...string) ops.Claimed {
	t.Helper()
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	if len(bad) == 0 {
		return claimed
	}
	var checks []ops.Check
	for _, name := range bad {
		checks = append(
			checks,
			ops.Check{At: f.At, Purpose: ops.ProbeObserve, Service: name, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down},
		)
	}
	n := ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	return f.Commit(t, ops.Transition{
		Cycle: claimed.Cycle.ID, At: f.At, Result: ops.Result{Checks: checks}, Step: ops.Step{Kind: ops.StepQueue, Session: &n},
	})
}

// later is a cycle as it reads after a time.
func (f *Fixture) later(t *testing.T, id ops.CycleID, after time.Duration) ops.Claimed {
	t.Helper()
	tick := ops.Event{Level: ops.LevelInfo, Verb: ops.VerbCycleResolved, Reason: "time passes"}
	return f.Commit(t, ops.Transition{Cycle: id, At: Start.Add(after), Step: ops.Step{Kind: ops.StepProbe, Events: []ops.Event{tick}}})
}

func watched(services ...ops.Service) ops.Policy {
	p := Policy()
	p.Inventory = ops.Inventory{Services: services}
	return p
}

func reasons(onHold []ops.Withheld) map[string]ops.HoldReason {
	out := map[string]ops.HoldReason{}
	for _, h := range onHold {
		out[h.Service] = h.Why
	}
	return out
}

func maintenanceHolds(t *testing.T, f *Fixture) {
	p := watched(ops.Service{Name: "db"}, ops.Service{Name: "web"})
	p.Watch.Maintenance = []ops.Maintenance{
		{Name: "disk", Service: "db", From: Start.Add(-time.Hour), Until: Start.Add(time.Hour)},
		{Name: "nightly", Service: "web", Schedule: "02:00", Length: time.Hour, Zone: "Europe/Berlin"},
	}
	// Nothing has been judged since the start: neither an agent's finding nor a probe's may start a tier.
	got := f.probing(t, p)
	equal(t, "before any probe", got.Journal.Withheld, []ops.Withheld{{
		Service: "db", Why: ops.HoldMaintenance, Reason: "db is in maintenance until 13:00:00 UTC.", Until: Start.Add(time.Hour),
	}})
	f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy}})
	got = f.probing(t, p, "db", "web")
	equal(t, "after the probe", reasons(got.Journal.Withheld), map[string]ops.HoldReason{"db": ops.HoldMaintenance})
	loaded := f.later(t, got.Cycle.ID, 2*time.Hour)
	equal(t, "after the maintenance", len(loaded.Journal.Withheld), 0)
}

func ownProbesObey(t *testing.T, f *Fixture) {
	_, err := f.Store.Watch.AddSilence(t.Context(), ops.Silence{
		Environment: "home", Service: "mail", Reason: "moving", Author: "ann", CreatedAt: Start, From: Start, Until: Start.Add(time.Hour),
	})
	must(t, err)
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{
		{Service: "cache", Why: ops.HoldRecent, Reason: "cache is down again."},
		{Service: "db", Why: ops.HoldUnsettled, Reason: "db was down at its last check."},
	}))
	p := watched(ops.Service{Name: "db"}, ops.Service{Name: "mail"}, ops.Service{Name: "web", DependsOn: []string{"db"}})
	got := f.probing(t, p, "db", "mail", "web", "db", "mail", "web") // probed twice
	equal(t, "held", reasons(got.Journal.Withheld), map[string]ops.HoldReason{
		"cache": ops.HoldRecent, "mail": ops.HoldSilenced, "web": ops.HoldDependency,
	})
	loaded := f.later(t, got.Cycle.ID, 2*time.Hour)
	equal(t, "without the silence", reasons(loaded.Journal.Withheld), map[string]ops.HoldReason{
		"cache": ops.HoldRecent, "web": ops.HoldDependency,
	})
}

// What a person holds is told, and the decision itself weighs it: a cycle's own question must not hold that cycle.
func questionHoldsOthers(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{
		Approval: question(),
		Incident: &ops.IncidentReport{Title: "may it?", Level: ops.LevelCritical, Class: "down", Services: []string{"web"}, Waits: true},
	})
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: ops.HoldPerson, Reason: "a cycle waits for an answer."}}))
	loaded, err := f.Store.Journal.Load(t.Context(), asked.Cycle.ID)
	must(t, err)
	equal(t, "held", reasons(loaded.Journal.Withheld), map[string]ops.HoldReason{"web": ops.HoldPerson})
	if loaded.Journal.Withheld[0].Why.Inhibits() {
		t.Error("the watch's note about a person decides for the cycle")
	}
	equal(t, "waits", *loaded.Journal.Incidents[0].Waiting, asked.Cycle.ID)
}

func lastCheckIsKnown(t *testing.T, f *Fixture) {
	var s ops.CheckState
	result := ops.Check{Environment: "home", Purpose: ops.ProbeWatch, Service: "web", Probe: "GET", Type: ops.CheckHTTP, Status: ops.Healthy}
	for n := range 3 {
		result.At, result.ResponseTimeMS = Start.Add(time.Duration(n)*time.Minute), int64(n)
		s, _ = health.Observe(s, result, health.Thresholds{}, result.At)
		if n == 0 { // the others change nothing
			must(t, f.Store.Watch.RecordResults(t.Context(), "home", []ops.Check{result}, nil, []ops.CheckState{s}, nil, nil))
			continue
		}
		must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, []ops.Check{result}, []ops.CheckState{s}, nil, nil))
	}
	for _, environment := range []string{"", "home"} {
		got, err := f.Store.Watch.LatestChecks(t.Context(), environment)
		must(t, err)
		result.ID = got[0].ID
		equal(t, "latest", got, []ops.Check{result})
	}
	// What fails again and again is not shown as good between two failures.
	for n := 3; n < 20; n++ {
		result.At, result.Status, result.Error = Start.Add(time.Duration(n)*20*time.Second), ops.Healthy, ""
		if n%4 == 0 {
			result.Status, result.Error = ops.Down, "HTTP 502"
		}
		s, _ = health.Observe(s, result, health.Thresholds{}, result.At)
		must(t, f.Store.Watch.RecordResults(t.Context(), "home", []ops.Check{result}, nil, []ops.CheckState{s}, nil, nil))
	}
	got, err := f.Store.Watch.LatestChecks(t.Context(), "home")
	must(t, err)
	if len(got) != 1 || got[0].Status != ops.Degraded || !strings.Contains(got[0].Error, "it failed 3 times") || got[0].Note == "" {
		t.Errorf("shown is %+v", got)
	}
}

func startIsLearned(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	result := func(after time.Duration, service string, h ops.Health) ops.Check {
		return ops.Check{
			At:          Start.Add(after),
			Environment: "home",
			Purpose:     ops.ProbeWatch,
			Service:     service,
			Probe:       "GET",
			Type:        ops.CheckHTTP,
			Status:      h,
		}
	}
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		f.at(after)
		wantAllowed(t, f.hook(t, session, "", restart("web")...))
		wantAllowed(t, f.shell(t, session, restart("web")...))
		took := 40*time.Second + after/10
		must(t, f.Store.Watch.AddChecks(t.Context(), []ops.Check{
			result(after+5*time.Second, "web", ops.Down), result(after+10*time.Second, "db", ops.Healthy), result(after+took, "web", ops.Healthy),
		}))
	}
	got, err := f.Store.Watch.StartTimes(t.Context(), "home", "web")
	must(t, err)
	equal(t, "starts", got, []time.Duration{100 * time.Second, 40 * time.Second})
	got, err = f.Store.Watch.StartTimes(t.Context(), "home", "db")
	must(t, err)
	equal(t, "starts of another", len(got), 0)
	for since, want := range map[time.Duration]map[string]time.Time{
		0: {"web": Start.Add(10 * time.Minute)}, 10 * time.Minute: {"web": Start.Add(10 * time.Minute)}, 11 * time.Minute: {},
	} {
		starts, err := f.Store.Watch.StartsSince(t.Context(), "home", Start.Add(since))
		must(t, err)
		equal(t, "started since", starts, want)
	}
	f.at(12 * time.Minute)
	f.begin(t, store.ActionIntent{At: f.At, Run: ops.ActionRun{
		Environment: "home", Service: "web", Action: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2, Person: "ann", Why: "it hangs",
	}})
	starts, err := f.Store.Watch.StartsSince(t.Context(), "home", Start.Add(11*time.Minute))
	must(t, err)
	equal(t, "started by a person's request", starts, map[string]time.Time{"web": Start.Add(12 * time.Minute)})
	starts, err = f.Store.Watch.StartsSince(t.Context(), "other", Start)
	must(t, err)
	equal(t, "started elsewhere", len(starts), 0)
	results, err := f.Store.Watch.ChecksSince(t.Context(), "home", "web", Start.Add(time.Minute))
	must(t, err)
	equal(t, "results since", len(results), 2)
	equal(t, "the oldest first", results[0].Status, ops.Down)
}

func heartbeatCases() []testCase {
	return []testCase{
		{"a heartbeat is kept from its first configuration", heartbeatIsKept},
		{"a job with another rhythm counts from then", heartbeatRhythm},
		{"a job is known by the digest of its token only", heartbeatToken},
		{"calls of a job are recorded, and read in their order", heartbeatPings},
	}
}

func backup() ops.Heartbeat {
	return ops.Heartbeat{Environment: "home", Service: "backup", Probe: "heartbeat"}
}

func (f *Fixture) beats(t *testing.T, after int64) []ops.Heartbeat {
	t.Helper()
	out, err := f.Store.Watch.Heartbeats(t.Context(), "home", after)
	must(t, err)
	return out
}

func (f *Fixture) addressed(t *testing.T, h ops.Heartbeat) string {
	t.Helper()
	token, err := f.Store.Watch.AddressHeartbeat(t.Context(), h, "alice", f.At)
	must(t, err)
	return token
}

func heartbeatIsKept(t *testing.T, f *Fixture) {
	first, later := backup(), backup()
	first.Since, later.Since = Start, Start.Add(time.Hour)
	other := later
	other.Service = "mirror"
	must(t, f.Store.Watch.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{first}))
	must(t, f.Store.Watch.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{later, other}))
	must(t, f.Store.Watch.AddHeartbeats(t.Context(), "office", []ops.Heartbeat{later}))
	got := f.beats(t, 0)
	if len(got) != 2 || !got[0].Since.Equal(Start) || got[1].Service != "mirror" || got[0].Addressed || got[0].EndedAt != nil {
		t.Errorf("they are %+v", got)
	}
	equal(t, "after the first", len(f.beats(t, got[0].Seq)), 1)
}

func heartbeatRhythm(t *testing.T, f *Fixture) {
	h := backup()
	h.Since = Start
	must(t, f.Store.Watch.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{h}))
	must(t, f.Store.Watch.Ping(t.Context(), h, ops.Ping{At: Start.Add(time.Minute)}))
	for n, tt := range []struct {
		rhythm string
		since  time.Time
	}{{"24h", Start}, {"24h", Start}, {"1h", Start.Add(2 * time.Hour)}, {"1h", Start.Add(2 * time.Hour)}} {
		seq := f.beats(t, 0)[0].Seq
		at := Start.Add(time.Duration(n) * time.Hour)
		must(t, f.Store.Watch.KeepRhythms(t.Context(), "home", map[string]map[string]string{"backup": {"heartbeat": tt.rhythm}}, at))
		got := f.beats(t, 0)[0]
		if !got.Since.Equal(tt.since) || got.Seq > seq != (n == 2) || got.EndedAt == nil {
			t.Errorf("%d: %+v", n, got)
		}
	}
}

func heartbeatToken(t *testing.T, f *Fixture) {
	old := f.addressed(t, backup())
	found, err := f.Store.Watch.Heartbeat(t.Context(), old)
	must(t, err)
	equal(t, "the heartbeat", found, backup())
	must(t, f.Store.Watch.Ping(t.Context(), found, ops.Ping{At: f.At}))
	f.At = f.At.Add(time.Hour)
	made := f.addressed(t, backup())
	if got := f.beats(t, 0); made == old || len(got) != 1 || !got[0].Since.Equal(f.At) || !got[0].Addressed || got[0].EndedAt == nil {
		t.Errorf("a new address leaves %+v", got)
	}
	for _, wrong := range []string{old, "", "x"} {
		if _, err := f.Store.Watch.Heartbeat(t.Context(), wrong); !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("%q is found: %v", wrong, err)
		}
	}
	_, err = f.Store.Watch.Heartbeat(t.Context(), made)
	must(t, err)
}

func heartbeatPings(t *testing.T, f *Fixture) {
	mirror := backup()
	mirror.Service = "mirror"
	f.addressed(t, backup())
	f.addressed(t, mirror)
	ping := func(h ops.Heartbeat, p ops.Ping) ops.Heartbeat {
		f.At = f.At.Add(time.Minute)
		p.At = f.At
		must(t, f.Store.Watch.Ping(t.Context(), h, p))
		own, err := f.Store.Watch.HeartbeatsOf(t.Context(), "home", h.Service)
		must(t, err)
		if len(own) != 1 {
			t.Fatalf("%s has %+v", h.Service, own)
		}
		return own[0]
	}
	if got := ping(backup(), ops.Ping{Start: true}); got.StartedAt == nil || !got.StartedAt.Equal(f.At) || got.EndedAt != nil {
		t.Errorf("after its start it is %+v", got)
	}
	failed := ping(backup(), ops.Ping{Failed: true, Exit: 3, Output: "disk full\n\x00\xff"})
	if failed.StartedAt != nil || !failed.EndedAt.Equal(f.At) || !failed.Failed || failed.Exit != 3 || failed.Output != "disk full\n\uFFFD\uFFFD" {
		t.Errorf("after its failure it is %+v", failed)
	}
	ping(mirror, ops.Ping{})
	if got := ping(backup(), ops.Ping{}); got.Failed || got.Exit != 0 || got.Output != "" {
		t.Errorf("after its success it is %+v", got)
	}
	if got := f.beats(t, failed.Seq); len(got) != 2 || got[0].Service != "mirror" || got[1].Service != "backup" {
		t.Errorf("since the failure, there are %+v", got)
	}
}

// What the newest results say of services counts only while they are watched: not for an address that was corrected, and for a service
// that was taken out until its incident is over.
func unwatchedIsNotShown(t *testing.T, f *Fixture) {
	s, ctx := f.Store, t.Context()
	check := func(service, probe string, status ops.Health) ops.Check {
		return ops.Check{At: f.At, Environment: "home", Purpose: ops.ProbeWatch, Service: service, Probe: probe, Type: ops.CheckHTTP, Status: status}
	}
	shown := func() (out string) {
		t.Helper()
		all, err := s.Watch.LatestChecks(ctx, "home")
		must(t, err)
		for _, name := range []string{"db", "web"} {
			one, err := s.Watch.ChecksOf(ctx, "home", name)
			must(t, err)
			all = append(all[:len(all):len(all)], one...)
		}
		for _, c := range all {
			out += c.Service + " " + c.Probe + "|"
		}
		return out
	}
	states := []ops.CheckState{{Service: "web", Probe: "GET old", Level: ops.Down}, {Service: "db", Probe: "tcp", Level: ops.Down}}
	must(t, s.Watch.RecordResults(ctx, "home", []ops.Check{check("web", "GET old", ops.Down), check("db", "tcp", ops.Down)}, nil, states, nil, nil))
	if got, want := shown(), "db tcp|web GET old|db tcp|web GET old|"; got != want {
		t.Errorf("shown is %s", got)
	}
	must(t, s.Watch.ForgetStates(ctx, "home", states))
	if got := shown(); got != "" {
		t.Errorf("after the last service was taken out, shown is %s", got)
	}
	agents := check("db", "by hand", ops.Healthy)
	agents.Purpose = ops.ProbeObserve
	must(t, s.Watch.RecordResults(ctx, "home", []ops.Check{agents}, nil, nil, nil, nil))
	if got, want := shown(), "db by hand|db by hand|"; got != want {
		t.Errorf("where only agents look since, shown is %s", got)
	}
	must(t, s.Watch.RecordResults(ctx, "home", []ops.Check{check("web", "GET new", ops.Healthy)}, nil, []ops.CheckState{{Service: "web", Probe: "GET new", Level: ops.Healthy}}, nil, nil))
	if got, want := shown(), "web GET new|web GET new|"; got != want {
		t.Errorf("after both were changed, shown is %s", got)
	}
	// A call for help about what was taken out.
	f.Commit(t, ops.Transition{Cycle: f.Claim(t, "home").Cycle.ID, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{"db"}},
	}})
	if got, want := shown(), "db by hand|db tcp|web GET new|db by hand|db tcp|web GET new|"; got != want {
		t.Errorf("with an incident, shown is %s", got)
	}
	_, err := s.People.ResolveIncident(ctx, 1, "ann", "gone", f.At)
	must(t, err)
	if got, want := shown(), "web GET new|web GET new|"; got != want {
		t.Errorf("after its end, shown is %s", got)
	}
}
