package cycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"claudeops/internal/ops"
)

// chains are the cycles that are recorded for the replay, by what happens in them.
func chains() []chain {
	var out []chain
	for _, some := range [][]chain{
		plainChains(), refusedChains(), brokenChains(), resumedChains(), gatedChains(), humanChains(), managedChains(), planChains(),
		ladderChains(), judgedChains(), probedChains(), deniedChains(), moneyChains(), doubtedChains(), dryRunChains(), trustChains(), misplacedChains(),
		reflexChains(), attackChains(),
	} {
		out = append(out, some...)
	}
	return out
}

func well(*rehearsal, ops.SessionSpec) ops.RunResult { return success() }

func run(f func(ops.SessionSpec) ops.RunResult) act {
	return func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult { return f(spec) }
}

func says(kind ops.OutcomeKind) act { return run(ends(kind)) }

// leaves is a session that leaves a handoff file.
func leaves(raw string) act {
	return func(r *rehearsal, _ ops.SessionSpec) ops.RunResult {
		r.file.raw = []byte(raw)
		return success()
	}
}

func hands(to ops.Tier) act { return leaves(string(handoffJSON(to))) }

// dies is a session in the middle of which the supervisor ends.
func dies(r *rehearsal, _ ops.SessionSpec) ops.RunResult {
	r.die()
	return success()
}

func replies(answer string) act {
	return func(*rehearsal, ops.SessionSpec) ops.RunResult {
		r := success()
		r.Structured = json.RawMessage(answer)
		return r
	}
}

// webIsWell is a look that says what it checked.
func webIsWell(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
	return replies(`{"schema_version":1,"outcome":"healthy","summary":"web answers","check_results":[{"service":"web","check_type":"http","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}`)(r, spec)
}

const twoDown = `{"schema_version":1,"recommended_tier":2,"reason":"both answer 502","services_affected":["web","db"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"HTTP 502"},{"service":"db","check_type":"http","status":"down","error":"HTTP 502"}],"cooldown_state":{}}`

func stopped(cause ops.StopCause) act {
	return func(*rehearsal, ops.SessionSpec) ops.RunResult {
		return ops.RunResult{ExitCode: ops.Ptr(130), Stop: cause, StopWhy: "stopped: " + string(cause), Failure: "stopped", CLISessionID: "conversation"}
	}
}

// pass lets time go by, which in a bubble takes none.
func pass(d time.Duration) { <-time.After(d) }

// finds is what probes find of a service, one look after the other; the last one stays.
func finds(service string, found ...ops.Health) func(*rehearsal, ops.ProbePurpose) []ops.Check {
	return func(r *rehearsal, _ ops.ProbePurpose) []ops.Check {
		c := ops.Check{Service: service, Probe: "http", Type: ops.CheckHTTP, Status: found[min(r.seen, len(found))-1], At: clock()}
		if c.Status != ops.Healthy {
			c.Error = "HTTP 502"
		}
		return []ops.Check{c}
	}
}

func probing(service string) func(*ops.Policy) {
	return func(p *ops.Policy) {
		p.Inventory = ops.Inventory{Services: []ops.Service{{Name: service, Aliases: []string{service + "-1"}, Probed: true}}}
	}
}

func gate(tier ops.Tier) func(*ops.Policy) {
	return func(p *ops.Policy) { p.ApprovalTier = tier }
}

func expiring(p *ops.Policy) { p.Approval = ops.ApprovalPolicy{Expiry: time.Hour} }

