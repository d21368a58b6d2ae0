package health

import (
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// HeldByPerson returns a silence for an incident that a person has taken over or snoozed, or is asked about. A question of a cycle
// holds every other cycle, not that one; zero stands for no cycle.
func HeldByPerson(i ops.Incident, cycle ops.CycleID, now time.Time) (ops.Silence, bool) {
	q := ops.Silence{Incident: i.ID, Service: i.Service, From: i.OpenedAt, Until: now.Add(time.Hour), Author: i.AcknowledgedBy}
	switch {
	case i.Service == "" || i.ResolvedAt != nil:
		return q, false
	case i.Status == ops.IncidentSnoozed && i.Holds(now):
		q.Until, q.Reason = *i.SnoozedUntil, fmt.Sprintf("incident %d is snoozed", i.ID)
	case i.Holds(now):
		q.Reason = fmt.Sprintf("incident %d is handled by %s", i.ID, i.AcknowledgedBy)
	case i.Waiting != nil && *i.Waiting != cycle:
		q.Reason = fmt.Sprintf("cycle %d waits for an answer about incident %d", *i.Waiting, i.ID)
	default:
		return q, false
	}
	return q, true
}
