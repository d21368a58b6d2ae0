// Package decide holds the decision: Next says what happens next in a cycle, from the cycle, its journal, its policy and the time
// alone. It does no I/O and reads no clock; the linter proves that.
//
//	next.go                the table; its rows are listed in package ops
//	past.go                what the journal says; holds.go what keeps services from tiers, charge.go what the chain is about
//	view.go, steps.go      the conditions of the rows, and the plain steps
//	people.go, trust.go    approvals, incidents, waiting; what trust leaves to people
//	reflex.go, plan.go     what is done without an agent, by itself or after a yes; repair.go what that repaired
//	proof.go               what shows that a problem is over
//	human.go               what people have to know and to do
//	ladder.go              the next attempt after a failure, what is known about it, and the ends
//	consult.go             questions to a manager, a planner, a judge, and their words
//	brief.go               what a session is told and given, for the effects in package cycle
//	update.go              the table of an update; record.go, reel.go what a decision saw, for a replay
//
// A view is a charge, and that is the past: each adds what it may know. The conditions of the rows are methods of view, or, by of, of the
// value that answers for one subject: reflexes, plans, proof, consults, ladder, human.
//
// What needs nothing of a cycle is a pure package of its own: escalation (may this proposal go up?), recovery (which attempt comes next?),
// loop, judge and report. What people read (reasons, titles, advice) is worded in package notice.
package decide
