package decide

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/loop"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// ladder is what is known of a failure, and which attempt may follow.
type ladder struct{ view }

// attempt is a failure on its way up the ladder, and how the cycle ends where there is no ladder.
type attempt struct {
	failure recovery.Failure
	// withoutRecovery ends the cycle where recovery is off.
	withoutRecovery func(view) ops.Step
	// last ends it where the ladder has nothing left; nil means force-done.
	last func(view) ops.Step
}

// recovers takes the failure of the last session up the ladder.
func recovers(withoutRecovery func(view) ops.Step) func(view) ops.Step {
	return func(v view) ops.Step {
		return nextAttempt(v, attempt{failure: v.ladder().failure(), withoutRecovery: withoutRecovery})
	}
}

// refused asks the same tier for a proposal that can be accepted; when it has had its chances, a human is called.
func refused(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	f := v.ladder().failure()
	f.Outcome = recovery.OutcomeInvalid
	f.OutcomeProblems = append(f.OutcomeProblems, d.Reason)
	end := func(v view) ops.Step {
		p := v.human().problemOf(ops.ProblemRefused, ops.LevelCritical, d, h)
		return handOver(v, ops.CycleNeedsHuman, p, ops.NoticeNeedsHuman, ops.MessageHuman)
	}
	return nextAttempt(v, attempt{failure: f, withoutRecovery: end, last: end})
}

// nextAttempt orders the next attempt at the tier's work, or ends the cycle with what there is.
func nextAttempt(v view, s attempt) ops.Step {
	if !v.policy.Recovery.Enabled {
		return s.withoutRecovery(v)
	}
	f := s.failure
	class := recovery.Classify(f)
	limit := cmp.Or(v.policy.Recovery.Limits.TotalTime, recovery.TotalTime)
	move := recovery.Next(f, class, v.journal.Recoveries, v.ladder().offer(), limit, v.now)
	if s.last != nil && move.Level > ops.RecoveryNudge {
		// Another plan or another agent would not make a refused proposal acceptable.
		return s.last(v)
	}
	var step ops.Step
	switch {
	case move.Level != ops.RecoveryForceDone && move.Level != ops.RecoveryNone:
		step = attemptAgain(v, f, class, move)
	case v.proof().mayEscalateRefuted():
		step = escalateClaim(v)
	case v.ladder().unseen() && len(v.checks(ops.ProbeRecheck, v.last.ID)) == 0:
		return lookAgain(v)
	case v.ladder().unseen() && v.proof().allProven(ops.ProbeRecheck):
		step = recoveredUnseen(v, f, class, move)
	default:
		step = forceDone(v, f, class, move)
	}
	for _, p := range move.Passed {
		reason := v.say(ops.Reason{Kind: ops.WhyPassed, Level: p.Level, Text: p.Reason})
		step.Events = append(step.Events, v.event(ops.LevelInfo, ops.VerbRecoveryPassed, reason))
	}
	return step
}

// attemptAgain queues the attempt that the ladder orders: at the same tier, with the same permissions.
func attemptAgain(v view, f recovery.Failure, class recovery.Class, move recovery.Move) ops.Step {
	handler := v.worker()
	session := &ops.NewSession{
		ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
		Handler: handler, ContextMode: v.last.ContextMode, Level: move.Level,
	}
	switch move.Level {
	case ops.RecoveryNudge:
		session.ContextMode = ops.ContextResume
	case ops.RecoveryReplan:
		session.ContextMode = v.ladder().freshContext()
		if planner, ok := v.policy.Handler(move.Planner); ok {
			session = v.consults().askPlanner(planner)
		}
	case ops.RecoveryFallback:
		other, _ := v.policy.Handler(move.Handler)
		other.Tier, other.Permissions = v.last.Tier, v.last.May()
		session.Handler, session.ContextMode = other, v.ladder().freshContext()
	case ops.RecoveryRetry, ops.RecoveryNone, ops.RecoveryForceDone:
	}
	r := v.ladder().row(f, class, move)
	reason := move.Reason
	step := ops.Step{
		Kind: ops.StepQueue, Reason: reason, Session: session, Recovery: &r,
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbRecoveryBegun, reason)},
	}
	if approach := summary(*v.last); move.Level == ops.RecoveryReplan && approach != "" {
		l := v.ladder()
		step.Lessons = l.lessons(lessonKnownBadPath, fmt.Sprintf("This did not help (%s): %s", l.whyItFailed(*v.last), approach))
	}
	return step
}

