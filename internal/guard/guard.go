package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// maxCommands is how many simple commands one call may run through.
const maxCommands = 2000

// Guard judges tool calls. It holds tables only and may be used by many at once.
type Guard struct {
	tables    *tables
	lists     map[string]nameList
	variables variableTable
	secrets   nameTable
	owned     nameTable
	plain     nameTable
	units     []unitClass
	vital     nameTable
	judges    map[string]judgement
	rules     []Rule
	readers   sync.Pool
}

// unitClass are units of systemd that no agent starts, restarts or stops.
type unitClass struct {
	what  string // the unit does
	names nameTable
}

// New makes a guard with the built-in tables and the operator's rules.
func New(rules []Rule) (*Guard, error) {
	t, err := readTables()
	if err != nil {
		return nil, err
	}
	g := &Guard{
		tables: t, judges: judgements(), rules: rules, lists: map[string]nameList{},
		readers: sync.Pool{New: func() any { return newReader() }},
	}
	for _, name := range []string{"variables.list", "places.list", "units.list"} {
		if g.lists[name], err = readNames(name); err != nil {
			return nil, err
		}
	}
	places, units := g.lists["places.list"].names, g.lists["units.list"]
	g.variables = newVariableTable(g.lists["variables.list"].names)
	g.secrets, g.plain, g.vital = newNameTable(places["secret"]), newNameTable(places["plain"]), newNameTable(places["vital"])
	g.owned = newNameTable(slices.Concat(places["own"], places["ci"]))
	g.secrets.Broad = true
	for _, class := range units.order {
		g.units = append(g.units, unitClass{units.why[class], newNameTable(units.names[class])})
	}
	for _, r := range t.order {
		for _, name := range r.judges {
			if g.judges[name].judge == nil {
				return nil, fmt.Errorf("%s: there is no judge called %q", r.cmd, name)
			}
		}
		if r.alias != "" && t.find(r.cmd) == nil {
			return nil, fmt.Errorf("%s: there is no command %q", r.cmd, r.alias)
		}
	}
	return g, nil
}

// Secrets tells by the path of a file in a clone that it may hold secrets.
func Secrets() func(path string) bool {
	places, err := readNames("places.list") // New reports the error, and no session starts
	t := newNameTable(places.names["secret"])
	t.Broad = true
	return func(path string) bool { return err != nil || t.Match(path, false) }
}

// Steers reports the names of files that programs obey: the supervisor, agents, shells, git, editors and forges.
func (g *Guard) Steers(path string) bool { return g.owned.Match(path, false) }

// command judges a Bash command.
func (g *Guard) command(tier ops.Tier, src string, facts Facts) Decision {
	r := g.readers.Get().(*reader) // not given back after a panic
	d := g.judged(r, tier, src, facts)
	g.readers.Put(r)
	return d
}

func (g *Guard) judged(r *reader, tier ops.Tier, src string, facts Facts) Decision {
	parsed, bad := r.parse(src)
	if bad != nil {
		return decide(tier, facts, bad, ruleBash)
	}
	j := g.walk(r, parsed.file, &facts)
	d := decide(tier, facts, j.worst, ruleBash)
	if d.Verdict == Allow {
		d.Script = parsed.text
		if len(j.added)+len(j.outside) > 0 {
			bad = addWords(parsed.file, j.added, j.outside)
			if bad == nil {
				d.Script, bad = r.print(parsed.file)
			}
			if bad != nil {
				return decide(tier, facts, bad, ruleBash)
			}
		}
		if len(j.effects) > 0 {
			d.Effects = j.effects
		}
		if j.named != "" {
			d.Rule, d.Writable = j.named, g.lends(parsed.file, j.named)
		}
	}
	return d
}

// judge makes a judge, and the scope in which a call would run.
func (g *Guard) judge(r *reader, facts *Facts) (*judge, *scope) {
	facts = g.extended(facts)
	j := &judge{places: places{g: g, facts: facts}, reader: r, rest: maxCommands}
	for _, dir := range facts.repos() {
		j.repos = append(j.repos, path.Clean(dir))
	}
	s := &scope{vars: map[string]value{}}
	if facts.Cwd != "" {
		s.cwds = []string{path.Clean(facts.Cwd)}
	}
	return j, s
}

