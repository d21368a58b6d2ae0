package agent

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// standardPath is searched when the supervisor has no PATH.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxRetries is how often Claude Code repeats a call of the model that failed.
const maxRetries = "CLAUDE_CODE_MAX_RETRIES"

// variables is an environment by name.
type variables map[string]string

// passing returns the entries of env that the names and prefixes let through.
func passing(env []string, pass func(name string) bool) variables {
	out := make(variables)
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && pass(name) && !strings.Contains(entry, "\x00") {
			out[name] = value
		}
	}
	return out
}

// isPlain reports whether a variable is needed to run any program.
func isPlain(name string) bool {
	return slices.Contains([]string{"PATH", "LANG", "TZ", "TMPDIR"}, name) || strings.HasPrefix(name, "LC_")
}

// isProxy reports whether a variable says how the network is reached.
func isProxy(name string) bool {
	switch strings.ToLower(name) {
	case "http_proxy", "https_proxy", "no_proxy", "all_proxy":
		return true
	}
	return false
}

// passes reports whether a variable of the supervisor reaches the agent.
func (c *Claude) passes(name string) bool {
	if isPlain(name) || slices.Contains(c.o.ExtraEnv, name) {
		return true
	}
	if isProxy(name) {
		return true
	}
	if name == "BASH_DEFAULT_TIMEOUT_MS" || name == "BASH_MAX_TIMEOUT_MS" {
		return true
	}
	for _, prefix := range []string{"ANTHROPIC_", "CLAUDE_CODE_", "DISABLE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// environment builds the environment of the agent from nothing.
func (c *Claude) environment(spec ops.SessionSpec, f folders) []string {
	vars := passing(spec.Env, c.passes)
	vars.standard("PATH", standardPath)
	vars.standard("DISABLE_AUTOUPDATER", "1")
	vars.standard("DISABLE_TELEMETRY", "1")
	vars.standard("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
	vars.standard(maxRetries, "2")            // failures are judged here, not waited for there
	vars.standard("API_TIMEOUT_MS", "300000") // below our own idle limit, so that the CLI can say what it waited for
	if spec.Limits.Tool > 0 {
		// A little less than our own limit, so that the CLI ends a command that hangs and the
		// session can go on.
		ms := strconv.FormatInt(max(int64(spec.Limits.Tool*9/10/time.Millisecond), 1), 10)
		vars.standard("BASH_DEFAULT_TIMEOUT_MS", ms)
		vars.standard("BASH_MAX_TIMEOUT_MS", ms)
	}
	if spec.Gate != nil {
		vars["CLAUDE_CODE_SHELL_PREFIX"] = spec.Gate.ShellPrefix
	}
	vars["CLAUDE_CONFIG_DIR"] = f.config
	vars.session(spec, f)
	return vars.list()
}

// session sets what every agent is told about its session.
func (v variables) session(spec ops.SessionSpec, f folders) {
	v["HOME"] = f.home
	v["CLAUDEOPS_STATE_DIR"] = f.state
	v["CLAUDEOPS_DRY_RUN"] = strconv.FormatBool(spec.DryRun)
	v["CLAUDEOPS_TIER"] = strconv.Itoa(int(spec.Session.Tier))
	v["CLAUDEOPS_ROLE"] = string(cmp.Or(spec.Session.Role, ops.RoleWork))
	v["CLAUDEOPS_HANDLER"] = spec.Session.Handler
	v["CLAUDEOPS_CYCLE_ID"] = strconv.FormatInt(int64(spec.Session.CycleID), 10)
	v["CLAUDEOPS_SESSION_ID"] = strconv.FormatInt(int64(spec.Session.ID), 10)
	v[keyName] = spec.Session.Key
}

// standard sets a variable unless the operator did.
func (v variables) standard(name, value string) {
	if _, ok := v[name]; !ok {
		v[name] = value
	}
}

func (v variables) list() []string {
	out := make([]string, 0, len(v))
	for name, value := range v {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// searchPath returns the PATH of the first environment that has one.
func searchPath(envs ...[]string) string {
	for _, env := range envs {
		if path := passing(env, isPlain)["PATH"]; path != "" {
			return path
		}
	}
	return standardPath
}
