package agent

import (
	"cmp"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/agent/keyproxy"
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

// searchPath returns the PATH of the first environment that has one. What was installed for the service comes first.
func searchPath(envs ...[]string) string {
	programs, path := "", ""
	for _, env := range envs {
		programs, path = cmp.Or(programs, Variable(env, ops.ProgramsVariable)), cmp.Or(path, Variable(env, "PATH"))
	}
	return programs + string(os.PathListSeparator) + cmp.Or(path, standardPath)
}

// api is how the programs are told to reach the API of a model.
type api struct {
	keys    []string // variables that hold a key
	url     string   // the variable of the base URL
	usual   string   // the base URL when the variable is not set
	headers string   // the variable of further headers, which may hold secrets; none when empty
	models  string   // the path that lists the models, which is free
}

const (
	anthropicKey      = "ANTHROPIC_API_KEY"
	subscriptionToken = "CLAUDE_CODE_OAUTH_TOKEN" //nolint:gosec // the name of a variable
)

// apis are the ones whose keys a proxy can hold.
func apis() []api {
	return []api{
		{
			keys: []string{anthropicKey, "ANTHROPIC_AUTH_TOKEN", subscriptionToken},
			url:  "ANTHROPIC_BASE_URL", usual: "https://api.anthropic.com", headers: "ANTHROPIC_CUSTOM_HEADERS",
			models: "/v1/models?limit=1",
		},
		{keys: []string{"OPENAI_API_KEY"}, url: "OPENAI_BASE_URL", usual: "https://api.openai.com/v1", models: "/models"},
	}
}

// BaseURLVariable returns the variable that goes with one that holds a key, or nothing.
func BaseURLVariable(name string) string {
	for _, a := range apis() {
		if slices.Contains(a.keys, name) {
			return a.url
		}
	}
	return ""
}

// proxies are those of one session.
type proxies []*keyproxy.Proxy

func (p proxies) close() {
	for _, proxy := range p {
		proxy.Close()
	}
}

// hideKeys replaces the keys in the environment of a session by tokens, and starts the proxies that take them.
func (r *Runner) hideKeys(spec *ops.SessionSpec) (proxies, error) {
	vars := passing(spec.Env, func(string) bool { return true })
	var out proxies
	for _, a := range apis() {
		proxy, err := a.hide(vars, r.o.Play)
		if err != nil {
			out.close()
			return nil, Refuse(ops.FailureStart, "the key of the API cannot be kept from the agent: %v", err)
		}
		if proxy != nil {
			out = append(out, proxy)
		}
	}
	if len(out) > 0 {
		if len(passing(spec.Env, isProxy)) > 0 {
			vars.reachLoopback()
		}
		spec.Env = vars.list()
	}
	return out, nil
}

// hide starts the proxy of one API where the environment holds a key for it.
func (a api) hide(vars variables, play *keyproxy.Play) (*keyproxy.Proxy, error) {
	o := keyproxy.Options{Upstream: a.usual, Keys: map[string]string{}, Play: play}
	if url := vars[a.url]; url != "" {
		o.Upstream = url
	}
	tokens := map[string]string{}
	for _, name := range a.keys {
		if key := vars[name]; key != "" {
			tokens[name] = keyproxy.NewToken()
			o.Keys[tokens[name]] = key
		}
	}
	if len(tokens) == 0 {
		return nil, nil //nolint:nilnil // nothing to hide
	}
	o.Header = a.extra(vars)
	proxy, err := keyproxy.Listen(o)
	if err != nil {
		return nil, err
	}
	delete(vars, a.headers)
	vars[a.url] = proxy.URL()
	for name, token := range tokens {
		vars[name] = token
	}
	return proxy, nil
}

// extra are the further headers that the environment names.
func (a api) extra(vars variables) http.Header {
	out := http.Header{}
	for line := range strings.Lines(vars[a.headers]) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			out.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return out
}

// reachLoopback keeps programs from asking an HTTP proxy of the network for our own one.
func (v variables) reachLoopback() {
	names := [2]string{"NO_PROXY", "no_proxy"}
	values := [2]string{v[names[0]], v[names[1]]}
	for i, name := range names {
		// Where only one of them is set, it counts for both spellings.
		if value := cmp.Or(values[i], values[1-i]); value != "" {
			v[name] = value + ",127.0.0.1"
		} else {
			v[name] = "127.0.0.1"
		}
	}
}
