package guard

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// Facts are what the guard must know of the installation and the session. Its folders are real ones: where Resolve
// follows links, they have none. Those with a name in YAML may stand in a file.
type Facts struct {
	Cwd      string `yaml:"cwd"`       // the folder the call would run in
	ReposDir string `yaml:"repos_dir"` // the clones the agent may work in
	// Repositories are further clones outside ReposDir.
	Repositories   []string `yaml:"repositories"`
	StateDir       string   `yaml:"state_dir"`
	TempDir        string   `yaml:"temp_dir"`
	OwnTemp        bool     `yaml:"-"` // the temporary folder is the session's own, and TMPDIR names it
	InventoryHosts []string `yaml:"inventory_hosts"`
	Engine         string   `yaml:"-"` // the socket of the container engine
	// ProtectedFiles are infrastructure files nobody changes, by base name or path.
	ProtectedFiles []string `yaml:"protected_files"`
	VolumesDirs    []string `yaml:"volumes_dirs"`
	OwnAPI         []string `yaml:"own_api"` // host:port of the product's own API
	// OwnPaths are further files and folders of the product: settings, transcripts, sockets, binary.
	OwnPaths []string `yaml:"own_paths"`
	// OwnSecrets are those that hold secrets: nothing reads a folder whole in which one of them lies.
	OwnSecrets []string `yaml:"own_secrets"`
	// Secrets are the same in clones, where nothing covers them.
	Secrets   []string      `yaml:"-"`
	OwnConfig string        `yaml:"-"` // that of them which may be read without being an attack
	OwnPID    int           `yaml:"-"`
	Services  []ops.Service `yaml:"-"`
	WebHosts  []string      `yaml:"web_hosts"` // when set, the only hosts WebFetch may ask; *.example.com matches subdomains
	// MCPTools are the MCP tools a tier may call; a trailing * matches the rest of the name.
	MCPTools map[ops.Tier][]string `yaml:"-"`
	DryRun   bool                  `yaml:"dry_run"`
	// NetworkClosed says that the session has a network of its own: programs that inspect the network look by LookProgram instead, the
	// command that asks the supervisor.
	NetworkClosed bool   `yaml:"-"`
	LookProgram   string `yaml:"-"`
	// Walled says that walls hold what the commands of the session read, write, signal and connect to, whatever they are told to do.
	Walled bool `yaml:"-"`
	// RawNetwork says that it lets other protocols than HTTP through to some service all the same.
	RawNetwork bool `yaml:"-"`
	// HandoffMode lets an agent write the handoff file in the state folder.
	HandoffMode bool `yaml:"handoff_mode"`
	// Resolve follows the symbolic links of a clean absolute path, as far as it exists; nil takes paths as they are
	// written. An error means that the path cannot be told, and that nothing may be done with it.
	Resolve func(name string) (string, error) `yaml:"-"`
}

// factsFile is the form of a facts file.
type factsFile struct {
	Facts    `yaml:",inline"`
	Services []serviceEntry      `yaml:"services"`
	MCPTools map[string][]string `yaml:"mcp_tools"`
}

// serviceEntry is a service by its name alone or with aliases.
type serviceEntry ops.Service

// UnmarshalYAML reads `jellyfin` as well as `{name: jellyfin, aliases: [jf]}`.
func (s *serviceEntry) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s.Name = n.Value
		return nil
	}
	var full struct {
		Name    string   `yaml:"name"`
		Aliases []string `yaml:"aliases"`
	}
	if err := n.Decode(&full); err != nil {
		return err
	}
	s.Name, s.Aliases = full.Name, full.Aliases
	return nil
}

// ParseFacts reads the YAML form of facts.
func ParseFacts(data []byte) (Facts, error) {
	var f factsFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return Facts{}, fmt.Errorf("read facts: %w", err)
	}
	out := f.Facts
	for _, s := range f.Services {
		if s.Name == "" {
			return Facts{}, fmt.Errorf("read facts: a service has no name")
		}
		out.Services = append(out.Services, ops.Service(s))
	}
	for name, tools := range f.MCPTools {
		tier, err := parseTier(name)
		if err != nil {
			return Facts{}, fmt.Errorf("read facts: mcp_tools: %w", err)
		}
		if out.MCPTools == nil {
			out.MCPTools = map[ops.Tier][]string{}
		}
		out.MCPTools[tier] = tools
	}
	for key, p := range map[string]string{"cwd": out.Cwd, "repos_dir": out.ReposDir, "state_dir": out.StateDir, "temp_dir": out.TempDir} {
		if p != "" && !path.IsAbs(p) {
			return Facts{}, fmt.Errorf("read facts: %s must be an absolute path, not %q", key, p)
		}
	}
	return out, nil
}

func parseTier(s string) (ops.Tier, error) {
	switch strings.TrimPrefix(strings.ToLower(s), "tier") {
	case "1":
		return ops.Tier1, nil
	case "2":
		return ops.Tier2, nil
	case "3":
		return ops.Tier3, nil
	}
	return 0, fmt.Errorf("%q is not a tier, write 1, 2 or 3", s)
}

// repos are all folders that hold clones.
func (f *Facts) repos() []string {
	if f.ReposDir == "" {
		return f.Repositories
	}
	return append([]string{f.ReposDir}, f.Repositories...)
}

