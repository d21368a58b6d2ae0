package cycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/escalation"
	"claudeops/internal/loop"
	"claudeops/internal/ops"
	"claudeops/internal/recovery"
)

// stumble is a failure on its way up the ladder, and how the cycle ends where there is no ladder.
type stumble struct {
	failure recovery.Failure
	// bare ends the cycle where recovery is off.
	bare func() ops.Step
	// last ends it where the ladder has nothing left; nil means force-done.
	last func() ops.Step
}

func recoverInterrupted(v view) ops.Step {
	return v.climb(stumble{failure: v.failure(), bare: func() ops.Step { return v.interruptedBare() }})
}

func recoverFailed(v view) ops.Step {
	return v.climb(stumble{failure: v.failure(), bare: func() ops.Step { return v.failedBare() }})
}

func recoverInconclusive(v view) ops.Step {
	return v.climb(stumble{failure: v.failure(), bare: func() ops.Step { return v.inconclusiveBare() }})
}

func recoverRefuted(v view) ops.Step {
	return v.climb(stumble{failure: v.failure(), bare: func() ops.Step { return v.refutedBare() }})
}

// refused asks the same tier for a proposal that can be accepted; when it has had its chances, a human is called.
func (v view) refused(d ops.Decision, h *ops.Handoff) ops.Step {
	f := v.failure()
	f.Outcome = recovery.OutcomeInvalid
	f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: d.Reason})
	end := func() ops.Step {
		step := v.calling(ops.CycleNeedsHuman, d.Reason, "An escalation was refused", ops.LevelCritical, h)
		return v.told(step, v.notice("needs_human", ops.LevelCritical, "An escalation was refused", v.story(d, h)))
	}
	return v.climb(stumble{failure: f, bare: end, last: end})
}

// climb orders the next attempt at the tier's work, or ends the cycle with what there is.
func (v view) climb(s stumble) ops.Step {
	if !v.policy.Recovery.Enabled {
		return s.bare()
	}
	f := s.failure
	class := recovery.Classify(f, rules(v.policy.Recovery.Rules))
	history := v.transitions()
	move := recovery.Next(f, class, history, v.offer(), limits(v.policy.Recovery.Limits), v.now)
	if s.last != nil && move.Level > recovery.Nudge {
		// Another plan or another agent would not make a refused proposal acceptable.
		return s.last()
	}
	var step ops.Step
	switch {
	case move.Level != recovery.ForceDone && move.Level != recovery.None:
		step = v.attemptAgain(f, class, move, history)
	case class.ErrorType == recovery.TypeProbe && v.mayHandUp():
		step = v.handUpRefuted()
	default:
		step = v.forceDone(f, class, move, history)
	}
	for _, p := range move.Passed {
		step.Events = append(step.Events, v.event(ops.LevelInfo, "recovery", fmt.Sprintf("%s is passed over: %s", p.Level, p.Reason)))
	}
	return step
}

// mayHandUp: repairs that do not hold count toward escalation, where somebody stands above.
func (v view) mayHandUp() bool {
	h := v.refutedHandoff(*v.last)
	if h == nil || v.last.Tier >= ops.LastTier {
		return false
	}
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	return d.Verdict != ops.VerdictRefused
}

// handUpRefuted hands up what a tier says it repaired and did not, with the facts of our own probes: the tier itself does not
// see that it needs help.
func (v view) handUpRefuted() ops.Step {
	h := v.refutedHandoff(*v.last)
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	d.At = v.now
	step := v.decided(d, proposal{handoff: h})
	if step.Session != nil {
		step.Session.ContextMode = ops.ContextHandoff // the conversation believes that all is well
	}
	step.Decision = &d
	return step
}

// refutedHandoff is what our probes and the record say of a claimed repair that does not hold; nil where it holds.
func (v view) refutedHandoff(s ops.Session) *ops.Handoff {
	h := ops.Handoff{
		SchemaVersion: 1, RecommendedTier: s.Tier + 1, Reason: "probes refute the claimed repair", CooldownState: json.RawMessage(`{}`),
		InvestigationFindings: v.whyNot(s), RemediationAttempted: summary(s),
	}
	if h.RemediationAttempted == "" {
		h.RemediationAttempted = "it did not say what it did"
	}
	for _, c := range v.checks(ops.ProbeVerify, s.ID) {
		if c.Status == ops.Down && !slices.Contains(h.ServicesAffected, c.Service) {
			h.ServicesAffected = append(h.ServicesAffected, c.Service)
		}
		h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
	}
	if len(h.ServicesAffected) == 0 {
		return nil
	}
	return &h
}