func plainChains() []chain {
	return []chain{
		{name: "healthy", ends: ops.CycleHealthy, policy: policy(), acts: []act{well}},
		{name: "healthy-on-schedule", ends: ops.CycleHealthy, policy: policy(), new: ops.NewCycle{Trigger: ops.TriggerScheduled}, acts: []act{well}},
		{name: "three-tiers-by-handoff", ends: ops.CycleResolved, policy: policy(), acts: []act{hands(2), hands(3), well}},
		{name: "two-tiers-by-handoff", ends: ops.CycleResolved, policy: policy(), new: ops.NewCycle{Prompt: "look at web"}, acts: []act{hands(2), well}},
		{name: "two-tiers-and-people-hear-of-it", ends: ops.CycleResolved, policy: policy(func(p *ops.Policy) { p.TellEscalated = true }), acts: []act{hands(2), well}},
		{name: "dry-run", ends: ops.CycleSuppressed, policy: policy(func(p *ops.Policy) { p.DryRun = true }), acts: []act{hands(2)}},
		{name: "dry-run-of-one-cycle", ends: ops.CycleSuppressed, policy: policy(), new: ops.NewCycle{Options: ops.CycleOptions{DryRun: true}}, acts: []act{hands(2)}},
		{name: "maximum-tier-1", ends: ops.CycleNeedsHuman, policy: policy(func(p *ops.Policy) { p.MaxTier = 1 }), acts: []act{hands(2)}},
		{name: "maximum-tier-2", ends: ops.CycleNeedsHuman, policy: policy(), new: ops.NewCycle{Options: ops.CycleOptions{MaxTier: 2}}, acts: []act{hands(2), hands(3)}},
		{name: "tier-3-escalates", ends: ops.CycleNeedsHuman, policy: policy(), acts: []act{hands(2), hands(3), hands(3)}},
		{name: "a-handoff-that-skips-a-tier", ends: ops.CycleNeedsHuman, policy: policy(), acts: []act{hands(3), well}},
		{name: "no-entry-handler", ends: ops.CycleFailed, policy: policy(func(p *ops.Policy) { p.Entry = "nobody" }), acts: []act{well}},
		{
			name: "a-service-of-another-name", ends: ops.CycleResolved,
			policy: policy(func(p *ops.Policy) { p.Inventory.Services = []ops.Service{{Name: "nginx", Aliases: []string{"web"}}} }), acts: []act{hands(2), well},
		},
		{name: "cancelled-before-it-began", ends: ops.CycleCancelled, policy: policy(), acts: []act{well}, play: func(r *rehearsal) {
			_, err := r.store.Journal.RequestCancel(r.t.Context(), r.id, "not now", clock())
			r.must(err)
			r.advance()
		}},
		{name: "cancelled-between-two-tiers", ends: ops.CycleCancelled, policy: policy(), acts: []act{func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.Journal.RequestCancel(r.t.Context(), r.id, "", clock())
			r.must(err)
			return hands(2)(r, spec)
		}}},
		{name: "stopped-by-a-person", ends: ops.CycleCancelled, policy: policy(), acts: []act{hands(2), stopped(ops.StopUser)}},
	}
}

func otherFamily(p *ops.Policy) { p.Independence = ops.IndependenceFamily }

func refusedChains() []chain {
	strict := func(p *ops.Policy) {
		p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "db"}}, Strict: true}
	}
	return []chain{
		{name: "invalid-handoff", ends: ops.CycleNeedsHuman, policy: policy(), acts: []act{leaves(`{}`)}},
		{name: "broken-handoff", ends: ops.CycleNeedsHuman, policy: policy(), acts: []act{leaves(`{"broken":`)}},
		{name: "handoff-with-a-warning", ends: ops.CycleResolved, policy: policy(), acts: []act{
			leaves(`{"schema_version":1,"recommended_tier":2,"services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"cooldown_state":{},"mood":"bad"}`), well,
		}},
		{name: "unsafe-handoff-file", ends: ops.CycleNeedsHuman, policy: policy(), acts: []act{func(r *rehearsal, _ ops.SessionSpec) ops.RunResult {
			r.file.err = errors.New("handoff.json is a symbolic link")
			return success()
		}}},
		{name: "handoff-of-a-stranger", ends: ops.CycleNeedsHuman, policy: policy(strict), acts: []act{hands(2)}},
		{name: "handoff-to-nobody", ends: ops.CycleNeedsHuman, policy: policy(func(p *ops.Policy) { p.Handlers[0].HandsTo = nil }), acts: []act{hands(2)}},
		{name: "handoff-beyond-the-depth", ends: ops.CycleNeedsHuman, policy: policy(func(p *ops.Policy) { p.MaxDepth = 1 }), acts: []act{hands(2), hands(3)}},
		{name: "invalid-handoff-of-tier-3", ends: ops.CycleNeedsHuman, policy: policy(recovering), acts: []act{hands(2), hands(3), leaves(`{}`)}},
		{name: "invalid-handoff-is-nudged", ends: ops.CycleResolved, policy: policy(recovering), acts: []act{
			func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
				out := leaves(`{}`)(r, spec)
				out.CLISessionID = "conversation"
				return out
			}, hands(2), well,
		}},
		{name: "the-next-is-of-the-same-family", ends: ops.CycleNeedsHuman, policy: policy(withPeople, otherFamily), acts: []act{hands(2)}},
		{name: "another-family-takes-over", ends: ops.CycleResolved, policy: policy(withPeople, otherFamily), acts: []act{
			leaves(`{"schema_version":1,"recommended_tier":2,"target":"other2","reason":"another family should look","services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"cooldown_state":{}}`), well,
		}},
	}
}

