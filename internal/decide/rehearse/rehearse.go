package rehearse

import (
	"slices"
	"strings"

	"claudeops/internal/decide"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// Configuration is what one makes of recorded rows.
type Configuration struct {
	Policies map[string]ops.Policy // by environment
	// Judge answers a tool call. Nothing is recorded of where it ran; each guess is another one of that.
	Judge   func(environment string, g ops.GuardRecord, guess int) Verdict
	Guesses int
}

// Verdict is the guard's answer to a tool call.
type Verdict struct {
	Allowed bool
	Rule    string
}

// Rehearsal takes recorded rows, the newest first, and collects what is different.
type Rehearsal struct {
	before *Configuration
	after  Configuration
	reel   decide.Reel
	groups map[string]int // the place of each in the report
	calls  map[call]answer
	noted  map[string]bool // environments, see missing
	report Report
}

// New begins a rehearsal of a configuration. It is compared with what another one would decide; nil: with what was recorded.
func New(before *Configuration, after Configuration) *Rehearsal {
	return &Rehearsal{before: before, after: after, groups: map[string]int{}, calls: map[call]answer{}, noted: map[string]bool{}}
}

// Stop notes why the rehearsal ends before the end of the record.
func (r *Rehearsal) Stop(why string) { r.report.Stopped = why }

// Cycle takes one cycle again.
func (r *Rehearsal) Cycle(c ops.Recorded) {
	r.report.Counts.Cycles++
	before := r.before
	if before != nil && !before.has(c.Environment) {
		before = nil
	}
	if !r.after.has(c.Environment) {
		if r.before == before {
			r.note(Difference{
				Kind: KindEnvironment, Environment: c.Environment, Before: "has cycles", After: "not configured", Cycle: c.ID, At: c.At,
			}, func() string { return "environments" })
		}
		return
	}
	differs := false
	if len(c.Steps) == 0 {
		r.report.Counts.DecisionOnly++
	} else {
		differs = r.steps(c, before)
	}
	for _, d := range c.Decisions {
		r.decision(c, d, before, differs)
	}
}

// steps takes the steps of a cycle again, and reports whether one is different.
func (r *Rehearsal) steps(c ops.Recorded, before *Configuration) (differs bool) {
	r.reel.Lost()
	for _, s := range c.Steps {
		t, err := r.reel.Taken(s.Facts)
		if err != nil {
			r.report.Counts.Unreadable++
			return differs
		}
		r.report.Counts.Steps++
		r.missing(c.Environment, t.Cycle.Policy)
		base, policy := t.Cycle.Policy, r.after.policy(t.Cycle)
		recorded := say(t.Step, t)
		was, now := recorded, say(again(t, policy), t)
		if before != nil {
			base = before.policy(t.Cycle)
			was = say(again(t, base), t)
		}
		if was != now {
			differs = true
			d := Difference{
				Kind: KindStep, Environment: c.Environment, Before: was.tells, After: now.tells, Cycle: c.ID, Step: s.N, At: t.At,
			}
			if d.CutShort = was.does != now.does; d.CutShort {
				d.Before, d.After = was.does, now.does
				r.report.Counts.CutShort++
			}
			r.note(d, func() string {
				return because(base, policy, func(p ops.Policy) bool { return say(again(t, p), t) == now })
			})
			if d.CutShort {
				return true
			}
		}
		if was.does != recorded.does {
			r.report.Counts.Departed++
			return differs
		}
	}
	return differs
}

// again decides a step once more. What is not probed any more is not found to fail either.
func again(t decide.Taken, p ops.Policy) ops.Step {
	probed := func(p ops.Policy, name string) bool {
		return slices.ContainsFunc(p.Inventory.Services, func(s ops.Service) bool { return s.Name == name && s.Probed })
	}
	t.Journal.Checks = slices.DeleteFunc(slices.Clone(t.Journal.Checks), func(c ops.Check) bool {
		return probed(t.Cycle.Policy, c.Service) && !probed(p, c.Service)
	})
	t.Cycle.Policy = p
	return decide.Next(decide.NoWords{}, ops.Claimed{Cycle: t.Cycle, Journal: t.Journal}, t.At)
}

func (c Configuration) has(environment string) bool {
	_, ok := c.Policies[environment]
	return ok
}

// policy is what the configuration says of a cycle, as far as its facts go: there are none of a service that it did not know, or did
// not probe.
func (c Configuration) policy(of ops.Cycle) ops.Policy {
	p := c.Policies[of.Environment].Narrow(of.Options).Behind(of.Policy) // the walls were those of the machine
	probed := map[string]bool{}                                          // the services that it knew
	for _, s := range of.Policy.Inventory.Services {
		probed[s.Name] = s.Probed
	}
	var services []ops.Service
	for _, s := range p.Inventory.Services {
		if old, known := probed[s.Name]; known {
			s.Probed = s.Probed && old
			services = append(services, s)
		}
	}
	p.Inventory.Services = services
	return p
}

// missing notes once, from the newest cycle, the services of which nothing is recorded.
func (r *Rehearsal) missing(environment string, recorded ops.Policy) {
	if r.noted[environment] {
		return
	}
	r.noted[environment] = true
	var names []string
	for _, s := range r.after.Policies[environment].Inventory.Services {
		if !slices.ContainsFunc(recorded.Inventory.Services, func(o ops.Service) bool { return o.Name == s.Name }) {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		r.report.Notes = append(r.report.Notes, "nothing is recorded of "+ops.Cut(strings.Join(names, ", "), maxText)+" in "+environment)
	}
}

// decision takes a decision about an escalation again. That of a cycle whose steps differ is not told twice.
func (r *Rehearsal) decision(c ops.Recorded, d ops.RecordedDecision, before *Configuration, notified bool) {
	under := func(p ops.Policy) string {
		x, err := escalation.Again(d, p)
		if err != nil {
			return "" // nothing is stored that it could be taken from
		}
		return ruling(x)
	}
	walls := escalation.Under(d.Decision)
	policy := r.after.Policies[c.Environment].Narrow(c.Options).Behind(walls)
	was, now := ruling(d.Decision), under(policy)
	if now == "" {
		return
	}
	r.report.Counts.Decisions++
	base := func() ops.Policy { return escalation.Under(d.Decision) }
	if before != nil {
		base = func() ops.Policy { return before.Policies[c.Environment].Narrow(c.Options).Behind(walls) }
		was = under(base())
	}
	if was != now && !notified {
		r.note(Difference{Kind: KindDecision, Environment: c.Environment, Before: was, After: now, Cycle: c.ID, At: d.At}, func() string {
			return because(base(), policy, func(p ops.Policy) bool { return under(p) == now })
		})
	}
}
