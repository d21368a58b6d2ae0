package handoff

import (
	"fmt"
	"slices"
	"strconv"

	"claudeops/internal/ops"
)

// CheckInventory replaces every alias by the service's own name and reports the services the inventory does not
// know: as errors where it is strict, else as warnings. Without configured services nothing is checked.
func CheckInventory(h ops.Handoff, inventory ops.Inventory) (ops.Handoff, Report) {
	var report Report
	if len(inventory.Services) == 0 {
		return h, report
	}
	canonical := func(name string, path ...string) string {
		own, known := inventory.Canonical(name)
		if known {
			return own
		}
		note := fmt.Sprintf("is no service of the inventory (is %s)", show(name))
		if inventory.Strict {
			report.Errors = append(report.Errors, Problem{Pointer: pointer(path), Message: note})
		} else {
			report.warn("%s: %s", pointer(path), note)
		}
		return name
	}
	services := make([]string, 0, len(h.ServicesAffected))
	for i, name := range h.ServicesAffected {
		own := canonical(name, "services_affected", strconv.Itoa(i))
		if !slices.Contains(services, own) { // two names of one service
			services = append(services, own)
		}
	}
	checks := slices.Clone(h.CheckResults)
	for i := range checks {
		checks[i].Service = canonical(checks[i].Service, "check_results", strconv.Itoa(i), "service")
	}
	h.ServicesAffected, h.CheckResults = services, checks
	report.boundWarnings()
	return h, report
}
