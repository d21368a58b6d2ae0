package config

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	defaultActionTimeout = 2 * time.Minute
	longestAction        = 30 * time.Minute
	defaultBranchPrefix  = "claudeops/"
)

// The forms of what becomes an argument of a program. None of them can look like an option.
const (
	actionName    = `^[a-z0-9][a-z0-9-]{0,39}$`
	fixActionName = "use small letters, digits and dashes, beginning with a letter or digit, at most 40"
	containerForm = `^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`
	unitForm      = `^[a-zA-Z0-9][a-zA-Z0-9@_.:-]*$`
	repoForm      = `^[a-zA-Z0-9][a-zA-Z0-9._-]*$`
	remoteForm    = `^(https://|ssh://|/|[a-zA-Z0-9_.-]+@[a-zA-Z0-9.-]+:)[^\s]*$`
)

var (
	placeholder     = ops.Pattern(`\{\{[^}]*\}\}`)
	containerNaming = ops.Pattern(containerForm)
	unitNaming      = ops.Pattern(unitForm)
)

// action is an entry of a service's actions.
type action struct {
	ops.ActionSpec
	written

	count int
	per   time.Duration
	off   bool
}

func namedKind(name string, form string) kind[string] {
	return matching(name, form, "a "+name, "use letters, digits, dots and dashes, beginning with a letter or digit")
}

func actionFields(a *action) []field {
	return []field{
		value("name", &a.Name, matching("name", actionName, "a name for an action", fixActionName),
			"Name of the action. The name of a built-in action changes that one.").mustElse("the action has no name"),
		value("description", &a.Description, textKind(), "What it is good for, told to agents and people."),
		value("tier", &a.Tier, intKind(ops.Tier2, ops.LastTier), "Lowest tier whose agents may ask for it.").
			orElse("2; that of the built-in action"),
		value("run", &a.Run, argvKind(),
			"Program and arguments. No shell reads them. `{{service}}`, `{{current}}` and `{{previous}}` (images of the container) are replaced."),
		value("undo", &a.Undo, argvKind(), "Program and arguments that undo it."),
		value("push", &a.Remote, matching("remote", remoteForm, "the address of a repository",
			"give https://…, ssh://…, user@host:path or /path"),
			"Instead of `run`: push a branch of `repo`, whose name begins with `"+defaultBranchPrefix+"`, to this address."),
		value("repo", &a.Repo, namedKind("folder name", repoForm),
			"Repository: a folder of `repos_dir`. `run` and `undo` then work in a clean checkout of its newest trusted commit."),
		object("cooldown", &a.count, []field{
			value("count", &a.count, intKind(1, 1000), "Maximum runs within `per`.").must(),
			value("per", &a.per, durationKind(time.Minute), "Sliding window.").must(),
		}, "Its own rate limit, as `{count: 2, per: 4h}`.").
			orElse("counts as a restart at Tier 2 and as a redeployment at Tier 3"),
		value("timeout", &a.Timeout, durationKind(time.Second), "Time limit of one run, at most 30m.").orElse("2m"),
		value("approval", &a.Approval, boolKind(), "Agents may only propose it, as part of a plan that a human approves.").orElse("`false`"),
		value("off", &a.off, boolKind(), "Removes a built-in action.").orElse("`false`"),
	}
}

func composeFields(c *ops.Compose) []field {
	return []field{
		value("repo", &c.Repo, namedKind("folder name", repoForm), "Repository: a folder of `repos_dir`.").must(),
		value("file", &c.File, committedKind(), "The compose file, as a path in the repository.").must(),
		value("service", &c.Service, namedKind("service name", containerForm), "Its name in the file.").orElse("the name of the service"),
		value("project", &c.Project, namedKind("project name", containerForm), "Name of the compose project.").
			orElse("the folder of the file"),
		value("env_file", &c.EnvFile, socketKind(), "File with variables for the compose file, outside `repos_dir`."),
	}
}

// committedKind reads the path of a file in a repository.
func committedKind() kind[string] {
	return checked("path in a repository", "give a path inside the repository, such as media/compose.yml", "not a path inside a repository",
		true, func(s string) bool {
			return s != "" && s == path.Clean(s) && !path.IsAbs(s) && s != ".." && !strings.HasPrefix(s, "../") && !strings.HasPrefix(s, "-") &&
				!strings.ContainsAny(s, "\x00\n")
		})
}

