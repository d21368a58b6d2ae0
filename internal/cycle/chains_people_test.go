package cycle_test

import (
	"cmp"
	"encoding/json"
	"time"

	"claudeops/internal/ops"
)

const toPerson = `{"schema_version":1,"recommended_tier":4,"target":"oncall","services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"investigation_findings":"disk","remediation_attempted":"restart","cooldown_state":{}}`

func humanChains() []chain {
	// known is an incident that an earlier cycle opened.
	known := func(then func(r *rehearsal, i ops.Incident)) func(*rehearsal) {
		return func(r *rehearsal) {
			r.earlier()
			then(r, r.incident())
			pass(time.Minute)
		}
	}
	first := policy(func(p *ops.Policy) { p.MaxTier = 1 })
	return []chain{
		{name: "a-person-takes-over", ends: ops.CycleResolved, policy: policy(withPeople), acts: []act{hands(2), leaves(toPerson)}, play: func(r *rehearsal) {
			r.advance()
			i := r.incident()
			pass(time.Hour)
			_, err := r.store.People.ResolveIncident(r.t.Context(), i.ID, "ada", "changed the disk", clock())
			r.must(err)
			r.advance()
		}},
		{name: "tier-3-hands-to-a-person", ends: ops.CycleResolved, policy: policy(withPeople), acts: []act{hands(2), hands(3), hands(3)}, play: func(r *rehearsal) {
			r.advance()
			_, err := r.store.People.ResolveIncident(r.t.Context(), r.incident().ID, "ada", "bought a new one", clock())
			r.must(err)
			r.advance()
		}},
		{name: "closed-but-not-answered", ends: ops.CycleResolved, policy: policy(gate(2)), acts: []act{hands(2)}, play: func(r *rehearsal) {
			r.advance()
			_, err := r.store.People.ResolveIncident(r.t.Context(), r.incident().ID, "ada", "not mine", clock())
			r.must(err)
			r.advance()
		}},
		{name: "closed-while-it-works-and-asked-again", ends: ops.CycleResolved, policy: policy(gate(2)), acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.People.ResolveIncident(r.t.Context(), r.incident().ID, "ada", "it is gone", clock())
			r.must(err)
			return hands(3)(r, spec)
		}, well}, play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
			r.advance() // the answer came before the question
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "closed-by-a-later-healthy-cycle", ends: ops.CycleResolved, policy: policy(gate(2), expiring), acts: []act{hands(2), webIsWell}, play: func(r *rehearsal) {
			r.advance()
			asked := r.id
			r.earlier() // another cycle finds everything healthy
			r.id = asked
			pass(2 * time.Hour)
			r.advance()
		}},
		{name: "acknowledged-and-then-approved", ends: ops.CycleResolved, policy: policy(gate(2)), acts: []act{hands(2), well}, play: func(r *rehearsal) {
			r.advance()
			_, err := r.store.People.Acknowledge(r.t.Context(), r.incident().ID, "ada", "on it", clock())
			r.must(err)
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "the-guard-refused-the-only-repair", ends: ops.CycleResolved, policy: policy(climbing), gated: true, acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.Acts.RecordGuard(r.t.Context(), r.owner, ops.GuardRecord{
				At: clock(), CycleID: spec.Session.CycleID, SessionID: spec.Session.ID, Tier: 2, Gate: ops.GateHook, ToolUseID: "t1", Tool: "Bash",
				Input: "docker compose down", Rule: "tier", Reason: "Tier 3 may do this",
			}, nil, nil)
			r.must(err)
			return says(ops.OutcomeResolved)(r, spec)
		}, says(ops.OutcomeEscalate), says(ops.OutcomeResolved)}},
		{name: "closed-while-somebody-works-on-it", ends: ops.CycleResolved, policy: policy(withPeople, gate(2)), acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.People.ResolveIncident(r.t.Context(), r.incident().ID, "ada", "it is gone", clock())
			r.must(err)
			return leaves(toPerson)(r, spec)
		}}, play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
			r.advance() // the answer came before the question
			_, err := r.store.People.ResolveIncident(r.t.Context(), r.incident().ID, "ada", "now it is", clock())
			r.must(err)
			r.advance()
		}},
		{name: "several-could-take-over-and-no-reason-is-given", ends: ops.CycleNeedsHuman, policy: policy(withPeople), acts: []act{
			leaves(`{"schema_version":1,"recommended_tier":2,"target":"other2","services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"cooldown_state":{}}`),
		}},
		{name: "what-is-known-is-told-once", ends: ops.CycleNeedsHuman, policy: first, acts: []act{hands(2)}, before: known(func(*rehearsal, ops.Incident) {})},
		{name: "an-acknowledged-problem", ends: ops.CycleSuppressed, policy: first, acts: []act{hands(2)}, before: known(func(r *rehearsal, i ops.Incident) {
			_, err := r.store.People.Acknowledge(r.t.Context(), i.ID, "ada", "on it", clock())
			r.must(err)
		})},
		{name: "a-snoozed-problem", ends: ops.CycleSuppressed, policy: first, acts: []act{hands(2)}, before: known(func(r *rehearsal, i ops.Incident) {
			_, err := r.store.People.Snooze(r.t.Context(), i.ID, "ada", clock().Add(time.Hour), "after lunch", clock())
			r.must(err)
		})},
		{name: "a-snooze-that-is-over", ends: ops.CycleNeedsHuman, policy: first, acts: []act{hands(2)}, before: known(func(r *rehearsal, i ops.Incident) {
			_, err := r.store.People.Snooze(r.t.Context(), i.ID, "ada", clock().Add(time.Second), "after lunch", clock())
			r.must(err)
		})},
		{name: "a-silenced-service", ends: ops.CycleSuppressed, policy: policy(), acts: []act{hands(2)}, before: func(r *rehearsal) {
			_, err := r.store.Watch.AddSilence(r.t.Context(), ops.Silence{
				Environment: "default", Service: "w*", Reason: "new disk", Author: "ada", CreatedAt: clock(), Until: clock().Add(time.Hour),
			})
			r.must(err)
		}},
		{name: "a-service-that-only-follows-another", ends: ops.CycleSuppressed, policy: policy(), acts: []act{hands(2)}, before: func(r *rehearsal) {
			r.must(r.store.Watch.SaveWithheld(r.t.Context(), "default", []ops.Withheld{{Service: "web", Why: "dependency", Reason: "db is down"}}))
		}},
		{name: "a-healthy-look-closes-what-is-open", ends: ops.CycleHealthy, policy: first, acts: []act{hands(2), webIsWell}, before: known(func(*rehearsal, ops.Incident) {})},
		{name: "a-silent-look-closes-nothing", ends: ops.CycleHealthy, policy: first, acts: []act{hands(2), well}, before: known(func(*rehearsal, ops.Incident) {})},
		{name: "another-cycle-waits-for-a-person", ends: ops.CycleSuppressed, policy: policy(gate(2)), acts: []act{hands(2)}, before: (*rehearsal).earlier},
	}
}

