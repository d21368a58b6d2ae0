package notice

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Heading names a problem for its incident.
func Heading(kind ops.ProblemKind, handler string) string {
	switch kind {
	case ops.ProblemHuman:
		return "Human attention required"
	case ops.ProblemTakeOver:
		return "A human has to take over"
	case ops.ProblemRefused:
		return "An escalation was refused"
	case ops.ProblemBlocked:
		return "An escalation was blocked"
	case ops.ProblemBudget, ops.ProblemUnpaid:
		return "The budget is spent"
	case ops.ProblemFlapping:
		return "A service is flapping"
	case ops.ProblemApproval:
		return "Approval needed before " + handler + " starts"
	case ops.ProblemReview:
		return "A repair needs review"
	case ops.ProblemUnfinished:
		return "Repair did not finish"
	case ops.ProblemRefuted:
		return "A claimed repair did not hold"
	case ops.ProblemJudge:
		return "The judge does not answer"
	case ops.ProblemHandled:
		return "down or degraded"
	case ops.ProblemTrust:
		return "No agent may repair it"
	case ops.ProblemDryRun:
		return "Nothing is repaired in a dry run"
	case ops.ProblemAttack:
		return "An agent attacked the supervisor"
	}
	return string(kind)
}

// Advice is what a human should do about a problem of services.
func Advice(kind ops.ProblemKind, services []string, handler ops.Handler) string {
	names := strings.Join(services, ", ")
	switch kind {
	case ops.ProblemFlapping:
		return "find out what starts and stops it; no agent works on it until it is stable"
	case ops.ProblemReview:
		return "check the repair, then accept or reject it"
	case ops.ProblemUnfinished:
		return "look at the affected services: what the session started may have taken effect; then run a cycle or repair by hand"
	case ops.ProblemRefuted:
		return fmt.Sprintf("repair %s by hand and resolve the incident", names)
	case ops.ProblemJudge:
		return "check the key and the provider of the judge; until it answers, only probes and people confirm repairs"
	case ops.ProblemAttack:
		return "find out what told the agent to do that, such as a log or a page; then repair by hand, or run a cycle"
	case ops.ProblemHandled:
		return fmt.Sprintf("nothing yet: %s (%s) works on it", handler.Tier, handler.ID)
	case ops.ProblemHuman, ops.ProblemTakeOver, ops.ProblemRefused, ops.ProblemBlocked, ops.ProblemBudget, ops.ProblemUnpaid,
		ops.ProblemApproval, ops.ProblemDryRun, ops.ProblemTrust:
	}
	return ""
}

// AfterDecision is what a human should do about a decision that ended or stopped the chain.
func AfterDecision(d ops.Decision, services []string, maxTier ops.Tier) string {
	names := strings.Join(services, ", ")
	if names == "" {
		names = "the services"
	}
	switch {
	case d.Verdict == ops.VerdictApproval:
		return fmt.Sprintf("approve or deny that %s works on %s", d.TargetHandler, names)
	case d.Check == ops.ObjectionMaxTier:
		return fmt.Sprintf("repair %s by hand, or raise max_tier (now %d) and run a cycle", names, maxTier)
	case d.Check == ops.ObjectionHeld:
		return fmt.Sprintf("repair %s by hand, or end what holds it back and run a cycle", names)
	case d.Check == ops.ObjectionCooldown:
		return fmt.Sprintf("repair %s by hand, or clear the rate limit with claudeops cooldowns clear and run a cycle", names)
	case d.Verdict == ops.VerdictRefused:
		return fmt.Sprintf("look at %s: the agent asked for help in a way that could not be accepted", names)
	}
	return fmt.Sprintf("repair %s by hand and resolve the incident", names)
}

// AllowRepair is what a human should do about a problem that a dry run leaves alone. Once: the dry run was asked for this cycle only.
func AllowRepair(services []string, once bool) string {
	how := allow
	if once {
		how = "run the cycle again without dry run"
	}
	return fmt.Sprintf("repair %s by hand, or %s", ops.Listed(services), how)
}

