package daemon

import (
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
	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// walls returns the walls of each environment; nil when none is switched on.
func (h *Host) walls() func(environment string) agent.Walls {
	if !wallsOn(h.Config) {
		return nil
	}
	byName := map[string]agent.Walls{}
	for name, s := range h.sandboxes {
		byName[name] = &sandboxed{
			Sandbox: s, environment: name, gates: gateDir(h.Config), unwalled: h.Config.Guard.Sandbox.Unwalled, events: h.store, log: h.Logger,
			limits: sessionLimits(h.Config.Guard.Sandbox), networks: &h.networks,
		}
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

func wallsOn(c *config.Config) bool {
	s := c.Guard.Sandbox
	return s.Walled() || s.UID != 0
}

// Walls are the walls around the agents of an environment. Self is the path of this program.
func Walls(c *config.Config, e ops.Environment, self string) *wall.Sandbox {
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
		UIDs: uids, Bubblewrap: s.Bubblewrap == "on", Relay: []string{self, relay.Word},
		Confine: on, Auto: on && s.Bubblewrap == "auto", Required: s.Mode == config.SandboxRequired, Network: s.Networked(),
		StateDir: e.StateDir, RootDir: c.StateDir, OtherStateDirs: others, WorkDir: e.WorkDir, ReposDir: e.ReposDir,
		VolumesDirs: c.Guard.Volumes, ExtraReadOnly: []string{gateDir(c), self}, Programs: c.Programs(),
		AgentFolders: s.Folders, Named: s.Writable, Readable: append(ruleRepositories(c), s.Readable...),
		Hidden:   slices.Concat(s.Hidden, c.SecretFiles(), environmentFiles(unitFiles()), engines),
		Lent:     ruleLoans(c),
		ReadOnly: protectedFiles(c, e), Own: append(ownFiles(c), self), Sockets: append(engines, filepath.Join(c.StateDir, "control.sock")),
	}
	if on {
		out.ExtraReadOnly, out.Gates = []string{self}, gateDir(c)
	}
	if c.Agent.Scripted() && filepath.IsAbs(c.Agent.Scenario) {
		out.ExtraReadOnly = append(out.ExtraReadOnly, c.Agent.Scenario)
	}
	return wall.New(out)
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

// protectedFiles finds the inventory in the repositories: no tier may change it.
func protectedFiles(c *config.Config, e ops.Environment) []string {
	var out []string
	for _, name := range c.Guard.Protected {
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
	unwalled    config.Unwalled
	limits      process.Limits
	networks    *networks
	events      *store.Store
	log         *slog.Logger
}

func (w *sandboxed) Prepare(tier ops.Tier) error {
	if tier > ops.Tier1 && w.unwalled == config.UnwalledRefuse && !w.Walled(tier) {
		return fmt.Errorf("this machine lacks walls that %s needs, and sandbox.unwalled is refuse: run claudeops doctor", tier)
	}
	if err := w.Check(tier); err != nil {
		return err
	}
	return w.Sandbox.Prepare(tier)
}

func (w *sandboxed) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	session := sessionOf(p, w.gates)
	session.LookOnly = agent.Variable(p.Env, "CLAUDEOPS_DRY_RUN") == "true"
	session.Net = w.networks.of(session.ID)
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

// proof records what the walls of a session reported.
func (w *sandboxed) proof(tier ops.Tier, event ops.Event, line string) (mine bool, err error) {
	event.Level = ops.LevelInfo
	text, mine, err := w.Verdict(tier, line)
	event.Message = ops.Render(text)
	if err != nil {
		event.Level, event.Verb = ops.LevelCritical, ops.VerbWallsBroken
		event.Message = ops.Render("The session was stopped: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, bad := w.events.AddEvent(ctx, event); bad != nil {
		w.log.WarnContext(ctx, "the trial of a session's walls could not be recorded", "error", bad)
	}
	return mine, err
}

// sessionEvent is an event of the session that a program is for.
func sessionEvent(p agent.Program, environment string) ops.Event {
	event := ops.Event{Environment: environment, Verb: ops.VerbWallsHold}
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
	claudeAgent = "claude"
	codexAgent  = "codex" // it starts shells itself
)

// confineCommands puts a wall around every command of a session.
func (g *gates) confineCommands(opened *gate.Session, env ops.Environment, s ops.Session, dryRun bool) {
	sandbox := g.sandboxes[env.Name]
	if sandbox == nil {
		return
	}
	session := wall.Session{ID: s.Key, LookOnly: dryRun}
	if s.Agent == codexAgent {
		session.Gate = filepath.Dir(opened.Socket()) // the real shell is mounted there
	}
	if w := sandbox.Command(s.May(), session); w != nil {
		opened.Confine(w, sandbox.CommandEnv(session), sandbox.Lent(s.May(), session))
	}
}

// walled tells the paths that the walls of a session may refuse from those that it may change.
func (g *gates) walled(env ops.Environment, s ops.Session, dryRun bool) func(path string) bool {
	sandbox := g.sandboxes[env.Name]
	if sandbox == nil {
		return nil
	}
	w := sandbox.Command(s.May(), wall.Session{ID: s.Key, LookOnly: dryRun})
	if w == nil {
		return nil
	}
	return func(path string) bool {
		return !slices.ContainsFunc(w.Write, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	}
}

// newSandboxes makes the walls of all environments; none when they are off.
func newSandboxes(o Options, envs []ops.Environment) map[string]*wall.Sandbox {
	out := map[string]*wall.Sandbox{}
	for _, e := range envs {
		if wallsOn(o.Config) {
			out[e.Name] = Walls(o.Config, e, o.Self)
		}
	}
	return out
}

// askWhereUnwalled makes every tier above the first one ask a human where this machine lacks the walls that it needs.
func askWhereUnwalled(c *config.Config, envs []ops.Environment, sandboxes map[string]*wall.Sandbox) {
	if s := c.Guard.Sandbox; s.Mode == config.SandboxOff || s.Unwalled != config.UnwalledAsk {
		return
	}
	for i := range envs {
		p := &envs[i].Policy
		if w := sandboxes[envs[i].Name]; w != nil && !w.Walled(ops.Tier2) && (p.ApprovalTier == 0 || p.ApprovalTier > ops.Tier2) {
			p.ApprovalTier = ops.Tier2
		}
	}
}

// tellWalls says once at start which walls are on and which are missing.
func (h *Host) tellWalls(ctx context.Context) {
	if h.Config.Guard.Sandbox.Mode == config.SandboxOff {
		h.Logger.WarnContext(ctx, "the sandbox is off: only the guard's judgement keeps commands of agents from this machine")
		return
	}
	for _, e := range h.mine {
		var on, missing []string
		for _, row := range h.sandboxes[e.Name].Report(ops.Tier2) {
			switch {
			case row.Missing:
				missing = append(missing, row.Wall)
			case row.State == "on":
				on = append(on, row.Wall)
			}
		}
		if len(missing) == 0 {
			h.Logger.InfoContext(ctx, "walls around agents", "environment", e.Name, "on", strings.Join(on, ", "))
			continue
		}
		h.Logger.WarnContext(ctx, "walls around agents are missing on this machine; 'claudeops doctor' says why",
			"environment", e.Name, "on", strings.Join(on, ", "), "missing", strings.Join(missing, ", "),
			"above_tier_1", string(h.Config.Guard.Sandbox.Unwalled))
	}
}

// wallRows are the walls of this host as the configuration page shows them.
func (h *Host) wallRows() []web.Wall {
	if len(h.mine) == 0 {
		return nil
	}
	// The walls of the other environments are the same.
	w := h.sandboxes[h.mine[0].Name]
	if w == nil {
		return []web.Wall{{Name: "all", State: "off", Detail: "sandbox.mode is off: only the guard's judgement holds agents", Missing: true}}
	}
	var out []web.Wall
	for _, row := range w.Report(ops.Tier2) {
		detail := row.Detail
		if row.Fix != "" {
			detail += "; " + row.Fix
		}
		if row.Open {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			if hosts, err := Beyond(ctx, h.store, h.Config, h.Clock()); err == nil {
				detail += "; " + BeyondText(hosts)
			}
			cancel()
		}
		out = append(out, web.Wall{Name: row.Wall, State: row.State, Detail: detail, Missing: row.Missing, Open: row.Open})
	}
	return out
}
