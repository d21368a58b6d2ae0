package notice

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// What people and agents read about reflexes: what the supervisor does without an agent.

func ofReflexes() map[ops.ReasonKind]string {
	return map[ops.ReasonKind]string{
		ops.WhyReflexDryRun:     `this is a dry run`,
		ops.WhyReflexUnanswered: `nobody answered the question`,
		ops.WhyReflexTrust:      `trust is {{.Trust}}`,
		ops.WhyReflexUnknown:    `{{.Reflex.Service}} has no action {{.Text}} any more`,
		ops.WhyReflexTooHigh:    `{{.Text}} needs {{.Tier}}, and max_tier is {{printf "%d" .MaxTier}}`,
		ops.WhyReflexChanged:    `{{.Text}} is configured differently since a person switched the reflex on`,
		ops.WhyReflexSpent:      `{{list .Reflex.Do}} was done {{.Count}} times in {{span .Lasts}}, and it does not hold`,
		ops.WhyReflexInterrupted: `{{.Run.Action}} of {{.Run.Service}}, a reflex, was running when its supervisor ended; ` +
			`it is not repeated`,
		ops.WhyReflexAsks: `the reflex {{.Reflex.Words}} needs a yes: {{lines .Rest}}`,
		ops.WhyReflexStep: `{{act .Reflex .Step}} of {{.Reflex.Service}} by the reflex ` +
			`{{with .Reflex.ID}}{{.}}, which was earned{{else}}of the configuration{{end}}: ` +
			`its {{.Reflex.On}} probe finds it {{.Reflex.Status}}`,
		ops.WhyReflexVerifies:        `probes check whether the reflex helped: {{list .Services}}`,
		ops.WhyRepairedByReflex:      `resolved by reflex, without an agent: {{and .Rest}}; {{healthy .Count}}`,
		ops.WhyRecoveredBesideReflex: `recovered without the reflex, which failed; confirmed by probes: {{healthy .Count}}`,
		ops.WhyReflexWaits:           `the reflex {{.Reflex.Words}} is due at {{at .At}}, if it still fails then`,
		ops.WhyReflexFailed: `reflex {{.Reflex.ID}} ({{.Reflex.Words}}) did not help in cycle {{.Cycle}}; ` +
			`it is off until a person switches it on again`,
		ops.WhyReflexDid:     `{{did .Run}}`,
		ops.WhyReflexNotDone: `the reflex {{.Reflex.Words}} was not done: {{.Text}}`,
	}
}

// reflexDid says what came of an action of a reflex.
func reflexDid(r ops.ActionRun) string {
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
	what := fmt.Sprintf("%s repaired it each time, in %s, and probes confirmed it.", r.Words(), ops.And(inCycles(r.Cycles)))
	return textOf(
		title("Make this a reflex? "+r.Words()),
		body(fmt.Sprintf("Make this a reflex? %s %s", r.Case(), what),
			fact{"Yes", fmt.Sprintf("page of %s, or claudeops reflexes enable %d: from then on the supervisor does it without an agent",
				r.Service, r.ID)},
			fact{"No", fmt.Sprintf("claudeops reflexes disable %d, or no answer; you are asked once", r.ID)}),
	)
}

func inCycles(ids []ops.CycleID) []string {
	return ops.Map(ids, func(id ops.CycleID) string { return fmt.Sprintf("cycle %d", id) })
}

// ReflexUndone says why an earned reflex is switched off: what it consists of was undone.
func (Rows) ReflexUndone(run ops.ActionRun) string {
	return fmt.Sprintf("%s of %s (action %d) was undone", run.Action, run.Service, run.ID)
}

// DidNotLast says why a service is trusted less: its repair did not hold.
func (Rows) DidNotLast(c ops.Cycle) string {
	return fmt.Sprintf("the repair of cycle %d did not hold", c.ID)
}

// UndoneAction says why a service is trusted less.
func (Rows) UndoneAction(r ops.ActionRun) string { return fmt.Sprintf("%s was undone", r.Action) }

// GuardAlarm says why a service is trusted less.
func (Rows) GuardAlarm(e ops.Event) string {
	return "the guard stopped a session that worked on it: " + Words(e).Words()
}

// LessTrusted tells that the trust in a service was lowered, and how to raise it again.
func (Rows) LessTrusted(l ops.Lowered, before ops.Trust) Text {
	return Text{
		Title: fmt.Sprintf("%s is trusted less: %s", l.Service, l.Level),
		Body: fmt.Sprintf("Trust in %s went from %s to %s: %s.\nLook at what happened, then raise it again with: claudeops trust %s %s",
			l.Service, before, l.Level, l.Reason, l.Service, before),
	}
}
