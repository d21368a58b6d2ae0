package discover

import (
	"fmt"
	"slices"

	"claudeops/internal/ops"
)

// settle compares what was found with what is configured and with itself: every name belongs to one service.
func (s *scanner) settle() {
	owners := map[string]string{} // name or alias → found service
	places := map[string]Found{}
	var kept []Found
	for _, f := range s.found {
		name := f.Service.Name
		if known, ok := s.Known.Canonical(name); ok {
			f.Known = known
			kept = append(kept, f)
			continue
		}
		if first, twice := places[name]; twice {
			// A repository's own description comes first, its compose files only add to it.
			if first.Repository != f.Repository {
				s.problem(f.File, f.Line, fmt.Sprintf("%s was already found in %s:%d, which is used", name, first.File, first.Line))
			}
			continue
		}
		places[name], owners[name] = f, name
		kept = append(kept, f)
	}
	for i := range kept {
		if kept[i].Known == "" {
			s.aliases(&kept[i], owners)
		}
	}
	s.found = kept
	s.dependencies(owners)
	for i := range s.found {
		s.uniqueNames(s.found[i].Probes)
	}
}

// aliases keeps those that name nothing else.
func (s *scanner) aliases(f *Found, owners map[string]string) {
	var kept []string
	for _, a := range f.Service.Aliases {
		known, configured := s.Known.Canonical(a)
		owner, taken := owners[a]
		switch {
		case !plainName().MatchString(a):
			s.problem(f.File, f.Line, quoted(a)+" is not a name for a service")
		case configured:
			s.problem(f.File, f.Line, fmt.Sprintf("the alias %s already names the configured service %s", quoted(a), quotedPart(known)))
		case taken && owner != f.Service.Name:
			s.problem(f.File, f.Line, fmt.Sprintf("the alias %s already names the service %s", quoted(a), owner))
		case taken: // its own name, or given twice
		default:
			owners[a] = f.Service.Name
			kept = append(kept, a)
		}
	}
	f.Service.Aliases = kept
}

// dependencies resolves what services need, and leaves out unknown and circular dependencies.
func (s *scanner) dependencies(owners map[string]string) {
	at := map[string]*Found{}
	for i := range s.found {
		f := &s.found[i]
		if f.Known != "" {
			continue
		}
		at[f.Service.Name] = f
		var needs []mention
		for _, need := range f.needs {
			name, known := s.Known.Canonical(need.name)
			if owner, ok := owners[need.name]; ok && !known {
				name, known = owner, true
			}
			switch {
			case !known:
				s.problem(f.File, need.line, fmt.Sprintf("%s depends on %s, which is not a service here", f.Service.Name, quoted(need.name)))
			case !slices.ContainsFunc(needs, func(m mention) bool { return m.name == name }):
				needs = append(needs, mention{name, need.line})
			}
		}
		f.needs = needs
	}
	visited := map[string]int{}
	for i := range s.found {
		if s.found[i].Known == "" {
			s.dropCircular(&s.found[i], at, visited)
		}
	}
}

// The states of a service in the search for circular dependencies.
const (
	open = iota + 1
	done
)

// dropCircular follows dependencies and drops those that lead back. What is configured cannot depend on what was only found.
func (s *scanner) dropCircular(f *Found, at map[string]*Found, visited map[string]int) {
	if visited[f.Service.Name] != 0 {
		return
	}
	visited[f.Service.Name] = open
	for _, need := range f.needs {
		if visited[need.name] == open {
			s.problem(f.File, need.line, fmt.Sprintf("the dependency of %s on %s is left out: it leads back to itself", f.Service.Name, need.name))
			continue
		}
		if next := at[need.name]; next != nil {
			s.dropCircular(next, at, visited)
		}
		f.Service.DependsOn = append(f.Service.DependsOn, need.name)
	}
	visited[f.Service.Name] = done
}

// uniqueNames gives probes of one service that would have the same name different names.
func (s *scanner) uniqueNames(probes []ops.ProbeSpec) {
	if s.ProbeName == nil {
		return
	}
	seen := map[string]int{}
	for i := range probes {
		name := s.ProbeName(probes[i])
		if seen[name]++; seen[name] > 1 {
			probes[i].Name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
	}
}
