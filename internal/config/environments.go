package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// asAbove describes the default of what an environment inherits.
const asAbove = "as above"

// defaultEnvironment is the one that uses the state folder itself.
const defaultEnvironment = "default"

// Names become folder names and parts of addresses.
const environmentName = `^[a-z0-9][a-z0-9-]{0,62}$`

// environment is one entry of `environments`, with what it inherits already filled in.
type environment struct {
	name      string
	line      int // of the name in the file
	labels    []string
	reposDir  string
	interval  time.Duration
	dryRun    bool
	maxTier   ops.Tier
	trust     ops.Trust // empty: full
	notes     string
	inventory inventory
	watching  watching
}

// watching is how one environment is watched.
type watching struct {
	observe     ops.Observe    // empty: as its probes suggest
	every       *time.Duration // nil: as its probes suggest
	grouping    ops.Grouping   // without Repeat
	repeat      *time.Duration // nil: as observe suggests
	maintenance []ops.Maintenance
}

func observeKind() kind[ops.Observe] {
	return choiceKind("a way to observe", ops.ObserveAgent, ops.ObserveProbes, ops.ObserveBoth)
}

func trustKind() kind[ops.Trust] { return choiceKind("a level of trust", ops.TrustLevels()...) }

// withDefaults leaves out the defaults where the values are inherited.
func withDefaults(keep bool, fields ...field) []field {
	for i := range fields {
		if !keep {
			fields[i].def = ""
		}
	}
	return fields
}

func (w *watching) groupingFields(defaults bool) []field {
	return withDefaults(
		defaults,
		value("window", &w.grouping.Window, durationKind(time.Second),
			"How long a failure waits for others with the same cause. They start one cycle.").or("30s"),
		value("grace", &w.grouping.Grace, durationKind(time.Second),
			"How long a service may take to recover after its dependency recovered.").or("2m"),
		value("pause", &w.grouping.Pause, durationKind(time.Second),
			"Minimum time between two cycles for a service that fails again.").or("10m"),
		value("repeat", &w.repeat, optional(waitKind()),
			"Time after which a service that is still failing starts another cycle, unless a human has taken the incident; 0 means never.").
			orElse("`interval` with `observe: probes`, else 0"),
	)
}

// maintenanceField is a list of times in which failures start nothing.
func maintenanceField(at *[]ops.Maintenance, doc string) field {
	return list("maintenance", at, maintenanceFields, func(e *entry, m *ops.Maintenance) {
		i := strings.LastIndexByte(m.Schedule, ' ')
		if zone := m.Schedule[i+1:]; i > 0 && strings.IndexFunc(zone, unicode.IsLetter) == 0 && strings.Contains(zone, "/") {
			m.Schedule, m.Zone = m.Schedule[:i], zone
		}
		if !m.From.IsZero() {
			m.Until = m.From.Add(m.Length)
			if m.Schedule == "" {
				m.Length = 0
			}
		}
		if e.in.CheckMaintenance == nil {
			return
		}
		if err := e.in.CheckMaintenance(*m); err != nil {
			e.refuseAll("give a length, and either from or a schedule", "%s", err)
		}
	}, doc)
}

func maintenanceFields(m *ops.Maintenance) []field {
	return []field{
		value("name", &m.Name, textKind(), "Name of the maintenance.").must(),
		value("service", &m.Service, textKind(), "Services that it is for; `*` matches any text.").orElse("all"),
		value("group", &m.Group, textKind(), "Groups that it is for; `*` matches any text.").orElse("all"),
		value("from", &m.From, momentKind(), "Start time, such as `2026-03-14T22:00:00Z`. Or give a `schedule`."),
		value("schedule", &m.Schedule, textKind(), "Recurring start: `sun 02:00 Europe/Berlin`, or the five fields of cron; else in UTC."),
		value("length", &m.Length, durationKind(time.Minute), "How long it lasts; on a schedule at most a week.").must(),
	}
}

// base is an environment that has no values of its own.
func (c *Config) base() environment {
	return environment{
		name: defaultEnvironment, reposDir: c.ReposDir, interval: c.Interval, dryRun: c.DryRun, maxTier: c.MaxTier, trust: c.trust,
		notes: c.Notes, inventory: c.inventory, watching: c.watching,
	}
}

