package notice

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Problem is what a human should know about the work of a cycle.
type Problem struct {
	Services    []string
	What        string   // what is wrong
	Todo        string   // what the human should do
	Found       string   // what the agents say
	Also        string   // the outage beside an attack
	Confidence  *float64 // how sure they are; nil: they did not say
	Tried       string
	Why         string // what the supervisor decided, and by which rule
	CostUSD     float64
	Environment string
	Cycle       ops.CycleID
}

// head is the first line: what is wrong and what to do.
func (p Problem) head(todo string) string {
	what := line(p.What, longestFact)
	if services := ops.Listed(p.Services); services != "" && !strings.HasPrefix(what, services) {
		what = strings.TrimSuffix(services+": "+what, ": ")
	}
	what = capitalUnless(what, p.Services)
	return strings.TrimSpace(sentence(what) + " " + sentence(capital(line(todo, longestFact))))
}

// capitalUnless keeps the names of services as they are.
func capitalUnless(text string, services []string) string {
	if len(services) > 0 && strings.HasPrefix(text, services[0]) {
		return text
	}
	return capital(text)
}

func (p Problem) text(heading string, more ...fact) Text {
	return textOf(title(heading), body(p.head(p.Todo), append(more, p.facts()...)...))
}

func (p Problem) facts() []fact {
	found, why := p.Found, p.Why
	if found == p.What {
		found = ""
	}
	if why == p.What {
		why = ""
	}
	return []fact{
		{"The agent says", found},
		{"Confidence", share(p.Confidence)},
		{"The agent says that it tried", p.Tried},
		{"The outage", p.Also},
		{"Why", why},
		{"Cost so far", dollars(p.CostUSD)},
		{"Details", fmt.Sprintf("claudeops cycles show %d (environment %s)", p.Cycle, p.Environment)},
	}
}

// NeedsHuman calls a human.
func NeedsHuman(p Problem) Text { return p.text("Human attention required") }

// Attack calls a human about an attack on the supervisor. That comes first, whatever else is wrong.
func Attack(p Problem) Text {
	p.What, p.Also, p.Services = p.Why, p.What, nil
	return p.text(Heading(ops.ProblemAttack, ""))
}

// Blocked tells of an escalation that a rule blocked.
func Blocked(p Problem) Text { return p.text("An escalation was blocked") }

// NotStarted tells of an escalation that a human approved and that something holds back since.
func NotStarted(p Problem) Text { return p.text("The approved repair does not start") }

// DryRun tells of an outage that nobody repairs, because of a dry run: what would have been done, and how to allow it.
func DryRun(p Problem, would string) Text {
	p.Todo, p.Why = fmt.Sprintf("repair %s by hand, or allow it", ops.Listed(p.Services)), ""
	return p.text("Dry run: nothing is repaired", fact{"Without dry run", would}, fact{"Allow it", allow})
}

// Unpayable tells whose budget is spent.
func Unpayable(p Problem, b ops.Budget) Text { return p.text(BudgetHeading(b)) }

// Unfinished tells of a repair that came to no end.
func Unfinished(p Problem) Text { return p.text("Repair did not finish") }

// Refuted tells of a claimed repair that does not hold.
func Refuted(p Problem) Text { return p.text("A claimed repair did not hold") }

// TakesOver tells which handler works on the problem now.
func TakesOver(p Problem, handler string) Text {
	p.Todo = "nothing to do: " + handler + " works on it"
	return p.text(handler + " takes over")
}

// Partial tells of a cycle that ended with a part of its work done.
func Partial(p Problem, tier ops.Tier, done []string) Text {
	heading := "Repair did not finish"
	if tier == ops.Tier1 {
		heading = "Tier 1 cannot check the services"
	}
	text := "nothing"
	if len(done) > 0 {
		text = strings.Join(done, "; ")
	}
	return p.text(heading, fact{"Done", text})
}

// Question is what a human is asked.
type Question struct {
	Handler string
	Tier    ops.Tier
	Lacks   string    // the wall that the handler needs and does not have; empty: none
	Expires time.Time // zero: never
	Now     time.Time
	Plan    []ops.ApprovedStep
}

