package cycle

import (
	"time"

	"claudeops/internal/ops"
)

// row is one line of the table in package ops: the first whose condition holds decides.
type row struct {
	name string
	when func(view) bool
	then func(view) ops.Step
}

// table is what happens next, top to bottom. A new capability adds rows here.
func table() []row {
	return []row{
		{"ended", view.ended, rest("the cycle has ended")},
		{"waiting", view.waiting, rest("the cycle waits")},
		{"in flight", view.inFlight, interrupt},
		{"cancel requested", view.cancelRequested, cancel},
		{"not probed", view.unprobed, observe},
		{"nothing ran", view.untouched, firstSession},
		{"intent", view.intended, run},
		{"stopped by a person", view.stopped, cancel},
		{"tier 1 interrupted", view.interruptedOnce, runAgain},
		{"repair interrupted", view.interrupted, giveUpInterrupted},
		{"resume refused", view.resumeRefused, handOver},
		{"session failed", view.failed, giveUpFailed},
		{"escalation proposed", view.proposed, route},
		{"inconclusive", view.inconclusive, giveUpInconclusive},
		{"human asked for", view.wantsHuman, askHuman},
		{"claim unverified", view.unverified, verify},
		{"claim refuted", view.refuted, refute},
		{"healthy", view.observedOnly, healthy},
		{"resolved", always, resolved},
	}
}

// Next decides what happens next in a cycle. It reads nothing but its arguments.
func Next(c ops.Cycle, j ops.Journal, p ops.Policy, now time.Time) ops.Step {
	v := view{cycle: c, journal: j, policy: p, now: now, last: j.Last()}
	for _, r := range table() {
		if r.when(v) {
			step := r.then(v)
			step.Row = r.name
			return step
		}
	}
	return ops.Step{Kind: ops.StepRest, Row: "none", Reason: "no row matches"}
}