// freshContext is how a new conversation at the last session's place gets its facts.
func (v ladder) freshContext() ops.ContextMode {
	if v.last.ParentID == nil {
		return ops.ContextFresh
	}
	return ops.ContextHandoff
}

func (v ladder) row(f recovery.Failure, class recovery.Class, move recovery.Move) ops.Recovery {
	r := move.Record(f, class, v.journal.Recoveries, v.now)
	r.CycleID = v.cycle.ID
	return r
}

func (v ladder) failure() recovery.Failure { return v.failureOf(*v.last) }

// failureOf is what is known of a session's failure, from the agent's side alone. It is the same when the next attempt
// is told of it as it was when the attempt was ordered.
func (v ladder) failureOf(s ops.Session) recovery.Failure {
	effects, known := v.journal.Effects[s.ID]
	f := recovery.Failure{
		Session: s.ID, Tier: s.Tier, Handler: s.Handler, Family: s.Family, Model: s.Model,
		ExitCode: s.ExitCode, StopCause: s.StopCause, Class: s.Failure, APIStatus: s.APIStatus, Error: s.Error,
		OpenTool: s.OpenTool, RetryAfter: s.RetryAfter, Interrupted: s.Status == ops.SessionInterrupted,
		// Without a record of what it was allowed, a tier that may repair may have repaired.
		Mutating: effects.Mutating || (!known && s.May() > ops.Tier1 && (s.ExitCode != nil || s.Status == ops.SessionInterrupted)),
	}
	for _, g := range effects.Done {
		f.Started = append(f.Started, ops.Prose(g.Input))
	}
	for _, g := range effects.Denied {
		f.Denials = append(f.Denials, recovery.Denial{Tool: g.Tool, Rule: g.Rule, Reason: g.Reason})
	}
	if s.StopCause == ops.StopLoop {
		f.Loop = &recovery.Loop{Count: s.LoopCount, Level: loop.Level(s.LoopCount), Call: s.LoopCall}
	}
	for _, c := range v.badAfter(s) {
		if !slices.Contains(f.ProbeRed, c.Service) {
			f.ProbeRed = append(f.ProbeRed, c.Service)
		}
	}
	v.problems(s, &f)
	if r, ok := v.verdictOn(s); ok {
		f.Judge = &r
	}
	return f
}

// problems adds what was wrong with what the session said.
func (v ladder) problems(s ops.Session, f *recovery.Failure) {
	if s.Outcome == ops.OutcomeInconclusive {
		f.Outcome = recovery.OutcomeMissing
		if len(s.OutcomeJSON) > 0 || s.Proposed() {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, s.Error)
		}
	}
	for _, d := range v.journal.Decisions {
		if d.SessionID == s.ID && d.Verdict == ops.VerdictRefused {
			f.Outcome = recovery.OutcomeInvalid
			f.OutcomeProblems = append(f.OutcomeProblems, d.Reason)
		}
	}
}

