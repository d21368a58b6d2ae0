package rehearse

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/decide"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// Configuration is what one makes of recorded rows.
type Configuration struct {
	Policies map[string]ops.Policy // by environment
	// Discovers: services may also come from repositories, so one that the configuration does not name is still there.
	Discovers bool
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
	groups map[group]int
	calls  map[call]*judged
	looked map[string]bool // environments, see missing
	report Report
}

// New begins a rehearsal of a configuration. It is compared with what another one would decide; nil: with what was recorded.
func New(before *Configuration, after Configuration) *Rehearsal {
	return &Rehearsal{before: before, after: after, groups: map[group]int{}, calls: map[call]*judged{}, looked: map[string]bool{}}
}

// Cycle takes one cycle again.
func (r *Rehearsal) Cycle(c ops.Recorded) {
	r.report.Counts.Cycles++
	if _, ok := r.after.Policies[c.Environment]; !ok {
		if r.before == nil || r.before.has(c.Environment) {
			r.note(Difference{
				Kind: KindEnvironment, Environment: c.Environment, Before: "has cycles", After: "not configured",
				Cycle: c.ID, At: c.At,
			}, func() string { return "environments" })
		}
		return
	}
	differs := false
	if len(c.Steps) == 0 {
		r.report.Counts.DecisionOnly++
	} else {
		differs = r.steps(c)
	}
	for _, d := range c.Decisions {
		r.decision(c, d, differs)
	}
}

// steps takes the steps of a cycle again, and reports whether one is different.
func (r *Rehearsal) steps(c ops.Recorded) (differs bool) {
	r.reel.Lost()
	for _, s := range c.Steps {
		t, err := r.reel.Taken(s.Facts)
		if err != nil {
			r.report.Counts.Unreadable++
			return differs
		}
		r.report.Counts.Steps++
		base := t.Cycle.Policy
		was := t.Step
		if r.before != nil && r.before.has(c.Environment) {
			base = r.before.policy(t.Cycle.Environment, t.Cycle.Options, t.Cycle.Policy)
			was = again(t, base)
		}
		policy := r.after.policy(t.Cycle.Environment, t.Cycle.Options, t.Cycle.Policy)
		r.missing(c.Environment, t.Cycle.Policy)
		before, after := say(was, t), say(again(t, policy), t)
		if !before.equal(after) {
			differs = true
			from, to, cut := before.against(after)
			r.note(Difference{
				Kind: KindStep, Environment: c.Environment, Before: from, After: to, Cycle: c.ID, Step: s.N, At: t.At, CutShort: cut,
			}, func() string {
				return because(base, policy, func(p ops.Policy) bool { return say(again(t, p), t).equal(after) })
			})
			if cut {
				r.report.Counts.CutShort++
				return true
			}
		}
		if r.before != nil && !slices.Equal(before.does, say(t.Step, t).does) {
			r.report.Counts.Departed++
			return differs
		}
	}
	return differs
}

// again decides a step once more.
func again(t decide.Taken, p ops.Policy) ops.Step {
	left := map[string]bool{}
	for _, s := range t.Cycle.Policy.Inventory.Services {
		left[s.Name] = s.Probed
	}
	for _, s := range p.Inventory.Services {
		if s.Probed {
			delete(left, s.Name)
		}
	}
	j := t.Journal
	if len(left) > 0 { // what is not probed any more is not found to fail either
		j.Checks = slices.DeleteFunc(slices.Clone(j.Checks), func(c ops.Check) bool { return left[c.Service] })
	}
	c := t.Cycle
	c.Policy = p
	return decide.Next(c, j, p, t.At)
}

func (c Configuration) has(environment string) bool {
	_, ok := c.Policies[environment]
	return ok
}

// policy is what the configuration says of a cycle, as far as the facts of the cycle go: a service that it did not know and one that it
// did not probe have no facts.
func (c Configuration) policy(environment string, o ops.CycleOptions, recorded ops.Policy) ops.Policy {
	p := c.Policies[environment].Narrow(o)
	known := map[string]ops.Service{}
	for _, s := range recorded.Inventory.Services {
		known[s.Name] = s
	}
	var services []ops.Service
	for _, s := range p.Inventory.Services {
		if old, ok := known[s.Name]; ok {
			s.Probed = s.Probed && old.Probed
			services = append(services, s)
			delete(known, s.Name)
		}
	}
	for _, s := range recorded.Inventory.Services {
		if _, left := known[s.Name]; left && c.Discovers {
			services = append(services, s)
		}
	}
	p.Inventory.Services = services
	return p
}

// missing notes what the configuration asks of the record and the record does not say.
func (r *Rehearsal) missing(environment string, recorded ops.Policy) {
	if r.looked[environment] {
		return // the newest cycle has said it
	}
	r.looked[environment] = true
	p := r.after.Policies[environment]
	var names []string
	for _, s := range p.Inventory.Services {
		if !slices.ContainsFunc(recorded.Inventory.Services, func(o ops.Service) bool { return o.Name == s.Name }) {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		r.report.Notes = append(r.report.Notes,
			ops.Cut(fmt.Sprintf("nothing is recorded of these services of %s: %s", environment, strings.Join(names, ", ")), maxText))
	}
	if !unchanged(recorded.Cooldowns, p.Cooldowns) {
		r.report.Notes = append(r.report.Notes,
			"the limits of cooldowns in "+environment+" are others: what was left of them is taken as recorded")
	}
}

// decision takes a decision about an escalation again. That of a cycle whose steps differ is not told twice.
func (r *Rehearsal) decision(c ops.Recorded, d ops.Decision, told bool) {
	decide := func(p ops.Policy) (string, error) {
		x, err := escalation.Again(d, c.Families[d.SessionID], p)
		return ruling(x), err
	}
	policy := r.after.Policies[c.Environment].Narrow(c.Options)
	after, err := decide(policy)
	if err != nil {
		return // nothing is stored that it could be taken from
	}
	r.report.Counts.Decisions++
	before := ruling(d)
	base := escalation.Under
	if r.before != nil && r.before.has(c.Environment) {
		old := r.before.Policies[c.Environment].Narrow(c.Options)
		base = func(ops.Decision) ops.Policy { return old }
		before, _ = decide(old) // it can be read
	}
	if before == after || told {
		return
	}
	r.note(Difference{Kind: KindDecision, Environment: c.Environment, Before: before, After: after, Cycle: c.ID, At: d.At}, func() string {
		return because(base(d), policy, func(p ops.Policy) bool {
			now, err := decide(p)
			return err == nil && now == after
		})
	})
}

// Stop notes why the rehearsal ends before the end of the record.
func (r *Rehearsal) Stop(why string) { r.report.Stopped = why }
