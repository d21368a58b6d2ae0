package claude

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// maxRetries is how often Claude Code repeats a call of the model that failed.
const maxRetries = "CLAUDE_CODE_MAX_RETRIES"

// passes reports whether a variable of the supervisor reaches the agent.
func (c *Claude) passes(name string) bool {
	if slices.Contains(c.o.ExtraEnv, name) || name == "BASH_DEFAULT_TIMEOUT_MS" || name == "BASH_MAX_TIMEOUT_MS" {
		return true
	}
	return slices.ContainsFunc([]string{"ANTHROPIC_", "CLAUDE_CODE_", "DISABLE_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// environment builds the environment of the agent.
func (c *Claude) environment(spec ops.SessionSpec, f agent.Folders) ([]string, error) {
	defaults := map[string]string{
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_TELEMETRY":                        "1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		maxRetries:       "2",      // failures are judged here, not waited for there
		"API_TIMEOUT_MS": "300000", // below our own idle limit, so that the CLI can say what it waited for
	}
	if spec.Limits.Tool > 0 {
		// A little less than our own limit, so that the CLI ends a command that hangs and the session can go on.
		ms := strconv.FormatInt(max(int64(spec.Limits.Tool*9/10/time.Millisecond), 1), 10)
		defaults["BASH_DEFAULT_TIMEOUT_MS"], defaults["BASH_MAX_TIMEOUT_MS"] = ms, ms
	}
	set := map[string]string{"CLAUDE_CONFIG_DIR": f.Config}
	if spec.Gate != nil {
		set["CLAUDE_CODE_SHELL_PREFIX"] = spec.Gate.ShellPrefix
	}
	if c.o.CountRuns {
		before, err := agent.NoteRun(spec)
		if err != nil {
			return nil, err
		}
		set["CLAUDEOPS_EARLIER_RUNS"] = strings.Join(before, " ")
	}
	return agent.Environment(spec, f, agent.Variables{Passes: c.passes, Defaults: defaults, Set: set}), nil
}
