package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/process"
	"claudeops/internal/api/situation"
	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// walls returns the walls of each environment. Where all are off, what is in front of a session still ends with everything it started.
func (p *plan) walls() func(environment string) agent.Walls {
	byName := map[string]agent.Walls{}
	for _, e := range p.envs {
		w := &sandboxed{
			Sandbox: p.sandboxes[e.Name], environment: e.Name, gates: gateDir(p.Config),
			events: p.store.Journal, log: p.Logger, limits: sessionLimits(p.Config.Guard.Sandbox), networks: &p.networks, clones: lender{p}.clonesOf,
		}
		byName[e.Name] = w
	}
	return func(environment string) agent.Walls { return byName[environment] }
}

// sessionLimits are what the processes of a session may use. Half of the machine's memory stays for what the session looks after.
func sessionLimits(s config.Sandbox) process.Limits {
	if s.Mode == config.SandboxOff {
		return process.Limits{}
	}
	return process.Limits{Processes: s.Processes, Memory: machineMemory() / 2}
}

// Walls are the walls around the agents of an environment. Self is the path of this program.
func Walls(c *config.Config, e ops.Environment, self string) *wall.Sandbox {
	return wall.New(wallConfig(c, e, self))
}

func wallConfig(c *config.Config, e ops.Environment, self string) wall.Config {
	s := c.Guard.Sandbox
	uids := map[ops.Tier]int{}
	for t := ops.Tier1; t <= ops.LastTier && s.UID != 0; t++ {
		uids[t] = s.UID
	}
	var others []string
	for _, o := range c.Environments() {
		if o.Name != e.Name {
			others = append(others, o.StateDir)
		}
	}
	on := s.Mode != config.SandboxOff
	engines := engineSockets(c, e)
	out := wall.Config{
		UIDs: uids, Relay: []string{self, relay.Word},
		Confine: on, Required: s.Mode == config.SandboxRequired, Network: s.Networked(),
		StateDir: e.StateDir, RootDir: c.StateDir, OtherStateDirs: others, WorkDir: e.WorkDir, ReposDir: e.ReposDir,
		VolumesDirs: Protected(c, e).Volumes, ExtraReadOnly: []string{gateDir(c), self}, Programs: c.Programs(),
		AgentFolders: s.Folders, Named: s.Writable, Readable: s.Readable, Clones: ruleRepositories(c),
		Hidden:   slices.Concat(s.Hidden, c.SecretFiles(), environmentFiles(unitFiles()), engines),
		Lent:     ruleLoans(c),
		Secret:   guard.Secrets(),
		ReadOnly: protectedFiles(c, e), Own: append(ownFiles(c), self), Sockets: append(engines, filepath.Join(c.StateDir, "control.sock")),
	}
	if on {
		out.ExtraReadOnly, out.Gates = []string{self}, gateDir(c)
	}
	if c.Agent.Scripted() && filepath.IsAbs(c.Agent.Scenario) {
		out.ExtraReadOnly = append(out.ExtraReadOnly, c.Agent.Scenario)
	}
	return out
}

// ruleRepositories are the clones that the operator's rules name. Rules that cannot be read are reported where they are used.
func ruleRepositories(c *config.Config) []string {
	rules, _ := Rules(c)
	var out []string
	for _, r := range rules {
		out = append(out, r.Repositories...)
	}
	return out
}

// ruleLoans are the places that the operator's rules open to their commands.
func ruleLoans(c *config.Config) []wall.Loan {
	rules, _ := Rules(c) // reported where they are used
	var out []wall.Loan
	for _, r := range rules {
		for _, path := range r.Writable {
			out = append(out, wall.Loan{Path: path, Tier: r.Tier})
		}
	}
	return out
}

// checkLoans refuses rules that open a place which no command may change, or where nothing would keep other commands from it.
func checkLoans(c *config.Config, rules []guard.Rule, self string) error {
	var problems []config.Problem
	for _, r := range rules {
		for i, path := range r.Writable {
			message, fix := loanProblem(c, r, path, self)
			if message != "" {
				problems = append(problems, config.Problem{
					Where: fmt.Sprintf("%s:%d", c.Guard.Rules.Path, r.Line()), Key: fmt.Sprintf("rule %s: writable[%d]", r.ID, i),
					Message: message, Fix: fix,
				})
			}
		}
	}
	if problems != nil {
		return &config.Error{Problems: problems}
	}
	return nil
}

func loanProblem(c *config.Config, r guard.Rule, path, self string) (message, fix string) {
	const otherwise = "or remove writable and let an action of the service do it"
	for _, e := range c.Environments() {
		box := Walls(c, e, self)
		if !box.WallsCommands() {
			return "no wall is put around single commands here, so every command could change " + path,
				"set sandbox.mode: auto on Linux 5.13 or newer with Landlock, " + otherwise
		}
		for _, h := range e.Policy.Handlers {
			gated := h.Agent == claudeAgent && !c.Agent.Scripted() || h.Agent == codexAgent && box.GatesShells(h.May()) || h.Human()
			if h.May() >= r.Tier && !gated {
				return fmt.Sprintf("the commands of the handler %s (agent %s) have no walls of their own, so all could change it", h.ID, h.Agent),
					"give its work to claude, or to codex behind bubblewrap, " + otherwise
			}
		}
		if err := box.Lendable(path); err != nil {
			return err.Error(), "name a folder that belongs to this command alone, by its real path"
		}
	}
	return "", ""
}

