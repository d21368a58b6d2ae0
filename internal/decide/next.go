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
		{"reflex in flight", of(reflexes.inFlight), interruptReflex},
		{"reflex too late", of(reflexes.withdrawn), withdraw},
		{"reflex asked", of(reflexes.wait), awaitReflex},
		{"reflex denied", of(reflexes.refused), denied},
		{"reflex not seen", of(reflexes.stale), lookBeforeReflex},
		{"reflex unasked", of(reflexes.unasked), askReflex},
		{"reflex due", of(reflexes.due), runReflex},
		{"reflex unverified", of(reflexes.unverified), verifyReflex},
		{"reflex helped", of(reflexes.helped), reflexResolved},
		{"reflex not needed", of(reflexes.notNeeded), recoveredMeanwhile},
		{"reflex waits", of(reflexes.early), waitForReflex},
		{"nothing ran", view.untouched, firstSession},
		{"intent stopped", view.intentStopped, stopIntent},
		{"intent held", view.intentHeld, leaveIntent},
		{"backoff", view.backingOff, pauseFirst},
		{"intent", view.intended, run},
		{"stopped by a person", view.stopped, cancel},
		{"problem is over", view.problemOver, withdraw},
		{"judge is back late", of(consults.judgedUnseen), verify},
		{"judge is back", of(consults.judgedMeanwhile), resolved},
		{"judge due again", of(consults.judgeDue), askJudge},
		{"answer pending", view.asking, keepWaiting},
		{"human has it", view.withHuman, keepWaiting},
		{"human is done", view.humanDone, closedByHuman},
		{"answer is no", view.denied, denied},
		{"nobody answered", view.expired, unanswered},
		{"not seen since", view.needsRecheck, lookAgain},
		{"recovered meanwhile", view.recovered, recoveredMeanwhile},
		{"plan step in flight", of(plans.inFlight), interruptPlan},
		{"plan due", of(plans.due), runPlanStep},
		{"plan unverified", of(plans.unverified), verifyPlan},
		{"plan helped", of(plans.helped), planResolved},
		{"review passed", view.reviewed, resolved},
		{"question interrupted", view.consultationInterrupted, askAgain},
		{"plan made", of(consults.planned), followPlan},
		{"budget spent", view.overBudget, budgetSpent},
		{"resume refused", view.resumeRefused, restartWithHandoff},
		{"interrupted", view.interrupted, recovers(interruptedWithoutRecovery)},
		{"session failed", view.failed, recovers(failedWithoutRecovery)},
		{"manager due", of(consults.managerDue), askManager},
		{"escalation proposed", view.proposed, route},
		{"inconclusive", view.inconclusive, recovers(failedWithoutRecovery)},
		{"blind and unsure", view.blindUnverified, verifyBlind},
		{"agent is blind", view.blind, tellBlind},
		{"human asked for", view.wantsHuman, askHuman},
		{"claim unverified", view.unverified, verify},
		{"claim refuted", view.refuted, losesTrust(recovers(refutedWithoutRecovery))},
		{"repair refused", of(proof.repairRefused), recoverRefused},
		{"claim unsure", of(proof.unsure), escalateClaim},
		{"claim unjudged", of(consults.unjudged), askJudge},
		{"judge silent", of(consults.judgeSilent), withoutJudge},
		{"claim judged", of(proof.doubted), judged},
		{"claim doubtful", of(proof.doubtful), reviewDoubtful},
		{"healthy", view.observedOnly, healthy},
		{"resolved", always, resolved},
	}
}

// of makes a condition of the table of one about a subject.
func of[T ~struct{ view }](when func(T) bool) func(view) bool {
	return func(v view) bool { return when(T(struct{ view }{v})) }
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
