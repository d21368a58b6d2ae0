package health

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Judge says for every bad service whether it starts a cycle now, and if not, why. The order of the picture does not matter.
func Judge(p Picture, g ops.Grouping, now time.Time) Judgement {
	v := newView(p, withDefaults(g), now)
	var j Judgement
	var free []*badService
	for _, name := range slices.Sorted(maps.Keys(v.bad)) {
		s := v.bad[name]
		if h, held := v.hold(s); held {
			h.Service = name
			j.Held = append(j.Held, h)
		} else {
			free = append(free, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.unsettled)) {
		h := v.holdUnsettled(v.unsettled[name])
		h.Service = name
		j.Held = append(j.Held, h)
	}
	for _, c := range v.States {
		if h, held := v.holdCalming(c); held && !slices.ContainsFunc(j.Held, func(o ops.Withheld) bool { return o.Service == h.Service }) {
			j.Held = append(j.Held, h)
		}
	}
	for _, members := range v.cluster(free) {
		if due := v.due(members); now.Before(due) {
			for _, s := range members {
				j.Held = append(j.Held, ops.Withheld{Service: s.name, Why: ops.HoldWaiting, Until: due, Reason: fmt.Sprintf(
					"%s is %s; other services may fail for the same cause until %s.", s.name, s.level, clock(due))})
			}
			continue
		}
		j.Causes = append(j.Causes, v.cause(members))
	}
	slices.SortFunc(j.Held, func(a, b ops.Withheld) int { return strings.Compare(a.Service, b.Service) })
	j.Flapping = v.flapping(j.Held)
	for _, h := range j.Held {
		if h.Until.After(now) && (j.Next.IsZero() || h.Until.Before(j.Next)) {
			j.Next = h.Until
		}
	}
	return j
}

// badService is a service with at least one failing check.
type badService struct {
	name   string
	group  string
	level  ops.Health
	began  time.Time        // the first bad result of its checks
	since  time.Time        // when the first of its checks settled
	checks []ops.CheckState // the bad ones
}

// view is a picture, indexed for Judge.
type view struct {
	Picture
	rules     ops.Grouping
	now       time.Time
	needs     dependencies
	groups    map[string]string // by service
	bad       map[string]*badService
	unsettled map[string]*badService // those without a failing check
	better    map[string]time.Time   // when a service last recovered
	members   []map[string]bool      // the services of each cause
	on        []bool                 // whether a service of the cause is still bad
}

func newView(p Picture, g ops.Grouping, now time.Time) *view {
	v := &view{
		Picture: p, rules: g, now: now, needs: newDependencies(p.Services),
		groups: map[string]string{}, bad: map[string]*badService{}, unsettled: map[string]*badService{}, better: map[string]time.Time{},
	}
	for _, s := range p.Services {
		v.groups[s.Name] = s.Group
	}
	states := slices.Clone(p.States)
	slices.SortFunc(states, func(a, b ops.CheckState) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Probe, b.Probe))
	})
	for _, s := range states {
		if s.Recovered.After(v.better[s.Service]) {
			v.better[s.Service] = s.Recovered
		}
		switch {
		case s.Failing():
			add(v.bad, s, s.Level, v.groups)
		case s.Unsettled():
			add(v.unsettled, s, s.Last.Status, v.groups)
		}
	}
	maps.DeleteFunc(v.unsettled, func(name string, _ *badService) bool { return v.bad[name] != nil })
	for i := range p.Causes {
		members := make(map[string]bool, len(p.Causes[i].Services))
		for _, name := range p.Causes[i].Services {
			members[name] = true
		}
		v.members, v.on = append(v.members, members), append(v.on, v.ongoing(&p.Causes[i]))
	}
	return v
}

