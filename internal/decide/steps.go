package decide

import (
	"slices"
	"time"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/judge"
	"claudeops/internal/ops"
)

func rest(why string) func(view) ops.Step {
	return func(view) ops.Step { return ops.Step{Kind: ops.StepRest, Reason: why} }
}

func interrupt(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyLeftRunning, Session: v.newest})
	return ops.Step{Kind: ops.StepInterrupt, Target: v.newest.ID, Reason: reason}
}

// attacked: the record of the newest session says so, however the session came to its end.
func (v view) attacked() bool {
	return v.newest != nil && (v.newest.StopCause == ops.StopAttack || v.journal.Effects[v.newest.ID].Attack != nil)
}

// callForAttack ends the cycle: whatever told the agent to do that would tell the next one. Beside the attack, which only a person closes,
// there is the outage. Trust and reflexes stay as they are: a log must not be able to switch repairs off.
func callForAttack(v view) ops.Step {
	p := v.human().problem(ops.ProblemAttack, ops.LevelCritical, v.newest.Error)
	if g := v.journal.Effects[v.newest.ID].Attack; g != nil {
		p.reason = v.say(ops.Reason{Kind: ops.WhyAttacked, Session: v.newest, Guard: *g, Services: v.services()})
	}
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	step.Notices = []ops.Notice{v.notice(ops.NoticeNeedsHuman, p.level, v.human().told(ops.MessageAttack, p))}
	step.Incident.Seen = p.reason
	if left := *step.Incident; len(left.Services) > 0 {
		left.Title, step.Left = v.say(ops.Reason{Kind: ops.HeadProblem, Problem: ops.ProblemHandled}), &left
	}
	step.Incident.Class, step.Incident.Services = ops.ClassAttack, nil
	return step
}

func cancel(v view) ops.Step {
	why := v.say(ops.Reason{Kind: ops.WhyCancelled, Text: v.cycle.CancelReason})
	return finish(ops.CycleCancelled, why, v.event(ops.LevelInfo, ops.VerbCycleCancelled, why))
}

func observe(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyObserves, Count: len(v.probed())})
	return ops.Step{Kind: ops.StepProbe, Purpose: ops.ProbeObserve, Reason: reason}
}

func firstSession(v view) ops.Step {
	entry, ok := v.policy.Handler(v.policy.Entry)
	if !ok {
		reason := v.say(ops.Reason{Kind: ops.WhyNoEntry, Text: v.policy.Entry})
		return finish(ops.CycleFailed, reason, v.event(ops.LevelCritical, ops.VerbCycleFailed, reason))
	}
	story := v.reflexes().story()
	reason := v.say(ops.Reason{Kind: ops.WhyStarts, Handler: entry, Rest: story})
	var events []ops.Event
	if len(story) > 0 {
		events = []ops.Event{v.event(ops.LevelWarning, ops.VerbReflexGaveUp, reason)}
	}
	return leaveUnseen(v, ops.Step{
		Kind: ops.StepQueue, Reason: reason, Events: events,
		Session: &ops.NewSession{Attempt: v.attempt(entry.Tier), Handler: entry, ContextMode: ops.ContextFresh},
	})
}

func run(v view) ops.Step {
	return ops.Step{Kind: ops.StepRun, Target: v.newest.ID, Reason: v.say(ops.Reason{Kind: ops.WhyDue, Session: v.newest})}
}

// budgetSpent: the session was not started, because nothing is left to spend.
func budgetSpent(v view) ops.Step {
	p := v.human().unpayable(ops.ProblemUnpaid)
	p.reason = v.say(ops.Reason{Kind: ops.WhyUnpaid, Session: v.last, Budget: *p.budget})
	step := finishForHuman(v, ops.CycleBlocked, p)
	if len(v.journal.Before) > 0 && v.journal.Before[0].Status == ops.CycleBlocked {
		return step // said once, not every hour
	}
	return notifyOnce(v, step, v.notice(ops.NoticeBudget, p.level, v.human().told(ops.MessageUnpayable, p)))
}