// forceDone ends the cycle with what there is, and says what a human should do about the rest.
func forceDone(v view, f recovery.Failure, class recovery.Class, move recovery.Move) ops.Step {
	move.Level, move.Action = ops.RecoveryForceDone, ops.ActionForceDone
	ending := recovery.Finish(recovery.Facts{
		Failure: f, Class: class, Move: move, History: v.journal.Recoveries, Completed: v.ladder().completed(),
		Down: v.proof().stillDown(), Budget: v.reached(*v.last),
		StillBad: v.proof().stillBad(*v.last),
	})
	level := ops.LevelWarning
	if v.last.Tier > ops.Tier1 || len(v.proof().stillDown()) > 0 || v.last.StopCause == ops.StopInvariant {
		level = ops.LevelCritical
	}
	p := problem{kind: ops.ProblemUnfinished, level: level, reason: ending.FailureReason, todo: ending.Recommendation}
	step := finishForHuman(v, ops.CyclePartial, p)
	r := v.ladder().row(f, class, move)
	step.Recovery = &r
	step.Lessons = v.ladder().lessonOf(f, class)
	raw, err := ending.Encode()
	if err != nil {
		reason := v.say(ops.Reason{Kind: ops.WhyBadSchema, Text: err.Error()})
		step.Events = append(step.Events, v.event(ops.LevelCritical, ops.VerbRecoveryPassed, reason))
	}
	step.Result = raw
	if v.ladder().notSetUp(class) {
		step.Incident = nil // it is about no service; the notice and the list of the set-up say what to do
	}
	// That the agents fail was told by the cycle before; what is wrong with a service was not.
	if level == ops.LevelCritical || len(v.services()) > 0 || !v.ladder().failedBefore() {
		told := v.human().told(ops.MessagePartial, p)
		told.Tier, told.Done = v.last.Tier, ending.CompletedSteps
		step = notifyOnce(v, step, v.notice(ops.NoticePartial, level, told))
	}
	return step
}

// unseen: no agent delivered anything, and probes can look at everything that was found bad.
func (v ladder) unseen() bool {
	services := v.services()
	return len(services) > 0 && len(v.verifiable()) == len(services) &&
		!slices.ContainsFunc(v.journal.Sessions, func(s ops.Session) bool {
			return s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive
		})
}

// recoveredUnseen ends a cycle whose services recovered while no agent could look. Nobody is called for what is over, and people hear
// once that the agents fail.
func recoveredUnseen(v view, f recovery.Failure, class recovery.Class, move recovery.Move) ops.Step {
	step := forceDone(v, f, class, move)
	reason := v.say(ops.Reason{Kind: ops.WhyRecoveredUnseen, Services: v.services(), Text: step.Reason})
	step.Incident, step.Notices, step.Lessons = nil, nil, nil
	step.Reason, step.Events = reason, []ops.Event{v.event(ops.LevelWarning, ops.VerbCycleResolved, reason)}
	step.Recovered = v.proof().repaired(ops.ProbeRecheck, ops.ProofProbe, reason)
	if !v.ladder().failedBefore() {
		step.Notices = []ops.Notice{v.notice(ops.NoticePartial, ops.LevelInfo, v.human().toldOf(ops.MessageUnseen, reason))}
	}
	return step
}

// notSetUp: there is no agent or no valid key, no service is known to be bad, and no cycle has ever worked.
func (v ladder) notSetUp(class recovery.Class) bool {
	worked := slices.ContainsFunc(v.journal.Sessions, func(s ops.Session) bool { return s.Status == ops.SessionCompleted }) ||
		slices.ContainsFunc(v.journal.Before, func(e ops.Ending) bool { return e.Status != ops.CycleFailed && e.Status != ops.CyclePartial })
	return !worked && len(v.services()) == 0 && (class.ErrorType == recovery.TypeUnavailable || class.ErrorType == recovery.TypeCredentials)
}

// failedBefore: nobody watches while Tier 1 cannot look; said once, not every hour.
func (v ladder) failedBefore() bool {
	return len(v.journal.Before) > 0 && slices.Contains([]ops.CycleStatus{ops.CycleFailed, ops.CyclePartial}, v.journal.Before[0].Status)
}

// completed lists what was done, from what was recorded and measured and not from what was claimed.
func (v ladder) completed() []string {
	var out []string
	for _, s := range v.journal.Sessions {
		if s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive && !v.proof().isRefuted(s) {
			out = append(out, v.say(ops.Reason{Kind: ops.WhySessionEnded, Session: &s}))
		}
		for _, g := range v.journal.Effects[s.ID].Done {
			out = append(out, v.say(ops.Reason{Kind: ops.WhyWasAllowed, Session: &s, Guard: g}))
		}
	}
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeVerify && c.Status == ops.Healthy {
			out = append(out, v.say(ops.Reason{Kind: ops.WhyProbeHealthy, Text: c.Service}))
		}
	}
	return out
}

