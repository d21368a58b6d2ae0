package notice

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Distrusted says what a level of trust keeps agents from.
func Distrusted(t ops.Trust) string {
	if t == ops.TrustWatch {
		return "its trust is watch, so no agent looks at it"
	}
	return fmt.Sprintf("its trust is %s, so agents look and propose, and change nothing", t)
}

// RaiseTrust is what a human should do about services that no agent may repair.
func RaiseTrust(services []string, to ops.Trust) string {
	var raise []string
	for _, s := range services {
		raise = append(raise, fmt.Sprintf("claudeops trust %s %s", s, to))
	}
	return fmt.Sprintf("repair %s by hand, or raise its trust (%s) and run a cycle", ops.Listed(services), strings.Join(raise, "; "))
}

// ResumeOrRepair is what a human should do about services that no agent repairs because everything is stopped.
func ResumeOrRepair(services []string) string {
	return fmt.Sprintf("repair %s by hand, or 'claudeops resume' and then 'claudeops run'", ops.Listed(services))
}

// WithPlan adds what the agent proposes to what a human should do.
func WithPlan(todo string, plan []ops.ApprovedStep) string {
	if len(plan) == 0 {
		return todo
	}
	return todo + "; the agent proposes: " + planned(plan)
}

// LeftToPeople tells of an outage that no agent may repair, with what an agent proposes.
func LeftToPeople(p Problem, plan []ops.ApprovedStep) Text {
	heading := "Needs you: no agent may repair it"
	if len(plan) == 0 {
		return p.text(heading)
	}
	return p.text(heading, fact{"Proposed", planned(plan)})
}

// planned names the steps of a plan.
func planned(plan []ops.ApprovedStep) string {
	var steps []string
	for _, s := range plan {
		steps = append(steps, fmt.Sprintf("%s of %s", s.Action, s.Service))
	}
	return And(steps)
}

// RefutedClaim says why a service is trusted less: a probe refutes what a session claims.
func RefutedClaim(s ops.Session, c ops.Check) string {
	return fmt.Sprintf("%s said that it is repaired, and a probe still finds it %s", s.Tier, c.Status)
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
