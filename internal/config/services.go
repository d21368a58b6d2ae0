package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// inventory is what `services` holds.
type inventory struct {
	services ops.Inventory
	probes   []ops.ProbeSpec
	written  []written          // where the probes are configured; those of repositories have none
	declared map[string]written // where the services are configured
}

// written is a place in the configuration file.
type written struct {
	at  origin
	key string
}

// service is an entry of `services`.
type service struct {
	ops.Service
	needs   []string // dependencies as they were written: names or aliases
	probes  []probeEntry
	compose ops.Compose
	actions []action
}

func serviceFields(s *service) []field {
	return []field{
		value("name", &s.Name, textKind(), "Name of the service.").mustElse("the service has no name"),
		value("aliases", &s.Aliases, strictListKind("names"), "Other names: containers, hosts, units. A name belongs to one service only."),
		value("group", &s.Group, textKind(), "Services of one group share their causes: their failures start one cycle together."),
		value("depends_on", &s.needs, strictListKind("services"),
			"Services that it needs. While one of them is failing, this one starts no cycle."),
		value("settle", &s.Settle, durationKind(time.Second),
			"How long it may take to answer after a start; at most two minutes.").orElse("learned from its last starts"),
		value("container", &s.Container, namedKind("container name", containerForm),
			"Its container. Gives the actions `restart`, `start` and `stop`. A repair is proven only if it runs afterwards.").
			orElse("that of its first `container` probe"),
		value("unit", &s.Unit, namedKind("unit name", unitForm),
			"Its systemd unit. Gives the actions `restart`, `start` and `stop`. A repair is proven only if it runs afterwards.").
			orElse("that of its first `systemd` probe"),
		object("compose", &s.compose, composeFields(&s.compose),
			"Its committed compose file. Gives the actions `redeploy` and `apply`. See [Actions](#actions)."),
		list("actions", &s.actions, actionFields, finishAction,
			"What the supervisor can do to it when an agent or a person asks. See [Actions](#actions)."),
		list("probes", &s.probes, probeFields, finishProbe, "Checks that the supervisor runs itself."),
	}
}

// servicesField takes a plain list, or a mapping with the list and whether other services are rejected.
func servicesField(at *inventory, doc string) field {
	inner := func() []field { return serviceFields(new(service)) }
	return field{
		key: "services", doc: doc, at: at, takes: "list", inner: inner, text: func() string { return "" },
		schema: func() map[string]any {
			services := arrayOf(objectSchema(inner()))
			whole := map[string]any{"strict": boolKind().schema, "list": services}
			return map[string]any{"anyOf": []any{
				services, map[string]any{"type": []any{"object", "null"}, "properties": whole, "additionalProperties": false},
			}}
		},
		descend: func(l *loader, n *yaml.Node, key string) { *at = l.inventory(n, key) },
	}
}

// inventory reads services in either form.
func (l *loader) inventory(n *yaml.Node, key string) inventory {
	out := inventory{declared: map[string]written{}}
	if n = follow(n); n.Kind == yaml.MappingNode {
		var services *yaml.Node
		l.readEntry(n, key, []field{
			value("strict", &out.services.Strict, boolKind(), ""),
			{key: "list", at: &services, descend: func(_ *loader, n *yaml.Node, _ string) { services = n }},
		})
		if services == nil {
			return out
		}
		n, key = services, key+".list"
	}
	items := l.items(n, key)
	services, entries := make([]service, len(items)), make([]*entry, len(items))
	owners := map[string]string{} // name or alias → service
	for i, item := range items {
		s := &services[i]
		entries[i] = l.readEntry(item, fmt.Sprintf("%s[%d]", key, i), serviceFields(s))
		claimNames(entries[i], s, owners)
	}
	before := len(l.problems.found)
	for i := range services {
		resolveNeeds(entries[i], &services[i], owners)
		checkActions(entries[i], &services[i])
		out.declared[services[i].Name] = written{entries[i].position(entries[i].node), entries[i].key}
		out.add(&services[i])
	}
	if l.in.CheckServices != nil && len(l.problems.found) == before {
		if err := l.in.CheckServices(out.services.Services); err != nil {
			l.problems.add(l.position(n), key, err.Error(), "remove one of the dependencies")
		}
	}
	l.distinguish(out.probes)
	return out
}

