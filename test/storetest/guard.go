package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	restartAction  = "restart"
	redeployAction = "redeployment"
)

// limits are those that a fresh installation has.
func limits() []ops.CooldownLimit {
	return []ops.CooldownLimit{
		{Action: restartAction, Count: 2, Window: 4 * time.Hour},
		{Action: redeployAction, Count: 1, Window: 24 * time.Hour},
	}
}

func restart(services ...string) []ops.Reservation {
	var out []ops.Reservation
	for _, s := range services {
		out = append(out, ops.Reservation{Service: s, Action: restartAction})
	}
	return out
}

// judged is an allowed command as the hook hands it over, at the time of the fixture.
func (f *Fixture) judged(s ops.Session, toolUse string) ops.GuardRecord {
	return ops.GuardRecord{
		At: f.At, SessionID: s.ID, Tier: ops.Tier2, Gate: ops.GateHook, ToolUseID: toolUse, Tool: "Bash",
		Input: "docker restart web", Digest: "sha256:1", Allowed: true, Rule: "R4", Reason: "Restarts are permitted at Tier 2.",
		Mutating: true, Took: 1234 * time.Microsecond,
	}
}

// hook asks at the hook and returns the answer.
func (f *Fixture) hook(t *testing.T, s ops.Session, toolUse string, want ...ops.Reservation) ops.GuardRecord {
	t.Helper()
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, f.judged(s, toolUse), want, limits())
	must(t, err)
	return got
}

// shell asks at the shell, which knows no tool call, and returns the answer.
func (f *Fixture) shell(t *testing.T, s ops.Session, want ...ops.Reservation) ops.GuardRecord {
	t.Helper()
	r := f.judged(s, "")
	r.Gate = ops.GateShell
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, want, limits())
	must(t, err)
	return got
}

func wantAllowed(t *testing.T, got ops.GuardRecord) {
	t.Helper()
	if !got.Allowed || got.ID == 0 {
		t.Errorf("record %d is refused by %s: %s", got.ID, got.Rule, got.Reason)
	}
}

func wantDenied(t *testing.T, got ops.GuardRecord, rule string, parts ...string) {
	t.Helper()
	if got.Allowed || got.Rule != rule || got.ID == 0 {
		t.Errorf("record %d: allowed %v by %q, want a refusal by %q", got.ID, got.Allowed, got.Rule, rule)
	}
	for _, part := range parts {
		if !strings.Contains(got.Reason, part) {
			t.Errorf("%q does not say %q", got.Reason, part)
		}
	}
}

// refused is a call that the hook let pass and the shell refuses.
func (f *Fixture) refused(t *testing.T, s ops.Session, toolUse string) ops.GuardRecord {
	t.Helper()
	r := f.judged(s, toolUse)
	r.Gate, r.Allowed, r.Mutating = ops.GateShell, false, false
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, nil, nil)
	must(t, err)
	return got
}

// cooldowns are those of home at the time of the fixture.
func (f *Fixture) cooldowns(t *testing.T) []ops.Cooldown {
	t.Helper()
	got, err := f.Store.Acts.Cooldowns(t.Context(), "home", limits(), f.At)
	must(t, err)
	return got
}

func guardCases() []testCase {
	return []testCase{
		{"judgements read back", judgementsReadBack},
		{"calls that name a handoff are found", handoffCallsAreFound},
		{"the calls of all sessions are read in pages, the newest first", judgedCallsAreRead},
		{"a refusal for cooldown is recorded", refusalIsRecorded},
		{"a session that does not run gets no answer", onlyRunningSessions},
		{"an incomplete question is an error and leaves no trace", incompleteQuestion},
		{"hook and shell count one action once", hookAndShellCountOnce},
		{"the shell refuses what the hook did not reserve", shellNeedsReservation},
		{"the same call asked twice counts once", repeatedCallCountsOnce},
		{"50 restarts at once: 2 are allowed", manyRestartsAtOnce},
		{"a command and its Docker requests count once", dockerCountsOnce},
		{"a Docker request without a command counts", dockerCountsAlone},
		{"Docker requests take a service down and start it", dockerRedeploys},
	}
}

