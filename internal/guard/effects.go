package guard

import (
	"path"
	"strings"

	"claudeops/internal/guard/scan"
)

// effect records what a cooldown counts.
func (j *judge) effect(e Effect) {
	if !j.muted {
		j.effects = append(j.effects, e)
	}
}

// serviceOperand records the effect of a command on a service that it names.
func (c *call) serviceOperand(r role, f field) {
	if c.row.effect == "" {
		c.freeValue(f, c.name)
		return
	}
	if r == roleUnit {
		c.baseUnit(f)
	}
	if name, ok := c.service(f); ok && !c.dry() {
		c.j.effect(Effect{Kind: c.row.effect, Service: name, Half: c.row.half})
	}
}

// service returns the canonical name of the service an argument names.
func (c *call) service(f field) (string, bool) {
	name, plain := f.literal()
	switch {
	case !plain:
		c.j.refuse(ruleRunTime, c.name, "which service it touches is known only at run time", "write the service's name out")
		return "", false
	case !serviceName(name):
		c.refuse(ruleBash, f.show()+" is not the name of a service", "use the service's plain name")
		return "", false
	case ownName(name):
		c.j.refuse(ruleOwn, c.name+" "+name, "it is the supervisor itself", "leave it alone")
		return "", false
	}
	canonical, known := c.j.facts.service(strings.TrimSuffix(name, ".service"))
	if !known && looksLikeID(name) && strings.HasPrefix(c.row.cmd, "docker") {
		c.j.refuse(ruleRunTime, c.name+" "+name, "an id does not say which service it is", "use the service's name")
		return "", false
	}
	return canonical, true
}

// serviceName reports names that containers, units and releases have.
func serviceName(s string) bool {
	return s != "" && strings.Trim(s, scan.Letters+".-@/") == "" && strings.IndexByte("_.-@/", s[0]) < 0
}

// ownName reports names of the supervisor's own container or unit.
func ownName(s string) bool {
	s = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
	return strings.Contains(s, "claudeops")
}

// looksLikeID reports hexadecimal container ids and beginnings of them, which say nothing about the service.
func looksLikeID(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// engine requires that a container engine is the local one or that of an inventory host.
func (c *call) engine(f field) {
	text, plain := f.literal()
	host := text
	if _, after, ok := strings.Cut(text, "ssh://"); ok {
		host = after
	}
	if _, after, ok := strings.Cut(host, "@"); ok {
		host = after
	}
	switch {
	case plain && (text == "default" || text == "unix:///var/run/docker.sock" || text == "unix:///run/docker.sock"):
	case plain && c.j.facts.knownHost(host):
	default:
		c.j.refuse(ruleBash, c.name+" on "+f.show(), "the engine is neither the local one nor that of an inventory host",
			"use the local engine or an inventory host")
	}
}

// project names the compose project a command works on.
func (c *call) project() string {
	name := ""
	for _, g := range c.before {
		switch {
		case g.is("-p", "--project-name"):
			return g.value.text
		case g.is("--project-directory"):
			name = path.Base(path.Clean(g.value.text))
		case g.is("-f", "--file"):
			if name == "" {
				for _, p := range c.j.paths(c.s, g.value.text) {
					name = path.Base(path.Dir(p))
				}
			}
		}
	}
	if name == "" && len(c.s.cwds) > 0 {
		name = path.Base(c.s.cwds[0])
	}
	return name
}

// judgeCompose records the effects of compose commands on services or, without any, on the whole project.
func judgeCompose(c *call) {
	if c.row.effect == "" {
		return
	}
	project := c.project()
	if project == "" || project == "." || project == "/" || project == unknownDir || project == homeDir {
		c.refuse(ruleRunTime, "which project it touches is known only at run time", "name the compose file with -f, by its absolute path")
		return
	}
	if len(c.operands) == 0 {
		c.whole(project)
		return
	}
	for _, f := range c.operands {
		if name, ok := c.service(f); ok {
			c.j.effect(Effect{Kind: c.row.effect, Service: name, Project: project, Half: c.row.half})
		}
	}
}

// whole records an effect on every service of a project, which only the highest tier may have.
func (c *call) whole(project string) {
	c.j.need(c.s, never-1, ruleBash, c.name+" without a service")
	c.j.effect(Effect{Kind: EffectRedeployment, Service: "compose:" + project, Project: project, Half: c.row.half})
}