// attemptAgain queues the attempt that the ladder orders: at the same tier, with the same permissions.
func (v view) attemptAgain(f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Step {
	handler := v.worker()
	session := &ops.NewSession{
		ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
		Handler: handler, ContextMode: v.last.ContextMode, Level: ops.RecoveryLevel(move.Level),
	}
	switch move.Level {
	case recovery.Nudge:
		session.ContextMode = ops.ContextResume
	case recovery.Replan:
		session.ContextMode = v.freshContext()
		if planner, ok := v.policy.Handler(move.Planner); ok {
			session = v.askPlanner(planner)
		}
	case recovery.Fallback:
		other, _ := v.policy.Handler(move.Handler)
		other.Tier, other.Permissions = v.last.Tier, v.last.May()
		session.Handler, session.ContextMode = other, v.freshContext()
	case recovery.Retry, recovery.None, recovery.ForceDone:
	}
	r := v.row(f, class, move, history)
	reason := fmt.Sprintf("%s after %s of session %d: %s", move.Action, class.ErrorType, v.last.ID, move.Reason)
	step := ops.Step{
		Kind: ops.StepQueue, Reason: reason, Session: session, Recovery: &r,
		Events: []ops.Event{v.event(ops.LevelWarning, "recovery", reason)},
	}
	if approach := summary(*v.last); move.Level == recovery.Replan && approach != "" {
		step.Lessons = v.lessons("known_bad_path", fmt.Sprintf("This did not help (%s): %s", v.whyNot(*v.last), approach))
	}
	return step
}

// lessons keeps something for later sessions, once for each affected service.
func (v view) lessons(category, observation string) []ops.Lesson {
	services := v.affected()
	if len(services) == 0 {
		services = []string{""}
	}
	var out []ops.Lesson
	for _, s := range services {
		out = append(out, ops.Lesson{Category: category, Service: s, Observation: observation})
	}
	return out
}

// worker is the handler of the last session, as it was: a fallback keeps the tier it stood in for.
func (v view) worker() ops.Handler {
	h, ok := v.policy.Handler(v.last.Handler)
	if !ok {
		h = ops.Handler{ID: v.last.Handler, Family: v.last.Family, Agent: v.last.Agent, Model: v.last.Model}
	}
	h.Tier, h.Permissions = v.last.Tier, v.last.May()
	return h
}

// freshContext is how a new conversation at the last session's place gets its facts.
func (v view) freshContext() ops.ContextMode {
	if v.last.ParentID == nil {
		return ops.ContextFresh
	}
	return ops.ContextHandoff
}

func (v view) row(f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Recovery {
	t := move.Record(f, class, history, v.now)
	r := ops.Recovery{
		CycleID: v.cycle.ID, SessionID: v.last.ID, Tier: v.last.Tier, Level: ops.RecoveryLevel(t.Level), Action: string(t.Action),
		ErrorType: string(t.ErrorType), PreviousLevels: []ops.RecoveryLevel{}, EnteredAt: v.now, Variant: move.Variant, Handler: t.Handler, Reason: t.Reason,
	}
	for _, l := range t.PreviousLevels {
		r.PreviousLevels = append(r.PreviousLevels, ops.RecoveryLevel(l))
	}
	if move.Wait > 0 {
		r.NotBefore = &t.NotBefore
	}
	if !t.Deadline.IsZero() {
		r.Deadline = &t.Deadline
	}
	return r
}

// forceDone ends the cycle with what there is, and says what a human should do about the rest.
func (v view) forceDone(f recovery.Failure, class recovery.Class, move recovery.Move, history []recovery.Transition) ops.Step {
	move.Level, move.Action = recovery.ForceDone, recovery.ActionForceDone
	ending := recovery.Finish(recovery.Facts{
		Failure: f, Class: class, Move: move, History: history, Completed: v.completed(), Down: v.stillDown(), LiftsAt: v.lifts(class),
	})
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 || len(v.stillDown()) > 0 || v.last.StopCause == ops.StopInvariant {
		level = ops.LevelCritical
	}
	step := v.calling(ops.CyclePartial, ending.FailureReason, "Repair did not finish", level, nil)
	step.Incident.Recommendation = ending.Recommendation
	r := v.row(f, class, move, history)
	step.Recovery = &r
	category := "root_cause"
	if class.ErrorType == recovery.TypeUnknown {
		category = "new_classification" // nobody knew this failure
	}
	step.Lessons = v.lessons(category, ending.Summary)
	raw, err := ending.Encode()
	if err != nil {
		step.Events = append(step.Events, v.event(ops.LevelCritical, "recovery", fmt.Sprintf("the result does not fit its schema: %v", err)))
	}
	step.Result = raw
	if level == ops.LevelCritical || !v.failedBefore() {
		title := "Repair did not finish"
		if v.last.Tier == ops.Tier1 {
			title = "Tier 1 cannot look"
		}
		step = v.told(step, v.notice("partial", level, title, fmt.Sprintf("%s.\n\nDone: %s\nTo do: %s\n\n%s\n%s",
			ending.FailureReason, orNothing(ending.CompletedSteps), ending.Recommendation, raw, v.where())))
	}
	return step
}

// lifts is when a budget has money again; zero for other failures.
func (v view) lifts(c recovery.Class) time.Time {
	if c.ErrorType != recovery.TypeBudget {
		return time.Time{}
	}
	return nextDay(v.now)
}

// nextDay is when the budget of a day starts anew.
func nextDay(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

func orNothing(steps []string) string {
	if len(steps) == 0 {
		return "nothing"
	}
	return strings.Join(steps, "; ")
}

// failedBefore: nobody watches while Tier 1 cannot look; said once, not every hour.
func (v view) failedBefore() bool {
	return len(v.journal.Before) > 0 && slices.Contains([]ops.CycleStatus{ops.CycleFailed, ops.CyclePartial}, v.journal.Before[0].Status)
}

// completed lists what was done, from what was recorded and measured and not from what was claimed.
func (v view) completed() []string {
	var out []string
	for _, s := range v.journal.Sessions {
		if s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive && !v.isRefuted(s) {
			out = append(out, fmt.Sprintf("%s (session %d) ended with %s", s.Tier, s.ID, s.Outcome))
		}
		for _, g := range v.journal.Effects[s.ID].Done {
			out = append(out, fmt.Sprintf("session %d was allowed: %s", s.ID, g.Input))
		}
	}
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeVerify && c.Status == ops.Healthy {
			out = append(out, fmt.Sprintf("probe finds %s healthy", c.Service))
		}
	}
	return out
}

func (v view) isRefuted(s ops.Session) bool {
	return slices.ContainsFunc(v.checks(ops.ProbeVerify, s.ID), func(c ops.Check) bool { return c.Status == ops.Down })
}

// stillDown lists the services whose last check in this cycle found them down.
func (v view) stillDown() []string {
	latest := map[string]ops.Health{}
	var order []string
	for _, c := range v.journal.Checks {
		if _, seen := latest[c.Service]; !seen {
			order = append(order, c.Service)
		}
		latest[c.Service] = c.Status
	}
	return slices.DeleteFunc(order, func(s string) bool { return latest[s] != ops.Down })
}

func (v view) failure() recovery.Failure { return v.failureOf(*v.last) }

// failureOf is what is known of a session's failure, from the agent's side alone. It is the same when the next attempt
// is told of it as it was when the attempt was ordered.
func (v view) failureOf(s ops.Session) recovery.Failure {
	effects, known := v.journal.Effects[s.ID]
	f := recovery.Failure{
		SchemaVersion: 1, Cycle: int64(v.cycle.ID), Session: int64(s.ID), Tier: int(s.Tier), Handler: s.Handler, Family: s.Family, Model: s.Model,
		Status: string(s.Status), ExitCode: s.ExitCode, StopCause: string(s.StopCause), Class: s.Failure, APIStatus: s.APIStatus, Error: s.Error,
		OpenTool: s.OpenTool, Interrupted: s.Status == ops.SessionInterrupted,
		// Without a record of what it was allowed, a tier that may repair may have repaired.
		Mutating: effects.Mutating || (!known && s.May() > ops.Tier1 && (s.ExitCode != nil || s.Status == ops.SessionInterrupted)),
	}
	for _, g := range effects.Done {
		f.Started = append(f.Started, g.Input)
	}
	for _, g := range effects.Denied {
		f.Denials = append(f.Denials, recovery.Denial{Tool: g.Tool, Rule: g.Rule, Reason: g.Reason})
	}
	if s.RetryAfter > 0 {
		f.RetryAfter = ops.Ptr(int64(s.RetryAfter.Seconds()))
	}
	if s.StopCause == ops.StopLoop {
		_, call, _ := strings.Cut(s.Error, withoutProgress)
		f.Loop = &recovery.Loop{Count: s.LoopCount, Level: recovery.Level(loop.Defaults().Level(s.LoopCount)), Call: call}
	}
	for _, c := range v.checks(ops.ProbeVerify, s.ID) {
		if c.Status == ops.Down && !slices.Contains(f.ProbeRed, c.Service) {
			f.ProbeRed = append(f.ProbeRed, c.Service)
		}
	}
	v.problems(s, &f)
	if r, ok := v.verdictOn(s); ok {
		f.Judge = judgeFailure(r)
	}
	return f
}

// problems adds what was wrong with what the session said.
func (v view) problems(s ops.Session, f *recovery.Failure) {
	if s.Outcome == ops.OutcomeInconclusive {
		f.Outcome = recovery.OutcomeMissing
		if len(s.OutcomeJSON) > 0 || s.Proposed() {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: s.Error})
		}
	}
	for _, d := range v.journal.Decisions {
		if d.SessionID == s.ID && d.Verdict == ops.VerdictRefused {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, recovery.Problem{Message: d.Reason})
		}
	}
}