// Protected is what no tier of an environment changes, with what the operator's rules name.
func Protected(c *config.Config, e ops.Environment) ops.Protected {
	rules, _ := Rules(c) // reported where they are used
	out := e.Protected
	for _, r := range rules {
		out.Files, out.Volumes = slices.Concat(out.Files, r.Protected), slices.Concat(out.Volumes, r.Volumes)
	}
	return out
}

// protectedFiles finds the inventory in the repositories: no tier may change it.
func protectedFiles(c *config.Config, e ops.Environment) []string {
	var out []string
	for _, name := range Protected(c, e).Files {
		if filepath.IsAbs(name) {
			out = append(out, name)
			continue
		}
		for _, pattern := range []string{name, filepath.Join("*", name)} {
			found, err := filepath.Glob(filepath.Join(e.ReposDir, pattern))
			if err == nil && e.ReposDir != "" {
				out = append(out, found...)
			}
		}
	}
	return out
}

// sandboxed adapts a sandbox to the interface of the agent.
type sandboxed struct {
	*wall.Sandbox

	environment string
	gates       string // where the sockets of sessions are
	limits      process.Limits
	networks    *networks
	clones      func(key string) (*wall.Clones, error)
	events      *store.Journal
	log         *slog.Logger
}

func (w *sandboxed) Prepare(tier ops.Tier) error {
	if err := w.Check(tier); err != nil {
		return err
	}
	return w.Sandbox.Prepare(tier)
}

func (w *sandboxed) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	session := sessionOf(p, w.gates)
	session.Needs = p.Needs
	session.LookOnly = agent.Variable(p.Env, "CLAUDEOPS_DRY_RUN") == "true"
	session.Net = w.networks.of(session.ID)
	var err error
	if session.Clones, err = w.clones(session.ID); err != nil {
		return p, err
	}
	if err := w.PrepareSession(tier, session); err != nil {
		return p, err
	}
	p.Limits = w.limits
	out, err := w.WrapSession(tier, session, wall.Command{Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir})
	if session.ID != "" && w.Confines() {
		event := sessionEvent(p, w.environment)
		p.Proof = func(line string) (bool, error) { return w.proof(tier, event, line) }
	}
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}

func (w *sandboxed) Hides(tier ops.Tier, p agent.Program) func(path string) bool {
	session := sessionOf(p, w.gates)
	session.Needs = p.Needs
	return w.Sandbox.Hides(tier, session, p.Path)
}

// proof records what the walls of a session reported.
func (w *sandboxed) proof(tier ops.Tier, event ops.Event, line string) (mine bool, err error) {
	text, mine, err := w.Verdict(tier, line)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var bad error
	switch {
	case w.events == nil: // a trial, which says itself what it found
	case err != nil:
		event.Level, event.Reason = ops.LevelCritical, err.Error()
		_, bad = w.events.AddEvent(ctx, event)
	case event.SessionID != nil:
		bad = w.events.WallsHeld(ctx, *event.SessionID, text)
	}
	if bad != nil {
		w.log.WarnContext(ctx, "the trial of a session's walls could not be recorded", "error", bad)
	}
	return mine, err
}

// sessionEvent is an event of the session that a program is for.
func sessionEvent(p agent.Program, environment string) ops.Event {
	event := ops.Event{Environment: environment, Verb: ops.VerbWallsBroken}
	if id, err := strconv.ParseInt(agent.Variable(p.Env, "CLAUDEOPS_SESSION_ID"), 10, 64); err == nil {
		event.SessionID = ops.Ptr(ops.SessionID(id))
	}
	if id, err := strconv.ParseInt(agent.Variable(p.Env, "CLAUDEOPS_CYCLE_ID"), 10, 64); err == nil {
		event.CycleID = ops.Ptr(ops.CycleID(id))
	}
	return event
}

// engineSockets are the sockets of Docker that an environment's agents could know.
func engineSockets(c *config.Config, e ops.Environment) []string {
	out := []string{"/run/docker.sock"}
	if c.Docker.Socket != "" && !slices.Contains(out, c.Docker.Socket) {
		out = append(out, c.Docker.Socket)
	}
	if path, local := strings.CutPrefix(agent.Variable(e.AgentEnv, dockerHost), "unix://"); local && c.Docker.Broker != config.DockerOff {
		out = append(out, path)
	}
	return out
}

