// Package config reads the settings from flags, environment, a YAML file and defaults, checks all of them and
// reports everything that is wrong at once.
//
// The tables of fields are the one source: settings.go for single values, and one file for each list. A field is bound to the
// struct field that holds its value. Parsing, variables, flags, checks, listings, the JSON Schema and docs/configuration.md
// follow from it.
package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// Input is everything outside the defaults that decides the configuration.
type Input struct {
	ConfigPath string            // of --config; empty when not given
	SystemPath string            // used if there is no other file; empty for none
	Flags      map[string]string // by dotted key, only those set on the command line
	Environ    []string          // NAME=value
	Dir        string            // the working folder
	// Instead is read in the place of files, by their full paths: what they would hold after a change.
	Instead map[string][]byte
	// Check looks at the handlers, roles and routes as a whole; what it finds is reported where it was configured.
	Check func(ops.Policy) []ops.Flaw
	Checks
}

// Checks look at what only the packages that use it can judge. What is nil is not checked.
type Checks struct {
	CheckProbe       func(ops.ProbeSpec) []error
	CheckServices    func([]ops.Service) error
	CheckMaintenance func(ops.Maintenance) error
	// ProbeName is what a probe is called among its results.
	ProbeName func(ops.ProbeSpec) string
	// AgentUser is the user that this machine has for agents, and that the supervisor may change to; 0 without one.
	AgentUser func() int
}

// AgentUserName is the user that runs the agents where it exists.
const AgentUserName = "claudeops-agent"

// Tier is how one tier is set up.
type Tier struct {
	Model            string
	Prompt           Prompt // empty: the built-in one
	EscalationPrompt Prompt // empty: the built-in one
	Tools            ops.ToolLists

	allowed, disallowed []string // the operator's own lists; nil: the built-in ones
}

// Agent is which agent CLI runs, and what only it gets.
type Agent struct {
	Bin        string
	CodexBin   string
	Scenario   string
	Env        []string
	APIKey     string
	OAuthToken string
	BaseURL    string
}

// scriptedBin is the value of agent.bin that selects the built-in agent.
const scriptedBin = "scripted"

// Scripted reports whether the built-in scripted agent is used.
func (a Agent) Scripted() bool { return a.Bin == scriptedBin }

// Host is this supervisor among those that share a database.
type Host struct {
	Name   string
	Labels []string
	// Sessions is how many agents run at once.
	Sessions int
}

// Edges are the connections to systems outside.
type Edges struct {
	WebhookSecret string
	AlertSenders  []ops.AlertSender // with addresses of their own

	SecondURLs []string
	PublicURL  string
	// TelegramSenders may answer with the buttons of Telegram, TelegramResponders may not approve.
	TelegramSenders, TelegramResponders []int64

	ApproveByNtfy bool
	DeadManMissed int
	PingURL       string
}

// Config holds the effective values.
type Config struct {
	File         string // the YAML file that was read; empty when there is none
	Digest       string // of what was read from it
	StateDir     string
	ReposDir     string
	Interval     time.Duration
	DryRun       bool
	MaxTier      ops.Tier
	trust        ops.Trust // empty: full
	Notes        string
	Tiers        map[ops.Tier]*Tier
	Limits       ops.Limits
	BudgetDayUSD float64
	Prices       ops.Prices // what models cost, for agents that do not report it
	Agent        Agent
	Guard        Guard
	Docker       Docker
	AppriseURLs  []string
	AppriseAPI   string
	Retention    ops.Retention
	DatabaseURL  string // empty: SQLite in the state folder
	Host         Host
	Listen       string
	APIToken     string
	Edges        Edges
	OIDC         OIDC
	NoticeRoutes []ops.NoticeRoute
	Notices      []string // what the operator is told at start
	Secrets      []string // what is removed from everything stored or shown

	ownPrices    ops.Prices       // those of Prices that the operator set
	handlers     []ops.Handler    // nil: the built-in ones
	codexReady   bool             // the Codex CLI and its key are there
	tierModels   map[string]bool  // handlers that have the model of their tier
	shared       ops.Policy       // what holds in every environment
	windows      map[string]int64 // context windows by model
	notices      []noticeRoute
	secrets      []string
	inventory    inventory // of environments that have no services of their own
	watching     watching  // of environments that do not say otherwise
	environments []environment
	agentEnv     []string
	table        table
	dir          string // the working folder, absolute
	secretFiles  []string
	files        []string // prompts, rules, secrets: all that were read beside the configuration file
	origins      map[string]origin
}

