package ops

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Fact is something that is wrong, as far as it can be compared later: no part of it is free text.
type Fact struct {
	Service string    `json:"service"`
	Probe   string    `json:"probe,omitempty"` // the probe or alert that found it; empty: an agent reported it
	Type    CheckType `json:"type,omitempty"`
	Class   string    `json:"class"` // see Check.Class
}

// AlertProbe begins the name of a check that is an alert.
const AlertProbe = "alert "

// FactOf is what a check found.
func FactOf(c Check) Fact {
	return Fact{Service: c.Service, Probe: c.Probe, Type: c.Type, Class: c.Class()}
}

// SortedFacts returns the facts in order, each once.
func SortedFacts(all []Fact) []Fact {
	slices.SortFunc(all, func(a, b Fact) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Probe, b.Probe), strings.Compare(string(a.Type), string(b.Type)),
			strings.Compare(a.Class, b.Class))
	})
	return slices.Compact(all)
}

// Class is the kind of failure that a check found: the class of an HTTP status such as 5xx, refused, timeout, exit, else down or
// degraded. What probes write before any answer of the service decides; an alert is told by somebody else, and only its level counts.
func (c Check) Class() string {
	begins := func(all ...string) bool {
		return slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(c.Error, text) })
	}
	status, http := strings.CutPrefix(c.Error, "HTTP ")
	switch {
	case c.Purpose == ProbeAlert:
	case c.Type == CheckHTTP && http && len(status) >= 3 && status[0] >= '1' && status[0] <= '5':
		return status[:1] + "xx"
	case begins("connection refused"):
		return "refused"
	case begins("no answer within", "no answer in time"):
		return "timeout"
	case begins("exit status", "ended by signal", "the container does not run", "the container ended", "the container is restarting"):
		return "exit"
	}
	return string(c.Status)
}

// NoLasts is how long a no lasts unless whoever gives it says otherwise.
const NoLasts = 24 * time.Hour

// Refuses reports whether the answer was a no that lasts at a time.
func (a Approval) Refuses(now time.Time) bool {
	return a.Status == ApprovalDenied && a.DeniedUntil != nil && now.Before(*a.DeniedUntil)
}

// Knew reports whether all that is wrong was wrong when the question was asked.
func (a Approval) Knew(wrong []Fact) bool {
	return len(wrong) > 0 && !slices.ContainsFunc(wrong, func(f Fact) bool { return !slices.Contains(a.Facts, f) })
}
