package notice

import (
	"cmp"
	"fmt"
	"slices"
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
		first = "Dry run: a cycle looks and repairs nothing. " + "Repair it by hand, or " + allow + "."
	}
	return textOf(title(heading), body(first, facts...))
}

// Recovered tells that a cause is over.
// Open are incidents of its services that are not over by it.
func Recovered(c ops.Cause, open []ops.Incident, how string, now time.Time) Text {
	facts := []fact{{"Was down", "since " + stamp(c.Began) + ", for " + ops.Span(now.Sub(c.Began))}, {"Environment", c.Environment}}
	todo := "Nothing to do."
	for _, i := range open {
		todo = "This is still open:"
		facts = append(facts, fact{fmt.Sprintf("Incident %d", i.ID), Rows{}.Remaining(i)})
	}
	return textOf(title(c.Services[0]+" has recovered"), body(sentence(capitalUnless(how, c.Services))+" "+todo, facts...))
}

// Remaining lists what of an incident is not over.
func (Rows) Remaining(i ops.Incident) string {
	var out []string
	for _, f := range i.Findings {
		if f.OverAt == nil {
			out = append(out, f.What)
		}
	}
	if len(out) == 0 {
		return i.Title
	}
	return strings.Join(out, "; ")
}

// NotWatched says that nothing looks at services any more that were bad.
func NotWatched(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return "the probe that found " + ops.And(services) + " bad was taken out of the configuration"
}

// Lost tells that services are not watched any more, and that nobody knows how they are.
func Lost(environment string, services []string) Text {
	return textOf(title(services[0]+" is not watched any more"), body(
		sentence(capital(NotWatched(services)))+" Nobody has seen it recover. An open incident stays open until you resolve it.",
		fact{"Environment", environment},
		fact{"Incidents", "claudeops incidents list"},
	))
}

// Flapping tells that services go up and down, and that no agent works on them for that.
func Flapping(environment string, services []string, since time.Time, calm time.Duration, last string) Text {
	heading, them := services[0]+" is flapping", "it"
	if n := len(services) - 1; n > 0 {
		heading, them = fmt.Sprintf("%s and %d more are flapping", services[0], n), "them"
	}
	return textOf(title(heading), body(
		fmt.Sprintf("%s: good and bad by turns. No agent starts for %s until stable for %s. Find out what starts and stops %s.",
			ops.Listed(services), them, ops.Span(calm), them),
		fact{"Last error", last},
		fact{"Since", stamp(since) + ", environment " + environment},
		fact{"Details", "claudeops events --service " + services[0]},
		fact{"Mute this", "claudeops silences add --service " + services[0] + " --for 24h --reason known"},
	))
}

// Over tells that incidents about which a human was called are over.
func (Rows) Over(environment string, over []ops.Incident) Text {
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
		if len(i.Findings) > 1 {
			for _, f := range i.Findings {
				facts = append(facts, fact{"Over", f.What + ": " + f.How})
			}
		}
	}
	facts = append(facts, fact{"Open since", stamp(over[0].OpenedAt) + ", environment " + environment})
	if len(over) == 1 {
		facts = append(facts, fact{"Service", over[0].Service})
		facts = append(facts, fact{"Report", fmt.Sprintf("claudeops incidents report %d", over[0].ID)})
	}
	return textOf(title(heading), body("The problem is over. Nothing to do.", facts...))
}

// Unproven tells that a repair of incidents about which a human was called is claimed, and that nothing can confirm it.
func (Rows) Unproven(environment string, claimed []ops.Incident) Text {
	heading := fmt.Sprintf("%s: %d incidents are reported as repaired", environment, len(claimed))
	if len(claimed) == 1 {
		heading = incidentName(claimed[0]) + " is reported as repaired"
	}
	facts := ops.Map(claimed, func(i ops.Incident) fact { return fact{fmt.Sprintf("Incident %d", i.ID), i.Resolution} })
	return textOf(title(heading), body(
		"No probe can confirm it. Look yourself, or wait: the next check closes or reopens it. Add a probe to be sure sooner.", facts...))
}

