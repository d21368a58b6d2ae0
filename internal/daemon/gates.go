package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/guard"
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/redact"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// gates opens the gates of sessions.
type gates struct {
	gate   *gate.Gate
	store  *store.Store
	config *config.Config
	self   string
	docker *dockerBrokers
	host   *Host

	sandboxes map[string]*wall.Sandbox // by environment

	mu     sync.Mutex
	places map[string]place // of sessions that may follow, by their keys
}

// newGates makes the guard and its gates; nil without the guard.
func (h *Host) newGates(ctx context.Context, r *redact.Redactor) (cycle.Gates, error) {
	if !h.Config.Guard.Enabled {
		return nil, nil //nolint:nilnil // no gates is a valid result
	}
	judge, err := h.judge()
	if err != nil {
		return nil, err
	}
	g, err := gate.New(gate.Options{
		Judge: judge, Ledger: h.store, Owner: h.Owner, May: h.may, Limits: h.Config.Guard.Limits, Redact: r.String,
		Clock: h.Clock, Logger: h.Logger, Dir: gateDir(h.Config), Self: h.Self,
	})
	if err != nil {
		return nil, fmt.Errorf("make gates: %w", err)
	}
	if n, err := g.Sweep(ctx); err != nil {
		h.Logger.WarnContext(ctx, "cannot remove gates of an earlier run", "error", err)
	} else if n > 0 {
		h.Logger.InfoContext(ctx, "removed gates of an earlier run", "count", n)
	}
	docker := &dockerBrokers{h: h, redact: r.String}
	docker.sweep(ctx)
	return &gates{
		gate: g, store: h.store, config: h.Config, self: h.Self, docker: docker, host: h, sandboxes: h.sandboxes,
		places: map[string]place{},
	}, nil
}

// newJudge makes the guard with the operator's rules.
func newJudge(c *config.Config) (*guard.Guard, error) {
	rules, err := Rules(c)
	if err != nil {
		return nil, err
	}
	judge, err := guard.New(rules)
	if err != nil {
		return nil, fmt.Errorf("make guard: %w", err)
	}
	return judge, nil
}

// gateDir is where the sockets of the gates are. An agent that runs as its own user can reach them only inside the state folder,
// where the sandbox opens this folder for it.
func gateDir(c *config.Config) string {
	if c.Guard.Sandbox.UID != 0 {
		return filepath.Join(c.StateDir, "gate")
	}
	return gate.DefaultDir()
}

// Open opens the gates of one session.
func (g *gates) Open(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool) (cycle.Held, error) {
	facts := Facts(g.config, env)
	facts.DryRun, facts.HandoffMode = dryRun, !s.Structured
	facts.OwnPaths = append(facts.OwnPaths, g.self, gateDir(g.config))
	facts.MCPTools = sessionTools()
	if box := g.sandboxes[env.Name]; box != nil && box.Confines() {
		facts.TempDir, facts.OwnTemp = box.Temp(wall.Session{ID: s.Key}), true
	}
	place, err := g.take(s.Key, env)
	if err != nil {
		return nil, err
	}
	opened, docker := place.gate, place.docker
	g.confineCommands(opened, env, s, dryRun)
	opened.Answer(ctx, s, facts)
	g.docker.serve(ctx, docker, env, s, dryRun)
	prefix, err := opened.ShellPrefix()
	if err != nil {
		return nil, errors.Join(err, place.close())
	}
	tools, done, err := g.host.offerActions(ctx, opened, env, s, dryRun)
	if err != nil {
		return nil, errors.Join(err, place.close())
	}
	return &held{session: opened, docker: docker, id: s.ID, store: g.store, done: done, spec: ops.GateSpec{
		Settings: opened.Settings(), ShellPrefix: prefix, Allowed: opened.Allowed, Ask: opened.Ask,
		Env: docker.env(), Tools: tools,
	}}, nil
}