func add(to map[string]*badService, s ops.CheckState, level ops.Health, groups map[string]string) {
	b := to[s.Service]
	if b == nil {
		b = &badService{name: s.Service, group: groups[s.Service], level: level, began: s.Began, since: s.Since}
		to[s.Service] = b
	}
	b.checks = append(b.checks, s)
	if level == ops.Down {
		b.level = ops.Down
	}
	b.began, b.since = earlier(b.began, s.Began), earlier(b.since, s.Since)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hold applies the rows of the package's table, all but the last.
func (v *view) hold(s *badService) (ops.Withheld, bool) {
	for _, row := range []func(*badService) (ops.Withheld, bool){v.inhibited, v.covered, v.dependency, v.recent} {
		if h, held := row(s); held {
			return h, true
		}
	}
	return ops.Withheld{}, false
}

// holdUnsettled holds a service that failed too few checks. What would hold it anyway is told first, so that nothing is started for it
// by others either.
func (v *view) holdUnsettled(s *badService) ops.Withheld {
	for _, row := range []func(*badService) (ops.Withheld, bool){v.inhibited, v.dependency} {
		if h, held := row(s); held {
			return h
		}
	}
	worst := s.checks[0]
	for _, c := range s.checks[1:] {
		if c.Bad > worst.Bad {
			worst = c
		}
	}
	return ops.Withheld{Why: ops.HoldUnsettled, Reason: fmt.Sprintf("%s was %s at its last check: %s.", s.name, s.level, Explain(worst))}
}

// holdCalming holds a service that flaps and is good just now: it has recovered when it has stayed so.
func (v *view) holdCalming(c ops.CheckState) (ops.Withheld, bool) {
	if v.bad[c.Service] != nil || v.unsettled[c.Service] != nil || !flaps(c, v.now) {
		return ops.Withheld{}, false
	}
	h, held := v.inhibitedCheck(&badService{name: c.Service, group: v.groups[c.Service]}, c)
	h.Service = c.Service
	return h, held && h.Why == ops.HoldFlapping
}

// inhibited holds a service whose bad checks all flap, or are silenced or in maintenance.
func (v *view) inhibited(s *badService) (ops.Withheld, bool) {
	var first ops.Withheld
	for i, c := range s.checks {
		h, held := v.inhibitedCheck(s, c)
		if !held {
			return ops.Withheld{}, false
		}
		if i == 0 || (!h.Until.IsZero() && h.Until.Before(first.Until)) {
			first = h
		}
	}
	return first, true
}

func (v *view) inhibitedCheck(s *badService, c ops.CheckState) (ops.Withheld, bool) {
	if v.holdsFlapping(s, c) {
		until := c.Changed[len(c.Changed)-1].Add(c.Calm)
		return ops.Withheld{
			Why:    ops.HoldFlapping,
			Until:  until,
			Reason: fmt.Sprintf("%s is flapping; it must be stable for %s first.", s.name, ops.Span(c.Calm)),
		}, true
	}
	return v.silenced(s, c.Probe)
}

// holdsFlapping: the check flaps and had its cycle. A check that goes up and down all the time is degraded for that, and gets one cycle;
// that it flaps, too, keeps it from getting more of them.
func (v *view) holdsFlapping(s *badService, c ops.CheckState) bool {
	if !flaps(c, v.now) || c.Lately.Unsteady == "" {
		return flaps(c, v.now)
	}
	if _, covered := v.covered(s); covered {
		return false
	}
	for i, o := range v.Causes {
		if v.members[i][s.name] && o.At.After(c.Flapped) {
			return true
		}
	}
	return false
}

// flapping lists the services that no agent works on because they flap, that nobody has silenced, and of which nobody was told.
func (v *view) flapping(onHold []ops.Withheld) []Flapping {
	why := map[string]ops.HoldReason{}
	for _, h := range onHold {
		why[h.Service] = h.Why
	}
	found, notified := map[string]Flapping{}, map[string]bool{}
	for _, c := range v.States {
		if !flaps(c, v.now) {
			continue
		}
		notified[c.Service] = notified[c.Service] || c.Notified
		if v.bad[c.Service] != nil {
			if why[c.Service] != ops.HoldFlapping {
				continue // it has a cycle, or gets one
			}
		} else if c.Lately.Checks < leastChecks || len(within(c.Lately.Failures, v.now)) >= mostFailures {
			continue // with the next failure it may be degraded, and get one
		}
		s := &badService{name: c.Service, group: v.groups[c.Service]}
		if _, silenced := v.silenced(s, c.Probe); silenced {
			continue
		}
		if _, dependent := v.dependency(s); dependent {
			continue
		}
		if f, ok := found[c.Service]; !ok || c.Flapped.Before(f.Since) {
			found[c.Service] = Flapping{Service: c.Service, Since: c.Flapped, Calm: c.Calm, Error: c.Last.Error}
		}
	}
	maps.DeleteFunc(found, func(name string, _ Flapping) bool { return notified[name] })
	return slices.SortedFunc(maps.Values(found), func(a, b Flapping) int { return strings.Compare(a.Service, b.Service) })
}

// silenced holds a check that a silence, a person or a maintenance covers.
func (v *view) silenced(s *badService, probe string) (ops.Withheld, bool) {
	// When a silence or a window ends, services get one grouping window more to recover.
	for _, at := range []time.Time{v.now, v.now.Add(-v.rules.Window)} {
		for _, q := range v.Silences {
			if q.Active(at) && q.Covers(v.Environment, s.name, s.group, probe) {
				why, what := ops.HoldSilenced, "silenced until "+clock(q.Until)
				if q.Incident != 0 || q.Approval != 0 {
					why, what = ops.HoldPerson, "held by a person"
				}
				return ops.Withheld{
					Why: why, Until: q.Until.Add(v.rules.Window),
					Reason: fmt.Sprintf("%s is %s, but %s: %s.", s.name, s.level, what, strings.TrimSuffix(q.Reason, ".")),
				}, true
			}
		}
		for _, w := range v.Windows {
			until, open := w.Active(at)
			if open && w.Covers(s.name, s.group) {
				return ops.Withheld{
					Why: ops.HoldMaintenance, Until: until.Add(v.rules.Window),
					Reason: fmt.Sprintf("%s is %s, but in maintenance until %s.", s.name, s.level, clock(until)),
				}, true
			}
		}
	}
	return ops.Withheld{}, false
}

// Inhibited returns which checks would start nothing now on their own: they flap, or are silenced, held by a person or in maintenance.
func Inhibited(p Picture, g ops.Grouping, now time.Time) func(ops.CheckState) bool {
	v := newView(p, withDefaults(g), now)
	return func(s ops.CheckState) bool {
		_, held := v.inhibitedCheck(&badService{name: s.Service, group: v.groups[s.Service], level: s.Level, began: s.Began, since: s.Since}, s)
		return held
	}
}

// covered holds a service that belongs to a cause whose cycle was started.
func (v *view) covered(s *badService) (ops.Withheld, bool) {
	var by *ops.Cause
	for i := range v.Causes {
		o := &v.Causes[i]
		if v.belongs(s, i) && (by == nil || o.At.After(by.At)) {
			by = o
		}
	}
	if by == nil {
		return ops.Withheld{}, false
	}
	h := ops.Withheld{Why: ops.HoldCovered, Reason: fmt.Sprintf("%s is %s; a cycle was started for it at %s.", s.name, s.level, clock(by.At))}
	if _, follows := v.dependency(s); !follows { // what it needs explains why it is bad
		h.Cycle = by.Cycle
	}
	if v.rules.Repeat > 0 {
		h.Until = by.At.Add(v.rules.Repeat)
		return h, v.now.Before(h.Until)
	}
	return h, true
}

func (v *view) belongs(s *badService, cause int) bool {
	o := &v.Causes[cause]
	if o.ResolvedAt != nil {
		return false
	}
	if v.members[cause][s.name] {
		return !s.began.After(o.At)
	}
	if !o.Takes || s.group != o.Group || !v.on[cause] || !s.since.After(o.At) {
		return false // what had failed before the cycle was started was left out of it for a reason, which may be over
	}
	if s.group != "" {
		// After that it gets a cycle of its own.
		return !s.began.After(o.At.Add(v.rules.Pause))
	}
	return s.began.Sub(o.Began).Abs() <= v.rules.Window
}

// ongoing reports whether a service of a cause is still bad.
func (v *view) ongoing(o *ops.Cause) bool {
	return slices.ContainsFunc(o.Services, func(name string) bool {
		s := v.bad[name]
		return s != nil && !s.began.After(o.At)
	})
}

// dependency holds a service that needs another which is bad, may be failing, or has just recovered.
func (v *view) dependency(s *badService) (ops.Withheld, bool) {
	var unsettled, better string
	all := v.needs.all(s.name)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case name == s.name, v.needs.all(name)[s.name]: // those that need each other fail together
		case v.bad[name] != nil && v.root(name):
			return ops.Withheld{
				Why:    ops.HoldDependency,
				Reason: fmt.Sprintf("%s is %s; it depends on %s, which is %s.", s.name, s.level, name, v.bad[name].level),
			}, true
		case v.unsettled[name] != nil:
			unsettled = cmp.Or(unsettled, name)
		case v.now.Sub(v.better[name]) < v.rules.Grace:
			better = cmp.Or(better, name)
		}
	}
	if unsettled != "" {
		return ops.Withheld{
			Why:    ops.HoldDependency,
			Reason: fmt.Sprintf("%s is %s; it depends on %s, which may be failing.", s.name, s.level, unsettled),
		}, true
	}
	if better != "" {
		until := v.better[better].Add(v.rules.Grace)
		return ops.Withheld{
			Why:    ops.HoldDependency,
			Until:  until,
			Reason: fmt.Sprintf("%s is %s; it depends on %s, which has just recovered.", s.name, s.level, better),
		}, true
	}
	return ops.Withheld{}, false
}

