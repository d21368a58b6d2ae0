package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/judge"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

func rest(why string) func(view) ops.Step {
	return func(view) ops.Step { return ops.Step{Kind: ops.StepRest, Reason: why} }
}

func interrupt(v view) ops.Step {
	return ops.Step{
		Kind: ops.StepInterrupt, Target: v.newest.ID,
		Reason: fmt.Sprintf("session %d was running when its supervisor ended", v.newest.ID),
	}
}

func cancel(v view) ops.Step {
	why := v.cycle.CancelReason
	if why == "" {
		why = "stopped by the operator"
	}
	return v.finish(ops.CycleCancelled, why, v.event(ops.LevelInfo, ops.EventCycle, "cycle cancelled: "+why))
}

func observe(v view) ops.Step {
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbeObserve,
		Reason: fmt.Sprintf("%d services have probes; their results are facts for Tier 1", len(v.probed())),
	}
}

// finishQuiet ends a look that cost no tokens.
func finishQuiet(v view) ops.Step {
	for _, c := range v.checks(ops.ProbeObserve, 0) {
		if c.Status == ops.Healthy {
			continue
		}
		if why, held := v.withheld(c); held {
			return v.finish(ops.CycleSuppressed, "no agent was started: "+why)
		}
	}
	step := v.finish(ops.CycleHealthy, fmt.Sprintf("probes find all %d services healthy; no agent was started", len(v.probed())))
	if v.hasOpenIncident() {
		step.Recovered = v.recoveredByProbes()
	}
	return step
}

// recoveredByProbes closes the incidents of the services that probes find healthy.
func (v view) recoveredByProbes() []ops.Recovered {
	var out []ops.Recovered
	for _, name := range v.probed() {
		out = append(out, ops.Recovered{Service: name, How: fmt.Sprintf("cycle %d: probes find it healthy", v.cycle.ID)})
	}
	return out
}

func firstSession(v view) ops.Step {
	entry, ok := v.policy.Handler(v.policy.Entry)
	if !ok {
		reason := fmt.Sprintf("the entry handler %q is not registered", v.policy.Entry)
		return v.finish(ops.CycleFailed, reason, v.event(ops.LevelCritical, ops.EventCycle, reason))
	}
	return ops.Step{
		Kind: ops.StepQueue, Reason: fmt.Sprintf("the cycle starts with %s", entry.ID),
		Session: &ops.NewSession{Attempt: v.attempt(entry.Tier), Handler: entry, ContextMode: ops.ContextFresh},
	}
}

func run(v view) ops.Step {
	return ops.Step{
		Kind: ops.StepRun, Target: v.newest.ID,
		Reason: fmt.Sprintf("session %d (%s) is due", v.newest.ID, v.newest.Tier),
	}
}

// budgetSpent: the session was not started, because nothing is left to spend.
func budgetSpent(v view) ops.Step {
	reason := fmt.Sprintf("%s was not started: %s; the next day's budget starts at %s", v.last.Tier, v.last.Error, stamp(nextDay(v.now)))
	p := problem{
		title: "The budget is spent", level: ops.LevelWarning, reason: reason,
		todo: "raise the budget and run a cycle, or wait until the next day's budget starts",
	}
	step := v.finishForHuman(ops.CycleBlocked, p)
	if len(v.journal.Before) > 0 && v.journal.Before[0].Status == ops.CycleBlocked {
		return step // said once, not every hour
	}
	return v.notifyOnce(step, v.notice(ops.NoticeBudget, p.level, notice.BudgetSpent(v.told(p))))
}

// longestPause is how long a worker waits itself; for longer the cycle goes back to the queue, and other cycles get the slot.
const longestPause = 5 * time.Second

func pauseFirst(v view) ops.Step {
	at := *v.notBefore()
	kind := ops.StepPause
	if at.Sub(v.now) > longestPause {
		kind = ops.StepDefer
	}
	return ops.Step{
		Kind: kind, Until: at,
		Reason: fmt.Sprintf("session %d (%s) waits until %s", v.newest.ID, v.newest.Tier, stamp(at)),
	}
}

func words(s ops.SessionStatus) string {
	if s == ops.SessionTimedOut {
		return "timed out"
	}
	return string(s)
}

// facts are what else a decision about the last session's proposal reads.
func (v view) facts() escalation.Facts {
	return escalation.Facts{
		ChainUSD: v.chainUSD(), DayUSD: v.journal.Spend.DayUSD, Cooldowns: v.journal.Cooldowns, Held: v.held(), Approved: v.approved(),
	}
}

// proposer is the last session in the place of the handler it stood in for: a stand-in may hand to whom the other might.
func (v view) proposer() ops.Session {
	s := *v.last
	for o := v.last; o != nil && o.RetryOf != nil; {
		if o = v.journal.Session(*o.RetryOf); o != nil {
			s.Handler = o.Handler
		}
	}
	return s
}

