package cycle_test

import (
	"encoding/json"
	"strings"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// sure is a session that says how sure it is of its outcome.
func sure(kind ops.OutcomeKind, confidence string) act {
	return func(_ *rehearsal, spec ops.SessionSpec) ops.RunResult {
		r := said(kind, spec.Session.Tier)
		r.Structured = json.RawMessage(strings.Replace(string(r.Structured), `"summary":`, `"confidence":`+confidence+`,"summary":`, 1))
		return r
	}
}

func doubtedChains() []chain {
	answered := func(status ops.ApprovalStatus) func(*rehearsal) {
		return func(r *rehearsal) {
			r.advance()
			r.answer(status)
			r.advance()
		}
	}
	doubts := []act{says(ops.OutcomeEscalate), sure(ops.OutcomeResolved, "0.4")}
	agrees := replies(`{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":22,"actionCompleteness":22,"evidenceOfCompletion":22,"finalStateCoherence":22},"reasoning":"as I see it"}`)
	atMost2 := func(p *ops.Policy) { p.MaxTier = ops.Tier2 }
	judging := policy(climbing, withPeople, atMost2, func(p *ops.Policy) { p.Judge = "judge" })
	calledHealthy := func(*rehearsal, ops.SessionSpec) ops.RunResult {
		r := success()
		r.CLISessionID, r.Structured = "conversation", json.RawMessage(report.OutcomeExample(1, ops.OutcomeHealthy))
		return r
	}
	return []chain{
		{name: "an-agent-is-not-sure-and-the-next-tier-is", ends: ops.CycleResolved, policy: resuming(), acts: append(doubts, says(ops.OutcomeResolved))},
		{name: "an-agent-is-not-sure-and-a-person-is", ends: ops.CycleResolved, policy: resuming(atMost2), acts: doubts, play: answered(ops.ApprovalApproved)},
		{name: "an-agent-is-not-sure-and-a-person-says-no", ends: ops.CycleNeedsHuman, policy: resuming(atMost2), acts: doubts, play: answered(ops.ApprovalDenied)},
		{name: "an-agent-is-not-sure-and-probes-are", ends: ops.CycleResolved, policy: resuming(probing("grafana")), acts: doubts, probes: finds("grafana", ops.Down, ops.Healthy)},
		{name: "an-agent-is-not-sure-and-a-judge-is", ends: ops.CycleResolved, policy: judging, acts: append(doubts, agrees)},
		{name: "tier-2-says-healthy-and-is-judged", ends: ops.CycleResolved, policy: judging, acts: []act{says(ops.OutcomeEscalate), calledHealthy, agrees}},
	}
}

func dryRunChains() []chain {
	dry := func(p *ops.Policy) { p.DryRun = true }
	return []chain{
		{name: "dry-run-again", ends: ops.CycleSuppressed, policy: policy(dry), acts: []act{hands(2)}, before: (*rehearsal).earlier},
		{name: "dry-run-where-a-human-is-asked", ends: ops.CycleSuppressed, policy: policy(dry, gate(2)), acts: []act{hands(2)}},
		{name: "dry-run-of-what-the-watch-has-told", ends: ops.CycleSuppressed, policy: policy(dry), acts: []act{hands(2)}, play: (*rehearsal).foundByTheWatch},
	}
}

// foundByTheWatch is a cycle that the watch has started for web, and of which people were told.
func (r *rehearsal) foundByTheWatch() {
	cause, _, err := r.store.Watch.OpenCause(r.t.Context(), ops.Cause{
		Key: "web", Environment: "default", Services: []string{"web"}, Level: ops.Down, Reason: "web is down.", Began: clock(), At: clock(),
	}, ops.NewCycle{Environment: "default", Trigger: ops.TriggerProbe, Services: []string{"web"}, Problem: "web: HTTP 502", At: clock()}, []ops.Check{
		{Environment: "default", Purpose: ops.ProbeObserve, Service: "web", Probe: "http", Type: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502", At: clock()},
	}, &ops.Notice{Kind: ops.NoticeOpened, Level: ops.LevelCritical, Title: "web is down", Environment: "default", Service: "web"}, clock())
	r.must(err)
	r.id = cause.Cycle
	r.advance()
}

func trustChains() []chain {
	trust := func(level ops.Trust) func(*ops.Policy) { return func(p *ops.Policy) { p.Trust = level } }
	return []chain{
		{name: "all-is-stopped", ends: ops.CycleNeedsHuman, policy: policy(), play: func(r *rehearsal) {
			_, err := r.store.People.StopAll(r.t.Context(), ops.Standstill{By: "ada", Reason: "the switch", At: clock()})
			r.must(err)
			r.foundByTheWatch()
		}},
		{name: "trust-is-watch", ends: ops.CycleNeedsHuman, policy: policy(trust(ops.TrustWatch)), play: (*rehearsal).foundByTheWatch},
		{name: "trust-is-suggest", ends: ops.CycleNeedsHuman, policy: policy(trust(ops.TrustSuggest)), acts: []act{hands(2)}},
	}
}

func misplacedChains() []chain {
	// tries is a session that writes its handoff where nobody looks for it, and says no more.
	tries := func(allowed bool) act {
		return func(r *rehearsal, spec ops.SessionSpec) ops.RunResult {
			_, err := r.store.Acts.RecordGuard(r.t.Context(), r.owner, ops.GuardRecord{
				At: clock(), CycleID: spec.Session.CycleID, SessionID: spec.Session.ID, Tier: spec.Session.Tier, Gate: ops.GateHook, ToolUseID: "t1", Tool: "Write",
				Input: `{"file_path":"/tmp/handoff.json","content":"{}"}`, Allowed: allowed, Mutating: allowed, Rule: "R7", Reason: "files change only inside the configured repositories",
			}, nil, nil)
			r.must(err)
			out := success()
			out.CLISessionID = "conversation"
			return out
		}
	}
	talks := func(*rehearsal, ops.SessionSpec) ops.RunResult {
		out := success()
		out.CLISessionID = "conversation"
		return out
	}
	return []chain{
		{name: "a-handoff-is-refused-and-nudged", ends: ops.CycleResolved, policy: policy(recovering), gated: true, acts: []act{tries(false), hands(2), well}},
		{name: "a-handoff-of-tier-2-lies-elsewhere", ends: ops.CycleResolved, policy: policy(recovering), gated: true, acts: []act{hands(2), tries(true), hands(3), well}},
		{name: "a-handoff-is-refused-without-a-ladder", ends: ops.CycleFailed, policy: policy(), gated: true, acts: []act{tries(false)}},
		{name: "a-handoff-that-is-not-corrected", ends: ops.CycleHealthy, policy: policy(recovering), gated: true, acts: []act{tries(false), talks}},
	}
}
