package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

// DidNotHold tells that a repair that was called good did not last.
func DidNotHold(i ops.Incident, claimed ops.Cycle, r ops.Relapse) Text {
	return Text{title("The repair did not hold"), body(
		sentence(failsAgain(r.Found))+" "+sentence(capital(AfterRelapse(r))),
		fact{"Claimed", fmt.Sprintf("by cycle %d at %s", claimed.ID, stamp(r.Claim.At))},
		fact{"Confirmed", "by " + ConfirmedBy(claimed)},
		fact{"It said", claimed.Reason},
		fact{"Incident", fmt.Sprintf("%d is open again, environment %s", i.ID, i.Environment)},
		fact{"Details", fmt.Sprintf("claudeops incidents show %d", i.ID)},
	)}
}

// AlsoRefutes adds to a notice that calls people anyway which repairs did not hold.
func AlsoRefutes(text string, refuted []string) string {
	for _, one := range refuted {
		text += "- Did not hold: " + line(one, longestFact) + "\n"
	}
	return text
}

// Claimed names the repair that did not hold.
func Claimed(c ops.Cycle, r ops.Relapse) string {
	return fmt.Sprintf("the repair of %s that cycle %d claimed at %s, confirmed by %s",
		r.Claim.Service, c.ID, stamp(r.Claim.At), ConfirmedBy(c))
}

// Refutes says that a check refutes the repair of a cycle, and what happens next.
func Refutes(c ops.Cycle, r ops.Relapse) string {
	what := fmt.Sprintf("the repair of cycle %d did not hold, %s", c.ID, failsAgain(r.Found))
	return sentence(what) + " " + sentence(capital(AfterRelapse(r)))
}

func failsAgain(c ops.Check) string {
	text := fmt.Sprintf("%s is %s again", c.Service, c.Status)
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// AfterRelapse is what a human should do about a repair that did not hold, and when the next cycle starts.
func AfterRelapse(r ops.Relapse) string {
	switch {
	case r.Cycle != 0:
		return fmt.Sprintf("nothing to do yet: cycle %d works on it", r.Cycle)
	case !r.Next.IsZero() && !r.Next.After(r.At):
		return "nothing to do yet: a cycle starts for it now"
	case !r.Next.IsZero():
		return fmt.Sprintf("the next cycle may start at %s; claudeops incidents run %d starts one now", stamp(r.Next), r.Claim.Incident)
	case r.Held != "":
		return "no cycle starts by itself: " + r.Held
	}
	return fmt.Sprintf("look at it, or start a cycle with claudeops incidents run %d", r.Claim.Incident)
}

// ConfirmedBy names who confirmed the end of a resolved cycle.
func ConfirmedBy(c ops.Cycle) string {
	switch c.VerifiedBy {
	case ops.ProofProbe, ops.ProofReflex:
		return "our own probes"
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
