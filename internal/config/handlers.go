package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// The agents a handler can have, besides ops.AgentHuman.
const (
	agentClaude   = "claude"
	agentCodex    = "codex"
	agentCommand  = "command"
	agentScripted = scriptedBin
)

// families says who makes the model behind an agent, where the operator does not.
func families() map[string]string {
	return map[string]string{
		agentClaude: "claude", agentCodex: "gpt", agentCommand: "command", agentScripted: "scripted", ops.AgentHuman: "human",
	}
}

func agents() []string {
	return []string{agentClaude, agentCodex, agentCommand, agentScripted, ops.AgentHuman}
}

func handlerSettings() []setting {
	return []setting{
		{
			key: "handlers", structured: true, kind: kind{name: "list"}, shown: "`tier1`, `tier2`, `tier3`",
			doc: "Who owns work: which agent and model, what it may do, whom it hands to. Replaces the three built-in tiers. See [Handlers](#handlers).",
		},
		{
			key: "escalation.entry", kind: handlerIDKind(), shown: "the only handler of the lowest tier that nobody hands to",
			doc: "Handler that starts every cycle. It must be of Tier 1.",
		},
		{
			key: "escalation.max_depth", def: fmt.Sprint(int(ops.LastTier) - 1), kind: wholeKind(1, 10),
			doc: "Most handoffs in one cycle. A registry with a longer chain is refused at start.",
		},
		{
			key: "escalation.independence", def: string(ops.IndependenceHandler), kind: independenceKind(),
			doc: "How far the next handler must be from those before it: `other_family` wants another maker's model than that of the one who hands over. A route may say otherwise.",
		},
		{
			key: "escalation.process", def: processTyped, kind: choiceKind("a process", processTyped, processManager),
			doc: "Who chooses the next handler: `typed` takes the one the handoff names, `manager` asks `escalation.manager` to choose among those permitted. The supervisor validates either.",
		},
		{
			key: "escalation.manager", kind: handlerIDKind(),
			doc: "Handler that chooses where `escalation.process` is `manager`. It never does the work: it hands to nobody, and nobody hands to it.",
		},
		{
			key: "escalation.planner", kind: handlerIDKind(),
			doc: "Handler that plans anew when an approach has failed.",
		},
		{
			key: "escalation.judge", kind: handlerIDKind(),
			doc: "Handler that scores a claimed repair. It must be of another family than at least one handler that works.",
		},
	}
}

func approvalSettings() []setting {
	return []setting{
		{
			key: "escalation.approval.expiry", def: "24h", kind: waitKind(),
			doc: "How long a question to a human stays open; 0 waits for ever.",
		},
		{
			key: "escalation.approval.on_expiry", def: "needs_human", kind: choiceKind("an end of an approval", "needs_human", "deny", "approve"),
			doc: "What an unanswered question means in the end.",
		},
		{
			key: "escalation.approval.remind", def: "1h", kind: waitKind(),
			doc: "Time between reminders; 0 sends none.",
		},
		{
			key: "escalation.approval.reminds", def: "3", kind: wholeKind(0, 100),
			doc: "Most reminders; after them the second target is told.",
		},
	}
}

// The words of escalation.process.
const (
	processTyped   = "typed"
	processManager = "manager"
)

func handlerFields() []field {
	return []field{
		{name: "id", doc: "Its name: small letters, digits, dashes and underscores, at most 63. Required."},
		{name: "tier", def: "above all, for a human", doc: "Permission level, 1 to 3. Required but for a human. Handoffs go to a higher tier only."},
		{name: "agent", def: "`claude`", doc: "`claude`, `codex`, `command` (any program that prints an outcome), `scripted` or `human`. With `scripted` as `agent.bin` or `agent.codex_bin` the built-in agent plays the part of that CLI."},
		{name: "family", def: "`claude`, `gpt`, `command`, `scripted` or `human`, by agent", doc: "Maker of the model; independence is judged by it."},
		{name: "model", def: "`tiers.N.model`", doc: "Model. Required for `codex`."},
		{name: "permissions", def: "its tier", doc: "Tier whose guard and tools apply; never above its own."},
		{name: "prompt", def: "the tier's", doc: "Prompt file, relative to the configuration file."},
		{name: "limits", def: "the limits of all", doc: "Its own limits, see below."},
		{name: "command", doc: "`command`: the program and its arguments, a list. The program may be a path relative to the configuration file. Required there."},
		{name: "hands_to", doc: "Ids of the handlers it may hand to."},
		{name: "fallback", doc: "Ids of the handlers that take over its work, with its permissions, when it cannot do it; the first is tried first."},
	}
}

