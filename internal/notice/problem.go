package notice

import (
	"cmp"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

func ofAdvice() map[ops.ReasonKind]string {
	return map[ops.ReasonKind]string{
		ops.HeadProblem:  `{{heading .Problem .Handler.ID}}`,
		ops.TodoProblem:  `{{advice .}}`,
		ops.TodoDecision: `{{decision .}}`,
		ops.TodoDryRun: `repair {{listed .Services}} by hand, or ` +
			`{{if .Again}}run the cycle again without dry run{{else}}` + allow + `{{end}}`,
		ops.TodoWithoutDryRun: `{{.Text}}; without dry run: {{lines .Rest}}`,
		ops.TodoWould:         `{{would .}}`,
		ops.TodoAfterSilence:  `repair {{list .Services}} by hand, or run a cycle and answer in time`,
		ops.TodoRaiseTrust: `repair {{listed .Services}} by hand, or raise its trust ` +
			`({{range $i, $s := .Services}}{{if $i}}; {{end}}claudeops trust {{$s}} {{$.Trust}}{{end}}) and run a cycle`,
		ops.TodoResume:       `repair {{listed .Services}} by hand, or 'claudeops resume' and then 'claudeops run'`,
		ops.TodoPlan:         `{{.Text}}{{with .Plan}}; the agent proposes: {{planned .}}{{end}}`,
		ops.TodoReflexAnswer: `approve or deny {{.Reflex.Words}}`,
		ops.TodoReflexWorks:  `nothing yet: the supervisor does what its reflex says`,
	}
}

// heading names a problem for its incident.
func heading(kind ops.ProblemKind, handler string) string {
	return cmp.Or(map[ops.ProblemKind]string{
		ops.ProblemHuman:      "Human attention required",
		ops.ProblemTakeOver:   "A human has to take over",
		ops.ProblemRefused:    "An escalation was refused",
		ops.ProblemBlocked:    "An escalation was blocked",
		ops.ProblemBudget:     "The budget is spent",
		ops.ProblemUnpaid:     "The budget is spent",
		ops.ProblemFlapping:   "A service is flapping",
		ops.ProblemApproval:   "Approval needed before " + handler + " starts",
		ops.ProblemReview:     "A repair needs review",
		ops.ProblemUnfinished: "Repair did not finish",
		ops.ProblemRefuted:    "A claimed repair did not hold",
		ops.ProblemJudge:      "The judge does not answer",
		ops.ProblemHandled:    "down or degraded",
		ops.ProblemTrust:      "No agent may repair it",
		ops.ProblemDryRun:     "Nothing is repaired in a dry run",
		ops.ProblemAttack:     "An agent attacked the supervisor",
	}[kind], string(kind))
}

// advice is what a human should do about a problem of services.
func advice(r ops.Reason) string {
	return map[ops.ProblemKind]string{
		ops.ProblemFlapping: "find out what starts and stops it; no agent works on it until it is stable",
		ops.ProblemReview:   "check the repair, then accept or reject it",
		ops.ProblemUnfinished: "look at the affected services: " +
			"what the session started may have taken effect; then run a cycle or repair by hand",
		ops.ProblemRefuted: fmt.Sprintf("repair %s by hand and resolve the incident", strings.Join(r.Services, ", ")),
		ops.ProblemJudge:   "check the key and the provider of the judge; until it answers, only probes and people confirm repairs",
		ops.ProblemAttack:  "find out what told the agent to do that, such as a log or a page; then repair by hand, or run a cycle",
		ops.ProblemHandled: fmt.Sprintf("nothing yet: %s (%s) works on it", r.Handler.Tier, r.Handler.ID),
	}[r.Problem]
}

// afterDecision is what a human should do about a decision that ended or stopped the chain.
func afterDecision(r ops.Reason) string {
	d, names := r.Decision, cmp.Or(strings.Join(r.Services, ", "), "the services")
	switch {
	case d.Verdict == ops.VerdictApproval:
		return fmt.Sprintf("approve or deny that %s works on %s", d.TargetHandler, names)
	case d.Check == ops.ObjectionMaxTier:
		return fmt.Sprintf("repair %s by hand, or raise max_tier (now %d) and run a cycle", names, r.MaxTier)
	case d.Check == ops.ObjectionHeld:
		return fmt.Sprintf("repair %s by hand, or end what holds it back and run a cycle", names)
	case d.Check == ops.ObjectionCooldown:
		return fmt.Sprintf("repair %s by hand, or clear the rate limit with claudeops cooldowns clear and run a cycle", names)
	case d.Verdict == ops.VerdictRefused:
		return fmt.Sprintf("look at %s: the agent asked for help in a way that could not be accepted", names)
	}
	return fmt.Sprintf("repair %s by hand and resolve the incident", names)
}

// allow is how repairs are allowed.
const allow = "set dry_run: false (CLAUDEOPS_DRY_RUN=false) and start a cycle with claudeops run"

// would says what a decision would have led to: the handler is the one that it names, the plan what a human would have been asked about.
func would(r ops.Reason) string {
	d, target, plan := r.Decision, r.Handler, r.Plan
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

// planned names the steps of a plan.
func planned(plan []ops.ApprovedStep) string {
	return ops.And(ops.Map(plan, func(s ops.ApprovedStep) string { return fmt.Sprintf("%s of %s", s.Action, s.Service) }))
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
	if c.VerifiedBy == "" && c.Verified != nil && *c.Verified {
		return "probes, a judge or a person"
	}
	return cmp.Or(map[ops.Proof]string{
		ops.ProofProbe:  "our own probes",
		ops.ProofReflex: "our own probes, after a reflex without an agent",
		ops.ProofPlan:   "our own probes, after the approved plan",
		ops.ProofJudge:  "a judge",
		ops.ProofHuman:  "a person",
	}[c.VerifiedBy], "nobody but the agent")
}