// environmentFields binds an entry, which starts with the values that hold for all.
func (c *Config) environmentFields(e *environment) []field {
	*e = c.base()
	w := &e.watching
	fields := []field{
		value("name", &e.name, matching("name", environmentName, "a name for an environment",
			"use small letters, digits and dashes, beginning with a letter or digit, at most 63"),
			"Name: small letters, digits and dashes, at most 63. `default` uses `state_dir` itself, others `env/NAME` below it.").
			mustElse("the environment has no name"),
		value("labels", &e.labels, wordsKind("labels"), "Labels that a host must have in `host.labels` to work for it.").orElse("none"),
		value("repos_dir", &e.reposDir, pathKind(), "Its own folder of repositories."),
		value("interval", &e.interval, durationKind(time.Second), "Its own interval."),
		value("dry_run", &e.dryRun, boolKind(),
			"Its own dry run. When a variable or flag also sets `dry_run`, the stricter value is used."),
		value("max_tier", &e.maxTier, intKind(ops.Tier1, ops.LastTier),
			"Its own highest tier. When a variable or flag also sets `max_tier`, the stricter value is used."),
		value("trust", &e.trust, trustKind(), "Its own level of trust."),
		servicesField(&e.inventory, "Its own services, in either form."),
		value("notes", &e.notes, textKind(), "Your description of it, given to Tier 1."),
		value("observe", &w.observe, observeKind(), "How its problems are found."),
		value("observe_every", &w.every, optional(waitKind()), "Its own maximum time without an agent."),
		object("grouping", &w.grouping, w.groupingFields(false), "Its own `window`, `grace`, `pause` and `repeat`."),
		maintenanceField(&w.maintenance, "Its own times of maintenance."),
	}
	for i, f := range fields {
		if !f.required && f.shown == "" {
			fields[i] = f.orElse(asAbove)
		}
	}
	return fields
}

// finishEnvironment applies the variables and flags that hold for every environment. For the two settings that protect, the stricter
// of both values is used, so that neither source can loosen the other.
func (c *Config) finishEnvironment(e *entry, env *environment) {
	env.line = e.given[&env.name].value.Line
	if i := slices.IndexFunc(c.environments, func(o environment) bool { return o.name == env.name }); i >= 0 {
		e.refuse(&env.name, "give every environment its own name", "%q is already used in line %d", env.name, c.environments[i].line)
	}
	if c.overridden(&c.DryRun) {
		env.dryRun = env.dryRun || c.DryRun
	}
	if c.overridden(&c.MaxTier) {
		env.maxTier = min(env.maxTier, c.MaxTier)
	}
	override(c, e, &env.reposDir, &c.ReposDir)
	override(c, e, &env.interval, &c.Interval)
}

// overridden reports whether a variable or flag sets a value.
func (c *Config) overridden(at any) bool { return c.originOf(at).source > sourceFile }

// override replaces an environment's own value by that of a variable or flag.
func override[V any](c *Config, e *entry, own, general *V) {
	if !c.overridden(general) {
		return
	}
	if e.has(own) {
		c.Notices = append(c.Notices, fmt.Sprintf("%s of %s is not used: %s is stronger",
			e.fields.bound(own).key, e.position(e.given[own].key), c.originOf(general)))
	}
	*own = *general
}

// stateDir is where an environment keeps its files.
func (c *Config) stateDir(name string) string {
	if name == defaultEnvironment {
		return c.StateDir
	}
	return filepath.Join(c.StateDir, "env", name)
}

// observe is how problems of an environment are found: by probes where there are some, unless something else is set.
func (e environment) observe() ops.Observe {
	switch {
	case len(e.inventory.probes) == 0:
		return ops.ObserveAgent
	case e.watching.observe == "":
		return ops.ObserveProbes
	default:
		return e.watching.observe
	}
}

func (e environment) watch() ops.Watch {
	w := ops.Watch{
		Grouping:    e.watching.grouping,
		Maintenance: slices.Clone(e.watching.maintenance),
	}
	switch {
	case e.watching.repeat != nil:
		w.Grouping.Repeat = *e.watching.repeat
	case e.observe() == ops.ObserveProbes:
		w.Grouping.Repeat = max(e.interval, w.Grouping.Pause) // what still fails is tried again, as every interval would
	}
	return w
}