func handlerLimitFields() []field {
	return []field{
		{name: "session", def: "`limits.session`", doc: "Wall-clock limit of one session."},
		{name: "idle", def: "`limits.idle`", doc: "Longest time without output while no tool call is open."},
		{name: "tool", def: "`limits.tool`", doc: "Longest time of one open tool call."},
		{name: "budget_usd", def: "what chain and day have left", doc: "Most that one session may cost; 0 means no limit of its own."},
	}
}

// A name becomes part of prompts, pages and addresses.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// nameKind reads a plain name of something.
func nameKind(name, what string) kind {
	return kind{name: name, parse: func(_ places, v raw) (any, []fault) {
		if !plainName.MatchString(v.text) {
			return nil, wrong(v, "use small letters, digits, dashes and underscores, at most 63", "%q is not %s", v.text, what)
		}
		return v.text, nil
	}}
}

func handlerIDKind() kind { return nameKind("handler id", "an id of a handler") }

func handlerIDsKind() kind {
	one := handlerIDKind()
	return kind{name: "handler ids", list: true, parse: func(p places, v raw) (any, []fault) {
		out := []string{}
		var faults []fault
		for _, e := range v.entries(splitAtCommas) {
			id, wrong := one.parse(p, e)
			faults = append(faults, wrong...)
			text, _ := id.(string)
			out = append(out, text)
		}
		return out, faults
	}}
}

// argvKind reads a program and its arguments; only a path of the program itself is made absolute.
func argvKind() kind {
	program := programKind()
	return kind{name: "program and arguments", list: true, parse: func(p places, v raw) (any, []fault) {
		words := v.entries(func(s string) []string { return []string{s} })
		if len(words) == 0 {
			return nil, wrong(v, "give the program and its arguments, such as [./check.sh]", "the list is empty")
		}
		path, faults := program.parse(p, words[0])
		first, _ := path.(string)
		out := []string{first}
		for _, w := range words[1:] {
			out = append(out, w.text)
		}
		return out, faults
	}}
}

func handlerKinds() map[string]kind {
	return map[string]kind{
		"id": handlerIDKind(), "tier": wholeKind(1, int(ops.LastTier)), "agent": choiceKind("an agent", agents()...), "family": nameKind("family", "the name of a family"),
		"model": modelKind(), "permissions": wholeKind(1, int(ops.LastTier)), "prompt": promptKind(), "command": argvKind(),
		"hands_to": handlerIDsKind(), "fallback": handlerIDsKind(),
	}
}

// handlers reads the registry; nil means the built-in one.
func (l *loader) handlers(c *Config) []ops.Handler {
	const section = "handlers"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	items := l.file.items(n, section)
	if len(items) == 0 && !l.problems.about(section) {
		l.problems.add(l.file.at(n), section, "the list is empty", "register a handler, or remove the key to use the three built-in tiers")
	}
	out := []ops.Handler{}
	for i, item := range items {
		if h, ok := l.handler(c, item, fmt.Sprintf("%s[%d]", section, i)); ok {
			out = append(out, h)
		}
	}
	return out
}

func (l *loader) handler(c *Config, n *yaml.Node, key string) (ops.Handler, bool) {
	var limits *yaml.Node
	pick := func(p pair) bool {
		if p.name == "limits" {
			limits = p.value
		}
		return p.name == "limits"
	}
	e := l.entry(n, key, handlerFields(), handlerKinds(), []string{"id"}, pick)
	h := ops.Handler{}
	sound := e != nil
	if limits != nil {
		sound = l.handlerLimits(limits, join(key, "limits"), &h) && sound
	}
	if !sound {
		return h, false
	}
	h.ID, h.Agent = text(e, "id"), cmp.Or(text(e, "agent"), agentClaude)
	h.Family = cmp.Or(text(e, "family"), families()[h.Agent])
	h.Model = text(e, "model")
	tier, _ := e["tier"].(int)
	permissions, _ := e["permissions"].(int)
	prompt, _ := e["prompt"].(Prompt)
	h.Tier, h.Permissions, h.Prompt = ops.Tier(tier), ops.Tier(permissions), prompt.Text
	h.Command, _ = e["command"].([]string)
	h.HandsTo, _ = e["hands_to"].([]string)
	h.Fallback, _ = e["fallback"].([]string)
	return l.fitting(c, h, e, n, key, limits != nil)
}

