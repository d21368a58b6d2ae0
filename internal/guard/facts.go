package guard

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// Facts are what the guard must know of the installation and the session. Its folders are real ones: where Resolve
// follows links, they have none.
type Facts struct {
	Cwd      string // the folder the call would run in
	ReposDir string // the clones the agent may work in
	// Repositories are further clones outside ReposDir.
	Repositories   []string
	StateDir       string
	TempDir        string
	OwnTemp        bool // the temporary folder is the session's own, and TMPDIR names it
	InventoryHosts []string
	// ProtectedFiles are infrastructure files nobody changes, by base name or path.
	ProtectedFiles []string
	VolumesDirs    []string
	OwnAPI         []string // host:port of the product's own API
	// OwnPaths are further files and folders of the product: settings, transcripts, sockets, binary.
	OwnPaths []string
	// OwnSecrets are those that hold secrets: nothing reads a folder whole in which one of them lies.
	OwnSecrets []string
	Services   []ops.Service
	WebHosts   []string // when set, the only hosts WebFetch may ask; *.example.com matches subdomains
	// MCPTools are the MCP tools a tier may call; a trailing * matches the rest of the name.
	MCPTools map[ops.Tier][]string
	DryRun   bool
	// HandoffMode lets an agent write the handoff file in the state folder.
	HandoffMode bool
	// Resolve follows the symbolic links of a clean absolute path, as far as it exists; nil takes paths as they are
	// written. An error means that the path cannot be told, and that nothing may be done with it.
	Resolve func(name string) (string, error)
	// Glob lists the files that match a clean absolute pattern; nil where the files cannot be looked at.
	Glob func(pattern string) []string
}

// factsFile is the form of a facts file.
type factsFile struct {
	Cwd            string              `yaml:"cwd"`
	ReposDir       string              `yaml:"repos_dir"`
	Repositories   []string            `yaml:"repositories"`
	StateDir       string              `yaml:"state_dir"`
	TempDir        string              `yaml:"temp_dir"`
	InventoryHosts []string            `yaml:"inventory_hosts"`
	ProtectedFiles []string            `yaml:"protected_files"`
	VolumesDirs    []string            `yaml:"volumes_dirs"`
	OwnAPI         []string            `yaml:"own_api"`
	OwnPaths       []string            `yaml:"own_paths"`
	OwnSecrets     []string            `yaml:"own_secrets"`
	Services       []serviceEntry      `yaml:"services"`
	WebHosts       []string            `yaml:"web_hosts"`
	MCPTools       map[string][]string `yaml:"mcp_tools"`
	DryRun         bool                `yaml:"dry_run"`
	HandoffMode    bool                `yaml:"handoff_mode"`
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
	out := Facts{
		Cwd: f.Cwd, ReposDir: f.ReposDir, Repositories: f.Repositories, StateDir: f.StateDir, TempDir: f.TempDir,
		InventoryHosts: f.InventoryHosts, ProtectedFiles: f.ProtectedFiles, VolumesDirs: f.VolumesDirs,
		OwnAPI: f.OwnAPI, OwnPaths: f.OwnPaths, OwnSecrets: f.OwnSecrets, WebHosts: f.WebHosts, DryRun: f.DryRun, HandoffMode: f.HandoffMode,
	}
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
