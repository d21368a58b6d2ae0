package notice

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Opened tells that services have turned bad and a cycle was started. In a dry run it only looks.
func Opened(c ops.Cause, checks []ops.Check, dryRun bool) Text {
	heading := fmt.Sprintf("%s is %s", c.Services[0], c.Level)
	if n := len(c.Services) - 1; n > 0 {
		heading += fmt.Sprintf(", and %d more", n)
	}
	const most = 4
	var facts []fact
	for i, k := range checks {
		if i == most {
			facts = append(facts, fact{"More", fmt.Sprintf("%d other failing checks", len(checks)-most)})
			break
		}
		text := string(k.Status)
		if k.Error != "" {
			text += ", " + k.Error
		}
		facts = append(facts, fact{k.Service, text})
	}
	facts = append(facts, fact{"Also affected", ops.Listed(c.Affected)}, fact{"Since", stamp(c.Began) + ", environment " + c.Environment})
	first := "A cycle was started. Nothing to do: you are told when it is over or needs you."
	if dryRun {
		first = "Dry run: a cycle looks and repairs nothing. " + sentence(capital(AllowRepair([]string{"it"}, false)))
	}
	return Text{title(heading), body(first, facts...)}
}

// Recovered tells that a cause is over.
func Recovered(c ops.Cause, how string, now time.Time) Text {
	return Text{title(c.Services[0] + " has recovered"), body(
		sentence(capitalUnless(how, c.Services))+" Nothing to do.",
		fact{"Was down", "since " + stamp(c.Began) + ", for " + span(now.Sub(c.Began))},
		fact{"Environment", c.Environment},
	)}
}

// Flapping tells that services go up and down, and that no agent works on them for that.
func Flapping(environment string, services []string, since time.Time, calm time.Duration, last string) Text {
	heading, them := services[0]+" is flapping", "it"
	if n := len(services) - 1; n > 0 {
		heading, them = fmt.Sprintf("%s and %d more are flapping", services[0], n), "them"
	}
	return Text{title(heading), body(
		fmt.Sprintf("%s: good and bad by turns. No agent starts for %s until stable for %s. Find out what starts and stops %s.",
			ops.Listed(services), them, span(calm), them),
		fact{"Last error", last},
		fact{"Since", stamp(since) + ", environment " + environment},
		fact{"Details", "claudeops events --service " + services[0]},
		fact{"Mute this", "claudeops silences add --service " + services[0] + " --for 24h --reason known"},
	)}
}

// Over tells that incidents about which a human was called are over.
func Over(environment string, over []ops.Incident) Text {
	heading := fmt.Sprintf("%s: %d incidents are over", environment, len(over))
	if len(over) == 1 {
		heading = incidentName(over[0]) + " is over"
	}
	const most = 4
	var facts []fact
	for n, i := range over {
		if n == most {
			facts = append(facts, fact{"More", fmt.Sprintf("%d other incidents", len(over)-most)})
			break
		}
		text := i.Resolution
		if len(over) > 1 {
			text = i.Title + ": " + i.Resolution
		}
		facts = append(facts, fact{fmt.Sprintf("Incident %d", i.ID), text})
	}
	facts = append(facts, fact{"Open since", stamp(over[0].OpenedAt) + ", environment " + environment})
	if len(over) == 1 {
		facts = append(facts, fact{"Service", over[0].Service})
		facts = append(facts, fact{"Report", fmt.Sprintf("claudeops incidents report %d", over[0].ID)})
	}
	return Text{title(heading), body("The problem is over. Nothing to do.", facts...)}
}

// Unproven tells that a repair of incidents about which a human was called is claimed, and that nothing can confirm it.
func Unproven(environment string, claimed []ops.Incident) Text {
	heading := fmt.Sprintf("%s: %d incidents are reported as repaired", environment, len(claimed))
	if len(claimed) == 1 {
		heading = incidentName(claimed[0]) + " is reported as repaired"
	}
	var facts []fact
	for _, i := range claimed {
		facts = append(facts, fact{fmt.Sprintf("Incident %d", i.ID), i.Resolution})
	}
	return Text{title(heading), body(
		"No probe can confirm it. Look yourself, or wait: the next check closes or reopens it. Add a probe to be sure sooner.", facts...)}
}

// UnlistedTitle names an incident about what is in no inventory.
func UnlistedTitle(names []string) string {
	return "Human attention required: " + line(ops.Listed(names), longestFact)
}

// incidentName names an incident in a heading.
func incidentName(i ops.Incident) string {
	name := line(i.Title, 80)
	if i.Service != "" && !strings.Contains(name, i.Service) {
		name = i.Service + ": " + name
	}
	return fmt.Sprintf("incident %d (%s)", i.ID, name)
}

// Reminder tells again of an incident that nobody has acknowledged. The last one goes to other people.
func Reminder(i ops.Incident, last bool, now time.Time) Text {
	heading := "Reminder: " + i.Title
	if last {
		heading = "Nobody answered: " + i.Title
	}
	known, err := i.Known()
	todo := "acknowledge or resolve it"
	if err == nil && known.Recommendation != "" {
		todo = known.Recommendation
	}
	service := i.Service
	if service == "" {
		service = "no single service"
	}
	return Text{title(heading), body(
		fmt.Sprintf("Open for %s and not acknowledged. %s", span(now.Sub(i.OpenedAt)), sentence(capital(line(todo, longestFact)))),
		fact{"Service", service + ", environment " + i.Environment},
		fact{"Since", stamp(i.OpenedAt)},
		fact{"Tried", known.Tried},
		fact{"Cost so far", dollars(i.CostUSD)},
		fact{"Acknowledge", fmt.Sprintf("claudeops incidents ack %d", i.ID)},
		fact{"Details", fmt.Sprintf("claudeops incidents show %d", i.ID)},
	)}
}

// Overdue tells that the cycles of an environment have stopped ending.
func Overdue(environment string, late, interval time.Duration) Text {
	return Text{title("cycles of " + environment + " are overdue"), body(
		fmt.Sprintf("No cycle has ended for %s. Check that Claude Ops runs, and read its log.", span(late)),
		fact{"Expected", "every " + span(interval)},
		fact{"Details", "claudeops cycles list --environment " + environment},
	)}
}

// SpendingFast tells that the budget of the day will be used up before the day is over.
func SpendingFast(environment, forecast string, spentUSD float64) Text {
	return Text{title("the day's budget will not last"), body(
		forecast+" Then no agent starts until 00:00 UTC. Raise the budget, or find out what costs so much.",
		fact{"Spent today", dollars(spentUSD)},
		fact{"Environment", environment},
		fact{"Details", "claudeops costs --environment " + environment},
		fact{"Mute this", "claudeops silences add --service budget --for 24h --reason known"},
	)}
}

// CyclesFail tells that no scheduled cycle starts any more.
func CyclesFail(environment, reason string) Text {
	return Text{title("Cycles keep failing"), body(
		sentence(capital(line(reason, longestFact)))+" Find the cause, then start one by hand with claudeops run.",
		fact{"Environment", environment},
		fact{"Details", "claudeops cycles list --environment " + environment},
	)}
}

// CannotStart tells that no session can start on this host.
func CannotStart(trouble string) Text {
	return Text{title("No session can start"), body(
		sentence(capital(line(trouble, longestFact)))+" Run claudeops doctor on that host.",
		fact{"Until then", "services are not checked or repaired by agents"},
	)}
}

// Test is sent by a person who tries the targets.
func Test() Text {
	return Text{title("test"), body("This is a test. If you can read it, notices reach you. Nothing to do.")}
}