// walk judges every part of a tree.
func (g *Guard) walk(r *reader, f *syntax.File, facts *Facts) *judge {
	j, s := g.judge(r, facts)
	if facts.StateDir != "" {
		// The supervisor sets it, nothing may change it, and agents are told to read and write there by this name.
		s.vars["CLAUDEOPS_STATE_DIR"] = value{known: true, text: facts.StateDir}
	}
	if facts.OwnTemp {
		s.vars["TMPDIR"] = value{known: true, text: facts.TempDir, inline: true}
	}
	j.stmts(s, f.Stmts)
	if j.fetched != "" && j.stored != "" {
		j.refuse(ruleBash, j.fetched+" together with "+j.stored, "what comes from elsewhere is not stored, it may be code", "print it only")
	}
	return j
}

// extended are the facts with what the operator's rules add.
func (g *Guard) extended(f *Facts) *Facts {
	if len(g.rules) == 0 {
		return f
	}
	out := *f
	for _, r := range g.rules {
		out.InventoryHosts = slices.Concat(out.InventoryHosts, r.Hosts)
		out.Repositories = slices.Concat(out.Repositories, r.Repositories)
		out.ProtectedFiles = slices.Concat(out.ProtectedFiles, r.Protected)
		out.VolumesDirs = slices.Concat(out.VolumesDirs, r.Volumes)
		out.WebHosts = slices.Concat(out.WebHosts, r.WebHosts)
		if len(r.MCPTools) > 0 {
			out.MCPTools = maps.Clone(out.MCPTools)
			if out.MCPTools == nil {
				out.MCPTools = map[ops.Tier][]string{}
			}
			out.MCPTools[r.Tier] = slices.Concat(out.MCPTools[r.Tier], r.MCPTools)
		}
		for _, s := range r.Services {
			out.Services = append(slices.Clone(out.Services), ops.Service{Name: s})
		}
	}
	return &out
}

// decide turns the strictest finding into the answer.
func decide(tier ops.Tier, facts Facts, worst *finding, rule string) Decision {
	effective := tier
	if facts.DryRun {
		effective = ops.Tier1
	}
	if !tier.Known() {
		return Decision{Verdict: Deny, Rule: rule, Reason: fmt.Sprintf("%s is not a tier of this product, so nothing is allowed.", tier)}
	}
	if worst == nil {
		worst = &finding{need: ops.Tier1, rule: rule, what: "this call"}
	}
	if worst.need <= effective {
		return Decision{Verdict: Allow, Rule: rule, From: worst.need, Reason: fmt.Sprintf("%s is allowed from %s.", worst.what, worst.need)}
	}
	d := Decision{Verdict: Deny, Rule: worst.rule, Reason: worst.reason(effective, facts.DryRun)}
	if facts.DryRun && worst.need <= tier {
		d.Rule = RuleDryRun
	}
	return d
}

// Check decides about one tool call of a session. It never fails: what goes wrong inside is a deny.
func (g *Guard) Check(tier ops.Tier, tool string, input json.RawMessage, facts Facts) (d Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = Decision{
				Verdict: Deny, Rule: ruleText,
				Reason: "The guard could not judge this call, so it is refused: write it in a simpler way, or report it for a human.",
			}
		}
	}()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(input, &fields); err != nil {
		return refuseTool(tool, "its input is not a JSON object", "call it again with a proper input")
	}
	return g.tool(tier, tool, fields, facts)
}

// refuseTool is the answer to a tool no tier may use like this.
func refuseTool(tool, why, hint string) Decision {
	f := finding{need: never, rule: "tool." + tool, what: tool, why: why, hint: hint}
	return Decision{Verdict: Deny, Rule: f.rule, Reason: f.reason(ops.Tier1, false)}
}