// allow is how repairs are allowed.
const allow = "set dry_run: false (CLAUDEOPS_DRY_RUN=false) and start a cycle with claudeops run"

// WithoutDryRun adds what would have been done to what a human should do.
func WithoutDryRun(todo, would string) string { return todo + "; without dry run: " + would }

// Would says what a decision would have led to: target is the handler that it names, plan what a human would have been asked about.
func Would(d ops.Decision, target ops.Handler, plan []ops.ApprovedStep) string {
	who := fmt.Sprintf("%s (%s)", target.Tier, target.ID)
	switch {
	case d.Verdict == ops.VerdictApproval && len(plan) > 0:
		return "you are asked whether the plan may run: " + planned(plan)
	case d.Verdict == ops.VerdictApproval:
		return fmt.Sprintf("you are asked whether %s may start: %s", who, target.May().May())
	case d.Verdict == ops.VerdictEscalate && target.Human():
		return target.ID + ", a human, takes over"
	case d.Verdict == ops.VerdictEscalate:
		return fmt.Sprintf("%s takes over: %s", who, target.May().May())
	}
	return d.Reason // it would not have come to a repair either
}

// AfterSilence is what a human should do about a question that nobody answered.
func AfterSilence(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return fmt.Sprintf("repair %s by hand, or run a cycle and answer in time", strings.Join(services, ", "))
}

// CannotCheck tells that agents do not see the services.
func CannotCheck(p Problem) Text {
	p.Todo = "find the cause, then run a cycle: until then agents do not check the services"
	return Partial(p, ops.Tier1, nil)
}

// longestTitle limits the title of an incident.
const longestTitle = 160

// TitleOf names the problem of a service by what its failing check says.
func (Rows) TitleOf(c ops.CheckResult) string {
	what := []rune(ops.Prose(c.Error))
	if len(what) > longestTitle {
		what = append(what[:longestTitle-1], '…')
	}
	if len(what) == 0 {
		return c.Service + " is " + string(c.Status)
	}
	return c.Service + ": " + string(what)
}

// Failing says which checks are not healthy, in a line.
func Failing(checks []ops.CheckResult) string {
	var bad []string
	for _, c := range checks {
		if c.Status != ops.Healthy {
			bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s is %s %s", c.Service, c.Status, c.Error)))
		}
	}
	return strings.Join(bad, "; ")
}

// DidNotHold tells that a repair that was called good did not last.
func (w Rows) DidNotHold(i ops.Incident, claimed ops.Cycle, r ops.Relapse) Text {
	return textOf(title("The repair did not hold"), body(
		sentence(failsAgain(r.Found))+" "+sentence(capital(w.AfterRelapse(r))),
		fact{"Claimed", fmt.Sprintf("by cycle %d at %s", claimed.ID, stamp(r.Claim.At))},
		fact{"Confirmed", "by " + ConfirmedBy(claimed)},
		fact{"It said", claimed.Reason},
		fact{"Incident", fmt.Sprintf("%d is open again, environment %s", i.ID, i.Environment)},
		fact{"Details", fmt.Sprintf("claudeops incidents show %d", i.ID)},
	))
}

// AlsoRefutes adds to a notice that calls people anyway which repairs did not hold.
func (Rows) AlsoRefutes(text string, refuted []string) string {
	for _, one := range refuted {
		text += "- Did not hold: " + line(one, longestFact) + "\n"
	}
	return text
}

// Claimed names the repair that did not hold.
func (Rows) Claimed(c ops.Cycle, r ops.Relapse) string {
	return fmt.Sprintf("the repair of %s that cycle %d claimed at %s, confirmed by %s",
		r.Claim.Service, c.ID, stamp(r.Claim.At), ConfirmedBy(c))
}

// Refutes says that a check refutes the repair of a cycle, and what happens next.
func (w Rows) Refutes(c ops.Cycle, r ops.Relapse) string {
	what := fmt.Sprintf("the repair of cycle %d did not hold, %s", c.ID, failsAgain(r.Found))
	return sentence(what) + " " + sentence(capital(w.AfterRelapse(r)))
}

