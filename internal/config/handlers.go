package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// The agents a handler can have, besides ops.AgentHuman.
const (
	agentClaude   = "claude"
	agentCodex    = "codex"
	agentCommand  = "command"
	agentScripted = scriptedBin
)

// familyOf is the maker of the model behind an agent, where the operator does not name it.
func familyOf(agent string) string {
	if agent == agentCodex {
		return "gpt"
	}
	return agent
}

func handlerFields(h *ops.Handler) []field {
	targets := listOf("handler ids", splitAtCommas, handlerIDKind())
	return []field{
		value("id", &h.ID, handlerIDKind(), "Name: small letters, digits, dashes and underscores, at most 63.").must(),
		value("good_for", &h.GoodFor, textKind(),
			"What it can do, and which problems it should get. Agents and the manager read it when they choose a handler."),
		value("tier", &h.Tier, intKind(ops.Tier1, ops.LastTier),
			"Permission level. Required except for a human. Handoffs go only to a higher tier.").
			orElse("above all, for a human"),
		value("agent", &h.Agent, choiceKind("an agent", agentClaude, agentCodex, agentCommand, agentScripted, ops.AgentHuman),
			"Agent that does the work. `command` is any program that prints an outcome. `scripted` is built in.").
			or(agentClaude),
		value("family", &h.Family, nameKind("family", "the name of a family"), "Maker of the model, which decides independence.").
			orElse("`claude`, `gpt`, `command`, `scripted` or `human`, by agent"),
		value("model", &h.Model, modelKind(), "Model. Required for `codex`.").orElse("`tiers.N.model`"),
		value("permissions", &h.Permissions, intKind(ops.Tier1, ops.LastTier),
			"Tier whose guard and tools apply; never above its own tier.").orElse("its tier"),
		value("prompt", &h.Prompt, promptTextKind(), "Prompt file, relative to the configuration file.").orElse("the tier's"),
		object("limits", &h.Limits, []field{
			value("session", &h.Limits.Wall, durationKind(0), "Maximum time of one session.").orElse("`limits.session`"),
			value("idle", &h.Limits.Idle, durationKind(0),
				"Maximum time without output while no tool call is running.").orElse("`limits.idle`"),
			value("tool", &h.Limits.Tool, durationKind(0), "Maximum time of one tool call.").orElse("`limits.tool`"),
			value("budget_usd", &h.BudgetUSD, dollarsKind(),
				"Maximum cost per session; 0 means no separate limit.").orElse("what cycle and day have left"),
		}, "Its own `session`, `idle` and `tool`, as under `limits`, and `budget_usd`, the maximum cost per session; 0 means no separate "+
			"limit.").orElse("the general limits"),
		value("command", &h.Command, argvKind(),
			"Only for `agent: command`, and required there. The program can be a path relative to the configuration file."),
		value("hands_to", &h.HandsTo, targets, "Ids of the handlers that it may hand work to."),
		value("fallback", &h.Fallback, targets,
			"Ids of the handlers that take over its work, with its permissions, when it fails. The first is tried first."),
	}
}

// finishHandler checks that the fields of a handler suit its agent, and fills what follows from others.
func (c *Config) finishHandler(e *entry, h *ops.Handler) {
	h.Family = cmp.Or(h.Family, familyOf(h.Agent))
	if h.Human() {
		for _, at := range []any{&h.Model, &h.Permissions, &h.Prompt, &h.Command} {
			if e.has(at) {
				e.refuse(at, "remove it", "a human has none")
			}
		}
		if e.has(&h.Limits) {
			e.refuse(&h.Limits, "remove it; escalation.approval says how long a question stays open", "a human has none")
		}
		if len(c.AppriseURLs) == 0 && c.AppriseAPI == "" && !e.problems.within("notify") {
			e.refuse(&h.Agent, "set notify.apprise_urls or notify.apprise_api (CLAUDEOPS_APPRISE_URLS, CLAUDEOPS_APPRISE_API)",
				"%s is a human, and no notification target is set", h.ID)
		}
		h.Tier = cmp.Or(h.Tier, ops.HumanTier)
		return
	}
	if h.Tier == 0 {
		e.refuse(&h.Tier, "add tier: 1, 2 or 3", "tier is missing")
	}
	switch given := e.has(&h.Command); {
	case h.Agent == agentCommand && !given:
		e.refuse(&h.Command, "add command: [program, argument, …]", "command is missing")
	case h.Agent != agentCommand && given:
		e.refuse(&h.Command, "use agent: command, or remove it", "only the agent command runs one, and this is %s", h.Agent)
	}
	switch {
	case h.Model != "" || h.Agent == agentCommand:
	case h.Agent == agentCodex:
		e.refuse(&h.Model, "add model: …", "model is missing")
	case h.Tier.Known():
		h.Model = c.Tiers[h.Tier].Model
		c.tierModels[h.ID] = true
	}
	h.Agent = c.playedBy(h.Agent)
}

