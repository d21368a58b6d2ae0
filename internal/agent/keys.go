package agent

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/agent/keyproxy"
	"claudeops/internal/ops"
)

// api is how the programs are told to reach the API of a model.
type api struct {
	keys    []string // variables that hold a key
	url     string   // the variable of the base URL
	usual   string   // the base URL when the variable is not set
	headers string   // the variable of further headers, which may hold secrets; none when empty
}

// apis are the ones whose keys a proxy can hold.
func apis() []api {
	return []api{
		{
			keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
			url:  "ANTHROPIC_BASE_URL", usual: "https://api.anthropic.com", headers: "ANTHROPIC_CUSTOM_HEADERS",
		},
		{keys: []string{"OPENAI_API_KEY"}, url: "OPENAI_BASE_URL", usual: "https://api.openai.com/v1"},
		{keys: []string{"GEMINI_API_KEY"}, url: "GOOGLE_GEMINI_BASE_URL", usual: "https://generativelanguage.googleapis.com"},
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
	if r.o.HideKeys == nil || !r.o.HideKeys(spec.Environment, spec.Session.May()) {
		return nil, nil
	}
	vars := passing(spec.Env, func(string) bool { return true })
	var out proxies
	for _, a := range apis() {
		proxy, err := a.hide(vars)
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
func (a api) hide(vars variables) (*keyproxy.Proxy, error) {
	o := keyproxy.Options{Upstream: a.usual, Keys: map[string]string{}, Header: http.Header{}}
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
	for line := range strings.Lines(vars[a.headers]) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			o.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
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
