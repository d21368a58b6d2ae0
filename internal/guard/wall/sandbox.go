// Package wall builds the layers of the operating system around the processes of an agent: a user of its own for each tier, a
// bubblewrap profile with its own mounts, and Landlock, seccomp and limits around the agent and around each of its commands. A user that
// cannot be had is an error. The other layers may be missing, unless all are required; Report says which are.
//
// For one session the calls are Check, Prepare (after the agent's folders and files were written), Wrap, the run itself,
// and Collect.
package wall

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
)

// Names inside the state folder of an environment.
const (
	agentFolder    = "agent"
	exchangeFolder = "exchange"
	tempFolder     = "tmp"
	clonesFolder   = "clones"
	handoffName    = "handoff.json"
	cooldownName   = "cooldown.json"
)

// Config says which layers are on and what an agent may reach through them. All paths are absolute.
type Config struct {
	UIDs map[ops.Tier]int // the user each tier runs as; 0 or missing leaves the layer off
	// Confine puts Landlock, seccomp, limits and the loss of all capabilities around the agent and around each of its commands, and the
	// agent into bubblewrap where that works. It still sees all processes.
	Confine bool
	// Required accepts no missing wall.
	Required bool
	Bwrap    string   // the program; "bwrap" when empty
	Relay    []string // the program, and its first arguments, that calls Relay with the rest of its arguments
	// Network: sessions reach the network through the supervisor only.
	Network bool

	StateDir       string   // of the environment
	RootDir        string   // the supervisor's own state folder when StateDir is a part of it; StateDir when empty
	OtherStateDirs []string // of the other environments: their own sandboxes look after them
	WorkDir        string   // the agents' working folder; writable
	ReposDir       string   // read-only below Tier 2
	VolumesDirs    []string // of data; no command is lent one
	Readable       []string // more that every session may read, beside the system's files, logs and the repositories
	Clones         []string // the same for clones beside ReposDir
	// Secret tells by the name of a file in a clone, and that of its folder, that it may hold secrets; nil: none does.
	Secret         func(path string) bool
	Hidden         []string // more folders and files that agents do not get to see, also where they lie in something readable
	ExtraReadOnly  []string // seen in spite of what is hidden: sockets to connect to, programs
	Programs       string   // the same for a folder that need not be there
	ExtraReadWrite []string // writable beside the agent's own folders
	AgentFolders   []string // writable for the program of the agent, but not for its commands behind a gate
	Gates          string   // where the sockets of all sessions are; a session sees its own
	Named          []string // writable from Tier 3 on
	Lent           []Loan   // writable for single commands
	ReadOnly       []string // files inside writable folders that nothing may change; held by mounts only
	Own            []string // files of the supervisor that nothing may change, nor move the folders they lie in; real paths
	Sockets        []string // of the supervisor; each session tries that it cannot reach them
}

// Loan is a folder or file that a rule of the operator lets its command change, from a tier on.
type Loan struct {
	Path string
	Tier ops.Tier
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
	LayerLandlock   = "landlock"
)

// Sandbox puts agents behind the configured layers.
type Sandbox struct {
	c Config

	mu      sync.Mutex
	seen    []string // what is closed to the session seenBy
	seenBy  string
	folders map[string]folder // of clones, where secret files were looked for
	auto    map[int]error     // why bubblewrap cannot be used, by the user that agents run as
	net     map[int]error     // the same of network namespaces
}

// New makes a sandbox. It looks at nothing yet: Check does.
func New(c Config) *Sandbox {
	c.Bwrap = cmp.Or(c.Bwrap, "bwrap")
	c.RootDir = cmp.Or(c.RootDir, c.StateDir)
	return &Sandbox{c: c, auto: make(map[int]error), net: make(map[int]error)}
}

// Layers names the layers that are on for a tier.
func (s *Sandbox) Layers(tier ops.Tier) []string {
	var out []string
	if s.c.UIDs[tier] != 0 {
		out = append(out, LayerUID)
	}
	if s.Mounts(tier) {
		out = append(out, LayerBubblewrap)
	}
	if s.c.Confine && confine.LandlockVersion() > 0 {
		out = append(out, LayerLandlock)
	}
	return out
}

// Confines reports whether sessions try their walls.
func (s *Sandbox) Confines() bool { return s.c.Confine }

// on reports whether any wall is on.
func (s *Sandbox) on(tier ops.Tier) bool { return s.c.Confine || len(s.Layers(tier)) > 0 }

// Wrap turns the command of an agent into one that runs behind the layers of its tier. Prepare comes first.
func (s *Sandbox) Wrap(tier ops.Tier, path string, argv, env []string, dir string) (Command, error) {
	return s.WrapSession(tier, Session{}, Command{Path: path, Argv: argv, Env: env, Dir: dir})
}

// WrapSession does the same for a session whose own folders are known. A session with an id tries its walls before the agent starts:
// Verdict reads the first line of its output.
func (s *Sandbox) WrapSession(tier ops.Tier, session Session, cmd Command) (Command, error) {
	if !s.on(tier) {
		return s.inFront(cmd), nil
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
	program := cmd.Path
	if dir, err := filepath.EvalSymlinks(filepath.Dir(program)); err == nil && s.Mounts(tier) {
		cmd.Path = filepath.Join(dir, filepath.Base(program)) // links to its folder may lie in what is hidden
	}
	cmd.Env = s.environment(session, cmd.Env)
	if s.c.Confine {
		plan, err := s.plan(tier, session, program)
		if err == nil {
			err = s.confine(&cmd, plan)
		}
		if err != nil {
			return Command{}, err
		}
	}
	if !s.Mounts(tier) {
		return s.inFront(cmd), nil
	}
	return s.inNamespaces(tier, session, program, cmd)
}

// environment names the temporary folder of a session.
func (s *Sandbox) environment(session Session, env []string) []string {
	own := s.Temp(session)
	if own == "" || !s.c.Confine {
		return env
	}
	return withVariable(withVariable(env, "CLAUDE_CODE_TMPDIR", own), "TMPDIR", own)
}

// confine makes a command one that puts itself behind walls first.
func (s *Sandbox) confine(cmd *Command, plan confine.Plan) error {
	if len(s.c.Relay) == 0 {
		return &LayerError{Layer: LayerLandlock, Why: "no program is named that sets it up", Fix: "set the relay"}
	}
	argv, err := confine.Arguments(s.c.Relay[0], plan, cmd.Path, cmd.Argv)
	if err != nil {
		return err
	}
	cmd.Path, cmd.Argv = s.c.Relay[0], argv
	return nil
}

// inFront puts the relay in front of a command, which ends everything that the command leaves.
func (s *Sandbox) inFront(cmd Command) Command {
	if len(s.c.Relay) > 0 {
		cmd.Argv = slices.Concat(s.c.Relay, []string{relay.Plain, cmd.Path}, cmd.Argv[min(1, len(cmd.Argv)):])
		cmd.Path = s.c.Relay[0]
	}
	return cmd
}

// inNamespaces makes a command one that runs in bubblewrap, with a relay in front of it.
func (s *Sandbox) inNamespaces(tier ops.Tier, session Session, program string, cmd Command) (Command, error) {
	bwrap, err := s.findBwrap()
	if err != nil {
		return Command{}, err
	}
	args, err := s.profile(tier, session, program, cmd.Dir)
	if err != nil {
		return Command{}, err
	}
	args = append(args, "--", cmd.Path)
	if len(cmd.Argv) > 1 {
		args = append(args, cmd.Argv[1:]...)
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
	for _, dir := range slices.Concat([]string{s.c.WorkDir}, s.c.ExtraReadWrite) {
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
