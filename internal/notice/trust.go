package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

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
