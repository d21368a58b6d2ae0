// Package decide holds the decision: Next says what happens next in a cycle, from the cycle, its journal, its policy and the time
// alone. It does no I/O and reads no clock; the linter proves that.
//
//	next.go                the table; its rows are listed in package ops
//	view.go, steps.go      the conditions of the rows, and the plain steps
//	people.go, held.go     approvals, incidents, waiting; what keeps services from an agent
//	ladder.go              the next attempt after a failure; failure.go what is known about it, offer.go what is possible,
//	                       refuted.go and forcedone.go the two ways it ends, norecovery.go the ends without a ladder
//	consult.go             questions to a manager, a planner, a judge; question.go their words
//	brief.go               what a session is told and given, for the effects in package cycle
//
// Each part is a pure package of its own: escalation (may this proposal go up?), recovery (which attempt comes next?), loop,
// judge, handoff and outcome. What people read (reasons, titles, advice) is worded in package notice.
package decide
