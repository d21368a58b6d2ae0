package situation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Ahead says what is about to happen, the most urgent first.
func Ahead(f Facts) []Line {
	var lines []Line
	for _, a := range f.Approvals {
		if l, ok := f.expiring(a); ok {
			lines = append(lines, l)
		}
	}
	for _, s := range f.Services {
		if l, ok := f.soon(s); ok {
			lines = append(lines, l)
		}
	}
	return append(lines, f.scheduled()...)
}

// expiring says what happens to a question that nobody answers.
func (f Facts) expiring(a ops.Approval) (Line, bool) {
	if a.ExpiresAt == nil || !a.ExpiresAt.After(f.Now) {
		return Line{}, false
	}
	if !slices.ContainsFunc(f.Open, func(c store.CycleSummary) bool { return c.ID == a.CycleID }) {
		return Line{}, false
	}
	what := fmt.Sprintf("%s for C-%d", a.Tier, a.CycleID)
	if a.Kind == ops.ApprovalReview {
		what = fmt.Sprintf("the repair of C-%d", a.CycleID)
	}
	then := "C-%d ends and still needs a person"
	if a.Kind == ops.ApprovalReflex {
		what, then = fmt.Sprintf("%s for C-%d", a.Handler, a.CycleID), "C-%d goes on with Tier 1 instead"
	}
	return Line{
		Environment: a.Environment, Tone: ToneHand, Cycle: a.CycleID, Approval: a.ID,
		Parts: []Part{text("The question about %s expires at ", what), at(*a.ExpiresAt), text("; then "+then, a.CycleID)},
	}, true
}

// soon says what the next checks of a bad service lead to.
func (f Facts) soon(s Service) (Line, bool) {
	l := Line{Environment: s.Environment, Tone: ToneWarn, Services: []string{s.Name}}
	if f.stale(s) {
		return l, false
	}
	h := f.heldService(s)
	if h == nil {
		return l, false
	}
	switch h.Why {
	case ops.HoldUnsettled:
		v := f.unsettled(s)
		if v == nil {
			return l, false
		}
		l.Parts = []Part{text("%s: %s", s.Name, strings.Replace(health.Explain(v.CheckState), ";", ",", 1))}
		if next := v.Last.At.Add(f.Every(s.Environment, s.Name)); next.After(f.Now) {
			l.Parts = append(l.Parts, text(" (in about %s)", ops.Span(next.Sub(f.Now).Round(time.Second))))
		}
	case ops.HoldWaiting:
		l.Parts = []Part{text("%s is %s: a cycle starts in a moment, unless others fail with it", s.Name, s.Status)}
	case ops.HoldSilenced, ops.HoldMaintenance, ops.HoldFlapping:
		if h.Until.IsZero() || h.Until.Sub(f.Now) > time.Hour || f.heldByPerson(s) {
			return l, false
		}
		l.Tone, l.Silences = ToneCalm, h.Why == ops.HoldSilenced
		l.Parts = []Part{text("A cycle can start for %s after ", s.Name), at(h.Until), text(", if it is still %s", s.Status)}
	case ops.HoldPerson, ops.HoldCovered, ops.HoldDependency, ops.HoldRecent:
		return l, false
	}
	return l, len(l.Parts) > 0
}

// coming reports whether the next checks of a bad service lead to something.
func (f Facts) coming(s Service) bool {
	_, ok := f.soon(s)
	return ok
}

func (f Facts) heldByPerson(s Service) bool {
	_, held := f.byPerson(s)
	return held
}

// unsettled is the check of a service that is nearest to failing, if none has failed often enough.
func (f Facts) unsettled(s Service) *store.ProbeState {
	if h := f.heldService(s); h == nil || h.Why != ops.HoldUnsettled || f.stale(s) {
		return nil
	}
	var worst *store.ProbeState
	for i := range f.States {
		v := &f.States[i]
		if v.Environment == s.Environment && v.Service == s.Name && v.Unsettled() && (worst == nil || v.Bad > worst.Bad) {
			worst = v
		}
	}
	return worst
}