// fitting checks that the fields of a handler suit its agent, and fills what follows from others.
func (l *loader) fitting(c *Config, h ops.Handler, given map[string]any, n *yaml.Node, key string, limited bool) (ops.Handler, bool) {
	sound := true
	refuse := func(field, fix, format string, args ...any) {
		l.problems.add(l.marked(join(key, field), n), join(key, field), fmt.Sprintf(format, args...), fix)
		sound = false
	}
	if h.Human() {
		for _, name := range []string{"model", "permissions", "prompt", "command"} {
			if _, ok := given[name]; ok {
				refuse(name, "remove it", "a human has none")
			}
		}
		if limited {
			refuse("limits", "remove it; escalation.approval says how long a question stays open", "a human has none")
		}
		if h.Tier == 0 {
			h.Tier = ops.HumanTier
		}
		return h, sound
	}
	if h.Tier == 0 {
		refuse("tier", "add tier: 1, 2 or 3", "tier is missing")
	}
	switch _, ok := given["command"]; {
	case h.Agent == agentCommand && !ok:
		refuse("command", "add command: [program, argument, …]", "command is missing")
	case h.Agent != agentCommand && ok:
		refuse("command", "use agent: command, or remove it", "only the agent command runs one, and this is %s", h.Agent)
	}
	switch {
	case h.Model != "" || h.Agent == agentCommand:
	case h.Agent == agentCodex:
		refuse("model", "add model: …", "model is missing")
	case h.Tier.Known():
		h.Model = c.Tiers[h.Tier].Model
		c.tierModels[h.ID] = true
	}
	h.Agent = c.playedBy(h.Agent)
	return h, sound
}

// playedBy is the agent that stands for another: where a CLI is named scripted, the built-in agent plays it.
func (c *Config) playedBy(agent string) string {
	if (agent == agentClaude && c.Agent.Scripted()) || (agent == agentCodex && c.Agent.CodexBin == scriptedBin) {
		return agentScripted
	}
	return agent
}

func (l *loader) handlerLimits(n *yaml.Node, key string, h *ops.Handler) bool {
	before := len(l.problems.found)
	for _, p := range l.file.pairs(n, key, names(handlerLimitFields()), nil) {
		k := durationKind(0)
		if p.name == "budget_usd" {
			k = dollarsKind()
		}
		v, _ := l.file.value(p.value, join(key, p.name), k)
		switch p.name {
		case "session":
			h.Limits.Wall, _ = v.(time.Duration)
		case "idle":
			h.Limits.Idle, _ = v.(time.Duration)
		case "tool":
			h.Limits.Tool, _ = v.(time.Duration)
		case "budget_usd":
			h.BudgetUSD, _ = v.(float64)
		}
	}
	return len(l.problems.found) == before
}

// registered are the handlers that are in force.
func (c *Config) registered() []ops.Handler {
	if c.handlers != nil {
		return c.handlers
	}
	out := make([]ops.Handler, 0, int(ops.LastTier))
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		h := ops.Handler{ID: handlerID(t), Tier: t, Family: families()[agentClaude], Agent: c.playedBy(agentClaude), Model: c.Tiers[t].Model}
		if t < ops.LastTier {
			h.HandsTo = []string{handlerID(t + 1)}
		}
		out = append(out, h)
	}
	return out
}

func handlerID(t ops.Tier) string { return fmt.Sprintf("tier%d", int(t)) }

// first finds the handler that starts every cycle, where the operator does not name it.
func (l *loader) first(c *Config) string {
	entry := get[string](c.values, "escalation.entry")
	if entry != "" || l.problems.within("handlers") {
		return entry
	}
	free := c.starters()
	if len(free) == 0 {
		l.problems.add(c.origins["handlers"], "escalation.entry", "no handler can start a cycle", "register one with an agent, and name it with escalation.entry")
		return ""
	}
	tier := slices.MinFunc(free, func(a, b ops.Handler) int { return cmp.Compare(a.Tier, b.Tier) }).Tier
	var names []string
	for _, h := range free {
		if h.Tier == tier {
			names = append(names, h.ID)
		}
	}
	if len(names) > 1 {
		l.problems.add(c.origins["handlers"], "escalation.entry", fmt.Sprintf("%s could all start a cycle", strings.Join(names, ", ")), "name one of them with escalation.entry")
	}
	return names[0]
}

// starters are the handlers that could be the first: agents to whom nobody hands, and that are not there for another part only.
func (c *Config) starters() []ops.Handler {
	var taken, spare []string
	for _, h := range c.registered() {
		taken, spare = append(taken, h.HandsTo...), append(spare, h.Fallback...)
	}
	for _, role := range []string{"manager", "planner", "judge"} {
		spare = append(spare, get[string](c.values, "escalation."+role))
	}
	pick := func(fits func(h ops.Handler) bool) []ops.Handler {
		return slices.DeleteFunc(slices.Clone(c.registered()), func(h ops.Handler) bool { return h.Human() || !fits(h) })
	}
	isTaken := func(h ops.Handler) bool { return slices.Contains(taken, h.ID) }
	onlySpare := func(h ops.Handler) bool { return len(h.HandsTo) == 0 && slices.Contains(spare, h.ID) }
	if out := pick(func(h ops.Handler) bool { return !isTaken(h) && !onlySpare(h) }); len(out) > 0 {
		return out
	}
	if out := pick(func(h ops.Handler) bool { return !isTaken(h) }); len(out) > 0 {
		return out
	}
	return pick(func(ops.Handler) bool { return true }) // a cycle, which is reported as such
}
