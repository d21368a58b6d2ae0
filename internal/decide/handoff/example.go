package handoff

import "claudeops/internal/ops"

// Example returns a valid handoff as a session of that tier would write it, for use in prompts.
// Tier 3 hands over to nobody, so it has none.
func Example(from ops.Tier) string {
	switch from {
	case ops.Tier1:
		return exampleTier1
	case ops.Tier2:
		return exampleTier2
	default:
		return ""
	}
}

const exampleTier1 = `{
  "schema_version": 1,
  "recommended_tier": 2,
  "reason": "grafana answers with HTTP 502 since 10:42",
  "services_affected": ["grafana"],
  "check_results": [
    {
      "service": "grafana",
      "check_type": "http",
      "status": "down",
      "error": "HTTP 502 Bad Gateway",
      "response_time_ms": 31
    },
    {
      "service": "postgres",
      "check_type": "database",
      "status": "healthy",
      "error": "",
      "response_time_ms": 4
    }
  ],
  "cooldown_state": {
    "grafana": { "restarts_last_4h": 0, "last_restart": null }
  }
}
`

const exampleTier2 = `{
  "schema_version": 1,
  "recommended_tier": 3,
  "reason": "a restart does not help: the data volume of grafana is full",
  "services_affected": ["grafana"],
  "check_results": [
    {
      "service": "grafana",
      "check_type": "http",
      "status": "down",
      "error": "HTTP 502 Bad Gateway",
      "response_time_ms": 31
    },
    {
      "service": "postgres",
      "check_type": "database",
      "status": "healthy",
      "error": "",
      "response_time_ms": 4
    }
  ],
  "investigation_findings": "grafana exits at start with 'no space left on device'; its volume is 100 % full of old exports.",
  "remediation_attempted": "Restarted the container once at 10:51. It exited again after 3 s with the same message.",
  "cooldown_state": {
    "grafana": { "restarts_last_4h": 1, "last_restart": "2026-01-31T10:51:00Z" }
  }
}
`