// playedBy is the agent that takes the place of another: where a CLI is named scripted, the built-in agent plays it.
func (c *Config) playedBy(agent string) string {
	if (agent == agentClaude && c.Agent.Scripted()) || (agent == agentCodex && c.Agent.CodexBin == scriptedBin) {
		return agentScripted
	}
	return agent
}

// registered are the handlers that are in force.
func (c *Config) registered() []ops.Handler {
	if c.handlers != nil {
		return c.handlers
	}
	var tiers, fallbacks []ops.Handler
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		h := ops.Handler{ID: handlerID(t), Tier: t, Family: familyOf(agentClaude), Agent: c.playedBy(agentClaude), Model: c.Tiers[t].Model}
		if t < ops.LastTier {
			h.HandsTo = []string{handlerID(t + 1)}
		}
		for _, f := range c.builtInFallbacks(h) {
			h.Fallback = append(h.Fallback, f.ID)
			fallbacks = append(fallbacks, f)
		}
		tiers = append(tiers, h)
	}
	return append(tiers, fallbacks...)
}

// The model of the built-in fallbacks to another family, and how their ids end.
const (
	codexModel  = "gpt-5.3-codex"
	codexSuffix = "-codex"
)

// builtInFallbacks take over the work of a built-in handler that fails: another model of its family, which is one that the operator
// uses at another tier, and Codex where it can run. They hand over to the same tier as the handler that they replace.
func (c *Config) builtInFallbacks(h ops.Handler) []ops.Handler {
	var out []ops.Handler
	if model := c.otherModel(h.Tier); model != "" {
		other := h
		other.ID, other.Model = h.ID+"-fallback", model
		out = append(out, other)
	}
	// No gate judges what Codex does: above Tier 1 it runs only in the sandbox.
	if c.codexReady && (h.Tier <= ops.Tier1 || c.Guard.Sandbox.Walled()) {
		other := h
		other.ID, other.Model, other.Agent, other.Family = h.ID+codexSuffix, codexModel, agentCodex, familyOf(agentCodex)
		out = append(out, other)
	}
	return out
}

// routes are the operator's routes. A route from a built-in handler holds for its fallbacks, too: without that a fallback could skip an
// approval.
func (c *Config) routes() []ops.Route {
	out := slices.Clone(c.shared.Routes)
	if c.handlers != nil {
		return out
	}
	handlers := c.registered()
	for _, r := range c.shared.Routes {
		i := slices.IndexFunc(handlers, func(h ops.Handler) bool { return h.ID == r.From && slices.Contains(h.HandsTo, r.To) })
		if i < 0 {
			continue // the check of the handlers reports it
		}
		for _, id := range handlers[i].Fallback {
			copied := r
			copied.From = id
			if strings.HasSuffix(id, codexSuffix) {
				copied.Mode = "" // another agent cannot resume a conversation
			}
			out = append(out, copied)
		}
	}
	return out
}

// otherModel is the model of the next tier, or the nearest one below, that is not this tier's own; empty when all are the same.
func (c *Config) otherModel(t ops.Tier) string {
	for _, other := range []ops.Tier{t + 1, t - 1, t + 2, t - 2} {
		if tier, ok := c.Tiers[other]; ok && tier.Model != c.Tiers[t].Model {
			return tier.Model
		}
	}
	return ""
}

// codexKey is the variable with which the Codex CLI signs in.
const codexKey = "OPENAI_API_KEY"

func handlerID(t ops.Tier) string { return fmt.Sprintf("tier%d", int(t)) }

func handlerIDs(handlers []ops.Handler) []string {
	return ops.Map(handlers, func(h ops.Handler) string { return h.ID })
}

// first finds the handler that starts every cycle, where the operator does not name it.
func (l *loader) first(c *Config) string {
	entry, handlers := c.shared.Entry, c.table.bound(&c.handlers).key
	if entry != "" || l.problems.within(handlers) {
		return entry
	}
	// The problem is reported at the list, because nothing else was set.
	refuse := func(fix, format string, args ...any) {
		l.problems.add(c.originOf(&c.handlers), c.table.bound(&c.shared.Entry).key, fmt.Sprintf(format, args...), fix)
	}
	free := c.starters()
	if len(free) == 0 {
		refuse("register one with an agent, and name it with escalation.entry", "no handler can start a cycle")
		return ""
	}
	tier := slices.MinFunc(free, func(a, b ops.Handler) int { return cmp.Compare(a.Tier, b.Tier) }).Tier
	names := handlerIDs(slices.DeleteFunc(free, func(h ops.Handler) bool { return h.Tier != tier }))
	if len(names) > 1 {
		refuse("name one of them with escalation.entry", "%s could all start a cycle", strings.Join(names, ", "))
	}
	return names[0]
}

