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
//	in flight             the last session is running (its worker died)    interrupt: end its processes
//	cancel requested      somebody asked for it                            finish cancelled
//	not probed            no session yet, probes configured, none ran      probe: facts for Tier 1
//	nothing ran           no session yet                                   queue the entry handler (Tier 1)
//	intent                the last session is queued                       run it
//	stopped by a person   the last session was cancelled                   finish cancelled
//	tier 1 interrupted    Tier 1, for the first time                       queue it again (it only looks)
//	repair interrupted    any other interrupted session                    finish failed, critical event, notice
//	resume refused        the conversation could not be continued          queue the tier again with the handoff context
//	session failed        failed or timed out                              finish failed; its handoff is never read; notice
//	                                                                       (at Tier 1 unless the last cycle failed too)
//	escalation proposed   completed and handed something up                escalation.Decide, see below
//	inconclusive          completed without a usable outcome               finish failed
//	human asked for       completed and asks for a human                   finish needs_human, warning, notice
//	claim unverified      completed; an affected service has a probe       probe: verify the claim
//	claim refuted         the probe still finds it down                    finish needs_human, critical event, notice
//	healthy               Tier 1 completed and handed up nothing           finish healthy
//	resolved              a higher tier completed and handed up nothing    finish resolved
//
// A proposed escalation passes the checks of package escalation in this order: end of chain, validity, route, dry run,
// maximum tier, cooldown, budget, approval. What they say becomes:
//
//	verdict       step
//	escalate      queue the target handler, its parent is the session that proposed; it continues the conversation
//	              where the route's mode is resume, an id was captured and the context window has room, and gets
//	              the handoff context otherwise, with an event that says why
//	refused       finish needs_human, critical event, notice
//	needs_human   finish needs_human, warning, notice
//	suppressed    finish suppressed (dry run)
//	blocked       finish blocked, warning, notice (cooldown, budget)
//
// # Words
//
// An environment is what is watched together. A cycle is one run from trigger to end. A session is one agent process: one
// handler, one model, one set of figures. A tier is the permission level, a handler a registered owner of work. A chain is the
// sessions of one cycle, linked parent to child. A handoff is the facts passed up. A decision is what the supervisor did with a
// proposal, and why. A probe is a check in Go that costs no tokens.
package ops
