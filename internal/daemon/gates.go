package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/guard"
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/network"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// gates opens the gates of sessions.
type gates struct {
	gate *gate.Gate
	p    *plan
}

// newGates makes the guard and its gates; nil without the guard.
func (p *plan) newGates() (*gates, error) {
	if !p.Config.Guard.Enabled {
		return nil, nil //nolint:nilnil // no gates is a valid result
	}
	judge, err := p.judge()
	if err != nil {
		return nil, err
	}
	g, err := gate.New(gate.Options{
		Judge: judge, Ledger: p.store.Acts, Owner: p.Owner, May: p.may, Limits: p.Config.Guard.Limits, Redact: p.redact,
		Clock: p.Clock, Logger: p.Logger, Dir: gateDir(p.Config), Self: p.Self,
	})
	if err != nil {
		return nil, fmt.Errorf("make gates: %w", err)
	}
	return &gates{g, p}, nil
}

// sweep removes what sessions of an earlier run left. None of this one may run.
func (g *gates) sweep(ctx context.Context) {
	if n, err := g.gate.Sweep(ctx); err != nil {
		g.p.Logger.WarnContext(ctx, "cannot remove gates of an earlier run", "error", err)
	} else if n > 0 {
		g.p.Logger.InfoContext(ctx, "removed gates of an earlier run", "count", n)
	}
}

// newJudge makes the guard with the operator's rules, for sessions that this program puts walls around.
func newJudge(c *config.Config, self string) (*guard.Guard, error) {
	rules, err := Rules(c)
	if err == nil && self != "" {
		err = checkLoans(c, rules, self)
	}
	if err != nil {
		return nil, err
	}
	judge, err := guard.New(rules)
	return ops.Returning(judge, err, "make guard")
}

// gateDir is where the sockets of the gates are. An agent that runs as its own user can reach them only inside the state folder,
// where the sandbox opens this folder for it.
func gateDir(c *config.Config) string {
	if c.Guard.Sandbox.UID != 0 {
		return filepath.Join(c.StateDir, "gate")
	}
	return gate.DefaultDir()
}

// Judge reports that calls are judged.
func (g *gates) Judge() bool { return true }

// Open opens the gates of one session.
func (g *gates) Open(ctx context.Context, env ops.Environment, s ops.Session, dry bool, alarm func(ops.GuardRecord)) (cycle.Held, error) {
	clones, err := lender{g.p}.clonesOf(s.Key)
	if err != nil {
		return nil, err
	}
	seen := env
	if clones != nil && clones.Own != "" {
		seen.ReposDir = clones.Own
	}
	facts := sessionFacts(g.p.Config, seen, g.p.Self)
	facts.DryRun, facts.HandoffMode = dry, !s.Structured
	permits, _, err := Permits(g.p.Config, env, s.May())
	if err != nil {
		return nil, err
	}
	facts.RawNetwork = slices.ContainsFunc(permits, func(p network.Permit) bool { return p.How == network.Raw && p.Name != "ssh" })
	box := g.p.sandboxes[env.Name]
	if box.Confines() {
		facts.TempDir, facts.OwnTemp = box.Temp(wall.Session{ID: s.Key}), true
		facts.Walled = facts.NetworkClosed && box.Lacks(s.May()) == ""
	}
	facts.Secrets = uncovered(box, s.May())
	opened, err := g.gate.Open(ctx, s, facts, alarm)
	if err != nil {
		return nil, err
	}
	lent := wall.Session{ID: s.Key, LookOnly: dry, Clones: clones}
	unseen := g.confineCommands(opened, env, s, lent)
	prefix, err := opened.ShellPrefix()
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	docker, err := brokers{g.p}.openDocker(ctx, env, s, dry)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	tools := g.p.offerActions(opened, env, s, dry, facts.NetworkClosed)
	return &held{session: opened, docker: docker, id: s.ID, store: g.p.store.Acts, spec: ops.GateSpec{
		Settings: opened.Settings(), ShellPrefix: prefix, Allowed: opened.Allowed, Env: docker.env(), Tools: tools,
		Walled: g.walled(env, s, lent), Unseen: unseen,
	}}, nil
}

// uncovered are the secret files of clones where no wall keeps a tier from them.
func uncovered(box *wall.Sandbox, tier ops.Tier) []string {
	if box.HoldsFiles(tier) {
		return nil
	}
	return box.Secrets()
}

// held is one session behind its gates.
type held struct {
	session *gate.Session
	docker  dockerSocket
	id      ops.SessionID
	store   *store.Acts
	spec    ops.GateSpec
}

func (h *held) Spec() ops.GateSpec { return h.spec }

func (h *held) Close(ctx context.Context) (down []string, err error) {
	if h.session.Reserved() {
		down, err = h.store.ServicesLeftDown(ctx, h.id)
	}
	return down, errors.Join(err, h.docker.close(), h.session.Close())
}

// Facts are what the guard knows about an environment.
func Facts(c *config.Config, e ops.Environment) guard.Facts {
	return guard.Facts{
		Cwd: e.WorkDir, ReposDir: e.ReposDir, StateDir: e.StateDir, TempDir: os.TempDir(), InventoryHosts: c.Guard.Hosts, Engine: c.Docker.Socket,
		ProtectedFiles: e.Protected.Files, VolumesDirs: e.Protected.Volumes, OwnAPI: []string{c.Listen},
		OwnPaths: append(ownFiles(c), c.StateDir, filepath.Join(e.StateDir, "agent")),
		Services: e.Policy.Inventory.Services, DryRun: e.Policy.DryRun,
		OwnSecrets: slices.Concat(c.SecretFiles(), environmentFiles(unitFiles())), Resolve: resolve,
		OwnConfig: c.Path(), OwnPID: os.Getpid(),
	}
}

// sessionFacts are those facts as far as they hold for every session of an environment.
func sessionFacts(c *config.Config, e ops.Environment, self string) guard.Facts {
	facts := Facts(c, e)
	facts.OwnPaths = append(facts.OwnPaths, self, gateDir(c))
	facts.MCPTools, facts.NetworkClosed = sessionTools(), c.Guard.Sandbox.Networked()
	return facts
}

// resolve follows symbolic links in the part of a path that exists; a missing part cannot be a link.
func resolve(name string) (string, error) {
	rest := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		found, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(found, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == "/" {
			return "", fmt.Errorf("resolve %s: %w", name, err)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// Walled reports whether the commands of sessions run behind walls on this machine.
func Walled(c *config.Config) bool {
	self, err := os.Executable()
	return err == nil && c.Guard.Sandbox.Networked() && Walls(c, c.Environments()[0], self).Lacks(ops.Tier1) == ""
}

// Rules reads the operator's own rules.
func Rules(c *config.Config) ([]guard.Rule, error) {
	if c.Guard.Rules.Path == "" {
		return nil, nil
	}
	rules, err := guard.ParseRules([]byte(c.Guard.Rules.Text), c.Guard.Rules.Path)
	return ops.Returning(rules, err, "read guard rules")
}
