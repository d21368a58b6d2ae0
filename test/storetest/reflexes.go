package storetest

import (
	"testing"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func reflexCases() []testCase {
	return []testCase{
		{"three repairs of the same kind ask people once", threeRepairsAsk},
		{"what did not hold or was undone does not count", failedRepairsDoNotCount},
		{"a reflex is switched by people, and only what is on is in a journal", reflexIsSwitched},
		{"a repair that does not hold switches its reflex off", relapseSwitchesOff},
		{"an undone action switches its reflex off", undoSwitchesOff},
	}
}

// fixed is a cycle in which a restart of web was done and helped, an hour after the last one.
func (f *Fixture) fixed(t *testing.T, change ...func(*ops.Repair)) (ops.CycleID, ops.ActionRun) {
	t.Helper()
	r := ops.Repair{Service: "web", Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down, Class: "5xx", Actions: []string{"restart"}}
	for _, c := range change {
		c(&r)
	}
	f.At = f.At.Add(time.Hour)
	session := f.RunningSession(t, "home")
	f.open(t, session.CycleID, handled("web"))
	in := f.intent(session)
	in.Want, in.Record = nil, ops.GuardRecord{}
	run := f.begin(t, in)
	f.end(t, run.ID, ops.ActionDone)
	ended := f.Ended(session, 0.1)
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{Session: &ended, Checks: []ops.Check{verifies("web")}}, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe, Repair: &r,
		Recovered: []ops.Recovered{{Incident: f.openOf(t, "web"), By: ops.ProofProbe, How: "repaired"}},
	}})
	return session.CycleID, run
}

func (f *Fixture) reflexes(t *testing.T) []ops.Earned {
	t.Helper()
	_, err := f.Store.AskForReflexes(t.Context(), f.At.Add(ops.Probation))
	must(t, err)
	out, err := f.Store.Reflexes(t.Context(), "home")
	must(t, err)
	return out
}

func threeRepairsAsk(t *testing.T, f *Fixture) {
	other := []func(*ops.Repair){
		func(r *ops.Repair) { r.Class = "refused" }, func(r *ops.Repair) { r.Probe = "tcp" }, func(r *ops.Repair) { r.Actions = []string{"restart", "restart"} },
	}
	var cycles []ops.CycleID
	for n := range 3 {
		equal(t, "too early", len(f.reflexes(t)), 0)
		if n < 2 {
			for _, o := range other {
				f.fixed(t, o)
			}
		}
		id, _ := f.fixed(t)
		cycles = append(cycles, id)
	}
	asked, err := f.Store.AskForReflexes(t.Context(), f.At.Add(ops.Probation-time.Second))
	must(t, err)
	equal(t, "asked on probation", asked, false)
	all := f.reflexes(t)
	equal(t, "reflexes", len(all), 1)
	e := all[0]
	equal(t, "origin", e.Cycles, cycles)
	if e.State != ops.ReflexAsked || e.Service != "web" || e.Class != "5xx" || e.On != "http" || e.Probes[0] != "GET" || e.Do[0] != "restart" || !e.AskedAt.Equal(f.At.Add(ops.Probation)) {
		t.Errorf("asked about %+v", e)
	}
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 1)
	var asks ops.Notice
	for _, n := range f.noticeList(t) {
		asks = n
	}
	wantParts(t, asks.Title+asks.Body, "Make this a reflex?", "restart of web", "claudeops reflexes enable 1")
	equal(t, "service", asks.Service, "web")
	f.fixed(t)
	equal(t, "asked again", len(f.reflexes(t)), 1)
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 1)
	for _, x := range []struct {
		reply answer.Reply
		want  string
		state ops.ReflexState
	}{
		{answer.Reply{Code: "1", Token: answer.Token{Kind: answer.KindReflex, Approval: 9, Decision: answer.Deny}}, "no longer on record", ops.ReflexAsked},
		{answer.Reply{Code: "2", Token: answer.Token{Kind: answer.KindReflex, Approval: 1, Decision: answer.Approve}, Digests: []string{"d1"}}, "Reflex 1 is on", ops.ReflexOn},
		{answer.Reply{Code: "3", Token: answer.Token{Kind: answer.KindReflex, Approval: 1, Decision: answer.Deny}}, "ada switched it on", ops.ReflexOn},
	} {
		subject, err := f.Store.NoticeSubject(t.Context(), asks)
		must(t, err)
		equal(t, "it can be answered", subject.Reflex != nil, f.reflexes(t)[0].State == ops.ReflexAsked)
		x.reply.By, x.reply.Channel, x.reply.Source, x.reply.At = "ada", "Telegram", x.reply.Code, f.At
		x.reply.Token.Expires = f.At.Add(time.Hour)
		got, err := f.Store.TakeReply(t.Context(), x.reply)
		must(t, err)
		wantParts(t, got.Text, x.want)
		equal(t, "state", f.reflexes(t)[0].State, x.state)
	}
	equal(t, "digests", f.reflexes(t)[0].Digests, []string{"d1"})
}

