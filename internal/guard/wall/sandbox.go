//go:build linux

// Package wall builds the layers an operator can put around the processes of an agent: a user of its own for each tier,
// and a bubblewrap profile with its own mounts and processes. A layer that is switched on and cannot be set up is an error:
// nothing here ever falls back to less.
//
// For one session the calls are Check, Prepare (after the agent's folders and files were written), Wrap, the run itself,
// and Collect.
package wall

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"claudeops/internal/ops"
)

// Names inside the state folder of an environment.
const (
	agentFolder    = "agent"
	exchangeFolder = "exchange"
	handoffName    = "handoff.json"
	cooldownName   = "cooldown.json"
)

// Config says which layers are on and what an agent may reach through them. All paths are absolute.
type Config struct {
	UIDs       map[ops.Tier]int // the user each tier runs as; 0 or missing leaves the layer off
	Bubblewrap bool
	Bwrap      string   // the program; "bwrap" when empty
	Relay      []string // the program, and its first arguments, that calls Relay with the rest of its arguments
	NoNetwork  bool     // under bubblewrap: no network at all

	StateDir       string   // of the environment
	RootDir        string   // the supervisor's own state folder when StateDir is a part of it; StateDir when empty
	OtherStateDirs []string // of the other environments: their own sandboxes look after them
	WorkDir        string   // the agents' working folder; writable
	TempDir        string   // a temporary folder that is shared with the host; a private /tmp when empty
	ReposDir       string   // read-only below Tier 2
	VolumesDirs    []string // empty for every agent
	Hidden         []string // more folders and files that agents do not get to see
	ExtraReadOnly  []string // seen in spite of what is hidden: sockets to connect to, programs
	ExtraReadWrite []string // writable beside the agent's own folders
}

// Command is a program as it has to be started.
type Command struct {
	Path       string
	Argv       []string // with the name of the program
	Env        []string
	Dir        string
	Credential *syscall.Credential // nil: as ourselves
}

// LayerError says which layer cannot be set up, why, and what to do about it.
type LayerError struct {
	Layer string
	Why   string
	Fix   string
}

func (e *LayerError) Error() string {
	return fmt.Sprintf("the sandbox layer %q cannot be set up: %s; %s", e.Layer, e.Why, e.Fix)
}

// The names of the layers, as an operator reads them.
const (
	LayerUID        = "uid"
	LayerBubblewrap = "bubblewrap"
)

// Sandbox puts agents behind the configured layers.
type Sandbox struct {
	c Config

	mu    sync.Mutex
	tried map[ops.Tier]bool // where the namespaces were made once
}

// New makes a sandbox. It looks at nothing yet: Check does.
func New(c Config) *Sandbox {
	if c.Bwrap == "" {
		c.Bwrap = "bwrap"
	}
	if c.RootDir == "" {
		c.RootDir = c.StateDir
	}
	return &Sandbox{c: c, tried: make(map[ops.Tier]bool)}
}

// Layers names the layers that are on for a tier.
func (s *Sandbox) Layers(tier ops.Tier) []string {
	var out []string
	if s.c.UIDs[tier] != 0 {
		out = append(out, LayerUID)
	}
	if s.c.Bubblewrap {
		out = append(out, LayerBubblewrap)
	}
	return out
}

// Wrap turns the command of an agent into one that runs behind the layers of its tier. Prepare comes first.
func (s *Sandbox) Wrap(tier ops.Tier, path string, argv, env []string, dir string) (Command, error) {
	cmd := Command{Path: path, Argv: argv, Env: env, Dir: dir}
	if len(s.Layers(tier)) == 0 {
		return cmd, nil
	}
	if err := s.known(tier); err != nil {
		return Command{}, err
	}
	if uid := s.c.UIDs[tier]; uid != 0 {
		who, err := lookUp(uid)
		if err != nil {
			return Command{}, err
		}
		cmd.Credential = who.credential()
	}
	if s.c.TempDir != "" {
		cmd.Env = withVariable(env, "TMPDIR", s.c.TempDir)
	}
	if !s.c.Bubblewrap {
		return cmd, nil
	}
	bwrap, err := s.findBwrap()
	if err != nil {
		return Command{}, err
	}
	args, err := s.profile(tier, path, dir, true)
	if err != nil {
		return Command{}, err
	}
	if s.c.TempDir == "" {
		cmd.Env = withVariable(env, "TMPDIR", "/tmp")
	}
	args = append(args, "--", path)
	if len(argv) > 1 {
		args = append(args, argv[1:]...)
	}
	cmd.Path, cmd.Dir = s.c.Relay[0], "/"
	cmd.Argv = slices.Concat(s.c.Relay, []string{bwrap}, args)
	return cmd, nil
}

// known refuses what no profile was made for.
func (s *Sandbox) known(tier ops.Tier) error {
	if !tier.Known() {
		return fmt.Errorf("set up sandbox: there is no %s", tier)
	}
	for _, dir := range slices.Concat([]string{s.c.StateDir, s.c.RootDir}, s.grants()) {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("set up sandbox: %q is no absolute path", dir)
		}
	}
	if !inside(s.c.StateDir, s.c.RootDir) {
		return fmt.Errorf("set up sandbox: the state folder %s does not lie in %s", s.c.StateDir, s.c.RootDir)
	}
	return nil
}

// ownFolders are what an agent has for itself in the state folder, beside the working folder.
func (s *Sandbox) ownFolders() []string {
	agent := filepath.Join(s.c.StateDir, agentFolder)
	return []string{
		filepath.Join(agent, "home"), filepath.Join(agent, "config"), filepath.Join(agent, "work"), s.exchange(),
	}
}

func (s *Sandbox) exchange() string { return filepath.Join(s.c.StateDir, agentFolder, exchangeFolder) }

// grants are all folders that an agent may write to, whatever its tier.
func (s *Sandbox) grants() []string {
	out := s.ownFolders()
	for _, dir := range slices.Concat([]string{s.c.WorkDir, s.c.TempDir}, s.c.ExtraReadWrite) {
		if dir != "" && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// inside reports whether path is dir or lies below it.
func inside(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || dir == string(os.PathSeparator) || strings.HasPrefix(path, dir+string(os.PathSeparator))
}

// withVariable returns the environment with one variable set anew.
func withVariable(env []string, name, value string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	return append(out, name+"="+value)
}
