package decide

import (
	"slices"
	"time"

	"claudeops/internal/ops"
)

// reflexes are what the supervisor does by itself before the first agent.
type reflexes struct{ view }

// Reflexes: what the supervisor does about a failing probe before the first agent of a cycle starts. There is one try for each service in
// a cycle; if it does not help, Tier 1 starts and is told of it.

// reflexFresh is how old the result may be that a reflex acts upon.
const reflexFresh = time.Minute

// impulse is a reflex for which a probe of its service gives reason.
type impulse struct {
	ops.Reflex
	due  time.Time
	held string // why it is not done; empty: it may be
}

// reflexive: no agent has started, and the cycle was not started by a person, who wants an agent to look.
func (v reflexes) reflexive() bool {
	return v.newest == nil && v.cycle.Trigger != ops.TriggerManual && v.cycle.Trigger != ops.TriggerAPI && v.cycle.Trigger != ""
}

// of are the reflexes of a service: the configured ones, then those that were earned.
func (v reflexes) of(service string) []ops.Reflex {
	out := slices.Clone(v.policy.Inventory.Reflexes(service))
	for _, r := range v.journal.Reflexes {
		if r.Service == service {
			out = append(out, r)
		}
	}
	return out
}

// impulse is the first reflex of a service that reacts to what a probe found last.
func (v reflexes) impulse(service string) (impulse, bool) {
	for _, r := range v.of(service) {
		for _, c := range v.latest() {
			if r.Reacts(c) && !v.muted(c) {
				return impulse{Reflex: r, due: v.badSince(c).Add(r.For), held: v.heldBack(r)}, true
			}
		}
	}
	return impulse{}, false
}

// muted: somebody wants no consequences of what this check finds, although another one of the service may have them.
func (v reflexes) muted(c ops.Check) bool {
	return slices.ContainsFunc(v.journal.Silences, func(s ops.Silence) bool {
		return s.Active(v.now) && s.Covers(v.cycle.Environment, c.Service, v.group(c.Service), c.Probe)
	})
}

// badSince is the first failed check of what a check looks at.
func (v reflexes) badSince(c ops.Check) time.Time {
	since, well := time.Time{}, false
	for _, k := range v.journal.Checks {
		switch {
		case k.Service != c.Service || k.Probe != c.Probe:
		case !k.Bad():
			since, well = time.Time{}, true
		case since.IsZero():
			since = k.At
		}
	}
	for _, f := range v.journal.Failing {
		if f.Service == c.Service && f.Probe == c.Probe && !well && f.Since.Before(since) {
			since = f.Since
		}
	}
	return since
}

// heldBack says why a reflex is not done, apart from what holds its service back.
func (v reflexes) heldBack(r ops.Reflex) string {
	if v.policy.DryRun {
		return v.say(ops.Reason{Kind: ops.WhyReflexDryRun})
	}
	if _, why := v.trusts(r.Service); why != "" {
		return why
	}
	for i, name := range r.Do {
		a, known := v.policy.Inventory.Action(r.Service, name)
		switch {
		case !known:
			return v.say(ops.Reason{Kind: ops.WhyReflexUnknown, Reflex: r, Text: name})
		case a.Tier > v.policy.MaxTier:
			return v.say(ops.Reason{Kind: ops.WhyReflexTooHigh, Text: name, Tier: a.Tier, MaxTier: v.policy.MaxTier})
		case r.ID != 0 && (i >= len(r.Digests) || r.Digests[i] != a.Digest()):
			return v.say(ops.Reason{Kind: ops.WhyReflexChanged, Text: name})
		}
	}
	if q := v.answerTo(r); q != nil && q.Status == ops.ApprovalExpired {
		return v.say(ops.Reason{Kind: ops.WhyReflexUnanswered})
	}
	if done := v.begun(r); len(done) >= r.Tries {
		return v.say(ops.Reason{Kind: ops.WhyReflexSpent, Reflex: r, Count: len(done), Lasts: v.now.Sub(done[0])})
	}
	return ""
}

// trusts says whether the trust in a service wants a yes before each reflex, or none to be done.
func (v reflexes) trusts(service string) (ask bool, held string) {
	trust := v.policy.Trusts(service, v.journal.Lowered)
	if trust.Below(ops.TrustAsk) {
		held = v.say(ops.Reason{Kind: ops.WhyReflexTrust, Trust: trust})
	}
	return trust == ops.TrustAsk, held
}