func judgementsReadBack(t *testing.T, f *Fixture) {
	session, other := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	allow := f.hook(t, session, "toolu_1")
	deny := f.judged(session, "toolu_2")
	deny.Allowed, deny.Rule, deny.Gate, deny.Mutating = false, "never.prune", ops.GateShell, false
	denied, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, deny, restart("web"), limits())
	must(t, err)
	f.hook(t, other, "toolu_1")

	want := f.judged(session, "toolu_1")
	want.ID, want.CycleID = allow.ID, session.CycleID
	equal(t, "allow", allow, want)
	got, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", got, []ops.GuardRecord{allow, denied})
	equal(t, "a refused command reserves nothing", len(f.cooldowns(t)), 0)
}

func handoffCallsAreFound(t *testing.T, f *Fixture) {
	session, other := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	var want []ops.GuardRecord
	for use, input := range map[string]string{
		"toolu_1": `{"file_path":"/tmp/handoff.json"}`, "toolu_2": `{"file_path":"/tmp/handoff_json"}`, "toolu_3": `{"command":"uptime"}`,
	} {
		for _, s := range []ops.Session{session, other} {
			r := f.judged(s, use)
			r.Input, r.Allowed = input, false
			saved, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, nil, limits())
			must(t, err)
			if s.ID == session.ID && use == "toolu_1" {
				want = append(want, saved)
			}
		}
	}
	got, err := f.Store.Acts.HandoffCalls(t.Context(), session.ID)
	must(t, err)
	equal(t, "calls", got, want)
}

func refusalIsRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web")...))
	denied := f.hook(t, session, "toolu_3", restart("web")...)
	wantDenied(t, denied, "cooldown", "web", "restart", "2026-03-14T16:00:00Z")
	got, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(got), 3)
	equal(t, "the refusal", got[2], denied)
}

func onlyRunningSessions(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	queued := *f.Commit(t, f.Escalation(session, 1)).Journal.Last()
	for name, s := range map[string]ops.Session{"ended": session, "queued": queued} {
		got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, f.judged(s, "toolu_1"), restart("web"), limits())
		wantErr(t, err, ops.ErrConflict)
		equal(t, name, got, ops.GuardRecord{})
	}
	_, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, f.judged(ops.Session{ID: 999}, "toolu_1"), nil, nil)
	wantErr(t, err, ops.ErrNotFound)
	equal(t, "cooldowns", len(f.cooldowns(t)), 0)
}

func incompleteQuestion(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	noGate := f.judged(session, "toolu_1")
	noGate.Gate = ""
	for name, ask := range map[string]struct {
		record ops.GuardRecord
		want   []ops.Reservation
	}{
		"no gate":    {noGate, restart("web")},
		"no service": {f.judged(session, "toolu_1"), restart("web", "")},
		"no action":  {f.judged(session, "toolu_1"), []ops.Reservation{{Service: "web"}}},
	} {
		if got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, ask.record, ask.want, limits()); err == nil || got.Allowed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(got), 0)
	equal(t, "cooldowns", len(f.cooldowns(t)), 0)
}

func hookAndShellCountOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantAllowed(t, f.shell(t, session, restart("web")...))
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantDenied(t, f.shell(t, session, restart("web")...), "cooldown.unreserved", "web", "restart")
}

func shellNeedsReservation(t *testing.T, f *Fixture) {
	session, other := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantDenied(t, f.shell(t, other, restart("web")...), "cooldown.unreserved")
	wantDenied(t, f.shell(t, session, ops.Reservation{Service: "web", Action: redeployAction}), "cooldown.unreserved")
	wantDenied(t, f.shell(t, session, restart("web", "db")...), "cooldown.unreserved", "db")
	wantAllowed(t, f.shell(t, session, restart("web")...)) // the refusal before has not used it up
}

func repeatedCallCountsOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	for range 3 {
		wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	}
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("db", "db")...)) // one command, two restarts
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("db", "db")...))
	wantDenied(t, f.hook(t, session, "toolu_3", restart("db")...), "cooldown")
	wantAllowed(t, f.hook(t, session, "", restart("mail")...)) // without an id every question is a new one
	wantAllowed(t, f.hook(t, session, "", restart("mail")...))
	wantDenied(t, f.hook(t, session, "", restart("mail")...), "cooldown")
}

func manyRestartsAtOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	var wg sync.WaitGroup
	answers := make(chan ops.GuardRecord, 50)
	for range cap(answers) {
		wg.Go(func() {
			got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, f.judged(session, ""), restart("web"), limits())
			if err != nil {
				t.Error(err)
			}
			answers <- got
		})
	}
	wg.Wait()
	close(answers)
	allowed := 0
	for a := range answers {
		if a.Allowed {
			allowed++
		}
	}
	equal(t, "allowed", allowed, 2)
	got, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(got), 50)
}

