package notice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// FiringOn are alerts that fire on although their cycle has ended.
type FiringOn struct {
	Alerts  []ops.Alert
	Cycle   ops.Cycle
	Checked string     // what the agent says it checked; empty: it did not say
	Next    *time.Time // when people are told again; nil: never
}

// Services are those that the alerts are about.
func (f FiringOn) Services() []string {
	var out []string
	for _, a := range f.Alerts {
		out = append(out, a.Service)
	}
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
	if what == "" {
		what = first.Name
	}
	if i := slices.IndexFunc(f.Alerts, func(a ops.Alert) bool { return a.URL != "" }); i >= 0 {
		link = f.Alerts[i].URL
	}
	if checked == "" {
		checked = f.Cycle.Reason
	}
	again := "never; its incident stays open until it ends"
	if f.Next != nil {
		again = stamp(*f.Next) + ", unless it ends, or is silenced or acknowledged"
	}
	return Text{title(f.Heading()), body(
		sentence(first.Service+": "+line(what, longestFact))+" "+sentence(capital(f.Todo())),
		fact{"Alert", first.Name + " since " + stamp(first.StartsAt)},
		fact{"More", ops.Listed(more)},
		fact{"Link", link},
		fact{"Checked", checked},
		fact{"Told again", again},
		fact{"Details", fmt.Sprintf("claudeops cycles show %d (environment %s)", f.Cycle.ID, f.Cycle.Environment)},
	)}
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
const AlertsOver = "the alert no longer fires"

// SaysMore is the event of an alert that starts another cycle.
func SaysMore(a ops.Alert, c ops.CycleID) string {
	return fmt.Sprintf("Alert %s of %s has changed since cycle %d looked; another cycle starts when the pause between two is over.",
		a.Name, a.Service, c)
}

// StillWrong says what a person leaves behind who resolves the incident of a service; empty: nothing. Level is what its probes find, and
// hold why nothing is started for it.
func StillWrong(service string, level ops.Health, alerts []ops.Alert, hold string) string {
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