// UnlistedTitle names an incident about what is in no inventory.
func (Rows) UnlistedTitle(names []string) string {
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
	service = cmp.Or(service, "no single service")
	paid := 0.0
	if i.CostUSD != nil {
		paid = *i.CostUSD
	}
	return textOf(title(heading), body(
		fmt.Sprintf("Open for %s and not acknowledged. %s", ops.Span(now.Sub(i.OpenedAt)), sentence(capital(line(todo, longestFact)))),
		fact{"Service", service + ", environment " + i.Environment},
		fact{"Since", stamp(i.OpenedAt)},
		fact{"The agent says that it tried", known.Tried},
		fact{"Cost so far", dollars(paid)},
		fact{"Acknowledge", fmt.Sprintf("claudeops incidents ack %d", i.ID)},
		fact{"Details", fmt.Sprintf("claudeops incidents show %d", i.ID)},
	))
}

// Overdue tells that the cycles of an environment have stopped ending.
func Overdue(environment string, late, interval time.Duration) Text {
	return textOf(title("cycles of "+environment+" are overdue"), body(
		fmt.Sprintf("No cycle has ended for %s. Check that Claude Ops runs, and read its log.", ops.Span(late)),
		fact{"Expected", "every " + ops.Span(interval)},
		fact{"Details", "claudeops cycles list --environment " + environment},
	))
}

// SpendingFast tells that the budget of the day will be used up before the day is over.
func SpendingFast(environment, forecast string, spentUSD float64) Text {
	return textOf(title("the day's budget will not last"), body(
		forecast+" Then no agent starts until 00:00 UTC. Raise the budget, or find out what costs so much.",
		fact{"Spent today", dollars(spentUSD)},
		fact{"Environment", environment},
		fact{"Details", "claudeops costs --environment " + environment},
		fact{"Mute this", "claudeops silences add --service budget --for 24h --reason known"},
	))
}

// CyclesFail tells that no scheduled cycle starts any more.
func CyclesFail(environment, reason string) Text {
	return textOf(title("Cycles keep failing"), body(
		sentence(capital(line(reason, longestFact)))+" Find the cause, then start one by hand with claudeops run.",
		fact{"Environment", environment},
		fact{"Details", "claudeops cycles list --environment " + environment},
	))
}

// CannotStart tells that no session can start on this host.
func CannotStart(trouble string) Text {
	return textOf(title("No session can start"), body(
		sentence(capital(line(trouble, 2*longestFact)))+" Run claudeops doctor on that host.",
		fact{"Until then", "services are not checked or repaired by agents"},
	))
}

// Test is sent by a person who tries the targets.
func Test() Text {
	return textOf(title("test"), body("This is a test. If you can read it, notices reach you. Nothing to do."))
}

func actionFacts(r ops.ActionRun) []fact {
	return []fact{
		{"Service", r.Service},
		{"Reason", r.Why},
		{"Details", fmt.Sprintf("claudeops actions show %d", r.ID)},
	}
}

func actionName(r ops.ActionRun) string {
	if r.UndoOf != 0 {
		return fmt.Sprintf("the undo of %s of %s (action %d)", r.Action, r.Service, r.UndoOf)
	}
	return fmt.Sprintf("%s of %s (action %d)", r.Action, r.Service, r.ID)
}

// ActionUndone tells that an action was undone because it had made things worse.
func ActionUndone(r ops.ActionRun) Text {
	return textOf(title("An action was undone"), body(
		fmt.Sprintf("%s of %s had made things worse and was undone. Check %s.", capital(r.Action), r.Service, r.Service), actionFacts(r)...))
}

// ActionNotUndone tells that an undo failed.
func ActionNotUndone(r ops.ActionRun, status ops.ActionStatus, problem string) Text {
	return textOf(title("An action could not be undone"), body(
		fmt.Sprintf("%s %s: %s Undo it by hand.", capital(actionName(r)), status, sentence(line(problem, longestFact))), actionFacts(r)...))
}

// ActionWorse tells that an action without a way back made things worse.
func ActionWorse(r ops.ActionRun, worse []string) Text {
	return textOf(title("An action made things worse"), body(
		fmt.Sprintf("%s made things worse and cannot be undone. Repair %s by hand.", capital(actionName(r)), ops.Listed(worse)),
		append([]fact{{"Worse than before", ops.Listed(worse)}}, actionFacts(r)...)...))
}

// ActionInterrupted tells that the supervisor ended while an action was running.
func (Rows) ActionInterrupted(r ops.ActionRun) Text {
	return textOf(title("An action was interrupted"), body(
		fmt.Sprintf("%s was running when the supervisor ended; it is not repeated. Check %s before you repeat it.",
			capital(actionName(r)), r.Service), actionFacts(r)...))
}

// FiringOn are alerts that fire on although their cycle has ended.
type FiringOn struct {
	Alerts  []ops.Alert
	Cycle   ops.Cycle
	Checked string     // what the agent says it checked; empty: it did not say
	Next    *time.Time // when people are told again; nil: never
}

