package scripted

import (
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// The tools a scenario can use.
const (
	toolBash       = "Bash"
	toolWrite      = "Write"
	toolStructured = "StructuredOutput"
	toolAct        = "mcp__" + ops.ToolServerName + "__action_run"
)

// knownTools is what an agent has when no list is given.
func knownTools() []string { return []string{toolBash, toolWrite} }

// toolList splits the values of a tool flag at commas and blanks, except inside the parentheses of a rule.
func toolList(values []string) []string {
	out := []string{}
	for _, value := range values {
		depth, start := 0, 0
		for i, r := range value + "," {
			switch {
			case r == '(':
				depth++
			case r == ')':
				depth--
			case depth > 0 && i < len(value), r != ',' && r != ' ':
			default:
				if i > start {
					out = append(out, value[start:i])
				}
				start = i + 1
			}
		}
	}
	return out
}

// available lists the tools of this session: those given, less those denied by their plain name.
func (o options) available() []string {
	return slices.DeleteFunc(slices.Clone(o.tools), func(tool string) bool { return slices.Contains(o.denied, tool) })
}

// refuse says why a tool call must not happen; empty when it may. The rules of the form Bash(prefix:*) are compared with
// the start of the command text only, as the real program in essence does: they are not a security boundary.
func (o options) refuse(tool, command string) string {
	if !slices.Contains(o.available(), tool) {
		return "No such tool available: " + tool
	}
	for _, rule := range o.denied {
		body, ok := strings.CutPrefix(rule, tool+"(")
		if !ok {
			continue
		}
		body = strings.TrimSuffix(body, ")")
		prefix, wildcard := strings.CutSuffix(body, ":*")
		if command == prefix || (wildcard && strings.HasPrefix(command, prefix+" ")) {
			return "Permission to use " + tool + " with command " + command + " has been denied."
		}
	}
	return ""
}