func (v *inventory) add(s *service) {
	for _, p := range s.probes {
		p.Service = s.Name
		v.probes = append(v.probes, p.ProbeSpec)
		v.written = append(v.written, p.written)
		s.Probed = true
	}
	v.services.Services = append(v.services.Services, s.Service)
}

// claimNames checks that the name and the aliases of a service belong to it alone.
func claimNames(e *entry, s *service, owners map[string]string) {
	claim := func(name, owner string, refuse func(fix, format string, args ...any)) {
		taken, twice := owners[name]
		switch {
		case strings.ContainsFunc(name, unicode.IsControl):
			refuse("give a plain name", "the name holds control characters")
		case twice && taken == owner:
			refuse("give every service names of its own", "%q is given twice", name)
		case twice:
			refuse("give every service names of its own", "%q already names the service %s", name, taken)
		default:
			owners[name] = cmp.Or(owner, name)
		}
	}
	if s.Name != "" {
		claim(s.Name, "", func(fix, format string, args ...any) { e.refuse(&s.Name, fix, format, args...) })
	}
	for i, alias := range s.Aliases {
		claim(alias, s.Name, func(fix, format string, args ...any) { e.refuseItem(&s.Aliases, i, fix, format, args...) })
	}
}

// resolveNeeds replaces aliases by names, once all services are known.
func resolveNeeds(e *entry, s *service, owners map[string]string) {
	for i, need := range s.needs {
		name, known := owners[need]
		if !known {
			fix := suggestOr(need, slices.Sorted(maps.Keys(owners)), "name a service of this list")
			e.refuseItem(&s.needs, i, fix, "no service is called %q", need)
			continue
		}
		s.DependsOn = append(s.DependsOn, name)
	}
}

// distinguish gives probes of one service that would have the same name different names, so that their results are not mixed up.
func (l *loader) distinguish(probes []ops.ProbeSpec) {
	if l.in.ProbeName == nil {
		return
	}
	seen := map[string]int{}
	for i := range probes {
		name := l.in.ProbeName(probes[i])
		key := probes[i].Service + "\x00" + name
		if seen[key]++; seen[key] > 1 {
			probes[i].Name = fmt.Sprintf("%s (%d)", name, seen[key])
		}
	}
}

// Adopt adds services to an environment as if they were at the end of its list, with the actions that follow from their container or
// unit. The caller made sure that their names are free.
func (c *Config) Adopt(environment string, services []ops.Service, probes []ops.ProbeSpec) {
	for i := range c.environments {
		e := &c.environments[i]
		if e.name != environment {
			continue
		}
		// Environments may share one list, so it is never appended to in place.
		e.inventory.services.Services = slices.Concat(e.inventory.services.Services, adoptable(e.inventory.services, services, probes))
		e.inventory.probes = slices.Concat(e.inventory.probes, probes)
	}
}

// ProbePlace says where a probe of an environment is configured, by its index among the environment's probes. A probe of a
// repository is in no file of ours.
func (c *Config) ProbePlace(environment string, i int) (where, key string) {
	for _, e := range c.environments {
		if e.name == environment && i < len(e.inventory.written) {
			return e.inventory.written[i].at.where(), e.inventory.written[i].key
		}
	}
	return "environment " + environment, "services"
}

// showServices names the services of the top level, or of every environment that has its own.
func (c *Config) showServices() string {
	var parts []string
	for _, e := range c.environments {
		var names []string
		for _, s := range e.inventory.services.Services {
			names = append(names, s.Name)
		}
		text := strings.Join(names, ",")
		if len(c.environments) > 1 && text != "" {
			text = e.name + ": " + text
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}
