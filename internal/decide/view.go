package decide

import (
	"slices"
	"time"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// view is a cycle as the table looks at it.
type view struct {
	words   Words
	cycle   ops.Cycle
	journal ops.Journal
	policy  ops.Policy
	now     time.Time
	newest  *ops.Session // of any role
	last    *ops.Session // of those that do the work of a tier
	charge  ops.Charge   // what the chain works on
	holds   []ops.Hold   // what keeps services from tiers
}

// Words puts into words what is decided. Package notice has them; a decision is the same without any.
type Words interface {
	Reason(ops.Reason) string
	Notice(ops.Message) ops.Text
}

// NoWords name a reason by its kind, for those who compare decisions.
type NoWords struct{}

// Reason is the kind of the reason.
func (NoWords) Reason(r ops.Reason) string { return string(r.Kind) }

// Notice is the kind of the message.
func (NoWords) Notice(m ops.Message) ops.Text { return ops.Text{Title: string(m.Kind)} }

func newView(w Words, now ops.Claimed, at time.Time) view {
	c, j := now.Cycle, now.Journal
	v := view{words: w, cycle: c, journal: j, policy: c.Policy, now: at, newest: j.Newest(), last: j.Last(), charge: chargeOf(c, j)}
	v.holds = v.holding()
	return v
}

func (v view) say(r ops.Reason) string { return v.words.Reason(r) }

// inCycle is a reason that stands outside of its cycle.
func (v view) inCycle(reason string) string {
	return v.say(ops.Reason{Kind: ops.WhyInCycle, Cycle: v.cycle.ID, Text: reason})
}

func always(view) bool { return true }

// lastID is the last session that did work; 0 before the first one.
func (v view) lastID() ops.SessionID {
	if v.last == nil {
		return 0
	}
	return v.last.ID
}

func (v view) ended() bool { return v.cycle.Status.Ended() }

func (v view) waiting() bool {
	if v.cycle.CancelRequestedAt != nil {
		return false
	}
	return v.cycle.Status == ops.CycleWaitingHuman || (v.cycle.WakeAt != nil && v.cycle.WakeAt.After(v.now))
}

// inFlight: whoever asks holds the claim and runs nothing yet, so a running session belongs to a worker that died.
func (v view) inFlight() bool { return v.newest != nil && v.newest.Status == ops.SessionRunning }

func (v view) cancelRequested() bool { return v.cycle.CancelRequestedAt != nil }

func (v view) untouched() bool { return v.newest == nil }

func (v view) unprobed() bool {
	return v.newest == nil && len(v.probed()) > 0 && len(v.checks(ops.ProbeObserve, 0)) == 0
}

// lookDue: an agent sees what no probe asks about, so it looks now and then. It looks once at a claimed repair that nothing has confirmed
// or refuted since.
func (v view) lookDue() bool {
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

// unverifiedLook is how long an unverified repair waits for a look where nothing says how often agents look.
const unverifiedLook = 24 * time.Hour

func (v view) intended() bool { return v.newest.Status == ops.SessionQueued }

// backingOff: the attempt is ordered, and its time has not come.
func (v view) backingOff() bool {
	at := v.notBefore()
	return v.intended() && at != nil && at.After(v.now)
}

// notBefore is when the queued attempt may start; nil when nothing is said.
func (v view) notBefore() *time.Time {
	if r := v.ordered(*v.newest); r != nil {
		return r.NotBefore
	}
	return nil
}

// ordered is the recovery that ordered a session, or nil for a first attempt.
func (v view) ordered(s ops.Session) *ops.Recovery {
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

func (v view) stopped() bool { return v.newest.Status == ops.SessionCancelled }

// consultationInterrupted: a question of the supervisor touches nothing, so it may be asked again, once.
func (v view) consultationInterrupted() bool {
	n := v.newest
	return !n.Works() && n.Status == ops.SessionInterrupted && n.Attempt == v.firstConsultation(*n).Attempt
}

// firstConsultation is the first session that was asked the same.
func (v view) firstConsultation(s ops.Session) ops.Session {
	for _, o := range v.journal.Sessions {
		if o.Role == s.Role && o.ParentID != nil && s.ParentID != nil && *o.ParentID == *s.ParentID {
			return o
		}
	}
	return s
}

// answerOf is the last answer to a question about the last session, or nil when it was not asked.
func (v view) answerOf(role ops.Role) *ops.Session { return v.answerAbout(*v.last, role) }

func (v view) answerAbout(about ops.Session, role ops.Role) *ops.Session {
	for i := len(v.journal.Sessions) - 1; i >= 0; i-- {
		s := &v.journal.Sessions[i]
		if s.Role == role && s.ParentID != nil && *s.ParentID == about.ID {
			return s
		}
	}
	return nil
}

func (v view) interrupted() bool { return v.last.Status == ops.SessionInterrupted }

// overBudget: its money could not be reserved, so it never ran.
func (v view) overBudget() bool { return v.failed() && v.last.Failure == ops.FailureUnpaid }

// resumeRefused: a nudge whose conversation is gone is a matter of the ladder.
func (v view) resumeRefused() bool {
	return v.failed() && v.last.RecoveryLevel != ops.RecoveryNudge && v.last.ContextMode == ops.ContextResume &&
		v.last.Failure == ops.FailureResumeRefused
}

func (v view) inconclusive() bool { return v.last.Outcome == ops.OutcomeInconclusive }

func (v view) wantsHuman() bool { return v.last.Outcome == ops.OutcomeNeedsHuman }

// blindUnverified: what it asks a human about may be that it could not see something, which probes can tell.
func (v view) blindUnverified() bool {
	return v.wantsHuman() && len(v.last.Unseen) > 0 && v.unverified()
}

// blind: a session asks for a human and could not see something, while every probe of its charge is green.
func (v view) blind() bool {
	if !v.wantsHuman() || len(v.last.Unseen) == 0 {
		return false
	}
	services := v.services()
	checks := slices.DeleteFunc(v.latest(), func(c ops.Check) bool { return len(services) > 0 && !slices.Contains(services, c.Service) })
	return len(checks) > 0 && !slices.ContainsFunc(checks, ops.Check.Bad)
}

func (v view) failed() bool { return v.last.Status != ops.SessionCompleted }

func (v view) proposed() bool { return v.last.Proposed() }

func (v view) observedOnly() bool {
	return v.last.Tier == ops.Tier1 && v.last.Outcome != ops.OutcomeResolved
}

func (v view) unverified() bool {
	return len(v.verifiable()) > 0 && len(v.checks(ops.ProbeVerify, v.last.ID)) == 0
}

func (v view) refuted() bool { return len(v.badAfter(*v.last)) > 0 }

// badAfter lists the checks that contradict a session's claim: probes, and looks at the container or unit that the service runs in.
func (v view) badAfter(s ops.Session) []ops.Check {
	return slices.DeleteFunc(v.seenAfter(s), func(c ops.Check) bool { return !c.Bad() })
}

// seenAfter are our own looks after a session that claims a repair.
func (v view) seenAfter(s ops.Session) []ops.Check {
	return append(v.checks(ops.ProbeVerify, s.ID), v.checks(ops.ProbeRunning, s.ID)...)
}

// verifiable are the services of the chain that we can probe ourselves: the last session's word alone does not settle their state.
func (v view) verifiable() []string {
	probed := v.probed()
	return slices.DeleteFunc(slices.Clone(v.services()), func(name string) bool { return !slices.Contains(probed, name) })
}

func (v view) probed() []string {
	var out []string
	for _, s := range v.policy.Inventory.Services {
		if s.Probed {
			out = append(out, s.Name)
		}
	}
	return out
}

// checks are the last results of the probes that ran for a purpose. Probes are repeated until they decide, so the last one counts.
func (v view) checks(purpose ops.ProbePurpose, after ops.SessionID) []ops.Check {
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
func (v view) path() []string {
	var out []string
	for s := v.last; s != nil; s = v.journal.Parent(*s) {
		out = append(out, s.Handler)
	}
	slices.Reverse(out)
	return out
}

func (v view) chainUSD() float64 {
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
func (v view) contextUse() int64 {
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
func (v view) window(model string) int64 {
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

func (v view) attempt(t ops.Tier) int {
	n := 1
	for _, s := range v.journal.Sessions {
		if s.Tier == t && s.Attempt >= n {
			n = s.Attempt + 1
		}
	}
	return n
}

// handedUp is what a session handed up, with the services' own names, or an empty proposal.
func (v view) handedUp(s ops.Session) ops.Proposal {
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

// proposed is the handoff of a session as it wrote it, or nil.
func proposed(s ops.Session) *ops.Handoff {
	if s.Proposal == nil {
		return nil
	}
	return s.Proposal.Handoff
}

// summary is what a session said it did; empty when it said nothing that can be read.
func summary(s ops.Session) string {
	if s.Report == nil {
		return ""
	}
	return s.Report.Summary
}

// Conclude names the outcome of a session that completed without structured output.
func Conclude(s ops.Session) ops.OutcomeKind {
	switch {
	case s.Proposal != nil && s.Proposal.Handoff == nil:
		return ops.OutcomeInconclusive
	case s.Proposal != nil:
		return ops.OutcomeEscalate
	case s.Tier == ops.Tier1:
		return ops.OutcomeHealthy
	default:
		return ops.OutcomeResolved
	}
}

// onAnotherHost: the session ran on another host than the one that advances the cycle now.
func (v view) onAnotherHost(s *ops.Session) bool {
	return s.Owner != "" && v.cycle.Owner.Host != "" && s.Owner != v.cycle.Owner.Host
}
