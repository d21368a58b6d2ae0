package storetest

import (
	"fmt"
	"testing"
	"time"

	"claudeops/internal/notice/answer"
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
	id, err := f.Store.People.AddMemory(t.Context(), m)
	must(t, err)
	return id
}

func (f *Fixture) memories(t *testing.T, filter store.MemoryFilter) []ops.Memory {
	t.Helper()
	got, err := f.Store.People.Memories(t.Context(), filter)
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
		out, err := f.Store.People.Recall(t.Context(), "home", []string{"web"}, at, 10)
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
		got, err := f.Store.People.Recall(t.Context(), "home", tt.services, Start, tt.limit)
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
		got, err := f.Store.People.Recall(t.Context(), "home", nil, at, 0)
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
	must(t, f.Store.People.RemoveMemory(t.Context(), id, "ann", Start))
	equal(t, "left", len(f.memories(t, store.MemoryFilter{All: true})), 0)
	wantErr(t, f.Store.People.RemoveMemory(t.Context(), id, "ann", Start), ops.ErrNotFound)
	f.remember(t, ops.Memory{Category: "c", Observation: "right\nand long", By: "bob"})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventMemory)})
	must(t, err)
	equal(t, "events", []string{events[0].Message.Words(), events[1].Message.Words()}, []string{"bob added memory 2: right", "ann removed memory 1: wrong"})
}

func trustCases() []testCase {
	return []testCase{
		{"trust is lowered beside the configuration, and raised again", trustIsSet},
		{"trust is reduced once in a cycle, down to ask", trustIsReduced},
		{"an undone action costs trust", undoneCostsTrust},
		{"the record of a service counts what became of the work on it", trustIsRecorded},
		{"an alarm of the guard costs the trust in what the session worked on", alarmCostsTrust},
		{"what is left to people becomes an incident beside the other", leftToPeople},
	}
}

func trusting(level ops.Trust) ops.Policy {
	p := Policy()
	p.Trust = level
	return p
}

// believe records that a person chose a level for web.
func (f *Fixture) believe(t *testing.T, p ops.Policy, level ops.Trust) {
	t.Helper()
	must(t, f.Store.People.SetTrust(t.Context(), p, ops.Lowered{
		Environment: "home", Service: "web", Level: level, By: "alice", Reason: "so far", At: Start.Add(-time.Hour),
	}))
}

func (f *Fixture) lowered(t *testing.T) []ops.Lowered {
	t.Helper()
	out, err := f.Store.People.Lowered(t.Context(), "home")
	must(t, err)
	return out
}

func (f *Fixture) wantTrust(t *testing.T, level ops.Trust, by string) {
	t.Helper()
	got := f.lowered(t)
	if len(got) != 1 || got[0].Service != "web" || got[0].Level != level || got[0].By != by {
		t.Errorf("trust is %+v, want %s by %s", got, level, by)
	}
}

func trustIsSet(t *testing.T, f *Fixture) {
	p := trusting(ops.TrustRepair)
	f.believe(t, p, ops.TrustAsk)
	f.wantTrust(t, ops.TrustAsk, "alice")
	c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), p, f.At)
	must(t, err)
	equal(t, "in the journal", c.Journal.Lowered, f.lowered(t))
	other, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "office"), p, f.At)
	must(t, err)
	equal(t, "elsewhere", other.Journal.Lowered, nil)
	f.believe(t, p, ops.TrustRepair)
	equal(t, "as configured", len(f.lowered(t)), 0)
}

func trustIsReduced(t *testing.T, f *Fixture) {
	reduce := func(p ops.Policy) {
		t.Helper()
		c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), p, f.At)
		must(t, err)
		for range 2 {
			f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{
				Kind: ops.StepProbe, Reduced: []ops.Reduced{{Service: "web", Why: "a probe refutes it"}},
			}})
		}
		f.EndCycle(t, c.Cycle.ID)
		f.At = f.At.Add(time.Hour)
	}
	reduce(Policy())
	equal(t, "without a level", len(f.lowered(t)), 0)
	p := trusting(ops.TrustFull)
	reduce(p)
	f.wantTrust(t, ops.TrustRepair, ops.Supervisor)
	reduce(p)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	reduce(p)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 2)
}