// stopGrace is the time between the polite and the final signal to an agent.
const stopGrace = 10 * time.Second

// newConfig returns a configuration whose fields can be bound.
func newConfig() *Config {
	c := &Config{
		Tiers: map[ops.Tier]*Tier{}, tierModels: map[string]bool{}, origins: map[string]origin{},
		Prices: builtInPrices(), ownPrices: ops.Prices{},
	}
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		c.Tiers[t] = &Tier{}
	}
	c.Limits.Grace = stopGrace
	// What nobody has reason to change: three reminders, an hour apart, before the second target, three missed intervals before the
	// alarm, more processes than an honest session needs, more rows of each kind than pages can show, output that fits a small disk, and
	// single results for as long as people look at them: the health bars use counts.
	c.shared.Approval.Remind = time.Hour
	c.shared.Approval.Reminds, c.Edges.DeadManMissed, c.Guard.Sandbox.Processes, c.Retention.Rows = 3, 3, 2048, 5_000_000
	c.Retention.TranscriptBytes, c.Retention.Checks = 2<<30, 14*24*time.Hour
	c.Guard.Limits = make([]ops.CooldownLimit, 2)
	return c
}

// Load reads and checks the configuration. When something is wrong the error is an *Error with every problem.
func Load(in Input) (*Config, error) {
	dir, err := absoluteDir(in.Dir)
	if err != nil {
		return nil, err
	}
	in.Dir = dir
	vars := variables(in.Environ)
	c := newConfig()
	c.table = c.settings()
	l := &loader{
		in: in, vars: vars, places: newPlaces(vars), table: c.table, origins: c.origins, problems: &problemList{},
		pending: map[string]*yaml.Node{},
	}
	l.places.instead = in.Instead
	l.load()
	c.File, c.Digest, c.dir = l.fileName, l.digest, in.Dir
	c.complete(l)
	l.check(c)
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	agentVars := l.agentVariables(c)
	c.agentEnv = append(environList(agentVars), ops.ProgramsVariable+"="+c.Programs())
	c.Secrets = l.secretValues(c, agentVars)
	for _, name := range l.unknown {
		c.Notices = append(c.Notices, fmt.Sprintf("the variable %s is unknown and not used; 'claudeops config show' lists ours", name))
	}
	c.notice()
	c.secretFiles, c.files = l.secretFiles, *l.places.files
	return c, nil
}

// SecretFiles are the files that can hold secrets of this program: those named for them, and the configuration itself.
func (c *Config) SecretFiles() []string {
	return append(slices.Clone(c.secretFiles), c.file()...)
}

// OwnFiles are the files that decide what the supervisor does: the configuration file and every file that it names. No agent may
// change them, wherever they lie.
func (c *Config) OwnFiles() []string {
	return append(slices.Clone(c.files), c.file()...)
}

// Digest tells one content of the configuration file from another.
func Digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// Path is the configuration file with its folder; empty if there is none.
func (c *Config) Path() string {
	if c.File == "" || filepath.IsAbs(c.File) {
		return c.File
	}
	return filepath.Join(c.dir, c.File)
}

// file is the configuration file, if there is one, and the backups beside it: walls are built from absolute paths.
func (c *Config) file() []string {
	path := c.Path()
	if path == "" {
		return nil
	}
	backups, _ := filepath.Glob(globbed(path) + BackupSuffix + "*") // the pattern is right
	return append([]string{path}, backups...)
}

// BackupSuffix stands between the name of the configuration file and the time, in the names of its backups.
const BackupSuffix = ".bak-"