// Services are those that the alerts are about.
func (f FiringOn) Services() []string {
	out := ops.Map(f.Alerts, func(a ops.Alert) string { return a.Service })
	slices.Sort(out)
	return slices.Compact(out)
}

// Of is the same about one service only.
func (f FiringOn) Of(service string) FiringOn {
	f.Alerts = slices.DeleteFunc(slices.Clone(f.Alerts), func(a ops.Alert) bool { return a.Service != service })
	return f
}

// Heading names the disagreement.
func (f FiringOn) Heading() string {
	what := fmt.Sprintf("Alert %s still fires", f.Alerts[0].Name)
	if n := len(f.Alerts); n > 1 {
		what = fmt.Sprintf("%d alerts still fire", n)
	}
	services := ops.Listed(f.Services())
	if f.Cycle.Status == ops.CycleHealthy {
		return fmt.Sprintf("%s, but Tier 1 found %s healthy", what, services)
	}
	return fmt.Sprintf("%s, but cycle %d about %s ended %s", what, f.Cycle.ID, services, f.Cycle.Status)
}

// Todo is what a person should do about it.
func (FiringOn) Todo() string {
	return "repair what it is about, fix or silence the alert, or let Tier 1 look again with claudeops run"
}

// StillFires tells of alerts that fire on although their cycle has ended.
func StillFires(f FiringOn) Text {
	first, more := f.Alerts[0], make([]string, 0, len(f.Alerts))
	for _, a := range f.Alerts[1:] {
		more = append(more, a.Name+" of "+a.Service)
	}
	what, link, checked := first.Summary, "", f.Checked
	what = cmp.Or(what, first.Name)
	if i := slices.IndexFunc(f.Alerts, func(a ops.Alert) bool { return a.URL != "" }); i >= 0 {
		link = f.Alerts[i].URL
	}
	checked = cmp.Or(checked, f.Cycle.Reason)
	again := "never; its incident stays open until it ends"
	if f.Next != nil {
		again = stamp(*f.Next) + ", unless it ends, or is silenced or acknowledged"
	}
	return textOf(title(f.Heading()), body(
		sentence(first.Service+": "+line(what, longestFact))+" "+sentence(capital(f.Todo())),
		fact{"Alert", first.Name + " since " + stamp(first.StartsAt)},
		fact{"More", ops.Listed(more)},
		fact{"Link", link},
		fact{"Checked", checked},
		fact{"Told again", again},
		fact{"Details", fmt.Sprintf("claudeops cycles show %d (environment %s)", f.Cycle.ID, f.Cycle.Environment)},
	))
}

// CheckedBy says what a session says it checked of some services.
func CheckedBy(o ops.Outcome, services []string) string {
	var out []string
	for _, c := range o.CheckResults {
		if slices.Contains(services, c.Service) {
			out = append(out, fmt.Sprintf("%s %s %s", c.Service, c.CheckType, c.Status))
		}
	}
	return strings.Trim(strings.Join(out, ", ")+"; "+o.Summary, "; ")
}

// AlertsOver closes the incident about alerts that fired on.
func (Rows) AlertsOver() string { return "the alert no longer fires" }

// SaysMore is the event of an alert that starts another cycle.
func SaysMore(a ops.Alert, c ops.CycleID) string {
	return fmt.Sprintf("Alert %s of %s has changed since cycle %d looked; another cycle starts when the pause between two is over.",
		a.Name, a.Service, c)
}

// NotItsWork is the event when a cycle has ended that services with a problem had joined.
func NotItsWork(services []string, c ops.CycleID) string {
	return fmt.Sprintf("Cycle %d has ended, and this is still bad: %s. Another cycle starts when the pause between two is over.",
		c, ops.Listed(services))
}

// StillWrong says what a person leaves behind who resolves the incident of a service; empty: nothing. Level is what its probes find, and
// hold why nothing is started for it.
func (Rows) StillWrong(service string, level ops.Health, alerts []ops.Alert, hold string) string {
	var out []string
	switch {
	case level == ops.Healthy || level == "":
	case hold != "":
		out = append(out, fmt.Sprintf("%s is still %s by its own probes, and nothing is started for it: %s", service, level,
			strings.TrimSuffix(hold, ".")))
	default:
		out = append(out, fmt.Sprintf("%s is still %s by its own probes: the next cycle looks at it, and opens a new incident if it cannot "+
			"repair it. To keep agents away, silence the service, or acknowledge an incident instead of resolving it", service, level))
	}
	if len(alerts) > 0 {
		names := make([]string, 0, len(alerts))
		for _, a := range alerts {
			names = append(names, a.Name)
		}
		out = append(out, fmt.Sprintf("an alert about %s still fires (%s): people are told again after 1, 4 and 24 hours while it does; "+
			"fix or silence the alert", service, ops.Listed(names)))
	}
	return strings.Join(out, ". ")
}