// asks: a human must approve each run.
func (v reflexes) asks(r ops.Reflex) bool {
	ask, _ := v.trusts(r.Service)
	return ask || slices.ContainsFunc(r.Do, func(name string) bool {
		a, _ := v.policy.Inventory.Action(r.Service, name)
		return a.Approval
	})
}

// begun is when other cycles began the reflex, as far as that still counts.
func (v reflexes) begun(r ops.Reflex) []time.Time {
	var out []time.Time
	for _, t := range v.journal.Reflexed {
		if t.Reflex == r.Key() && t.Step == 1 && t.Cycle != v.cycle.ID && v.now.Sub(t.At) < r.Per {
			out = append(out, t.At)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// step is the action of a reflex that is next, counted from 1; 0: none.
func (v reflexes) step(r ops.Reflex) int {
	n := 1
	for _, run := range v.reflexRuns() {
		switch {
		case run.Service != r.Service:
		case run.Reflex != r.Key() || run.Status != ops.ActionDone:
			return 0
		default:
			n++
		}
	}
	if n > len(r.Do) {
		return 0
	}
	return n
}

// next is the reflex that is done next: one that is due, else the one that is due first, else nil.
func (v reflexes) next() *impulse {
	if !v.reflexive() || len(v.journal.Reflexes) == 0 &&
		!slices.ContainsFunc(v.policy.Inventory.Services, func(s ops.Service) bool { return len(s.Reflexes) > 0 }) {
		return nil
	}
	var next *impulse
	for _, service := range v.unheld() {
		i, ok := v.impulse(service)
		if !ok || i.held != "" || v.step(i.Reflex) == 0 {
			continue
		}
		if next == nil || next.due.After(v.now) && i.due.Before(next.due) {
			next = &i
		}
	}
	return next
}

// dueNow is the reflex whose time has come, or nil.
func (v reflexes) dueNow() *impulse {
	if n := v.next(); n != nil && !n.due.After(v.now) {
		return n
	}
	return nil
}

func (v reflexes) started() *ops.ActionRun {
	for _, r := range v.reflexRuns() {
		if r.Status == ops.ActionStarted {
			return &r
		}
	}
	return nil
}

// inFlight: whoever asks runs nothing yet, so a started action belongs to a worker that died.
func (v reflexes) inFlight() bool { return v.newest == nil && v.started() != nil }

func interruptReflex(v view) ops.Step {
	r := v.reflexes().started()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexInterrupted, Run: r})
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Interrupt: r.ID},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbActionInterrupted, reason)},
	}
}

// answerTo is the question whether a reflex may be done, or nil.
func (v reflexes) answerTo(r ops.Reflex) *ops.Approval {
	for i := range v.journal.Approvals {
		if q := &v.journal.Approvals[i]; q.Kind == ops.ApprovalReflex && q.Handler == r.Words() {
			return q
		}
	}
	return nil
}

// withdrawn: the problem ended before the reflex was done. One that was done gets the credit, whoever closed the incident first.
func (v reflexes) withdrawn() bool { return v.newest == nil && v.problemOver() && !v.reflexRan() }
func (v reflexes) wait() bool      { return v.newest == nil && v.asking() }
func (v reflexes) refused() bool   { return v.newest == nil && v.denied() }

func awaitReflex(v view) ops.Step {
	return ops.Step{Kind: ops.StepAwait, Reason: v.say(ops.Reason{Kind: ops.WhyNotAnswered}), Until: v.expiry()}
}

// stale: the last look is from before the reflex was due, from before the cycle had its slot, when another one may have done the
// same, or too old. So it may not be needed any more.
func (v reflexes) stale() bool {
	n := v.dueNow()
	if n == nil || v.step(n.Reflex) > 1 {
		return false
	}
	from := n.due
	if at := v.cycle.StartedAt; at != nil && at.After(from) {
		from = *at
	}
	if q := v.answerTo(n.Reflex); q != nil && q.AnsweredAt != nil && q.AnsweredAt.After(from) {
		from = *q.AnsweredAt
	}
	return !slices.ContainsFunc(v.journal.Checks, func(c ops.Check) bool {
		return c.Service == n.Service && !c.At.Before(from) && (c.Purpose == ops.ProbeRecheck || v.now.Sub(c.At) <= reflexFresh)
	})
}