func brokenChains() []chain {
	fail := func(failure ops.FailureClass, code int) act {
		return func(*rehearsal, ops.SessionSpec) ops.RunResult {
			return ops.RunResult{ExitCode: &code, Failure: failure, Err: "it failed"}
		}
	}
	return []chain{
		{name: "tier-1-fails", ends: ops.CycleFailed, policy: policy(), acts: []act{fail("exit", 3)}},
		{name: "tier-1-fails-again", ends: ops.CycleFailed, policy: policy(), acts: []act{fail("exit", 3)}, before: (*rehearsal).earlier},
		{name: "tier-2-fails", ends: ops.CycleFailed, policy: policy(), acts: []act{hands(2), fail("exit", 3)}},
		{name: "tier-2-runs-out-of-time", ends: ops.CycleFailed, policy: policy(), acts: []act{hands(2), stopped(ops.StopWall)}},
		{name: "a-tool-ran-past-its-gates", ends: ops.CycleFailed, policy: policy(), acts: []act{stopped(ops.StopInvariant)}},
		{name: "tier-1-gives-no-outcome", ends: ops.CycleFailed, policy: resuming(), acts: []act{run(invalid)}},
		{name: "tier-2-gives-no-outcome", ends: ops.CycleFailed, policy: resuming(), acts: []act{says(ops.OutcomeEscalate), run(invalid)}},
		{name: "crash-in-tier-1", ends: ops.CycleHealthy, policy: policy(), acts: []act{dies, well}, play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
		{name: "crash-in-tier-1-twice", ends: ops.CycleFailed, policy: policy(), acts: []act{dies, dies}, play: func(r *rehearsal) {
			r.crash()
			r.register()
			r.tape.dead = false
			r.crash()
			r.reborn()
		}},
		{name: "crash-in-tier-2", ends: ops.CycleFailed, policy: policy(), acts: []act{hands(2), dies}, play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
		{name: "shutdown-and-start-again", ends: ops.CycleResolved, policy: policy(), acts: []act{nil, hands(2), well}, play: shutDown},
		{name: "crash-in-tier-1-with-a-ladder-and-probes", ends: ops.CycleResolved, policy: policy(recovering, probing("web")), acts: []act{dies, hands(2), well}, probes: finds("web", ops.Down, ops.Healthy), play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
		{name: "crash-in-tier-2-and-it-is-well-again", ends: ops.CycleResolved, policy: policy(recovering, probing("web")), acts: []act{hands(2), dies}, probes: finds("web", ops.Down, ops.Healthy), play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
		{name: "crash-in-tier-2-and-it-is-still-down", ends: ops.CycleResolved, policy: policy(recovering, probing("web")), acts: []act{hands(2), dies, well}, probes: finds("web", ops.Down, ops.Down, ops.Healthy), play: func(r *rehearsal) {
			r.crash()
			r.reborn()
		}},
		{name: "cancelled-after-a-crash", ends: ops.CycleCancelled, policy: policy(), acts: []act{hands(2), dies}, play: func(r *rehearsal) {
			r.crash()
			_, err := r.store.Journal.RequestCancel(r.t.Context(), r.id, "enough", clock())
			r.must(err)
			r.reborn()
		}},
	}
}

// shutDown stops the worker in its first session and starts it again.
func shutDown(r *rehearsal) {
	ctx, cancel := context.WithCancelCause(r.t.Context())
	r.first = func() ops.RunResult {
		cancel(ops.Stop(ops.StopShutdown, "bye"))
		return ops.RunResult{ExitCode: ops.Ptr(0), Stop: ops.StopShutdown, StopWhy: "bye"}
	}
	r.must(r.Advance(ctx, r.id, "default"))
	r.reborn()
}

func resumedChains() []chain {
	tokens := func(kind ops.OutcomeKind, n int64) act {
		return func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult {
			r := said(kind, spec.Session.Tier)
			r.ContextTokens = &n
			return r
		}
	}
	silent := func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult {
		r := said(ops.OutcomeEscalate, spec.Session.Tier)
		r.CLISessionID = ""
		return r
	}
	return []chain{
		{name: "three-tiers-by-resume", ends: ops.CycleResolved, policy: resuming(), acts: []act{tokens(ops.OutcomeEscalate, 10_000), tokens(ops.OutcomeEscalate, 20_000), says(ops.OutcomeResolved)}},
		{name: "the-window-is-nearly-full", ends: ops.CycleResolved, policy: resuming(), acts: []act{tokens(ops.OutcomeEscalate, 160_001), says(ops.OutcomeResolved)}},
		{name: "the-window-is-just-free-enough", ends: ops.CycleResolved, policy: resuming(), acts: []act{tokens(ops.OutcomeEscalate, 160_000), says(ops.OutcomeResolved)}},
		{name: "the-configured-window-is-small", ends: ops.CycleResolved, policy: resuming(func(p *ops.Policy) { p.Windows = map[string]int64{"sonnet": 10_000} }), acts: []act{tokens(ops.OutcomeEscalate, 9_000), says(ops.OutcomeResolved)}},
		{name: "no-conversation-to-resume", ends: ops.CycleResolved, policy: resuming(), acts: []act{silent, says(ops.OutcomeResolved)}},
		{name: "resume-is-refused", ends: ops.CycleResolved, policy: resuming(), acts: []act{says(ops.OutcomeEscalate), run(fails(ops.FailureResumeRefused, 0)), says(ops.OutcomeResolved)}},
		{name: "one-route-by-handoff", ends: ops.CycleResolved, policy: resuming(func(p *ops.Policy) {
			p.Routes = []ops.Route{{From: "tier2", To: "tier3", Mode: ops.ContextHandoff}}
		}), acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeEscalate), well}},
		{name: "an-agent-asks-for-a-human", ends: ops.CycleNeedsHuman, policy: resuming(), acts: []act{says(ops.OutcomeEscalate), says(ops.OutcomeNeedsHuman)}},
		{
			name: "an-agent-asks-for-what-it-could-not-see", ends: ops.CycleNeedsHuman, policy: resuming(probing("grafana")),
			acts: []act{says(ops.OutcomeNeedsHuman)}, probes: finds("grafana", ops.Healthy),
			says: `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls /srv/data"}}]}}`,
		},
	}
}

func gatedChains() []chain {
	answered := func(status ops.ApprovalStatus) func(*rehearsal) {
		return func(r *rehearsal) {
			r.advance()
			r.answer(status)
			r.advance()
		}
	}
	late := func(r *rehearsal) {
		r.advance()
		pass(2 * time.Hour)
		r.advance()
	}
	return []chain{
		{name: "approved", ends: ops.CycleResolved, policy: policy(gate(2)), acts: []act{hands(2), well}, play: answered(ops.ApprovalApproved)},
		{name: "approved-twice", ends: ops.CycleResolved, policy: policy(gate(2)), acts: []act{hands(2), hands(3), well}, play: func(r *rehearsal) {
			answered(ops.ApprovalApproved)(r)
			r.answer(ops.ApprovalApproved)
			r.advance()
		}},
		{name: "denied", ends: ops.CycleBlocked, policy: policy(gate(2)), acts: []act{hands(2)}, play: answered(ops.ApprovalDenied)},
		{name: "nobody-answers", ends: ops.CycleNeedsHuman, policy: policy(gate(2), expiring), acts: []act{hands(2)}, play: late},
		{name: "a-route-needs-approval", ends: ops.CycleResolved, policy: policy(func(p *ops.Policy) {
			p.Routes = []ops.Route{{From: "tier1", To: "tier2", Approval: true}}
		}), acts: []act{hands(2), well}, play: answered(ops.ApprovalApproved)},
		{name: "approved-and-well-again", ends: ops.CycleResolved, policy: policy(gate(2), probing("web")), acts: []act{hands(2)}, probes: finds("web", ops.Down, ops.Healthy), play: answered(ops.ApprovalApproved)},
		{name: "approved-and-still-down", ends: ops.CycleResolved, policy: policy(gate(2), probing("web")), acts: []act{hands(2), well}, probes: finds("web", ops.Down, ops.Down, ops.Healthy), play: answered(ops.ApprovalApproved)},
		{name: "cancelled-while-it-waits", ends: ops.CycleCancelled, policy: policy(gate(2)), acts: []act{hands(2)}, play: func(r *rehearsal) {
			r.advance()
			_, err := r.store.Journal.RequestCancel(r.t.Context(), r.id, "never mind", clock())
			r.must(err)
			r.advance()
		}},
	}
}
