package decide

import (
	"slices"
	"time"

	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// past is what is known of a cycle: its row and its journal, read at one moment. It judges nothing.
type past struct {
	words   Words
	cycle   ops.Cycle
	journal ops.Journal
	policy  ops.Policy
	now     time.Time
	newest  *ops.Session // of any role
	last    *ops.Session // of those that do the work of a tier
	task    ops.Charge   // what the chain works on
}

func (v past) holder() holder { return holder{v} }

// about are the services that the chain would be about if nothing held any.
func (v past) about() []string {
	if v.task.Open {
		return v.found()
	}
	return v.task.Services
}

// found lists the services that somebody in this cycle found in trouble, by their own names.
func (v past) found() []string {
	var out []string
	add := func(name string) {
		name, _ = v.policy.Inventory.Canonical(name)
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, s := range v.journal.Sessions {
		if h := proposed(s); h != nil {
			for _, n := range h.ServicesAffected {
				add(n)
			}
		}
		for _, name := range asksAbout(s) {
			add(name)
		}
	}
	for _, purpose := range []ops.ProbePurpose{ops.ProbeAlert, ops.ProbeObserve, ops.ProbeRecheck, ops.ProbeVerify, ops.ProbeReflex} {
		for _, c := range v.checks(purpose, 0) {
			if c.Bad() {
				add(c.Service)
			}
		}
	}
	return out
}

// named are the services that a hold could be about.
func (v past) named() []string {
	out := slices.Concat(v.found(), v.task.Services)
	for _, s := range v.policy.Inventory.Services {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// looks is the tier from which silences, maintenance and incidents in somebody's hands hold: a person who asks for something in words
// gets a look all the same.
func (v past) looks() ops.Tier {
	if v.cycle.Prompt != "" && (v.cycle.Trigger == ops.TriggerManual || v.cycle.Trigger == ops.TriggerAPI) {
		return ops.Tier2
	}
	return ops.Tier1
}

func (v past) group(service string) string {
	return v.policy.Inventory.Service(service).Group
}

// latest are the last results of each probe and alert in this cycle, whatever they were for.
func (v past) latest() []ops.Check {
	// A look at what runs a service is no check of it: it says why a repair is not proven.
	running := func(c ops.Check) bool { return c.Purpose == ops.ProbeRunning }
	return ops.LastOfEach(slices.DeleteFunc(slices.Clone(v.journal.Checks), running))
}

// wrongWith are the facts about services: what probes and alerts found, else what the last session reported.
func (v past) wrongWith(services ...string) []ops.Fact {
	var out []ops.Fact
	for _, name := range services {
		name, _ = v.policy.Inventory.Canonical(name)
		found := len(out)
		for _, c := range v.latest() {
			if c.Service == name && c.Bad() {
				out = append(out, ops.FactOf(c))
			}
		}
		if len(out) == found {
			out = append(out, v.reportedAbout(name)...)
		}
	}
	return ops.SortedFacts(out)
}

// reportedAbout are the facts about a service in which no probe finds anything wrong.
func (v past) reportedAbout(service string) []ops.Fact {
	var out []ops.Fact
	if h := v.proposal(); h != nil {
		for _, c := range h.CheckResults {
			if name, _ := v.policy.Inventory.Canonical(c.Service); name == service && c.Status != ops.Healthy {
				out = append(out, ops.Fact{Service: service, Type: c.CheckType, Class: string(c.Status)})
			}
		}
	}
	if len(out) == 0 {
		out = []ops.Fact{{Service: service, Class: "reported"}}
	}
	return out
}

// proposal is what the last session handed up, or nil.
func (v past) proposal() *ops.Handoff {
	if v.last == nil {
		return nil
	}
	return proposed(*v.last)
}

// startedByItself: the cycle was started because something is wrong, or because it was time for the probes.
func (v past) startedByItself() bool {
	if v.cycle.Trigger == ops.TriggerScheduled {
		return v.policy.Observe == ops.ObserveProbes && !v.lookDue()
	}
	return v.cycle.Trigger == ops.TriggerProbe || v.cycle.Trigger == ops.TriggerAlert
}

// flapsNow is the hold of a service that goes up and down, or nil.
func (v past) flapsNow(service string) *ops.Withheld {
	for _, w := range v.journal.Withheld {
		if w.Service == service && w.Why == ops.HoldFlapping {
			return &w
		}
	}
	return nil
}

// verdict is what the judge's numbers say of the claim; false where there is no usable answer.
func (v past) verdict() (judge.Judgement, bool) {
	if v.last == nil {
		return judge.Judgement{}, false
	}
	return v.verdictOn(*v.last)
}

func (v past) verdictOn(about ops.Session) (judge.Judgement, bool) {
	s := v.answerAbout(about, ops.RoleJudge)
	if s == nil || v.policy.Judge == "" || s.Status != ops.SessionCompleted {
		return judge.Judgement{}, false
	}
	found, problems := judge.Parse(s.OutcomeJSON)
	return found, len(problems) == 0
}

// badChecks are the last results of this cycle that found one of the services bad.
func (v past) badChecks(services []string) []ops.CheckResult {
	var out []ops.CheckResult
	for _, c := range v.latest() {
		if c.Status != ops.Healthy && c.Known() && slices.Contains(services, c.Service) {
			out = append(out, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
		}
	}
	return out
}

// worker is the handler of the last session, as it was: a fallback keeps the tier it stood in for.
func (v past) worker() ops.Handler {
	h, ok := v.policy.Handler(v.last.Handler)
	if !ok {
		h = ops.Handler{ID: v.last.Handler, Family: v.last.Family, Agent: v.last.Agent, Model: v.last.Model}
	}
	h.Tier, h.Permissions = v.last.Tier, v.last.May()
	return h
}

// question is the last thing a human was asked about the last session, or about a reflex before the first one, or nil.
func (v past) question() *ops.Approval {
	for i := len(v.journal.Approvals) - 1; i >= 0; i-- {
		if a := &v.journal.Approvals[i]; a.SessionID == v.lastID() {
			return a
		}
	}
	return nil
}

func (v past) asked(status ops.ApprovalStatus, kind ops.ApprovalKind) bool {
	q := v.question()
	return q != nil && q.Status == status && (kind == "" || q.Kind == kind)
}

// approved is the handler whose start a human agreed to, or empty.
func (v past) approved() string {
	if !v.asked(ops.ApprovalApproved, ops.ApprovalTier) {
		return ""
	}
	return v.question().Handler
}

// handedOver is the decision that gave the last session's work to a human, or nil.
func (v past) handedOver() *ops.Decision {
	if len(v.journal.Decisions) == 0 || v.last == nil {
		return nil
	}
	d := &v.journal.Decisions[len(v.journal.Decisions)-1]
	target, ok := v.policy.Handler(d.TargetHandler)
	if !ok || !target.Human() || d.SessionID != v.last.ID || (d.Verdict != ops.VerdictEscalate && d.Verdict != ops.VerdictNeedsHuman) {
		return nil
	}
	return d
}

// awaited are the incidents this cycle waits for.
func (v past) awaited() []ops.Incident {
	var out []ops.Incident
	for _, i := range v.journal.Incidents {
		if i.Waiting != nil && *i.Waiting == v.cycle.ID {
			out = append(out, i)
		}
	}
	return out
}

// allClosed: every incident that the cycle waits for has been closed.
func (v past) allClosed() bool {
	awaited := v.awaited()
	return len(awaited) > 0 && !slices.ContainsFunc(awaited, func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

func (v past) expires() time.Time {
	if v.policy.Approval.Expiry <= 0 {
		return time.Time{}
	}
	return v.now.Add(v.policy.Approval.Expiry)
}

// green reports whether every probe of a service was healthy when it last looked in this cycle.
func (v past) green(service string) bool {
	last := map[string]ops.Check{}
	for _, c := range v.journal.Checks {
		if c.Service == service && c.Purpose != ops.ProbeAlert && c.Purpose != ops.ProbeRunning {
			last[c.Probe] = c
		}
	}
	for _, c := range last {
		if c.Bad() || !c.Known() {
			return false
		}
	}
	return len(last) > 0
}

// incidents are the open ones about what is looked after.
func (v past) incidents() []ops.Incident {
	return slices.DeleteFunc(slices.Clone(v.journal.Incidents), func(i ops.Incident) bool { return i.ResolvedAt != nil || i.OfAgent() })
}

// refusedCalls are what the guard refused a session that was allowed no change at all.
func (v past) refusedCalls(s ops.Session) []ops.GuardRecord {
	effects := v.journal.Effects[s.ID]
	if s.May() <= ops.Tier1 || effects.Mutating || len(effects.Done) > 0 {
		return nil
	}
	return effects.Denied
}

// notRunning lists the containers and units of the affected services that did not run after the last session. Healthy probes do not
// prove a repair then: something else may answer them.
func (v past) notRunning() []ops.Check {
	return slices.DeleteFunc(v.checks(ops.ProbeRunning, v.lastID()), func(c ops.Check) bool { return c.Status == ops.Healthy })
}

// reflexRuns are the actions of reflexes in this cycle.
func (v past) reflexRuns() []ops.ActionRun {
	return slices.DeleteFunc(slices.Clone(v.journal.Runs), func(r ops.ActionRun) bool { return r.Reflex == "" || r.UndoOf != 0 })
}

// reflexRan: a reflex was begun, and none is due any more.
func (v past) reflexRan() bool {
	return v.newest == nil && slices.ContainsFunc(v.reflexRuns(), func(r ops.ActionRun) bool { return r.Status != ops.ActionRefused })
}

// proposer is the last session in the place of the handler it stood in for: a stand-in may hand to whom the other might.
func (v past) proposer() ops.Session {
	s := *v.last
	for o := v.last; o != nil && o.RetryOf != nil; {
		if o = v.journal.Session(*o.RetryOf); o != nil {
			s.Handler = o.Handler
		}
	}
	return s
}

func (v past) event(level ops.Level, verb ops.Verb, reason string) ops.Event {
	e := ops.Event{
		At: v.now, CycleID: &v.cycle.ID, Environment: v.cycle.Environment,
		Level: level, Verb: verb, Reason: reason,
	}
	if v.newest != nil {
		e.SessionID = &v.newest.ID
	}
	return e
}

func (v past) notice(kind ops.NoticeKind, level ops.Level, told ops.Message) ops.Notice {
	text := v.words.Notice(told)
	return ops.Notice{
		CycleID: &v.cycle.ID, Kind: kind, Level: level, Title: text.Title, Body: text.Body,
		Status: ops.NoticePending, NextAt: v.now, CreatedAt: v.now,
	}
}

// reached is the limit that ended a session. What was reserved for it is the least of three: its own limit, what its chain had left, and
// what the day had left.
func (v past) reached(s ops.Session) ops.Budget {
	const cent = 0.01 // sums of amounts leave small differences
	handler, _ := v.policy.Handler(s.Handler)
	own := handler.BudgetUSD
	var cost, granted float64
	if s.CostUSD != nil {
		cost = *s.CostUSD
	}
	if s.BudgetUSD != nil {
		granted = *s.BudgetUSD
	}
	b := ops.Budget{Whose: ops.BudgetSession, LimitUSD: own, SpentUSD: cost}
	chain, day := v.policy.BudgetChainUSD, v.policy.BudgetDayUSD
	switch {
	case own > 0 && granted > own-cent:
	case chain > 0 && granted > chain-(v.chainUSD()-cost)-cent:
		b = ops.Budget{Whose: ops.BudgetChain, LimitUSD: chain, SpentUSD: v.chainUSD()}
	case day > 0:
		b = ops.Budget{Whose: ops.BudgetDay, LimitUSD: day, SpentUSD: v.chainUSD() + v.journal.Spend.DayUSD}
	}
	return v.freed(b)
}

// freed adds where and until when the budget of a day is spent.
func (v past) freed(b ops.Budget) ops.Budget {
	if b.Whose == ops.BudgetDay {
		b.Environment, b.FreesAt = v.cycle.Environment, v.now.UTC().Truncate(24*time.Hour).Add(24*time.Hour)
	}
	return b
}

// trust is the level that holds for a service now.
func (v past) trust(service string) ops.Trust { return v.policy.Trusts(service, v.journal.Lowered) }

func (v past) say(r ops.Reason) string { return v.words.Reason(r) }

// inCycle is a reason that stands outside of its cycle.
func (v past) inCycle(reason string) string {
	return v.say(ops.Reason{Kind: ops.WhyInCycle, Cycle: v.cycle.ID, Text: reason})
}

// lastID is the last session that did work; 0 before the first one.
func (v past) lastID() ops.SessionID {
	if v.last == nil {
		return 0
	}
	return v.last.ID
}

// lookDue: an agent sees what no probe asks about, so it looks now and then. It looks once at a claimed repair that nothing has confirmed
// or refuted since.
func (v past) lookDue() bool {
	every, last := v.policy.ObserveEvery, v.journal.LastLook
	if every > 0 && (last == nil || v.now.Sub(*last) >= every) {
		return true
	}
	if every <= 0 {
		every = unverifiedLook
	}
	return slices.ContainsFunc(v.incidents(), func(i ops.Incident) bool {
		return i.UnverifiedAt != nil && v.now.Sub(*i.UnverifiedAt) >= every && (last == nil || last.Before(*i.UnverifiedAt))
	})
}

func (v past) intended() bool { return v.newest.Status == ops.SessionQueued }

// notBefore is when the queued attempt may start; nil when nothing is said.
func (v past) notBefore() *time.Time {
	if r := v.ordered(*v.newest); r != nil {
		return r.NotBefore
	}
	return nil
}

// ordered is the recovery that ordered a session, or nil for a first attempt.
func (v past) ordered(s ops.Session) *ops.Recovery {
	if s.RecoveryLevel == ops.RecoveryNone || s.RetryOf == nil {
		return nil
	}
	for i := len(v.journal.Recoveries) - 1; i >= 0; i-- {
		if v.journal.Recoveries[i].SessionID == *s.RetryOf {
			return &v.journal.Recoveries[i]
		}
	}
	return nil
}

// firstConsultation is the first session that was asked the same.
func (v past) firstConsultation(s ops.Session) ops.Session {
	for _, o := range v.journal.Sessions {
		if o.Role == s.Role && o.ParentID != nil && s.ParentID != nil && *o.ParentID == *s.ParentID {
			return o
		}
	}
	return s
}

// answerOf is the last answer to a question about the last session, or nil when it was not asked.
func (v past) answerOf(role ops.Role) *ops.Session { return v.answerAbout(*v.last, role) }

func (v past) answerAbout(about ops.Session, role ops.Role) *ops.Session {
	for i := len(v.journal.Sessions) - 1; i >= 0; i-- {
		s := &v.journal.Sessions[i]
		if s.Role == role && s.ParentID != nil && *s.ParentID == about.ID {
			return s
		}
	}
	return nil
}

// badAfter lists the checks that contradict a session's claim: probes, and looks at the container or unit that the service runs in.
func (v past) badAfter(s ops.Session) []ops.Check {
	return slices.DeleteFunc(v.seenAfter(s), func(c ops.Check) bool { return !c.Bad() })
}

// seenAfter are our own looks after a session that claims a repair.
func (v past) seenAfter(s ops.Session) []ops.Check {
	return append(v.checks(ops.ProbeVerify, s.ID), v.checks(ops.ProbeRunning, s.ID)...)
}

func (v past) probed() []string {
	var out []string
	for _, s := range v.policy.Inventory.Services {
		if s.Probed {
			out = append(out, s.Name)
		}
	}
	return out
}

// checks are the last results of the probes that ran for a purpose. Probes are repeated until they decide, so the last one counts.
func (v past) checks(purpose ops.ProbePurpose, after ops.SessionID) []ops.Check {
	var out []ops.Check
	for _, c := range v.journal.Checks {
		if c.Purpose == purpose && (after == 0 || c.AfterSession != nil && *c.AfterSession == after) {
			out = append(out, c)
		}
	}
	return ops.LastOfEach(out)
}

// path lists the handlers of this chain from the entry to the last one. Who stood in for whom is left out: depth counts
// handoffs, not attempts.
func (v past) path() []string {
	var out []string
	for s := v.last; s != nil; s = v.journal.Parent(*s) {
		out = append(out, s.Handler)
	}
	slices.Reverse(out)
	return out
}

func (v past) chainUSD() float64 {
	var sum float64
	for _, s := range v.journal.Sessions {
		if s.CostUSD != nil {
			sum += *s.CostUSD
		}
	}
	return sum
}

// contextUse is how many tokens the conversation of the last session holds: what its last model call carried, or,
// where the stream did not tell, all that the chain has used.
func (v past) contextUse() int64 {
	if v.last.ContextTokens != nil {
		return *v.last.ContextTokens
	}
	var sum int64
	for _, s := range v.journal.Sessions {
		for _, n := range []*int64{s.InputTokens, s.OutputTokens} {
			if n != nil {
				sum += *n
			}
		}
	}
	return sum
}

// window is the context window of a model: what a CLI reported last, in this cycle or before it, else the configured table.
func (v past) window(model string) int64 {
	for i := len(v.journal.Sessions) - 1; i >= 0; i-- {
		if s := v.journal.Sessions[i]; s.Model == model && s.ContextWindow != nil && *s.ContextWindow > 0 {
			return *s.ContextWindow
		}
	}
	for _, table := range []map[string]int64{v.journal.Windows, v.policy.Windows} {
		if n := table[model]; n > 0 {
			return n
		}
	}
	return ops.DefaultWindow
}

func (v past) attempt(t ops.Tier) int {
	n := 1
	for _, s := range v.journal.Sessions {
		if s.Tier == t && s.Attempt >= n {
			n = s.Attempt + 1
		}
	}
	return n
}

// handedUp is what a session handed up, with the services' own names, or an empty proposal.
func (v past) handedUp(s ops.Session) ops.Proposal {
	if s.Proposal == nil {
		if s.Proposed() { // nobody read it, so nobody may act upon it
			return ops.Proposal{Problems: []string{"the handoff was not read"}}
		}
		return ops.Proposal{}
	}
	p := *s.Proposal
	if p.Handoff == nil {
		return p
	}
	h, found := report.CheckInventory(*p.Handoff, v.policy.Inventory)
	p.Warnings = slices.Concat(p.Warnings, found.Warnings)
	p.Handoff = &h
	if !found.OK() {
		p.Handoff, p.Problems = nil, report.Sentences(found.Errors)
	}
	return p
}

// onAnotherHost: the session ran on another host than the one that advances the cycle now.
func (v past) onAnotherHost(s *ops.Session) bool {
	return s.Owner != "" && v.cycle.Owner.Host != "" && s.Owner != v.cycle.Owner.Host
}
