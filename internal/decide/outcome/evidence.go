package outcome

import (
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
)

// refuseContradictions refuses a claim that all is well beside a check that says otherwise.
func refuseContradictions(object map[string]any, report *handoff.Report) {
	kind := kindOf(object)
	if kind != ops.OutcomeHealthy && kind != ops.OutcomeResolved {
		return
	}
	results, _ := object["check_results"].([]any)
	for i, result := range results {
		check, _ := result.(map[string]any)
		if ops.Health(text(check["status"])) == ops.Down {
			report.Refuse([]string{"check_results", strconv.Itoa(i), "status"},
				"is down, which contradicts the outcome %s; report the state at the end of the session, or another outcome", kind)
		}
	}
}

// warnUnfounded warns of services that are handed over without a check that found them wrong.
func warnUnfounded(o ops.Outcome, report *handoff.Report) {
	if o.Handoff == nil {
		return
	}
	results := slices.Concat(o.CheckResults, o.Handoff.CheckResults)
	wrong := make(map[string]bool, len(results))
	for _, r := range results {
		if r.Status != ops.Healthy {
			wrong[plainName(r.Service)] = true
		}
	}
	for i, service := range o.Handoff.ServicesAffected {
		if !wrong[plainName(service)] {
			report.Warn([]string{"handoff", "services_affected", strconv.Itoa(i)},
				"no check result shows %.80q degraded or down", service)
		}
	}
}

func plainName(service string) string { return strings.ToLower(strings.TrimSpace(service)) }
