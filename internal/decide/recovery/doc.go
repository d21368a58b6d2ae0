// Package recovery decides what is done about an agent that failed.
//
// Two axes never mix. The tier says what may be touched; the level of this ladder says how to get a usable outcome from
// that tier, always with the tier's own permissions:
//
//	1 retry        the same call again, where repeating it is safe
//	2 nudge        the same conversation goes on with the concrete errors, three variants
//	3 replan       a fresh session that finds the cause first and avoids the known-bad approaches
//	4 fallback     another model or family, told what was tried and why it failed
//	5 force-done   no process: a partial result that says what a human should do
//
// Classify reads the failure of the agent and nothing else: exit code, result event, status of the model API, guard log,
// validation of the outcome. A monitored service that is down is the job, not an error of the agent, so no text of a
// service is ever looked at. The matrix is a table.
//
// Next walks the ladder around one tier step. The level is the highest of where the failure enters and where the step
// already stands. From there each level that is exhausted, out of time or of no use leaves to the one above; force-done
// is always possible, so the walk ends. A level that is passed over without being entered is told apart, because it is an
// event and not a row. Nothing here reads a clock: a restart computes the same move from the stored transitions.
package recovery