// docker asks before a request for a container reaches the Docker engine.
func (f *Fixture) docker(t *testing.T, s ops.Session, container string, want ...ops.Reservation) ops.GuardRecord {
	t.Helper()
	r := f.judged(s, "docker:"+container)
	r.Gate, r.Tool = ops.GateDocker, "docker"
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, r, want, limits())
	must(t, err)
	return got
}

func dockerCountsOnce(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	for _, call := range []string{"toolu_1", "toolu_2"} {
		wantAllowed(t, f.hook(t, session, call, restart("web")...))
		wantAllowed(t, f.shell(t, session, restart("web")...))
		// One command restarts every container of the service.
		wantAllowed(t, f.docker(t, session, "a", restart("web")...))
		wantAllowed(t, f.docker(t, session, "b", restart("web")...))
		if call == "toolu_1" {
			equal(t, "left after one", f.cooldowns(t)[0].Left, 1)
		}
	}
	equal(t, "left", f.cooldowns(t)[0].Left, 0)
	denied := f.docker(t, session, "a", restart("web")...)
	wantDenied(t, denied, "cooldown", "web", "restart")
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web")...), "cooldown")
}

func dockerCountsAlone(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.docker(t, session, "a", restart("web")...))
	wantAllowed(t, f.docker(t, session, "a", restart("web")...))
	wantDenied(t, f.docker(t, session, "a", restart("web")...), "cooldown")
	wantAllowed(t, f.docker(t, session, "c", restart("db")...))
	// What another session reserved is not for this one.
	other := f.RunningSession(t, "office")
	wantAllowed(t, f.hook(t, other, "toolu_1", restart("mail")...))
	equal(t, "counted", len(f.cooldowns(t)), 2)
}

func dockerRedeploys(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	down := ops.Reservation{Service: "web", Action: redeployAction, Phase: ops.PhaseOpen}
	up := ops.Reservation{Service: "web", Action: restartAction, Phase: ops.PhaseClose}
	wantAllowed(t, f.docker(t, session, "a", down))
	left, err := f.Store.Acts.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", left, []string{"web"})
	wantAllowed(t, f.docker(t, session, "b", up))
	left, err = f.Store.Acts.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", len(left), 0)
	wantDenied(t, f.docker(t, session, "b", down), "cooldown", "redeployment")

	// The same as commands, each with its request.
	other := ops.Reservation{Service: "db", Action: redeployAction, Phase: ops.PhaseOpen}
	otherUp := ops.Reservation{Service: "db", Action: restartAction, Phase: ops.PhaseClose}
	wantAllowed(t, f.hook(t, session, "toolu_1", other))
	wantAllowed(t, f.docker(t, session, "d", other))
	wantAllowed(t, f.hook(t, session, "toolu_2", otherUp))
	wantAllowed(t, f.docker(t, session, "d", otherUp))
	left, err = f.Store.Acts.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", len(left), 0)
	for _, c := range f.cooldowns(t) {
		if c.Action == redeployAction {
			equal(t, "redeployments left of "+c.Service, c.Left, 0)
		}
	}
}

func redeploymentCases() []testCase {
	return []testCase{
		{"down then up is one redeployment", downThenUp},
		{"what is down may come up whatever the cooldown says", neverStranded},
		{"up without down is a restart", upWithoutDown},
		{"one down covers one up", oneDownCoversOneUp},
		{"down and up in one command", downAndUpInOneCommand},
		{"a project taken down comes up service by service, each once", projectComesUp},
		{"a project's up closes the services taken down", projectUpClosesServices},
		{"another session's down covers nothing", otherSessionsDown},
		{"a released up leaves the service down", releasedUp},
	}
}

func down(service, project string) ops.Reservation {
	return ops.Reservation{Service: service, Project: project, Action: redeployAction, Phase: ops.PhaseOpen}
}

func up(service, project string) ops.Reservation {
	return ops.Reservation{Service: service, Project: project, Action: restartAction, Phase: ops.PhaseClose}
}

func (f *Fixture) wantDown(t *testing.T, s ops.Session, want ...string) {
	t.Helper()
	got, err := f.Store.Acts.ServicesLeftDown(t.Context(), s.ID)
	must(t, err)
	equal(t, "down", got, want)
}