// offer is what another attempt could be.
func (v view) offer() recovery.Offer {
	handler, _ := v.policy.Handler(v.last.Handler)
	o := recovery.Offer{
		CanResume:   v.last.CLISessionID != "" && v.contextUse() <= int64(v.policy.ContextThreshold*float64(v.window(v.last.Model))),
		EarlierTime: v.earlierRecovery(),
		Planner:     v.policy.Planner, Fallbacks: v.fallbacks(handler), Seed: recovery.Seed(int64(v.cycle.ID), v.last.Attempt),
	}
	for _, r := range v.journal.Recoveries {
		for _, s := range v.journal.Sessions {
			if s.RetryOf != nil && *s.RetryOf == r.SessionID && s.CostUSD != nil {
				o.SpentUSD += *s.CostUSD
			}
		}
	}
	return o
}

// earlierRecovery is how long earlier tiers of this cycle took to recover.
func (v view) earlierRecovery() time.Duration {
	var sum time.Duration
	for tier := ops.Tier1; tier < v.last.Tier; tier++ {
		var began time.Time
		for _, r := range v.journal.Recoveries {
			if r.Tier == tier && began.IsZero() {
				began = r.EnteredAt
			}
		}
		var ended time.Time
		for _, s := range v.journal.Sessions {
			if s.Tier == tier && s.EndedAt != nil {
				ended = *s.EndedAt
			}
		}
		if !began.IsZero() && ended.After(began) {
			sum += ended.Sub(began)
		}
	}
	return sum
}