func undoneCostsTrust(t *testing.T, f *Fixture) {
	f.believe(t, Policy(), ops.TrustRepair)
	session := f.RunningSession(t, "home")
	run := f.begin(t, f.intent(session))
	f.end(t, run.ID, ops.ActionDone)
	f.wantTrust(t, ops.TrustRepair, "alice")
	undo := f.intent(session)
	undo.Run.UndoOf, undo.Run.Automatic, undo.Want, undo.Record = run.ID, true, nil, ops.GuardRecord{}
	f.end(t, f.begin(t, undo).ID, ops.ActionDone)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
	equal(t, "notices", f.noticesOf(t, ops.NoticeTrust), 1)
	record, err := f.Store.Reports.TrustRecord(t.Context(), "home", "web")
	must(t, err)
	equal(t, "record", record, ops.TrustRecord{Undone: 1})
}

// The record counts what was proposed, also where nobody was asked, and what became of it.
func trustIsRecorded(t *testing.T, f *Fixture) {
	wants := func(want ops.TrustRecord) {
		t.Helper()
		got, err := f.Store.Reports.TrustRecord(t.Context(), "home", "web")
		must(t, err)
		equal(t, "record", got, want)
	}
	left := f.RunningSession(t, "home")
	up := f.Escalation(left, 1)
	up.Step.Kind, up.Step.Status, up.Step.Session = ops.StepFinish, ops.CycleNeedsHuman, nil
	up.Step.Decision.Verdict, up.Step.Decision.Check = ops.VerdictNeedsHuman, ops.ObjectionTrust
	needs := report("web")
	up.Step.Incident = &needs
	f.Commit(t, up)
	wants(ops.TrustRecord{Proposed: 1})
	f.At = f.At.Add(time.Hour)
	asked := f.await(t, "home", ops.Step{Kind: ops.StepAwait, Incident: &needs, Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2"}})
	wants(ops.TrustRecord{Proposed: 2})
	_, err := f.Store.People.Answer(t.Context(), 1, ops.ApprovalApproved, "ada", "", f.At)
	must(t, err)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1})
	c := f.claimAt(t, asked.Cycle.ID, f.At)
	bad := verifies("web")
	bad.Status = ops.Down
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Result: ops.Result{Checks: []ops.Check{bad}}, Facts: []byte("{}"), Step: ops.Step{Kind: ops.StepRest, Row: "claim refuted"}})
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Refuted: 1})
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe,
	}})
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Refuted: 1}) // nothing was done in it
	f.fixed(t)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Verified: 1, Refuted: 1})
	f.relapses(t)
	wants(ops.TrustRecord{Proposed: 2, Approved: 1, Proven: 1, Refuted: 2})
}

func alarmCostsTrust(t *testing.T, f *Fixture) {
	f.believe(t, Policy(), ops.TrustRepair)
	first := f.RunningSession(t, "home")
	alarm := func(id ops.SessionID) {
		t.Helper()
		_, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{
			Environment: "home", SessionID: &id, Verb: ops.VerbWallsBroken, Level: ops.LevelCritical, Reason: "it broke out",
		})
		must(t, err)
	}
	alarm(first.ID)
	f.wantTrust(t, ops.TrustRepair, "alice") // Tier 1 works on nothing
	up := f.Escalation(first, 1)
	works := report("web")
	works.Handled = true
	up.Step.Incident = &works
	second := f.Commit(t, up).Journal.Newest()
	alarm(second.ID)
	f.wantTrust(t, ops.TrustAsk, ops.Supervisor)
}

