package notice

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// What people and agents read about reflexes: what the supervisor does without an agent.

// ReflexHeading names the incident of an outage for which a reflex is done.
const ReflexHeading = "down or degraded"

// ReflexWorks is what a human should do while a reflex is done.
const ReflexWorks = "nothing yet: the supervisor does what its reflex says"

// ReflexAnswer is what a human should do about the question.
func ReflexAnswer(r ops.Reflex) string { return "approve or deny " + r.Words() }

// Why a reflex is not done.
const (
	ReflexDryRun     = "this is a dry run"
	ReflexUnanswered = "nobody answered the question"
)

// ReflexTrust says that the trust in the service is too low.
func ReflexTrust(t ops.Trust) string { return "trust is " + t.String() }

// ReflexUnknown says that the service does not have the action any more.
func ReflexUnknown(r ops.Reflex, action string) string {
	return fmt.Sprintf("%s has no action %s any more", r.Service, action)
}

// ReflexTooHigh says that the maximum tier does not permit the action.
func ReflexTooHigh(action string, needs, most ops.Tier) string {
	return fmt.Sprintf("%s needs %s, and max_tier is %d", action, needs, most)
}

// ReflexChanged says that the action is not what a person said yes to.
func ReflexChanged(action string) string {
	return action + " is configured differently since a person switched the reflex on"
}

// ReflexSpent says that the service does not stay repaired.
func ReflexSpent(r ops.Reflex, times int, within time.Duration) string {
	return fmt.Sprintf("%s was done %d times in %s, and it does not hold", strings.Join(r.Do, ", "), times, ops.Span(within))
}

// ReflexInterrupted says that a reflex was cut off.
func ReflexInterrupted(r ops.ActionRun) string {
	return fmt.Sprintf("%s of %s, a reflex, was running when its supervisor ended; it is not repeated", r.Action, r.Service)
}

// ReflexAsks asks for a reflex.
func ReflexAsks(r ops.Reflex, does []string) string {
	return fmt.Sprintf("the reflex %s needs a yes: %s", r.Words(), strings.Join(does, "; "))
}

// MayReflex asks a person whether a reflex may be done.
func MayReflex(p Problem, r ops.Reflex, expires, now time.Time) Text {
	how := "page Incidents, or claudeops approvals list; without an answer it is not done"
	if !expires.IsZero() {
		how = fmt.Sprintf("by %s (in %s): %s", stamp(expires), ops.Span(expires.Sub(now)), how)
	}
	return textOf(
		title("Your approval is needed"),
		body(p.question(fmt.Sprintf("May the supervisor do %s?", r.Words())), append([]fact{{"Answer", how}}, p.facts()...)...),
	)
}

// ReflexStep says that an action of a reflex is done.
func ReflexStep(r ops.Reflex, step int) string {
	from := "of the configuration"
	if r.ID != 0 {
		from = fmt.Sprintf("%d, which was earned", r.ID)
	}
	return fmt.Sprintf("%s of %s by the reflex %s: its %s probe finds it %s", r.Do[step-1], r.Service, from, r.On, r.Status)
}

// ReflexVerifies says that probes check whether a reflex helped.
func ReflexVerifies(services []string) string {
	return "probes check whether the reflex helped: " + strings.Join(services, ", ")
}

// RepairedByReflex says that a reflex helped.
func RepairedByReflex(runs []ops.ActionRun, checks int) string {
	var did []string
	for _, r := range runs {
		did = append(did, r.Action+" of "+r.Service)
	}
	return fmt.Sprintf("resolved by reflex, without an agent: %s; %s", And(did), healthyChecks(checks))
}

// RecoveredBesideReflex says that services are well although the reflex was not done.
func RecoveredBesideReflex(checks int) string {
	return "recovered without the reflex, which failed; confirmed by probes: " + healthyChecks(checks)
}

// ReflexWaits says that a reflex is not due yet.
func ReflexWaits(r ops.Reflex, due time.Time) string {
	return fmt.Sprintf("the reflex %s is due at %s, if it still fails then", r.Words(), At(due))
}

// ReflexFailed says why an earned reflex is switched off.
func ReflexFailed(r ops.Reflex, c ops.CycleID) string {
	return fmt.Sprintf("reflex %d (%s) did not help in cycle %d; it is off until a person switches it on again", r.ID, r.Words(), c)
}

// ReflexDid says what came of an action of a reflex.
func ReflexDid(r ops.ActionRun) string {
	what := fmt.Sprintf("%s of %s (%s)", r.Action, r.Service, line(r.Does, longestFact))
	if r.StartedAt != nil {
		what += " at " + At(*r.StartedAt)
	}
	switch r.Status {
	case ops.ActionDone:
		what += " was done"
	case ops.ActionUndone:
		what += " made things worse and was undone"
	case ops.ActionRefused:
		return what + " was not done: " + line(r.Error, longestFact)
	case ops.ActionFailed, ops.ActionInterrupted, ops.ActionRequested, ops.ActionStarted:
		what += fmt.Sprintf(" %s: %s", r.Status, line(r.Error, longestFact))
	}
	for _, h := range r.After {
		if h.Service == r.Service {
			what += strings.TrimRight(fmt.Sprintf("; afterwards it was %s %s", h.Status, line(h.Error, longestFact)), " ")
		}
	}
	return what
}

// ReflexNotDone says why a reflex was not done.
func ReflexNotDone(r ops.Reflex, why string) string {
	return fmt.Sprintf("the reflex %s was not done: %s", r.Words(), why)
}

// StartsAfter says that the first session starts although there are reflexes.
func StartsAfter(h ops.Handler, story []string) string {
	return Starts(h) + ", because reflexes did not repair it: " + strings.Join(story, "; ")
}

// ByReflex is what the end of a cause says if a reflex was done for it.
func (Rows) ByReflex(actions []string, proven bool) string {
	what := "A reflex was done before (%s), and its own check is not finished. No agent has started."
	if proven {
		what = "A reflex repaired it (%s). No agent was started."
	}
	return fmt.Sprintf(what, strings.Join(actions, ", "))
}

// ReflexEarned asks whether what has helped several times becomes a reflex.
func (Rows) ReflexEarned(r ops.Earned) Text {
	what := fmt.Sprintf("%s repaired it each time, in %s, and probes confirmed it.", r.Words(), And(inCycles(r.Cycles)))
	return textOf(
		title("Make this a reflex? "+r.Words()),
		body(fmt.Sprintf("Make this a reflex? %s %s", r.Case(), what),
			fact{"Yes", fmt.Sprintf("page of %s, or claudeops reflexes enable %d: from then on the supervisor does it without an agent",
				r.Service, r.ID)},
			fact{"No", fmt.Sprintf("claudeops reflexes disable %d, or no answer; you are asked once", r.ID)}),
	)
}

func inCycles(ids []ops.CycleID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprintf("cycle %d", id))
	}
	return out
}

// ReflexUndone says why an earned reflex is switched off: what it consists of was undone.
func (Rows) ReflexUndone(run ops.ActionRun) string {
	return fmt.Sprintf("%s of %s (action %d) was undone", run.Action, run.Service, run.ID)
}