// fallbacks are who may stand in for a handler. Who stands in himself has those of the one he stands in for.
func (v view) fallbacks(handler ops.Handler) []string {
	for s := v.last; s != nil && len(handler.Fallback) == 0 && s.RetryOf != nil; {
		if s = v.journal.Session(*s.RetryOf); s != nil {
			handler, _ = v.policy.Handler(s.Handler)
		}
	}
	return handler.Fallback
}

// transitions are the recoveries of this cycle as the ladder reads them.
func (v view) transitions() []recovery.Transition {
	out := make([]recovery.Transition, 0, len(v.journal.Recoveries))
	for _, r := range v.journal.Recoveries {
		t := recovery.Transition{
			Session: int64(r.SessionID), Tier: int(r.Tier), Level: recovery.Level(r.Level), Action: recovery.Action(r.Action),
			ErrorType: recovery.ErrorType(r.ErrorType), EnteredAt: r.EnteredAt, Handler: r.Handler, Reason: r.Reason,
		}
		if r.NotBefore != nil {
			t.NotBefore = *r.NotBefore
		}
		if r.Deadline != nil {
			t.Deadline = *r.Deadline
		}
		out = append(out, t)
	}
	return out
}

// Ladder is the policy as package recovery reads it.
func Ladder(p ops.RecoveryPolicy) ([]recovery.Rule, recovery.Limits) {
	return rules(p.Rules), limits(p.Limits)
}

// limits are the operator's limits, and the defaults where nothing is said.
func limits(l ops.RecoveryLimits) recovery.Limits {
	out := recovery.Defaults()
	if l.Retries != 0 {
		out.Retries = max(l.Retries, 0)
	}
	if l.Nudges != 0 {
		out.Nudges = max(l.Nudges, 0)
	}
	if l.RetryTime > 0 {
		out.RetryTotal = l.RetryTime
	}
	if l.NudgeTime > 0 {
		out.NudgeTime = l.NudgeTime
	}
	if l.ReplanTime > 0 {
		out.ReplanTime = l.ReplanTime
	}
	if l.FallbackTime > 0 {
		out.FallbackTime = l.FallbackTime
	}
	if l.TotalTime > 0 {
		out.TotalTime = l.TotalTime
	}
	out.TotalUSD = l.TotalUSD
	return out
}

func rules(own []ops.RecoveryRule) []recovery.Rule {
	out := make([]recovery.Rule, 0, len(own))
	for _, r := range own {
		when := recovery.When{Failure: r.Failure, ExitCode: r.ExitCode, Contains: r.Contains, StopCause: string(r.StopCause)}
		if r.APIStatus != 0 {
			when.APIStatus = &r.APIStatus
		}
		out = append(out, recovery.Rule{ID: r.ID, When: when, Level: recovery.Level(r.Level), ErrorType: recovery.ErrorType(r.ErrorType), Why: r.Why})
	}
	return out
}