func leftToPeople(t *testing.T, f *Fixture) {
	c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), trusting(ops.TrustSuggest), f.At)
	must(t, err)
	works, left := report("web"), report("db")
	works.Handled = true
	f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: ops.Step{Kind: ops.StepProbe, Incident: &works, Left: &left}})
	open, err := f.Store.People.Unresolved(t.Context(), "home")
	must(t, err)
	called := map[string]bool{}
	for _, i := range open {
		called[i.Service] = i.CalledAt != nil
	}
	equal(t, "called", called, map[string]bool{"web": false, "db": true})
}

func reflexCases() []testCase {
	return []testCase{
		{"three repairs of the same kind ask people once", threeRepairsAsk},
		{"what a person undoes is told with the repair", undoIsTold},
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
	_, err := f.Store.People.AskForReflexes(t.Context(), f.At.Add(ops.Probation))
	must(t, err)
	out, err := f.Store.People.Reflexes(t.Context(), "home")
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
	asked, err := f.Store.People.AskForReflexes(t.Context(), f.At.Add(ops.Probation-time.Second))
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
		{answer.Reply{Code: "1", Token: answer.Token{Subject: answer.Subject{Kind: answer.KindReflex, ID: 9}, Decision: answer.Deny}}, "no longer on record", ops.ReflexAsked},
		{answer.Reply{Code: "2", Token: answer.Token{Subject: answer.Subject{Kind: answer.KindReflex, ID: 1}, Decision: answer.Approve}}, "Reflex 1 is on", ops.ReflexOn},
		{answer.Reply{Code: "3", Token: answer.Token{Subject: answer.Subject{Kind: answer.KindReflex, ID: 1}, Decision: answer.Deny}}, "ada switched it on", ops.ReflexOn},
	} {
		subject, err := f.Store.People.NoticeSubject(t.Context(), asks)
		must(t, err)
		equal(t, "it can be answered", subject.Reflex != nil, f.reflexes(t)[0].State == ops.ReflexAsked)
		x.reply.By, x.reply.Channel, x.reply.Source, x.reply.At = "ada", "Telegram", x.reply.Code, f.At
		x.reply.Token.Expires = f.At.Add(time.Hour)
		got, err := f.takes(t.Context(), x.reply)
		must(t, err)
		wantParts(t, got.Text, x.want)
		equal(t, "state", f.reflexes(t)[0].State, x.state)
	}
	equal(t, "digests", f.reflexes(t)[0].Digests, []string{restartOfWeb().Digest()})
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

// What a person undoes belongs to no cycle. The story of the repair tells it all the same.
func undoIsTold(t *testing.T, f *Fixture) {
	cycle, run := f.fixed(t)
	by := run
	by.CycleID = nil
	f.undone(t, by)
	story, err := f.Store.Reports.CycleStory(t.Context(), cycle)
	must(t, err)
	runs := story.Cycles[0].Journal.Runs
	last := runs[len(runs)-1]
	equal(t, "undone", last.UndoOf, run.ID)
	equal(t, "by", last.Person, "ada")
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
	must(t, f.Store.People.SwitchReflex(t.Context(), e))
	return e, run
}

func reflexIsSwitched(t *testing.T, f *Fixture) {
	e, _ := f.earned(t)
	c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), Policy(), f.At)
	must(t, err)
	equal(t, "in the journal", c.Journal.Reflexes, []ops.Reflex{e.Reflex})
	f.EndCycle(t, c.Cycle.ID)
	wantErr(t, f.Store.People.SwitchReflex(t.Context(), e), ops.ErrConflict)
	e.State = ops.ReflexIsOff
	must(t, f.Store.People.SwitchReflex(t.Context(), e))
	c, err = f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), Policy(), f.At)
	must(t, err)
	equal(t, "off", len(c.Journal.Reflexes), 0)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventAudit)})
	must(t, err)
	equal(t, "audit", len(events), 2)
	wantParts(t, events[0].Message.Words(), "ada switched reflex 1 (restart of web) off: it helps")
	_, err = f.Store.People.Reflex(t.Context(), 9)
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
