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
	LayerOwn        = "codex-sandbox" // Codex's own read-only sandbox around each command
	LayerBubblewrap = "bubblewrap"    // our wall around the whole program
)

// Walls are the layers around the agents of an environment.
type Walls interface {
	agent.Walls
	// Layers names the layers that are on for a tier.
	Layers(tier ops.Tier) []string
}

// Needs names the layers without which a tier does not run.
func Needs(tier ops.Tier) []string {
	if tier <= ops.Tier1 {
		return []string{LayerOwn}
	}
	return []string{LayerBubblewrap}
}

// holding is what holds one session.
type holding struct {
	walls Walls
	// readOnly: Codex's own sandbox is around each command. Otherwise there is none but ours: that of Codex would hide the
	// repositories a repair is written to, and as root it cannot be set up inside ours at all.
	readOnly bool
}

// hold decides what holds a session to its tier, and refuses one that nothing would. Who only has something to say, such as
// a judge, has no more rights than Tier 1.
func (c *Codex) hold(spec ops.SessionSpec) (holding, error) {
	var h holding
	if c.o.Walls != nil {
		h.walls = c.o.Walls(spec.Environment)
	}
	tier := spec.Session.May()
	if tier <= ops.Tier1 || spec.DryRun || !spec.Session.Works() {
		h.readOnly = true
		return h, nil
	}
	var on []string
	if h.walls != nil {
		on = h.walls.Layers(tier)
	}
	for _, need := range Needs(tier) {
		if !slices.Contains(on, need) {
			return holding{}, agent.Refuse(agent.FailLayer,
				"Codex has no gate that could judge its commands, so at %v it runs only behind the sandbox layer %q, which is off: "+
					"switch it on (sandbox.bubblewrap: true), or give this tier to another agent", tier, need)
		}
	}
	return h, nil
}

// try sets Codex's own sandbox up once, the way a session would: where it cannot be set up, Codex would run nothing and
// say little about it.
func (c *Codex) try(ctx context.Context, spec ops.SessionSpec, h holding, p agent.Program) error {
	if !h.readOnly {
		return nil
	}
	place := fmt.Sprintf("%s\x00%s\x00%d", p.Path, spec.Environment, spec.Session.May())
	c.mu.Lock()
	done := c.tried[place]
	c.mu.Unlock()
	if done {
		return nil
	}
	p.Argv = append([]string{c.o.Bin, "sandbox"}, options(c.sandboxSettings(true))...)
	if c.o.Network {
		p.Argv = append(p.Argv, "-P", profileName)
	}
	p.Argv = append(p.Argv, "--", "true")
	p.Key = "trial-" + uuid.NewString()
	p.Env = append(slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		return strings.HasPrefix(v, "CLAUDEOPS_SESSION_KEY=")
	}), "CLAUDEOPS_SESSION_KEY="+p.Key)
	if h.walls != nil {
		var err error
		if p, err = p.Behind(h.walls, spec.Session.May()); err != nil {
			return err
		}
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if a := agent.Ask(asking, p, c.o.Logger); a.ExitCode != 0 {
		return agent.Refuse(agent.FailLayer,
			"Codex's own sandbox cannot be set up here, and without it nothing would hold %v: %s; allow it user namespaces "+
				"(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu an AppArmor profile for bwrap); behind our own bubblewrap the agent must not be root (sandbox.uid)",
			spec.Session.May(), trialError(a))
	}
	c.mu.Lock()
	c.tried[place] = true
	c.mu.Unlock()
	return nil
}

func trialError(a agent.Answer) string {
	if a.Error == "" {
		return fmt.Sprintf("a trial exited with code %d", a.ExitCode)
	}
	return a.Error
}