// longestPause is how long a worker waits itself; for longer the cycle goes back to the queue, and other cycles get the slot.
const longestPause = 5 * time.Second

func pauseFirst(v view) ops.Step {
	at := *v.notBefore()
	return pauseUntil(v, at, ops.Reason{Kind: ops.WhyWaits, Session: v.newest, At: at})
}

func pauseUntil(v view, at time.Time, why ops.Reason) ops.Step {
	kind := ops.StepPause
	if at.Sub(v.now) > longestPause {
		kind = ops.StepDefer
	}
	return ops.Step{Kind: kind, Until: at, Reason: v.say(why)}
}

// facts are what else a decision about the last session's proposal reads.
func (v view) facts() escalation.Facts {
	return escalation.Facts{
		ChainUSD: v.chainUSD(), DayUSD: v.journal.Spend.DayUSD, Cooldowns: v.journal.Cooldowns, Held: v.untrusting(), Lowered: v.journal.Lowered,
		Approved: v.approved(),
	}
}

// proposalOf is what the last session hands up. Once a person was asked about it, it is about what stood in the question.
func (v view) proposalOf() ops.Proposal {
	p := v.handedUp(*v.last)
	for _, d := range slices.Backward(v.journal.Decisions) {
		if d.SessionID == v.last.ID && d.Verdict == ops.VerdictApproval {
			p.Handoff = about(p.Handoff, d)
			break
		}
	}
	return p
}

// route turns a proposal into a decision, and the decision into the next session, a wait or the end.
func route(v view) ops.Step {
	p := v.proposalOf()
	d := escalation.Decide(v.policy, v.path(),
		escalation.Proposal{Session: v.proposer(), Handoff: p.Handoff, Problems: p.Problems, Choice: v.consults().choice()}, v.facts())
	d.At = v.now
	step := decided(v, d, about(p.Handoff, d))
	if left := v.leftOut(d, p.Handoff); len(left) > 0 {
		step = tellOfLeftOut(v, step, d, p.Handoff, left)
	}
	step.Decision = &d
	if p.Handoff != nil {
		step.Events = append(step.Events, v.disagreements(p.Handoff.CheckResults)...)
	}
	for _, w := range p.Warnings {
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.VerbHandoffWarned, w))
	}
	return step
}

