package config

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

func routeFields() []field {
	return []field{
		{name: "from", doc: "Handler that hands over, such as `tier1`. Required."},
		{name: "to", doc: "Handler that takes over, such as `tier2`. Required."},
		{name: "mode", def: "`escalation.mode`", doc: "`resume` or `handoff`. Between different agents context always travels as handoff."},
		{name: "independence", def: "`escalation.independence`", doc: "`none`, `other_handler` or `other_family`."},
		{name: "approval", def: "`escalation.approval_tier` alone", doc: "`required`: a human must agree before the target starts."},
	}
}

func modelFields() []field {
	return []field{
		{name: "name", doc: "Name of the model as the tiers use it, such as `haiku`. Required."},
		{name: "context_window", doc: "Its context window in tokens. What the agent CLI reported last for the model wins. Required."},
	}
}

// mostTokens is far above any window; it keeps slips such as a window in bytes out.
const mostTokens = 100_000_000

// entry reads one object of a list by its fields, and remembers where each stands. Another way to read a field can be given with pick.
func (l *loader) entry(n *yaml.Node, key string, fields []field, kinds map[string]kind, required []string, pick func(pair) bool) map[string]any {
	if n.Kind != yaml.MappingNode {
		l.problems.add(l.file.at(n), key, "expected keys and values, found "+describe(n), "begin with "+fields[0].name+": …")
		return nil
	}
	l.marks[key] = l.file.at(n)
	out := map[string]any{}
	before := len(l.problems.found)
	for _, p := range l.file.pairs(n, key, names(fields), nil) {
		at := join(key, p.name)
		l.marks[at] = l.file.at(p.value)
		if pick != nil && pick(p) {
			continue
		}
		for i, item := range p.value.Content {
			l.marks[fmt.Sprintf("%s[%d]", at, i)] = l.file.at(item)
		}
		out[p.name], _ = l.file.value(p.value, at, kinds[p.name])
	}
	for _, name := range required {
		if _, ok := out[name]; !ok {
			l.problems.add(l.file.at(n), key, name+" is missing", "add "+name+": …")
		}
	}
	if len(l.problems.found) > before {
		return nil
	}
	return out
}

// text is a text field of an entry, empty when it is not given.
func text(e map[string]any, name string) string {
	v, _ := e[name].(string)
	return v
}

// approvalRequired is what a route says when a human must agree.
const approvalRequired = "required"

// routes reads what holds between single handlers.
func (l *loader) routes() []ops.Route {
	const section = "escalation.routes"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	kinds := map[string]kind{
		"from": handlerIDKind(), "to": handlerIDKind(), "mode": modeKind(), "independence": independenceKind(), "approval": choiceKind("an approval", approvalRequired),
	}
	var out []ops.Route
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, routeFields(), kinds, []string{"from", "to"}, nil)
		if e == nil {
			continue
		}
		if len(e) == 2 {
			l.problems.add(l.file.at(item), key, "the route says nothing but its ends", "add mode, independence or approval")
			continue
		}
		out = append(out, ops.Route{
			From: text(e, "from"), To: text(e, "to"), Mode: ops.ContextMode(text(e, "mode")),
			Independence: ops.Independence(text(e, "independence")), Approval: text(e, "approval") == approvalRequired,
		})
	}
	return out
}

// windows reads the table of context windows.
func (l *loader) windows() map[string]int64 {
	const section = "models"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	out := map[string]int64{}
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, modelFields(), map[string]kind{"name": modelKind(), "context_window": wholeKind(1000, mostTokens)}, names(modelFields()), nil)
		if e == nil {
			continue
		}
		name, _ := e["name"].(string)
		window, _ := e["context_window"].(int)
		if _, twice := out[name]; twice {
			l.problems.add(l.file.at(item), key, fmt.Sprintf("the model %q stands here twice", name), "keep one of the entries")
			continue
		}
		out[name] = int64(window)
	}
	return out
}