// interruptedWithoutRecovery: without a ladder Tier 1 is run again once, because it only looks, and a repair is not repeated.
func interruptedWithoutRecovery(v view) ops.Step {
	if v.last.Tier == ops.Tier1 && v.last.RetryOf == nil {
		reason := v.say(ops.Reason{Kind: ops.WhyInterrupted, Session: v.last, Again: true})
		return ops.Step{
			Kind: ops.StepQueue, Reason: reason,
			Session: &ops.NewSession{
				ParentID: v.last.ParentID, RetryOf: &v.last.ID, Attempt: v.attempt(v.last.Tier),
				Handler: v.worker(), ContextMode: v.last.ContextMode,
			},
			Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbSessionInterrupted, reason)},
		}
	}
	return giveUp(v, v.say(ops.Reason{Kind: ops.WhyInterrupted, Session: v.last}), ops.LevelCritical)
}

func failedWithoutRecovery(v view) ops.Step {
	why, level := ops.WhyFailed, ops.LevelWarning
	if v.inconclusive() && !v.failed() {
		why = ops.WhyInconclusive
	}
	if v.last.Tier > ops.Tier1 || v.last.StopCause == ops.StopInvariant {
		// Something is known to be broken by now, and the repair did not come to its end; or the agent has got past its gates.
		level = ops.LevelCritical
	}
	return giveUp(v, v.say(ops.Reason{Kind: why, Session: v.last}), level)
}

// giveUp ends a cycle where there is no ladder. What is known to be bad is an incident: nobody else has it in hand.
func giveUp(v view, reason string, level ops.Level) ops.Step {
	if level != ops.LevelCritical && len(v.services()) == 0 {
		step := finish(ops.CycleFailed, reason, v.event(level, ops.VerbSessionFailed, reason))
		if !v.ladder().failedBefore() {
			step.Notices = []ops.Notice{v.notice(ops.NoticeFailed, level, v.human().toldOf(ops.MessageCannotCheck, reason))}
		}
		return step
	}
	p := v.human().problem(ops.ProblemUnfinished, level, reason)
	return handOver(v, ops.CycleFailed, p, ops.NoticeFailed, ops.MessageUnfinished)
}

// refutedWithoutRecovery: a claim that does not hold needs a human where there is no ladder.
func refutedWithoutRecovery(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyRefuted, Session: v.last, Checks: v.badAfter(*v.last)})
	p := v.human().problem(ops.ProblemRefuted, ops.LevelCritical, reason)
	return handOver(v, ops.CycleNeedsHuman, p, ops.NoticeNeedsHuman, ops.MessageRefuted)
}

// The categories of what the supervisor itself wants remembered.
const (
	lessonRootCause      = "root_cause"
	lessonKnownBadPath   = "known_bad_path"
	lessonAgentFailure   = "agent_failure"
	lessonUnknownFailure = "new_classification"
)

// lessons keeps something for later sessions, once for each affected service.
func (v ladder) lessons(category, observation string) []ops.Lesson {
	services := v.services()
	if len(services) == 0 {
		services = []string{""}
	}
	var out []ops.Lesson
	for _, s := range services {
		out = append(out, CleanLesson(ops.Lesson{Category: category, Service: s, Observation: observation}))
	}
	return out
}

// lessonOf is what a cycle that ends without success teaches. A failure of the agent itself says nothing about a service.
func (v ladder) lessonOf(f recovery.Failure, class recovery.Class) []ops.Lesson {
	text := fmt.Sprintf("%s: %s", class.ErrorType, v.whyItFailed(*v.last))
	switch {
	case class.ErrorType == recovery.TypeUnknown:
		return []ops.Lesson{CleanLesson(ops.Lesson{Category: lessonUnknownFailure, Observation: text})}
	case recovery.AgentFailure(class.ErrorType):
		return []ops.Lesson{CleanLesson(ops.Lesson{Category: lessonAgentFailure, Observation: text})}
	case len(f.Started) > 0:
		text += ". Tried: " + strings.Join(f.Started, "; ")
	case summary(*v.last) != "":
		text += ". Tried: " + ops.Said("agent", summary(*v.last))
	}
	return v.lessons(lessonRootCause, text)
}

