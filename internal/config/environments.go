package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// defaultEnvironment is the one that uses the state folder itself.
const defaultEnvironment = "default"

// Names become folder names and parts of addresses.
var environmentName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// stopGrace is the time between the polite and the final signal to an agent.
const stopGrace = 10 * time.Second

func environmentFields() []field {
	return []field{
		{name: "name", doc: "Name: small letters, digits and dashes, at most 63. Required. `default` uses `state_dir` itself, others `env/NAME` below it."},
		{name: "labels", def: "none", doc: "What a host must have among its `host.labels` to work for it."},
		{name: "repos_dir", def: "as above", doc: "Its own folder of repositories."},
		{name: "interval", def: "as above", doc: "Its own interval."},
		{name: "dry_run", def: "as above", doc: "Its own dry run. When a variable or flag sets `dry_run`, the stricter of both holds."},
		{name: "max_tier", def: "as above", doc: "Its own highest tier. When a variable or flag sets `max_tier`, the stricter of both holds."},
		{name: "services", def: "as above", doc: "Its own services, in either form."},
		{name: "notes", def: "as above", doc: "Your own words about it, given to Tier 1."},
		{name: "observe", def: "as above", doc: "Who looks at it."},
		{name: "observe_every", def: "as above", doc: "Its own time between two looks of an agent."},
		{name: "tolerate_degraded", def: "as above", doc: "Whether degraded is good enough."},
		{name: "grouping", def: "as above", doc: "Its own `window`, `grace`, `pause` and `repeat`."},
		{name: "flapping", def: "as above", doc: "Its own `turns`, `window` and `calm`."},
		{name: "maintenance", def: "as above", doc: "Its own times of maintenance."},
	}
}

// environment is one entry of `environments`, with what it inherits already filled in.
type environment struct {
	name      string
	labels    []string
	reposDir  string
	interval  time.Duration
	dryRun    bool
	maxTier   ops.Tier
	notes     string
	inventory inventory
	watching  watching
}

// environments reads the list; without one there is a single environment with the top-level values.
func (l *loader) environments(c *Config) []environment {
	base := environment{
		name: defaultEnvironment, reposDir: c.ReposDir, interval: c.Interval, dryRun: c.DryRun, maxTier: c.MaxTier, notes: c.Notes,
	}
	base.watching = l.watching(c)
	if n := l.sections["services"]; n != nil {
		base.inventory = l.file.inventory(n, "services")
	}
	var out []environment
	lines := map[string]int{}
	if n := l.sections["environments"]; n != nil {
		for i, item := range l.file.items(n, "environments") {
			if e, ok := l.environment(c, base, item, fmt.Sprintf("environments[%d]", i), lines); ok {
				out = append(out, e)
			}
		}
	}
	if len(out) == 0 {
		out = []environment{base}
	}
	return out
}

func (l *loader) environment(c *Config, base environment, n *yaml.Node, key string, lines map[string]int) (environment, bool) {
	e := base
	e.name = ""
	if n.Kind != yaml.MappingNode {
		l.problems.add(l.file.at(n), key, "expected keys and values, found "+describe(n), "begin with name: …")
		return e, false
	}
	named := false
	for _, p := range l.file.pairs(n, key, names(environmentFields()), nil) {
		at := join(key, p.name)
		switch p.name {
		case "name":
			named = true
			e.name = l.environmentName(p.value, at, lines)
		case "labels":
			if v, ok := l.file.value(p.value, at, wordsKind("labels")); ok {
				e.labels, _ = v.([]string)
			}
		case "services":
			e.inventory = l.file.inventory(p.value, at)
		case "grouping":
			l.grouping(p.value, at, &e.watching)
		case "flapping":
			l.flapping(p.value, at, &e.watching)
		case "maintenance":
			e.watching.maintenance = l.maintenance(p.value, at)
		default:
			s, _ := l.table.find(p.name)
			if v, ok := l.file.value(p.value, at, s.kind); ok {
				l.override(c, &e, p, v)
			}
		}
	}
	if !named {
		l.problems.add(l.file.at(n), key, "the environment has no name", "add name: …")
	}
	return e, e.name != ""
}

func (l *loader) environmentName(n *yaml.Node, key string, lines map[string]int) string {
	v, ok := l.file.value(n, key, textKind())
	if !ok {
		return ""
	}
	name, _ := v.(string)
	if !environmentName.MatchString(name) {
		l.problems.add(l.file.at(n), key, fmt.Sprintf("%q is not a name for an environment", name),
			"use small letters, digits and dashes, beginning with a letter or digit, at most 63")
		return ""
	}
	if line, twice := lines[name]; twice {
		l.problems.add(l.file.at(n), key, fmt.Sprintf("%q is already used in line %d", name, line), "give every environment its own name")
		return ""
	}
	lines[name] = n.Line
	return name
}