func lookBeforeReflex(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyLooksAgain})
	return ops.Step{Kind: ops.StepProbe, Purpose: ops.ProbeRecheck, Services: v.verifiable(), Reason: reason}
}

func (v reflexes) unasked() bool {
	n := v.dueNow()
	return n != nil && v.asks(n.Reflex) && v.answerTo(n.Reflex) == nil
}

// askReflex waits for a yes. Silence is none.
func askReflex(v view) ops.Step {
	n := v.reflexes().dueNow()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexAsks, Reflex: n.Reflex, Rest: v.reflexes().does(n.Reflex)})
	report := v.reflexes().incident(n.Service, v.say(ops.Reason{Kind: ops.TodoReflexAnswer, Reflex: n.Reflex}))
	report.Waits, report.Reflex = true, true
	tier := ops.Tier2
	for _, name := range n.Do {
		a, _ := v.policy.Inventory.Action(n.Service, name)
		tier = max(tier, a.Tier)
	}
	question := v.human().newQuestion(ops.ApprovalReflex, ops.Handler{ID: n.Words(), Tier: tier}, reason)
	question.Facts = v.wrongWith(n.Service)
	told := v.human().toldOf(ops.MessageReflex, reason)
	told.Services, told.Reflex, told.Expires, told.Now = []string{n.Service}, n.Reflex, v.expires(), v.now
	return ops.Step{
		Kind: ops.StepAwait, Reason: reason, Incident: &report, Approval: question, Until: v.expires(),
		Events:  []ops.Event{v.event(ops.LevelWarning, ops.VerbApprovalAsked, reason)},
		Notices: []ops.Notice{v.notice(ops.NoticeApproval, ops.LevelCritical, told)},
	}
}

// does lists what the actions of a reflex run.
func (v reflexes) does(r ops.Reflex) []string {
	var out []string
	for _, name := range r.Do {
		a, _ := v.policy.Inventory.Action(r.Service, name)
		out = append(out, a.Does())
	}
	return out
}

// incident is the incident of an outage for which a reflex is done. It is there so that a repair that does not hold is noticed.
func (v reflexes) incident(service, todo string) ops.IncidentReport {
	r := ops.IncidentReport{
		Title: v.say(ops.Reason{Kind: ops.HeadProblem, Problem: ops.ProblemHandled}), Level: ops.LevelWarning,
		Class: string(ops.Down), Services: []string{service}, Checks: v.badChecks([]string{service}), Recommendation: todo,
	}
	r.Titles = titles(r)
	return r
}

func (v reflexes) due() bool { return v.dueNow() != nil }

func runReflex(v view) ops.Step {
	n := v.reflexes().dueNow()
	r, step := n.Reflex, v.reflexes().step(n.Reflex)
	r.Digests = nil
	for _, name := range r.Do {
		a, _ := v.policy.Inventory.Action(r.Service, name)
		r.Digests = append(r.Digests, a.Digest()) // exactly this is run, or nothing
	}
	reason := v.say(ops.Reason{Kind: ops.WhyReflexStep, Reflex: r, Step: step})
	out := ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Reflex: &r, Step: step},
		Events: []ops.Event{v.event(ops.LevelInfo, ops.VerbActionStarted, reason)},
	}
	if step == 1 {
		report := v.reflexes().incident(r.Service, v.say(ops.Reason{Kind: ops.TodoReflexWorks}))
		report.Handled = true
		out.Incident = &report
	}
	return out
}

// checksSince are what probes found since the last action of a reflex ended.
func (v reflexes) checksSince() []ops.Check {
	runs := v.reflexRuns()
	return slices.DeleteFunc(v.checks(ops.ProbeReflex, 0), func(c ops.Check) bool {
		return slices.ContainsFunc(runs, func(r ops.ActionRun) bool { return r.EndedAt != nil && c.At.Before(*r.EndedAt) })
	})
}

func (v reflexes) unverified() bool {
	return v.reflexRan() && len(v.verifiable()) > 0 && len(v.checksSince()) == 0
}

func verifyReflex(v view) ops.Step {
	services := v.verifiable()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexVerifies, Services: services})
	return ops.Step{Kind: ops.StepProbe, Purpose: ops.ProbeReflex, Services: services, Reason: reason}
}

