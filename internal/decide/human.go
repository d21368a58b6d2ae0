package decide

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// problem is what a human has to know and do about the work of the last session.
type problem struct {
	title  string
	level  ops.Level
	reason string       // what the supervisor decided, and by which rule
	todo   string       // what the human should do
	facts  *ops.Handoff // what the agent handed up; nil: what its report says
}

// finishForHuman ends a cycle that a human has to finish.
func (v view) finishForHuman(status ops.CycleStatus, p problem) ops.Step {
	kind := ops.EventCycle
	if v.last.Proposed() {
		kind = ops.EventEscalation // it is what became of a proposal
	}
	step := v.finish(status, p.reason, v.event(p.level, kind, p.reason))
	report := v.report(p)
	step.Incident = &report
	return step
}

// report is what the incident says.
func (v view) report(p problem) ops.IncidentReport {
	r := ops.IncidentReport{
		Title: p.title, Level: p.level, Class: string(ops.Down), CostUSD: v.chainUSD(), Recommendation: p.todo, Reason: v.agentReason(p.facts),
	}
	if h := p.facts; h != nil {
		r.Services, r.Checks, r.Findings, r.Tried = h.ServicesAffected, h.CheckResults, h.InvestigationFindings, h.RemediationAttempted
	} else {
		r.Services = v.affected()
		r.Findings = summary(*v.last)
	}
	if len(r.Services) == 0 {
		r.Class = ops.ClassAgent // nothing is known to be wrong but the agent itself
	}
	return r
}

// agentReason is why the agent asks for help, in its own words, or the checks that made it ask.
func (v view) agentReason(h *ops.Handoff) string {
	if h == nil {
		return ""
	}
	switch {
	case h.Reason != "":
		return h.Reason
	case h.InvestigationFindings != "":
		return h.InvestigationFindings
	}
	var bad []string
	for _, c := range h.CheckResults {
		if c.Status != ops.Healthy {
			bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s is %s %s", c.Service, c.Status, c.Error)))
		}
	}
	return strings.Join(bad, "; ")
}

// body is the text of a notice. The notice alone is enough to start from: what is wrong, what to do, what is known.
func (v view) body(p problem) string {
	var b strings.Builder
	r := v.report(p)
	if why := v.agentReason(p.facts); why != "" {
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(r.Services, ", "), why)
	} else {
		b.WriteString(sentence(p.reason) + "\n")
	}
	if p.todo != "" {
		fmt.Fprintf(&b, "To do: %s\n", p.todo)
	}
	if h := p.facts; h != nil {
		fmt.Fprintf(&b, "\nAffected: %s\n", strings.Join(h.ServicesAffected, ", "))
		for _, c := range h.CheckResults {
			if c.Status != ops.Healthy {
				fmt.Fprintf(&b, "- %s %s: %s %s\n", c.Service, c.CheckType, c.Status, c.Error)
			}
		}
		if h.InvestigationFindings != "" {
			fmt.Fprintf(&b, "\nFindings: %s\n", h.InvestigationFindings)
		}
		if h.RemediationAttempted != "" {
			fmt.Fprintf(&b, "\nTried: %s\n", h.RemediationAttempted)
		}
		fmt.Fprintf(&b, "\nDecision: %s\n", sentence(p.reason))
	}
	b.WriteString(v.where())
	return b.String()
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// advice is what a human should do about a decision that ended or stopped the chain.
func (v view) advice(d ops.Decision) string {
	services := strings.Join(d.Services, ", ")
	if services == "" {
		services = strings.Join(v.affected(), ", ")
	}
	if services == "" {
		services = "the services"
	}
	switch {
	case d.Verdict == ops.VerdictApproval:
		return fmt.Sprintf("approve or deny that %s works on %s", d.TargetHandler, services)
	case d.Check == "maximum tier":
		return fmt.Sprintf("repair %s by hand, or raise max_tier (now %d) and run a cycle", services, v.policy.MaxTier)
	case d.Check == "cooldown":
		return fmt.Sprintf("repair %s by hand, or clear the rate limit with claudeops cooldowns clear and run a cycle", services)
	case d.Check == "budget":
		return fmt.Sprintf("repair %s by hand, or raise the budget and run a cycle", services)
	case d.Verdict == ops.VerdictRefused:
		return fmt.Sprintf("look at %s: the agent asked for help in a way that could not be accepted", services)
	}
	return fmt.Sprintf("repair %s by hand and resolve the incident", services)
}

// notifyOnce adds a notice unless people know about the problem already: what is open is reminded of, not repeated.
func (v view) notifyOnce(step ops.Step, n ops.Notice) ops.Step {
	if !v.known(step.Incident) {
		step.Notices = append(step.Notices, n)
	}
	return step
}

func (v view) known(r *ops.IncidentReport) bool {
	if r == nil || len(r.Services) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.Services, func(service string) bool {
		name, _ := v.policy.Inventory.Canonical(service)
		return !slices.ContainsFunc(v.journal.Incidents, func(i ops.Incident) bool {
			return i.ResolvedAt == nil && i.Service == name && i.Class == r.Class && i.LastCycle != v.cycle.ID
		})
	})
}

func (v view) where() string {
	name := fmt.Sprintf("Cycle %d", v.cycle.ID)
	if v.cycle.Problem != "" {
		name += " (`" + strings.ReplaceAll(v.cycle.Problem, "`", "'") + "`)" // as code: others may have written it
	}
	return fmt.Sprintf("\n%s, environment %s. Details: claudeops cycles show %d\n", name, v.cycle.Environment, v.cycle.ID)
}