// longestDigest limits one notice within a message of several.
const longestDigest = 400

// Digest is one message of several notices, in the given order. Of each it has the title, the first line and the link.
func Digest(all []ops.Notice) Text {
	var b strings.Builder
	for _, n := range all {
		heading := strings.TrimSuffix(short(n.Title), ".")
		first, _, _ := strings.Cut(strings.TrimSpace(n.Body), "\n")
		if !strings.HasPrefix(first, heading) {
			first = heading + ". " + first
		}
		fmt.Fprintf(&b, "- %s\n", ops.Cut(first, longestDigest))
	}
	return textOf(title(fmt.Sprintf("%d notices, first: %s", len(all), short(all[0].Title))), b.String())
}

func short(heading string) string {
	return strings.TrimPrefix(line(heading, longestFact), "Claude Ops: ")
}

// WithLink puts the address of the page on which a person can act at the end of the first line.
func WithLink(text, address string) string {
	first, rest, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	first = strings.TrimRight(first, " ")
	if trimmed := strings.TrimSuffix(first, "."); strings.HasSuffix(trimmed, "?") {
		first = trimmed + " "
	} else if trimmed != "" {
		first = trimmed + ": "
	}
	return strings.TrimRight(first+address+"\n"+rest, "\n") + "\n"
}

// Updated tells how an update of a service ended, or that it waits for a yes. The level is empty where nobody needs to be told.
func (Rows) Updated(u ops.Update) (ops.Level, Text) {
	level, heading, what := ops.Level(""), "", ""
	switch u.Phase {
	case ops.UpdateWaiting:
		level, heading = ops.LevelInfo, "May "+u.Service+" be updated?"
		what = fmt.Sprintf("Its schedule is due, and trust in %s is ask. Without an answer it is not updated.", u.Service)
	case ops.UpdateKept:
		level, heading, what = ops.LevelInfo, u.Service+" was updated", capital(sentence(u.Result))
	case ops.UpdateGoneBack:
		level, heading = ops.LevelWarning, "The update of "+u.Service+" was taken back"
		what = fmt.Sprintf("%s runs its old image again, and probes find it as it was. %s", u.Service, capital(sentence(u.Result)))
	case ops.UpdateStuck:
		level, heading = ops.LevelCritical, u.Service+" is broken after its update"
		what = fmt.Sprintf("Going back did not help. Repair %s by hand. %s", u.Service, capital(sentence(u.Result)))
	case ops.UpdateRefused:
		if u.Person == "" { // who asked sees it
			level, heading, what = ops.LevelWarning, "The update of "+u.Service+" was not completed", capital(sentence(u.Result))
		}
	case ops.UpdateUnchanged, ops.UpdateAsked, ops.UpdatePulling, ops.UpdateTagged, ops.UpdateRecreating, ops.UpdateWatching,
		ops.UpdateGoingBack:
	}
	if level == "" {
		return "", Text{}
	}
	facts := []fact{{"Service", u.Service}}
	if u.Phase == ops.UpdateWaiting {
		facts = append(facts, fact{"Yes", fmt.Sprintf("page of %s, or claudeops update %s", u.Service, u.Service)})
	}
	if u.After.ID != "" {
		facts = append(facts, fact{"Before", u.Before.String()}, fact{"After", u.After.String()})
	}
	if u.Kept != "" && u.Phase != ops.UpdateGoneBack {
		facts = append(facts, fact{"Old image", "kept as " + u.Kept})
	}
	if u.Phase == ops.UpdateKept && u.To != "" {
		facts = append(facts, fact{"Do", "write " + u.To + " into the compose file, or the next redeployment brings the old image back"})
	}
	return level, textOf(title(heading), body(what, append(facts, fact{"Details", fmt.Sprintf("claudeops update show %d", u.ID)})...))
}

// UpdateAdvice is what a human should do about an update that could not be taken back.
func (Rows) UpdateAdvice(u ops.Update) string {
	return fmt.Sprintf("repair %s by hand; its old image is kept as %s", u.Service, u.Kept)
}