// helped: probes prove it of every service of the cycle. A dependent of what was repaired may still need its time to follow.
func (v reflexes) helped() bool {
	checks := v.checksSince()
	bad := slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Status != ops.Healthy })
	if !v.reflexRan() || len(checks) == 0 || bad || !v.allProbed() {
		return false
	}
	followers := map[string]bool{}
	for _, r := range v.reflexRuns() {
		for _, name := range v.policy.Inventory.Dependents(r.Service) {
			followers[name] = !slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Service == name })
		}
	}
	return !slices.ContainsFunc(v.services(), func(s string) bool { return !v.proof().proven(s, ops.ProbeReflex) && !followers[s] })
}

func reflexResolved(v view) ops.Step {
	why, proof := ops.Reason{Kind: ops.WhyRecoveredBesideReflex, Count: len(v.reflexes().checksSince())}, ops.ProofProbe
	for _, r := range v.reflexRuns() {
		why.Rest = append(why.Rest, r.Action+" of "+r.Service)
		if r.Status == ops.ActionDone || r.Status == ops.ActionInterrupted {
			why.Kind, proof = ops.WhyRepairedByReflex, ops.ProofReflex
		}
	}
	reason := v.say(why)
	step := finishResolved(proof, reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
	step.Recovered = v.proof().repaired(ops.ProbeReflex, proof, v.inCycle(reason))
	return step
}

// notNeeded: while a reflex waited, all became well again.
func (v reflexes) notNeeded() bool {
	return v.newest == nil && len(v.reflexRuns()) == 0 && len(v.checks(ops.ProbeRecheck, 0)) > 0 && v.proof().allProven(ops.ProbeRecheck)
}

// early: a reflex is not due yet, and no other service needs an agent meanwhile.
func (v reflexes) early() bool {
	return v.next() != nil && !slices.ContainsFunc(v.unheld(), func(s string) bool {
		i, ok := v.impulse(s)
		waits := ok && i.held == "" && v.step(i.Reflex) > 0
		return !waits && !slices.ContainsFunc(v.reflexRuns(), func(r ops.ActionRun) bool { return r.Service == s && r.Status == ops.ActionDone })
	})
}

func waitForReflex(v view) ops.Step {
	n := v.reflexes().next()
	return pauseUntil(v, n.due, ops.Reason{Kind: ops.WhyReflexWaits, Reflex: n.Reflex, At: n.due})
}

// leaveReflex switches earned reflexes off that did not help, where an agent takes over or the cycle ends. Where nothing has looked since,
// for example because somebody cancelled the cycle, nobody knows.
func leaveReflex(v view, step ops.Step) ops.Step {
	if v.newest != nil || step.ConfirmedBy == ops.ProofReflex || step.Kind != ops.StepFinish && step.Kind != ops.StepQueue ||
		step.Kind == ops.StepFinish && v.reflexes().unverified() {
		return step
	}
	for _, r := range v.journal.Reflexes {
		tried := func(run ops.ActionRun) bool { return run.Reflex == r.Key() && run.Status != ops.ActionRefused }
		if !slices.ContainsFunc(v.reflexRuns(), tried) {
			continue
		}
		why := v.say(ops.Reason{Kind: ops.WhyReflexFailed, Reflex: r, Cycle: v.cycle.ID})
		step.ReflexOff = append(step.ReflexOff, ops.ReflexOff{ID: r.ID, Why: why})
		e := v.event(ops.LevelWarning, ops.VerbReflexFailed, why)
		e.Service = r.Service
		step.Events = append(step.Events, e)
	}
	return step
}

// story says what reflexes did in this cycle, and why those that react to what is wrong were not done.
func (v reflexes) story() []string {
	var out []string
	for _, r := range v.reflexRuns() {
		out = append(out, v.say(ops.Reason{Kind: ops.WhyReflexDid, Run: &r}))
	}
	for _, service := range v.services() {
		if i, ok := v.impulse(service); ok && i.held != "" {
			out = append(out, v.say(ops.Reason{Kind: ops.WhyReflexNotDone, Reflex: i.Reflex, Text: i.held}))
		}
	}
	return out
}

// Reflexes are what the supervisor did about the problem before an agent started, one line each, or why it did not.
func (b Brief) Reflexes() []string { return b.v.reflexes().story() }