// knownHost reports whether ssh and service calls may go to the host.
func (f *Facts) knownHost(host string) bool {
	return slices.ContainsFunc(f.InventoryHosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// service returns the canonical name of a container, compose service or alias, and whether it is known.
// Compose calls containers project-service-1 or project_service_1.
func (f *Facts) service(name string) (string, bool) {
	inventory := ops.Inventory{Services: f.Services}
	if s, ok := inventory.Canonical(name); ok {
		return s, true
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	if n := len(parts); n > 1 && isDigits(parts[n-1]) {
		trimmed := name[:len(name)-len(parts[n-1])-1]
		for i := range trimmed {
			if i > 0 && trimmed[i-1] != '-' && trimmed[i-1] != '_' {
				continue
			}
			if s, ok := inventory.Canonical(trimmed[i:]); ok {
				return s, true
			}
		}
	}
	return name, false
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// value is what is known of a variable or an expansion.
type value struct {
	known  bool
	text   string
	glob   bool     // the text is a pattern that the shell expanded
	num    bool     // it is a number, whichever
	plain  bool     // it is a name, or several: each starts with a letter or digit and holds no blank
	unset  bool     // or nothing at all
	many   bool     // it may be several words even inside quotes
	inline bool     // it is as good as written in place: a quoted here-document
	list   []string // the elements of an array
	temp   bool     // it is the file that mktemp made, or nothing
}

// input says where the standard input of a command comes from.
type input int

const (
	inputNone  input = iota // the terminal, /dev/null, nothing
	inputFixed              // text that stands in the command
	inputData               // a file, a pipe, run-time data
)

// scope is what a command of the tree would see around it.
type scope struct {
	cwds      []string // where it may run; empty when that is not known
	vars      map[string]value
	loop      bool         // it may run more than once
	remote    bool         // it runs on another host
	container bool         // it runs inside a container
	skipped   []assignment // what the statement sets only if all of its && hold
	depth     int
	stdin     input
	names     bool // its standard input holds plain names, one on each line
	brokered  bool // that container is reached by the broker alone
	reads     bool // it runs with the rights of cat, on words that nobody sees
}

// sub is the scope of a subshell: what it changes is lost.
func (s *scope) sub() *scope {
	c := *s
	c.skipped = nil
	c.vars = maps.Clone(s.vars)
	c.cwds = slices.Clone(s.cwds)
	return &c
}

// foreign is the scope of a command that another shell or host runs.
func (s *scope) foreign() *scope {
	c := s.sub()
	c.vars = map[string]value{}
	return c
}

func (s *scope) set(name string, v value) { s.vars[name] = v }

// has reports whether the script itself gave the variable a value.
func (s *scope) has(name string) bool {
	_, ok := s.vars[name]
	return ok
}

// assignment is a variable that some commands set.
type assignment struct {
	name string
	num  bool // to a number, whichever
}

// forget makes variables unknown that may or may not have been set; a counter stays a number.
func (s *scope) forget(list []assignment) {
	for _, a := range list {
		old, ok := s.vars[a.name]
		number := !ok || old.num || old.known && isDigits(old.text)
		s.set(a.name, value{num: a.num && number, unset: true})
	}
}

// union merges the folders of two ways to go on; nil means any folder.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > 6 {
		return nil
	}
	return out
}

// judge walks one command.
type judge struct {
	places
	reader *reader
	worst  *finding
	// forbidden is a refusal that no rule of an operator lifts.
	forbidden *finding
	// effects in the order in which they would happen.
	effects []Effect
	seen    [][]field // the words of every simple command
	sorted  []sorted  // what its options and operands are, for the tests
	files   []string  // the files it was seen to use, for the tests
	opaque  bool      // something in it cannot be read, for the tests
	rest    int       // how many commands may still be judged
	fetched string
	stored  string
	planted string                    // a write that may make a folder a repository
	named   string                    // the operator rule that decided
	outside map[*syntax.Word][]string // words before a program that the supervisor runs
	added   map[*syntax.Word][]string // words that switch on the safe mode of a program, behind its name
}

// add records a finding; the strictest stays.
func (j *judge) add(f finding) {
	if f.need >= never {
		switch f.rule {
		case ruleText, ruleRunTime, ruleInline, ruleLauncher:
			j.opaque = true
		}
	}
	if f.need >= never && fixedRule(f.rule) {
		j.forbidden = &f
	}
	if j.worst == nil || f.rank() > j.worst.rank() {
		j.worst = &f
	}
}

// refuse records that no tier may do it.
func (j *judge) refuse(rule, what, why, hint string) {
	j.add(finding{need: never, rule: rule, what: what, why: why, hint: hint})
}

// orAttack is the rule of what is aimed at the supervisor: it would change, signal or stop it, or read its secrets. Else it is another one.
func orAttack(aimed bool, rule string) string {
	if aimed {
		return ops.RuleAttack
	}
	return rule
}

// need records that a tier may do it. Inside a loop nothing but looking is allowed.
func (j *judge) need(s *scope, tier ops.Tier, rule, what string) {
	if tier > ops.Tier1 && s.loop {
		j.refuse(ruleLoop, what+" in a loop", "repetition defeats the cooldown count", "run it once, by itself")
		return
	}
	if tier > ops.Tier1 && s.container {
		j.refuse(ruleBash, what+" inside a container", "changes inside containers are lost or destroy data",
			"change the service's configuration in its repository instead")
		return
	}
	j.add(finding{need: tier, rule: rule, what: what})
}
