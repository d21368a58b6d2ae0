package guard

import (
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgePlaybook judges ansible-playbook: playbooks of a repository, plain variables, one redeployment each.
func judgePlaybook(c *call) {
	dry := c.has("-C", "--check", "--syntax-check", "--list-hosts", "--list-tasks", "--list-tags")
	service := c.extraVars()
	c.inventory()
	if len(c.operands) == 0 {
		c.refuse(ruleRunTime, "it names no playbook", "name one")
	}
	for _, f := range c.operands {
		text, plain := f.literal()
		if !plain {
			continue // operandsOf said so
		}
		if ext := path.Ext(text); ext != ".yml" && ext != ".yaml" {
			c.refuse(rulePath, f.show()+" is not a playbook file", "name a .yml file of a repository")
		}
		c.inRepo(f, c.name)
		if dry {
			continue
		}
		name := service
		if name == "" {
			name, _ = c.j.facts.service(strings.TrimSuffix(path.Base(text), path.Ext(text)))
		}
		c.j.effect(Effect{Kind: EffectRedeployment, Service: name})
	}
}

// extraVars judges -e and returns the service it names, if any.
func (c *call) extraVars() string {
	service := ""
	for _, g := range c.options {
		if g.flag == nil || !sameFlag(g.flag, "--extra-vars") {
			continue
		}
		text, plain := g.value.literal()
		if file, ok := strings.CutPrefix(text, "@"); ok {
			c.inRepo(g.value.withText(file), c.name+" -e")
			continue
		}
		if !plain || strings.ContainsAny(text, "`$") || strings.Contains(text, "{{") || strings.Contains(text, "{%") {
			c.j.refuse(ruleRunTime, c.name+" -e", "the variable holds code that runs on the far side", "give plain values only")
			continue
		}
		lower := strings.ToLower(text)
		if strings.Contains(lower, "ansible_") || strings.Contains(lower, "become") {
			c.j.refuse(ruleBash, c.name+" -e", "variables of Ansible itself change what it runs and as whom", "give the playbook's own variables only")
		}
		for word := range strings.FieldsSeq(text) {
			if name, v, ok := strings.Cut(word, "="); ok && slices.Contains([]string{"service", "svc", "app", "container", "stack", "target_service", "service_name"}, name) && serviceName(v) {
				service, _ = c.j.facts.service(v)
			}
		}
	}
	if ownName(service) {
		c.j.refuse(ruleOwn, c.name, "it redeploys the supervisor itself", "leave it alone")
	}
	return service
}

// inventory requires an inventory of a repository, or a plain list of inventory hosts.
func (c *call) inventory() {
	for _, g := range c.options {
		if g.flag == nil || !sameFlag(g.flag, "--inventory") {
			continue
		}
		text, plain := g.value.literal()
		if plain && strings.Contains(text, ",") {
			for host := range strings.SplitSeq(text, ",") {
				if host != "" && !c.j.facts.knownHost(host) {
					c.refuse(ruleBash, "the host "+host+" is not in the inventory", "use hosts of the inventory")
				}
			}
			continue
		}
		c.inRepo(g.value, c.name+" -i")
		switch path.Ext(text) {
		case ".yml", ".yaml", ".ini", ".json":
		default:
			c.refuse(ruleInline, "the inventory "+g.value.show()+" may be a program", "use an inventory file that ends in .yaml or .ini")
		}
	}
}

// judgeAnsible judges ad-hoc ansible: ping and lists of hosts.
func judgeAnsible(c *call) {
	c.inventory()
	module, has := c.option("-m", "--module-name")
	switch text, _ := module.value.literal(); {
	case c.has("--list-hosts", "--version"):
	case has && (text == "ping" || text == "ansible.builtin.ping") && !c.has("-a", "--args"):
		c.j.need(c.s, ops.Tier3, ruleBash, c.name+" -m ping") // connecting evaluates the variables of the repository
	default:
		c.refuse(ruleInline, "ad-hoc modules run anything anywhere", "use a playbook of a repository with ansible-playbook")
	}
	if c.has("-e", "--extra-vars") {
		c.refuse(ruleBash, "variables change what it runs", "leave -e out")
	}
}

// judgeInventory judges ansible-inventory and its like: only files of a repository.
func judgeInventory(c *call) { c.inventory() }

// judgeHelm judges helm upgrade and rollback.
func judgeHelm(c *call) {
	if len(c.operands) == 0 {
		c.refuse(ruleRunTime, "it names no release", "name one")
		return
	}
	if c.row.cmd == "helm upgrade" {
		if len(c.operands) != 2 {
			c.refuse(ruleRunTime, "it names no chart", "name release and chart")
			return
		}
		c.chart(c.operands[1])
	}
	if c.has("--dry-run") {
		return
	}
	if name, ok := c.service(c.operands[0]); ok {
		c.j.effect(Effect{Kind: EffectRedeployment, Service: name})
	}
}

// chart requires a chart of a repository.
func (c *call) chart(f field) {
	text, plain := f.literal()
	relative := text == "." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "charts/")
	if !plain || strings.Contains(text, "://") || !path.IsAbs(text) && !relative {
		c.refuse(rulePath, "its chart "+f.show()+" is not one of a configured repository", "use the chart in the repository by its absolute path")
		return
	}
	c.inRepo(f, c.name)
}

