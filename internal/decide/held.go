package decide

import (
	"slices"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// held lists the services that a human has taken over, put off, said no about or is asked about by another cycle. What this cycle asked
// itself never holds it, and its approval counts over what was said before it.
func (v view) held() []escalation.Held {
	var out []escalation.Held
	for _, i := range v.incidents() {
		own := i.Waiting != nil && *i.Waiting == v.cycle.ID
		why := ""
		switch {
		case own && v.approvedSince(i):
		case i.Status == ops.IncidentAcknowledged:
			why = notice.Acknowledged(i)
		case i.Holds(v.now):
			why = notice.Snoozed(i)
		case i.Waiting != nil && !own:
			why = notice.AwaitsHuman(i)
		}
		for _, name := range namedBy(i) {
			if why != "" {
				out = append(out, escalation.Held{Service: name, Why: why})
			}
		}
	}
	return slices.Concat(out, v.silenced(), v.refusedServices())
}

// namedBy lists what an incident is about: its service, or the names of no inventory. Without any name it holds nothing back.
func namedBy(i ops.Incident) []string {
	if i.Service != "" {
		return []string{i.Service}
	}
	known, err := i.Known()
	if err != nil {
		return nil
	}
	return known.Unlisted
}

// flaps: a service is held back because it flaps, and for no other reason. Nobody has decided that, so nobody knows of it.
func (v view) flaps() bool {
	holds := map[string]int{}
	for _, h := range v.held() {
		holds[h.Service]++
	}
	return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool { return w.Why == ops.HoldFlapping && holds[w.Service] == 1 })
}

// approvedSince: a person approved after the incident was last acknowledged or snoozed.
func (v view) approvedSince(i ops.Incident) bool {
	q := v.question()
	if q == nil || q.Status != ops.ApprovalApproved || q.AnsweredAt == nil {
		return false
	}
	said := i.UpdatedAt // a snooze has no time of its own
	if i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil {
		said = *i.AcknowledgedAt
	}
	return !i.Holds(v.now) || q.AnsweredAt.After(said)
}

// silenced lists the services that a silence, a maintenance or a failing dependency keeps from being worked on.
func (v view) silenced() []escalation.Held {
	var out []escalation.Held
	for _, s := range v.journal.Silences {
		if !s.Active(v.now) || len(s.Labels) > 0 || s.Probe != "" {
			continue // it is about a part of what is watched
		}
		for _, name := range v.affected() {
			if ops.MatchPattern(s.Service, name) && ops.MatchPattern(s.Group, v.group(name)) {
				out = append(out, escalation.Held{Service: name, Why: notice.Silenced(s)})
			}
		}
	}
	for _, w := range v.journal.Withheld {
		if w.Why.Inhibits() {
			out = append(out, escalation.Held{Service: w.Service, Why: w.Reason})
		}
	}
	return out
}

func (v view) group(service string) string {
	for _, s := range v.policy.Inventory.Services {
		if s.Name == service {
			return s.Group
		}
	}
	return ""
}
