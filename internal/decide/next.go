package decide

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
		{"attacked", view.attacked, callForAttack},
		{"cancel requested", view.cancelRequested, cancel},
		{"not probed", view.unprobed, observe},
		{"probes find nothing", view.quiet, finishQuiet},
		{"all is stopped", view.standing, leaveStopped},
		{"trust is watch", view.watched, leaveToPeople},
		{"no lasts", view.noLasts, finishRefused},
		{"all held", view.allHeld, finishHeld},
		{"reflex in flight", view.reflexInFlight, interruptReflex},
		{"reflex too late", view.reflexWithdrawn, withdraw},
		{"reflex asked", view.reflexAsked, awaitReflex},
		{"reflex denied", view.reflexDenied, denied},
		{"reflex not seen", view.reflexStale, lookBeforeReflex},
		{"reflex unasked", view.reflexUnasked, askReflex},
		{"reflex due", view.reflexDue, runReflex},
		{"reflex unverified", view.reflexUnverified, verifyReflex},
		{"reflex helped", view.reflexHelped, reflexResolved},
		{"reflex not needed", view.reflexNotNeeded, recoveredMeanwhile},
		{"reflex waits", view.reflexEarly, waitForReflex},
		{"nothing ran", view.untouched, firstSession},
		{"intent stopped", view.intentStopped, stopIntent},
		{"intent held", view.intentHeld, leaveIntent},
		{"backoff", view.backingOff, pauseFirst},
		{"intent", view.intended, run},
		{"stopped by a person", view.stopped, cancel},
		{"problem is over", view.problemOver, withdraw},
		{"judge is back late", view.judgedUnseen, verify},
		{"judge is back", view.judgedMeanwhile, resolved},
		{"judge due again", view.judgeDue, askJudge},
		{"answer pending", view.asking, keepWaiting},
		{"human has it", view.withHuman, keepWaiting},
		{"human is done", view.humanDone, closedByHuman},
		{"answer is no", view.denied, denied},
		{"nobody answered", view.expired, unanswered},
		{"not seen since", view.needsRecheck, lookAgain},
		{"recovered meanwhile", view.recovered, recoveredMeanwhile},
		{"plan step in flight", view.planInFlight, interruptPlan},
		{"plan due", view.planDue, runPlanStep},
		{"plan unverified", view.planUnverified, verifyPlan},
		{"plan helped", view.planHelped, planResolved},
		{"review passed", view.reviewed, resolved},
		{"question interrupted", view.consultationInterrupted, askAgain},
		{"plan made", view.planned, followPlan},
		{"budget spent", view.overBudget, budgetSpent},
		{"resume refused", view.resumeRefused, restartWithHandoff},
		{"interrupted", view.interrupted, recovers(interruptedWithoutRecovery)},
		{"session failed", view.failed, recovers(failedWithoutRecovery)},
		{"manager due", view.managerDue, askManager},
		{"escalation proposed", view.proposed, route},
		{"inconclusive", view.inconclusive, recovers(failedWithoutRecovery)},
		{"blind and unsure", view.blindUnverified, verifyBlind},
		{"agent is blind", view.blind, tellBlind},
		{"human asked for", view.wantsHuman, askHuman},
		{"claim unverified", view.unverified, verify},
		{"claim refuted", view.refuted, losesTrust(recovers(refutedWithoutRecovery))},
		{"repair refused", view.repairRefused, recoverRefused},
		{"claim unsure", view.unsure, escalateClaim},
		{"claim unjudged", view.unjudged, askJudge},
		{"judge silent", view.judgeSilent, withoutJudge},
		{"claim judged", view.doubted, judged},
		{"claim doubtful", view.doubtful, reviewDoubtful},
		{"healthy", view.observedOnly, healthy},
		{"resolved", always, resolved},
	}
}

// Next decides what happens next in a cycle. It reads nothing but its arguments; the words only say it.
func Next(w Words, now ops.Claimed, at time.Time) ops.Step {
	v := newView(w, now, at)
	for _, r := range table() {
		if r.when(v) {
			step := leaveReflex(v, leavePlan(v, closeAgentIncidents(v, r.then(v))))
			step.Row = r.name
			return step
		}
	}
	return ops.Step{Kind: ops.StepRest, Row: "none", Reason: "no row matches"}
}
