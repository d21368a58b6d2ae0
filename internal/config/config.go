// Package config reads the settings from flags, environment, a YAML file and defaults, checks all of them and
// tells everything that is wrong at once.
//
// The table in setting.go is the one source: defaults, variables, flags, checks, listings and the reference in
// docs/configuration.md follow from it.
package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/knadh/koanf/v2"
	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// Input is everything outside the defaults that decides the configuration.
type Input struct {
	ConfigPath string            // of --config; empty when not given
	Flags      map[string]string // by dotted key, only those set on the command line
	Environ    []string          // NAME=value
	Dir        string            // the working folder
	// Check looks at the handlers, roles and routes as a whole; what it finds is told with the place it was configured.
	Check func(ops.Policy) []ops.Flaw
	Checks
}

// Checks look at what only those who use it can judge. What is nil is not checked.
type Checks struct {
	CheckProbe       func(ops.ProbeSpec) error
	CheckServices    func([]ops.Service) error
	CheckMaintenance func(ops.Maintenance) error
	// ProbeName is what a probe is called among its results.
	ProbeName func(ops.ProbeSpec) string
}

// Tier is how one tier is set up.
type Tier struct {
	Model            string
	Prompt           Prompt // empty: the built-in one
	EscalationPrompt Prompt // empty: the built-in one
	Tools            ops.ToolLists
}

// Agent is which agent CLI runs, and what only it gets.
type Agent struct {
	Bin      string
	CodexBin string
	// CommandTrusted lets programs of the operator run without walls around them.
	CommandTrusted bool
	Scenario       string
	Env            []string
	APIKey         string
	OAuthToken     string
	BaseURL        string
}

// scriptedBin is the value of agent.bin that selects the built-in agent.
const scriptedBin = "scripted"

// Scripted reports whether the built-in scripted agent is used.
func (a Agent) Scripted() bool { return a.Bin == scriptedBin }

// Config holds the effective values.
type Config struct {
	File             string // the YAML file that was read; empty when there is none
	StateDir         string
	ReposDir         string
	Interval         time.Duration
	DryRun           bool
	MaxTier          ops.Tier
	Notes            string
	Discovery        Discovery
	Tiers            map[ops.Tier]Tier
	Mode             ops.ContextMode // as configured; Policy.Mode says what is used
	ContextThreshold float64
	ApprovalTier     ops.Tier
	Limits           ops.Limits
	BudgetSessionUSD float64
	BudgetChainUSD   float64
	BudgetDayUSD     float64
	Recovery         ops.RecoveryPolicy
	Prices           ops.Prices // what models cost, for agents that do not tell
	Agent            Agent
	Guard            Guard
	AppriseURLs      []string
	AppriseAPI       string
	Retention        ops.Retention
	DatabaseURL      string // empty: SQLite in the state folder
	Host             Host
	Listen           string
	APIToken         string
	APIReadToken     string // empty: no token that may only look
	Traces           bool   // the environment names a collector of traces
	Edges            Edges
	NoticeRoutes     []ops.NoticeRoute
	Notices          []string // what the operator is told at start
	Secrets          []string // what is removed from everything stored or shown

	handlers     []ops.Handler   // nil: the built-in ones
	tierModels   map[string]bool // handlers that have the model of their tier
	entry        string
	routes       []ops.Route
	windows      map[string]int64
	environments []environment
	agentEnv     []string
	values       *koanf.Koanf
	origins      map[string]origin
}

// Load reads and checks the configuration. When something is wrong the error is an *Error with every problem.
func Load(in Input) (*Config, error) {
	dir, err := absoluteDir(in.Dir)
	if err != nil {
		return nil, err
	}
	in.Dir = dir
	vars := variables(in.Environ)
	l := &loader{
		in: in, vars: vars, places: newPlaces(vars), table: settings(),
		problems: &problemList{}, sections: map[string]*yaml.Node{}, marks: map[string]origin{},
	}
	given := []layer{l.fromFile(), l.fromEnvironment(), l.fromFlags()}
	// A default that needs a home folder is no problem where the value is given.
	values, origins, err := merge(append([]layer{l.defaults(given)}, given...))
	if err != nil {
		return nil, err
	}
	c := fill(values, origins)
	if l.file != nil {
		c.File = l.file.name
	}
	c.environments = l.environments(c)
	c.NoticeRoutes = l.noticeRoutes()
	c.handlers, c.routes, c.windows, c.Prices = l.handlers(c), l.routes(), l.windows(), l.prices()
	c.entry, c.Recovery = l.first(c), c.recovery(l.rules())
	l.check(c)
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	c.Traces = traces(vars)
	agentVars := l.agentVariables(c)
	c.agentEnv = environList(agentVars)
	c.Secrets = l.secretValues(c, get[[]string](values, "secrets"), agentVars)
	for _, name := range l.unknown {
		c.Notices = append(c.Notices, fmt.Sprintf("the variable %s is not one of ours and is not used; 'claudeops config show' lists them", name))
	}
	c.notice()
	return c, nil
}