// sessionOf reads from the environment of a program which session it is for.
func sessionOf(p agent.Program, gates string) wall.Session {
	s := wall.Session{ID: agent.Variable(p.Env, process.KeyName)}
	if prefix := agent.Variable(p.Env, "CLAUDE_CODE_SHELL_PREFIX"); prefix != "" {
		s.Gate = filepath.Dir(prefix)
	} else if gate := agent.Variable(p.Env, confine.GateVariable); gate != "" {
		s.Gate, s.Shells = gate, true
	} else {
		s.Ungated = true
		// It asks no gate about its commands, but it reaches the supervisor's tools there.
		if socket := agent.Variable(p.Env, "CLAUDEOPS_TOOL_SOCKET"); strings.HasPrefix(socket, gates+"/") {
			s.Gate = filepath.Dir(socket)
		}
	}
	// Another socket is one that the operator passed on; its folder is not the session's.
	if socket, local := strings.CutPrefix(agent.Variable(p.Env, dockerHost), "unix://"+gates+"/"); local {
		s.Docker = filepath.Join(gates, filepath.Dir(socket))
	}
	state := agent.Variable(p.Env, "CLAUDEOPS_STATE_DIR")
	for _, name := range []string{"HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		if dir := agent.Variable(p.Env, name); state != "" && strings.HasPrefix(dir, filepath.Join(state, "agent")+"/") {
			s.Folders = append(s.Folders, dir)
		}
	}
	if p.Dir != "" {
		s.Folders = append(s.Folders, p.Dir)
	}
	return s
}

const (
	claudeAgent   = "claude"
	codexAgent    = "codex" // it starts shells itself
	scriptedAgent = "scripted"
)

// confineCommands puts a wall around every command of a session, and returns what tells whether something is not visible behind it.
func (g *gates) confineCommands(
	opened *gate.Session, env ops.Environment, s ops.Session, session wall.Session,
) (unseen func(path string) bool) {
	sandbox := g.p.sandboxes[env.Name]
	if s.Agent == codexAgent {
		session.Gate = filepath.Dir(opened.Socket()) // the real shell is mounted there
	}
	if w := sandbox.Command(s.May(), session); w != nil {
		opened.Confine(w, sandbox.CommandEnv(session), sandbox.Lent(s.May(), session))
	}
	unseen = sandbox.Unseen(s.May(), session)
	opened.Hide(unseen)
	return unseen
}

// walled tells the paths that the walls of a session may refuse from those that it may change.
func (g *gates) walled(env ops.Environment, s ops.Session, session wall.Session) func(path string) bool {
	w := g.p.sandboxes[env.Name].Command(s.May(), session)
	if w == nil {
		return nil
	}
	return func(path string) bool {
		return !slices.ContainsFunc(w.Write, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	}
}

// newSandboxes makes the walls of all environments, also where none are on.
func newSandboxes(o Options, envs []ops.Environment) map[string]*wall.Sandbox {
	out := map[string]*wall.Sandbox{}
	for _, e := range envs {
		out[e.Name] = Walls(o.Config, e, o.Self)
	}
	return out
}

// noteFloor tells the handlers of an environment which of the walls that tiers above the first need does not stand, and returns it. The
// scripted agent does what its scenario says, so nobody is asked about it.
func noteFloor(e *ops.Environment, box *wall.Sandbox) (lacks string) {
	lacks = cmp.Or(box.Lacks(ops.Tier2), KeyInside(e.AgentEnv))
	e.Policy.Handlers = slices.Clone(e.Policy.Handlers)
	for i, h := range e.Policy.Handlers {
		if h.Agent != scriptedAgent {
			e.Policy.Handlers[i].Unwalled = lacks
		}
	}
	return lacks
}

// AroundAgents are the walls around the agents of an environment on this machine, the floor first.
func AroundAgents(e ops.Environment, box *wall.Sandbox) []situation.Wall {
	floor := situation.Wall{Name: situation.Floor, State: "on", Detail: "all that Tier 2 and 3 need stands"}
	if lacks := noteFloor(&e, box); lacks != "" {
		floor.State, floor.Missing, floor.Detail = "missing", true, lacks+", so a person is asked before every session above Tier 1"
		if !slices.ContainsFunc(e.Policy.Handlers, func(h ops.Handler) bool { return h.Lacks() != "" }) {
			floor.Detail = lacks + "; nobody is asked, because the scripted agent does only what its scenario says"
		}
	}
	out := []situation.Wall{floor}
	for _, row := range box.Report(ops.Tier2) {
		w := situation.Wall{Name: row.Wall, State: row.State, Detail: row.Detail, Missing: row.Missing, Open: row.Open}
		if row.Fix != "" {
			w.Detail += "; " + row.Fix
		}
		out = append(out, w)
	}
	return out
}

// tellWalls says once at start what stands around agents.
func (p *plan) tellWalls(ctx context.Context) {
	for _, e := range p.mine {
		text, hole := situation.Walls(AroundAgents(e, p.sandboxes[e.Name]))
		level := slog.LevelInfo
		if hole {
			level = slog.LevelWarn
		}
		p.Logger.Log(ctx, level, "walls around agents", "environment", e.Name, "walls", text)
	}
}

// wallRows are the walls of this host as the pages show them. Those of its other environments are the same.
func (p *plan) wallRows() []situation.Wall {
	if len(p.mine) == 0 {
		return nil
	}
	return AroundAgents(p.mine[0], p.sandboxes[p.mine[0].Name])
}