func oneRedeployment(service string) []ops.Cooldown {
	return []ops.Cooldown{{Service: service, Action: redeployAction, Until: Start.Add(24 * time.Hour)}}
}

func downThenUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.wantDown(t, session)
	stop := down("web", "shop")
	stop.Action = restartAction // whatever it is called, it opens a redeployment
	wantAllowed(t, f.hook(t, session, "toolu_1", stop))
	wantAllowed(t, f.shell(t, session, stop))
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop"))) // asked again
	f.wantDown(t, session)
	wantAllowed(t, f.shell(t, session, up("web", "shop")))
	wantDenied(t, f.shell(t, session, up("web", "shop")), "cooldown.unreserved")
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))
	wantDenied(t, f.hook(t, session, "toolu_3", down("web", "shop")), "cooldown", "web", "redeployment", "2026-03-15T12:00:00Z")
}

func neverStranded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web", "web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", down("web", "")))
	_, err := f.Store.Acts.ClearCooldown(t.Context(), "home", "web", redeployAction, "because", "alice", f.At)
	must(t, err)
	f.wantDown(t, session, "web")
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web")...), "cooldown")
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "")))
	wantAllowed(t, f.shell(t, session, up("web", "")))
}

func upWithoutDown(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", up("web", "shop")))
	wantAllowed(t, f.shell(t, session, up("web", "shop")))
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantDenied(t, f.hook(t, session, "toolu_3", up("web", "shop")), "cooldown", "web", "restart")
}

func oneDownCoversOneUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("db", "shop"))) // not the one that is down: a restart
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_3", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "shop")))
	equal(t, "cooldowns", f.cooldowns(t), append([]ops.Cooldown{
		{Service: "db", Action: restartAction, Left: 1},
	}, append(oneRedeployment("web"), ops.Cooldown{Service: "web", Action: restartAction, Left: 1})...))
}

func downAndUpInOneCommand(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	both := []ops.Reservation{down("web", "shop"), up("web", "shop")}
	wantAllowed(t, f.hook(t, session, "toolu_1", both...))
	wantAllowed(t, f.hook(t, session, "toolu_1", both...))
	wantAllowed(t, f.shell(t, session, both...))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))
	wantDenied(t, f.hook(t, session, "toolu_2", both...), "cooldown")
}

func projectComesUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("compose:shop", "shop")))
	f.wantDown(t, session, "compose:shop")
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_3", up("db", "shop")))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("compose:shop"))
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_5", up("mail", "post")))
	equal(t, "a second time it counts", f.cooldowns(t), append(oneRedeployment("compose:shop"),
		ops.Cooldown{Service: "mail", Action: restartAction, Left: 1}, ops.Cooldown{Service: "web", Action: restartAction, Left: 1}))
}

func projectUpClosesServices(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "shop"), down("db", "shop"), down("mail", "post")))
	whole := up("compose:shop", "shop")
	whole.Action = redeployAction
	wantAllowed(t, f.hook(t, session, "toolu_2", whole))
	f.wantDown(t, session, "mail")
	equal(t, "redeployments", len(f.cooldowns(t)), 3)
	wantAllowed(t, f.hook(t, session, "toolu_3", whole))
	wantDenied(t, f.hook(t, session, "toolu_4", whole), "cooldown", "compose:shop")
}

func otherSessionsDown(t *testing.T, f *Fixture) {
	first := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, first, "toolu_1", down("web", "")))
	second := *f.Commit(t, f.Escalation(first, 1)).Journal.Last()
	must(t, f.Start(t, second.ID, "planned-2", f.At))
	f.wantDown(t, first, "web")
	f.wantDown(t, second)
	wantAllowed(t, f.hook(t, second, "toolu_1", up("web", "")))
	equal(t, "the next tier brings it up as the same redeployment", f.cooldowns(t), oneRedeployment("web"))
	f.wantDown(t, first)
}

func releasedUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "")))
	wantAllowed(t, f.shell(t, session, down("web", "")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "")))
	f.refused(t, session, "toolu_2")
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_3", up("web", "")))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))

	wantAllowed(t, f.hook(t, session, "toolu_4", down("mail", "post"), down("spam", "post")))
	wantAllowed(t, f.hook(t, session, "toolu_5", up("compose:post", "post")))
	f.wantDown(t, session)
	f.refused(t, session, "toolu_5")
	f.wantDown(t, session, "mail", "spam")
}