// route turns a proposal into a decision, and the decision into the next session, a wait or the end.
func route(v view) ops.Step {
	p := v.handedUp(*v.last)
	d := escalation.Decide(v.policy, v.path(),
		escalation.Proposal{Session: v.proposer(), Handoff: p.Handoff, Problems: p.Problems, Choice: v.choice()}, v.facts())
	d.At = v.now
	step := v.decided(d, p.Handoff)
	step.Decision = &d
	for _, w := range p.Warnings {
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.EventHandoff, w))
	}
	return step
}

func (v view) decided(d ops.Decision, h *ops.Handoff) ops.Step {
	target, _ := v.policy.Handler(d.TargetHandler)
	switch d.Verdict {
	case ops.VerdictEscalate:
		if target.Human() {
			return v.toHuman(d, h)
		}
		return v.escalateTo(target, d, h)
	case ops.VerdictRefused:
		step := v.refused(d, h)
		if step.Kind != ops.StepFinish {
			step.Events = append(step.Events, v.event(ops.LevelCritical, ops.EventEscalation, d.Reason))
		}
		return step
	case ops.VerdictNeedsHuman:
		if target.Human() {
			return v.toHuman(d, h)
		}
		p := problem{title: "Human attention required", level: ops.LevelWarning, reason: d.Reason, todo: v.advice(d), facts: h}
		step := v.finishForHuman(ops.CycleNeedsHuman, p)
		return v.notifyOnce(step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, notice.NeedsHuman(v.told(p))))
	case ops.VerdictApproval:
		return v.askApproval(d, h)
	case ops.VerdictSuppressed:
		if d.Check == "held" && v.flaps() {
			p := problem{
				title: "A service is flapping", level: ops.LevelWarning, reason: d.Reason, facts: h,
				todo: "find out what starts and stops it; no agent works on it until it is stable",
			}
			return v.notifyOnce(v.finishForHuman(ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, notice.NeedsHuman(v.told(p))))
		}
		return v.suppressed(d, h)
	case ops.VerdictBlocked:
		p := problem{title: "An escalation was blocked", level: ops.LevelWarning, reason: d.Reason, todo: v.advice(d), facts: h}
		kind, say := ops.NoticeBlocked, notice.Blocked
		if d.Check == "budget" {
			p.title, kind, say = "The budget is spent", ops.NoticeBudget, notice.BudgetSpent
		}
		return v.notifyOnce(v.finishForHuman(ops.CycleBlocked, p), v.notice(kind, p.level, say(v.told(p))))
	}
	return v.finish(ops.CycleFailed, "unknown verdict "+string(d.Verdict))
}

// suppressed ends the cycle. Whoever approved the escalation before is told: the answer said that the cycle continues.
func (v view) suppressed(d ops.Decision, h *ops.Handoff) ops.Step {
	step := v.finish(ops.CycleSuppressed, d.Reason, v.event(ops.LevelInfo, ops.EventEscalation, d.Reason))
	if v.asked(ops.ApprovalApproved, ops.ApprovalTier) {
		p := problem{level: ops.LevelWarning, reason: d.Reason, todo: v.advice(d), facts: h}
		step.Notices = append(step.Notices, v.notice(ops.NoticeBlocked, p.level, notice.NotStarted(v.told(p))))
	}
	return step
}

func (v view) escalateTo(target ops.Handler, d ops.Decision, h *ops.Handoff) ops.Step {
	mode, why := v.contextFor(target)
	step := ops.Step{
		Kind: ops.StepQueue, Reason: d.Reason,
		Session: &ops.NewSession{ParentID: &v.last.ID, Attempt: v.attempt(target.Tier), Handler: target, ContextMode: mode},
		Events:  []ops.Event{v.event(ops.LevelInfo, ops.EventEscalation, d.Reason)},
	}
	if target.May() > ops.Tier1 {
		step.Incident = v.handled(target, h)
	}
	if why != "" {
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.EventContext, why))
	}
	if v.policy.TellEscalated {
		n := v.notice(ops.NoticeEscalated, ops.LevelWarning, notice.TakesOver(v.told(problem{reason: d.Reason, facts: h}), target.ID))
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
	switch {
	case v.last.Agent != target.Agent:
		return ops.ContextHandoff, fmt.Sprintf(
			"%s cannot continue a conversation of %s; it gets the handoff context instead",
			target.Agent,
			v.last.Agent,
		)
	case v.onAnotherHost(v.last):
		return ops.ContextHandoff, fmt.Sprintf(
			"session %d ran on host %s, and conversations do not leave their host; %s gets the handoff context instead",
			v.last.ID,
			v.last.Owner,
			target.Tier,
		)
	case v.last.CLISessionID == "":
		return ops.ContextHandoff, fmt.Sprintf(
			"session %d told no conversation id, so %s gets the handoff context instead",
			v.last.ID,
			target.Tier,
		)
	case float64(use) > v.policy.ContextThreshold*float64(window):
		return ops.ContextHandoff, fmt.Sprintf(
			"the conversation holds %d of %d tokens (%.0f %%, the limit is %.0f %%), so %s gets the handoff context instead",
			use, window, 100*float64(use)/float64(window), 100*v.policy.ContextThreshold, target.Tier)
	}
	return ops.ContextResume, ""
}