// globbed is the pattern that matches one path.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// complete derives what follows from several values.
func (c *Config) complete(l *loader) {
	for t, tier := range c.Tiers {
		tier.Tools = defaultTools(t, c.shared.Mode)
		if c.Guard.Enabled {
			tier.Tools.Allowed = unjudged()
		}
		// An operator's lists are passed on literally; only the tools that exist follow from them.
		if tier.allowed != nil {
			tier.Tools.Allowed, tier.Tools.Tools = tier.allowed, bareNames(tier.allowed)
		}
		if tier.disallowed != nil {
			tier.Tools.Disallowed = tier.disallowed
		}
	}
	r := &c.Retention
	r.Hours, r.Guard, r.Notices, r.Alerts = r.Events, r.Events, r.Events, r.Events
	c.Host.Sessions = cmp.Or(c.Host.Sessions, max(4, 2*runtime.NumCPU()))
	if c.Host.Name == "" {
		c.Host.Name = "localhost"
		if name, err := os.Hostname(); err == nil && name != "" {
			c.Host.Name = name
		}
	}
	if s := &c.Guard.Sandbox; s.UID == autoUID {
		s.UID = 0
		if l.in.AgentUser != nil && s.Mode != SandboxOff {
			s.UID = l.in.AgentUser()
		}
	}
	c.codexReady = c.Agent.CodexBin != scriptedBin && l.vars[codexKey] != "" && findProgram(c.Agent.CodexBin, l.vars["PATH"]) != ""
	c.Edges.PublicURL = strings.TrimRight(c.Edges.PublicURL, "/")
	if len(c.environments) == 0 {
		c.environments = []environment{c.base()}
	}
	for _, r := range c.notices {
		c.NoticeRoutes = append(c.NoticeRoutes, r.NoticeRoute)
	}
	c.shared.Process = ops.ProcessTyped
	if c.shared.Manager != "" {
		c.shared.Process = ops.ProcessManager
	}
	c.shared.Entry = l.first(c)
}

// originOf is where the value of a struct field was given.
func (c *Config) originOf(at any) origin { return c.origins[c.table.bound(at).key] }

// check looks at what only several settings together can get wrong.
func (l *loader) check(c *Config) {
	l.checkTokens(c)
	l.checkOIDC(c)
	l.checkPolicy(c)
	l.checkActionPlaces(c)
	for _, e := range c.environments {
		// Agents work below the state folder, which must be outside every repository.
		if e.reposDir != "" && c.StateDir != "" && inside(c.StateDir, e.reposDir) {
			l.refuse(&c.StateDir, "choose a state folder outside repos_dir", "%s is inside the repositories of %s", c.StateDir, e.reposDir)
			break
		}
	}
}

// ShortestToken is the length of the shortest token that is accepted. Shorter ones can be guessed.
const ShortestToken = 20

// checkTokens checks the tokens, and that there is one where strangers could reach the pages.
func (l *loader) checkTokens(c *Config) {
	if n := len(c.APIToken); n > 0 && n < ShortestToken && !l.problems.within(c.table.bound(&c.APIToken).key) {
		l.refuse(&c.APIToken, "give a random value, for example of: openssl rand -hex 16",
			"the token has %d characters and could be guessed; it needs at least %d", n, ShortestToken)
	}
	const set = "set CLAUDEOPS_API_TOKEN or CLAUDEOPS_API_TOKEN_FILE, or "
	if c.APIToken == "" && !l.problems.within(c.table.bound(&c.APIToken).key) {
		if c.Listen != "" && !loopback(c.Listen) {
			l.refuse(&c.Listen, set+"listen on 127.0.0.1:8080", "%s can be reached from other machines, and no api_token is set", c.Listen)
		}
		if c.Edges.PublicURL != "" {
			l.refuse(&c.Edges.PublicURL, set+"remove web.public_url", "the pages are published, and no api_token is set")
		}
	}
}

// notice collects what is accepted but has no effect.
func (c *Config) notice() {
	c.Notices = append(c.Notices, c.handlerNotices()...)
	scripted := func(h ops.Handler) bool { return h.Agent == agentScripted }
	if c.Agent.Scenario != "" && !slices.ContainsFunc(c.registered(), scripted) {
		c.Notices = append(c.Notices, "agent.scenario is not used: only the scripted agent plays one")
	}
}

// Programs is the folder of the agent programs that were installed for the service.
func (c *Config) Programs() string { return filepath.Join(c.StateDir, "programs") }