func managedChains() []chain {
	return []chain{
		{name: "a-manager-chooses", ends: ops.CycleResolved, policy: policy(withPeople, managed), acts: []act{hands(2), replies(`{"target":"other2","reason":"fresh eyes"}`), well}},
		{name: "a-manager-names-a-stranger", ends: ops.CycleResolved, policy: policy(withPeople, managed), acts: []act{hands(2), replies(`{"target":"tier3"}`), well}},
		{name: "a-manager-fails", ends: ops.CycleResolved, policy: policy(withPeople, managed), acts: []act{hands(2), run(fails("api_error", 500)), well}},
		{name: "a-manager-is-asked-again", ends: ops.CycleResolved, policy: policy(withPeople, managed), acts: []act{hands(2), dies, replies(`{"target":"tier2","reason":"knows it"}`), well}, play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
	}
}

func ladderChains() []chain {
	limited := func(wait time.Duration) act {
		return func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult {
			out := fails("api_error", 429)(spec)
			out.RetryAfter = wait
			return out
		}
	}
	loops := func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult {
		var halt *ops.Halt
		for i := range 20 { // it does not stop at once, as on a busy machine: only what came before the halt counts
			id := string(rune('a' + i))
			for _, a := range []ops.Activity{
				{Kind: ops.ActivityCall, UseID: id, Tool: "Bash", Input: `{"command":"curl http://127.0.0.1/health"}`},
				{Kind: ops.ActivityResult, UseID: id, Tool: "Bash", Output: "502"},
			} {
				halt = cmp.Or(halt, spec.Watch(a))
			}
		}
		return ops.RunResult{ExitCode: ops.Ptr(130), Stop: halt.Cause, StopWhy: halt.Why, Failure: "loop", CLISessionID: "conversation"}
	}
	standIn := func(p *ops.Policy) {
		p.Handlers = append(p.Handlers, ops.Handler{ID: "other", Tier: 1, Agent: "claude", Model: "opus", Family: "claude"})
		p.Handlers[0].Fallback = []string{"other"}
	}
	return []chain{
		{name: "rate-limited-twice", ends: ops.CycleHealthy, policy: policy(climbing), acts: []act{limited(0), limited(0), says(ops.OutcomeHealthy)}},
		{name: "rate-limited-and-told-how-long", ends: ops.CycleHealthy, policy: policy(climbing), acts: []act{limited(7 * time.Second), says(ops.OutcomeHealthy)}},
		{name: "rate-limited-for-too-long", ends: ops.CyclePartial, policy: policy(climbing), acts: []act{limited(2 * time.Hour)}},
		{name: "overloaded-at-tier-2", ends: ops.CycleResolved, policy: policy(climbing), acts: []act{says(ops.OutcomeEscalate), run(fails("api_error", 529)), says(ops.OutcomeResolved)}},
		{name: "no-key", ends: ops.CyclePartial, policy: policy(climbing), acts: []act{run(fails("api_error", 401))}},
		{name: "nudged-once", ends: ops.CycleHealthy, policy: policy(climbing), acts: []act{run(invalid), says(ops.OutcomeHealthy)}},
		{name: "nudged-out-of-time", ends: ops.CycleHealthy, policy: policy(climbing), acts: []act{stopped(ops.StopIdle), says(ops.OutcomeHealthy)}},
		{name: "every-level-in-vain", ends: ops.CyclePartial, policy: policy(climbing, standIn), acts: []act{run(invalid)}},
		{name: "a-stand-in-succeeds", ends: ops.CycleHealthy, policy: policy(climbing, standIn), acts: []act{run(invalid), run(invalid), run(invalid), run(invalid), run(invalid), says(ops.OutcomeHealthy)}},
		{name: "a-stand-in-hands-up", ends: ops.CycleResolved, policy: policy(climbing, standIn), acts: []act{run(invalid), run(invalid), run(invalid), run(invalid), run(invalid), says(ops.OutcomeEscalate), says(ops.OutcomeResolved)}},
		{name: "a-loop-is-planned-anew", ends: ops.CycleHealthy, policy: policy(climbing), acts: []act{loops, says(ops.OutcomeHealthy)}},
		{name: "a-planner-plans", ends: ops.CycleHealthy, policy: policy(climbing, withPeople, func(p *ops.Policy) { p.Planner = "boss" }), acts: []act{loops, replies(`{"root_cause":"the wrong port","plan":["look at the other port"]}`), says(ops.OutcomeHealthy)}},
		{name: "a-planner-has-no-plan", ends: ops.CyclePartial, policy: policy(climbing, withPeople, func(p *ops.Policy) { p.Planner = "boss" }), acts: []act{loops, run(fails("api_error", 400))}},
		{name: "an-unknown-failure", ends: ops.CyclePartial, policy: policy(climbing), acts: []act{func(*rehearsal, ops.SessionSpec) ops.RunResult {
			return ops.RunResult{ExitCode: ops.Ptr(77), Failure: "odd", Err: "the moon is full"}
		}}},
	}
}

func judgedChains() []chain {
	score := func(points int) act {
		return replies(`{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":` + text(points) + `,"actionCompleteness":` + text(points) +
			`,"evidenceOfCompletion":` + text(points) + `,"finalStateCoherence":` + text(points) + `},"reasoning":"as I see it"}`)
	}
	judging := policy(climbing, withPeople, func(p *ops.Policy) { p.Judge = "judge" })
	return []chain{
		{name: "a-judge-agrees", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), score(22)}},
		{name: "a-judge-disagrees", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), score(5), says(ops.OutcomeResolved), score(22)}},
		{name: "a-judge-is-not-sure-and-a-person-is", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), score(16)}, play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "a-judge-is-not-sure-and-a-person-says-no", ends: ops.CycleNeedsHuman, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), score(16)}, play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalDenied)
			r.advance()
		}},
		{name: "a-judge-does-not-answer", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), replies(`{}`)}, play: func(r *rehearsal) {
			r.advance()
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "a-judge-does-not-answer-and-probes-do", ends: ops.CycleResolved, policy: policy(climbing, withPeople, probing("grafana"), func(p *ops.Policy) { p.Judge = "judge" }), acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), run(fails("api_error", 401))}, probes: finds("grafana", ops.Down, ops.Healthy)},
		{name: "a-judge-is-back", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), replies(`{}`), replies(`{}`), score(22)}, play: func(r *rehearsal) {
			r.advance()
			pass(2 * time.Hour)
			r.advance()
		}},
		{name: "acknowledged-before-another-attempt", ends: ops.CycleSuppressed, policy: policy(climbing), acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.People.Acknowledge(r.t.Context(), r.incident().ID, "ada", "on it", clock())
			r.must(err)
			return fails("api_error", 529)(spec)
		}, well}},
		{name: "less-trust-before-another-attempt", ends: ops.CycleNeedsHuman, policy: policy(climbing, probing("web")), acts: []act{hands(2), func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			r.must(r.store.People.SetTrust(r.t.Context(), r.Environments["default"].Policy, ops.Lowered{
				Environment: "default", Service: "web", Level: ops.TrustSuggest, By: "ada", Reason: "not today", At: clock(),
			}))
			return fails("api_error", 529)(spec)
		}, well}, probes: finds("web", ops.Down)},
		{name: "a-judge-is-back-late", ends: ops.CycleResolved, policy: policy(climbing, withPeople, probing("grafana"), func(p *ops.Policy) { p.Judge = "judge" }), acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeResolved), replies(`{}`), replies(`{}`), score(22)}, probes: func(*rehearsal, ops.ProbePurpose) []ops.Check {
			return []ops.Check{{Service: "grafana", Probe: "dns", Type: ops.CheckDNS, Status: ops.Healthy, At: clock()}} // it never saw anything wrong
		}, play: func(r *rehearsal) {
			r.advance()
			pass(2 * time.Hour)
			r.advance()
		}},
	}
}

