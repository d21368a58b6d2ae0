package broker

import (
	"fmt"
	"slices"
	"strings"
)

// The labels that compose puts on containers; Podman's compose puts them too.
const (
	labelService = "com.docker.compose.service"
	labelProject = "com.docker.compose.project"
)

// Service is a service of the inventory as containers show it.
type Service struct {
	Name  string
	Names []string // its aliases and the names of its containers
	Off   []string // restart, start, stop: what the operator removed, or what a human must approve
	// Redeployed says how its containers are made again.
	Redeployed string
}

func (s Service) has(name string) bool { return name == s.Name || slices.Contains(s.Names, name) }

// identity is what tells to which service a container belongs.
type identity struct {
	id     string
	name   string
	labels map[string]string
}

func (i identity) service() string { return i.labels[labelService] }
func (i identity) project() string { return i.labels[labelProject] }

// scope is what a session may change.
type scope struct {
	services []Service // of the incident
	others   []Service // of other environments
}

// off reports whether the operator keeps agents from doing this to a service.
func (s scope) off(service, does string) bool {
	return slices.ContainsFunc(s.services, func(o Service) bool { return o.Name == service && slices.Contains(o.Off, does) })
}

// own reports the supervisor's own container, which nobody restarts from inside a session.
func (i identity) own() bool {
	plain := strings.NewReplacer("-", "", "_", "")
	return slices.ContainsFunc([]string{i.name, i.service(), i.project()}, func(s string) bool {
		return strings.Contains(plain.Replace(strings.ToLower(s)), "claudeops")
	})
}

// find returns the service of the incident to which a container belongs: by its name, or by the service label of compose if
// only one project and one environment use it. All are the containers of the engine.
func (s scope) find(c identity, all []identity) (service string, problem string) {
	claimed := func(i identity) bool {
		return slices.ContainsFunc(s.others, func(o Service) bool { return o.has(i.name) })
	}
	switch {
	case c.own():
		return "", "it belongs to the supervisor"
	case claimed(c):
		return "", "it belongs to another environment"
	}
	if i := slices.IndexFunc(s.services, func(o Service) bool { return o.has(c.name) }); i >= 0 {
		return s.services[i].Name, ""
	}
	i := slices.IndexFunc(s.services, func(o Service) bool { return c.service() != "" && o.has(c.service()) })
	if i < 0 {
		return "", "it does not belong to a service of this incident"
	}
	if slices.ContainsFunc(s.others, func(o Service) bool { return o.has(c.service()) }) {
		return "", fmt.Sprintf("another environment has a service %q too; give the container's name as an alias of the service", c.service())
	}
	for _, other := range all {
		if other.service() == c.service() && other.project() != c.project() && !claimed(other) {
			return "", fmt.Sprintf("the compose projects %q and %q both have a service %q; give the container's name as an alias of the service",
				c.project(), other.project(), c.service())
		}
	}
	return s.services[i].Name, ""
}

// tell names the services of the incident for a refusal.
func (s scope) tell() string {
	var names []string
	for _, o := range s.services {
		names = append(names, o.Name)
	}
	if len(names) == 0 {
		return "This incident has no services that may be changed."
	}
	return "Services of this incident: " + strings.Join(names, ", ") + "."
}

// replaced says who makes the containers of the incident's services again.
func (s scope) replaced() string {
	out := "sessions make, change and remove no containers"
	for _, o := range s.services {
		out += "; " + o.Redeployed
	}
	return out + "."
}