func failsAgain(c ops.Check) string {
	text := fmt.Sprintf("%s is %s again", c.Service, c.Status)
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// AfterRelapse is what a human should do about a repair that did not hold, and when the next cycle starts.
func (Rows) AfterRelapse(r ops.Relapse) string {
	switch {
	case r.Cycle != 0:
		return fmt.Sprintf("nothing to do yet: cycle %d works on it", r.Cycle)
	case !r.Next.IsZero() && !r.Next.After(r.At):
		return "nothing to do yet: a cycle starts for it now"
	case !r.Next.IsZero():
		return fmt.Sprintf("the next cycle may start at %s; claudeops run 'look at %s' starts one now", stamp(r.Next), r.Claim.Service)
	case r.Held != "":
		return "no cycle starts by itself: " + r.Held
	}
	return fmt.Sprintf("look at it, or start a cycle with claudeops run 'look at %s'", r.Claim.Service)
}

// ConfirmedBy names who confirmed the end of a resolved cycle.
func ConfirmedBy(c ops.Cycle) string {
	switch c.VerifiedBy {
	case ops.ProofProbe:
		return "our own probes"
	case ops.ProofReflex:
		return "our own probes, after a reflex without an agent"
	case ops.ProofPlan:
		return "our own probes, after the approved plan"
	case ops.ProofJudge:
		return "a judge"
	case ops.ProofHuman:
		return "a person"
	case ops.ProofNone, ops.ProofReport:
	}
	if c.VerifiedBy == "" && c.Verified != nil && *c.Verified {
		return "probes, a judge or a person"
	}
	return "nobody but the agent"
}

// BudgetHeading names a problem by whose budget is spent.
func BudgetHeading(b ops.Budget) string {
	switch b.Whose {
	case ops.BudgetSession:
		return "The budget of a session is spent"
	case ops.BudgetChain:
		return "The budget of a chain is spent"
	case ops.BudgetDay:
		return "The budget of the day is spent"
	}
	return "The budget is spent"
}

// BudgetSpent says whose budget is spent, and how much of it.
func BudgetSpent(b ops.Budget) string {
	amounts := ops.Dollars(&b.SpentUSD) + " of " + ops.Dollars(&b.LimitUSD)
	switch b.Whose {
	case ops.BudgetSession:
		if b.LimitUSD == 0 {
			return "this session reached its own limit"
		}
		return "this session spent " + amounts + ", its own limit"
	case ops.BudgetChain:
		return "this chain spent " + amounts
	case ops.BudgetDay:
		where := ""
		if b.Environment != "" {
			where = " in environment " + b.Environment
		}
		return "today " + amounts + " are spent or reserved" + where
	}
	return "the budget is spent"
}

// BudgetFrees says when there is money again.
func BudgetFrees(b ops.Budget) string {
	switch b.Whose {
	case ops.BudgetSession:
		return "the next attempt has a budget of its own"
	case ops.BudgetChain:
		return "the next cycle has a budget of its own"
	case ops.BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return "the next day's budget starts at 00:00 UTC"
	}
	return "the next day's budget starts at " + At(b.FreesAt)
}

// BudgetTodo is what a person should do about a spent budget.
func BudgetTodo(b ops.Budget, services []string) string {
	byHand := ""
	if names := strings.Join(services, ", "); names != "" {
		byHand = "repair " + names + " by hand, or "
	}
	switch b.Whose {
	case ops.BudgetSession:
		return byHand + "raise budget_usd of the handler and run a cycle"
	case ops.BudgetChain:
		return byHand + "run a cycle, which has a budget of its own, or raise budget.chain_usd first"
	case ops.BudgetDay:
	}
	if b.FreesAt.IsZero() {
		return byHand + "raise budget.day_usd and run a cycle, or wait for the next day"
	}
	return byHand + "raise budget.day_usd and run a cycle, or wait until " + At(b.FreesAt)
}

// BudgetAdvice says whose budget ended a session, when there is money again and what to do.
func BudgetAdvice(b ops.Budget) string {
	return sentence(capital(BudgetSpent(b)+"; "+BudgetFrees(b))) + " " + sentence(capital(BudgetTodo(b, nil)))
}
