package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Addition is the one thing by which a configuration may differ from an earlier one.
type Addition struct {
	Service string    // the new service, or the one that Probe and Trust are about
	Probe   bool      // the service, which is not new, has one more probe
	Trust   ops.Trust // the highest level of the service; without a service that of an environment
	Target  string    // one more notification target
	Gone    bool      // the service, probe or target is there no more
	Instead bool      // the probe is another one, and not one more
}

var (
	errMore = errors.New("it would change more than this one thing, so nothing is written: write it into the file yourself")
	errSame = errors.New("it would have no effect: a variable, a flag or another line is stronger")
)

// OnlyAdds returns an error unless next is this configuration and exactly the addition.
func (c *Config) OnlyAdds(next *Config, a Addition) error {
	before, after := c.comparable(), next.comparable()
	if reflect.DeepEqual(before, after) {
		return errSame
	}
	if a.Gone { // the earlier one is the later one with this added
		before, after = after, before
	}
	a.takeOut(&before.inventory, &after.inventory)
	for i := range after.environments {
		if i < len(before.environments) {
			a.takeOut(&before.environments[i].inventory, &after.environments[i].inventory)
		}
	}
	if a.Target != "" {
		a.takeTarget(before, after)
	}
	if a.Trust != "" && a.Service == "" {
		a.takeTrust(before, after)
	}
	if !reflect.DeepEqual(before, after) {
		return errMore
	}
	return nil
}

// NeedsRestart names what a running daemon holds on to and next has otherwise; empty if there is nothing.
func (c *Config) NeedsRestart(next *Config) string {
	var keys []string
	held := func(key string, same bool) {
		if !same {
			keys = append(keys, key)
		}
	}
	held("listen", c.Listen == next.Listen)
	held("database_url", c.DatabaseURL == next.DatabaseURL)
	held("state_dir", c.StateDir == next.StateDir)
	held("host", reflect.DeepEqual(c.Host, next.Host))
	held("sandbox.uid", c.Guard.Sandbox.UID == next.Guard.Sandbox.UID)
	return strings.Join(keys, ", ")
}

// comparable is a copy without what two equal files may differ in: where things are written, and what is made anew for each.
func (c *Config) comparable() *Config {
	out := *c
	out.table, out.origins, out.Digest = nil, nil, ""
	bare := func(v inventory) inventory {
		v.written, v.declared = nil, nil
		v.probes, v.services.Services = without(v.probes, nil), without(v.services.Services, nil)
		return v
	}
	out.inventory = bare(c.inventory)
	out.environments = slices.Clone(c.environments)
	for i := range out.environments {
		out.environments[i].line, out.environments[i].inventory = 0, bare(out.environments[i].inventory)
	}
	return &out
}

// without is a copy of a list without what a function picks; nil if nothing is left.
func without[T any](all []T, gone func(T) bool) (out []T) {
	for _, x := range all {
		if gone == nil || !gone(x) {
			out = append(out, x)
		}
	}
	return out
}

// takeTarget removes a notification target: the last one, unless it is gone.
func (a Addition) takeTarget(before, after *Config) {
	i := len(after.AppriseURLs) - 1
	if a.Gone {
		i = slices.Index(after.AppriseURLs, a.Target)
	}
	if i >= 0 && after.AppriseURLs[i] == a.Target && slices.Equal(slices.Delete(slices.Clone(after.AppriseURLs), i, i+1), before.AppriseURLs) {
		after.AppriseURLs = before.AppriseURLs
	}
	for _, x := range []*Config{before, after} {
		x.Secrets, x.secretFiles, x.files = nil, nil, nil // they follow from the target
	}
}

// takeTrust takes the trust of one environment out, or that of all which have none of their own.
func (a Addition) takeTrust(before, after *Config) {
	if after.trust == a.Trust {
		after.trust = before.trust
	}
	for i := range after.environments {
		if e := &after.environments[i]; i < len(before.environments) && e.trust == a.Trust {
			e.trust = before.environments[i].trust
		}
	}
}

// takeOut removes the addition from the later one of two lists of services, if it is there and is no more than it says.
func (a Addition) takeOut(before, after *inventory) {
	named := func(s ops.Service) bool { return s.Name == a.Service }
	i, was := slices.IndexFunc(after.services.Services, named), slices.IndexFunc(before.services.Services, named)
	if i < 0 || a.Target != "" {
		return
	}
	s := &after.services.Services[i]
	switch {
	case a.Trust != "" && was >= 0 && s.Trust == a.Trust:
		s.Trust = before.services.Services[was].Trust
	case a.Probe && was >= 0:
		a.takeProbe(before, after, s, before.services.Services[was])
	case !a.Probe && a.Trust == "" && was < 0 && (a.Gone || samePlace(*s, ops.Service{Name: s.Name})):
		after.services.Services = without(after.services.Services, named)
		after.probes = without(after.probes, func(p ops.ProbeSpec) bool { return p.Service == a.Service && (a.Gone || added(p)) })
	}
}

// takeProbe removes a probe that a service had not before, or puts back the one in whose place it is, and what follows from it.
func (a Addition) takeProbe(before, after *inventory, s *ops.Service, was ops.Service) {
	at := slices.IndexFunc(after.probes, func(p ops.ProbeSpec) bool {
		return p.Service == a.Service && !slices.ContainsFunc(before.probes, func(o ops.ProbeSpec) bool { return reflect.DeepEqual(o, p) })
	})
	switch {
	case at < 0, !a.Gone && !added(after.probes[at]), !samePlace(*s, was):
		return
	case a.Instead:
		if at >= len(before.probes) || !added(before.probes[at]) {
			return
		}
		after.probes[at] = before.probes[at]
	case !a.Gone && was.Container != "" && s.Container != was.Container:
		return
	default:
		after.probes = without(slices.Delete(after.probes, at, at+1), nil)
	}
	*s = was
}

// added reports whether a probe can come from a form: it runs no program and sends nothing but a plain request.
func added(p ops.ProbeSpec) bool {
	switch p.Type {
	case "http":
		return p.Method == "GET" && p.Headers == nil && p.Body == "" && !p.InsecureTLS
	case "tcp", "container", ops.ProbeHeartbeat:
		return p.Command == nil
	}
	return false
}

// samePlace reports whether two services differ only by their container, and by the built-in actions of that.
func samePlace(s, was ops.Service) bool {
	return reflect.DeepEqual(placeless(s, was), placeless(was, s))
}

// placeless is a service without a container that another one has not, and the built-in actions of it.
func placeless(s, other ops.Service) ops.Service {
	builtIn := func(a ops.ActionSpec) bool {
		return (a.Kind == ops.ActionRestart || a.Kind == ops.ActionStart || a.Kind == ops.ActionStop) && a.Container == s.Container &&
			!slices.ContainsFunc(other.Actions, func(o ops.ActionSpec) bool { return reflect.DeepEqual(o, a) })
	}
	if s.Container != other.Container {
		s.Actions = slices.DeleteFunc(slices.Clone(s.Actions), builtIn)
	}
	if len(s.Actions) == 0 {
		s.Actions = nil
	}
	s.Container, s.Probed = "", false
	return s
}