// root reports whether nothing a bad service depends on is bad too.
func (v *view) root(name string) bool {
	for d := range v.needs.all(name) {
		if d != name && v.bad[d] != nil && !v.needs.all(d)[name] {
			return false
		}
	}
	return true
}

// recent holds a service that failed again shortly after its last cycle was started, or that is still bad after its cause counts as over.
func (v *view) recent(s *badService) (ops.Withheld, bool) {
	var last time.Time
	said := "%s is %s again; its last cycle was started at %s."
	for i, o := range v.Causes {
		if v.members[i][s.name] && !o.At.After(v.now) && o.At.After(last) {
			last = o.At
		}
		if over := o.ResolvedAt; over != nil && v.members[i][s.name] && !s.began.After(o.At) && over.After(last) {
			last, said = *over, "%s is still %s; its last problem was closed at %s."
		}
	}
	until := last.Add(v.rules.Pause)
	if last.IsZero() || !v.now.Before(until) {
		return ops.Withheld{}, false
	}
	return ops.Withheld{
		Why:    ops.HoldRecent,
		Until:  until,
		Reason: fmt.Sprintf(said, s.name, s.level, clock(last)),
	}, true
}

// cluster groups what fails for one reason: services of one group, or what began within one window.
func (v *view) cluster(free []*badService) [][]*badService {
	slices.SortFunc(free, func(a, b *badService) int {
		return cmp.Or(strings.Compare(a.group, b.group), a.began.Compare(b.began), strings.Compare(a.name, b.name))
	})
	var out [][]*badService
	for _, s := range free {
		if n := len(out); n > 0 {
			first := out[n-1][0]
			if s.group == first.group && (s.group != "" || s.began.Sub(first.began) <= v.rules.Window) {
				out[n-1] = append(out[n-1], s)
				continue
			}
		}
		out = append(out, []*badService{s})
	}
	return out
}