func decided(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	target, _ := v.policy.Handler(d.TargetHandler)
	switch d.Verdict {
	case ops.VerdictEscalate:
		if target.Human() {
			return toHuman(v, d, h)
		}
		return escalateTo(v, target, d, h)
	case ops.VerdictRefused:
		step := refused(v, d, h)
		if step.Kind != ops.StepFinish {
			step.Events = append(step.Events, v.event(ops.LevelCritical, ops.VerbEscalationRefused, d.Reason))
		}
		return step
	case ops.VerdictNeedsHuman:
		if target.Human() {
			return toHuman(v, d, h)
		}
		if d.Check == ops.ObjectionTrust {
			return suggested(v, d, h)
		}
		p := v.human().problemOf(ops.ProblemHuman, ops.LevelWarning, d, h)
		step := finishForHuman(v, ops.CycleNeedsHuman, p)
		return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, v.human().told(ops.MessageHuman, p)))
	case ops.VerdictApproval:
		return askApproval(v, d, h)
	case ops.VerdictSuppressed:
		if d.Check == ops.ObjectionDryRun {
			return dryRun(v, d, h)
		}
		flaps := d.Check == ops.ObjectionHeld && v.flaps(h.ServicesAffected)
		silent := ops.Free(v.silentOn(h), v.unattacked(), ops.LastTier)
		left := slices.Concat(ops.Free(h.ServicesAffected, v.unattacked(), ops.LastTier), silent)
		if flaps || d.Check == ops.ObjectionHeld && len(left) > 0 {
			facts := *h
			if len(silent) > 0 {
				facts.ServicesAffected, facts.CheckResults = left, slices.Concat(h.CheckResults, v.badChecks(silent))
			}
			p := v.human().problemOf(ops.ProblemBlocked, ops.LevelWarning, d, &facts)
			p.reason = v.say(ops.Reason{Kind: ops.WhyNothingFor, Text: d.Reason, Services: silent})
			if flaps {
				p.kind, p.todo = ops.ProblemFlapping, v.say(ops.Reason{Kind: ops.TodoProblem, Problem: ops.ProblemFlapping})
			}
			return handOver(v, ops.CycleNeedsHuman, p, ops.NoticeNeedsHuman, ops.MessageHuman)
		}
		return suppressed(v, d, h)
	case ops.VerdictBlocked:
		p := v.human().problemOf(ops.ProblemBlocked, ops.LevelWarning, d, h)
		if d.Check != ops.ObjectionBudget {
			return handOver(v, ops.CycleBlocked, p, ops.NoticeBlocked, ops.MessageBlocked)
		}
		spent := v.human().unpayable(ops.ProblemBudget)
		p.kind, p.budget, p.todo = spent.kind, spent.budget, spent.todo
		return handOver(v, ops.CycleBlocked, p, ops.NoticeBudget, ops.MessageUnpayable)
	}
	return finish(ops.CycleFailed, "unknown verdict "+string(d.Verdict))
}

// suppressed ends the cycle. Whoever approved the escalation before is told: the answer said that the cycle continues.
func suppressed(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	step := finish(ops.CycleSuppressed, d.Reason, v.event(ops.LevelInfo, ops.VerbCycleHeld, d.Reason))
	if v.asked(ops.ApprovalApproved, ops.ApprovalTier) {
		p := v.human().problemOf(ops.ProblemBlocked, ops.LevelWarning, d, h)
		step.Notices = append(step.Notices, v.notice(ops.NoticeBlocked, p.level, v.human().told(ops.MessageNotStarted, p)))
	}
	return step
}

func escalateTo(v view, target ops.Handler, d ops.Decision, h *ops.Handoff) ops.Step {
	mode, why := v.contextFor(target)
	step := ops.Step{
		Kind: ops.StepQueue, Reason: d.Reason,
		Session: &ops.NewSession{ParentID: &v.last.ID, Attempt: v.attempt(target.Tier), Handler: target, ContextMode: mode},
		Events:  []ops.Event{v.event(ops.LevelInfo, ops.VerbEscalationDecided, d.Reason)},
	}
	if target.May() > ops.Tier1 {
		step.Incident = v.human().handled(target, h)
	}
	if why != "" {
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.VerbContextFresh, why))
	}
	if v.policy.TellEscalated {
		told := v.human().told(ops.MessageTakesOver, problem{reason: d.Reason, facts: h})
		told.Handler = target.ID
		n := v.notice(ops.NoticeEscalated, ops.LevelWarning, told)
		if len(d.Services) == 1 {
			n.Service = d.Services[0]
		}
		step.Notices = append(step.Notices, n)
	}
	return step
}

// contextFor chooses how the target gets its context: by continuing the conversation where that is wanted and possible,
// else by the facts handed over. The reason is empty when it goes as wanted.
func (v view) contextFor(target ops.Handler) (ops.ContextMode, string) {
	if v.policy.ModeOf(v.last.Handler, target.ID) != ops.ContextResume {
		return ops.ContextHandoff, ""
	}
	use, window := v.contextUse(), v.window(target.Model)
	why := ops.Reason{Session: v.last, Handler: target, Count: int(use), Most: int(window), Share: v.policy.ContextThreshold}
	switch {
	case v.last.Agent != target.Agent:
		why.Kind = ops.WhyOtherAgent
	case v.onAnotherHost(v.last):
		why.Kind = ops.WhyOtherHost
	case v.last.CLISessionID == "":
		why.Kind = ops.WhyNoConversation
	case float64(use) > v.policy.ContextThreshold*float64(window):
		why.Kind = ops.WhyContextFull
	default:
		return ops.ContextResume, ""
	}
	return ops.ContextHandoff, v.say(why)
}

