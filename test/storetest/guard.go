package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
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
	got, err := f.Store.RecordGuard(t.Context(), f.Owner, f.judged(s, toolUse), want, limits())
	must(t, err)
	return got
}

// shell asks at the shell, which knows no tool call, and returns the answer.
func (f *Fixture) shell(t *testing.T, s ops.Session, want ...ops.Reservation) ops.GuardRecord {
	t.Helper()
	r := f.judged(s, "")
	r.Gate = ops.GateShell
	got, err := f.Store.RecordGuard(t.Context(), f.Owner, r, want, limits())
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

// cooldowns are those of home at the time of the fixture.
func (f *Fixture) cooldowns(t *testing.T) []ops.Cooldown {
	t.Helper()
	got, err := f.Store.Cooldowns(t.Context(), "home", limits(), f.At)
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
	denied, err := f.Store.RecordGuard(t.Context(), f.Owner, deny, restart("web"), limits())
	must(t, err)
	f.hook(t, other, "toolu_1")

	want := f.judged(session, "toolu_1")
	want.ID, want.CycleID = allow.ID, session.CycleID
	equal(t, "allow", allow, want)
	got, err := f.Store.GuardDecisions(t.Context(), session.ID)
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
			saved, err := f.Store.RecordGuard(t.Context(), f.Owner, r, nil, limits())
			must(t, err)
			if s.ID == session.ID && use == "toolu_1" {
				want = append(want, saved)
			}
		}
	}
	got, err := f.Store.HandoffCalls(t.Context(), session.ID)
	must(t, err)
	equal(t, "calls", got, want)
}

func refusalIsRecorded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", restart("web")...))
	denied := f.hook(t, session, "toolu_3", restart("web")...)
	wantDenied(t, denied, "cooldown", "web", "restart", "2026-03-14T16:00:00Z")
	got, err := f.Store.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(got), 3)
	equal(t, "the refusal", got[2], denied)
}

func onlyRunningSessions(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	queued := *f.Commit(t, f.Escalation(session, 1)).Journal.Last()
	for name, s := range map[string]ops.Session{"ended": session, "queued": queued} {
		got, err := f.Store.RecordGuard(t.Context(), f.Owner, f.judged(s, "toolu_1"), restart("web"), limits())
		wantErr(t, err, ops.ErrConflict)
		equal(t, name, got, ops.GuardRecord{})
	}
	_, err := f.Store.RecordGuard(t.Context(), f.Owner, f.judged(ops.Session{ID: 999}, "toolu_1"), nil, nil)
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
		if got, err := f.Store.RecordGuard(t.Context(), f.Owner, ask.record, ask.want, limits()); err == nil || got.Allowed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := f.Store.GuardDecisions(t.Context(), session.ID)
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
			got, err := f.Store.RecordGuard(t.Context(), f.Owner, f.judged(session, ""), restart("web"), limits())
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
	got, err := f.Store.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(got), 50)
}

// docker asks before a request for a container reaches the Docker engine.
func (f *Fixture) docker(t *testing.T, s ops.Session, container string, want ...ops.Reservation) ops.GuardRecord {
	t.Helper()
	r := f.judged(s, "docker:"+container)
	r.Gate, r.Tool = ops.GateDocker, "docker"
	got, err := f.Store.RecordGuard(t.Context(), f.Owner, r, want, limits())
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
	down := ops.Reservation{Service: "web", Action: redeployAction, Half: ops.HalfOpen}
	up := ops.Reservation{Service: "web", Action: restartAction, Half: ops.HalfClose}
	wantAllowed(t, f.docker(t, session, "a", down))
	left, err := f.Store.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", left, []string{"web"})
	wantAllowed(t, f.docker(t, session, "b", up))
	left, err = f.Store.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", len(left), 0)
	wantDenied(t, f.docker(t, session, "b", down), "cooldown", "redeployment")

	// The same as commands, each with its request.
	other := ops.Reservation{Service: "db", Action: redeployAction, Half: ops.HalfOpen}
	otherUp := ops.Reservation{Service: "db", Action: restartAction, Half: ops.HalfClose}
	wantAllowed(t, f.hook(t, session, "toolu_1", other))
	wantAllowed(t, f.docker(t, session, "d", other))
	wantAllowed(t, f.hook(t, session, "toolu_2", otherUp))
	wantAllowed(t, f.docker(t, session, "d", otherUp))
	left, err = f.Store.ServicesLeftDown(t.Context(), session.ID)
	must(t, err)
	equal(t, "left down", len(left), 0)
	for _, c := range f.cooldowns(t) {
		if c.Action == redeployAction {
			equal(t, "redeployments left of "+c.Service, c.Left, 0)
		}
	}
}
