package decide

import (
	"cmp"
	"slices"
	"strings"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// human is what people have to know and to do.
type human struct{ view }

// problem is what a human has to know and do about the work of the last session.
type problem struct {
	kind   ops.ProblemKind
	target ops.Handler // who was to start, or works on it
	level  ops.Level
	reason string       // what the supervisor decided, and by which rule
	todo   string       // what the human should do
	facts  *ops.Handoff // what the agent handed up; nil: what its report says
	budget *ops.Budget  // the one that is spent, where that is the problem
}

// problem is a problem that no decision led to.
func (v human) problem(kind ops.ProblemKind, level ops.Level, reason string) problem {
	todo := v.say(ops.Reason{Kind: ops.TodoProblem, Problem: kind, Services: v.services()})
	return problem{kind: kind, level: level, reason: reason, todo: todo}
}

// problemOf is a problem that a decision led to.
func (v human) problemOf(kind ops.ProblemKind, level ops.Level, d ops.Decision, h *ops.Handoff) problem {
	target, _ := v.policy.Handler(d.TargetHandler)
	return problem{kind: kind, target: target, level: level, reason: d.Reason, todo: v.advice(d), facts: h}
}

// finishForHuman ends a cycle that a human has to finish.
func finishForHuman(v view, status ops.CycleStatus, p problem) ops.Step {
	verb := ops.VerbCycleHandedOver
	if v.last != nil && v.last.Proposed() {
		verb = ops.VerbEscalationHuman // it is what became of a proposal
	}
	step := finish(status, p.reason, v.event(p.level, verb, p.reason))
	report := v.human().report(p)
	step.Incident = &report
	return step
}

// report is what the incident says.
func (v human) report(p problem) ops.IncidentReport {
	r := ops.IncidentReport{
		Title: v.say(ops.Reason{Kind: ops.HeadProblem, Problem: p.kind, Handler: p.target}), Level: p.level,
		Class: string(ops.Down), CostUSD: v.chainUSD(),
		Recommendation: p.todo, Reason: v.handoffReason(p.facts),
	}
	if p.budget != nil {
		r.Title = p.budget.Heading()
	}
	if h := p.facts; h != nil {
		r.Services, r.Checks = h.ServicesAffected, h.CheckResults
		r.Findings, r.Tried = h.InvestigationFindings, h.RemediationAttempted
	} else {
		r.Services = v.services()
		r.Checks = v.badChecks(r.Services)
		if p.kind != ops.ProblemAttack && !v.proof().isRefuted(*v.last) { // what does not hold was not found
			r.Findings = summary(*v.last)
		}
	}
	if p.kind == ops.ProblemHuman && p.facts == nil {
		r.Services, r.Unlisted = v.listed(r.Services)
		r.Checks = append(r.Checks, v.last.Reported()...)
	}
	if len(r.Services) == 0 {
		r.Class = classOf(p.kind)
	}
	r.Titles = titles(r)
	r.Found = v.findings(p.kind, r)
	return r
}

// findings are what a human is called for, piece by piece: what our own probes and looks saw, and what an agent that asks for a human saw
// beside it. The state of a service that a probe saw fail is the probe's to judge, whatever an agent calls it.
func (v human) findings(kind ops.ProblemKind, r ops.IncidentReport) []ops.IncidentFinding {
	var out []ops.IncidentFinding
	add := func(by ops.FindingKind, service string, t ops.CheckType, status ops.Health, problem string) {
		what := ops.CheckResult{Service: service, CheckType: t, Status: status, Error: problem}.Title()
		if !slices.Contains(r.Services, service) {
			service = "" // it belongs to the incident of what no inventory lists
		}
		out = append(out, ops.IncidentFinding{Service: service, By: by, Type: t, What: what})
	}
	seen := map[string]bool{}
	for _, c := range v.latest() {
		if slices.Contains(r.Services, c.Service) && c.Bad() {
			seen[c.Service], seen[c.Service+"/"+string(c.Type)] = true, true
			add(ops.FoundByProbe, c.Service, c.Type, c.Status, c.Error)
		}
	}
	for _, c := range v.notRunning() {
		if slices.Contains(r.Services, c.Service) {
			add(ops.FoundByLook, c.Service, c.Type, c.Status, c.Error)
		}
	}
	if kind != ops.ProblemHuman && kind != ops.ProblemTakeOver {
		return out
	}
	for _, c := range r.Checks {
		subsumed := seen[c.Service] && (c.CheckType != ops.CheckService || seen[c.Service+"/"+string(c.CheckType)])
		if c.Status != ops.Healthy && !subsumed {
			add(ops.FoundByAgent, c.Service, c.CheckType, c.Status, c.Error)
		}
	}
	return out
}

// listed divides names into those of the inventory and others. Where there is no inventory, every name counts.
func (v human) listed(names []string) (known, others []string) {
	if len(v.policy.Inventory.Services) == 0 {
		return names, nil
	}
	for _, name := range names {
		if _, ok := v.policy.Inventory.Canonical(name); ok {
			known = append(known, name)
		} else {
			others = append(others, name)
		}
	}
	return known, others
}

// asksAbout lists what a session that asks for a human found not healthy.
func asksAbout(s ops.Session) []string {
	if s.Outcome != ops.OutcomeNeedsHuman {
		return nil
	}
	var out []string
	for _, c := range s.Reported() {
		if c.Status != ops.Healthy {
			out = append(out, c.Service)
		}
	}
	return out
}

// classOf is the class of a problem that names no service: of the agent itself where it did not finish or could not be paid, else of the
// environment. A call for help is never over because the agent works again.
func classOf(kind ops.ProblemKind) string {
	return cmp.Or(map[ops.ProblemKind]string{
		ops.ProblemUnfinished: ops.ClassAgent, ops.ProblemUnpaid: ops.ClassAgent, ops.ProblemBudget: ops.ClassAgent,
		ops.ProblemJudge: ops.ClassJudge,
	}[kind], ops.ClassEnvironment)
}

// titles name the problem of each service by what its failing check says.
func titles(r ops.IncidentReport) map[string]string {
	out := map[string]string{}
	for _, c := range r.Checks {
		if c.Status == ops.Healthy || out[c.Service] != "" || !slices.Contains(r.Services, c.Service) {
			continue
		}
		out[c.Service] = c.Title()
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// handled is the incident of an outage that a tier takes over: it is open while the outage lasts, and calls nobody.
func (v human) handled(target ops.Handler, h *ops.Handoff) *ops.IncidentReport {
	todo := v.say(ops.Reason{Kind: ops.TodoProblem, Problem: ops.ProblemHandled, Handler: target})
	r := v.report(problem{kind: ops.ProblemHandled, target: target, level: ops.LevelWarning, facts: h, todo: todo})
	if len(r.Services) == 0 {
		return nil
	}
	r.Handled = true
	return &r
}

// handoffReason is why help is asked for, in the agent's words or in ours.
func (v human) handoffReason(h *ops.Handoff) string {
	if h == nil {
		return ""
	}
	var own *ops.Handoff
	if v.last != nil {
		own = proposed(*v.last)
	}
	if own != nil && own.Reason == h.Reason && strings.TrimSpace(h.Reason) != "" {
		return ops.Said("agent", h.Reason)
	}
	return h.Why()
}

// told is what people are told of a problem. The notice alone is enough to start from: what is wrong, what to do, what is known.
func (v human) told(kind ops.MessageKind, p problem) ops.Message {
	r := v.report(p)
	out := ops.Message{
		Kind: kind, Services: slices.Concat(r.Services, r.Unlisted), Todo: p.todo, Found: r.Findings, Tried: r.Tried,
		Why: p.reason, CostUSD: v.chainUSD(), Environment: v.cycle.Environment, Cycle: v.cycle.ID,
	}
	if p.budget != nil {
		out.Budget = *p.budget
	}
	if v.last != nil {
		out.Confidence = v.last.Confidence()
	}
	out.What = r.Reason
	for _, c := range r.Checks {
		if c.Status != ops.Healthy && out.What == "" && slices.Contains(r.Services, c.Service) {
			out.What = c.Error
		}
	}
	if out.What == "" {
		out.What = p.reason
	}
	return out
}

// advice is what a human should do about a decision that ended or stopped the chain.
func (v human) advice(d ops.Decision) string {
	services := d.Services
	if len(services) == 0 {
		services = v.services()
	}
	return v.say(ops.Reason{Kind: ops.TodoDecision, Decision: d, Services: services, MaxTier: v.policy.MaxTier})
}

// handOver ends a cycle that a human has to finish, and tells people once.
func handOver(v view, status ops.CycleStatus, p problem, kind ops.NoticeKind, message ops.MessageKind) ops.Step {
	return notifyOnce(v, finishForHuman(v, status, p), v.notice(kind, p.level, v.human().told(message, p)))
}

// notifyOnce adds a notice unless people know about the problem already: what is open is reminded of, not repeated.
func notifyOnce(v view, step ops.Step, n ops.Notice) ops.Step {
	if !v.human().known(step.Incident) {
		step.Notices = append(step.Notices, n)
	}
	return step
}

func (v human) known(r *ops.IncidentReport) bool {
	if r == nil {
		return false
	}
	open := func(service, class string) bool {
		return slices.ContainsFunc(v.journal.Incidents, func(i ops.Incident) bool {
			return i.ResolvedAt == nil && i.UnverifiedAt == nil && i.CalledAt != nil && i.Service == service && i.Class == class &&
				i.LastCycle != v.cycle.ID && (r.DryRun || !saidInDryRun(i))
		})
	}
	if len(r.Services) == 0 {
		// What no service is named for may be something else each time, unless it is the agent itself.
		return r.Class != ops.ClassEnvironment && open("", r.Class)
	}
	return len(r.Unlisted) == 0 && !slices.ContainsFunc(r.Services, func(service string) bool {
		name, _ := v.policy.Inventory.Canonical(service)
		return !open(name, r.Class)
	})
}

// Troubles returns the services that a session reported as not healthy, the affected ones first. Only a validated report counts, and
// a session that calls everything healthy reports none.
func Troubles(s ops.Session) []ops.Trouble {
	if !s.Works() || s.Status != ops.SessionCompleted {
		return nil
	}
	var affected []string
	var results []ops.CheckResult
	switch {
	case s.Outcome == ops.OutcomeHealthy, s.Outcome == ops.OutcomeResolved, s.Outcome == ops.OutcomeInconclusive:
		return nil
	case s.Proposal != nil && s.Proposal.Handoff != nil:
		affected, results = s.Proposal.Handoff.ServicesAffected, s.Proposal.Handoff.CheckResults
	case s.Report != nil:
		results = s.Report.CheckResults
	}
	var out []ops.Trouble
	for _, name := range affected {
		found := ops.Trouble{Service: name}
		if i := slices.IndexFunc(results, func(r ops.CheckResult) bool { return r.Service == name && r.Status != ops.Healthy }); i >= 0 {
			found.Status, found.Error = results[i].Status, results[i].Error
		}
		out = append(out, found)
	}
	for _, r := range results {
		if r.Status != ops.Healthy && !slices.Contains(affected, r.Service) {
			out = append(out, ops.Trouble{Service: r.Service, Status: r.Status, Error: r.Error})
		}
	}
	return out
}

func (v human) newQuestion(kind ops.ApprovalKind, target ops.Handler, why string) *ops.Approval {
	a := &ops.Approval{
		CycleID: v.cycle.ID, SessionID: v.lastID(), Environment: v.cycle.Environment, Kind: kind,
		Tier: target.Tier, Handler: target.ID, Status: ops.ApprovalPending, Reason: why, RequestedAt: v.now,
	}
	if at := v.expires(); !at.IsZero() {
		a.ExpiresAt = &at
	}
	return a
}

// toldOf is what people are told where only a reason is known.
func (v human) toldOf(kind ops.MessageKind, reason string) ops.Message {
	return ops.Message{Kind: kind, What: reason, CostUSD: v.chainUSD(), Environment: v.cycle.Environment, Cycle: v.cycle.ID}
}

// would is what would have been done, as far as rules and limits can say now.
func (v human) would(h ops.Handoff) string {
	wet := v
	wet.policy.DryRun = false
	proposal := escalation.Proposal{Session: v.proposer(), Handoff: &h, Choice: v.consults().choice()}
	d := escalation.Decide(wet.policy, v.path(), proposal, v.facts())
	target, _ := v.policy.Handler(d.TargetHandler)
	plan, _ := escalation.Plan(wet.policy.Inventory, &h, target, d.Services)
	return v.say(ops.Reason{Kind: ops.TodoWould, Decision: d, Handler: target, Plan: plan})
}

// unpayable is the problem that nothing is left to spend for one more session.
func (v human) unpayable(kind ops.ProblemKind) problem {
	b, spent := v.policy.Spent(v.chainUSD(), v.journal.Spend.DayUSD)
	if !spent { // others have reserved the rest since the cycle was loaded
		b = ops.Budget{Whose: ops.BudgetDay, LimitUSD: v.policy.BudgetDayUSD, SpentUSD: v.policy.BudgetDayUSD}
	}
	b = v.freed(b)
	p := v.problem(kind, ops.LevelWarning, "")
	p.budget, p.todo = &b, b.Todo(v.services())
	return p
}

func (v human) unseenProblem(services []string) problem {
	p := v.problem(ops.ProblemTrust, ops.LevelWarning, v.withheld(ops.TrustWatch.Keeps()))
	p.todo = v.say(ops.Reason{Kind: ops.TodoRaiseTrust, Services: services, Trust: ops.TrustSuggest})
	p.facts = &ops.Handoff{ServicesAffected: services, CheckResults: v.badChecks(services)}
	return p
}

// proposedOnly is the problem of services for which an agent may only propose something, with the steps of its plan.
func (v human) proposedOnly(d ops.Decision, h *ops.Handoff, services []string) (problem, []ops.ApprovedStep) {
	facts := *h
	facts.ServicesAffected = services
	facts.Plan = slices.DeleteFunc(slices.Clone(h.Plan), func(s ops.PlanStep) bool { return !slices.Contains(services, s.Service) })
	p := v.problemOf(ops.ProblemTrust, ops.LevelWarning, d, &facts)
	p.todo = v.say(ops.Reason{Kind: ops.TodoRaiseTrust, Services: services, Trust: ops.TrustAsk})
	plan, _ := escalation.Plan(v.policy.Inventory, &facts, p.target, services)
	return p, plan
}
