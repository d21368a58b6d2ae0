package guard

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Verdict is the answer to a tool call.
type Verdict string

// The two verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// EffectKind is what a cooldown counts.
type EffectKind string

// The kinds of effect.
const (
	EffectRestart      EffectKind = "restart"
	EffectRedeployment EffectKind = "redeployment"
)

// Half says whether an effect is only one half of a redeployment.
type Half string

// The halves: stopping opens a redeployment, starting closes it and is covered by an open one.
const (
	Whole     Half = ""
	HalfOpen  Half = "open"
	HalfClose Half = "close"
)

// Effect is something a cooldown must be reserved for before the command runs.
type Effect struct {
	Kind    EffectKind `json:"kind"`
	Service string     `json:"service"`
	// Project is the compose project the service belongs to: an open half of the project covers the service too.
	Project string `json:"project,omitempty"`
	Half    Half   `json:"half,omitempty"`
}

// Decision is what the guard says of one tool call.
type Decision struct {
	Verdict Verdict  `json:"verdict"`
	Rule    string   `json:"rule"`
	Reason  string   `json:"reason"`
	Effects []Effect `json:"effects,omitempty"`
	// Script is the text to execute for a Bash call: the judged tree, printed.
	Script string `json:"script,omitempty"`
}

// Allowed reports whether the call may run.
func (d Decision) Allowed() bool { return d.Verdict == Allow }

// never is the tier of what no tier may do.
const never = ops.LastTier + 1

// The rule ids that the code names itself; the tables name more.
const (
	ruleText     = "R1"
	ruleRunTime  = "R3"
	ruleInline   = "R4"
	ruleLoop     = "R5"
	ruleUnknown  = "R6"
	ruleLauncher = "R7"
	rulePath     = "R8"
	ruleWrite    = "R9"
	ruleOwn      = "R10"
	ruleDryRun   = "R11"
	ruleBash     = "tool.Bash"

	ruleRoot      = "never.rm-root"
	rulePush      = "never.force-push"
	ruleInventory = "never.inventory"
	ruleVolumes   = "never.volumes"
	ruleSecrets   = "never.secrets"
)

// finding is what one part of a call needs.
type finding struct {
	need ops.Tier
	rule string
	what string // the part, in a few words
	why  string // why it is refused, or what it does
	hint string // what to do instead
}

// rank orders findings: the never list and the product's own files, other refusals, then tiers.
func (f finding) rank() int {
	switch {
	case f.need < never:
		return int(f.need)
	case f.rule == ruleOwn || strings.HasPrefix(f.rule, "never."):
		return int(never) + 1
	default:
		return int(never)
	}
}

// reason is the sentence for the agent.
func (f finding) reason(tier ops.Tier, dryRun bool) string {
	hint := f.hint
	if f.need >= never {
		if hint == "" {
			hint = "if it is needed, report it for a human"
		}
		return fmt.Sprintf("%s is refused at every tier: %s; %s.", f.what, f.why, hint)
	}
	if dryRun {
		return fmt.Sprintf("%s needs %s and this is a dry run, which only observes: say what you would do instead.", f.what, f.need)
	}
	if hint == "" {
		hint = fmt.Sprintf("escalate with what you found, %s (%s) may do it", f.need, f.need.Title())
	}
	return fmt.Sprintf("%s is not allowed at %s (%s), only from %s: %s.", f.what, tier, tier.Title(), f.need, hint)
}