func (v *view) due(members []*badService) time.Time {
	first := members[0].since
	for _, s := range members[1:] {
		first = earlier(first, s.since)
	}
	return first.Add(v.rules.Window)
}

func (v *view) cause(members []*badService) NewCause {
	first := members[0]
	c := NewCause{Cause: ops.Cause{
		Key:         causeKey(v.Environment, first.group, first.name, first.began),
		Environment: v.Environment, Group: first.group, Level: ops.Degraded, Began: first.began,
	}}
	roots := map[string]bool{}
	for _, s := range members {
		roots[s.name] = true
		if s.level == ops.Down {
			c.Level = ops.Down
		}
	}
	c.Services = slices.Sorted(maps.Keys(roots))
	for name := range v.bad {
		for d := range v.needs.all(name) {
			if roots[d] && !roots[name] && !v.needs.all(d)[name] {
				c.Affected = append(c.Affected, name)
				break
			}
		}
	}
	slices.Sort(c.Affected)
	for _, name := range slices.Concat(c.Services, c.Affected) {
		for _, s := range v.bad[name].checks {
			c.Checks = append(c.Checks, s.Finding(s.Lately.Status))
		}
	}
	c.Reason = reasonOf(first, c)
	return c
}

func reasonOf(first *badService, c NewCause) string {
	worst := first.checks[0]
	for _, s := range first.checks {
		if s.Level == ops.Down && worst.Level != ops.Down {
			worst = s
		}
	}
	text := fmt.Sprintf("%s is %s%s", first.name, first.level, because(worst, worst.Level))
	if n := len(c.Services) - 1; n > 0 {
		text += fmt.Sprintf("; %d more failed with it", n)
	}
	if n := len(c.Affected); n > 0 {
		text += fmt.Sprintf("; %d depending on it", n)
	}
	return text + "."
}

