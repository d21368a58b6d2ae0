package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// passesToAgent reports whether a variable of the supervisor is passed to the agent without being named.
func passesToAgent(name string) bool {
	switch name {
	case "PATH", "LANG", "TZ", "TMPDIR", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy":
		return true
	}
	for _, prefix := range []string{"ANTHROPIC_", "CLAUDE_CODE_", "DISABLE_", "OPENAI_"} { // each agent takes what is its own
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// agentVariables returns the variables of the agent: those that are always passed, those that agent.env names, and the three
// settings that are only for the agent.
func (l *loader) agentVariables(c *Config) map[string]string {
	out := map[string]string{}
	for name, value := range l.vars {
		if passesToAgent(name) {
			out[name] = value
		}
	}
	for _, s := range l.table {
		// The file of a secret was read here; the agent needs the value, not the path.
		if s.secret && s.env != "" {
			delete(out, s.fileEnv())
		}
	}
	for _, name := range c.Agent.Env {
		if value, ok := l.vars[name]; ok {
			out[name] = value
			continue
		}
		c.Notices = append(c.Notices, fmt.Sprintf("agent.env names %s, which is not set", name))
	}
	for name, value := range map[string]string{
		"ANTHROPIC_API_KEY":       c.Agent.APIKey,
		"CLAUDE_CODE_OAUTH_TOKEN": c.Agent.OAuthToken,
		"ANTHROPIC_BASE_URL":      c.Agent.BaseURL,
	} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

func environList(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out
}
