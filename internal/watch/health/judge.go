package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Judge says for every bad service whether it starts a cycle now, and if not, why. The result does not depend on the order
// of what the picture holds.
func Judge(p Picture, r Rules, now time.Time) Judgement {
	v := newView(p, r.withDefaults(), now)
	var j Judgement
	var free []*patient
	for _, name := range slices.Sorted(maps.Keys(v.bad)) {
		s := v.bad[name]
		if h, held := v.hold(s); held {
			h.Service = name
			j.Held = append(j.Held, h)
		} else {
			free = append(free, s)
		}
	}
	for _, members := range v.cluster(free) {
		if due := v.due(members); now.Before(due) {
			for _, s := range members {
				j.Held = append(j.Held, Held{Service: s.name, Why: WhyWaiting, Until: due, Reason: fmt.Sprintf(
					"%s is %s; other services may fail for the same cause until %s.", s.name, s.level, clock(due))})
			}
			continue
		}
		j.Causes = append(j.Causes, v.cause(members))
	}
	slices.SortFunc(j.Held, func(a, b Held) int { return strings.Compare(a.Service, b.Service) })
	for _, h := range j.Held {
		if h.Until.After(now) && (j.Next.IsZero() || h.Until.Before(j.Next)) {
			j.Next = h.Until
		}
	}
	return j
}

// patient is a bad service.
type patient struct {
	name   string
	group  string
	level  ops.Health
	began  time.Time // the first bad look of its checks
	since  time.Time // when the first of its checks settled
	checks []State   // the bad ones
}

// view is a picture, arranged.
type view struct {
	Picture
	rules   Rules
	now     time.Time
	needs   needs
	bad     map[string]*patient
	turning map[string]bool
	better  map[string]time.Time // when a service last recovered
}

func newView(p Picture, r Rules, now time.Time) *view {
	v := &view{
		Picture: p, rules: r, now: now, needs: newNeeds(p.Services),
		bad: map[string]*patient{}, turning: map[string]bool{}, better: map[string]time.Time{},
	}
	groups := map[string]string{}
	for _, s := range p.Services {
		groups[s.Name] = s.Group
	}
	states := slices.Clone(p.States)
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Probe, b.Probe))
	})
	for _, s := range states {
		if s.turning() {
			v.turning[s.Service] = true
		}
		if s.Recovered.After(v.better[s.Service]) {
			v.better[s.Service] = s.Recovered
		}
		if !s.bad() {
			continue
		}
		b := v.bad[s.Service]
		if b == nil {
			b = &patient{name: s.Service, group: groups[s.Service], level: s.Level, began: s.Began, since: s.Since}
			v.bad[s.Service] = b
		}
		b.checks = append(b.checks, s)
		if s.Level == ops.Down {
			b.level = ops.Down
		}
		b.began, b.since = earlier(b.began, s.Began), earlier(b.since, s.Since)
	}
	return v
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hold applies the rows of the package's table, all but the last.
func (v *view) hold(s *patient) (Held, bool) {
	for _, row := range []func(*patient) (Held, bool){v.quiet, v.covered, v.dependency, v.recent} {
		if h, held := row(s); held {
			return h, true
		}
	}
	return Held{}, false
}

// quiet holds a service whose bad checks all flap, or are silenced or in maintenance.
func (v *view) quiet(s *patient) (Held, bool) {
	var first Held
	for i, c := range s.checks {
		h, held := v.quietCheck(s, c)
		if !held {
			return Held{}, false
		}
		if i == 0 || (!h.Until.IsZero() && h.Until.Before(first.Until)) {
			first = h
		}
	}
	return first, true
}

func (v *view) quietCheck(s *patient, c State) (Held, bool) {
	if c.flaps(v.now) {
		until := c.Turns[len(c.Turns)-1].Add(c.Calm)
		return Held{Why: WhyFlapping, Until: until, Reason: fmt.Sprintf("%s is flapping; it must be steady for %s first.", s.name, c.Calm)}, true
	}
	// What ends leaves a grouping window for services to come back.
	for _, at := range []time.Time{v.now, v.now.Add(-v.rules.Window)} {
		for _, q := range v.Silences {
			if q.active(at) && q.matches(v.Environment, s.name, s.group, c.Probe) {
				return Held{
					Why: WhySilenced, By: q.Author, Until: q.Until.Add(v.rules.Window),
					Reason: fmt.Sprintf("%s is %s, but silenced until %s: %s.", s.name, s.level, clock(q.Until), strings.TrimSuffix(q.Reason, ".")),
				}, true
			}
		}
		for _, w := range v.Windows {
			until, open := w.active(at)
			if open && w.matches(v.Environment, s.name, s.group, c.Probe) {
				return Held{
					Why: WhyMaintenance, By: w.Name, Until: until.Add(v.rules.Window),
					Reason: fmt.Sprintf("%s is %s, but in maintenance until %s.", s.name, s.level, clock(until)),
				}, true
			}
		}
	}
	return Held{}, false
}