// longestQuestion is the first line of a question: what a phone shows without opening it.
const longestQuestion = 80

// question is the first line of a question: what is wrong, and what is asked. What is wrong is shortened so that the line fits.
func (p Problem) question(asked string) string {
	what := strings.TrimRight(p.head(""), ".")
	room := longestQuestion - len([]rune(asked)) - len(". ")
	return sentence(line(what, max(room, 1))) + " " + asked
}

// Approval asks whether a tier may start, or a plan instead of it. The reader decides about exactly these steps, so none is left out.
func Approval(p Problem, q Question) Text {
	asked, how := fmt.Sprintf("May %s start?", q.Tier), "page Incidents, or claudeops approvals list"
	if len(q.Plan) > 0 {
		asked, how = "May the plan run?", "page Incidents, or claudeops approvals approve ID (--steps 1,2 for a part)"
	}
	text := body(p.question(asked), p.asked(q, how, q.Tier.May())...)
	if len(q.Plan) > 0 {
		first, rest, _ := strings.Cut(text, "\n")
		text = first + "\n\n" + planText(q) + rest
	}
	return textOf(title("Your approval is needed"), text)
}

// asked are the facts of a question.
func (p Problem) asked(q Question, how, may string) []fact {
	if q.Handler != "" && may != "" {
		may = fmt.Sprintf("%s (%s): %s", q.Tier, q.Handler, may)
	}
	if !q.Expires.IsZero() {
		how = fmt.Sprintf("by %s (in %s): %s", stamp(q.Expires), ops.Span(q.Expires.Sub(q.Now)), how)
	}
	out := []fact{{"Answer", how}, {"May do", may}}
	if q.Lacks != "" {
		out = append(out, fact{"Missing wall", q.Lacks})
	}
	return append(out, p.facts()...)
}

// longestStep is the length of each text of a step.
const longestStep = 120

// planText lists the steps of a plan: what the supervisor will run, why, and how it is undone.
func planText(q Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The supervisor runs, in this order, until one fails. %s starts only if it does not help.\n", q.Tier)
	for i, s := range q.Plan {
		what := line(s.Action+" "+s.Branch, longestStep) + " of " + line(s.Service, longestStep)
		fmt.Fprintf(&b, "\n%d. %s: %s", i+1, what, line(s.Does, longestFact))
		for _, part := range []fact{{"Why", s.Reason}, {"Effect", s.Effect}, {"Undo", s.WayBack}} {
			if text := line(part.text, longestStep); text != "" {
				fmt.Fprintf(&b, "\n   %s: %s", part.name, text)
			}
		}
	}
	return b.String() + "\n"
}

// Review asks whether a repair is good enough.
func Review(p Problem, q Question) Text {
	facts := p.asked(q, "page Incidents, or claudeops approvals list", "")
	return textOf(title("A repair needs your review"), body(p.question("Is the repair good?"), facts...))
}

// NoJudge tells that the judge does not answer.
func NoJudge(p Problem) Text { return p.text("The judge does not answer") }

// Unseen tells that services recovered while no agent could look at them.
func Unseen(p Problem) Text {
	p.Todo = "nothing to do for the services; find out why the agents fail"
	return p.text("Recovered; nobody could look")
}

// Expired tells that nobody answered a question.
func Expired(p Problem) Text { return p.text("A question expired") }

// NotNeeded takes a question back.
func NotNeeded(p Problem) Text {
	p.Todo = "nothing to do: your answer is no longer needed, and nothing was started"
	return p.text("No answer needed")
}

// LeftDown tells of services that a session took down and did not bring up again.
func LeftDown(s ops.Session, services []string) Text {
	return textOf(title("A service was left down"), body(
		fmt.Sprintf("%s: taken down by session %d and not brought up again. Start it by hand or run a cycle.", ops.Listed(services), s.ID),
		fact{"Session", fmt.Sprintf("%d (%s) of cycle %d", s.ID, s.Tier, s.CycleID)},
		fact{"Details", fmt.Sprintf("claudeops sessions show %d", s.ID)},
	))
}
