package health

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// ValidateServices refuses dependencies on unknown services and services that depend on each other.
func ValidateServices(services []ops.Service) error {
	all := newDependencies(services)
	for _, s := range services {
		for _, d := range s.DependsOn {
			if _, known := all.direct[d]; !known {
				return fmt.Errorf("service %s depends on %s, which is not configured", s.Name, d)
			}
		}
		if path := all.cycle(s.Name); path != nil {
			return fmt.Errorf("services depend on each other: %s", strings.Join(path, " → "))
		}
	}
	return nil
}

// dependencies knows what services depend on.
type dependencies struct {
	direct map[string][]string
	known  map[string]map[string]bool // cached results of all
}

func newDependencies(services []ops.Service) dependencies {
	d := dependencies{map[string][]string{}, map[string]map[string]bool{}}
	for _, s := range services {
		d.direct[s.Name] = append(d.direct[s.Name], s.DependsOn...)
	}
	return d
}

// all returns everything a service depends on, directly or not.
func (d dependencies) all(service string) map[string]bool {
	if found, ok := d.known[service]; ok {
		return found
	}
	found := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		for _, need := range d.direct[name] {
			if !found[need] {
				found[need] = true
				visit(need)
			}
		}
	}
	visit(service)
	d.known[service] = found
	return found
}

// cycle returns a path from a service to itself, or nil.
func (d dependencies) cycle(service string) []string {
	seen := map[string]bool{}
	var visit func(name string, path []string) []string
	visit = func(name string, path []string) []string {
		for _, need := range d.direct[name] {
			if need == service {
				return append(slices.Clone(path), need)
			}
			if !seen[need] {
				seen[need] = true
				if found := visit(need, append(slices.Clone(path), need)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return visit(service, []string{service})
}
