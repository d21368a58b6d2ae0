package guard

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgePlaybook judges ansible-playbook: playbooks of a repository, plain variables, one redeployment each.
func judgePlaybook(c *call) {
	service := c.extraVars()
	c.inventory()
	c.alone()
	for _, f := range c.operands {
		text, plain := f.literal()
		if !plain {
			continue // its place said so
		}
		if ext := path.Ext(text); ext != ".yml" && ext != ".yaml" {
			c.refuse(rulePath, f.show()+" is not a playbook file", "name a .yml file of a repository")
		}
		if c.dry() {
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
		if !g.is("-e", "--extra-vars") {
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
			c.j.refuse(ruleBash, c.name+" -e", "variables of Ansible itself change what it runs and as whom",
				"give the playbook's own variables only")
		}
		for word := range strings.FieldsSeq(text) {
			if name, v, ok := strings.Cut(word, "="); ok && slices.Contains([]string{
				"service", "svc", "app", "container", "stack",
				"target_service", "service_name",
			}, name) && serviceName(v) {
				service, _ = c.j.facts.service(v)
			}
		}
	}
	if ownName(service) {
		c.j.refuse(orAttack(c.named(lit(service)), ruleOwn), c.name, "it redeploys the supervisor itself", "leave it alone")
	}
	return service
}

// inventory requires an inventory of a repository, or a plain list of inventory hosts.
func (c *call) inventory() {
	for _, g := range c.options {
		if !g.is("-i", "--inventory", "--inventory-file") {
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

// judgeHelm judges helm upgrade and rollback.
func judgeHelm(c *call) {
	if len(c.operands) == 0 {
		return // its places said so
	}
	if c.row.cmd == "helm upgrade" && len(c.operands) > 1 {
		c.chart(c.operands[1])
	}
	if c.dry() {
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
	c.writtenOut("-o", "--output")
	for _, g := range c.options {
		if _, file, ok := strings.Cut(g.value.text, "file="); ok {
			c.j.read(c.s, g.value.withText(file), c.name)
		}
		if strings.Contains(strings.NewReplacer(`['`, ".", `["`, ".").Replace(strings.ToLower(g.value.text)), ".env") {
			c.j.refuse(ruleSecrets, c.name+" "+g.name, "it prints the environment of containers", "ask for another field")
		}
	}
	if c.row.cmd == "kubectl wait" && c.has("-f", "--filename") && c.has("-o", "--output") {
		c.refuse(ruleSecrets, "what it prints may be a secret", "name what it waits for, or leave -o out")
	}
	for i, f := range c.operands {
		if f.dyn && (i == 0 || strings.Contains(c.operands[0].text, "/")) && !f.plain {
			c.runTime("resource")
		}
		if f.dyn && f.split && !f.plain {
			c.runTime("resource")
		}
		for kind := range strings.SplitSeq(strings.ToLower(f.text), ",") {
			kind, _, one := strings.Cut(kind, "/")
			kind, _, _ = strings.Cut(kind, ".")
			if strings.Contains(kind, "secret") && (i == 0 || one) || kind == "all" && c.row.cmd == "kubectl describe" {
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
	if len(c.operands) == 0 {
		c.refuse(ruleRunTime, "it does not name what it changes", "name one deployment")
		return
	}
	targets := slices.DeleteFunc(slices.Clone(c.operands), func(f field) bool { return strings.Contains(f.text, "=") })
	if kind := targets; len(kind) > 0 && !strings.Contains(kind[0].text, "/") {
		if targets = targets[1:]; len(targets) == 0 {
			c.refuse(ruleRunTime, "it changes every "+kind[0].show(), "name one, such as "+kind[0].show()+"/web")
		}
	}
	if g, ok := c.option("--replicas"); ok && strings.Trim(g.value.text, "0") == "" {
		c.refuse(ruleBash, "it leaves the service down, and nothing brings it back", "use kubectl rollout restart")
	}
	for _, target := range targets {
		if _, after, ok := strings.Cut(target.text, "/"); ok {
			target = target.withText(after)
		}
		if name, ok := c.service(target); ok && !c.dry() {
			c.j.effect(Effect{Kind: c.row.effect, Service: name})
		}
	}
}

// manifests judges the files a change comes from and reports whether there are any.
func (c *call) manifests() bool {
	found := false
	for _, g := range c.options {
		if !g.is("-f", "--filename", "-k", "--kustomize") {
			continue
		}
		found = true
		text := g.value.text
		c.inRepo(g.value, c.name+" "+g.name)
		if host, _, _ := strings.Cut(text, "/"); g.is("-k", "--kustomize") && strings.Contains(strings.Trim(host, "."), ".") {
			c.refuse(rulePath, "the folder "+g.value.show()+" may be one of another host", "name it with ./ or by its absolute path")
		}
		if !c.dry() {
			c.j.effect(Effect{Kind: EffectRedeployment, Service: strings.TrimSuffix(path.Base(text), path.Ext(text))})
		}
	}
	return found
}

// alone requires that a command which runs what files say does not stand beside one that writes files.
func (c *call) alone() {
	if c.j.stored != "" && !c.s.remote {
		c.refuse(ruleInline, "the same command writes files, so it might run what it wrote", "run it by itself")
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
	c.inRepo(lit("."), c.name)
	c.alone()
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
		if f.dyn && !f.num && !f.plain {
			c.runTime("")
		}
		text, ok := decoded(f.text)
		if !ok || strings.Contains(text, "://") {
			c.refuse(ruleSecrets, "it talks to another host, or its path is not plain", "give the path of the API only")
		}
		if strings.Contains(strings.ToLower(text), "graphql") {
			c.refuse(ruleBash, "a query may change anything", "use gh pr or gh issue")
		}
		c.freeValue(f.withText(text), c.name)
		c.freeValue(f.withText(path.Clean(text)), c.name)
	}
	for _, g := range c.options {
		if g.is("-H", "--header") && strings.Contains(strings.ToLower(g.value.text), "method") {
			c.refuse(ruleBash, "the header hides another method", "leave it out")
		}
	}
}

// decoded is the path of a request as a server reads it, however often its signs are encoded. Not ok when servers may differ.
func decoded(text string) (string, bool) {
	for range 5 {
		next, err := url.PathUnescape(text)
		if err != nil || strings.IndexFunc(next, odd) >= 0 {
			return text, false
		}
		if next == text {
			return text, true
		}
		text = next
	}
	return text, false
}
