package situation_test

import (
	"slices"
	"testing"
	"time"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func now() time.Time { return time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC) }

func before(d time.Duration) *time.Time { return ops.Ptr(now().Add(-d)) }

// broken is a bad service with a cause and its cycle.
func broken(change ...func(*situation.Facts)) situation.Facts {
	f := situation.Facts{
		Now: now(), Services: []situation.Service{{Environment: "home", Name: "web", Status: ops.Down}},
		Every: func(string, string) time.Duration { return 30 * time.Second },
	}
	f.States = []store.ProbeState{{Environment: "home", CheckState: ops.CheckState{Service: "web", Last: ops.Check{At: now().Add(-10 * time.Second)}}}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func cycle(c ops.Cycle, sessions ...ops.Session) func(*situation.Facts) {
	return func(f *situation.Facts) {
		c.ID, c.Environment = 2, "home"
		if c.CreatedAt.IsZero() {
			c.CreatedAt = now().Add(-time.Minute)
		}
		f.Causes = []ops.Cause{{Environment: "home", Services: []string{"web"}, Cycle: 2}}
		c.Charge = ops.Charge{Services: []string{"web"}}
		if c.Status.Ended() {
			f.Ended = []store.CycleSummary{{Cycle: c, Sessions: sessions}}
			return
		}
		f.Open = []store.CycleSummary{{Cycle: c, Sessions: sessions}}
	}
}

func running(s ops.Session) func(*situation.Facts) {
	s.ID, s.Status, s.StartedAt = 7, ops.SessionRunning, before(40*time.Second)
	return cycle(ops.Cycle{Status: ops.CycleRunning, StartedAt: before(time.Minute)}, s)
}

func hold(why ops.HoldReason, reason string, until time.Time) func(*situation.Facts) {
	return func(f *situation.Facts) {
		f.Held = []store.HeldService{{Environment: "home", Withheld: ops.Withheld{Service: "web", Why: why, Reason: reason, Until: until}}}
	}
}

func counted(bad, of int) func(*situation.Facts) {
	return func(f *situation.Facts) { f.States[0].Bad, f.States[0].FailAfter = bad, of }
}

func asked(a ops.Approval) func(*situation.Facts) {
	return func(f *situation.Facts) {
		a.ID, a.CycleID, a.Environment, a.RequestedAt = 3, 2, "home", now().Add(-3*time.Minute)
		f.Approvals = []ops.Approval{a}
	}
}

func incident(i ops.Incident) func(*situation.Facts) {
	return func(f *situation.Facts) {
		i.ID, i.Environment, i.Service = 4, "home", "web"
		f.Incidents = []ops.Incident{i}
	}
}

func texts(lines []situation.Line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Sentence(now()))
	}
	return out
}

