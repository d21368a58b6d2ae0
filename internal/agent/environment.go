package agent

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
)

// standardPath is searched when the supervisor has no PATH.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Variables are what an adapter adds to the environment of its program.
type Variables struct {
	Passes   func(name string) bool // whether a variable of the supervisor passes; nil: no more than every program needs
	Defaults map[string]string      // set unless the operator set them
	Set      map[string]string
}

// Environment builds the environment of an agent from nothing: what every program needs, what the adapter adds, and which
// session it is.
func Environment(spec ops.SessionSpec, f Folders, v Variables) []string {
	vars := passing(spec.Env, func(name string) bool {
		return isBasic(name) || isProxy(name) || v.Passes != nil && v.Passes(name)
	})
	vars.setDefault("PATH", standardPath)
	for name, value := range v.Defaults {
		vars.setDefault(name, value)
	}
	vars["HOME"] = f.Home
	vars["CLAUDEOPS_STATE_DIR"] = f.State
	vars["CLAUDEOPS_DRY_RUN"] = strconv.FormatBool(spec.DryRun)
	vars["CLAUDEOPS_TIER"] = strconv.Itoa(int(spec.Session.Tier))
	vars["CLAUDEOPS_ROLE"] = string(cmp.Or(spec.Session.Role, ops.RoleWork))
	vars["CLAUDEOPS_HANDLER"] = spec.Session.Handler
	vars["CLAUDEOPS_CYCLE_ID"] = strconv.FormatInt(int64(spec.Session.CycleID), 10)
	vars["CLAUDEOPS_SESSION_ID"] = strconv.FormatInt(int64(spec.Session.ID), 10)
	vars[process.KeyName] = spec.Session.Key
	for name, value := range v.Set {
		vars[name] = value
	}
	if spec.Gate != nil {
		maps.Copy(vars, passing(spec.Gate.Env, func(string) bool { return true }))
		if tools := spec.Gate.Tools; tools.Folder != "" {
			vars["PATH"] = tools.Folder + ":" + vars["PATH"]
			vars["CLAUDEOPS_TOOL_SOCKET"] = tools.Socket
		}
	}
	return vars.list()
}

// Variable returns the value of a variable, or nothing.
func Variable(env []string, name string) string {
	return passing(env, func(n string) bool { return n == name })[name]
}

// variables is an environment by name.
type variables map[string]string

// passing returns the entries of env whose names pass.
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

// isBasic reports whether a variable is needed to run any program.
func isBasic(name string) bool {
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

// setDefault sets a variable unless the operator did.
func (v variables) setDefault(name, value string) {
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
		if path := Variable(env, "PATH"); path != "" {
			return path
		}
	}
	return standardPath
}
