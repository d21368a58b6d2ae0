package notice

import (
	"cmp"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// message is what people are told, on its way to a text.
type message ops.Message

// Notice says in words what people are told of a cycle.
func (Steps) Notice(m ops.Message) Text {
	p := message(m)
	switch m.Kind {
	case ops.MessageHuman:
		return p.text("Human attention required")
	case ops.MessageAttack: // it comes first, whatever else is wrong
		p.What, p.Why, p.Services = p.Why, "", nil
		return p.text(heading(ops.ProblemAttack, ""), fact{"The outage", m.What})
	case ops.MessageBlocked:
		return p.text("An escalation was blocked")
	case ops.MessageNotStarted:
		return p.text("The approved repair does not start")
	case ops.MessageDryRun:
		p.Todo, p.Why = fmt.Sprintf("repair %s by hand, or allow it", ops.Listed(p.Services)), ""
		return p.text("Dry run: nothing is repaired", fact{"Without dry run", p.Would}, fact{"Allow it", allow})
	case ops.MessageUnpayable:
		return p.text(p.Budget.Heading())
	case ops.MessageUnfinished:
		return p.text("Repair did not finish")
	case ops.MessageRefuted:
		return p.text("A claimed repair did not hold")
	case ops.MessageTakesOver:
		p.Todo = "nothing to do: " + p.Handler + " works on it"
		return p.text(p.Handler + " takes over")
	case ops.MessagePartial:
		return p.partial()
	case ops.MessageCannotCheck:
		p.Tier, p.Todo = ops.Tier1, "find the cause, then run a cycle: until then agents do not check the services"
		return p.partial()
	case ops.MessageApproval:
		return p.approval()
	case ops.MessageReview:
		return p.asking("A repair needs your review", "Is the repair good?", inbox, "")
	case ops.MessageReflex:
		return p.asking("Your approval is needed", fmt.Sprintf("May the supervisor do %s?", p.Reflex.Words()),
			inbox+"; without an answer it is not done", "")
	case ops.MessageNoJudge:
		return p.text("The judge does not answer")
	case ops.MessageUnseen:
		p.Todo = "nothing to do for the services; find out why the agents fail"
		return p.text("Recovered; nobody could look")
	case ops.MessageExpired:
		return p.text("A question expired")
	case ops.MessageNotNeeded:
		p.Todo = "nothing to do: your answer is no longer needed, and nothing was started"
		return p.text("No answer needed")
	case ops.MessageLeftToPeople:
		return p.text("Needs you: no agent may repair it", fact{"Proposed", planned(p.Plan)})
	}
	return p.text(string(m.Kind))
}

// head is the first line: what is wrong and what to do.
func (p message) head(todo string) string {
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

func (p message) text(heading string, more ...fact) Text {
	return textOf(title(heading), body(p.head(p.Todo), append(more, p.facts()...)...))
}

func (p message) facts() []fact {
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
		{"Why", why},
		{"Cost so far", dollars(p.CostUSD)},
		{"Details", fmt.Sprintf("claudeops cycles show %d (environment %s)", p.Cycle, p.Environment)},
	}
}

// partial tells of a cycle that ended with a part of its work done.
func (p message) partial() Text {
	heading := "Repair did not finish"
	if p.Tier == ops.Tier1 {
		heading = "Tier 1 cannot check the services"
	}
	return p.text(heading, fact{"Done", cmp.Or(strings.Join(p.Done, "; "), "nothing")})
}

// inbox is where a person answers.
const inbox = "page Incidents, or claudeops approvals list"

// longestQuestion is the first line of a question: what a phone shows without opening it.
const longestQuestion = 80

// question is the first line of a question: what is wrong, and what is asked. What is wrong is shortened so that the line fits.
func (p message) question(asked string) string {
	what := strings.TrimRight(p.head(""), ".")
	room := longestQuestion - len([]rune(asked)) - len(". ")
	return sentence(line(what, max(room, 1))) + " " + asked
}

// approval asks whether a tier may start, or a plan instead of it. The reader decides about exactly these steps, so none is left out.
func (p message) approval() Text {
	if len(p.Plan) == 0 {
		return p.asking("Your approval is needed", fmt.Sprintf("May %s start?", p.Tier), inbox, p.Tier.May())
	}
	const how = "page Incidents, or claudeops approvals approve ID (--steps 1,2 for a part)"
	text := p.asking("Your approval is needed", "May the plan run?", how, p.Tier.May())
	first, rest, _ := strings.Cut(text.Body, "\n")
	text.Body = first + "\n\n" + p.planText() + rest
	return text
}

// asking is a question, with how it is answered and what a yes allows.
func (p message) asking(heading, asked, how, may string) Text {
	if p.Handler != "" && may != "" {
		may = fmt.Sprintf("%s (%s): %s", p.Tier, p.Handler, may)
	}
	if !p.Expires.IsZero() {
		how = fmt.Sprintf("by %s (in %s): %s", stamp(p.Expires), ops.Span(p.Expires.Sub(p.Now)), how)
	}
	facts := append([]fact{{"Answer", how}, {"May do", may}, {"Missing wall", p.Lacks}}, p.facts()...)
	return textOf(title(heading), body(p.question(asked), facts...))
}

// longestStep is the length of each text of a step.
const longestStep = 120

// planText lists the steps of a plan: what the supervisor will run, why, and how it is undone.
func (p message) planText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The supervisor runs, in this order, until one fails. %s starts only if it does not help.\n", p.Tier)
	for i, s := range p.Plan {
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

// LeftDown tells of services that a session took down and did not bring up again.
func LeftDown(s ops.Session, services []string) Text {
	return textOf(title("A service was left down"), body(
		fmt.Sprintf("%s: taken down by session %d and not brought up again. Start it by hand or run a cycle.", ops.Listed(services), s.ID),
		fact{"Session", fmt.Sprintf("%d (%s) of cycle %d", s.ID, s.Tier, s.CycleID)},
		fact{"Details", fmt.Sprintf("claudeops sessions show %d", s.ID)},
	))
}