// place is where the gates of a session are: their folders and sockets, before anything is answered there.
type place struct {
	gate   *gate.Session
	docker dockerSocket
}

func (p place) close() error { return errors.Join(p.docker.close(), p.gate.Close()) }

// makePlace makes the folders and sockets of a session.
func (g *gates) makePlace(env ops.Environment) (place, error) {
	opened, err := g.gate.Reserve()
	if err != nil {
		return place{}, err
	}
	if _, err := opened.ShellPrefix(); err != nil {
		return place{}, errors.Join(err, opened.Close())
	}
	docker, err := g.docker.reserve(env)
	if err != nil {
		return place{}, errors.Join(err, opened.Close())
	}
	return place{gate: opened, docker: docker}, nil
}

// Reserve makes the place of a session that may follow, and says what is known of its gates. Abandon, or Open for the session with
// this key, takes it.
func (g *gates) Reserve(_ context.Context, env ops.Environment, key string) (ops.GateSpec, error) {
	p, err := g.makePlace(env)
	if err != nil {
		return ops.GateSpec{}, err
	}
	prefix, err := p.gate.ShellPrefix()
	if err != nil {
		return ops.GateSpec{}, errors.Join(err, p.close())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places[key] = p
	return ops.GateSpec{Settings: p.gate.Settings(), ShellPrefix: prefix, Env: p.docker.env()}, nil
}

// Abandon removes a place that no session took.
func (g *gates) Abandon(key string) error {
	g.mu.Lock()
	p, ok := g.places[key]
	delete(g.places, key)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	return p.close()
}

// take returns the place that was reserved for a session, or makes one. A Docker socket is not used any more if its engine is gone, and
// is made if there is one by now.
func (g *gates) take(key string, env ops.Environment) (place, error) {
	g.mu.Lock()
	p, ok := g.places[key]
	delete(g.places, key)
	g.mu.Unlock()
	if !ok {
		return g.makePlace(env)
	}
	if p.docker.engine == g.docker.engine(env) {
		return p, nil
	}
	err := p.docker.close()
	if err == nil {
		p.docker, err = g.docker.reserve(env)
	}
	if err != nil {
		return place{}, errors.Join(err, p.gate.Close())
	}
	return p, nil
}

// held is one session behind its gates.
type held struct {
	session *gate.Session
	docker  dockerSocket
	id      ops.SessionID
	store   *store.Store
	spec    ops.GateSpec
	done    func(context.Context) error
}

func (h *held) Spec() ops.GateSpec { return h.spec }

func (h *held) Close(ctx context.Context) ([]string, error) {
	down, err := h.store.ServicesLeftDown(ctx, h.id)
	return down, errors.Join(err, h.docker.close(), h.session.Close(), h.done(ctx))
}

// Facts are what the guard knows about an environment.
func Facts(c *config.Config, e ops.Environment) guard.Facts {
	return guard.Facts{
		Cwd: e.WorkDir, ReposDir: e.ReposDir, StateDir: e.StateDir, TempDir: os.TempDir(), InventoryHosts: c.Guard.Hosts,
		ProtectedFiles: c.Guard.Protected, VolumesDirs: c.Guard.Volumes, OwnAPI: []string{c.Listen},
		OwnPaths: append(ownFiles(c), c.StateDir, filepath.Join(e.StateDir, "agent")),
		Services: e.Policy.Inventory.Services, DryRun: e.Policy.DryRun,
		OwnSecrets: slices.Concat(c.SecretFiles(), environmentFiles(unitFiles())), Resolve: resolve, Glob: gate.Matches,
	}
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

// Rules reads the operator's own rules.
func Rules(c *config.Config) ([]guard.Rule, error) {
	if c.Guard.Rules.Path == "" {
		return nil, nil
	}
	rules, err := guard.ParseRules([]byte(c.Guard.Rules.Text), c.Guard.Rules.Path)
	if err != nil {
		return nil, fmt.Errorf("read guard rules: %w", err)
	}
	return rules, nil
}
