package guard

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"claudeops/internal/ops"
)

// Verdict is the answer to a tool call.
type Verdict string

// The two verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// EffectKind is what a cooldown counts.
type EffectKind string

// The kinds of effect.
const (
	EffectRestart      EffectKind = "restart"
	EffectRedeployment EffectKind = "redeployment"
)

// Phase says whether an effect is only one half of a redeployment.
type Phase string

// The halves: stopping opens a redeployment, starting closes it and is covered by an open one.
const (
	Whole      Phase = ""
	PhaseOpen  Phase = "open"
	PhaseClose Phase = "close"
)

// Effect is something a cooldown must be reserved for before the command runs.
type Effect struct {
	Kind    EffectKind `json:"kind"`
	Service string     `json:"service"`
	// Project is the compose project the service belongs to: an open half of the project covers the service too.
	Project string `json:"project,omitempty"`
	Phase   Phase  `json:"half,omitempty"`
}

// Decision is what the guard says of one tool call.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`
	Reason  string  `json:"reason"`
	// From is the lowest tier that may make an allowed call: above the first one it does more than look.
	From    ops.Tier `json:"from,omitempty"`
	Effects []Effect `json:"effects,omitempty"`
	// Script is the text to execute for a Bash call: the judged tree, printed.
	Script string `json:"script,omitempty"`
	// Writable are places that a rule of the operator lets this command change.
	Writable []string `json:"writable,omitempty"`
}

// Allowed reports whether the call may run.
func (d Decision) Allowed() bool { return d.Verdict == Allow }

// never is the tier of what no tier may do.
const never = ops.LastTier + 1

// RuleDryRun is the rule of what only a dry run refuses.
const RuleDryRun = "R11"

// The rule ids that the code names itself; the tables name more.
const (
	ruleText     = "R1"
	ruleRunTime  = "R3"
	ruleInline   = "R4"
	ruleLoop     = "R5"
	ruleUnknown  = "R6"
	ruleLauncher = "R7"
	rulePath     = "R8"
	ruleWrite    = "R9"
	ruleOwn      = "R10"
	ruleBash     = "tool.Bash"
	ruleRedeploy = "docker.redeploy"

	ruleRoot      = "never.rm-root"
	rulePush      = "never.force-push"
	ruleInventory = "never.inventory"
	ruleVolumes   = "never.volumes"
	ruleSecrets   = "never.secrets"
)

// finding is what one part of a call needs.
type finding struct {
	need ops.Tier
	rule string
	what string // the part, in a few words
	why  string // why it is refused, or what it does
	hint string // what to do instead
}

// rank orders findings: attacks, the never list and the product's own files, other refusals, then tiers.
func (f finding) rank() int {
	switch {
	case f.need < never:
		return int(f.need)
	case f.rule == ops.RuleAttack:
		return int(never) + 2
	case f.rule == ruleOwn || strings.HasPrefix(f.rule, "never."):
		return int(never) + 1
	default:
		return int(never)
	}
}

// reason is the sentence for the agent.
func (f finding) reason(tier ops.Tier, dryRun bool) string {
	hint := f.hint
	if f.need >= never {
		hint = cmp.Or(hint, "if it is needed, report it for a human")
		return fmt.Sprintf("%s is refused at every tier: %s; %s.", f.what, f.why, hint)
	}
	if dryRun {
		return fmt.Sprintf("%s needs %s and this is a dry run, which only observes: say what you would do instead.", f.what, f.need)
	}
	if hint == "" {
		hint = fmt.Sprintf("escalate with what you found, %s (%s) may do it", f.need, f.need.Title())
	}
	return fmt.Sprintf("%s is not allowed at %s (%s), only from %s: %s.", f.what, tier, tier.Title(), f.need, hint)
}

// judgement is code that looks at the arguments of a command; the tables name it. A whole one replaces the general look
// at options and operands.
type judgement struct {
	judge func(*call)
	whole bool
	note  string // for the rules page
}