// fill takes the merged values into their typed places.
func fill(k *koanf.Koanf, origins map[string]origin) *Config {
	c := &Config{
		StateDir:         get[string](k, "state_dir"),
		ReposDir:         get[string](k, "repos_dir"),
		Interval:         get[time.Duration](k, "interval"),
		DryRun:           get[bool](k, "dry_run"),
		MaxTier:          ops.Tier(get[int](k, "max_tier")),
		Notes:            get[string](k, "notes"),
		Discovery:        Discovery(get[string](k, "services_discovery")),
		Tiers:            map[ops.Tier]Tier{},
		Mode:             ops.ContextMode(get[string](k, "escalation.mode")),
		ContextThreshold: get[float64](k, "escalation.resume_context_threshold"),
		ApprovalTier:     ops.Tier(get[int](k, "escalation.approval_tier")),
		Limits: ops.Limits{
			Wall:  get[time.Duration](k, "limits.session"),
			Idle:  get[time.Duration](k, "limits.idle"),
			Tool:  get[time.Duration](k, "limits.tool"),
			Grace: stopGrace,
		},
		BudgetSessionUSD: get[float64](k, "budget.session_usd"),

		BudgetChainUSD: get[float64](k, "budget.chain_usd"),
		BudgetDayUSD:   get[float64](k, "budget.day_usd"),
		Agent: Agent{
			Bin:      get[string](k, "agent.bin"),
			CodexBin: get[string](k, "agent.codex_bin"),

			CommandTrusted: get[bool](k, "agent.command_trusted"),
			Scenario:       get[string](k, "agent.scenario"),
			Env:            get[[]string](k, "agent.env"),
			APIKey:         get[string](k, "agent.api_key"),
			OAuthToken:     get[string](k, "agent.oauth_token"),
			BaseURL:        get[string](k, "agent.base_url"),
		},
		AppriseURLs:  get[[]string](k, "notify.apprise_urls"),
		AppriseAPI:   get[string](k, "notify.apprise_api"),
		DatabaseURL:  get[string](k, "database_url"),
		Listen:       get[string](k, "listen"),
		APIToken:     get[string](k, "api_token"),
		APIReadToken: get[string](k, "api_read_token"),
		tierModels:   map[string]bool{},
		values:       k,
		origins:      origins,
	}
	c.Guard = c.guard()
	c.Host = c.host()
	c.Edges = c.edges()
	c.Retention = c.retention()
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		c.Tiers[t] = c.tier(t)
	}
	return c
}

func (c *Config) tier(t ops.Tier) Tier {
	key := func(name string) string { return fmt.Sprintf("tiers.%d.%s", t, name) }
	out := Tier{
		Model:            get[string](c.values, key("model")),
		Prompt:           get[Prompt](c.values, key("prompt")),
		EscalationPrompt: get[Prompt](c.values, key("escalation_prompt")),
		Tools:            defaultTools(t, c.Mode),
	}
	if c.Guard.Enabled {
		out.Tools.Allowed = unjudged()
	}
	// An operator's lists are passed on literally; only the tools that exist follow from them.
	if allowed, ok := c.values.Get(key("allowed_tools")).([]string); ok {
		out.Tools.Allowed = allowed
		out.Tools.Tools = bareNames(allowed)
	}
	if disallowed, ok := c.values.Get(key("disallowed_tools")).([]string); ok {
		out.Tools.Disallowed = disallowed
	}
	return out
}

// check looks at what only several settings together can get wrong.
func (l *loader) check(c *Config) {
	if c.Listen != "" && !loopback(c.Listen) && c.APIToken == "" && !l.problems.about("api_token") {
		l.problems.add(c.origins["listen"], "listen", fmt.Sprintf("%s can be reached from other machines, and no api_token is set", c.Listen),
			"set CLAUDEOPS_API_TOKEN or CLAUDEOPS_API_TOKEN_FILE, or listen on 127.0.0.1:8080")
	}
	l.readToken(c)
	l.reachable(c)
	l.registry(c)
	for _, e := range c.environments {
		// Agents work below the state folder, which must be outside every repository.
		if e.reposDir != "" && c.StateDir != "" && inside(c.StateDir, e.reposDir) {
			l.problems.add(c.origins["state_dir"], "state_dir", fmt.Sprintf("%s lies inside the repositories of %s", c.StateDir, e.reposDir),
				"choose a state folder outside repos_dir")
			break
		}
	}
}

// notice collects what is accepted but does not act as it reads.
func (c *Config) notice() {
	c.Notices = append(c.Notices, c.registryNotices()...)
	scripted := func(h ops.Handler) bool { return h.Agent == agentScripted }
	if c.Agent.Scenario != "" && !slices.ContainsFunc(c.registered(), scripted) {
		c.Notices = append(c.Notices, "agent.scenario is not used: only the scripted agent plays one")
	}
}