// finishAction checks one action without its service.
func finishAction(e *entry, a *action) {
	a.written = written{e.position(e.node), e.key}
	ways, names := 0, []string{}
	for _, at := range []any{&a.Run, &a.Remote} {
		names = append(names, e.fields.bound(at).key)
		if e.has(at) {
			ways++
		}
	}
	switch {
	case ways > 1:
		e.refuseAll("keep one of them", "the action has more than one of %s", strings.Join(names, ", "))
	case a.Remote != "" && a.Repo == "":
		e.refuseAll("add repo: …, a folder of repos_dir", "the action names no repository")
	case a.Repo != "" && len(a.Run) == 0 && a.Remote == "":
		e.refuse(&a.Repo, "remove it, or add run or push", "only a program or a push has a repository")
	case len(a.Undo) > 0 && a.Remote != "":
		e.refuse(&a.Undo, "remove it", "a push cannot be undone")
	case a.Timeout > longestAction:
		e.refuse(&a.Timeout, "give at most 30m", "%s is too long", a.Timeout)
	}
	for _, at := range []*[]string{&a.Run, &a.Undo} {
		for i, word := range *at {
			for _, p := range placeholder().FindAllString(word, -1) {
				if !slices.Contains([]string{"{{service}}", "{{current}}", "{{previous}}"}, p) {
					e.refuseItem(at, i, "use {{service}}, {{current}} or {{previous}}", "%s is not known", p)
				}
			}
		}
	}
}

// declared reports whether the entry says itself what to do.
func (a action) declared() bool { return len(a.Run) > 0 || a.Remote != "" }

// usesImage reports whether the action needs to know the image of a container.
func (a action) usesImage() bool {
	return slices.ContainsFunc(slices.Concat(a.Run, a.Undo), func(word string) bool {
		return strings.Contains(word, "{{current}}") || strings.Contains(word, "{{previous}}")
	})
}

// checkActions checks the actions of a service against the service.
func checkActions(e *entry, s *service) {
	fromProbes(s)
	if e.has(&s.Container) && e.has(&s.Unit) {
		e.refuse(&s.Unit, "keep one of them", "a service has a container or a unit, not both")
		return
	}
	known := builtIns(s)
	seen := map[string]bool{}
	for _, a := range s.actions {
		built := slices.ContainsFunc(known, func(o ops.ActionSpec) bool { return o.Name == a.Name })
		refuse := func(fix, format string, args ...any) {
			e.problems.add(a.at, a.key, fmt.Sprintf(format, args...), fix)
		}
		switch {
		case seen[a.Name]:
			refuse("give every action of a service its own name", "%q is given twice", a.Name)
		case built && a.declared():
			refuse("choose another name, or remove what it runs to change the built-in action", "%q is a built-in action of this service", a.Name)
		case !built && !a.declared():
			refuse("add run: [program, argument]; built in here: "+listOr(known, "nothing, because it has no container, unit or compose"),
				"the action %q does not say what it runs", a.Name)
		case built && a.Tier != 0 && a.Tier < known[slices.IndexFunc(known, func(o ops.ActionSpec) bool { return o.Name == a.Name })].Tier:
			refuse("raise it, or remove it", "the built-in action %q needs a higher tier", a.Name)
		case built && len(a.Undo) > 0 && (a.Name == string(ops.ActionStart) || a.Name == string(ops.ActionStop)):
			refuse("remove undo", "starting and stopping undo each other")
		case a.usesImage() && s.Container == "":
			refuse("add container: … to the service", "{{current}} and {{previous}} are images of a container, and the service has none")
		case a.off && !built:
			refuse("remove the entry", "%q is not a built-in action", a.Name)
		}
		seen[a.Name] = true
	}
	s.Actions = merge(known, s)
}

func listOr(specs []ops.ActionSpec, otherwise string) string {
	if len(specs) == 0 {
		return otherwise
	}
	names := ops.Map(specs, func(a ops.ActionSpec) string { return a.Name })
	return strings.Join(names, ", ")
}

