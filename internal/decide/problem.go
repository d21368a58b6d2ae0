package decide

import (
	"slices"

	"claudeops/internal/ops"
)

// Troubles returns the services that a session reported as not healthy, the affected ones first. Only a validated report counts, and
// a session that calls everything healthy reports none.
func Troubles(s ops.Session) []ops.Trouble {
	if !s.Works() || s.Status != ops.SessionCompleted {
		return nil
	}
	var affected []string
	var results []ops.CheckResult
	switch {
	case s.Outcome == ops.OutcomeHealthy, s.Outcome == ops.OutcomeResolved, s.Outcome == ops.OutcomeInconclusive:
		return nil
	case s.Proposal != nil && s.Proposal.Handoff != nil:
		affected, results = s.Proposal.Handoff.ServicesAffected, s.Proposal.Handoff.CheckResults
	case s.Report != nil:
		results = s.Report.CheckResults
	}
	var out []ops.Trouble
	for _, name := range affected {
		found := ops.Trouble{Service: name}
		if i := slices.IndexFunc(results, func(r ops.CheckResult) bool { return r.Service == name && r.Status != ops.Healthy }); i >= 0 {
			found.Status, found.Error = results[i].Status, results[i].Error
		}
		out = append(out, found)
	}
	for _, r := range results {
		if r.Status != ops.Healthy && !slices.Contains(affected, r.Service) {
			out = append(out, ops.Trouble{Service: r.Service, Status: r.Status, Error: r.Error})
		}
	}
	return out
}