// relapses refutes the newest repair of web.
func (f *Fixture) relapses(t *testing.T) {
	t.Helper()
	at := f.At.Add(5 * time.Minute)
	claims := f.onProbation(t, at)
	equal(t, "relapsed", f.relapse(t, claims[len(claims)-1], at), true)
	f.At = at
}

// undone undoes a run, as a person asked.
func (f *Fixture) undone(t *testing.T, run ops.ActionRun) {
	t.Helper()
	undo := store.ActionIntent{Run: run, At: f.At}
	undo.Run.ID, undo.Run.UndoOf, undo.Run.Person, undo.Run.SessionID = 0, run.ID, "ada", nil
	f.end(t, f.begin(t, undo).ID, ops.ActionDone)
}

func failedRepairsDoNotCount(t *testing.T, f *Fixture) {
	f.fixed(t)
	f.relapses(t)
	f.fixed(t)
	_, run := f.fixed(t)
	f.undone(t, run)
	f.fixed(t)
	equal(t, "reflexes", len(f.reflexes(t)), 0)
	f.fixed(t)
	equal(t, "reflexes", len(f.reflexes(t)), 1)
}

// earned is a reflex that is on after three repairs, with the run of the last one.
func (f *Fixture) earned(t *testing.T) (ops.Earned, ops.ActionRun) {
	t.Helper()
	f.fixed(t)
	f.fixed(t)
	_, run := f.fixed(t)
	e := f.reflexes(t)[0]
	e.State, e.Digests, e.Person, e.Why, e.ChangedAt = ops.ReflexOn, []string{"d1"}, "ada", "it helps", f.At
	must(t, f.Store.SwitchReflex(t.Context(), e))
	return e, run
}

func reflexIsSwitched(t *testing.T, f *Fixture) {
	e, _ := f.earned(t)
	c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), Policy(), f.At)
	must(t, err)
	equal(t, "in the journal", c.Journal.Reflexes, []ops.Reflex{e.Reflex})
	f.EndCycle(t, c.Cycle.ID)
	wantErr(t, f.Store.SwitchReflex(t.Context(), e), ops.ErrConflict)
	e.State = ops.ReflexIsOff
	must(t, f.Store.SwitchReflex(t.Context(), e))
	c, err = f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), Policy(), f.At)
	must(t, err)
	equal(t, "off", len(c.Journal.Reflexes), 0)
	events, err := f.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	must(t, err)
	equal(t, "audit", len(events), 2)
	wantParts(t, events[0].Message, "ada switched reflex 1 (restart of web) off: it helps")
	_, err = f.Store.Reflex(t.Context(), 9)
	wantErr(t, err, ops.ErrNotFound)
}

func (f *Fixture) wantOff(t *testing.T, why string) {
	t.Helper()
	got := f.reflexes(t)[0]
	if got.State != ops.ReflexIsOff || got.Person != ops.Supervisor {
		t.Errorf("it is %s by %s", got.State, got.Person)
	}
	wantParts(t, got.Why, why)
}

func relapseSwitchesOff(t *testing.T, f *Fixture) {
	f.earned(t)
	f.relapses(t)
	f.wantOff(t, "the repair of cycle 3 did not hold")
}

func undoSwitchesOff(t *testing.T, f *Fixture) {
	_, run := f.earned(t)
	f.undone(t, run)
	f.wantOff(t, "restart of web (action 3) was undone")
}
