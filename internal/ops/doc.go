// Package ops holds the nouns of Claude Ops and tells how one cycle goes. It imports the standard library only.
//
// # One cycle
//
// A trigger (schedule, operator, API) writes a cycle row with status queued and wakes the engine. A worker claims the
// cycle, which takes its environment's slot, and advances it: ask Next what to do, record the answer together with the
// result of what was done last, do it, and again. The rows are the truth; a worker only moves them on.
//
//	            ┌────────┐ claim ┌─────────┐ finish ┌─────────────────────────────────────────────┐
//	trigger ──► │ queued │ ────► │ running │ ─────► │ healthy resolved suppressed blocked          │
//	            └────────┘ ◄──── └─────────┘        │ needs_human partial failed cancelled         │
//	                     release      │              └─────────────────────────────────────────────┘
//	                        ▲         ▼ wait (slot is free)
//	                        │  ┌───────────────┐
//	                 answer └─ │ waiting_human │
//	                    or time└───────────────┘
//
// A session goes queued → running → completed | failed | timed_out | cancelled | interrupted. Queued means nothing ran.
// Running is written before the process starts. An end is written in one transaction with the decision that follows from
// it and with the next intent, so that after a crash: queued = start it, running = it was interrupted, ended = never again.
//
// # What happens next
//
// cycle.Next is the only place that decides. It is pure: it reads the cycle, its journal, the policy stored with the cycle,
// and the time. The first row that matches decides; every state matches one.
//
//	row                   when                                             step
//	ended                 the cycle has an end status                      rest
//	waiting               waits for a human, or for a time not yet come    rest
//	in flight             the newest session is running (worker died)      interrupt: end its processes
//	cancel requested      somebody asked for it                            finish cancelled
//	not probed            no session yet, probes configured, none ran      probe: facts for Tier 1
//	probes find nothing   scheduled, probes first, all healthy, no look due  finish healthy without an agent
//	nothing ran           no session yet                                   queue the entry handler (Tier 1)
//	backoff               the queued attempt's time has not come           pause
//	intent                the newest session is queued                     run it
//	stopped by a person   the newest session was cancelled                 finish cancelled
//	answer pending        a human was asked and has not answered           await, the slot is free
//	human has it          the work was handed to a human, not done yet     await
//	human is done         the incident was closed                          finish resolved
//	answer is no          a human said no                                  finish blocked (a review: needs_human)
//	nobody answered       the question expired                             by policy: needs_human, blocked, or as if yes
//	not seen since        back from a wait, or a repair was cut off        probe: is it still needed?
//	recovered meanwhile   probes find every affected service well          finish resolved
//	review passed         a human accepts the repair                       finish resolved
//	question interrupted  a manager, planner or judge, for the first time  ask again
//	plan made             a planner has ended                              queue the tier again with the plan, or the ladder
//	budget spent          its money could not be reserved                  finish blocked, notice says when it lifts
//	resume refused        the conversation could not be continued          queue the tier again with the handoff context
//	interrupted           the last session was cut off                     the ladder
//	session failed        failed or timed out; its handoff is never read   the ladder
//	manager due           something is proposed, a manager decides where   queue the manager
//	escalation proposed   completed and handed something up                escalation.Decide, see below
//	inconclusive          completed without a usable outcome               the ladder
//	human asked for       completed and asks for a human                   finish needs_human, incident, notice
//	claim unverified      completed; an affected service has a probe       probe: verify the claim
//	claim refuted         the probe still finds it down                    the ladder
//	claim unjudged        a repair is claimed and a judge configured       queue the judge
//	claim judged          the judge did not pass it                        await a human's review, or the ladder
//	healthy               Tier 1 completed and handed up nothing           finish healthy, close open incidents
//	resolved              a higher tier completed and handed up nothing    finish resolved, close their incidents
//
// The ladder is package recovery: it classifies the failure and orders the next attempt at the same tier with the same
// permissions: retry after a pause, nudge in the same conversation, replan afresh, fall back to another handler, or
// force-done, which finishes partial with what there is. With recovery off a failure finishes failed, and a claim that
// does not hold needs_human.
//
// A proposed escalation passes the checks of package escalation in this order: end of chain, validity, route,
// independence, held by a human, dry run, maximum tier, cooldown, budget, approval. What they say becomes:
//
//	verdict       step
//	escalate      queue the target handler, its parent is the session that proposed; it continues the conversation
//	              where the route's mode is resume, an id was captured and the context window has room, and gets
//	              the handoff context otherwise, with an event that says why
//	              (a target that is a human: await, with an incident)
//	approval      await a human's answer, with an incident; yes continues exactly this step
//	refused       the ladder, as far as a nudge; then finish needs_human, critical event, notice
//	needs_human   finish needs_human, warning, notice
//	suppressed    finish suppressed (dry run)
//	blocked       finish blocked, warning, notice (cooldown, budget)
//
// # Words
//
// An environment is what is watched together. A cycle is one run from trigger to end. A session is one agent process: one
// handler, one model, one set of figures. A tier is the permission level, a handler a registered owner of work. A chain is the
// sessions of one cycle, linked parent to child. A handoff is the facts passed up. A decision is what the supervisor did with a
// proposal, and why. A recovery is one attempt the ladder ordered. An incident is a problem a human knows of or has to; an
// approval is a question to one. A probe is a check in Go that costs no tokens.
package ops
