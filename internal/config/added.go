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

var errMore = errors.New("it would change more than this one thing, so nothing is written: write it into the file yourself")

// OnlyAdds returns an error unless next is this configuration and exactly the addition.
func (c *Config) OnlyAdds(next *Config, a Addition) error {
	before, after := c.comparable(), next.comparable()
	if a.Gone { // the earlier one is the later one with this added
		before, after = after, before
	}
	found := a.takeOut(&before.inventory, &after.inventory)
	for i := range after.environments {
		if i < len(before.environments) && a.takeOut(&before.environments[i].inventory, &after.environments[i].inventory) {
			found = true
		}
	}
	switch {
	case a.Target != "":
		i := len(after.AppriseURLs) - 1
		if a.Gone {
			i = slices.Index(after.AppriseURLs, a.Target)
		}
		found = i >= 0 && after.AppriseURLs[i] == a.Target &&
			slices.Equal(slices.Delete(slices.Clone(after.AppriseURLs), i, i+1), before.AppriseURLs)
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
	case !a.Probe && a.Trust == "" && was < 0 && (a.Gone || harmless(*s, ops.Service{Name: s.Name})):
		after.services.Services = slices.Delete(after.services.Services, i, i+1)
		after.probes = slices.DeleteFunc(after.probes, func(p ops.ProbeSpec) bool { return p.Service == a.Service && (a.Gone || added(p)) })
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

// takeProbe removes a probe of a service, and what follows from it: the last one, unless it is gone or in the place of another one.
func (a Addition) takeProbe(before, after *inventory, i int) bool {
	at := -1
	for j, p := range after.probes {
		differs := j >= len(before.probes) || !reflect.DeepEqual(p, before.probes[j])
		if p.Service == a.Service && (at < 0 || differs) {
			at = j
		}
		if at >= 0 && differs && (a.Gone || a.Instead) {
			break
		}
	}
	s, was := &after.services.Services[i], before.services.Services[i]
	if at < 0 {
		return false
	}
	switch {
	case a.Instead:
		if len(before.probes) != len(after.probes) || !added(before.probes[at]) || !added(after.probes[at]) || !samePlace(*s, was) {
			return false
		}
		after.probes[at] = before.probes[at]
	case !a.Gone && !added(after.probes[at]), !harmless(*s, was) && !(a.Gone && samePlace(*s, was)):
		return false
	default:
		after.probes = slices.Delete(after.probes, at, at+1)
	}
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

// harmless reports whether a service differs from what it was only by what follows from a probe: a container that it had not, and the
// built-in actions of that.
func harmless(s, was ops.Service) bool {
	return (s.Container == was.Container || was.Container == "") && samePlace(s, was)
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
