package decide

import (
	"slices"
	"time"

	"claudeops/internal/ops"
)

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
func (v view) reflexive() bool {
	return v.newest == nil && v.cycle.Trigger != ops.TriggerManual && v.cycle.Trigger != ops.TriggerAPI && v.cycle.Trigger != ""
}

// reflexesOf are the reflexes of a service: the configured ones, then those that were earned.
func (v view) reflexesOf(service string) []ops.Reflex {
	out := slices.Clone(v.policy.Inventory.Reflexes(service))
	for _, r := range v.journal.Reflexes {
		if r.Service == service {
			out = append(out, r)
		}
	}
	return out
}

// impulse is the first reflex of a service that reacts to what a probe found last.
func (v view) impulse(service string) (impulse, bool) {
	for _, r := range v.reflexesOf(service) {
		for _, c := range v.latest() {
			if r.Reacts(c) && !v.muted(c) {
				return impulse{Reflex: r, due: v.badSince(c).Add(r.For), held: v.reflexHeld(r)}, true
			}
		}
	}
	return impulse{}, false
}

// muted: somebody wants no consequences of what this check finds, although another one of the service may have them.
func (v view) muted(c ops.Check) bool {
	return slices.ContainsFunc(v.journal.Silences, func(s ops.Silence) bool {
		return s.Active(v.now) && s.Covers(v.cycle.Environment, c.Service, v.group(c.Service), c.Probe)
	})
}

