package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// A tool is a name, or a name with a pattern of what it may be used for. Only MCP names may hold a wildcard: a
// bare one would stand for Task as well.
var toolEntry = ops.Pattern(`^([A-Za-z][A-Za-z0-9_-]*|mcp__[A-Za-z0-9_*-]+)(\(.*\))?$`)

// toolName returns the name before any pattern.
func toolName(entry string) string {
	name, _, _ := strings.Cut(entry, "(")
	return strings.TrimSpace(name)
}

// splitTools splits at commas that do not stand inside a pattern.
func splitTools(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',', '\n':
			if depth <= 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

func readTools(v raw) ([]string, []fault) {
	tools := []string{}
	var faults []fault
	for _, e := range v.entries(splitTools) {
		name := toolName(e.text)
		switch {
		case !toolEntry().MatchString(e.text):
			faults = append(faults, wrong(e, "give names separated by commas, such as Read,Bash(docker ps:*)", "%q is not a tool", e.text)...)
		case strings.EqualFold(name, "default"):
			// To the agent CLI this word means every tool it has.
			faults = append(faults, wrong(e, "name the tools one by one", "%q stands for every tool", e.text)...)
		default:
			tools = append(tools, e.text)
		}
	}
	return tools, faults
}

// startsAgents reports whether a tool starts agents of its own: escalation is decided by the supervisor alone.
func startsAgents(entry string) bool {
	name := toolName(entry)
	return strings.EqualFold(name, "Task") || strings.EqualFold(name, "Agent")
}

func allowedToolsKind(t ops.Tier) kind[[]string] {
	k := disallowedToolsKind()
	k.parse = func(_ places, v raw) ([]string, []fault) {
		tools, faults := readTools(v)
		if t < ops.LastTier {
			for _, e := range v.entries(splitTools) {
				if startsAgents(e.text) {
					faults = append(faults, wrong(e, "remove it: only the supervisor starts the next tier",
						"%s is not allowed at %s", toolName(e.text), t)...)
				}
			}
		}
		if len(tools) == 0 && faults == nil {
			faults = wrong(v, "name at least one tool", "the list is empty")
		}
		return tools, faults
	}
	return k
}

func disallowedToolsKind() kind[[]string] {
	k := wordsKind("tools")
	k.parse = func(_ places, v raw) ([]string, []fault) { return readTools(v) }
	return k
}

// bareNames returns the tools that a list of entries needs to exist.
func bareNames(entries []string) []string {
	var out []string
	for _, e := range entries {
		if name := toolName(e); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// defaultTools are the lists of a tier whose agent has no guard.
func defaultTools(t ops.Tier, mode ops.ContextMode) ops.ToolLists {
	tools := []string{"Bash", "Read", "Grep", "Glob", "WebFetch", "WebSearch"}
	switch {
	case t >= ops.Tier2:
		tools = append(tools, "Write", "Edit")
	case mode == ops.ContextHandoff:
		tools = append(tools, "Write") // for the handoff file
	}
	disallowed := append([]string{"Task", "Agent"}, never()...)
	if t <= ops.Tier2 {
		disallowed = append(disallowed, commands(listed("full"))...)
	}
	if t == ops.Tier1 {
		disallowed = append(disallowed, commands(listed("safe"))...)
	}
	return ops.ToolLists{Tools: tools, Allowed: slices.Clone(tools), Disallowed: disallowed}
}

// unjudged are the tools that need no hook to say yes: with the guard all others run only when it does, so that a hook that
// does not fire means no.
func unjudged() []string { return []string{"Read", "Grep", "Glob"} }

// commands turns the first words of commands into patterns.
func commands(words []string) []string {
	return ops.Map(words, func(w string) string { return fmt.Sprintf("Bash(%s:*)", w) })
}

// toolsFile holds the beginnings of commands, one per line, in sections.
//
//go:embed tools.txt
var toolsFile string

// listed are the lines of a section of the file.
func listed(section string) []string {
	_, text, _ := strings.Cut(toolsFile, "\n["+section+"]\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.Split(strings.TrimSpace(text), "\n")
}

// never is what no tier may do. A prefix is no wall, only a hint that costs nothing.
func never() []string {
	var words []string
	for _, dir := range append(listed("system"), dockerVolumes) {
		for _, option := range []string{"-rf", "-fr", "-r", "-R"} {
			words = append(words, "rm "+option+" "+dir)
		}
	}
	return slices.Concat(commands(append(words, listed("never")...)), listed("patterns"), unchangeable())
}

// unchangeable are rules for Edit, which hold for every tool that changes files. Two slashes start an absolute path.
func unchangeable() []string {
	out := ops.Map(usualInventories(), func(file string) string { return fmt.Sprintf("Edit(//**/%s)", file) })
	return append(out, fmt.Sprintf("Edit(/%s/**)", dockerVolumes))
}

// usualInventories are what inventories are called: one wrong line in them points every later command at the wrong machine. Others are
// named by a rule of the operator.
func usualInventories() []string {
	return []string{"inventory.yml", "inventory.yaml", "inventory.ini", "hosts.yml", "hosts.yaml"}
}

// dockerVolumes is where Docker keeps the data that outlives containers. Other folders of data are named by a rule of the operator.
const dockerVolumes = "/var/lib/docker/volumes"

// Guard is what an agent may do beyond the lists of its CLI, and the sandbox it runs in.
type Guard struct {
	Enabled bool
	Rules   Prompt // the operator's own rules; empty without a file
	Hosts   []string
	Limits  []ops.CooldownLimit
	Sandbox Sandbox
}

// SandboxMode is how far missing walls are accepted.
type SandboxMode string

// The modes of the sandbox.
const (
	SandboxAuto     SandboxMode = "auto"
	SandboxRequired SandboxMode = "required"
	SandboxOff      SandboxMode = "off"
)

// NetworkMode is what sessions reach of the network.
type NetworkMode string

// The modes of the network.
const (
	NetworkServices NetworkMode = "services"
	NetworkOpen     NetworkMode = "open"
	NetworkNone     NetworkMode = "none"
)

// Sandbox is what the operating system keeps from agents.
type Sandbox struct {
	Mode      SandboxMode
	UID       int      // of the agents; 0 leaves the layer off. Auto is resolved when the configuration is read
	Writable  []string // from Tier 3 on
	Folders   []string // of the agent's program, at every tier
	Readable  []string // at every tier
	Hidden    []string
	Network   NetworkMode
	Hosts     []string // that sessions reach beside what is declared
	Processes int      // of a session at once; 0: no limit
}

// Walled reports whether walls that hold an agent without a shell gate are wanted.
func (s Sandbox) Walled() bool { return s.Mode != SandboxOff }

// Networked reports whether sessions have a network of their own.
func (s Sandbox) Networked() bool {
	return s.Mode != SandboxOff && (s.Network == NetworkServices || s.Network == NetworkNone)
}

// DockerBroker says when sessions get a Docker socket of their own.
type DockerBroker string

// The choices. Auto means: where the guard is on and the socket of an engine exists.
const (
	DockerAuto DockerBroker = "auto"
	DockerOn   DockerBroker = "on"
	DockerOff  DockerBroker = "off"
)

// Docker is how agents reach the Docker engine.
type Docker struct {
	Broker DockerBroker
	Socket string
}
