package daemon

import (
	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

// RelayWord makes this program the relay of a sandbox.
const RelayWord = "sandbox-relay"

// walls builds the sandbox of each environment; nil if no layer is switched on.
func (h *Host) walls() func(environment string) agent.Walls {
	if h.Config.Guard.UID == 0 && !h.Config.Guard.Bubblewrap {
		return nil
	}
	byName := map[string]agent.Walls{}
	for _, e := range h.envs {
		byName[e.Name] = sandboxed{Walls(h.Config, e, h.Self)}
	}
	return func(environment string) agent.Walls { return byName[environment] }
}

// Walls are the layers around the agents of an environment. Self is the path of this program.
func Walls(c *config.Config, e ops.Environment, self string) *wall.Sandbox {
	uids := map[ops.Tier]int{}
	for t := ops.Tier1; t <= ops.LastTier && c.Guard.UID != 0; t++ {
		uids[t] = c.Guard.UID
	}
	var others []string
	for _, o := range c.Environments() {
		if o.Name != e.Name {
			others = append(others, o.StateDir)
		}
	}
	return wall.New(wall.Config{
		UIDs: uids, Bubblewrap: c.Guard.Bubblewrap, Relay: []string{self, RelayWord},
		StateDir: e.StateDir, RootDir: c.StateDir, OtherStateDirs: others, WorkDir: e.WorkDir, ReposDir: e.ReposDir,
		VolumesDirs: c.Guard.Volumes, ExtraReadOnly: []string{gateDir(c), self},
	})
}

// sandboxed adapts a sandbox to the interface of the agent.
type sandboxed struct{ *wall.Sandbox }

func (w sandboxed) Prepare(tier ops.Tier) error {
	if err := w.Check(tier); err != nil {
		return err
	}
	return w.Sandbox.Prepare(tier)
}

func (w sandboxed) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	out, err := w.Sandbox.Wrap(tier, p.Path, p.Argv, p.Env, p.Dir)
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}