// text is a string of the input; fields are told apart by case, unlike in the JSON package.
func text(fields map[string]json.RawMessage, name string) (string, bool) {
	var s string
	raw, ok := fields[name]
	if !ok || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func (g *Guard) tool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	switch tool {
	case "Bash":
		return g.bash(tier, fields, facts)
	case "Read", "Grep", "Glob":
		return g.readTool(tier, tool, fields, facts)
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		return g.writeTool(tier, tool, fields, facts)
	case "WebFetch", "WebSearch":
		return g.webTool(tier, tool, fields, *g.extended(&facts))
	case ops.ToolOutcome:
		return decide(tier, facts, nil, "tool."+tool)
	case "Task", "Agent", "Workflow", "Skill", "ScheduleWakeup", "EnterWorktree", "SendMessage":
		return refuseTool(tool, "agents neither start nor wake other agents", "do the work in this session, or escalate")
	}
	if strings.HasPrefix(tool, "mcp__") {
		return g.mcpTool(tier, tool, fields, *g.extended(&facts))
	}
	return refuseTool(tool, "the tool is not on the list", "use Bash, Read, Grep, Glob, Write, Edit or WebFetch")
}

func (g *Guard) bash(tier ops.Tier, fields map[string]json.RawMessage, facts Facts) Decision {
	command, ok := text(fields, "command")
	if !ok {
		return refuseTool("Bash", "it has no command", "give the command as text")
	}
	for _, name := range []string{"run_in_background", "dangerouslyDisableSandbox"} {
		if raw, ok := fields[name]; ok && string(raw) != "false" && string(raw) != "null" {
			return refuseTool("Bash", name+" would let the command run on unseen or unprotected", "run it in the foreground")
		}
	}
	return g.command(tier, command, facts)
}

func (g *Guard) readTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	j, s := g.judge(nil, &facts)
	name, given := text(fields, "file_path")
	if tool != "Read" {
		name, given = text(fields, "path")
		if !given && fields["path"] == nil {
			name, given = ".", true
		}
	}
	if !given || name == "" {
		return refuseTool(tool, "it names no file", "give the absolute path as text")
	}
	f := lit(name)
	j.read(s, f, tool)
	for key := range fields {
		value, ok := text(fields, key)
		switch lower := strings.ToLower(key); {
		case strings.HasSuffix(lower, "path") || strings.HasSuffix(lower, "file"):
			j.read(s, lit(value), tool)
		case key == "glob" || key == "include" || key == "type":
			if !ok || !facts.Walled && g.secrets.picks(value) {
				return refuseTool(tool, key+" picks files that hold secrets", "look for something else")
			}
		}
	}
	if tool == "Glob" {
		pattern, ok := text(fields, "pattern")
		if !ok {
			return refuseTool(tool, "it has no pattern", "give the pattern as text")
		}
		full := pattern
		if !path.IsAbs(pattern) && !strings.HasPrefix(pattern, homeDir) {
			full = path.Join(name, pattern)
		}
		j.list(s, field{text: full, glob: true}, tool)
	}
	return decide(tier, facts, j.worst, "tool."+tool)
}

func (g *Guard) writeTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	j, s := g.judge(nil, &facts)
	key := "file_path"
	if tool == "NotebookEdit" {
		key = "notebook_path"
	}
	name, ok := text(fields, key)
	if !ok || name == "" {
		return refuseTool(tool, "it names no file", "give the absolute path as text")
	}
	handoff := path.Join(j.facts.StateDir, "handoff.json")
	if j.facts.HandoffMode && j.facts.StateDir != "" && path.Clean(name) == handoff && slices.Equal(j.follow(s, name), []string{handoff}) {
		return decide(tier, facts, nil, "tool."+tool)
	}
	for k := range fields {
		if other, ok := text(fields, k); k == key || ok && strings.HasSuffix(strings.ToLower(k), "path") {
			j.write(s, lit(other), tool+" of")
		}
	}
	return decide(tier, facts, j.worst, "tool."+tool)
}