func cooldownCases() []testCase {
	return []testCase{
		{"the window slides, exact at its edges", windowSlides},
		{"several services are reserved all or none", allOrNone},
		{"a service's own limit wins over the general ones", ownLimitWins},
		{"every general limit holds", everyLimitHolds},
		{"an action without a limit is recorded all the same", unlimitedIsRecorded},
		{"a limit of none is said so", limitOfNone},
		{"environments do not share cooldowns", environmentsAreApart},
		{"a jump of the clock backwards shortens nothing", jumpBack},
		{"a jump of the clock forwards and back shortens nothing", jumpForwardAndBack},
		{"what the shell refused counts no longer", releasedCountsNoLonger},
		{"a cleared cooldown counts no longer and says who and why", clearedCountsNoLonger},
		{"clearing needs something to clear and a reason", clearingNeedsReason},
	}
}

// at moves the fixture's time, counted from Start.
func (f *Fixture) at(after time.Duration) { f.At = Start.Add(after) }

func windowSlides(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	const window = 4 * time.Hour
	ask := func(after time.Duration) ops.GuardRecord {
		t.Helper()
		f.at(after)
		return f.hook(t, session, "", restart("web")...)
	}
	wantAllowed(t, ask(0))
	equal(t, "one left", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantAllowed(t, ask(time.Hour))
	equal(t, "none left", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Until: Start.Add(window)}})
	wantDenied(t, ask(window-time.Microsecond), "cooldown", "2026-03-14T16:00:00Z")
	wantAllowed(t, ask(window)) // the refusal before does not count
	wantDenied(t, ask(window+time.Hour-time.Microsecond), "cooldown", "2026-03-14T17:00:00Z")
	wantAllowed(t, ask(window+time.Hour))
	f.at(2*window + time.Hour - time.Microsecond)
	equal(t, "last moment", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	f.at(2*window + time.Hour)
	equal(t, "over", len(f.cooldowns(t)), 0)
}

func allOrNone(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("db", "db")...))
	wantDenied(t, f.hook(t, session, "toolu_2", restart("web", "mail", "db")...), "cooldown", "db")
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web", "web", "web")...), "cooldown", "web")
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "db", Action: restartAction, Until: Start.Add(4 * time.Hour)}})
	wantDenied(t, f.shell(t, session, restart("web")...), "cooldown.unreserved")
	wantAllowed(t, f.hook(t, session, "toolu_4", restart("web", "mail")...))
	equal(t, "cooldowns", len(f.cooldowns(t)), 3)
}

// restarts asks for n restarts at once under other limits.
func (f *Fixture) restarts(t *testing.T, s ops.Session, n int, service string, limits ...ops.CooldownLimit) ops.GuardRecord {
	t.Helper()
	var want []ops.Reservation
	for range n {
		want = append(want, restart(service)...)
	}
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner, f.judged(s, ""), want, limits)
	must(t, err)
	return got
}

func ownLimitWins(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	general := ops.CooldownLimit{Action: restartAction, Count: 1, Window: 24 * time.Hour}
	own := ops.CooldownLimit{Service: "web", Action: restartAction, Count: 3, Window: time.Hour}
	wantDenied(t, f.restarts(t, session, 2, "db", general, own), "cooldown")
	wantAllowed(t, f.restarts(t, session, 3, "web", general, own))
	wantDenied(t, f.restarts(t, session, 1, "web", own, general), "cooldown", "2026-03-14T13:00:00Z")
	got, err := f.Store.Acts.Cooldowns(t.Context(), "home", []ops.CooldownLimit{general, own}, f.At.Add(time.Minute))
	must(t, err)
	equal(t, "cooldowns", got, []ops.Cooldown{{Service: "web", Action: restartAction, Until: Start.Add(time.Hour)}})
}

func everyLimitHolds(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	hour := ops.CooldownLimit{Action: restartAction, Count: 2, Window: time.Hour}
	day := ops.CooldownLimit{Action: restartAction, Count: 3, Window: 24 * time.Hour}
	wantAllowed(t, f.restarts(t, session, 2, "web", day, hour))
	wantDenied(t, f.restarts(t, session, 1, "web", day, hour), "cooldown", "2026-03-14T13:00:00Z")
	f.at(time.Hour)
	wantAllowed(t, f.restarts(t, session, 1, "web", day, hour))
	wantDenied(t, f.restarts(t, session, 1, "web", hour, day), "cooldown", "2026-03-15T12:00:00Z")
}

func unlimitedIsRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	for i := range 5 {
		f.at(time.Duration(i) * time.Minute)
		wantAllowed(t, f.restarts(t, session, 1, "web"))
	}
	equal(t, "without a limit", func() int {
		got, err := f.Store.Acts.Cooldowns(t.Context(), "home", nil, f.At)
		must(t, err)
		return len(got)
	}(), 0)
	// A limit that is set later counts them: four of the five must leave its window.
	wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown", "2026-03-14T16:03:00Z")
}

func limitOfNone(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	none := ops.CooldownLimit{Service: "web", Action: restartAction, Window: time.Hour}
	got := f.restarts(t, session, 1, "web", none)
	wantDenied(t, got, "cooldown", "web", "restart")
	if strings.Contains(got.Reason, "2026") {
		t.Errorf("%q promises a time", got.Reason)
	}
}

func environmentsAreApart(t *testing.T, f *Fixture) {
	home, office := f.RunningSession(t, "home"), f.RunningSession(t, "office")
	wantAllowed(t, f.hook(t, home, "", restart("web", "web")...))
	wantAllowed(t, f.hook(t, office, "", restart("web")...))
	wantDenied(t, f.hook(t, home, "", restart("web")...), "cooldown")
}

const year = 365 * 24 * time.Hour

func jumpBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web", "web")...))
	for _, after := range []time.Duration{-time.Second, -24 * time.Hour, -year} {
		f.at(after)
		wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown", f.At.Add(4*time.Hour).Format(time.RFC3339))
	}
	f.at(4*time.Hour - time.Microsecond)
	wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown")
	f.at(4 * time.Hour)
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
}

func jumpForwardAndBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.at(year)
	wantAllowed(t, f.hook(t, session, "", restart("web", "web")...))
	for _, after := range []time.Duration{0, time.Hour, year - time.Hour, year, year + 4*time.Hour - time.Microsecond} {
		f.at(after)
		wantDenied(t, f.hook(t, session, "", restart("web")...), "cooldown")
	}
}

func releasedCountsNoLonger(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web", "db")...))
	wantAllowed(t, f.shell(t, session, restart("web")...)) // uses the first
	for _, id := range []string{"toolu_1", "toolu_2", "toolu_2", "toolu_3"} {
		f.refused(t, session, id)
	}
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantDenied(t, f.shell(t, session, restart("db")...), "cooldown.unreserved")
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web")...)) // asked again, it takes a place again
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web")...), "cooldown")
}

func clearedCountsNoLonger(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web", "web", "db")...))
	wantAllowed(t, f.hook(t, session, "", ops.Reservation{Service: "web", Action: redeployAction}))
	n, err := f.Store.Acts.ClearCooldown(t.Context(), "home", "web", restartAction, "the disk was replaced", "alice", f.At)
	must(t, err)
	equal(t, "cleared", n, 2)
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{
		{Service: "db", Action: restartAction, Left: 1},
		{Service: "web", Action: redeployAction, Until: Start.Add(24 * time.Hour)},
	})
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
	n, err = f.Store.Acts.ClearCooldown(t.Context(), "home", "web", "", "all of it", "bob", f.At)
	must(t, err)
	equal(t, "cleared", n, 2)

	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Level: ops.LevelWarning})
	must(t, err)
	equal(t, "events", len(events), 2)
	e := events[1]
	equal(t, "event", e, written(ops.Event{
		ID: e.ID, At: f.At, Environment: "home", Level: ops.LevelWarning, Verb: ops.VerbCooldownCleared, Service: "web",
		Actor: ops.Person("alice"), Reason: "the disk was replaced",
		Detail: ops.ActionDetail{Action: restartAction},
	}))
	equal(t, "sentence", e.Message.Words(), "alice cleared the cooldown of web for restart: the disk was replaced")
}

func clearingNeedsReason(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "", restart("web")...))
	for _, tt := range []struct{ environment, service, action string }{
		{"office", "web", restartAction}, {"home", "db", restartAction}, {"home", "web", redeployAction},
	} {
		_, err := f.Store.Acts.ClearCooldown(t.Context(), tt.environment, tt.service, tt.action, "because", "alice", f.At)
		wantErr(t, err, ops.ErrNotFound)
	}
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Level: ops.LevelWarning})
	must(t, err)
	equal(t, "events", len(events), 0)
}