func (c *Config) showMaintenance() string {
	names := map[string]bool{}
	for _, e := range c.environments {
		for _, m := range e.watching.maintenance {
			names[m.Name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// Environments returns what is watched, ready to run. Services and probes are those of the configuration: nobody may change them.
func (c *Config) Environments() []ops.Environment {
	out := make([]ops.Environment, 0, len(c.environments))
	for _, e := range c.environments {
		dir := c.stateDir(e.name)
		env := ops.Environment{
			Name:      e.name,
			Labels:    slices.Clone(e.labels),
			StateDir:  dir,
			WorkDir:   filepath.Join(dir, "work"),
			ReposDir:  e.reposDir,
			Interval:  e.interval,
			Policy:    c.policy(e),
			Tools:     map[ops.Tier]ops.ToolLists{},
			Prompts:   map[ops.Tier]ops.PromptFiles{},
			Limits:    c.Limits,
			Probes:    e.inventory.probes,
			Watch:     e.watch(),
			AgentEnv:  slices.Clone(c.agentEnv),
			Notes:     e.notes,
			Protected: ops.Protected{Files: usualInventories(), Volumes: []string{dockerVolumes}, Hosts: slices.Clone(c.Guard.Hosts)},
		}
		for t, tier := range c.Tiers {
			env.Tools[t] = tier.Tools
			env.Prompts[t] = ops.PromptFiles{Fresh: tier.Prompt.Text, Escalation: tier.EscalationPrompt.Text}
		}
		watchEngine(&env)
		out = append(out, env)
	}
	return out
}

// watchEngine adds the container engine to what is watched, where a probe asks it. Without it nothing is known of the services that run
// in containers, so they depend on it.
func watchEngine(env *ops.Environment) {
	engine := ops.ProbeSpec{Service: ops.EngineService, Type: ops.ProbeEngine, FailAfter: engineLooks, RecoverAfter: 1}
	asked := false
	for _, p := range env.Probes {
		if p.Type == "container" {
			asked = true
			if p.Interval > 0 && (engine.Interval == 0 || p.Interval < engine.Interval) {
				engine.Interval = p.Interval
			}
		}
	}
	if !asked {
		return
	}
	env.Probes = append(slices.Clone(env.Probes), engine) // both are those of the configuration, which stays as it is
	env.Policy.Inventory.Services = slices.Clone(env.Policy.Inventory.Services)
	known := false
	for i := range env.Policy.Inventory.Services {
		s := &env.Policy.Inventory.Services[i]
		switch own := s.Name == ops.EngineService; {
		case own:
			s.Probed, known = true, true
		case s.Container != "":
			s.DependsOn = append(slices.Clone(s.DependsOn), ops.EngineService)
		}
	}
	if !known {
		env.Policy.Inventory.Services = append(env.Policy.Inventory.Services, ops.Service{Name: ops.EngineService, Probed: true})
	}
}

// engineLooks is how often in a row the engine must give no answer before it counts as down.
const engineLooks = 3

// Environment returns the environment with that name, or the first one for an empty name.
func (c *Config) Environment(name string) (ops.Environment, error) {
	envs := c.Environments()
	if name == "" {
		return envs[0], nil
	}
	var names []string
	for _, e := range envs {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	hint := ""
	if near := Suggest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return ops.Environment{}, fmt.Errorf("environment %q: %w; configured: %s%s", name, ops.ErrNotFound, strings.Join(names, ", "), hint)
}

// policy is what decides in an environment: what holds in all of them, and its own values.
func (c *Config) policy(e environment) ops.Policy {
	p := c.shared
	if c.Guard.Enabled { // without the guard nothing is reserved, and no limit is ever reached
		p.Cooldowns = slices.Clone(c.Guard.Limits)
	}
	p.Routes, p.Handlers, p.Windows = c.routes(), slices.Clone(c.registered()), maps.Clone(c.windows)
	p.BudgetDayUSD = c.BudgetDayUSD
	p.DryRun, p.MaxTier, p.Trust, p.TellEscalated = e.dryRun, e.maxTier, e.trust, c.tellEscalated()
	p.Observe = e.observe()
	p.Inventory = e.inventory.services
	switch {
	case e.watching.every != nil:
		p.ObserveEvery = *e.watching.every
	case len(p.Unprobed()) > 0:
		p.ObserveEvery = 24 * time.Hour // otherwise nobody would ever look at them
	}
	return p
}
