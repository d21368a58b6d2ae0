package config

import (
	"errors"
	"reflect"
	"slices"

	"claudeops/internal/ops"
)

// Addition is the one thing by which a configuration may differ from an earlier one.
type Addition struct {
	Service string    // the new service, or the one that Probe and Trust are about
	Probe   bool      // the service, which is not new, has one more probe
	Trust   ops.Trust // the highest level of the service; without a service that of an environment
	Target  string    // one more notification target
}

var errMore = errors.New("it would change more than this one thing, so nothing is written: write it into the file yourself")

// OnlyAdds returns an error unless next is this configuration and exactly the addition.
func (c *Config) OnlyAdds(next *Config, a Addition) error {
	before, after := c.comparable(), next.comparable()
	found := a.takeOut(&before.inventory, &after.inventory)
	for i := range after.environments {
		if i < len(before.environments) && a.takeOut(&before.environments[i].inventory, &after.environments[i].inventory) {
			found = true
		}
	}
	switch {
	case a.Target != "":
		found = slices.Equal(after.AppriseURLs, append(slices.Clone(before.AppriseURLs), a.Target))
		after.AppriseURLs = before.AppriseURLs
		for _, x := range []*Config{before, after} {
			x.Secrets, x.secretFiles, x.files = nil, nil, nil // they follow from the target
		}
	case a.Trust != "" && a.Service == "":
		found = a.trustAll(before, after)
	}
	switch {
	case !found:
		return errors.New("it would have no effect: a variable, a flag or another line is stronger")
	case !reflect.DeepEqual(before, after):
		return errMore
	}
	return nil
}

// comparable is a copy without what two equal files may differ in: where things are written, and what is made anew for each.
func (c *Config) comparable() *Config {
	out := *c
	out.table, out.origins, out.Digest = nil, nil, ""
	bare := func(v inventory) inventory {
		v.written, v.declared = nil, nil
		v.probes, v.services.Services = slices.Clone(v.probes), slices.Clone(v.services.Services)
		return v
	}
	out.inventory = bare(c.inventory)
	out.environments = slices.Clone(c.environments)
	for i := range out.environments {
		out.environments[i].line, out.environments[i].inventory = 0, bare(out.environments[i].inventory)
	}
	return &out
}

// trustAll takes the trust of one environment out, or that of all which have none of their own.
func (a Addition) trustAll(before, after *Config) (found bool) {
	if after.trust == a.Trust {
		found = true
		after.trust = before.trust
	}
	for i := range after.environments {
		if e := &after.environments[i]; i < len(before.environments) && e.trust == a.Trust {
			found = true
			e.trust = before.environments[i].trust
		}
	}
	return found
}

// takeOut removes the addition from a list of services, and reports whether it was there.
func (a Addition) takeOut(before, after *inventory) bool {
	i := slices.IndexFunc(after.services.Services, func(s ops.Service) bool { return s.Name == a.Service })
	if i < 0 || a.Target != "" {
		return false
	}
	s := &after.services.Services[i]
	was := slices.IndexFunc(before.services.Services, func(s ops.Service) bool { return s.Name == a.Service })
	switch {
	case a.Trust != "" && was == i && s.Trust == a.Trust:
		s.Trust = before.services.Services[i].Trust
		return true
	case a.Probe && was == i:
		return a.takeProbe(before, after, i)
	case !a.Probe && a.Trust == "" && was < 0 && harmless(*s, ops.Service{Name: s.Name}):
		after.services.Services = slices.Delete(after.services.Services, i, i+1)
		after.probes = slices.DeleteFunc(after.probes, func(p ops.ProbeSpec) bool { return p.Service == a.Service && added(p) })
		if len(after.services.Services) == 0 && before.services.Services == nil {
			after.services.Services = nil
		}
		if len(after.probes) == 0 && before.probes == nil {
			after.probes = nil
		}
		return true
	}
	return false
}

// takeProbe removes the last probe of a service, and what follows from it.
func (a Addition) takeProbe(before, after *inventory, i int) bool {
	last := -1
	for j, p := range after.probes {
		if p.Service == a.Service {
			last = j
		}
	}
	s, was := &after.services.Services[i], before.services.Services[i]
	if last < 0 || !added(after.probes[last]) || !harmless(*s, was) {
		return false
	}
	after.probes = slices.Delete(after.probes, last, last+1)
	if len(after.probes) == 0 && before.probes == nil {
		after.probes = nil
	}
	*s = was
	return true
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

// harmless reports whether a service differs from what it was only by what follows from a probe: its container, and the built-in actions
// of that.
func harmless(s, was ops.Service) bool {
	builtIn := func(a ops.ActionSpec) bool {
		return (a.Kind == ops.ActionRestart || a.Kind == ops.ActionStart || a.Kind == ops.ActionStop) && a.Container == s.Container
	}
	if s.Container != was.Container && was.Container == "" {
		s.Actions = slices.DeleteFunc(slices.Clone(s.Actions), func(a ops.ActionSpec) bool {
			return builtIn(a) && !slices.ContainsFunc(was.Actions,
				func(o ops.ActionSpec) bool { return o.Name == a.Name })
		})
		s.Container = ""
	}
	if len(s.Actions) == 0 && len(was.Actions) == 0 {
		s.Actions = was.Actions
	}
	s.Probed = was.Probed
	return reflect.DeepEqual(s, was)
}