// badSince is the first failed check of what a check looks at.
func (v view) badSince(c ops.Check) time.Time {
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

// reflexHeld says why a reflex is not done, apart from what holds its service back.
func (v view) reflexHeld(r ops.Reflex) string {
	if v.policy.DryRun {
		return v.say(ops.Reason{Kind: ops.WhyReflexDryRun})
	}
	if _, why := v.reflexTrust(r.Service); why != "" {
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
	if q := v.reflexQuestion(r); q != nil && q.Status == ops.ApprovalExpired {
		return v.say(ops.Reason{Kind: ops.WhyReflexUnanswered})
	}
	if done := v.reflexed(r); len(done) >= r.Tries {
		return v.say(ops.Reason{Kind: ops.WhyReflexSpent, Reflex: r, Count: len(done), Lasts: v.now.Sub(done[0])})
	}
	return ""
}

// reflexTrust says whether the trust in a service wants a yes before each reflex, or none to be done.
func (v view) reflexTrust(service string) (ask bool, held string) {
	trust := v.policy.Trusts(service, v.journal.Lowered)
	if trust.Below(ops.TrustAsk) {
		held = v.say(ops.Reason{Kind: ops.WhyReflexTrust, Trust: trust})
	}
	return trust == ops.TrustAsk, held
}

// reflexAsks: a human must approve each run.
func (v view) reflexAsks(r ops.Reflex) bool {
	ask, _ := v.reflexTrust(r.Service)
	return ask || slices.ContainsFunc(r.Do, func(name string) bool {
		a, _ := v.policy.Inventory.Action(r.Service, name)
		return a.Approval
	})
}

// reflexed is when other cycles began the reflex, as far as that still counts.
func (v view) reflexed(r ops.Reflex) []time.Time {
	var out []time.Time
	for _, t := range v.journal.Reflexed {
		if t.Reflex == r.Key() && t.Step == 1 && t.Cycle != v.cycle.ID && v.now.Sub(t.At) < r.Per {
			out = append(out, t.At)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// reflexRuns are the actions of reflexes in this cycle.
func (v view) reflexRuns() []ops.ActionRun {
	return slices.DeleteFunc(slices.Clone(v.journal.Runs), func(r ops.ActionRun) bool { return r.Reflex == "" || r.UndoOf != 0 })
}

// reflexStep is the action of a reflex that is next, counted from 1; 0: none.
func (v view) reflexStep(r ops.Reflex) int {
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

// nextReflex is the reflex that is done next: one that is due, else the one that is due first, else nil.
func (v view) nextReflex() *impulse {
	if !v.reflexive() || len(v.journal.Reflexes) == 0 &&
		!slices.ContainsFunc(v.policy.Inventory.Services, func(s ops.Service) bool { return len(s.Reflexes) > 0 }) {
		return nil
	}
	var next *impulse
	for _, service := range v.unheld() {
		i, ok := v.impulse(service)
		if !ok || i.held != "" || v.reflexStep(i.Reflex) == 0 {
			continue
		}
		if next == nil || next.due.After(v.now) && i.due.Before(next.due) {
			next = &i
		}
	}
	return next
}

// unheld are the services of the chain that nothing holds back. A no to a tier is one to a reflex too; an attack is of agents.
func (v view) unheld() []string {
	return ops.Free(v.services(), v.unattacked(), ops.LastTier)
}

// dueReflex is the reflex whose time has come, or nil.
func (v view) dueReflex() *impulse {
	if n := v.nextReflex(); n != nil && !n.due.After(v.now) {
		return n
	}
	return nil
}

func (v view) reflexStarted() *ops.ActionRun {
	for _, r := range v.reflexRuns() {
		if r.Status == ops.ActionStarted {
			return &r
		}
	}
	return nil
}

// reflexInFlight: whoever asks runs nothing yet, so a started action belongs to a worker that died.
func (v view) reflexInFlight() bool { return v.newest == nil && v.reflexStarted() != nil }

func interruptReflex(v view) ops.Step {
	r := v.reflexStarted()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexInterrupted, Run: r})
	return ops.Step{
		Kind: ops.StepAct, Reason: reason, Act: &ops.PlannedAct{Interrupt: r.ID},
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbActionInterrupted, reason)},
	}
}

// reflexQuestion is the question whether a reflex may be done, or nil.
func (v view) reflexQuestion(r ops.Reflex) *ops.Approval {
	for i := range v.journal.Approvals {
		if q := &v.journal.Approvals[i]; q.Kind == ops.ApprovalReflex && q.Handler == r.Words() {
			return q
		}
	}
	return nil
}

// reflexWithdrawn: the problem ended before the reflex was done. One that was done gets the credit, whoever closed the incident first.
func (v view) reflexWithdrawn() bool { return v.newest == nil && v.problemOver() && !v.reflexRan() }
func (v view) reflexAsked() bool     { return v.newest == nil && v.asking() }
func (v view) reflexDenied() bool    { return v.newest == nil && v.denied() }

func awaitReflex(v view) ops.Step {
	return ops.Step{Kind: ops.StepAwait, Reason: v.say(ops.Reason{Kind: ops.WhyNotAnswered}), Until: v.expiry()}
}

// reflexStale: the last look is from before the reflex was due, from before the cycle had its slot, when another one may have done the
// same, or too old. So it may not be needed any more.
func (v view) reflexStale() bool {
	n := v.dueReflex()
	if n == nil || v.reflexStep(n.Reflex) > 1 {
		return false
	}
	from := n.due
	if at := v.cycle.StartedAt; at != nil && at.After(from) {
		from = *at
	}
	if q := v.reflexQuestion(n.Reflex); q != nil && q.AnsweredAt != nil && q.AnsweredAt.After(from) {
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

func (v view) reflexUnasked() bool {
	n := v.dueReflex()
	return n != nil && v.reflexAsks(n.Reflex) && v.reflexQuestion(n.Reflex) == nil
}

// askReflex waits for a yes. Silence is none.
func askReflex(v view) ops.Step {
	n := v.dueReflex()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexAsks, Reflex: n.Reflex, Rest: v.reflexDoes(n.Reflex)})
	report := v.reflexIncident(n.Service, v.say(ops.Reason{Kind: ops.TodoReflexAnswer, Reflex: n.Reflex}))
	report.Waits, report.Reflex = true, true
	tier := ops.Tier2
	for _, name := range n.Do {
		a, _ := v.policy.Inventory.Action(n.Service, name)
		tier = max(tier, a.Tier)
	}
	question := v.newQuestion(ops.ApprovalReflex, ops.Handler{ID: n.Words(), Tier: tier}, reason)
	question.Facts = v.wrongWith(n.Service)
	told := v.toldOf(ops.MessageReflex, reason)
	told.Services, told.Reflex, told.Expires, told.Now = []string{n.Service}, n.Reflex, v.expires(), v.now
	return ops.Step{
		Kind: ops.StepAwait, Reason: reason, Incident: &report, Approval: question, Until: v.expires(),
		Events:  []ops.Event{v.event(ops.LevelWarning, ops.VerbApprovalAsked, reason)},
		Notices: []ops.Notice{v.notice(ops.NoticeApproval, ops.LevelCritical, told)},
	}
}

// reflexDoes lists what the actions of a reflex run.
func (v view) reflexDoes(r ops.Reflex) []string {
	var out []string
	for _, name := range r.Do {
		a, _ := v.policy.Inventory.Action(r.Service, name)
		out = append(out, a.Does())
	}
	return out
}

// reflexIncident is the incident of an outage for which a reflex is done. It is there so that a repair that does not hold is noticed.
func (v view) reflexIncident(service, todo string) ops.IncidentReport {
	r := ops.IncidentReport{
		Title: v.say(ops.Reason{Kind: ops.HeadProblem, Problem: ops.ProblemHandled}), Level: ops.LevelWarning,
		Class: string(ops.Down), Services: []string{service}, Checks: v.badChecks([]string{service}), Recommendation: todo,
	}
	r.Titles = titles(r)
	return r
}

func (v view) reflexDue() bool { return v.dueReflex() != nil }

func runReflex(v view) ops.Step {
	n := v.dueReflex()
	r, step := n.Reflex, v.reflexStep(n.Reflex)
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
		report := v.reflexIncident(r.Service, v.say(ops.Reason{Kind: ops.TodoReflexWorks}))
		report.Handled = true
		out.Incident = &report
	}
	return out
}

// reflexRan: a reflex was begun, and none is due any more.
func (v view) reflexRan() bool {
	return v.newest == nil && slices.ContainsFunc(v.reflexRuns(), func(r ops.ActionRun) bool { return r.Status != ops.ActionRefused })
}

// reflexChecks are what probes found since the last action of a reflex ended.
func (v view) reflexChecks() []ops.Check {
	runs := v.reflexRuns()
	return slices.DeleteFunc(v.checks(ops.ProbeReflex, 0), func(c ops.Check) bool {
		return slices.ContainsFunc(runs, func(r ops.ActionRun) bool { return r.EndedAt != nil && c.At.Before(*r.EndedAt) })
	})
}

func (v view) reflexUnverified() bool {
	return v.reflexRan() && len(v.verifiable()) > 0 && len(v.reflexChecks()) == 0
}

func verifyReflex(v view) ops.Step {
	services := v.verifiable()
	reason := v.say(ops.Reason{Kind: ops.WhyReflexVerifies, Services: services})
	return ops.Step{Kind: ops.StepProbe, Purpose: ops.ProbeReflex, Services: services, Reason: reason}
}

// reflexHelped: probes prove it of every service of the cycle. A dependent of what was repaired may still need its time to follow.
func (v view) reflexHelped() bool {
	checks := v.reflexChecks()
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
	return !slices.ContainsFunc(v.services(), func(s string) bool { return !v.proven(s, ops.ProbeReflex) && !followers[s] })
}

func reflexResolved(v view) ops.Step {
	why, proof := ops.Reason{Kind: ops.WhyRecoveredBesideReflex, Count: len(v.reflexChecks())}, ops.ProofProbe
	for _, r := range v.reflexRuns() {
		why.Rest = append(why.Rest, r.Action+" of "+r.Service)
		if r.Status == ops.ActionDone || r.Status == ops.ActionInterrupted {
			why.Kind, proof = ops.WhyRepairedByReflex, ops.ProofReflex
		}
	}
	reason := v.say(why)
	step := finishResolved(proof, reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
	step.Recovered = v.repaired(ops.ProbeReflex, proof, v.inCycle(reason))
	return step
}

// reflexNotNeeded: while a reflex waited, all became well again.
func (v view) reflexNotNeeded() bool {
	return v.newest == nil && len(v.reflexRuns()) == 0 && len(v.checks(ops.ProbeRecheck, 0)) > 0 && v.allProven(ops.ProbeRecheck)
}

// reflexEarly: a reflex is not due yet, and no other service needs an agent meanwhile.
func (v view) reflexEarly() bool {
	return v.nextReflex() != nil && !slices.ContainsFunc(v.unheld(), func(s string) bool {
		i, ok := v.impulse(s)
		waits := ok && i.held == "" && v.reflexStep(i.Reflex) > 0
		return !waits && !slices.ContainsFunc(v.reflexRuns(), func(r ops.ActionRun) bool { return r.Service == s && r.Status == ops.ActionDone })
	})
}

func waitForReflex(v view) ops.Step {
	n := v.nextReflex()
	return pauseUntil(v, n.due, ops.Reason{Kind: ops.WhyReflexWaits, Reflex: n.Reflex, At: n.due})
}

// leaveReflex switches earned reflexes off that did not help, where an agent takes over or the cycle ends. Where nothing has looked since,
// for example because somebody cancelled the cycle, nobody knows.
func leaveReflex(v view, step ops.Step) ops.Step {
	if v.newest != nil || step.ConfirmedBy == ops.ProofReflex || step.Kind != ops.StepFinish && step.Kind != ops.StepQueue ||
		step.Kind == ops.StepFinish && v.reflexUnverified() {
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

// reflexStory says what reflexes did in this cycle, and why those that react to what is wrong were not done.
func (v view) reflexStory() []string {
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
func (b Brief) Reflexes() []string { return b.v.reflexStory() }