// numbered are the numbers that mean nothing to a later session and make two equal lessons look different.
var numbered = regexp.MustCompile(`(?i)\b(session|cycle|incident)s? #?\d+( \(tier \d\))?`)

// CleanLesson removes the numbers of sessions, cycles and incidents from a lesson.
func CleanLesson(l ops.Lesson) ops.Lesson {
	l.Observation = numbered.ReplaceAllStringFunc(l.Observation, func(found string) string {
		word, _, _ := strings.Cut(strings.ToLower(found), " ")
		if word == "incident" {
			return "an earlier incident"
		}
		return "an earlier " + strings.TrimSuffix(word, "s")
	})
	return l
}

// offer is what another attempt could be.
func (v ladder) offer() recovery.Offer {
	handler, _ := v.policy.Handler(v.last.Handler)
	return recovery.Offer{
		CanResume: v.last.CLISessionID != "" && !v.onAnotherHost(v.last) &&
			v.contextUse() <= int64(v.policy.ContextThreshold*float64(v.window(v.last.Model))),
		EarlierTime: v.earlierRecovery(),
		Planner:     v.policy.Planner, Fallbacks: v.fallbacks(handler), Seed: recovery.Seed(int64(v.cycle.ID), v.last.Attempt),
	}
}

// earlierRecovery is how long earlier tiers of this cycle took to recover.
func (v ladder) earlierRecovery() time.Duration {
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
func (v ladder) fallbacks(handler ops.Handler) []string {
	for s := v.last; s != nil && len(handler.Fallback) == 0 && s.RetryOf != nil; {
		if s = v.journal.Session(*s.RetryOf); s != nil {
			handler, _ = v.policy.Handler(s.Handler)
		}
	}
	return handler.Fallback
}

// failureReport is what the next attempt has to know of the ones before it.
func (v ladder) failureReport(s ops.Session) recovery.Told {
	f := v.failureOf(s)
	told := recovery.Told{Failure: f, Class: recovery.Classify(f)}
	for _, o := range v.journal.Sessions {
		if !o.Works() || o.Tier != s.Tier || !o.Status.Ended() || o.ID > s.ID {
			continue
		}
		t := recovery.Tried{Session: o.ID, Handler: o.Handler, Model: o.Model, Failed: v.whyItFailed(o)}
		t.Approach = summary(o)
		for _, g := range v.journal.Effects[o.ID].Done {
			t.Actions = append(t.Actions, g.Input)
		}
		told.Tried = append(told.Tried, t)
	}
	for _, c := range v.journal.Checks {
		told.Known = append(told.Known, strings.TrimSpace(fmt.Sprintf("%s: %s is %s %s", c.Purpose, c.Service, c.Status, c.Error)))
	}
	return told
}

// whyItFailed says in a few words why a session did not help.
func (v ladder) whyItFailed(s ops.Session) string {
	f := v.failureOf(s)
	switch {
	case len(f.ProbeRed) > 0:
		return "it said all was well, but probes still find " + v.proof().stillBad(s)
	case f.Judge != nil && f.Judge.Verdict == judge.Fail:
		r, _ := v.verdictOn(s)
		text := "it said all was well, but the judge gives it only " + scores(r) + "."
		if len(r.FailureReasons) > 0 {
			text += " And " + ops.Said("judge", strings.Join(r.FailureReasons, "; "))
		}
		return text
	case s.Outcome == ops.OutcomeResolved && len(v.refusedCalls(s)) > 0:
		return "it said all was well, but the guard refused what it tried: " + refusals(v.refusedCalls(s))
	case doubted(s):
		return v.say(ops.Reason{Kind: ops.WhyUnsure, Session: &s})
	case s.Error != "":
		return s.Error
	case len(f.OutcomeProblems) > 0:
		return f.OutcomeProblems[0]
	}
	return ops.Spaced(s.Status)
}