// covered holds a service that belongs to a cause whose cycle was started.
func (v *view) covered(s *patient) (Held, bool) {
	var by *Opened
	for i := range v.Open {
		o := &v.Open[i]
		if v.belongs(s, o) && (by == nil || o.At.After(by.At)) {
			by = o
		}
	}
	if by == nil {
		return Held{}, false
	}
	h := Held{Why: WhyCovered, By: by.ID, Reason: fmt.Sprintf("%s is %s; a cycle was started for it at %s.", s.name, s.level, clock(by.At))}
	if v.rules.Repeat > 0 {
		h.Until = by.At.Add(v.rules.Repeat)
		return h, v.now.Before(h.Until)
	}
	return h, true
}

func (v *view) belongs(s *patient, o *Opened) bool {
	if slices.Contains(o.Services, s.name) {
		return !s.began.After(o.At)
	}
	if s.group != o.Group || !v.alive(o) {
		return false
	}
	if s.group != "" {
		// Later than this it is better looked at once more than never.
		return !s.began.After(o.At.Add(v.rules.Pause))
	}
	return s.began.Sub(o.Began).Abs() <= v.rules.Window
}

// alive reports whether a service of an opened cause is still bad.
func (v *view) alive(o *Opened) bool {
	return slices.ContainsFunc(o.Services, func(name string) bool {
		s := v.bad[name]
		return s != nil && !s.began.After(o.At)
	})
}

// dependency holds a service that needs another which is bad, may be turning bad, or has just recovered.
func (v *view) dependency(s *patient) (Held, bool) {
	var turning, better string
	all := v.needs.all(s.name)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case name == s.name, v.needs.all(name)[s.name]: // those that need each other fail together
		case v.bad[name] != nil && v.root(name):
			return Held{Why: WhyDependency, By: name, Reason: fmt.Sprintf("%s is %s; it depends on %s, which is %s.", s.name, s.level, name, v.bad[name].level)}, true
		case v.turning[name]:
			turning = cmp.Or(turning, name)
		case v.now.Sub(v.better[name]) < v.rules.Grace:
			better = cmp.Or(better, name)
		}
	}
	if turning != "" {
		return Held{Why: WhyDependency, By: turning, Reason: fmt.Sprintf("%s is %s; it depends on %s, which may be turning bad.", s.name, s.level, turning)}, true
	}
	if better != "" {
		until := v.better[better].Add(v.rules.Grace)
		return Held{Why: WhyDependency, By: better, Until: until, Reason: fmt.Sprintf("%s is %s; it depends on %s, which has just recovered.", s.name, s.level, better)}, true
	}
	return Held{}, false
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

// recent holds a service that failed again shortly after its last cycle was started.
func (v *view) recent(s *patient) (Held, bool) {
	var last time.Time
	for _, o := range v.Open {
		if slices.Contains(o.Services, s.name) && !o.At.After(v.now) && o.At.After(last) {
			last = o.At
		}
	}
	until := last.Add(v.rules.Pause)
	if last.IsZero() || !v.now.Before(until) {
		return Held{}, false
	}
	return Held{Why: WhyRecent, Until: until, Reason: fmt.Sprintf("%s is %s again; its last cycle was started at %s.", s.name, s.level, clock(last))}, true
}

// cluster puts together what fails for one reason: a group, or what began within one window.
func (v *view) cluster(free []*patient) [][]*patient {
	slices.SortFunc(free, func(a, b *patient) int {
		return cmp.Or(strings.Compare(a.group, b.group), a.began.Compare(b.began), strings.Compare(a.name, b.name))
	})
	var out [][]*patient
	for _, s := range free {
		if n := len(out); n > 0 {
			first := out[n-1][0]
			if s.group == first.group && (s.group != "" || s.began.Sub(first.began) <= v.rules.Window) {
				out[n-1] = append(out[n-1], s)
				continue
			}
		}
		out = append(out, []*patient{s})
	}
	return out
}

func (v *view) due(members []*patient) time.Time {
	first := members[0].since
	for _, s := range members[1:] {
		first = earlier(first, s.since)
	}
	return first.Add(v.rules.Window)
}

func (v *view) cause(members []*patient) Cause {
	first := members[0]
	c := Cause{Group: first.group, Level: ops.Degraded, Began: first.began}
	c.ID = causeID(v.Environment, first.group, first.name, first.began)
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
			c.Checks = append(c.Checks, s.Last)
		}
	}
	c.Reason = sentence(first, c)
	return c
}

func sentence(first *patient, c Cause) string {
	worst := first.checks[0]
	for _, s := range first.checks {
		if s.Level == ops.Down && worst.Level != ops.Down {
			worst = s
		}
	}
	text := fmt.Sprintf("%s is %s%s", first.name, first.level, worst.because())
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