// override applies an environment's own value. A value of the variable or flag of the same name is stronger; for
// the two that protect, the stricter of both holds, so that neither place can loosen the other.
func (l *loader) override(c *Config, e *environment, p pair, v any) {
	given := c.origins[p.name]
	stronger := given.source > sourceFile
	switch p.name {
	case "dry_run":
		own, _ := v.(bool)
		e.dryRun = own || (stronger && c.DryRun)
	case "max_tier":
		own, _ := v.(int)
		e.maxTier = ops.Tier(own)
		if stronger {
			e.maxTier = min(e.maxTier, c.MaxTier)
		}
	case "notes":
		e.notes, _ = v.(string)
	case "observe":
		word, _ := v.(string)
		e.watching.observe = ops.Observe(word)
	case "observe_every":
		e.watching.every, _ = v.(time.Duration)
	case "tolerate_degraded":
		e.watching.tolerate, _ = v.(bool)
	case "repos_dir", "interval":
		if stronger {
			c.Notices = append(c.Notices, fmt.Sprintf("%s of %s is not used: %s is stronger", p.name, l.file.at(p.key), given))
			return
		}
		if p.name == "repos_dir" {
			e.reposDir, _ = v.(string)
			return
		}
		e.interval, _ = v.(time.Duration)
	}
}

// stateDir is where an environment keeps its files.
func (c *Config) stateDir(name string) string {
	if name == defaultEnvironment {
		return c.StateDir
	}
	return filepath.Join(c.StateDir, "env", name)
}

// ProbePlace says where a probe of an environment is configured, by its place among the environment's probes. One that a
// repository gave stands in no file of ours.
func (c *Config) ProbePlace(environment string, i int) (where, key string) {
	for _, e := range c.environments {
		if e.name == environment && i < len(e.inventory.written) {
			return e.inventory.written[i].at.where(), e.inventory.written[i].key
		}
	}
	return "environment " + environment, "services"
}

// Environments returns what is watched, ready to run.
func (c *Config) Environments() []ops.Environment {
	out := make([]ops.Environment, 0, len(c.environments))
	for _, e := range c.environments {
		dir := c.stateDir(e.name)
		env := ops.Environment{
			Name:     e.name,
			Labels:   slices.Clone(e.labels),
			StateDir: dir,
			WorkDir:  filepath.Join(dir, "work"),
			ReposDir: e.reposDir,
			Interval: e.interval,
			Policy:   c.policy(e),
			Tools:    map[ops.Tier]ops.ToolLists{},
			Prompts:  map[ops.Tier]ops.PromptFiles{},
			Limits:   c.Limits,
			Probes:   slices.Clone(e.inventory.probes),
			Watch:    e.watch(),
			AgentEnv: slices.Clone(c.agentEnv),
			Notes:    e.notes,
		}
		for t, tier := range maps.All(c.Tiers) {
			env.Tools[t] = tier.Tools
			env.Prompts[t] = ops.PromptFiles{Fresh: tier.Prompt.Text, Escalation: tier.EscalationPrompt.Text}
		}
		out = append(out, env)
	}
	return out
}

func (c *Config) policy(e environment) ops.Policy {
	k := c.values
	var limits []ops.CooldownLimit
	if c.Guard.Enabled {
		limits = slices.Clone(c.Guard.Limits) // without the guard nobody reserves, and nothing is ever used up
	}
	return ops.Policy{
		Cooldowns:        limits,
		DryRun:           e.dryRun,
		MaxTier:          e.maxTier,
		MaxDepth:         get[int](k, "escalation.max_depth"),
		Mode:             c.Mode,
		Routes:           slices.Clone(c.routes),
		Windows:          maps.Clone(c.windows),
		ContextThreshold: c.ContextThreshold,
		ApprovalTier:     c.ApprovalTier,
		BudgetSessionUSD: c.BudgetSessionUSD,
		BudgetChainUSD:   c.BudgetChainUSD,
		BudgetDayUSD:     c.BudgetDayUSD,
		Approval: ops.ApprovalPolicy{
			Expiry:   get[time.Duration](k, "escalation.approval.expiry"),
			OnExpiry: get[string](k, "escalation.approval.on_expiry"),
			Remind:   get[time.Duration](k, "escalation.approval.remind"),
			Reminds:  get[int](k, "escalation.approval.reminds"),
		},
		Recovery:     c.Recovery,
		Independence: ops.Independence(get[string](k, "escalation.independence")),
		Process:      c.process(),
		Manager:      get[string](k, "escalation.manager"),
		Planner:      get[string](k, "escalation.planner"),
		Judge:        get[string](k, "escalation.judge"),
		Observe:      e.observe(),
		ObserveEvery: e.watching.every, TolerateDegraded: e.watching.tolerate, TellEscalated: c.tellEscalated(e.name),
		Entry:    c.entry,
		Handlers: slices.Clone(c.registered()),
		Inventory: ops.Inventory{
			Services: slices.Clone(e.inventory.services.Services),
			Strict:   e.inventory.services.Strict,
		},
	}
}
