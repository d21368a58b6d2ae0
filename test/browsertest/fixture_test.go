package browsertest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

var (
	observer = ops.Handler{ID: "tier1", Tier: 1, Family: "claude", Agent: "claude", Model: "haiku", HandsTo: []string{"tier2"}}
	fixer    = ops.Handler{
		ID: "tier2", Tier: 2, Family: "claude", Agent: "claude", Model: "sonnet", HandsTo: []string{"tier3"},
		Fallback: []string{"spare"},
	}
	surgeon = ops.Handler{ID: "tier3", Tier: 3, Family: "claude", Agent: "claude", Model: "opus", HandsTo: []string{"oncall"}}
	spare   = ops.Handler{ID: "spare", Tier: 2, Family: "gpt", Agent: "codex", Model: "gpt-5-codex"}
	manager = ops.Handler{ID: "manager", Tier: 1, Family: "claude", Agent: "claude", Model: "haiku"}
	planner = ops.Handler{ID: "planner", Tier: 2, Family: "claude", Agent: "claude", Model: "opus"}
	judge   = ops.Handler{ID: "judge", Tier: 1, Family: "gpt", Agent: "codex", Model: "gpt-5-codex"}
)

func limits() []ops.CooldownLimit {
	return []ops.CooldownLimit{
		{Action: "restart", Count: 2, Window: 4 * time.Hour},
		{Action: "redeployment", Count: 1, Window: 24 * time.Hour},
	}
}

func policy() ops.Policy {
	return ops.Policy{
		MaxTier: 3, MaxDepth: 2, Mode: ops.ContextHandoff, Entry: "tier1", ApprovalTier: 3, BudgetChainUSD: 5, BudgetDayUSD: 20,
		Cooldowns: limits(),
		Recovery:  ops.RecoveryPolicy{Enabled: true}, Process: ops.ProcessManager,
		Manager: "manager", Planner: "planner", Judge: "judge",
		Handlers: []ops.Handler{
			observer, fixer, surgeon, spare, manager, planner, judge,
			{ID: "oncall", Tier: ops.HumanTier, Agent: ops.AgentHuman},
		},
		Inventory: ops.Inventory{Services: []ops.Service{
			{Name: "jellyfin", Probed: true}, {Name: "grafana", Probed: true}, {Name: "paperless", Probed: true}, {Name: "postgres", Probed: true},
		}},
	}
}

// environments are what the fixture's server shows.
func environments() []ops.Environment {
	return []ops.Environment{{
		Name: "default", Interval: time.Hour, Policy: policy(), StateDir: "/var/lib/claudeops",
		Tools:  map[ops.Tier]ops.ToolLists{3: {Tools: []string{"Bash", "Read", "Edit"}}},
		Probes: []ops.ProbeSpec{{Service: "jellyfin", Type: "http", URL: "http://jellyfin:8096/health"}},
	}, {Name: "staging", Interval: 6 * time.Hour, Policy: policy()}}
}

func settings() []web.Setting {
	return []web.Setting{
		{Key: "interval", Value: "1h0m0s", Origin: "default", Env: "CLAUDEOPS_INTERVAL", Doc: "Time between cycles."},
		{
			Key: "budget.day_usd", Value: "20", Origin: "claudeops.yaml:4", Env: "CLAUDEOPS_BUDGET_DAY_USD",
			Doc: "What sessions may cost on one day.",
		},
		{
			Key: "api_token", Value: "[redacted]", Origin: "environment CLAUDEOPS_API_TOKEN", Env: "CLAUDEOPS_API_TOKEN",
			Doc: "Opens pages and API.",
		},
		{
			Key: "tiers.1.disallowed_tools", Value: "Bash(rm:*),Bash(dd:*),Bash(mkfs:*),Bash(shutdown:*),Bash(reboot:*),Edit,Write,NotebookEdit",
			Origin: "default", Doc: "What Tier 1 never gets.",
		},
	}
}