// starters are the handlers that could start a cycle: agents that are not the target of another and do not only have a special role.
func (c *Config) starters() []ops.Handler {
	targets, replacements, special := []string{}, []string{}, []string{c.shared.Manager, c.shared.Planner, c.shared.Judge}
	for _, h := range c.registered() {
		targets, replacements = append(targets, h.HandsTo...), append(replacements, h.Fallback...)
	}
	pick := func(fits func(h ops.Handler) bool) []ops.Handler {
		return slices.DeleteFunc(slices.Clone(c.registered()), func(h ops.Handler) bool { return h.Human() || !fits(h) })
	}
	isTarget := func(h ops.Handler) bool { return slices.Contains(targets, h.ID) }
	onlySpecial := func(h ops.Handler) bool {
		return slices.Contains(replacements, h.ID) || len(h.HandsTo) == 0 && slices.Contains(special, h.ID)
	}
	if out := pick(func(h ops.Handler) bool { return !isTarget(h) && !onlySpecial(h) }); len(out) > 0 {
		return out
	}
	if out := pick(func(h ops.Handler) bool { return !isTarget(h) }); len(out) > 0 {
		return out
	}
	return pick(func(ops.Handler) bool { return true }) // handoffs form a cycle, which is reported as such
}

// ofPolicy reports whether a key is of what is checked as a whole, whose flaws name their keys. Only of those is every place remembered: a
// large inventory has too many.
func ofPolicy(key string) bool {
	return strings.HasPrefix(key, "handlers") || strings.HasPrefix(key, "escalation")
}

// where finds where the part of the policy was configured that a flaw is about, and its key.
func (l *loader) where(c *Config, part string) (at origin, key string) {
	handlers := c.table.bound(&c.handlers).key
	key = part
	if !strings.HasPrefix(part, handlers) {
		key = "escalation." + part
	}
	for k := key; k != ""; k = k[:max(0, strings.LastIndexAny(k, ".["))] {
		if at, ok := l.origins[k]; ok {
			return at, key
		}
	}
	return l.origins[handlers], key // what was not set follows from the handlers
}

// checkPolicy checks the handlers as a whole, once each of them can be read.
func (l *loader) checkPolicy(c *Config) {
	if l.problems.within("handlers", "escalation") || l.in.Check == nil {
		return
	}
	p := c.policy(c.environments[0])
	for _, f := range l.in.Check(p) {
		at, key := l.where(c, f.Key)
		fix := f.Fix
		if f.Unknown != "" {
			fix = suggestOr(f.Unknown, handlerIDs(p.Handlers), fix)
		}
		l.problems.add(at, key, f.Message, fix)
	}
}

// handlerNotices name settings of handlers that have no effect.
func (c *Config) handlerNotices() []string {
	var out []string
	if c.handlers == nil {
		return out
	}
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		at := c.originOf(&c.Tiers[t].Model)
		used := slices.ContainsFunc(c.handlers, func(h ops.Handler) bool { return h.Tier == t && c.tierModels[h.ID] })
		if at.source != sourceDefault && !used {
			out = append(out, fmt.Sprintf(
				"the model of %s for %s is not used: every handler of that tier names its own; change model under handlers", at, t))
		}
	}
	return out
}

func routeFields(r *ops.Route) []field {
	required := convert(choiceKind("an approval", "required"), func(string) bool { return true }, nil)
	return []field{
		value("from", &r.From, handlerIDKind(), "Handler that hands over, such as `tier1`.").must(),
		value("to", &r.To, handlerIDKind(), "Handler that takes over, such as `tier2`.").must(),
		value("mode", &r.Mode, modeKind(),
			"How context is passed. Between different agents it is always `handoff`.").orElse("`escalation.mode`"),
		value("independence", &r.Independence, independenceKind(), "How the two handlers must differ.").orElse("`escalation.independence`"),
		value("approval", &r.Approval, required,
			"A human must approve before the target starts.").orElse("only `escalation.approval_tier`"),
	}
}

func finishRoute(e *entry, r *ops.Route) {
	if !e.hasAny(&r.Mode, &r.Independence, &r.Approval) {
		e.refuseAll("add mode, independence or approval", "the route says nothing but its ends")
	}
}

func (c *Config) showRoutes() string {
	out := ops.Map(c.shared.Routes, func(r ops.Route) string { return r.From + " to " + r.To })
	return strings.Join(out, ",")
}
