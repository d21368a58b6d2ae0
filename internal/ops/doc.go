// Package ops holds the nouns of Claude Ops and the types they share, and describes one cycle. It imports the standard
// library only.
//
// # One cycle
//
// A trigger (schedule, operator, API, alert, failing probe) writes a cycle row with status queued and wakes the engine. A
// worker claims the cycle, which takes the slot of its environment, and advances it in a loop: ask decide.Next what to do,
// record that step together with the result of the previous one, do it. The rows are the truth; a worker only advances them.
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
// A session goes queued → running → completed | failed | timed_out | cancelled | interrupted. Queued means that nothing has
// run yet. Running is written before the process starts. The end of a session, the decision that follows from it and the
// next intent are written in one transaction. So after a crash, a queued session is started, a running one was interrupted,
// and an ended one never runs again.
//
// # What a chain works on
//
// Every chain has a charge: what it works on, and what every approval, right, verification, refutation, incident and notice of it is
// about. What starts the cycle fixes it. A look (schedule, once, run, an alert without a service) has an open charge: everything that is
// found in trouble and that nothing holds. The cycle of a probe or an alert has a closed one: the services of its cause, and those that
// join it before it hands anything on. A handoff closes it: the services that it names and that are free for the target tier. What else
// is red gets its own cycle or keeps its own call for help.
//
// A hold keeps a service from a tier and those above it: trust watch from every tier, suggest and two attacks on us within a day from
// those that repair, a no from the tier that was asked about, an acknowledgement, a snooze, a silence or a maintenance from every tier
// (who asks in words gets a look). A person's newest answer about a service counts, and a yes covers only the services of its question.
//
// # What happens next
//
// decide.Next is the only place that decides. It is pure: it reads the cycle, its journal, the policy stored with the cycle,
// and the time it is given. The first matching row decides, and every state matches one. Package cycle performs the step. What a step
// was decided from is stored with it, so that Next can be asked again.
//
//	row                   when                                            step                                     a person is told
//	ended                 the cycle has an end status                     rest                                     -
//	waiting               waits for a human, or for a later time          rest                                     reminders
//	in flight             the newest session is running (worker died)     interrupt: end its processes             -
//	attacked              the newest session attacked the supervisor      finish needs_human, nothing else         called, first of all
//	cancel requested      a cancel was requested                          finish cancelled                         who asked sees it
//	not probed            no session yet, probes configured, none ran     probe: facts for Tier 1                  -
//	probes find nothing   scheduled, no probe is bad, no agent due        finish healthy without an agent          what is over
//	all is stopped          a person stopped everything                     finish cancelled, or needs_human at the start  called, once
//	trust is watch        no agent may look at any of what is wrong       finish needs_human without an agent      called, once
//	no lasts              all that is wrong was denied, and is the same   finish suppressed without an agent       -
//	all held              all that is wrong is in somebody's hands        finish suppressed: why, and until when   -
//	reflex in flight      a dead worker left a reflex running             act: interrupted, never repeated         of the action
//	reflex too late       asked about a reflex; the incident is closed    finish resolved; question withdrawn      no answer needed
//	reflex asked          a human has not answered about a reflex         await; the slot is free                  reminders
//	reflex denied         a human said no to a reflex                     finish blocked                           how long it holds
//	reflex not seen       a reflex is due; the last look is too old       probe: is it still needed?               -
//	reflex unasked        a reflex is due and needs a yes                 await a human's answer                   asked
//	reflex due            a probe fails as a reflex says, long enough     act: the supervisor does it              -
//	reflex unverified     a reflex was done                               probe: did it help?                      -
//	reflex helped         probes that saw it fail find all of it healthy  finish resolved by reflex                what is over
//	reflex not needed     all became healthy while a reflex waited        finish resolved by probes                what is over
//	reflex waits          a reflex is due later; nothing else is wrong    pause or defer; the slot is free         -
//	nothing ran           no session yet                                  queue the entry handler (Tier 1)         -
//	intent stopped        a tier is queued that may not start any more    finish needs_human                       called
//	intent held           a tier is queued; people hold all it is for     finish suppressed                        -
//	backoff               it is too early for the queued attempt          pause                                    -
//	intent                the newest session is queued                    run it                                   -
//	stopped by a person   the newest session was cancelled                finish cancelled                         who asked sees it
//	problem is over       a human was asked; the incidents are closed     finish resolved; question withdrawn      no answer needed
//	judge is back late    as below; probes have not looked since         probe: does the repair hold?             -
//	judge is back         a review is pending, and the judge accepts it   finish resolved by the judge             what is over
//	judge due again       a review is pending; an hour without a judge    queue the judge                          -
//	answer pending        a human was asked and has not answered          await; the slot is free                  reminders
//	human has it          the work was given to a human and is not done   await                                    reminders
//	human is done         the incident was closed                         finish resolved                          -
//	answer is no          a human said no                                 finish blocked (a review: needs_human)   how long it holds
//	nobody answered       the question expired                            by policy: needs_human, blocked, go on   called
//	not seen since        a wait ended, or a repair was interrupted       probe: is it still needed?               -
//	recovered meanwhile   probes that saw it fail find all of it healthy  finish resolved by probes                what is over
//	plan step in flight   a dead worker left a step of the plan running   act: interrupted, never repeated         of the action
//	plan due              a human approved steps of a plan; one is next   act: the supervisor does it              -
//	plan unverified       the approved steps were done                    probe: did it help?                      -
//	plan helped           probes that saw it fail find all of it healthy  finish resolved by the plan              what is over
//	review passed         a human accepts the repair                      finish resolved by the human             -
//	question interrupted  a manager, planner or judge was interrupted     ask again, once                          -
//	plan made             a planner has ended                             queue the tier again, or the ladder      -
//	budget spent          its budget could not be reserved                finish blocked                           whose, until when
//	resume refused        the conversation could not be continued         queue the tier with the handoff context  -
//	interrupted           the last session was interrupted                the ladder                               see below
//	session failed        failed or timed out; its handoff is not read    the ladder                               see below
//	manager due           proposed, and a manager chooses the target      queue the manager                        -
//	escalation proposed   completed and proposed an escalation            escalation.Decide, see below             by its verdict
//	inconclusive          completed without a usable outcome              the ladder                               see below
//	blind and unsure      asks for a human; something was hidden from it  probe: is anything wrong?                -
//	agent is blind        as above; every probe of its charge is green    finish needs_human without an incident   warned: what was hidden
//	human asked for       completed and asks for a human                  finish needs_human                       called, with names
//	claim unverified      completed; an affected service has a probe      probe: verify the claim                  -
//	claim refuted         a probe still finds it down or degraded         the ladder; the service is trusted less  see below
//	repair refused        a repair is claimed, but the guard refused it   the ladder                               see below
//	claim unsure          the agent doubts its repair; nothing proves it  the tier above, as for a handoff         as for a handoff
//	claim unjudged        a repair is claimed and a judge is configured   queue the judge; once more if unusable   -
//	judge silent          the judge gave no usable answer twice           probes end it, else await a review       of the judge, once
//	claim judged          the judge did not accept the repair             await a human's review, or the ladder    asked
//	claim doubtful        it does, and no tier may take it over           await a human's review                   asked
//	healthy               Tier 1 completed and proposed nothing           finish healthy, close what it names      what is over
//	resolved              a higher tier completed and proposed nothing    finish resolved: proven or unverified    if called before
//
// The ladder is package decide/recovery. It classifies the failure and orders the next attempt at the same tier with the
// same permissions: retry after a pause, nudge in the same conversation, replan in a new one, or fall back to another
// handler. If the provider of the model is down, it waits for the end of the outage. Its last level is force-done, which
// finishes partial with the results so far and calls a human; if no agent could look and probes find all of it healthy again,
// nobody is called. A missing agent or key before any cycle has worked is a fault of the set-up: people are told, and no incident
// opens. With recovery off, a failure finishes failed, and a refuted claim finishes needs_human.
//
// A reflex is an action that the supervisor does without an agent, because the operator configured it for a failing probe, or because a
// person said yes after it had helped three times. It has one try in a cycle, before the first session, and only in cycles that no person
// started. What holds a service back holds its reflexes back; silence is never a yes. If it does not help, Tier 1 is told what was done.
//
// A cycle ends resolved with who says so (Proof). A probe proves the repair of what it saw fail, a judge and a human what they
// looked at. Without a proof the incidents become unverified: nobody is called, and the next report closes or reopens them. No
// state ends without proven success, an honest "unverified", or a person who is told; nobody is called twice for one fact.
//
// A no lasts for 24 hours, or as long as whoever says it wants. It is about facts: which probe of which service fails in which way (an
// HTTP class, refused, timeout, exit, else down or degraded), and which actions were named, as they are configured. While there is no
// other fact, no agent starts for it and nobody is asked again: a cycle that the schedule, a probe or an alert starts ends before
// Tier 1, and a tier is held back from the service as if a human had it. Whoever runs a cycle himself gets the look of Tier 1. The
// incident stays open, but it is not among what needs a person, and nobody is reminded of it until the no is over: the one who knows
// has decided. Another fact asks again at once. An outage that begins after it has ended once is told once, as every outage is.
//
// A proposed escalation passes the checks of package decide/escalation in this order: end of chain, validity, route,
// independence, held by a human, dry run, maximum tier, trust, cooldown, budget, approval. The verdict becomes a step:
//
//	verdict       step
//	escalate      queue the target handler; its parent is the session that proposed the escalation. It continues the
//	              conversation if the mode of the route is resume, an id was captured and the context window has room.
//	              Otherwise it gets the handoff context, and an event says why. The outage is an incident from now on, without
//	              a notice.
//	              (a human as target: await, with an incident)
//	approval      await a human's answer, with an incident; yes continues with exactly this step. If the handoff has a plan,
//	              the human may approve all or some of its steps, which are done first.
//	refused       the ladder, up to a nudge; then finish needs_human, critical event, notice
//	needs_human   finish needs_human, warning, notice
//	suppressed    finish suppressed: in a dry run with an incident and one notice, without if what is affected is held back; finish
//	              needs_human, warning, notice, if it only flaps
//	blocked       finish blocked, warning, notice (cooldown, budget); a plan that a cooldown stopped is asked for first, once
//
// # After the end
//
// A resolved cycle is on probation for ten minutes and holds no slot. The check that found the problem opens the same incident again if it
// fails in that time, whether the watch, the own probes of another cycle or a report finds it: the cycle is refuted, and people are told
// once that the repair did not hold. Another check is another incident.
//
// # Words
//
// An environment is a set of services that are watched together. A cycle is one run from trigger to end. A session is one
// agent process: one handler, one model, one set of figures. A tier is a permission level. A handler is a registered owner
// of work: an agent with its model and limits, or a human. A chain is the sessions of one cycle, linked parent to child. A
// handoff is the facts that a session passes to the next tier. A decision records what the supervisor did with a proposal,
// and why. A recovery is one attempt that the ladder ordered. An incident is an outage that a tier works on, or a problem
// that needs a human. An
// approval is a yes-or-no question to a human. A probe is a check in Go that costs no tokens.
package ops
