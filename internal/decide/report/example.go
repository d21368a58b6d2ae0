package report

import (
	_ "embed"

	"claudeops/internal/ops"
)

//go:embed example/handoff-tier1.json
var exampleTier1 string

//go:embed example/handoff-tier2.json
var exampleTier2 string

// OutcomeExample returns a valid outcome as a session of that tier would give it, for use in prompts and tests.
// It is empty for what a tier cannot say: Tier 1 repairs nothing, Tier 3 hands over to nobody, and healthy is the word of Tier 1 alone.
func OutcomeExample(tier ops.Tier, kind ops.OutcomeKind) string {
	if !tier.Known() {
		return ""
	}
	o, ok := example(tier, kind)
	if !ok {
		return ""
	}
	return ops.JSON(o, "  ") + "\n"
}

func example(tier ops.Tier, kind ops.OutcomeKind) (ops.Outcome, bool) {
	o := ops.Outcome{
		SchemaVersion: Version, Kind: kind, CheckResults: exampleChecks(ops.Down, "HTTP 502 Bad Gateway"),
		Actions: []ops.Action{}, Events: []ops.Remark{}, Memories: []ops.Lesson{},
	}
	if tier > ops.Tier1 {
		o.Actions = []ops.Action{exampleAction(tier, kind)}
	}
	switch kind {
	case ops.OutcomeHealthy:
		o.Summary = "grafana and postgres answer as they should; nothing had to be done."
		o.CheckResults = exampleChecks(ops.Healthy, "")
		return o, tier == ops.Tier1
	case ops.OutcomeResolved:
		o.Summary = "grafana had run out of memory; it answers again since 10:52."
		o.CheckResults = exampleChecks(ops.Healthy, "")
		o.Memories = []ops.Lesson{{
			Category: "timing", Service: "grafana", Observation: "grafana needs about 40 s after a start before it answers.",
		}}
		return o, tier > ops.Tier1
	case ops.OutcomeEscalate:
		o.Summary = "grafana answers with HTTP 502; postgres, which it needs, is healthy."
		o.Events = []ops.Remark{{Level: ops.LevelWarning, Service: "grafana", Message: "grafana is down since 10:42."}}
		h, found := Handoff([]byte(HandoffExample(tier)), tier)
		o.Handoff = &h
		return o, found.OK()
	case ops.OutcomeNeedsHuman:
		o.Summary = "grafana is down because its license has expired; somebody has to renew it."
		o.Events = []ops.Remark{{Level: ops.LevelCritical, Service: "grafana", Message: "Renew the license of grafana."}}
	case ops.OutcomeInconclusive:
		return ops.Outcome{}, false
	default:
		return ops.Outcome{}, false
	}
	return o, true
}

func exampleChecks(grafana ops.Health, problem string) []ops.CheckResult {
	return []ops.CheckResult{
		{Service: "grafana", CheckType: ops.CheckHTTP, Status: grafana, Error: problem, ResponseTimeMS: ops.Ptr[int64](31)},
		{Service: "postgres", CheckType: ops.CheckDatabase, Status: ops.Healthy, ResponseTimeMS: ops.Ptr[int64](4)},
	}
}

func exampleAction(tier ops.Tier, kind ops.OutcomeKind) ops.Action {
	a := ops.Action{Service: "grafana", Action: "restarted the container", Success: kind == ops.OutcomeResolved}
	if tier > ops.Tier2 {
		a.Action = "ran ansible-playbook playbooks/grafana.yml"
	}
	a.Detail = "It still answers with HTTP 502."
	if a.Success {
		a.Detail = "It answers with HTTP 200 after 40 s."
	}
	return a
}

// HandoffExample returns a valid handoff as a session of that tier would write it, for use in prompts.
// Tier 3 hands over to nobody, so it has none.
func HandoffExample(from ops.Tier) string {
	switch from {
	case ops.Tier1:
		return exampleTier1
	case ops.Tier2:
		return exampleTier2
	default:
		return ""
	}
}