// restartWithHandoff gives the tier its context in the other way: what the parent handed up holds the facts, so the parent need not
// run again.
func restartWithHandoff(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyResumeRefused, Session: v.last})
	return ops.Step{
		Kind: ops.StepQueue, Reason: reason,
		Session: &ops.NewSession{
			ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier), Handler: v.worker(), ContextMode: ops.ContextHandoff,
		},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbContextFresh, reason)},
	}
}

func askHuman(v view) ops.Step {
	why := summary(*v.last)
	p := v.human().problem(ops.ProblemHuman, ops.LevelWarning, v.say(ops.Reason{Kind: ops.WhyAsksForHuman, Session: v.last, Text: why}))
	p.todo = ops.Said("agent", why)
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	step.Events = append(step.Events, v.disagreements(v.last.Reported())...)
	return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, v.human().told(ops.MessageHuman, p)))
}

// disagreements record that an agent calls a service bad that all our own probes find healthy.
func (v view) disagreements(reported []ops.CheckResult) []ops.Event {
	var out []ops.Event
	for _, r := range reported {
		name, _ := v.policy.Inventory.Canonical(r.Service)
		if r.Status == ops.Healthy || !v.green(name) || slices.ContainsFunc(out, func(e ops.Event) bool { return e.Service == name }) {
			continue
		}
		reason := v.say(ops.Reason{Kind: ops.WhyDisagrees, Session: v.last, Text: name, Health: r.Status})
		e := v.event(ops.LevelWarning, ops.VerbProbeDisagreed, reason)
		e.Service = name
		out = append(out, e)
	}
	return out
}

func verify(v view) ops.Step {
	services := v.verifiable()
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbeVerify, Target: v.last.ID, Services: services,
		Reason: v.say(ops.Reason{Kind: ops.WhyVerifies, Session: v.last, Services: services}),
	}
}

func verifyBlind(v view) ops.Step {
	step := verify(v)
	step.Reason = v.say(ops.Reason{Kind: ops.WhyBlindVerified, Session: v.last, Services: step.Services})
	return step
}

// tellBlind warns that an agent asks for a human about what it could not see. Our own probes find nothing wrong, so nothing is an incident.
func tellBlind(v view) ops.Step {
	p := v.human().problem(ops.ProblemHuman, ops.LevelWarning, v.say(ops.Reason{Kind: ops.WhyBlind, Session: v.last, Text: summary(*v.last)}))
	told := v.human().told(ops.MessageHuman, p)
	told.What, told.Services = p.reason, nil
	step := finish(ops.CycleNeedsHuman, p.reason, v.event(p.level, ops.VerbCycleHandedOver, p.reason))
	step.Notices = append(step.Notices, v.notice(ops.NoticeNeedsHuman, ops.LevelWarning, told))
	return step
}

func healthy(v view) ops.Step {
	step := finish(ops.CycleHealthy, v.say(ops.Reason{Kind: ops.WhyNothingFound}))
	step.Recovered = v.proof().foundWell()
	return step
}

