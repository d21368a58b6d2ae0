package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// field is one key of an object in a list, for the checks and the reference.
type field struct {
	name string
	def  string
	doc  string
}

func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

func serviceFields() []field {
	return []field{
		{name: "name", doc: "Name of the service. Required."},
		{name: "aliases", doc: "Its other names: containers, hosts, units. A name belongs to one service only."},
		{name: "group", doc: "Services of one group fail for one reason: they start one cycle together."},
		{name: "depends_on", doc: "Services it cannot work without. While one of them is bad, this one starts nothing."},
		{name: "probes", doc: "How the supervisor itself checks the service."},
	}
}

// inventory is what `services` holds.
type inventory struct {
	services ops.Inventory
	probes   []ops.ProbeSpec
	written  []written // where the probes stand, as far as they are configured
	needs    []need
}

// written is a place in the configuration file.
type written struct {
	at  origin
	key string
}

// need is a dependency as it was written.
type need struct {
	of   int // of which service
	name string
	node *yaml.Node
	key  string
}

// inventory reads services in either form: a plain list, or a mapping with strict and list.
func (f *yamlFile) inventory(n *yaml.Node, key string) inventory {
	var out inventory
	if n = follow(n); n.Kind == yaml.MappingNode {
		var list *yaml.Node
		for _, p := range f.pairs(n, key, []string{"strict", "list"}, nil) {
			switch p.name {
			case "strict":
				v, _ := f.value(p.value, key+".strict", boolKind())
				out.services.Strict, _ = v.(bool)
			case "list":
				list = p.value
			}
		}
		if list == nil {
			return out
		}
		n, key = list, key+".list"
	}
	owners := map[string]string{} // name or alias → service
	for i, item := range f.items(n, key) {
		f.service(item, fmt.Sprintf("%s[%d]", key, i), owners, &out)
	}
	f.dependencies(n, key, owners, &out)
	f.tellApart(out.probes)
	return out
}

// dependencies checks what services depend on, once all of them are known.
func (f *yamlFile) dependencies(n *yaml.Node, key string, owners map[string]string, out *inventory) {
	before := len(f.problems.found)
	for _, d := range out.needs {
		name, known := owners[d.name]
		if !known {
			fix := "name a service of this list"
			if s := suggest(d.name, slices.Sorted(maps.Keys(owners))); s != "" {
				fix = "did you mean " + s + "?"
			}
			f.problems.add(f.at(d.node), d.key, fmt.Sprintf("no service is called %q", d.name), fix)
			continue
		}
		s := &out.services.Services[d.of]
		s.DependsOn = append(s.DependsOn, name)
	}
	if f.checks.CheckServices == nil || len(f.problems.found) > before {
		return
	}
	if err := f.checks.CheckServices(out.services.Services); err != nil {
		f.problems.add(f.at(n), key, err.Error(), "remove one of the dependencies")
	}
}

func (f *yamlFile) service(n *yaml.Node, key string, owners map[string]string, out *inventory) {
	var s ops.Service
	var probes *yaml.Node
	// The name is needed to say whose alias overlaps, wherever it stands in the entry.
	fields := f.pairs(n, key, names(serviceFields()), nil)
	slices.SortStableFunc(fields, func(a, b pair) int { return nameFirst(a) - nameFirst(b) })
	for _, p := range fields {
		switch p.name {
		case "name":
			s.Name = f.serviceName(p.value, key+".name", "", owners)
		case "aliases":
			for i, item := range f.items(p.value, key+".aliases") {
				if a := f.serviceName(item, fmt.Sprintf("%s.aliases[%d]", key, i), s.Name, owners); a != "" {
					s.Aliases = append(s.Aliases, a)
				}
			}
		case "group":
			v, _ := f.value(p.value, key+".group", textKind())
			s.Group, _ = v.(string)
		case "depends_on":
			for i, item := range f.items(p.value, key+".depends_on") {
				at := fmt.Sprintf("%s.depends_on[%d]", key, i)
				if v, ok := f.value(item, at, textKind()); ok {
					name, _ := v.(string)
					out.needs = append(out.needs, need{len(out.services.Services), name, item, at})
				}
			}
		case "probes":
			probes = p.value
		}
	}
	if n.Kind == yaml.MappingNode && !slices.ContainsFunc(fields, func(p pair) bool { return p.name == "name" }) {
		f.problems.add(f.at(n), key, "the service has no name", "add name: …")
	}
	if probes != nil {
		for i, item := range f.items(probes, key+".probes") {
			at := fmt.Sprintf("%s.probes[%d]", key, i)
			if spec, ok := f.probe(item, at); ok {
				spec.Service = s.Name
				out.probes = append(out.probes, spec)
				out.written = append(out.written, written{f.at(item), at})
				s.Probed = true
			}
		}
	}
	out.services.Services = append(out.services.Services, s)
}

func nameFirst(p pair) int {
	if p.name == "name" {
		return 0
	}
	return 1
}

// serviceName reads a name or an alias, which must belong to one service only.
func (f *yamlFile) serviceName(n *yaml.Node, key, owner string, owners map[string]string) string {
	v, ok := f.value(n, key, textKind())
	if !ok {
		return ""
	}
	name, _ := v.(string)
	if strings.ContainsFunc(name, unicode.IsControl) {
		f.problems.add(f.at(n), key, "the name holds control characters", "give a plain name")
		return ""
	}
	if taken, twice := owners[name]; twice {
		message := fmt.Sprintf("%q already names the service %s", name, taken)
		if taken == owner {
			message = fmt.Sprintf("%q is given twice", name)
		}
		f.problems.add(f.at(n), key, message, "give every service names of its own")
		return ""
	}
	if owner == "" {
		owner = name
	}
	owners[name] = owner
	return name
}