// fixture is a journal with a month of ordinary life: chains of all roles, recoveries, incidents, questions, costs.
type fixture struct {
	*journal
	repaired []ops.SessionID // the chain with every role
	denied   ops.SessionID   // a session the guard stopped
	running  ops.SessionID
	long     ops.SessionID // a transcript of many lines
	approval ops.Approval
	incident ops.Incident
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{journal: newJournal(t)}
	end := f.now
	f.month(end)
	f.checks(end)
	f.now = end.Add(-3 * time.Hour)
	f.chainOfAllRoles()
	f.now = end.Add(-100 * time.Minute)
	f.failures()
	f.now = end.Add(-70 * time.Minute)
	f.longTranscript()
	f.now = end.Add(-50 * time.Minute)
	f.people(end)
	f.records(end)
	f.now = end.Add(-2 * time.Minute)
	cycle := f.begin(ops.NewCycle{Environment: "staging", Trigger: ops.TriggerManual, Prompt: "Why is postgres slow since noon?"})
	f.running = f.play(cycle, ops.Step{}, run{
		handler: observer, status: ops.SessionRunning, takes: time.Minute,
		lines: []string{start("haiku"), said("Looking at `postgres` first."), call("toolu_1", "psql -c 'select count(*) from pg_stat_activity'")},
	})[0]
	f.now = end
	return f
}

// month fills the past with a cycle a day.
func (f *fixture) month(end time.Time) {
	for day := 30; day >= 1; day-- {
		f.now = end.AddDate(0, 0, -day)
		wave := 1 + math.Sin(float64(day))
		look := run{
			handler: observer, takes: 18 * time.Second, outcome: ops.OutcomeHealthy, summary: "All services answer.",
			cost: 0.012 + 0.004*wave, turns: 4, lines: talk("All services answer."),
		}
		if day%4 != 0 {
			f.play(f.begin(ops.NewCycle{}), finish(ops.CycleHealthy, "All services are healthy."), look)
			continue
		}
		look.outcome, look.handoff, look.summary = ops.OutcomeEscalate, handoff(2, "grafana"), "grafana answers 502."
		repair := run{
			handler: fixer, takes: 2 * time.Minute, outcome: ops.OutcomeResolved, summary: "Restarted grafana; it answers again.",
			cost: 0.2 + 0.15*wave, turns: 17,
			lines: talk("Restarted grafana."),
		}
		f.play(f.begin(ops.NewCycle{Trigger: ops.TriggerAlert, Prompt: "grafana 502"}),
			finish(ops.CycleResolved, "Tier 2 repaired grafana; the probe agrees."), look, repair)
	}
}

// checks gives every service a past.
func (f *fixture) checks(end time.Time) {
	var all []ops.Check
	for _, service := range []string{"jellyfin", "grafana", "paperless", "postgres"} {
		for hours := 24 * 30; hours >= 0; hours -= 4 {
			c := ops.Check{
				At: end.Add(-time.Duration(hours) * time.Hour).Add(-time.Minute), Environment: "default", Service: service, Purpose: ops.ProbeObserve,
				Probe: "GET http://" + service + "/health", Type: ops.CheckHTTP, Status: ops.Healthy, ResponseTimeMS: int64(9 + hours%17),
			}
			switch {
			case service == "paperless" && hours < 8:
				c.Status, c.Error = ops.Down, "connection refused"
			case service == "grafana" && hours%96 == 0 && hours > 0:
				c.Status, c.Error = ops.Down, "HTTP 502"
			case service == "jellyfin" && hours%52 == 0:
				c.Status, c.Error, c.ResponseTimeMS = ops.Degraded, "slower than 2s", 2400
			}
			all = append(all, c)
		}
	}
	f.must(f.store.Watch.AddChecks(f.t.Context(), all))
}

