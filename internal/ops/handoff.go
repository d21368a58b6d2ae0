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

// CheckResult is one check as an agent reports it. The tags report here, and on the other parts of a handoff and an outcome, are the rules
// by which the package report reads them.
type CheckResult struct {
	Service        string    `json:"service" report:"required,text,name"`
	CheckType      CheckType `json:"check_type" report:"required,one=http|dns|container|database|service"`
	Status         Health    `json:"status" report:"required,one=healthy|degraded|down"`
	Error          string    `json:"error" report:"required"`
	ResponseTimeMS *int64    `json:"response_time_ms,omitempty" report:"min=0,max=9007199254740991"`
}

// Proposal is what a session handed up, as it was validated.
type Proposal struct {
	Handoff  *Handoff // nil when it is not valid
	Problems []string // why it is not
	Warnings []string
}

// Handoff is the facts one tier passes up to the next.
type Handoff struct {
	SchemaVersion         int             `json:"schema_version" report:"required,version"`
	RecommendedTier       Tier            `json:"recommended_tier" report:"required,min=-2147483648,max=2147483647"`
	Target                string          `json:"target,omitempty" report:"optional"`
	Reason                string          `json:"reason,omitempty" report:"says,loose"`
	Confidence            *float64        `json:"confidence,omitempty" report:"min=0,max=1"` // how sure the tier is of its findings
	ServicesAffected      []string        `json:"services_affected" report:"required,filled" each:"text,name"`
	CheckResults          []CheckResult   `json:"check_results" report:"required,filled"`
	InvestigationFindings string          `json:"investigation_findings,omitempty" report:"tier2,says"`
	RemediationAttempted  string          `json:"remediation_attempted,omitempty" report:"tier2,says"`
	CooldownState         json.RawMessage `json:"cooldown_state" report:"required"`
	// Plan is what the tier proposes that the supervisor does before the next tier starts, for a human to approve.
	Plan []PlanStep `json:"plan,omitempty" report:"max=20"`
}