// fromProbes takes the container or unit of a service from its probes, where it has no other.
func fromProbes(s *service) {
	for _, p := range s.probes {
		switch {
		case s.Container != "" || s.Unit != "":
			return
		case p.Type == "container" && containerNaming().MatchString(p.Container):
			s.Container = p.Container
		case p.Type == "systemd" && unitNaming().MatchString(p.Unit):
			s.Unit = p.Unit
		}
	}
}

// builtIns are the actions that follow from what a service is.
func builtIns(s *service) []ops.ActionSpec {
	var out []ops.ActionSpec
	add := func(kind ops.ActionKind, tier ops.Tier, counts, does string) {
		out = append(out, ops.ActionSpec{
			Name: string(kind), Service: s.Name, Kind: kind, Tier: tier, Counts: counts, Timeout: defaultActionTimeout, Description: does,
			Container: s.Container, Unit: s.Unit,
		})
	}
	if s.Container != "" || s.Unit != "" {
		what := "container " + s.Container
		if s.Unit != "" {
			what = "unit " + s.Unit
		}
		add(ops.ActionRestart, ops.Tier2, ops.CountsRestart, "restart the "+what)
		add(ops.ActionStart, ops.Tier2, ops.CountsRestart, "start the "+what)
		add(ops.ActionStop, ops.Tier3, ops.CountsRedeployment, "stop the "+what)
	}
	if s.compose.Repo != "" {
		c := s.compose
		c.Service = cmp.Or(c.Service, s.Name)
		add(ops.ActionRedeploy, ops.Tier3, ops.CountsRedeployment, "make the container again from the committed compose file")
		add(ops.ActionApply, ops.Tier3, ops.CountsRedeployment, "bring the container to the state of the committed compose file")
		for i := range out[len(out)-2:] {
			a := &out[len(out)-2+i]
			a.Compose, a.Timeout = c, 2*defaultActionTimeout
		}
	}
	return out
}

// merge adds an operator's entries to the built-in actions.
func merge(known []ops.ActionSpec, s *service) []ops.ActionSpec {
	out := slices.Clone(known)
	for _, a := range s.actions {
		i := slices.IndexFunc(out, func(o ops.ActionSpec) bool { return o.Name == a.Name })
		switch {
		case i >= 0 && a.off:
			out = slices.Delete(out, i, i+1)
			s.Off = append(s.Off, a.Name)
		case i >= 0:
			adjust(&out[i], a)
		case a.declared():
			out = append(out, a.spec(s))
		}
	}
	return out
}

// adjust changes a built-in action as an entry says.
func adjust(built *ops.ActionSpec, a action) {
	if a.Tier != 0 {
		built.Tier = a.Tier
	}
	if a.Timeout != 0 {
		built.Timeout = a.Timeout
	}
	if a.Description != "" {
		built.Description = a.Description
	}
	if len(a.Undo) > 0 {
		built.Undo = a.Undo
	}
	built.Approval = a.Approval
	if a.count > 0 {
		// It still counts with the commands of agents; its own limit comes on top.
		built.Limit = ops.CooldownLimit{Service: built.Service, Action: built.Name, Count: a.count, Window: a.per}
	}
}

// spec is the action of an entry that says itself what it does.
func (a action) spec(s *service) ops.ActionSpec {
	out := a.ActionSpec
	out.Service, out.Container, out.Unit = s.Name, s.Container, s.Unit
	switch {
	case a.Remote != "":
		out.Kind = ops.ActionPush
		out.Prefix = defaultBranchPrefix
	default:
		out.Kind = ops.ActionCommand
	}
	out.Tier = cmp.Or(out.Tier, ops.Tier2)
	out.Timeout = cmp.Or(out.Timeout, defaultActionTimeout)
	switch {
	case a.count > 0:
		out.Counts = out.Name
		out.Limit = ops.CooldownLimit{Service: s.Name, Action: out.Name, Count: a.count, Window: a.per}
	case out.Tier >= ops.Tier3:
		out.Counts = ops.CountsRedeployment
	default:
		out.Counts = ops.CountsRestart
	}
	return out
}

// checkActionPlaces refuses actions whose programs and files an agent could change.
func (l *loader) checkActionPlaces(c *Config) {
	for _, e := range c.environments {
		for _, s := range e.inventory.services.Services {
			for _, a := range s.Actions {
				l.checkActionPlace(c, e, a, e.inventory.declared[s.Name])
			}
		}
	}
}

