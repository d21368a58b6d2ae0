package decide

import (
	"slices"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// What proves that a problem is over. A probe proves the repair of what it saw fail; a judge or a person proves what they looked at; a
// report of another session ends what it names. Everything else stays unverified.

// ours are the services of this cycle without those that are held back. Routing, context, verification and incidents are about these.
// Where all are held back, nothing was worked on, and all are meant.
func (v view) ours() []string { return v.withoutHeld(v.affected()) }

func (v view) withoutHeld(services []string) []string {
	held := v.held()
	var out []string
	for _, s := range services {
		name, _ := v.policy.Inventory.Canonical(s)
		if !slices.ContainsFunc(held, func(h escalation.Held) bool { return h.Service == name }) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return services
	}
	return out
}

// proven reports whether probes that ran for a purpose after the last session prove that a service was repaired: each is healthy, and
// one of them looks at what was wrong. A probe that was healthy all the time proves nothing, and neither does any while a container or a
// unit of the service does not run: something else may answer it.
func (v view) proven(service string, purpose ops.ProbePurpose) bool {
	if slices.ContainsFunc(v.notRunning(), func(c ops.Check) bool { return c.Service == service }) {
		return false
	}
	looked := false
	for _, c := range v.checks(purpose, v.last.ID) {
		if c.Service != service {
			continue
		}
		if v.policy.Bad(c) {
			return false
		}
		looked = looked || v.wasBad(c)
	}
	return looked
}

// allProven reports whether probes prove it of every service that the cycle works on.
func (v view) allProven(purpose ops.ProbePurpose) bool {
	services := v.ours()
	return len(services) > 0 && !slices.ContainsFunc(services, func(s string) bool { return !v.proven(s, purpose) })
}

// wasBad reports whether what a check looks at was found bad before: by a probe in this cycle or when the open incident was reported,
// or by an agent with a check of the same type.
func (v view) wasBad(c ops.Check) bool {
	for _, k := range v.journal.Checks {
		if k.Service == c.Service && k.Purpose != ops.ProbeAlert && k.Purpose != ops.ProbeRunning && v.policy.Bad(k) {
			return true
		}
	}
	for _, i := range v.journal.Incidents {
		if i.Service == c.Service && i.ProbeFailedAt != nil {
			return true
		}
	}
	for _, s := range v.journal.Sessions {
		if h := proposed(s); h != nil && slices.ContainsFunc(h.CheckResults, func(r ops.CheckResult) bool {
			name, _ := v.policy.Inventory.Canonical(r.Service)
			return name == c.Service && r.CheckType == c.Type && r.Status != ops.Healthy
		}) {
			return true
		}
	}
	return false
}

// repaired ends the incidents of services for which a repair is claimed: by probes those of a service that they prove repaired, by
// another proof those on which this cycle worked. What nothing proves becomes unverified.
func (v view) repaired(purpose ops.ProbePurpose, proof ops.Proof, how string) []ops.Recovered {
	services := v.ours()
	var out []ops.Recovered
	for _, i := range v.incidents() {
		if !slices.Contains(services, i.Service) || i.Class == ops.ClassAlert {
			continue // an alert ends by itself
		}
		r := ops.Recovered{Incident: i.ID, By: proof, How: how}
		switch byProbe := v.proven(i.Service, purpose); {
		case byProbe && (i.Own || i.ProbeFailedAt != nil):
			if proof == ops.ProofNone {
				r.By = ops.ProofProbe
			}
		case !i.Own, proof == ops.ProofProbe:
			continue
		}
		out = append(out, r)
	}
	return out
}

// foundWell ends the incidents that probes or the report of the last session refute. A session that does not say what it checked ends
// none, and none ends what it reported itself.
func (v view) foundWell() []ops.Recovered {
	well, bad := map[string][]ops.CheckType{}, map[string]bool{}
	if v.last != nil {
		for _, c := range v.last.Reported() {
			name, _ := v.policy.Inventory.Canonical(c.Service)
			if c.Status == ops.Healthy {
				well[name] = append(well[name], c.CheckType)
			} else {
				bad[name] = true
			}
		}
	}
	reported := func(name string) bool { return len(well[name]) > 0 && !bad[name] }
	var out []ops.Recovered
	for _, i := range v.incidents() {
		switch same := i.Check == "" || slices.Contains(well[i.Service], ops.CheckType(i.Check)); {
		case i.Class == ops.ClassAlert: // an alert ends by itself
		case i.ProbeFailedAt != nil && v.green(i.Service):
			out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofProbe, How: notice.FoundByProbes(v.cycle.ID)})
		case i.Own:
		case i.Class == ops.ClassEnvironment:
			known, err := i.Known()
			if err == nil && len(known.Unlisted) > 0 && !slices.ContainsFunc(known.Unlisted, func(name string) bool { return !reported(name) }) {
				out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: notice.FoundByCycle(v.cycle.ID)})
			}
		case reported(i.Service) && (same || i.UnverifiedAt != nil):
			out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: notice.FoundByCycle(v.cycle.ID)})
		}
	}
	return out
}

// green reports whether every probe of a service was healthy when it last looked in this cycle.
func (v view) green(service string) bool {
	last := map[string]ops.Check{}
	for _, c := range v.journal.Checks {
		if c.Service == service && c.Purpose != ops.ProbeAlert && c.Purpose != ops.ProbeRunning {
			last[c.Probe] = c
		}
	}
	for _, c := range last {
		if v.policy.Bad(c) {
			return false
		}
	}
	return len(last) > 0
}

// incidents are the open ones about what is looked after.
func (v view) incidents() []ops.Incident {
	return slices.DeleteFunc(slices.Clone(v.journal.Incidents), func(i ops.Incident) bool { return i.ResolvedAt != nil || i.OfAgent() })
}

// closedBy is who closed the incidents that the cycle waited for: a person, or the supervisor because of probes or a report.
func (v view) closedBy() ops.Proof {
	proof := ops.ProofProbe
	for _, i := range v.awaited() {
		switch {
		case i.ResolvedBy != ops.Supervisor:
			return ops.ProofHuman
		case i.ProbeFailedAt == nil:
			proof = ops.ProofNone
		}
	}
	return proof
}