// chainOfAllRoles is one incident with a manager, a ladder, a plan, a fallback and a judge.
func (f *fixture) chainOfAllRoles() {
	route := func(from, to, reason string, mode ops.ProcessMode) *ops.Decision {
		return &ops.Decision{
			SourceHandler: from, TargetHandler: to, Reason: reason, Proposed: "jellyfin answers 502", Depth: 1, MaxDepth: 2, TargetValidated: true,
			SelfEscalationRejected: true, ProcessMode: mode, ManagerPresent: true, Path: []string{from, to}, Services: []string{"jellyfin"},
			Verdict: ops.VerdictEscalate, At: f.now,
		}
	}
	recovery := func(level ops.RecoveryLevel, kind ops.ErrorType, reason string, before ...ops.RecoveryLevel) *ops.Recovery {
		return &ops.Recovery{
			Tier: 2, Level: level, Action: level.Action(), ErrorType: kind, PreviousLevels: before, Reason: reason, Handler: "tier2",
			NotBefore: ops.Ptr(f.now.Add(30 * time.Second)), Deadline: ops.Ptr(f.now.Add(20 * time.Minute)),
		}
	}
	restart := []ops.GuardRecord{
		{
			Gate: ops.GateHook, ToolUseID: "toolu_2", Tool: "Bash", Input: `{"command":"docker restart jellyfin"}`, Allowed: true, Rule: "restart",
			Reason: "1 of 2 restarts in 4 hours is left.", Mutating: true,
		},
		{
			Gate: ops.GateShell, Tool: "Bash", Input: `{"command":"docker logs --tail 50 jellyfin"}`, Allowed: true, Rule: "read",
			Reason: "It only reads.",
		},
		{
			Gate: ops.GateHook, ToolUseID: "toolu_4", Tool: "Bash", Input: `{"command":"rm -rf /var/lib/jellyfin/data"}`, Rule: "never",
			Reason: "Deleting data is never allowed.", Digest: "4f",
		},
	}
	f.repaired = f.play(f.begin(ops.NewCycle{Trigger: ops.TriggerProbe, Prompt: "jellyfin 502"}),
		finish(ops.CycleResolved, "Tier 3 repaired jellyfin; the judge agrees."),
		run{
			handler: observer, takes: 17 * time.Second, outcome: ops.OutcomeEscalate, handoff: handoff(2,
				"jellyfin"), summary: "jellyfin answers 502.", cost: 0.02, turns: 4,
			lines: talk("jellyfin answers **502**; the container runs."), decision: route("tier1", "tier2",
				"tier1 handed jellyfin to tier2, chosen by the manager.", ops.ProcessManager),
			events: []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbAgentReported, Service: "jellyfin", Reason: "answers 502 since 13:20."}},
		},
		run{
			role: ops.RoleManager, handler: manager, takes: 5 * time.Second, summary: "tier2 may restart it.", cost: 0.01, turns: 1,
			lines: talk("tier2"),
		},
		run{
			handler: fixer, takes: 40 * time.Second, status: ops.SessionFailed, failure: "rate_limit", err: "The model's API answered 429.",
			unknown: true, lines: []string{start("sonnet"), retry()},
		},
		run{
			handler: fixer, level: ops.RecoveryRetry, retry: true, takes: 90 * time.Second, status: ops.SessionTimedOut, stop: ops.StopLoop,
			failure: "loop",
			err:     "It repeated the same command 8 times.", cost: 0.11, turns: 12, lines: looping(), guard: restart,
			reserve:  []ops.Reservation{{Service: "jellyfin", Action: "restart"}},
			recovery: recovery(ops.RecoveryRetry, "rate_limit", "The API was busy, so the same session is tried again after 30 seconds."),
		},
		run{
			role: ops.RolePlanner, handler: planner, takes: 30 * time.Second, summary: "The database file is locked by a backup.", cost: 0.09,
			turns: 3, level: ops.RecoveryReplan,
			lines: talk("1. stop the backup\n2. restart jellyfin"), recovery: recovery(ops.RecoveryReplan, "loop",
				"It went in circles; a new plan is made.", ops.RecoveryRetry),
		},
		run{
			handler: spare, level: ops.RecoveryFallback, takes: 2 * time.Minute, outcome: ops.OutcomeEscalate, handoff: handoff(3,
				"jellyfin"), cost: 0.21, turns: 15,
			summary: "A restart does not help: the database is locked.", lines: talk("The database is locked by `backup.service`."),
			recovery: recovery(ops.RecoveryFallback, "loop", "The plan is tried by the fallback of tier2.", ops.RecoveryRetry, ops.RecoveryReplan),
			decision: route("spare", "tier3", "spare handed jellyfin to tier3: the root cause is outside its tier.", ops.ProcessTyped),
		},
		run{
			handler: surgeon, takes: 3 * time.Minute, outcome: ops.OutcomeResolved,
			summary: "Stopped the backup, restarted jellyfin; /health answers 200.", cost: 0.62, turns: 21, lines: rich(),
		},
		run{
			role: ops.RoleJudge, handler: judge, takes: 12 * time.Second, summary: "by the record", cost: 0.03, turns: 1, lines: talk("PASS"),
			verified: &ops.Verification{
				Verdict: "PASS", Confidence: 0.9, TotalScore: 88, Reasoning: "Two probes answer 200 and the log shows no error.",
				Dimensions:      map[string]int{"goalAlignment": 23, "actionCompleteness": 22, "evidenceOfCompletion": 21, "finalStateCoherence": 22},
				Recommendations: []string{"Move the backup to 04:00."},
			},
		})
}