func text(n int) string {
	raw, err := json.Marshal(n)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func probedChains() []chain {
	quiet := func(p *ops.Policy) {
		probesFirst(p)
		p.ObserveEvery = 24 * time.Hour
	}
	looked := func(r *rehearsal) {
		r.earlier() // an agent has looked
		pass(time.Hour)
	}
	scheduled := ops.NewCycle{Trigger: ops.TriggerScheduled}
	return []chain{
		{name: "probes-find-all-well", ends: ops.CycleHealthy, policy: policy(probing("web"), probesFirst), new: scheduled, acts: []act{well}, probes: finds("web", ops.Healthy)},
		{name: "probes-find-all-well-and-an-agent-is-due", ends: ops.CycleHealthy, policy: policy(probing("web"), quiet), new: scheduled, acts: []act{well}, probes: finds("web", ops.Healthy)},
		{name: "an-agent-has-looked-today", ends: ops.CycleHealthy, policy: policy(probing("web"), quiet), new: scheduled, acts: []act{well}, probes: finds("web", ops.Healthy), before: looked},
		{name: "probes-find-what-is-held-back", ends: ops.CycleSuppressed, policy: policy(probing("web"), probesFirst), new: scheduled, acts: []act{well}, probes: finds("web", ops.Down), before: func(r *rehearsal) {
			r.must(r.store.Watch.SaveWithheld(r.t.Context(), "default", []ops.Withheld{{Service: "web", Why: "flapping", Reason: "web goes up and down"}}))
		}},
		{name: "probes-close-what-is-open", ends: ops.CycleHealthy, policy: policy(probing("web"), probesFirst, func(p *ops.Policy) { p.MaxTier = 1 }), new: scheduled, acts: []act{hands(2)}, probes: finds("web", ops.Down, ops.Healthy), before: looked},
		{name: "a-degraded-service-is-looked-at", ends: ops.CycleNeedsHuman, policy: policy(probing("web"), probesFirst), new: scheduled, acts: []act{well}, probes: finds("web", ops.Degraded)},
		{name: "a-degraded-service-is-well-again", ends: ops.CycleHealthy, policy: policy(probing("web"), probesFirst), new: scheduled, acts: []act{well}, probes: finds("web", ops.Degraded, ops.Healthy)},
		{name: "a-probe-starts-it", ends: ops.CycleResolved, policy: policy(probing("web")), new: ops.NewCycle{Trigger: ops.TriggerProbe, Services: []string{"web"}}, acts: []act{hands(2), well}, probes: finds("web", ops.Down, ops.Healthy)},
		{name: "a-repair-takes-a-moment", ends: ops.CycleResolved, policy: policy(probing("web")), acts: []act{hands(2), well}, probes: finds("web", ops.Down, ops.Down, ops.Down, ops.Healthy)},
		{name: "what-is-silenced-is-left-out", ends: ops.CycleResolved, policy: policy(func(p *ops.Policy) {
			p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Probed: true}, {Name: "db", Probed: true}}}
		}), acts: []act{leaves(twoDown), well}, probes: func(r *rehearsal, why ops.ProbePurpose) []ops.Check {
			out := finds("web", ops.Down, ops.Healthy)(r, why)
			if why == ops.ProbeObserve {
				out = append(out, finds("db", ops.Down)(r, why)...)
			}
			return out
		}, before: func(r *rehearsal) {
			_, err := r.store.Watch.AddSilence(r.t.Context(), ops.Silence{Environment: "default", Service: "db", Author: "ada", Reason: "new disk", CreatedAt: clock(), From: clock(), Until: clock().Add(time.Hour)})
			r.must(err)
		}},
		{name: "agents-fail-and-it-recovers", ends: ops.CyclePartial, policy: policy(recovering, probing("web")), new: ops.NewCycle{Trigger: ops.TriggerProbe, Services: []string{"web"}}, acts: []act{run(fails("api_error", 401))}, probes: finds("web", ops.Down, ops.Healthy)},
		{name: "a-refuted-repair", ends: ops.CycleNeedsHuman, policy: policy(probing("web")), acts: []act{hands(2), well}, probes: finds("web", ops.Down)},
		{name: "a-refuted-repair-is-tried-again", ends: ops.CycleResolved, policy: policy(recovering, probing("web")), acts: []act{hands(2), well, well}, probes: finds("web", ops.Down, ops.Down, ops.Down, ops.Down, ops.Down, ops.Healthy)},
		{name: "a-refuted-repair-goes-up", ends: ops.CyclePartial, policy: policy(recovering, probing("web")), acts: []act{hands(2), well}, probes: finds("web", ops.Down)},
	}
}

