package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// The rules by which an action is refused.
const (
	ruleUnknown  = "action.unknown"
	ruleOutside  = "action.outside"
	ruleTier     = "action.tier"
	ruleDryRun   = "action.dry-run"
	ruleHeld     = "action.held"
	ruleApproval = "action.approval"
	ruleLease    = "action.lease"
	ruleInput    = "action.input"
	ruleReason   = "action.reason"
	ruleBranch   = "action.branch"
	ruleLayer    = "action.layer"
	ruleCooldown = "cooldown"
)

// longestWhy bounds a reason.
const longestWhy = 500

// branchForm is a branch name that needs no quoting and cannot be taken for an option.
var branchForm = ops.Pattern(`^[a-zA-Z0-9][a-zA-Z0-9._/-]{0,199}$`)

func refuse(rule, instead, format string, args ...any) error {
	return &Refusal{Rule: rule, Reason: fmt.Sprintf(format, args...), Instead: instead}
}

// check refuses what may not be done, and returns the action as it is configured.
func (r *Runner) check(ctx context.Context, q *Request) (ops.ActionSpec, error) {
	inventory := q.Environment.Policy.Inventory
	service, known := inventory.Canonical(q.Service)
	if !known {
		return ops.ActionSpec{}, refuse(ruleOutside, "Services: "+names(inventory)+".",
			"No service of this environment is called %q.", short(q.Service))
	}
	q.Service = service
	spec, known := inventory.Action(service, q.Action)
	if !known {
		return ops.ActionSpec{}, refuse(ruleUnknown, "Actions of "+service+": "+actionNames(inventory, service)+".",
			"%s has no action %q.", service, short(q.Action))
	}
	q.Why = strings.TrimSpace(q.Why)
	if err := checkReason(q.Why, q.Session != nil); err != nil {
		return spec, err
	}
	if err := checkBranch(spec, q.Branch); err != nil {
		return spec, err
	}
	if q.Environment.Policy.DryRun || q.DryRun {
		return spec, refuse(ruleDryRun, "Report what you would do.", "This is a dry run: nothing is changed.")
	}
	if err := r.o.May(); err != nil {
		return spec, refuse(ruleLease, "Report it for a human.", "Nothing may be changed now: %v.", err)
	}
	switch {
	case q.Session != nil:
		return spec, r.checkSession(ctx, *q, spec)
	case q.Plan != nil:
		return spec, checkPlan(*q, spec)
	case q.Person != "" && q.Digest != "" && q.Digest != spec.Digest():
		return spec, refuse(ruleApproval, "Ask again.", "%s of %s is not configured as it was when it was asked for.", spec.Name, spec.Service)
	case q.Reflex != nil && (q.Step < 1 || q.Step > len(q.Reflex.Digests) || q.Reflex.Digests[q.Step-1] != spec.Digest()):
		return spec, refuse(ruleApproval, "", "%s of %s is not configured as it was when the reflex was due.", spec.Name, spec.Service)
	}
	return spec, nil
}

// checkReason refuses a reason that is missing, too long, or, from an agent, could change what a person reads beside it.
func checkReason(why string, agent bool) error {
	const instead = "Say in one or two sentences why it is needed."
	if strings.TrimSpace(why) == "" || len(why) > longestWhy {
		return refuse(ruleReason, instead, "The action needs a reason of at most %d characters.", longestWhy)
	}
	if agent && strings.ContainsFunc(why, unicode.IsControl) {
		return refuse(ruleReason, instead, "The reason contains control characters or several lines.")
	}
	return nil
}

// checkSession refuses what this session may not ask for.
func (r *Runner) checkSession(ctx context.Context, q Request, spec ops.ActionSpec) error {
	if tier := q.Session.May(); tier < spec.Tier {
		return refuse(ruleTier, fmt.Sprintf("Escalate to %s with what you found.", spec.Tier), "%s of %s needs %s, and this session is at %s.",
			spec.Name, spec.Service, spec.Tier, tier)
	}
	scope, err := q.Scope(ctx)
	if err != nil {
		return refuse(ruleOutside, "Try again later.", "The services of this incident could not be read.")
	}
	if why, held := scope.Held[spec.Service]; held {
		return refuse(ruleHeld, "Leave it alone and report it.", "%s may not be changed now: %s.", spec.Service, strings.TrimSuffix(why, "."))
	}
	if !slices.Contains(scope.Services, spec.Service) {
		return refuse(ruleOutside, "Services of this incident: "+listed(scope.Services)+".", "%s does not belong to this incident.", spec.Service)
	}
	if spec.Approval {
		return refuse(ruleApproval, "Propose it in the plan of your handoff; a human approves or denies it.",
			"%s of %s needs the approval of a human.", spec.Name, spec.Service)
	}
	return nil
}

// checkPlan refuses a step that is not what was approved. The transaction that starts it checks this again.
func checkPlan(q Request, spec ops.ActionSpec) error {
	if q.Step < 1 || q.Step > len(q.Plan.Plan) || !slices.Contains(q.Plan.Steps, q.Step) {
		return refuse(ruleApproval, "", "Step %d of the plan was not approved.", q.Step)
	}
	step := q.Plan.Plan[q.Step-1]
	if step.Digest != spec.Digest() || step.Service != spec.Service || step.Action != spec.Name || step.Branch != q.Branch {
		return refuse(ruleApproval, "Ask again.", "%s of %s is not configured as it was when it was approved.", spec.Name, spec.Service)
	}
	return nil
}

func checkBranch(spec ops.ActionSpec, branch string) error {
	if spec.Kind != ops.ActionPush {
		if branch != "" {
			return refuse(ruleBranch, "Leave it out.", "Only a push has a branch.")
		}
		return nil
	}
	good := branchForm().MatchString(branch) && strings.HasPrefix(branch, spec.Prefix) && branch != spec.Prefix
	for _, part := range []string{"..", "//", "/."} {
		good = good && !strings.Contains(branch, part)
	}
	for _, ending := range []string{"/", ".lock", "."} {
		good = good && !strings.HasSuffix(branch, ending)
	}
	if !good {
		return refuse(ruleBranch, "Name a branch that begins with "+spec.Prefix+".", "%q is not a branch that may be pushed.", short(branch))
	}
	return nil
}

func short(text string) string { return ops.Cut(text, 80) }
func names(v ops.Inventory) string {
	var out []string
	for _, s := range v.Services {
		out = append(out, s.Name)
	}
	return listed(out)
}

func actionNames(v ops.Inventory, service string) string {
	var out []string
	for _, s := range v.Services {
		if s.Name != service {
			continue
		}
		for _, a := range s.Actions {
			out = append(out, a.Name)
		}
	}
	return listed(out)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