// failures are the other ways in which cycles end.
func (f *fixture) failures() {
	f.denied = f.play(f.begin(ops.NewCycle{Trigger: ops.TriggerAPI, Prompt: "clean up old images"}),
		finish(ops.CycleBlocked, "The guard stopped a command, so the cycle ended."),
		run{
			handler: fixer, takes: 20 * time.Second, status: ops.SessionFailed, stop: ops.StopInvariant, failure: "invariant",
			err: "A tool ran that no gate had allowed.",
			lines: []string{
				start("sonnet"), call("toolu_1", "docker system prune -af"),
				answer("toolu_1", "Permission denied by rule never: it deletes data.", true),
			},
			guard: []ops.GuardRecord{{
				Gate: ops.GateHook, ToolUseID: "toolu_1", Tool: "Bash", Input: `{"command":"docker system prune -af"}`,
				Rule: "never", Reason: "It deletes data.",
			}},
			cost: 0.03, turns: 2,
		})[0]
	f.play(f.begin(ops.NewCycle{}), finish(ops.CyclePartial, "Force-done: what is known was written down."),
		run{
			handler: observer, takes: time.Minute, status: ops.SessionPartial, failure: "invalid_outcome",
			err: "Its outcome was no JSON three times.", cost: 0.04, turns: 9, lines: talk("…"),
		})
	f.play(f.begin(ops.NewCycle{Environment: "staging"}), finish(ops.CycleFailed, "claude is not installed."),
		run{
			handler: observer, takes: time.Second, status: ops.SessionFailed, failure: "start", err: "claude: executable file not found",
			unknown: true,
		})
	f.play(f.begin(ops.NewCycle{Environment: "staging"}), finish(ops.CycleCancelled, "Stopped from its page."),
		run{
			handler: observer, takes: 9 * time.Second, status: ops.SessionCancelled, stop: ops.StopUser, err: "stopped", cost: 0.01, turns: 2,
			lines: talk("on it"),
		})
	f.play(f.begin(ops.NewCycle{}), finish(ops.CycleSuppressed, "paperless is acknowledged by alice."))
}

func (f *fixture) longTranscript() {
	lines := []string{start("haiku")}
	for n := range 240 {
		id := fmt.Sprintf("toolu_%d", n)
		lines = append(lines, call(id, fmt.Sprintf("docker inspect container-%03d", n)),
			answer(id, fmt.Sprintf("container-%03d is running", n), n%60 == 7))
	}
	f.long = f.play(f.begin(ops.NewCycle{Environment: "staging"}), finish(ops.CycleHealthy, "All services are healthy."),
		run{
			handler: observer, takes: 5 * time.Minute, outcome: ops.OutcomeHealthy, summary: "240 containers run.", cost: 0.4, turns: 240,
			lines: append(lines, ended("240 containers run.")),
		})[0]
}

// people is what waits for somebody: a question, and incidents in every state.
func (f *fixture) people(end time.Time) {
	ctx := f.t.Context()
	old := f.broken("grafana", "grafana lost its data source", ops.LevelWarning)
	_, err := f.store.People.ResolveIncident(ctx, old.ID, "alice", "the token was renewed", f.now)
	f.must(err)
	taken := f.broken("postgres", "postgres refuses connections", ops.LevelCritical)
	_, err = f.store.People.Acknowledge(ctx, taken.ID, "bob", "looking at it", f.now)
	f.must(err)
	later := f.broken("jellyfin", "jellyfin needs a new certificate", ops.LevelWarning)
	_, err = f.store.People.Snooze(ctx, later.ID, "bob", end.Add(4*time.Hour), "after the weekend", f.now)
	f.must(err)
	f.incident = f.broken("paperless", "The disk of paperless is full", ops.LevelCritical)
	f.approval = f.ask("default", "jellyfin", "Tier 3 may redeploy jellyfin; policy asks a human first.")
}

