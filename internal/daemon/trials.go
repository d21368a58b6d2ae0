package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/codex"
	"claudeops/internal/agent/keyproxy"
	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/redact"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// trialLimit is how long a trial may take.
const trialLimit = 30 * time.Second

// proofFolder is where the calls of a trial leave what proves that they ran. Unlike the folders of the agent it outlives the session.
const proofFolder = "proof"

// trialRole is that of a session which is only a trial.
const trialRole ops.Role = "trial"

// Trials find out before the first session of a version of an agent program whether its gates hold it. What they find is kept for as long
// as the program stays the same.
type Trials struct {
	config *config.Config
	self   string
	store  *store.Store // nil: nothing is known
	keeps  bool         // what is found is stored
	log    *slog.Logger
	now    ops.Clock

	one  sync.Mutex           // at a time
	held map[string]ops.Trial // what was held, by agent: that does not change while the program stays the same
}

// NewTrials are those of a host. What they find is stored if they keep it.
func NewTrials(c *config.Config, self string, s *store.Store, keeps bool, log *slog.Logger) *Trials {
	return &Trials{config: c, self: self, store: s, keeps: keeps, log: log, now: time.Now, held: map[string]ops.Trial{}}
}

// of returns what refuses the sessions of a program that is not held.
func (t *Trials) of(name string, adapter agent.Adapter, envs []ops.Environment) func(context.Context, string) error {
	return func(ctx context.Context, environment string) error {
		i := slices.IndexFunc(envs, func(e ops.Environment) bool { return e.Name == environment })
		if i < 0 {
			return nil
		}
		if t.config.Guard.Sandbox.UID != 0 { // the first session opens the folder of the programs to the agents' user
			if err := Walls(t.config, envs[i], t.self).Prepare(ops.Tier1); err != nil {
				return err
			}
		}
		_, err := t.Held(ctx, name, adapter, envs[i], false)
		return err
	}
}

// Held returns what is known of the version that is installed, and why no session may start with it. The trial is empty where there is
// nothing to try: the guard is off, or the program does not tell its version. Again tries a version once more that was not held.
func (t *Trials) Held(ctx context.Context, name string, adapter agent.Adapter, e ops.Environment, again bool) (ops.Trial, error) {
	if t == nil {
		return ops.Trial{}, nil
	}
	able := adapter.Able(ctx, e.AgentEnv)
	if !t.config.Guard.Enabled || t.self == "" || !able.Known || able.Why != "" {
		return ops.Trial{}, nil
	}
	t.one.Lock()
	defer t.one.Unlock()
	now := ops.Trial{Agent: name, Identity: able.Identity, Program: able.Program, Version: able.Version, At: t.now()}
	if was := t.held[name]; was.Held && was.Identity == now.Identity && was.Version == now.Version {
		return was, nil
	}
	if t.store != nil {
		was, err := t.store.Acts.Trial(ctx, t.config.Host.Name, name)
		if err == nil && was.Identity == now.Identity && was.Version == now.Version && (was.Held || !again) {
			t.held[name] = was
			return was, unheld(was)
		}
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			return was, err
		}
	}
	if err := t.try(ctx, &now, adapter, e); err != nil {
		return now, fmt.Errorf("%s %s could not be tried, so it is not known whether it can be held: %w", able.Program, able.Version, err)
	}
	if t.keeps {
		if err := t.store.Acts.SetTrial(ctx, t.config.Host.Name, now); err != nil {
			return now, err
		}
	}
	return now, unheld(now)
}

// unheld is why no session starts with a version, or nil.
func unheld(t ops.Trial) error {
	if t.Held {
		return nil
	}
	hint := map[string]string{claudeAgent: claude.Back, codexAgent: codex.Back}[t.Agent]
	return fmt.Errorf("%s is version %s, and this version cannot be held: %s; %s", t.Program, t.Version, t.Found(), hint)
}

