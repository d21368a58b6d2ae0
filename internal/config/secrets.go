package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Shorter parts of a secret are left alone: removing them would garble ordinary words and hide nothing.
const (
	shortestPassword = 4
	shortestUser     = 6
	shortestToken    = 16
)

// secretValues returns every text that must not be stored or shown, longest first so that a part does not spoil
// the whole.
func (l *loader) secretValues(c *Config, agentVars map[string]string) []string {
	var out []string
	add := func(value string, shortest int) {
		if value = strings.TrimSpace(value); len(value) >= max(1, shortest) && !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	for _, secret := range []string{c.APIToken, c.Edges.WebhookSecret, c.OIDC.ClientSecret} {
		add(secret, 0)
	}
	targets := slices.Concat(c.AppriseURLs, c.Edges.SecondURLs, []string{c.Edges.PingURL})
	for _, r := range c.NoticeRoutes {
		targets = append(targets, r.URLs...)
	}
	for _, sender := range c.Edges.AlertSenders {
		add(sender.Secret, 0)
	}
	for _, u := range targets {
		add(u, 0)
		addCredentials(u, add)
		addTokens(u, add)
	}
	addCredentials(c.AppriseAPI, add)
	// The user of a database is not a secret. It is often claudeops, which would then be removed from every text.
	_, password := userinfo(c.DatabaseURL)
	addPart(password, shortestPassword, add)
	for _, e := range c.environments {
		for _, p := range e.inventory.probes {
			addProbe(p, add)
		}
	}
	for name, value := range agentVars {
		switch name {
		case "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN":
			add(value, 0)
		default:
			if soundsSecret(name) {
				add(value, shortestPassword*2)
			}
			addCredentials(value, add) // a proxy with a password
		}
	}
	for _, entry := range c.secrets {
		if value, ok := l.vars[entry]; ok && variableName().MatchString(entry) {
			entry = value
		}
		add(entry, 0)
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return out
}

// addProbe adds what a probe logs in with.
func addProbe(p ops.ProbeSpec, add func(string, int)) {
	add(p.Password, shortestPassword)
	addCredentials(p.URL, add)
	for name, value := range p.Headers {
		name = strings.ToUpper("_" + strings.ReplaceAll(name, "-", "_"))
		if soundsSecret(name) || name == "_AUTHORIZATION" || name == "_COOKIE" {
			_, word, _ := strings.Cut(value, " ") // Bearer …
			add(value, shortestPassword*2)
			add(word, shortestPassword*2)
		}
	}
}

func soundsSecret(name string) bool {
	return slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// addCredentials adds user and password of a URL, as written and as meant. It does not use a URL parser: Apprise
// URLs often are none.
func addCredentials(text string, add func(string, int)) {
	user, password := userinfo(text)
	addPart(user, shortestUser, add)
	addPart(password, shortestPassword, add)
}

// addPart adds a part of an address as it is written there, and as it is meant.
func addPart(part string, shortest int, add func(string, int)) {
	add(part, shortest)
	if plain, err := url.PathUnescape(part); err == nil {
		add(plain, shortest)
	}
}

// userinfo returns the user and the password of an address, as they are written there.
func userinfo(text string) (user, password string) {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", ""
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return "", ""
	}
	user, password, _ = strings.Cut(authority[:at], ":")
	return user, password
}

// addTokens adds the long parts of an Apprise URL: many services carry their token as host or path.
func addTokens(text string, add func(string, int)) {
	_, rest, _ := strings.Cut(text, "://")
	for _, part := range strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("/?&=@:,", r) }) {
		if !strings.Contains(part, ".") { // host names are no secret
			add(part, shortestToken)
		}
	}
}

// withoutPassword hides the password of a URL that is shown.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	return u.Redacted()
}

const (
	serverVariable = ownPrefix + "SERVER"
	tokenVariable  = ownPrefix + "API_TOKEN"
)

// Remote is a daemon on another machine, and the token for it.
type Remote struct {
	Server    string // empty: the local state folder is used
	Token     string
	TokenFile string // read instead of the token's variables
}

// ReadRemote adds what the environment says about a remote daemon to what flags say.
func ReadRemote(given Remote, environ []string) (Remote, error) {
	vars := variables(environ)
	r := given
	if r.Server == "" {
		r.Server = strings.TrimSpace(vars[serverVariable])
	}
	if r.Server == "" {
		return Remote{}, nil
	}
	if _, _, err := net.SplitHostPort(r.Server); err == nil && !strings.Contains(r.Server, "/") { // as listen has it
		r.Server = "http://" + r.Server
	}
	if !webURL(r.Server) {
		return Remote{}, fmt.Errorf("the server %q is not an address such as http://127.0.0.1:8080", withoutPassword(r.Server))
	}
	r.Token = strings.TrimSpace(vars[tokenVariable])
	file := r.TokenFile
	if file == "" && r.Token == "" {
		file = strings.TrimSpace(vars[tokenVariable+"_FILE"])
	}
	if file == "" {
		return r, nil
	}
	text, err := readText(file)
	if err != nil {
		return Remote{}, fmt.Errorf("read token: %w", err)
	}
	r.Token = strings.TrimSpace(text)
	return r, nil
}

// passesToAgent reports whether a variable of the supervisor is passed to the agent without being named.
func passesToAgent(name string) bool {
	switch name {
	case "PATH", "LANG", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy":
		return true
	}
	return slices.Contains(ops.CLIVariables(), name) // each agent takes what is its own
}

// agentVariables returns the variables of the agent: those that are always passed, those that agent.env names, and the three
// settings that are only for the agent.
func (l *loader) agentVariables(c *Config) map[string]string {
	out := map[string]string{}
	for name, value := range l.vars {
		switch {
		case passesToAgent(name):
			out[name] = value
		case (strings.HasPrefix(name, "ANTHROPIC_") || strings.HasPrefix(name, "CLAUDE_CODE_")) && !strings.HasSuffix(name, "_FILE") &&
			!slices.Contains(c.Agent.Env, name):
			c.Notices = append(c.Notices, name+" is not passed to agents: if they need it, name it in agent.env")
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
