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
		{name: "mode", doc: "`resume` or `handoff`. Required."},
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

// entry reads one object of a list by its fields, all of which are required texts.
func (l *loader) entry(n *yaml.Node, key string, fields []field, kinds map[string]kind) map[string]any {
	if n.Kind != yaml.MappingNode {
		l.problems.add(l.file.at(n), key, "expected keys and values, found "+describe(n), "begin with "+fields[0].name+": …")
		return nil
	}
	out := map[string]any{}
	sound := true
	for _, p := range l.file.pairs(n, key, names(fields), nil) {
		v, ok := l.file.value(p.value, join(key, p.name), kinds[p.name])
		sound = sound && ok
		out[p.name] = v
	}
	for _, f := range fields {
		if _, ok := out[f.name]; !ok {
			l.problems.add(l.file.at(n), key, f.name+" is missing", "add "+f.name+": …")
			sound = false
		}
	}
	if !sound {
		return nil
	}
	return out
}

// routes reads how context travels between single handlers.
func (l *loader) routes() []ops.Route {
	const section = "escalation.routes"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	var out []ops.Route
	handler := handlerKind()
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, routeFields(), map[string]kind{"from": handler, "to": handler, "mode": modeKind()})
		if e == nil {
			continue
		}
		from, _ := e["from"].(string)
		to, _ := e["to"].(string)
		mode, _ := e["mode"].(string)
		if !nextTier(from, to) {
			l.problems.add(l.file.at(item), key, fmt.Sprintf("%s never hands over to %s", from, to), "a handler hands over to the next tier, such as tier1 to tier2")
			continue
		}
		out = append(out, ops.Route{From: from, To: to, Mode: ops.ContextMode(mode)})
	}
	return out
}

func nextTier(from, to string) bool {
	for t := ops.Tier1; t < ops.LastTier; t++ {
		if from == handlerID(t) {
			return to == handlerID(t+1)
		}
	}
	return false
}

func handlerKind() kind {
	known := make([]string, 0, int(ops.LastTier))
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		known = append(known, handlerID(t))
	}
	return kind{name: "a handler", parse: func(_ places, v raw) (any, []fault) {
		for _, id := range known {
			if v.text == id {
				return id, nil
			}
		}
		fix := "give tier1, tier2 or tier3"
		if s := suggest(v.text, known); s != "" {
			fix = "did you mean " + s + "?"
		}
		return nil, wrong(v, fix, "%q is not a handler", v.text)
	}}
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
		e := l.entry(item, key, modelFields(), map[string]kind{"name": modelKind(), "context_window": wholeKind(1000, mostTokens)})
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