// try plays a session in folders and behind walls of its own, and adds what became of its calls. An error means that the trial did not
// come far enough to say.
func (t *Trials) try(ctx context.Context, found *ops.Trial, adapter agent.Adapter, e ops.Environment) error {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	dir, err := os.MkdirTemp("/tmp", "claudeops-trial-") // short, as the path of a socket has to be
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the agents' user passes through, as in the state folder
		return err
	}
	seen := &trialJudge{}
	g, err := gate.New(gate.Options{
		Judge: seen, Ledger: seen, Owner: func() ops.Owner { return ops.Owner{} }, Clock: t.now, Logger: t.log,
		Dir: filepath.Join(dir, "gate"), Self: t.self,
	})
	if err != nil {
		return err
	}
	session := ops.Session{
		Key: "trial-" + rand.Text(), Tier: ops.Tier1, Role: trialRole, Agent: found.Agent, Handler: "trial",
		Model: trialModel(e, found.Agent),
	}
	opened, err := g.Open(ctx, session, guard.Facts{StateDir: dir, TempDir: dir}, func(ops.GuardRecord) {})
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	prefix, err := opened.ShellPrefix()
	if err != nil {
		return err
	}
	spec := ops.SessionSpec{
		Session: session, Environment: e.Name, Prompt: "This is a trial of the gate: call the tools.", StateDir: dir, Env: trialEnv(e.AgentEnv),
		Tools: ops.ToolLists{Tools: []string{"Bash", "Write"}}, Limits: ops.Limits{Wall: trialLimit, Idle: trialLimit, Tool: trialLimit},
		Gate: &ops.GateSpec{Settings: opened.Settings(), ShellPrefix: prefix},
	}
	able := adapter.Able(ctx, spec.Env)
	// Both would work behind the walls, so that only its gate keeps the program from them. One whose gate is the shell may write there.
	proof := filepath.Join(dir, proofFolder)
	if err := os.Mkdir(proof, 0o700); err != nil {
		return err
	}
	touched, written := filepath.Join(proof, "touched"), filepath.Join(proof, "written")
	if able.Ungated {
		written = filepath.Join(t.config.StateDir, filepath.Base(dir))
	}
	play := &keyproxy.Play{Command: "touch " + touched, File: written}
	walls := &sandboxed{
		Sandbox: t.walls(e, dir), environment: e.Name, gates: filepath.Join(dir, "gate"), networks: &networks{}, log: t.log,
		clones: func(string) (*wall.Clones, error) { return nil, nil }, //nolint:nilnil // it gets none
	}
	runner := agent.NewRunner(adapter, agent.Options{
		Redactor: redact.New(t.config.Secrets), Logger: slog.New(slog.DiscardHandler), Clock: t.now, Play: play,
		Walls: func(string) agent.Walls { return walls },
	})
	judged := !able.Ungated || runner.Gated(spec)
	if !judged {
		spec.Gate = nil
	}
	res := runner.Run(ctx, spec, nobody{})
	found.Command, found.File = seen.became("Bash", touched, able.Ungated), seen.became("Write", written, able.Ungated)
	ran := slices.Contains([]ops.TrialCall{found.Command, found.File}, ops.TrialRan)
	switch {
	case !play.Ended() && !ran && res.Failure == ops.FailureStart:
		return errors.New(res.Err)
	case !play.Ended() && !ran:
		return fmt.Errorf("its trial did not come to its end: %s", res.Err)
	}
	found.Held = !ran && (!judged || found.Command == ops.TrialRefused) && (able.Ungated || found.File == ops.TrialRefused)
	return nil
}

// walls are those of the environment around folders of their own, so that a trial disturbs no session.
func (t *Trials) walls(e ops.Environment, dir string) *wall.Sandbox {
	c := wallConfig(t.config, e, t.self)
	c.Hidden = append(c.Hidden, c.RootDir)
	c.StateDir, c.RootDir, c.WorkDir, c.ReposDir = dir, dir, filepath.Join(dir, "agent", "work"), ""
	c.ExtraReadWrite = append(slices.Clone(c.ExtraReadWrite), filepath.Join(dir, proofFolder))
	c.OtherStateDirs, c.Lent, c.ReadOnly, c.Network = nil, nil, nil, false
	if c.Gates != "" {
		c.Gates = filepath.Join(dir, "gate")
	} else {
		c.ExtraReadOnly = []string{filepath.Join(dir, "gate"), t.self}
	}
	return wall.New(c)
}

// trialEnv is the environment of the agents without anything that leads to a model, or to the operator's proxy.
func trialEnv(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "ANTHROPIC_") || strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "CLAUDE_CODE_USE_") ||
			name == "CLAUDE_CODE_OAUTH_TOKEN" || strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	})
	return append(out, "ANTHROPIC_API_KEY=trial", "OPENAI_API_KEY=trial")
}

// trialModel is the model of the first handler of an agent: what a program offers a model may depend on it.
func trialModel(e ops.Environment, name string) string {
	for _, h := range e.Policy.Handlers {
		if h.Agent == name {
			return h.Model
		}
	}
	return ""
}

// trialJudge refuse every call, and remember which there were.
type trialJudge struct {
	mu    sync.Mutex
	asked []ops.GuardRecord
}

// Check refuses.
func (r *trialJudge) Check(ops.Tier, string, json.RawMessage, guard.Facts) guard.Decision {
	return guard.Decision{Verdict: guard.Deny, Rule: "trial", Reason: "This is a trial: nothing may run."}
}

// RecordGuard remembers a call.
func (r *trialJudge) RecordGuard(
	_ context.Context, _ ops.Owner, record ops.GuardRecord, _ []ops.Reservation, _ []ops.CooldownLimit,
) (ops.GuardRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, record)
	return record, nil
}

// became tells what became of the call of a tool that makes a file, and removes that. A program that asks nobody itself is asked for by
// its shells only.
func (r *trialJudge) became(tool, file string, shells bool) ops.TrialCall {
	if os.Remove(file) == nil {
		return ops.TrialRan
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.asked {
		if g.Tool == tool && (shells || g.Gate == ops.GateHook) {
			return ops.TrialRefused
		}
	}
	return ops.TrialUnasked
}

// nobody takes the output of a trial.
type nobody struct{}

func (nobody) Started(context.Context, int, string) error { return nil }
func (nobody) Lines(context.Context, []ops.Line) error    { return nil }