func deniedChains() []chain {
	refused := func(wait time.Duration) func(*rehearsal) {
		return func(r *rehearsal) {
			r.earlier()
			r.answer(ops.ApprovalDenied)
			r.tape.off = true
			r.must(r.Advance(r.t.Context(), r.id, "default"))
			r.tape.off = false
			pass(wait)
		}
	}
	asksAgain := func(r *rehearsal) {
		r.advance()
		r.answer(ops.ApprovalApproved)
		r.advance()
	}
	// broken fails as it did for so many looks, and then in another way, until it is verified.
	broken := func(looks int) func(*rehearsal, ops.ProbePurpose) []ops.Check {
		return func(r *rehearsal, purpose ops.ProbePurpose) []ops.Check {
			c := ops.Check{At: clock(), Service: "web", Probe: "GET /", Type: ops.CheckHTTP, Purpose: purpose, Status: ops.Down, Error: "HTTP 502 Bad Gateway"}
			if r.seen > looks {
				c.Error = "connection refused"
			}
			if purpose == ops.ProbeVerify {
				c.Status, c.Error = ops.Healthy, ""
			}
			return []ops.Check{c}
		}
	}
	watched := policy(probing("web"), probesFirst, gate(2))
	scheduled, failing := ops.NewCycle{Trigger: ops.TriggerScheduled}, ops.NewCycle{Trigger: ops.TriggerProbe, Services: []string{"web"}}
	return []chain{
		{name: "a-no-lasts", ends: ops.CycleSuppressed, policy: watched, new: scheduled, acts: []act{hands(2)}, probes: broken(9), before: refused(23 * time.Hour)},
		{name: "a-no-lasts-for-a-failing-probe", ends: ops.CycleSuppressed, policy: watched, new: failing, acts: []act{hands(2)}, probes: broken(9), before: refused(time.Hour)},
		{name: "a-no-lasts-for-whoever-looks", ends: ops.CycleSuppressed, policy: watched, acts: []act{hands(2)}, probes: broken(9), before: refused(time.Hour)},
		{name: "a-no-lasts-where-only-an-agent-looks", ends: ops.CycleSuppressed, policy: policy(gate(2)), new: scheduled, acts: []act{hands(2)}, before: refused(time.Hour)},
		{name: "a-no-ends-with-its-time", ends: ops.CycleResolved, policy: watched, new: scheduled, acts: []act{hands(2), hands(2), well}, probes: broken(9), before: refused(25 * time.Hour), play: asksAgain},
		{name: "a-no-ends-when-the-facts-change", ends: ops.CycleResolved, policy: watched, new: failing, acts: []act{hands(2), hands(2), well}, probes: broken(1), before: refused(time.Hour), play: asksAgain},
	}
}