func judgements() map[string]judgement {
	return map[string]judgement{
		// Shells, wrappers and builtins.
		"env": {judgeEnv, true, "the inner command is judged; alone it would print the environment"},
		"shell": {
			judgeShell, true, "the script after -c is judged; a script of a repository, by its absolute path, needs Tier 3; standard input never",
		},
		"interpreter": {judgeInterpreter, true, "only scripts of a repository, by their absolute path; inline code never"},
		"ssh":         {judgeSSH, true, "inventory hosts only; the remote command is judged"},
		"exec":        {judgeExec, true, "the command inside the container is judged; looking only"},
		"find":        {judgeFind, true, "-exec only behind walls, and only reading; other actions never"},
		"test":        {judgeTest, true, "simple comparisons"},
		"set":         {judgeSet, true, "options that do not change the language"},
		"declared":    {judgeDeclared, true, "name=value only; variables that change what programs do are refused"},
		"service":     {judgeService, true, "service NAME status at Tier 1; start, stop and restart at Tier 3"},
		"cd":          {judgeCd, false, "followed when its folder is literal"},
		"popd":        {func(c *call) { c.out = outcome{} }, false, ""},
		"names":       {judgeNames, false, ""},
		// Files and the small languages.
		"sed":       {judgeSed, false, "-i changes files"},
		"yq":        {judgeYq, false, "-i changes files"},
		"sql":       {judgeSQL, false, "one reading statement, given as text; only behind walls"},
		"redis":     {judgeRedis, true, "one reading command; only behind walls"},
		"dd":        {judgeDd, true, "if= is read, of= is written"},
		"tar":       {judgeTar, true, "listing and creating; unpacking only below the temporary folder"},
		"packed":    {judgePacked, false, "the file is replaced"},
		"look":      {judgeLookPacked, false, ""},
		"rm":        {judgeRm, false, "files by name; folders only below the temporary one and what builds leave behind"},
		"recursive": {judgeRecursive, false, ""},
		"cp":        {judgeCp, false, "folders only into the temporary one"},
		"mv":        {judgeMv, false, "files by name"},
		// Git and its hosts.
		"branch":     {judgeBranch, false, "listing at Tier 1, changing at Tier 2, by force at Tier 3"},
		"tag":        {judgeTag, false, "listing at Tier 1, making one at Tier 2"},
		"gitconfig":  {judgeGitConfig, false, "reading; user.name and user.email at Tier 2"},
		"remotename": {judgeRemoteName, false, "configured remotes only"},
		"push":       {judgePush, false, "branches of a configured remote; never by force"},
		"checkout":   {judgeCheckout, false, "branches, or files by name"},
		"gitrm":      {judgeGitRm, false, "files by name"},
		"reset":      {judgeReset, false, "--hard at Tier 3, to HEAD only"},
		"ghapi":      {judgeGhAPI, false, "GET only"},
		// Containers and deployments.
		"composeread":   {judgeComposeRead, false, ""},
		"composechange": {judgeComposeChange, false, "compose files of a repository only"},
		"compose":       {judgeCompose, false, "without a service Tier 3"},
		"playbook":      {judgePlaybook, false, "playbooks and inventories of a repository, plain variables"},
		"ansible":       {judgeAnsible, false, "--list-hosts at Tier 1, -m ping at Tier 3"},
		"inventory":     {(*call).inventory, false, "inventories of a repository"},
		"helm":          {judgeHelm, false, "charts of a repository"},
		"chartread":     {judgeChartRead, false, "charts of a repository"},
		"kuberead":      {judgeKubeRead, false, "never secrets"},
		"kubechange":    {judgeKubeChange, false, "one named object, or a file of a repository"},
		"make":          {judgeMake, false, "targets of a repository's makefile"},
		// The network and the host.
		"curl":  {judgeCurl, false, "GET from anywhere but the supervisor; behind walls changing requests from Tier 2"},
		"wget":  {judgeWget, false, "GET"},
		"tls":   {judgeTLS, false, "no data goes out"},
		"units": {judgeUnits, false, "not the environment of services"},
		"ps":    {judgePs, false, "not the environment"},
	}
}

// effect records what a cooldown counts.
func (j *judge) effect(e Effect) {
	j.effects = append(j.effects, e)
}

// serviceOperand records the effect of a command on a service that it names.
func (c *call) serviceOperand(r role, f field) {
	if r == roleUnit {
		c.baseUnit(f)
	}
	if name, ok := c.service(f); ok && !c.dry() {
		c.j.effect(Effect{Kind: c.row.effect, Service: name, Phase: c.row.phase})
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
		aimed := c.named(f) && c.args[len(c.args)-1].text != "status"
		c.j.refuse(orAttack(aimed, ruleOwn), c.name+" "+name, "it is the supervisor itself", "leave it alone")
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
	return s != "" && strings.Trim(s, letters+".-@/") == "" && strings.IndexByte("_.-@/", s[0]) < 0
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
	case plain && (text == "default" || text == "unix://"+c.j.facts.Engine):
	case plain && c.j.facts.knownHost(host):
	default:
		c.j.refuse(ruleBash, c.name+" on "+f.show(), "the engine is neither the local one nor that of an inventory host",
			"use the local engine or an inventory host")
	}
}

// project names the compose project a command works on.
func (c *call) project() string {
	name := ""
	for i := len(c.before) - 1; i >= 0; i-- {
		if g := c.before[i]; g.is("-p", "--project-name") {
			return g.value.text // the last one counts
		}
	}
	for _, g := range c.before {
		switch {
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
			c.j.effect(Effect{Kind: c.row.effect, Service: name, Project: project, Phase: c.row.phase})
		}
	}
}

// whole records an effect on every service of a project, which only the highest tier may have.
func (c *call) whole(project string) {
	c.j.need(c.s, never-1, ruleBash, c.name+" without a service")
	c.j.effect(Effect{Kind: EffectRedeployment, Service: "compose:" + project, Project: project, Phase: c.row.phase})
}