// clock shows a time in a sentence.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// withDefaults fills in what a configuration leaves out.
func withDefaults(g ops.Grouping) ops.Grouping {
	g.Window = orDefault(g.Window, 30*time.Second)
	g.Grace = orDefault(g.Grace, 2*time.Minute)
	g.Pause = orDefault(g.Pause, 10*time.Minute)
	return g
}

// Picture is all that is known about one environment.
type Picture struct {
	Environment string
	States      []ops.CheckState
	Services    []ops.Service // those without group and dependencies may be left out
	Silences    []ops.Silence
	Windows     []Window
	// Causes have started their cycles. Keep each until Resolved names it and the pause between two cycles is over.
	Causes []ops.Cause
}

// NewCause is a cause that should start one cycle now, with the last results of its bad checks.
type NewCause struct {
	ops.Cause
	Checks []ops.Check
}

// Judgement says for every bad service whether it starts a cycle.
type Judgement struct {
	Causes []NewCause
	Held   []ops.Withheld
	// Flapping are the services that no agent works on because they flap, and of which a person should be told.
	Flapping []Flapping
	Next     time.Time // when to judge again even if nothing changes; zero: never
}

// Flapping is a service that changes between good and bad too often.
type Flapping struct {
	Service string
	Since   time.Time     // the first of the changes that made it flap
	Calm    time.Duration // how long it must be stable
	Error   string        // of its last result
}

// Resolved returns the causes whose services have all recovered.
func Resolved(p Picture) []ops.Cause {
	bad := map[string]bool{}
	for _, s := range p.States {
		bad[s.Service] = bad[s.Service] || s.Failing()
	}
	var out []ops.Cause
	for _, c := range p.Causes {
		still := false
		for _, s := range c.Services {
			still = still || bad[s]
		}
		if !still {
			out = append(out, c)
		}
	}
	return out
}

// causeKey names a cause by what failed first and when.
func causeKey(environment, group, first string, began time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", environment, group, first, began.UnixNano()))
	return hex.EncodeToString(sum[:8])
}