// broken lets a cycle end with a call for a person.
func (f *fixture) broken(service, title string, level ops.Level) ops.Incident {
	f.t.Helper()
	f.now = f.now.Add(time.Minute)
	report := &ops.IncidentReport{
		Title: title, Level: level, Class: "unresolved", Services: []string{service},
		Findings: "The disk of `" + service + "` is full since 09:12.",
		Tried:    "Removed temporary files: 12 MB were freed.", Recommendation: "Add space to the volume, then resolve this.", CostUSD: 0.33,
		Checks: []ops.CheckResult{{Service: service, CheckType: ops.CheckHTTP, Status: ops.Down, Error: "connection refused"}},
	}
	f.play(f.begin(ops.NewCycle{}), ops.Step{Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: title, Incident: report},
		run{handler: observer, takes: 20 * time.Second, outcome: ops.OutcomeNeedsHuman, summary: title, cost: 0.02, turns: 5, lines: talk(title)})
	found, err := f.store.People.Unresolved(f.t.Context(), "default")
	f.must(err)
	for _, i := range found {
		if i.Service == service {
			return i
		}
	}
	f.t.Fatalf("no incident of %s", service)
	return ops.Incident{}
}

// ask lets a cycle ask whether Tier 3 may start.
func (f *journal) ask(environment, service, reason string) ops.Approval {
	f.t.Helper()
	cycle := f.begin(ops.NewCycle{Environment: environment, Prompt: service + " again"})
	f.play(cycle, ops.Step{
		Kind: ops.StepAwait, Reason: reason,
		Approval: &ops.Approval{
			Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: reason,
			ExpiresAt: ops.Ptr(time.Now().Add(2 * time.Hour)),
		},
	}, run{
		handler: fixer, takes: 3 * time.Minute, outcome: ops.OutcomeEscalate, handoff: handoff(3,
			service), summary: reason, cost: 0.33, turns: 22, lines: talk("Two restarts did not help."),
		decision: &ops.Decision{
			SourceHandler: "tier2", TargetHandler: "tier3", Reason: reason, Depth: 2, MaxDepth: 2, Path: []string{
				"tier2",
				"tier3",
			}, ProcessMode: ops.ProcessTyped,
			Verdict: ops.VerdictApproval, Services: []string{service}, At: f.now,
		},
	})
	loaded, err := f.store.Journal.Load(f.t.Context(), cycle)
	f.must(err)
	return loaded.Journal.Approvals[0]
}

func (f *fixture) records(end time.Time) {
	ctx := f.t.Context()
	for n, m := range []ops.Memory{
		{
			Category: "timing", Service: "jellyfin", Observation: "The first start after an upgrade takes ten minutes.", Confidence: 0.9,
			Source: "operator",
		},
		{
			Category: "root_cause", Service: "postgres", Observation: "Backups at 02:00 lock the database for a minute.", Confidence: 0.7,
			Source: "agent", SessionID: &f.repaired[6],
		},
		{
			Category: "note", Observation: "The router reboots on the first Sunday of a month.", Confidence: 0.5, Source: "force-done",
			ExpiresAt: ops.Ptr(end.AddDate(0, 1, 0)),
		},
	} {
		m.Environment, m.CreatedAt = "default", end.Add(-time.Duration(n+1)*time.Hour)
		_, err := f.store.People.AddMemory(ctx, m)
		f.must(err)
	}
	_, err := f.store.Watch.AddSilence(ctx, ops.Silence{
		Environment: "default", Service: "paper*", Labels: map[string]string{"severity": "warning"}, Reason: "The disk is replaced.",
		Author:    "alice",
		CreatedAt: end.Add(-time.Hour), From: end.Add(-time.Hour), Until: end.Add(3 * time.Hour),
	})
	f.must(err)
	_, err = f.store.People.AddNotice(ctx, ops.Notice{
		Kind: "needs_human", Level: ops.LevelCritical, Title: "paperless needs you", Body: "The disk is full.", Environment: "default",
		Service: "paperless",
		NextAt:  end, CreatedAt: end,
	})
	f.must(err)
	for n := range 70 {
		e := ops.Event{
			At: end.Add(-time.Duration(70-n) * 40 * time.Minute), Environment: "default", Level: ops.LevelInfo, Verb: ops.VerbProbeFailed,
			Service: "grafana", Reason: "answers again.",
		}
		switch n % 5 {
		case 1:
			e.Level, e.Verb, e.Service, e.Reason = ops.LevelWarning, ops.VerbWatchChanged, "jellyfin", "answers slower than 2s."
		case 2:
			e.Level, e.Verb, e.Service, e.SessionID = ops.LevelCritical, ops.VerbSessionFailed, "", &f.repaired[3]
			e.Reason = "The guard refused rm -rf /var/lib/jellyfin/data."
		}
		_, err := f.store.Journal.AddEvent(ctx, e)
		f.must(err)
	}
}
