package health

import (
	"fmt"
	"slices"
	"strings"
)

// Service says how a service hangs together with others.
type Service struct {
	Name      string
	Group     string   // services of one group fail for one reason
	DependsOn []string // it cannot work without these
}

// ValidateServices says which dependencies cannot be meant: unknown names, and services that need each other.
func ValidateServices(services []Service) error {
	needs := newNeeds(services)
	for _, s := range services {
		for _, d := range s.DependsOn {
			if !slices.ContainsFunc(services, func(o Service) bool { return o.Name == d }) {
				return fmt.Errorf("service %s depends on %s, which is not configured", s.Name, d)
			}
		}
		if path := needs.back(s.Name); path != nil {
			return fmt.Errorf("services depend on each other: %s", strings.Join(path, " → "))
		}
	}
	return nil
}

// needs knows what services depend on.
type needs struct {
	direct map[string][]string
	known  map[string]map[string]bool // answers of all
}

func newNeeds(services []Service) needs {
	n := needs{map[string][]string{}, map[string]map[string]bool{}}
	for _, s := range services {
		n.direct[s.Name] = append(n.direct[s.Name], s.DependsOn...)
	}
	return n
}

// all returns everything a service depends on, directly or not.
func (n needs) all(service string) map[string]bool {
	if found, ok := n.known[service]; ok {
		return found
	}
	found := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		for _, d := range n.direct[name] {
			if !found[d] {
				found[d] = true
				visit(d)
			}
		}
	}
	visit(service)
	n.known[service] = found
	return found
}

// back returns a way from a service to itself, or nil.
func (n needs) back(service string) []string {
	seen := map[string]bool{}
	var visit func(name string, path []string) []string
	visit = func(name string, path []string) []string {
		for _, d := range n.direct[name] {
			if d == service {
				return append(slices.Clone(path), d)
			}
			if !seen[d] {
				seen[d] = true
				if found := visit(d, append(slices.Clone(path), d)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return visit(service, []string{service})
}
