package codex

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// The layers of the operating system that hold Codex to a tier.
const (
	LayerBubblewrap = "bubblewrap" // our wall around the whole program
	LayerLandlock   = "landlock"   // also ours; that of Codex cannot be set up inside it
)

// sandboxFor decides what holds a session to its tier, and refuses one that nothing would hold. ReadOnly means Codex's own
// sandbox around each command. Otherwise there is none but ours: that of Codex would hide the repositories a repair is written
// to, and as root it cannot be set up inside ours at all. A session that only answers, such as a judge, has the rights of
// Tier 1.
func sandboxFor(spec ops.SessionSpec, walls agent.Walls) (readOnly bool, err error) {
	tier := spec.Session.May()
	if walls != nil && slices.Contains(walls.Layers(tier), LayerLandlock) {
		return false, nil // it holds every tier to its rights, a dry run to those of Tier 1
	}
	if tier <= ops.Tier1 || spec.DryRun || !spec.Session.Works() {
		return true, nil
	}
	if walls == nil || !slices.Contains(walls.Layers(tier), LayerBubblewrap) {
		return false, agent.Refuse(ops.FailureLayer,
			"Codex has no gate that could judge its commands, so at %v it runs only behind the sandbox layer %q, which is off: "+
				"set sandbox.mode: auto on a machine that has it (claudeops doctor says), or give this tier to another agent",
			tier, LayerBubblewrap)
	}
	return false, nil
}

// Gated reports whether the commands of a session can be judged: where our mounts put the gate in the place of the shells, and no sandbox
// of Codex keeps commands from asking it.
func (c *Codex) Gated(spec ops.SessionSpec, walls agent.Walls) bool {
	if walls == nil || !walls.GatesShells(spec.Session.May()) {
		return false
	}
	readOnly, err := sandboxFor(spec, walls)
	return err == nil && !readOnly
}

// trySandbox sets Codex's own sandbox up once, the way a session would: where it cannot be set up, Codex would run nothing
// and say little about it.
func (c *Codex) trySandbox(ctx context.Context, spec ops.SessionSpec, walls agent.Walls, p agent.Program) error {
	trial := fmt.Sprintf("%s\x00%s\x00%d", p.Path, spec.Environment, spec.Session.May())
	c.mu.Lock()
	done := c.tried[trial]
	c.mu.Unlock()
	if done {
		return nil
	}
	p.Argv = slices.Concat(p.Argv, []string{"sandbox"}, options(sandboxSettings(true)))
	p.Argv = append(p.Argv, "--", "true")
	p.Key = "trial-" + uuid.NewString()
	p.Env = append(slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		return strings.HasPrefix(v, "CLAUDEOPS_SESSION_KEY=")
	}), "CLAUDEOPS_SESSION_KEY="+p.Key)
	p, err := p.Behind(walls, spec.Session.May())
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if a := agent.Ask(asking, p); a.ExitCode != 0 {
		return agent.Refuse(ops.FailureLayer,
			"Codex's own sandbox cannot be set up here, and without it nothing holds %v to its rights: %s; allow it user namespaces "+
				"(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu an AppArmor profile for bwrap); "+
				"behind our own bubblewrap the agent must not be root (sandbox.uid)",
			spec.Session.May(), a.Died())
	}
	c.mu.Lock()
	c.tried[trial] = true
	c.mu.Unlock()
	return nil
}
