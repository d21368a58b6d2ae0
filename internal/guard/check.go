package guard

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

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
	case "StructuredOutput":
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

// toolJudge makes a judge for the paths of a tool.
func (g *Guard) toolJudge(facts *Facts) (*judge, *scope) {
	facts = g.extended(facts)
	j := &judge{g: g, facts: facts, funcs: map[string]*function{}}
	for _, r := range facts.repos() {
		j.repos = append(j.repos, path.Clean(r))
	}
	s := &scope{}
	if facts.Cwd != "" {
		s.cwds = []string{path.Clean(facts.Cwd)}
	}
	return j, s
}

func (g *Guard) readTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	j, s := g.toolJudge(&facts)
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
	switch tool {
	case "Grep":
		j.read(s, f, tool)
	case "Glob":
		j.read(s, f, tool)
		pattern, ok := text(fields, "pattern")
		if !ok {
			return refuseTool(tool, "it has no pattern", "give the pattern as text")
		}
		full := pattern
		if !path.IsAbs(pattern) && !strings.HasPrefix(pattern, homeDir) {
			full = path.Join(name, pattern)
		}
		j.read(s, field{text: full, glob: true}, tool)
	default:
		j.read(s, f, tool)
	}
	return decide(tier, facts, j.worst, "tool."+tool)
}

func (g *Guard) writeTool(tier ops.Tier, tool string, fields map[string]json.RawMessage, facts Facts) Decision {
	j, s := g.toolJudge(&facts)
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
	j.write(s, lit(name), tool+" of")
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
	for _, key := range []string{"command", "cmd", "script", "shell", "code", "args", "arguments", "argv"} {
		command, ok := commandText(fields[key])
		if !ok {
			continue
		}
		if inner := g.command(tier, command, facts); inner.Verdict == Deny {
			return inner
		}
	}
	return d
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
