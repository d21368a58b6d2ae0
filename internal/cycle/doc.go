// Package cycle advances one cycle from trigger to end.
//
// Advance is the loop: ask Next what to do, record it together with the result of what was done last, do it.
// Next is pure and the only place that decides; its table stands in package ops. What the rows look at and do:
//
//	view.go, steps.go      the conditions, and the plain steps
//	people.go              approvals, incidents, waiting
//	ladder.go              the next attempt after a failure; failure.go what is known of it, offer.go what is possible,
//	                       refuted.go and forcedone.go the two ways it ends
//	aside.go               questions to a manager, a planner, a judge
//
// The other files are the effects: session.go runs an agent (prepare.go and question.go say what it is told, watch.go looks at
// it while it runs, collect.go takes what it says), probe.go probes services, interrupt.go clears up after a crash.
package cycle