// restartWithHandoff gives the tier its context in the other way: what the parent handed up holds the facts, so the parent need not
// run again.
func restartWithHandoff(v view) ops.Step {
	reason := fmt.Sprintf(
		"session %d could not continue the conversation (%s); %s starts again with the handoff context",
		v.last.ID,
		v.last.Error,
		v.last.Tier,
	)
	return ops.Step{
		Kind: ops.StepQueue, Reason: reason,
		Session: &ops.NewSession{
			ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier), Handler: v.worker(), ContextMode: ops.ContextHandoff,
		},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.EventContext, reason)},
	}
}

func askHuman(v view) ops.Step {
	why := summary(*v.last)
	if why == "" {
		why = "it did not say why"
	}
	reason := fmt.Sprintf("session %d (%s) asks for a human: %s", v.last.ID, v.last.Tier, why)
	p := problem{title: "Human attention required", level: ops.LevelWarning, reason: reason, todo: why}
	step := v.finishForHuman(ops.CycleNeedsHuman, p)
	return v.notifyOnce(step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, notice.NeedsHuman(v.told(p))))
}

func verify(v view) ops.Step {
	services := v.servicesToVerify()
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbeVerify, Target: v.last.ID, Services: services,
		Reason: fmt.Sprintf("session %d says all is well; probes check %s", v.last.ID, strings.Join(services, ", ")),
	}
}

func healthy(v view) ops.Step {
	step := v.finish(ops.CycleHealthy, "Tier 1 found nothing to escalate")
	if v.hasOpenIncident() {
		step.Recovered = v.foundHealthy()
	}
	return step
}

// foundHealthy closes the incidents of the services that the session checked and found well. One that does not say what it
// checked has looked at all of them.
func (v view) foundHealthy() []ops.Recovered {
	how := fmt.Sprintf("cycle %d found it healthy", v.cycle.ID)
	if v.last.Report == nil || len(v.last.Report.CheckResults) == 0 {
		return []ops.Recovered{{How: how}}
	}
	var well, bad []string
	for _, c := range v.last.Report.CheckResults {
		name, _ := v.policy.Inventory.Canonical(c.Service)
		if c.Status == ops.Healthy {
			well = append(well, name)
		} else {
			bad = append(bad, name)
		}
	}
	var out []ops.Recovered
	for _, name := range slices.Compact(slices.Sorted(slices.Values(well))) {
		if !slices.Contains(bad, name) {
			out = append(out, ops.Recovered{Service: name, How: how})
		}
	}
	return out
}

func resolved(v view) ops.Step {
	reason := fmt.Sprintf("%s reports the problem as resolved; unverified: no probe and no judge confirmed it", v.last.Tier)
	verdict, judged := v.verdict()
	verified := true
	switch n := len(v.checks(ops.ProbeVerify, v.last.ID)); {
	case n > 0:
		reason = fmt.Sprintf("%s repaired it; %s by our own probes", v.last.Tier, confirmed(n))
	case v.reviewed() && v.question().Status == ops.ApprovalApproved:
		reason = fmt.Sprintf("%s repaired it; %s accepted the repair", v.last.Tier, v.question().AnsweredBy)
	case judged && verdict.Verdict == judge.Pass:
		reason = fmt.Sprintf("%s repaired it; the judge accepts it with %d of 100", v.last.Tier, verdict.TotalScore)
	default:
		verified = false
	}
	step := v.finish(ops.CycleResolved, reason, v.event(ops.LevelInfo, ops.EventCycle, reason))
	step.Confirmed = &verified
	step.Recovered = v.recoveredServices(fmt.Sprintf("cycle %d: %s", v.cycle.ID, reason))
	if judged {
		step.Verified = v.verification(verdict)
	}
	return step
}

func confirmed(n int) string {
	if n == 1 {
		return "1 check confirmed"
	}
	return fmt.Sprintf("%d checks confirmed", n)
}

func (v view) finish(status ops.CycleStatus, reason string, events ...ops.Event) ops.Step {
	return ops.Step{Kind: ops.StepFinish, Status: status, Reason: reason, Events: events}
}

func (v view) event(level ops.Level, kind ops.EventKind, message string) ops.Event {
	e := ops.Event{
		At: v.now, CycleID: &v.cycle.ID, Environment: v.cycle.Environment,
		Level: level, Kind: kind, Message: message,
	}
	if v.newest != nil {
		e.SessionID = &v.newest.ID
	}
	return e
}

func (v view) notice(kind ops.NoticeKind, level ops.Level, text notice.Text) ops.Notice {
	return ops.Notice{
		CycleID: &v.cycle.ID, Kind: kind, Level: level, Title: text.Title, Body: text.Body,
		Status: ops.NoticePending, NextAt: v.now, CreatedAt: v.now,
	}
}
