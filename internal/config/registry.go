package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// marked is where a key stands in the file, or the node it would stand in.
func (l *loader) marked(key string, n *yaml.Node) origin {
	if at, ok := l.marks[key]; ok {
		return at
	}
	return l.file.at(n)
}

// place finds where the part of the policy was configured that a flaw is about, and its key.
func (l *loader) place(c *Config, part string) (origin, string) {
	key := part
	if !strings.HasPrefix(part, "handlers") {
		key = "escalation." + part
	}
	for k := key; k != ""; k = k[:max(0, strings.LastIndexAny(k, ".["))] {
		if at, ok := l.marks[k]; ok {
			return at, key
		}
		if at := c.origins[k]; at.source != sourceDefault {
			return at, key
		}
	}
	return c.origins["handlers"], key // what nobody set follows from what is registered
}

// registry checks the handlers as a whole, once each of them can be read.
func (l *loader) registry(c *Config) {
	if l.problems.within("handlers", "escalation") || l.in.Check == nil {
		return
	}
	p := c.policy(c.environments[0])
	var ids []string
	for _, h := range p.Handlers {
		ids = append(ids, h.ID)
	}
	for _, f := range l.in.Check(p) {
		at, key := l.place(c, f.Key)
		fix := f.Fix
		if f.Unknown != "" {
			if s := suggest(f.Unknown, ids); s != "" {
				fix = "did you mean " + s + "?"
			}
		}
		l.problems.add(at, key, f.Message, fix)
	}
}

// reachable checks that every human can be told.
func (l *loader) reachable(c *Config) {
	if len(c.AppriseURLs) > 0 || c.AppriseAPI != "" || l.problems.within("notify") {
		return
	}
	for i, h := range c.handlers {
		if h.Human() && !l.problems.within("handlers") {
			at, key := l.place(c, fmt.Sprintf("handlers[%d].agent", i))
			l.problems.add(at, key, fmt.Sprintf("%s is a human, and there is no way to tell anybody", h.ID),
				"set notify.apprise_urls or notify.apprise_api (CLAUDEOPS_APPRISE_URLS, CLAUDEOPS_APPRISE_API)")
		}
	}
}

// registryNotices tell what is configured and has no effect.
func (c *Config) registryNotices() []string {
	var out []string
	if manager := get[string](c.values, "escalation.manager"); manager != "" && c.process() == ops.ProcessTyped {
		out = append(out, fmt.Sprintf("%s is not asked: escalation.process is typed; set it to manager", manager))
	}
	if c.handlers == nil {
		return out
	}
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		given := c.origins[fmt.Sprintf("tiers.%d.model", t)]
		used := slices.ContainsFunc(c.handlers, func(h ops.Handler) bool { return h.Tier == t && c.tierModels[h.ID] })
		if given.source != sourceDefault && !used {
			out = append(out, fmt.Sprintf("the model of %s for %s is not used: every handler of that tier names its own; change model under handlers", given, t))
		}
	}
	return out
}

func (c *Config) process() ops.ProcessMode {
	if get[string](c.values, "escalation.process") == processManager {
		return ops.ProcessManager
	}
	return ops.ProcessTyped
}