func TestWhatIsBeingDone(t *testing.T) {
	at14 := time.Date(2026, 11, 14, 14, 0, 0, 0, time.UTC)
	waiting := cycle(ops.Cycle{Status: ops.CycleWaitingHuman, StartedAt: before(time.Minute)}, ops.Session{ID: 7, Tier: 2, Status: ops.SessionCompleted})
	for _, c := range []struct {
		name  string
		facts situation.Facts
		want  []string
	}{
		{"all is well", situation.Facts{Now: now()}, nil},
		{"tier 1", broken(running(ops.Session{Tier: 1})), []string{"web is down: Tier 1 is looking at it, 40 s"}},
		{"tier 2", broken(running(ops.Session{Tier: 2})), []string{"web is down: Tier 2 is repairing it, 40 s"}},
		{"again", broken(running(ops.Session{Tier: 2, Attempt: 2})), []string{"web is down: Tier 2 is repairing it, attempt 2, 40 s"}},
		{"judge", broken(running(ops.Session{Tier: 2, Role: ops.RoleJudge})), []string{"web is down: a judge checks the repair, 40 s"}},
		{
			"dry run", broken(running(ops.Session{Tier: 2}), func(f *situation.Facts) { f.Open[0].Options.DryRun = true }),
			[]string{"web is down: Tier 2 is looking at it (dry run), 40 s"},
		},
		{"approval", broken(waiting, asked(ops.Approval{Tier: 3})), []string{"web is down: waiting for your approval of Tier 3 for 3 min"}},
		{
			"approval, read-only visitor", broken(waiting, asked(ops.Approval{Tier: 3}), func(f *situation.Facts) { f.ReadOnly = true }),
			[]string{"web is down: waiting for an operator's approval of Tier 3 for 3 min"},
		},
		{
			"review", broken(waiting, asked(ops.Approval{Kind: ops.ApprovalReview, Tier: 2})),
			[]string{"web is down: waiting for your review of the repair for 3 min"},
		},
		{
			"human handler", broken(waiting, incident(ops.Incident{Status: ops.IncidentOpen, Waiting: ops.Ptr(ops.CycleID(2))})),
			[]string{"web is down: handed to a person; it ends when the incident is resolved"},
		},
		{
			"acknowledged", broken(waiting, incident(ops.Incident{Status: ops.IncidentAcknowledged, AcknowledgedBy: "Ana"})),
			[]string{"web is down: acknowledged by Ana, agents stopped"},
		},
		{
			"acknowledged on a page", broken(incident(ops.Incident{Status: ops.IncidentAcknowledged, AcknowledgedBy: ""})),
			[]string{"web is down: acknowledged by an operator, agents stopped"},
		},
		{
			"snoozed", broken(incident(ops.Incident{Status: ops.IncidentSnoozed, SnoozedUntil: &at14})),
			[]string{"web is down: snoozed until 14:00, agents stopped"},
		},
		{
			"snooze is over", broken(incident(ops.Incident{Status: ops.IncidentSnoozed, SnoozedUntil: before(time.Minute)})),
			[]string{"web is down: its incident is open; it needs you"},
		},
		{"silenced", broken(hold(ops.HoldSilenced, "", at14)), []string{"web is down: silenced until 14:00"}},
		{"maintenance", broken(hold(ops.HoldMaintenance, "", time.Time{})), []string{"web is down: under maintenance"}},
		{
			"dependency", broken(hold(ops.HoldDependency, "web is down; it depends on db, which is down.", time.Time{})),
			[]string{"web is down: it depends on db, which is down"},
		},
		{"the watch has ended", broken(hold(ops.HoldDependency, "web is down; it depends on db.", time.Time{}),
			func(f *situation.Facts) { f.States[0].Last.At = now().Add(-time.Hour) }), []string{"web is down: no agent works on it"}},
		{
			"budget", broken(cycle(ops.Cycle{Status: ops.CycleBlocked}), func(f *situation.Facts) { f.Spent = map[string]bool{"home": true} }),
			[]string{"web is down: held: budget reached, agents start again after 15 Nov 00:00"},
		},
		{"blocked otherwise", broken(cycle(ops.Cycle{Status: ops.CycleBlocked, Reason: "no restart is left until 14:00"})), []string{"web is down: C-2 was stopped by a limit: no restart is left until 14:00"}},
		{
			"rate limit", broken(cycle(ops.Cycle{Status: ops.CycleQueued, StartedAt: before(time.Minute), WakeAt: &at14},
				ops.Session{Status: ops.SessionFailed, Failure: ops.FailureAPI, APIStatus: ops.Ptr(429)}, ops.Session{Status: ops.SessionQueued, Tier: 1})),
			[]string{"web is down: next attempt at 14:00 after a rate limit"},
		},
		{"queued", broken(cycle(ops.Cycle{Status: ops.CycleQueued})), []string{"web is down: C-2 is queued for 1 min"}},
		{"probing", broken(cycle(ops.Cycle{Status: ops.CycleRunning, StartedAt: before(0)})), []string{"web is down: the supervisor runs its probes"}},
		{"gave up", broken(cycle(ops.Cycle{Status: ops.CyclePartial}, ops.Session{Tier: 2})), []string{"web is down: C-2 could not repair it; it needs you"}},
		{"looked only", broken(cycle(ops.Cycle{Status: ops.CycleNeedsHuman}, ops.Session{Tier: 1})), []string{"web is down: C-2 looked at it and repaired nothing; it needs you"}},
		{"no agent started", broken(cycle(ops.Cycle{Status: ops.CyclePartial}, ops.Session{Tier: 1, Failure: ops.FailureNotFound})), []string{"web is down: C-2 could not look at it, because no agent could be started; it needs you"}},
		{"no agent ran", broken(cycle(ops.Cycle{Status: ops.CycleNeedsHuman})), []string{"web is down: nothing was tried in C-2; it needs you"}},
		{"suppressed", broken(cycle(ops.Cycle{Status: ops.CycleSuppressed})), []string{"web is down: C-2 was held back and started no agent"}},
		{
			"suppressed after a look", broken(cycle(ops.Cycle{Status: ops.CycleSuppressed, Reason: "db is held."}, ops.Session{Tier: 1})),
			[]string{"web is down: C-2 looked at it and was held back: db is held"},
		},
		{
			"its cycle left it", broken(cycle(ops.Cycle{Status: ops.CycleRunning, StartedAt: before(0)}), func(f *situation.Facts) {
				f.Open[0].Charge.Services = []string{"db"}
			}),
			[]string{"web is down: no agent works on it now; C-2, which began with it, is about db"},
		},
		{
			"only watched", broken(cycle(ops.Cycle{Status: ops.CycleSuppressed}), func(f *situation.Facts) {
				f.Trust = func(situation.Service) ops.Trust { return ops.TrustWatch }
			}),
			[]string{"web is down: its trust is watch, so no agent looks at it; it needs you"},
		},
		{
			"dry run is over", broken(cycle(ops.Cycle{Status: ops.CycleSuppressed, Policy: ops.Policy{DryRun: true}})),
			[]string{"web is down: dry run, C-2 changed nothing"},
		},
		{
			"denied", broken(cycle(ops.Cycle{Status: ops.CycleBlocked}), incident(ops.Incident{Status: ops.IncidentOpen, DeniedUntil: &at14})),
			[]string{"web is down: somebody said no, agents stopped until 14:00 or until the facts change"},
		},
		{
			"denied, and something else is wrong", broken(running(ops.Session{Tier: 1}), incident(ops.Incident{Status: ops.IncidentOpen, DeniedUntil: &at14})),
			[]string{"web is down: Tier 1 is looking at it, 40 s"},
		},
		{
			"the no is over", broken(incident(ops.Incident{Status: ops.IncidentOpen, DeniedUntil: before(time.Minute)})),
			[]string{"web is down: its incident is open; it needs you"},
		},
		{
			"nothing", broken(func(f *situation.Facts) { f.NextChecks = map[string]time.Time{"home": at14} }),
			[]string{"web is down: no agent works on it; the next check is at 14:00"},
		},
		{
			"a chain that was told to leave it alone is not the one that works on it",
			broken(running(ops.Session{Tier: 2}), incident(ops.Incident{LastCycle: 2, DeniedUntil: ops.Ptr(at14)}), func(f *situation.Facts) {
				f.Open[0].Charge.Services = []string{"db"}
			}),
			[]string{"C-2 Scheduled check: Tier 2 is working, 40 s", "web is down: somebody said no, agents stopped until 14:00 or until the facts change"},
		},
		{"unsettled", broken(hold(ops.HoldUnsettled, "", time.Time{}), counted(2, 3)), nil},
		{"several", broken(running(ops.Session{Tier: 2}), func(f *situation.Facts) {
			for _, n := range []string{"api", "db", "mail"} {
				f.Services = append(f.Services, situation.Service{Environment: "home", Name: n, Status: ops.Degraded})
				f.Causes[0].Affected = append(f.Causes[0].Affected, n)
			}
		}), []string{"web, api and 2 more are down: Tier 2 is repairing them, 40 s"}},
		{"a scheduled check", situation.Facts{Now: now(), Situation: store.Situation{Open: []store.CycleSummary{{
			Cycle:    ops.Cycle{ID: 3, Status: ops.CycleRunning, Trigger: ops.TriggerScheduled, StartedAt: before(time.Minute)},
			Sessions: []ops.Session{{ID: 8, Tier: 1, Status: ops.SessionRunning, StartedAt: before(12 * time.Second)}},
		}}}}, []string{"C-3 Scheduled check: Tier 1 is looking, 12 s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.facts.Open {
				if c.facts.Open[i].Trigger == "" {
					c.facts.Open[i].Trigger = ops.TriggerScheduled
				}
			}
			if got := texts(situation.Doing(c.facts)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatIsAboutToHappen(t *testing.T) {
	at14 := time.Date(2026, 11, 14, 14, 0, 0, 0, time.UTC)
	waiting := cycle(ops.Cycle{Status: ops.CycleWaitingHuman})
	expires := asked(ops.Approval{Tier: 3, ExpiresAt: &at14})
	for _, c := range []struct {
		name  string
		facts situation.Facts
		want  []string
	}{
		{"all is well", situation.Facts{Now: now()}, nil},
		{
			"next check",
			situation.Facts{Now: now(), NextChecks: map[string]time.Time{"home": at14}},
			[]string{"The next scheduled check starts at 14:00"},
		},
		{
			"due",
			situation.Facts{Now: now(), Several: true, NextChecks: map[string]time.Time{"home": now()}},
			[]string{"The next scheduled check is due now in home"},
		},
		{
			"2 of 3", broken(hold(ops.HoldUnsettled, "", time.Time{}), counted(2, 3)),
			[]string{"web: 2 of 3 failed checks, a cycle starts after the next (in about 20 s)"},
		},
		{
			"1 of 3", broken(hold(ops.HoldUnsettled, "", time.Time{}), counted(1, 3)),
			[]string{"web: 1 of 3 failed checks, a cycle starts after 2 more (in about 20 s)"},
		},
		{"counted by a host that is gone", broken(hold(ops.HoldUnsettled, "", time.Time{}), counted(2, 3),
			func(f *situation.Facts) { f.States[0].Last.At = now().Add(-time.Hour) }), nil},
		{
			"counted, but silenced", broken(hold(ops.HoldSilenced, "", at14), counted(2, 3)),
			[]string{"A cycle can start for web after 14:00, if it is still down"},
		},
		{"silenced for long", broken(hold(ops.HoldSilenced, "", at14.Add(24*time.Hour))), nil},
		{"grouping", broken(hold(ops.HoldWaiting, "", at14)), []string{"web is down: a cycle starts in a moment, unless others fail with it"}},
		{
			"expires", broken(waiting, expires),
			[]string{"The question about Tier 3 for C-2 expires at 14:00; then C-2 ends and still needs a person"},
		},
		{"waits without an end", broken(waiting, asked(ops.Approval{Tier: 3})), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := texts(situation.Ahead(c.facts)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWalls(t *testing.T) {
	for want, walls := range map[string][]situation.Wall{
		"":                           nil,
		"Walls: on for all sessions": {{Name: "landlock", State: "on"}, {Name: "uid", State: "off"}},
		"Walls: landlock is missing on this machine":           {{Name: "landlock", State: "missing", Missing: true}, {Name: "seccomp", State: "on"}},
		"Walls: landlock, seccomp are missing on this machine": {{Name: "landlock", State: "missing", Missing: true}, {Name: "seccomp", State: "missing", Missing: true}},
		"Walls: sandbox.mode is off, so a person is asked":     {{Name: situation.Floor, State: "missing", Missing: true, Detail: "sandbox.mode is off, so a person is asked"}, {Name: "landlock", State: "missing", Missing: true}},
	} {
		text, hole := situation.Walls(walls)
		if text != want || hole != (len(walls) > 0 && want != "Walls: on for all sessions") {
			t.Errorf("got %q, %v, want %q", text, hole, want)
		}
	}
}