// scheduled is the next scheduled check of every environment; of many, the first.
func (f Facts) scheduled() []Line {
	var first *Line
	var when time.Time
	for environment, t := range f.NextChecks {
		if t.IsZero() || first != nil && !t.Before(when) {
			continue
		}
		l := Line{Environment: environment, Tone: ToneCalm, Parts: []Part{text("The next scheduled check starts at "), at(t)}}
		if !t.After(f.Now) {
			l.Parts = []Part{text("The next scheduled check is due now")}
		}
		if f.Several {
			l.Parts = append(l.Parts, text(" in %s", environment))
		}
		first, when = &l, t
	}
	if first == nil {
		return nil
	}
	return []Line{*first}
}

// Wall is one protection of the operating system around agents, and whether this machine has it.
type Wall struct {
	Name    string
	State   string // on, off, open or missing
	Detail  string
	Missing bool
	Open    bool // could be on and is not wanted, which is worth a warning
}

// Floor is the name of the row about all that tiers above the first need.
const Floor = "floor"

// Walls says in one sentence which walls agents have. Hole is true if one is missing. Without rows nothing is known.
func Walls(walls []Wall) (text string, hole bool) {
	if len(walls) == 0 {
		return "", false
	}
	var missing []string
	for _, w := range walls {
		switch {
		case w.Missing && w.Name == Floor:
			return "Walls: " + w.Detail, true
		case w.Missing:
			missing = append(missing, w.Name)
		}
	}
	switch len(missing) {
	case 0:
		return "Walls: on for all sessions", false
	case 1:
		return fmt.Sprintf("Walls: %s is missing on this machine", missing[0]), true
	}
	return fmt.Sprintf("Walls: %s are missing on this machine", strings.Join(missing, ", ")), true
}

// DryRun says that agents change nothing, or is empty.
const DryRun = "Dry run: agents only look, nothing is changed"

const (
	day = 24 * time.Hour
	// pricedDays is over how many days the price of a look is averaged.
	pricedDays = 30
)

// LookPrice is what a look of Tier 1 at an environment has cost lately; nil where that is not known.
func LookPrice(ctx context.Context, costs *store.Reports, environment string, now time.Time) (*float64, error) {
	rows, err := costs.Costs(ctx, store.CostByTier, store.CostFilter{Environment: environment, Since: now.Add(-pricedDays * day)})
	if err != nil {
		return nil, err
	}
	var sum store.Cost
	for _, r := range rows {
		if r.Key == strconv.Itoa(int(ops.Tier1)) {
			sum = sum.Add(r.Cost)
		}
	}
	price := sum.USD
	if price != nil {
		price = ops.Ptr(*price / float64(max(1, sum.Reported)))
	}
	return price, nil
}

// Unprobed says who looks at the services of an environment that have no probe beside others that have one, and at what price. It is
// empty where there are none. Nobody is true if nobody looks.
func Unprobed(e ops.Environment, lookUSD *float64) (text string, nobody bool) {
	names := e.Policy.Unprobed()
	switch n := len(names); {
	case n == 0:
		return "", false
	case e.Policy.ObserveEvery == 0:
		return "nobody looks at " + ops.Listed(names) + ": no probe, and observe_every is 0", true
	case n == 1:
		return names[0] + " has no probe: " + looks(e, lookUSD), false
	default:
		return fmt.Sprintf("%d services have no probe (%s): %s", n, ops.Listed(names), looks(e, lookUSD)), false
	}
}

// UnprobedService says the same about one service.
func UnprobedService(e ops.Environment, service string, lookUSD *float64) string {
	switch {
	case !slices.Contains(e.Policy.Unprobed(), service):
		return ""
	case e.Policy.ObserveEvery == 0:
		return "Nobody looks at it: it has no probe, and observe_every is 0. Add a probe, or set observe_every."
	}
	return "It has no probe: " + looks(e, lookUSD) + "."
}

// looks says how often Tier 1 looks, and what that costs. It looks in scheduled cycles, so not more often than those start.
func looks(e ops.Environment, lookUSD *float64) string {
	every := max(e.Policy.ObserveEvery, e.Interval)
	text := "one look a day by Tier 1, "
	if every != day {
		text = fmt.Sprintf("one look every %s by Tier 1, ", ops.Span(every))
	}
	if lookUSD == nil {
		return text + "cost unknown until the first look"
	}
	price := *lookUSD * day.Hours() / every.Hours()
	if price < 0.01 {
		return text + "less than $0.01 a day"
	}
	return text + "about " + ops.Dollars(&price) + " a day"
}
