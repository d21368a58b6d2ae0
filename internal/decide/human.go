package decide

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/notice"
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
		r.Checks = v.badChecks(r.Services)
		r.Findings = summary(*v.last)
	}
	if len(r.Services) == 0 {
		r.Class = ops.ClassAgent // nothing is known to be wrong but the agent itself
	}
	r.Titles = titles(r)
	return r
}

// longestTitle limits the title of an incident.
const longestTitle = 160

// titles name the problem of each service by what its failing check says.
func titles(r ops.IncidentReport) map[string]string {
	out := map[string]string{}
	for _, c := range r.Checks {
		if c.Status == ops.Healthy || out[c.Service] != "" || !slices.Contains(r.Services, c.Service) {
			continue
		}
		what := []rune(ops.Prose(c.Error))
		if len(what) > longestTitle {
			what = append(what[:longestTitle-1], '…')
		}
		out[c.Service] = c.Service + ": " + string(what)
		if len(what) == 0 {
			out[c.Service] = c.Service + " is " + string(c.Status)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// badChecks are the last results of this cycle that found one of the services bad.
func (v view) badChecks(services []string) []ops.CheckResult {
	latest := map[string]ops.Check{}
	var order []string
	for _, c := range v.journal.Checks {
		key := c.Service + "\x00" + c.Probe
		if _, seen := latest[key]; !seen {
			order = append(order, key)
		}
		latest[key] = c
	}
	var out []ops.CheckResult
	for _, key := range order {
		if c := latest[key]; c.Status != ops.Healthy && slices.Contains(services, c.Service) {
			out = append(out, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
		}
	}
	return out
}

// handled is the incident of an outage that a tier takes over: it is open while the outage lasts, and calls nobody.
func (v view) handled(target ops.Handler, h *ops.Handoff) *ops.IncidentReport {
	r := v.report(problem{
		title: "down or degraded", level: ops.LevelWarning, facts: h,
		todo: fmt.Sprintf("nothing yet: %s (%s) works on it", target.Tier, target.ID),
	})
	if len(r.Services) == 0 {
		return nil
	}
	r.Handled = true
	return &r
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

// told is what a notice says of a problem. The notice alone is enough to start from: what is wrong, what to do, what is known.
func (v view) told(p problem) notice.Problem {
	r := v.report(p)
	out := notice.Problem{
		Services: r.Services, Todo: p.todo, Found: r.Findings, Tried: r.Tried, Why: p.reason, CostUSD: v.chainUSD(),
		Environment: v.cycle.Environment, Cycle: v.cycle.ID,
	}
	out.What = r.Reason
	for _, c := range r.Checks {
		if c.Status != ops.Healthy && out.What == "" && slices.Contains(r.Services, c.Service) {
			out.What = c.Error
		}
	}
	if out.What == "" {
		out.What = p.reason
	}
	return out
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
	case d.Check == "dry run":
		return fmt.Sprintf("repair %s by hand, or turn dry_run off and run a cycle", services)
	case d.Check == "held":
		return fmt.Sprintf("repair %s by hand, or end what holds it back and run a cycle", services)
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
			return i.ResolvedAt == nil && i.CalledAt != nil && i.Service == name && i.Class == r.Class && i.LastCycle != v.cycle.ID
		})
	})
}
