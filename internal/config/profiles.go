package config

import (
	"cmp"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

func profileKind() kind[string] { return nameKind("profile", "a name of a profile") }

func profileFields(p *ops.AgentProfile) []field {
	pair := checked("NAME=value", "write it as NAME=value", "not a variable with its value", true, func(text string) bool {
		name, _, ok := strings.Cut(text, "=")
		return ok && variableName().MatchString(name)
	})
	return []field{
		value("name", &p.Name, profileKind(), "Name: that of a built-in profile to change it, or a new one.").must(),
		value("command", &p.Command, argvKind(),
			"The program and its arguments. `{model}` stands for the model. Required for a new profile.").orElse("built in"),
		value("env", &p.Env, listOf("list of NAME=value", splitAtLines, pair),
			"Variables that are set for the CLI, in addition to those of the profile. `{model}`, `{home}`, `{config}`, `{work}`, "+
				"`{anthropic_url}`, `{openai_url}` and `{gemini_url}` are replaced."),
		value("keys", &p.Keys, variableNamesKind(), "Names of the variables that hold its keys, in addition to those of the profile."),
	}
}

func (c *Config) finishAgentProfile(e *entry, p *ops.AgentProfile) {
	if slices.ContainsFunc(c.Agent.ACP, func(o ops.AgentProfile) bool { return o.Name == p.Name }) {
		e.refuse(&p.Name, "keep one of the entries", "the profile %q is listed twice", p.Name)
	}
	if !e.has(&p.Command) && !c.builtInProfile(p.Name) {
		e.refuse(&p.Command, "add command: [program, argument, …]", "command is missing, and %q is not a built-in profile", p.Name)
	}
}

func (c *Config) builtInProfile(name string) bool {
	if c.agentProfile == nil {
		return true // nobody here knows them
	}
	_, known := c.agentProfile(name, "")
	return known
}

// finishProfile checks the profile of a handler and takes its family from it.
func (c *Config) finishProfile(e *entry, h *ops.Handler) {
	given := e.has(&h.Profile)
	switch {
	case h.Agent == agentACP && !given:
		e.refuse(&h.Profile, "add profile: opencode, or another CLI", "profile is missing")
		return
	case h.Agent != agentACP && given:
		e.refuse(&h.Profile, "use agent: acp, or remove it", "only the agent acp has one, and this is %s", h.Agent)
		return
	case h.Agent != agentACP:
		return
	}
	own := slices.ContainsFunc(c.Agent.ACP, func(p ops.AgentProfile) bool { return p.Name == h.Profile })
	if !own && !c.builtInProfile(h.Profile) {
		e.refuse(&h.Profile, "use claude-agent-acp, codex-acp, opencode, gemini-cli or qwen-code, or define it in agent.acp",
			"there is no profile %q", h.Profile)
	}
	if c.agentProfile != nil {
		family, _ := c.agentProfile(h.Profile, h.Model)
		h.Family = cmp.Or(h.Family, family)
	}
	h.Family = cmp.Or(h.Family, h.Profile)
}

func (c *Config) showProfiles() string {
	out := make([]string, len(c.Agent.ACP))
	for i, p := range c.Agent.ACP {
		out[i] = p.Name
	}
	return strings.Join(out, ",")
}