// judgeChartRead judges helm commands that read a chart.
func judgeChartRead(c *call) {
	if n := len(c.operands); n > 0 {
		c.chart(c.operands[n-1])
	}
}

// judgeKubeRead judges kubectl get and describe: anything but secrets.
func judgeKubeRead(c *call) {
	for _, g := range c.options {
		if _, file, ok := strings.Cut(g.value.text, "file="); ok {
			c.j.read(c.s, g.value.withText(file), c.name)
		} else if g.name == "--template" && !strings.Contains(g.value.text, "{{") && !strings.HasPrefix(g.value.text, "{") {
			c.j.read(c.s, g.value, c.name)
		}
	}
	for i, f := range c.operands {
		text := strings.ToLower(f.text)
		if i == 0 && f.dyn {
			c.runTime("resource")
		}
		for kind := range strings.SplitSeq(text, ",") {
			kind, _, _ = strings.Cut(kind, "/")
			kind, _, _ = strings.Cut(kind, ".")
			if kind == "secret" || kind == "secrets" || strings.HasPrefix(kind, "sealedsecret") || kind == "externalsecrets" {
				c.j.refuse(ruleSecrets, c.name+" "+f.show(), "it shows secrets", "report what you need to know instead")
			}
		}
	}
}

// judgeKubeChange judges kubectl rollout, scale, set and apply.
func judgeKubeChange(c *call) {
	if c.manifests() {
		return
	}
	if len(c.operands) == 0 || c.has("--all", "-l", "--selector", "-R") {
		c.refuse(ruleRunTime, "it does not name what it changes", "name one deployment")
		return
	}
	target := c.operands[0]
	if !strings.Contains(target.text, "/") {
		if len(c.operands) == 1 {
			c.refuse(ruleRunTime, "it changes every "+target.show(), "name one, such as "+target.show()+"/web")
			return
		}
		target = c.operands[1]
	}
	if text, plain := target.literal(); plain {
		if _, after, ok := strings.Cut(text, "/"); ok {
			target = lit(after)
		}
	}
	if name, ok := c.service(target); ok {
		c.j.effect(Effect{Kind: c.row.effect, Service: name})
	}
}

// manifests judges the files a change comes from and reports whether there are any.
func (c *call) manifests() bool {
	found := false
	for _, g := range c.options {
		if g.flag == nil || !sameFlag(g.flag, "-f") && !sameFlag(g.flag, "-k") {
			continue
		}
		found = true
		text := g.value.text
		c.inRepo(g.value, c.name+" "+g.name)
		if host, _, _ := strings.Cut(text, "/"); sameFlag(g.flag, "-k") && strings.Contains(strings.Trim(host, "."), ".") {
			c.refuse(rulePath, "the folder "+g.value.show()+" may be one of another host", "name it with ./ or by its absolute path")
		}
		if !c.has("--dry-run") {
			c.j.effect(Effect{Kind: EffectRedeployment, Service: strings.TrimSuffix(path.Base(text), path.Ext(text))})
		}
	}
	return found
}