func (l *loader) checkActionPlace(c *Config, e environment, a ops.ActionSpec, from written) {
	at, key := from.at, from.key+": action "+a.Name
	if a.Repository() != "" && e.reposDir == "" {
		l.problems.add(at, key, "it reads the repository "+a.Repository()+", but repos_dir is not set", "set repos_dir")
	}
	words := slices.Concat(a.Run, a.Undo, []string{a.Compose.EnvFile})
	for _, word := range words {
		if !filepath.IsAbs(word) {
			continue
		}
		for _, dir := range []string{e.reposDir, filepath.Join(c.stateDir(e.name), "work"), filepath.Join(c.stateDir(e.name), "agent")} {
			if dir != "" && inside(filepath.Clean(word), dir) {
				l.problems.add(at, key, fmt.Sprintf("%s is in %s, where agents write", word, dir),
					"use a path outside of it; a file of a repository can be used by run with repo, or by compose")
			}
		}
	}
}

// reflex is an entry of a service's reflexes.
type reflex struct {
	ops.Reflex
	written
}

func reflexFields(r *reflex) []field {
	return []field{
		value("on", &r.On, choiceKind("a type of probe", probeTypes()...), "Type of the probe of this service that fails.").
			mustElse("the reflex does not say which probe it is for"),
		value("status", &r.Status, choiceKind("a status", ops.Down, ops.Degraded), "What the probe finds.").or("down"),
		value("for", &r.For, durationKind(0), "How long it must have failed, counted from the first failed check.").orElse("0: at once"),
		value("do", &r.Do, strictListKind("actions"), "Actions of this service, done in this order until one fails.").
			mustElse("the reflex does not say what to do"),
		value("tries", &r.Tries, intKind(1, 100), "At most so often within `per`. The cooldown of the action holds too.").or("2"),
		value("per", &r.Per, durationKind(time.Minute), "The time in which tries are counted, at most 168h.").or("6h"),
	}
}

// finishReflex checks one reflex without its service.
func finishReflex(e *entry, r *reflex) {
	r.written = written{e.position(e.node), e.key}
	switch {
	case r.Per > ops.ReflexLongest:
		e.refuse(&r.Per, "give at most 168h", "%s is too long", r.Per)
	case len(r.Do) == 0:
		e.refuse(&r.Do, "name an action, such as [restart]", "the list is empty")
	}
}

// checkReflexes checks the reflexes of a service against its probes and actions.
func checkReflexes(e *entry, s *service) {
	for _, r := range s.reflexes {
		refuse := func(field, fix, format string, args ...any) {
			e.problems.add(r.at, r.key+"."+field, fmt.Sprintf(format, args...), fix)
		}
		if !slices.ContainsFunc(s.probes, func(p probeEntry) bool { return p.Type == r.On }) {
			refuse("on", "add the probe, or name the type of another one", "the service has no probe of type %s", r.On)
		}
		for i, name := range r.Do {
			n := slices.IndexFunc(s.Actions, func(a ops.ActionSpec) bool { return a.Name == name })
			switch {
			case n < 0:
				refuse(fmt.Sprintf("do[%d]", i), "use one of: "+listOr(s.Actions, "none; add container, unit or actions to the service"),
					"the service has no action %q", name)
			case s.Actions[n].Kind == ops.ActionPush:
				refuse(fmt.Sprintf("do[%d]", i), "use another action", "a push needs a branch, which a reflex does not have")
			}
		}
		r.Service = s.Name
		if slices.ContainsFunc(s.Reflexes, func(o ops.Reflex) bool { return o.Key() == r.Key() }) {
			refuse("do", "remove one of them", "%s for %s %s is given twice", strings.Join(r.Do, ", "), r.On, r.Status)
		}
		s.Reflexes = append(s.Reflexes, r.Reflex)
	}
}

// aimReflexes tells reflexes the names of their probes.
func (l *loader) aimReflexes(v inventory) {
	if l.in.ProbeName == nil {
		return
	}
	for _, s := range v.services.Services {
		for i := range s.Reflexes {
			for _, p := range v.probes {
				if p.Service == s.Name && p.Type == s.Reflexes[i].On {
					s.Reflexes[i].Probes = append(s.Reflexes[i].Probes, l.in.ProbeName(p))
				}
			}
		}
	}
}
