package ops

import "encoding/json"

// CheckType is one of the five kinds of check a handoff can report.
type CheckType string

// The check types of a handoff.
const (
	CheckHTTP      CheckType = "http"
	CheckDNS       CheckType = "dns"
	CheckContainer CheckType = "container"
	CheckDatabase  CheckType = "database"
	CheckService   CheckType = "service"
)

// Health is what a check found.
type Health string

// The findings of a check.
const (
	Healthy  Health = "healthy"
	Degraded Health = "degraded"
	Down     Health = "down"
)

// CheckResult is one check as an agent reports it.
type CheckResult struct {
	Service        string    `json:"service"`
	CheckType      CheckType `json:"check_type"`
	Status         Health    `json:"status"`
	Error          string    `json:"error"`
	ResponseTimeMS *int64    `json:"response_time_ms,omitempty"`
}

// Proposal is what a session handed up, as it was validated.
type Proposal struct {
	Handoff  *Handoff // nil when it is not valid
	Problems []string // why it is not
	Warnings []string
}

// Handoff is the facts one tier passes up to the next.
type Handoff struct {
	SchemaVersion         int             `json:"schema_version"`
	RecommendedTier       Tier            `json:"recommended_tier"`
	Target                string          `json:"target,omitempty"`
	Reason                string          `json:"reason,omitempty"`
	Confidence            *float64        `json:"confidence,omitempty"` // how sure the tier is of its findings, 0 to 1
	ServicesAffected      []string        `json:"services_affected"`
	CheckResults          []CheckResult   `json:"check_results"`
	InvestigationFindings string          `json:"investigation_findings,omitempty"`
	RemediationAttempted  string          `json:"remediation_attempted,omitempty"`
	CooldownState         json.RawMessage `json:"cooldown_state"`
	// Plan is what the tier proposes that the supervisor does before the next tier starts, for a human to approve.
	Plan []PlanStep `json:"plan,omitempty"`
}