// judgeUnitShow keeps the environment of units out of what is shown.
func judgeUnitShow(c *call) {
	p, ok := c.option("-p")
	if !ok || strings.Contains(strings.ToLower(p.value.text), "environment") {
		c.j.refuse(ruleSecrets, c.name, "it prints the environment of the service", "name the properties with -p")
	}
}

// bodyFile requires that text which goes to others lies in a repository or was written for it.
func (c *call) bodyFile() {
	g, ok := c.option("--body-file", "--notes-file")
	if !ok || g.value.text == "-" || g.value.dyn {
		return
	}
	for _, p := range c.j.paths(c.s, g.value.text) {
		if c.j.inRepo(p) == 0 && !c.temporary(p) {
			c.j.refuse(ruleSecrets, c.name+" "+g.name+" "+g.value.show(), "it sends a file of the host away", "send a file of a repository or of the temporary folder")
		}
	}
}

// filters judges the jq filters of gh.
func (c *call) filters() {
	for i, f := range c.args {
		filter, glued := strings.CutPrefix(f.text, "--jq=")
		if !glued {
			filter, glued = strings.CutPrefix(f.text, "-q")
		}
		if (f.text == "--jq" || f.text == "-q") && i+1 < len(c.args) {
			filter, glued, f = c.args[i+1].text, true, c.args[i+1]
		}
		if glued && (f.dyn || jqEnv(filter)) {
			c.j.refuse(ruleSecrets, c.name+" --jq", "the filter reads the environment", "filter the answer only")
		}
	}
}

// judgeUnit judges systemctl start, stop and restart: the units everything stands on stay as they are.
func judgeUnit(c *call) {
	for _, f := range c.operands {
		unit := strings.TrimSuffix(strings.ToLower(f.text), ".service")
		switch {
		case unit == "docker" || unit == "docker.socket" || unit == "containerd" || unit == "ssh" || unit == "sshd" || unit == "k3s" || unit == "kubelet" || unit == "dbus" ||
			unit == "networking" || unit == "networkmanager" || strings.HasPrefix(unit, "systemd-") || strings.HasSuffix(unit, ".target") || strings.HasSuffix(unit, ".mount") || strings.HasPrefix(unit, "user@"):
			c.refuse(ruleBash, "every service of the host depends on "+unit, "report it for a human")
		}
	}
}

// judgeMake judges make: targets of a repository's own makefile.
func judgeMake(c *call) {
	for _, f := range c.operands {
		text, plain := f.literal()
		if !plain || !serviceName(text) {
			c.refuse(ruleInline, "its argument "+f.show()+" is not the name of a target", "name a target")
		}
	}
	if _, ok := c.option("-C", "--directory"); !ok {
		c.inRepo(lit("."), c.name)
	}
	names := []string{"default"}
	if len(c.operands) > 0 {
		names = nil
		for _, f := range c.operands {
			names = append(names, f.text)
		}
	}
	for _, n := range names {
		c.j.effect(Effect{Kind: EffectRedeployment, Service: "make:" + n})
	}
	c.j.need(c.s, ops.Tier3, ruleBash, c.name)
}

// judgeGhAPI judges gh api: GET only.
func judgeGhAPI(c *call) {
	if method, ok := c.option("-X", "--method"); ok && method.value.text != "GET" {
		c.refuse(ruleBash, "the request changes something", "use gh pr or gh issue")
	} else if !ok && c.has("-f", "--raw-field", "-F", "--field") {
		c.refuse(ruleBash, "fields make it a changing request", "use gh pr or gh issue")
	}
	for _, f := range c.operands {
		if strings.Contains(f.text, "://") {
			c.refuse(ruleSecrets, "it talks to another host", "give the path of the API only")
		}
		if strings.Contains(strings.ToLower(f.text), "graphql") {
			c.refuse(ruleBash, "a query may change anything", "use gh pr or gh issue")
		}
	}
}