func moneyChains() []chain {
	// worked is a session that used up what may be done.
	worked := func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
		for _, use := range []string{"one", "two"} {
			_, err := r.store.Acts.RecordGuard(r.t.Context(), r.owner, ops.GuardRecord{
				At: clock(), SessionID: spec.Session.ID, Tier: spec.Session.Tier, Gate: "hook", ToolUseID: use, Tool: "Bash", Input: "docker restart web", Allowed: true, Mutating: true,
			}, []ops.Reservation{{Service: "web", Action: "restart"}}, restarts())
			r.must(err)
		}
		return success()
	}
	cooling := func(p *ops.Policy) { p.Cooldowns = restarts() }
	day := func(p *ops.Policy) { p.BudgetDayUSD = 0.15 }
	return []chain{
		{name: "the-chain-has-spent-its-money", ends: ops.CycleBlocked, policy: policy(func(p *ops.Policy) { p.BudgetChainUSD = 0.1 }), acts: []act{hands(2)}},
		{name: "the-day-has-spent-its-money", ends: ops.CycleBlocked, policy: policy(day), acts: []act{well, hands(2)}, before: (*rehearsal).earlier},
		{name: "no-money-to-begin-with", ends: ops.CycleBlocked, policy: policy(func(p *ops.Policy) { p.BudgetDayUSD = 0.1 }), acts: []act{well}, before: (*rehearsal).earlier},
		{name: "no-money-again", ends: ops.CycleBlocked, policy: policy(func(p *ops.Policy) { p.BudgetDayUSD = 0.1 }), acts: []act{well}, before: func(r *rehearsal) {
			r.earlier()
			r.earlier()
		}},
		{name: "a-session-spends-too-much", ends: ops.CyclePartial, policy: policy(climbing), acts: []act{stopped(ops.StopBudget)}},
		{name: "cooldown", ends: ops.CycleBlocked, policy: policy(cooling), acts: []act{hands(2), worked, hands(2)}, before: (*rehearsal).earlier},
		{
			name: "a-person-overrides-a-cooldown", ends: ops.CycleResolved, policy: policy(cooling, probed, acting), acts: []act{hands(2), worked, leaves(withPlan)},
			probes: healthyFor(ops.ProbeVerify, ops.ProbePlan), before: func(r *rehearsal) {
				r.earlier()
				r.Actions = planned{r: r, cooldown: true}
			}, play: func(r *rehearsal) {
				r.advance()
				r.answerPlan(1)
				r.advance()
			},
		},
		{name: "cooldown-is-over", ends: ops.CycleResolved, policy: policy(cooling), acts: []act{hands(2), worked, hands(2), well}, before: func(r *rehearsal) {
			r.earlier()
			pass(5 * time.Hour)
		}},
	}
}

func restarts() []ops.CooldownLimit {
	return []ops.CooldownLimit{{Action: "restart", Count: 2, Window: 4 * time.Hour}}
}