// resolved ends a cycle whose last session claims a repair. It says who confirms the claim; without anybody it stays unverified.
func resolved(v view) ops.Step {
	verdict, judged := v.verdict()
	proof, why := ops.ProofNone, v.unconfirmed()
	why.Tier, why.Approval, why.Count = v.last.Tier, v.question(), len(v.checks(ops.ProbeVerify, v.last.ID))
	switch {
	case v.proof().allProven(ops.ProbeVerify) && v.proof().changedNothing():
		proof, why.Kind = ops.ProofProbe, ops.WhyRecoveredByItself
	case v.proof().allProven(ops.ProbeVerify):
		proof, why.Kind = ops.ProofProbe, ops.WhyRepairedByProbes
	case v.asked(ops.ApprovalApproved, ops.ApprovalReview):
		proof, why.Kind = ops.ProofHuman, ops.WhyRepairedByReview
	case judged && verdict.Verdict == judge.Pass:
		proof, why.Kind, why.Count = ops.ProofJudge, ops.WhyRepairedByJudge, verdict.TotalScore
	}
	reason := v.say(why)
	step := finishResolved(proof, reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
	step.Recovered = v.proof().repaired(ops.ProbeVerify, proof, v.inCycle(reason))
	if proof == ops.ProofProbe {
		step.Repair = v.proof().repair()
	}
	if judged {
		step.Verified = v.consults().verification(verdict)
	}
	return step
}

// unconfirmed says what of a claimed repair probes confirm, and what nothing does.
func (v view) unconfirmed() ops.Reason {
	var proven, rest []string
	for _, s := range v.services() {
		if v.proof().proven(s, ops.ProbeVerify) {
			proven = append(proven, s)
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range rest {
		if h := v.flapsNow(s); h != nil {
			return ops.Reason{Kind: ops.WhyNotCalmYet, Text: h.Reason}
		}
	}
	if len(proven) == 0 {
		return ops.Reason{Kind: ops.WhyUnverified}
	}
	return ops.Reason{Kind: ops.WhyPartlyVerified, Services: proven, Rest: rest}
}

// finishResolved ends a cycle with who says that its problem is over.
func finishResolved(proof ops.Proof, reason string, events ...ops.Event) ops.Step {
	step := finish(ops.CycleResolved, reason, events...)
	step.Confirmed, step.ConfirmedBy = ops.Ptr(proof != ops.ProofNone), proof
	return step
}

func finish(status ops.CycleStatus, reason string, events ...ops.Event) ops.Step {
	return ops.Step{Kind: ops.StepFinish, Status: status, Reason: reason, Events: events}
}

// dryRun ends a cycle that would have repaired something. The outage is an incident all the same, and people are told of it once:
// nobody else will do anything about it.
func dryRun(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	facts := *h
	facts.ServicesAffected = d.Services
	p := v.human().problemOf(ops.ProblemDryRun, ops.LevelWarning, d, &facts)
	p.todo = v.say(ops.Reason{Kind: ops.TodoDryRun, Services: d.Services, Again: v.cycle.Options.DryRun})
	would := v.human().would(facts)
	step := finishForHuman(v, ops.CycleSuppressed, p)
	step.Incident.DryRun = true
	step.Incident.Recommendation = v.say(ops.Reason{Kind: ops.TodoWithoutDryRun, Text: p.todo, Rest: []string{would}})
	switch {
	case v.asked(ops.ApprovalApproved, ops.ApprovalTier):
		// Whoever approved it was told that the cycle continues.
		step.Notices = []ops.Notice{v.notice(ops.NoticeBlocked, p.level, v.human().told(ops.MessageNotStarted, p))}
	case v.cycle.Options.DryRun:
		step.Incident.Handled = true // nobody is called: whoever asked for this one look sees what it found
	case !v.watchNotified(d.Services):
		told := v.human().told(ops.MessageDryRun, p)
		told.Would = would
		step = notifyOnce(v, step, v.notice(ops.NoticeBlocked, p.level, told))
	}
	return step
}

// watchNotified: the notice that these services turned bad has gone out already.
func (v view) watchNotified(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool { return !slices.Contains(v.journal.Notified, s) })
}

// saidInDryRun: people know of the incident only that it would be repaired if there were no dry run.
func saidInDryRun(i ops.Incident) bool {
	known, err := i.Known()
	return err == nil && known.DryRun
}