func (g *Guard) webTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	if tool == "WebSearch" {
		return decide(tier, facts, nil, "tool."+tool)
	}
	address, ok := text(fields, "url")
	if !ok {
		return refuseTool(tool, "it has no URL", "give the URL as text")
	}
	a, bad := parseWeb(address)
	switch {
	case bad != "":
		return refuseTool(tool, bad, "use a plain http or https URL")
	case facts.ownAPI(a):
		return refuseTool(tool, "the address is the supervisor's own API", "leave it alone")
	case a.loopback() || a.local():
		return refuseTool(tool, "loopback, link-local and metadata addresses are not asked", "use the service's name in the network")
	case len(facts.WebHosts) > 0 && !listedHost(facts.WebHosts, a.host):
		return refuseTool(tool, a.host+" is not on the operator's list of hosts", "ask a listed host")
	}
	return decide(tier, facts, nil, "tool."+tool)
}

// listedHost matches a host against names and *.suffixes.
func listedHost(list []string, host string) bool {
	for _, h := range list {
		h = strings.ToLower(h)
		if suffix, ok := strings.CutPrefix(h, "*"); ok && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) || h == host {
			return true
		}
	}
	return false
}

// mcpTool allows the tools that are listed for the tier or a lower one; one that runs a command is judged like Bash.
func (g *Guard) mcpTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	need := never
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		for _, name := range facts.MCPTools[t] {
			if prefix, wild := strings.CutSuffix(name, "*"); (wild && strings.HasPrefix(tool, prefix) || name == tool) && t < need {
				need = t
			}
		}
	}
	worst := finding{need: need, rule: "tool." + tool, what: tool, why: "the tool is not listed for any tier", hint: ""}
	if need < never {
		worst.why = ""
	}
	d := decide(tier, facts, &worst, "tool."+tool)
	if d.Verdict == Deny {
		return d
	}
	facts.Walled = false // a server of tools runs its commands elsewhere
	if inner := g.inner(tier, fields, facts); inner.Verdict == Deny {
		return inner
	}
	return d
}

// inner judges the commands in the input of a tool, and the protected files that it names, however deep they lie.
func (g *Guard) inner(tier ops.Tier, fields map[string]json.RawMessage, facts Facts) Decision {
	j, s := g.judge(nil, &facts)
	for key, raw := range fields {
		var deeper map[string]json.RawMessage
		if json.Unmarshal(raw, &deeper) == nil && len(deeper) > 0 {
			if d := g.inner(tier, deeper, facts); d.Verdict == Deny {
				return d
			}
		}
		name, ok := text(fields, key)
		if ok && strings.ContainsAny(name, "/~") && !strings.ContainsAny(name, " \n") && !strings.Contains(name, "://") {
			j.read(s, lit(name), key)
		}
		if command, ok := commandText(raw); ok && holdsCommand(key) {
			if d := g.command(tier, command, facts); d.Verdict == Deny {
				return d
			}
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			continue
		}
		for _, item := range list {
			if d := g.inner(tier, map[string]json.RawMessage{key: item}, facts); d.Verdict == Deny {
				return d
			}
		}
	}
	if j.worst != nil && j.worst.need >= never {
		return decide(tier, facts, j.worst, ruleSecrets)
	}
	return Decision{Verdict: Allow}
}

// holdsCommand reports the names under which tools take a command.
func holdsCommand(key string) bool {
	key = strings.TrimSuffix(strings.ToLower(key), "s")
	return slices.Contains([]string{"code", "arg", "argument", "argv"}, key) ||
		slices.ContainsFunc([]string{"command", "cmd", "script", "shell"}, func(name string) bool { return strings.HasSuffix(key, name) })
}

// commandText reads a command given as text or as a list of words.
func commandText(raw json.RawMessage) (string, bool) {
	var s string
	if json.Unmarshal(raw, &s) == nil && s != "" {
		return s, true
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil || len(words) == 0 {
		return "", false
	}
	for i, w := range words {
		words[i] = fmt.Sprintf("'%s'", strings.ReplaceAll(w, "'", `'\''`))
	}
	return strings.Join(words, " "), true
}
