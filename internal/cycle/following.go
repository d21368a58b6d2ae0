package cycle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// stager is a runner that can prepare a session before it is decided.
type stager interface {
	// Stage prepares the session that may follow. The spec holds what is known of it: its key, its tier and where it will run.
	Stage(ctx context.Context, spec ops.SessionSpec) error
	// Refresh looks again at what the preparation depends on. The session that uses it comes soon.
	Refresh(key string)
	// Unstage removes what was prepared, unless a session with the key has run.
	Unstage(ctx context.Context, key string) error
}

// reserver are gates whose place can be made before the session is known.
type reserver interface {
	Reserve(ctx context.Context, env ops.Environment, key string) (ops.GateSpec, error)
	// Abandon removes the place unless a session took it.
	Abandon(key string) error
}

// headStart is how long a session runs before the next one is prepared, so that its program does not share the processors with that
// while it starts.
const headStart = 50 * time.Millisecond

// following prepares the session that may follow the one that runs; at most one at a time. It belongs to one Advance.
type following struct {
	a   *Advancer
	env ops.Environment

	mu      sync.Mutex
	key     string // empty: nothing is being prepared
	taken   bool   // a session has the key; no other one may get it
	handler ops.Handler
	runner  stager
	cancel  context.CancelFunc
	hurry   chan struct{} // closed when the session that runs ends
	done    chan struct{} // closed when it is prepared, or cannot be

	refreshing sync.WaitGroup
}

// begin prepares what may follow a session that has just started. It returns at once.
func (f *following) begin(ctx context.Context, policy ops.Policy, s ops.Session) {
	handler, ok := after(policy, s)
	if !ok {
		return
	}
	runner, ok := f.a.Runners[handler.Agent].(stager)
	if !ok || f.a.Draining() {
		return
	}
	f.drop(ctx)
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	f.key, f.taken, f.handler, f.runner, f.cancel = newKey(), false, handler, runner, cancel
	f.hurry, f.done = make(chan struct{}), make(chan struct{})
	key, hurry, done := f.key, f.hurry, f.done
	f.mu.Unlock()
	go func() {
		defer close(done)
		defer cancel()
		select {
		case <-ctx.Done():
			return
		case <-hurry:
		case <-time.After(headStart):
		}
		if err := f.prepare(ctx, runner, policy, handler, s.CycleID, key); err != nil && ctx.Err() == nil {
			f.a.Logger.InfoContext(ctx, "the next session could not be prepared; it will start in the usual way",
				"cycle", int64(s.CycleID), "error", err)
		}
	}()
}

func (f *following) prepare(ctx context.Context, runner stager, policy ops.Policy, h ops.Handler, cycle ops.CycleID, key string) error {
	spec := ops.SessionSpec{
		Session: ops.Session{
			CycleID: cycle, Key: key, Tier: h.Tier, Permissions: h.May(), Handler: h.ID, Family: h.Family, Agent: h.Agent, Model: h.Model,
		},
		Environment: f.env.Name, StateDir: f.env.StateDir, WorkDir: f.env.WorkDir, DryRun: policy.DryRun, Env: f.env.AgentEnv,
		Limits: h.Limits.Or(f.env.Limits),
	}
	if gates, ok := f.a.Gates.(reserver); ok {
		gate, err := gates.Reserve(ctx, f.env, key)
		if err != nil {
			return err
		}
		spec.Gate = &gate
	}
	return runner.Stage(ctx, spec)
}

// refresh is called when the session that runs is about to end, and when it has ended.
func (f *following) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key, runner := f.key, f.runner; key != "" {
		select {
		case <-f.hurry:
		default:
			close(f.hurry)
		}
		f.refreshing.Go(func() { runner.Refresh(key) })
	}
}

// keyFor returns the key of what was prepared, if it was prepared for such a handler; else nothing. It returns a key once: two sessions
// must not have the same.
func (f *following) keyFor(h ops.Handler) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.key == "" || f.taken || h.Agent != f.handler.Agent || h.May() != f.handler.May() {
		return ""
	}
	f.taken = true
	return f.key
}

// wait waits until the preparation of the session with this key has ended. A session with another key does not need what was prepared.
func (f *following) wait(ctx context.Context, key string) {
	f.mu.Lock()
	mine, done := f.key == key, f.done
	f.mu.Unlock()
	if !mine {
		f.drop(ctx)
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// drop removes what was prepared and not used.
func (f *following) drop(ctx context.Context) {
	f.mu.Lock()
	key, runner, cancel, done := f.key, f.runner, f.cancel, f.done
	f.key = ""
	f.mu.Unlock()
	if key == "" {
		return
	}
	cancel()
	<-done
	f.refreshing.Wait()
	err := runner.Unstage(ctx, key)
	if gates, ok := f.a.Gates.(reserver); ok {
		err = errors.Join(err, gates.Abandon(key))
	}
	if err != nil {
		f.a.Logger.WarnContext(ctx, "what was prepared for the next session could not be removed", "error", err)
	}
}

// newKey makes the key of a session.
func newKey() string {
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

// after guesses who takes over when a session ends. A wrong guess costs the preparation, nothing else: what is decided is decided
// elsewhere.
func after(p ops.Policy, s ops.Session) (ops.Handler, bool) {
	source, ok := p.Handler(s.Handler)
	if !ok || !s.Works() {
		return ops.Handler{}, false
	}
	for _, id := range source.HandsTo {
		h, ok := p.Handler(id)
		switch {
		case !ok || h.Human() || h.Tier <= s.Tier:
		case h.Tier > p.MaxTier || p.DryRun || p.ApprovalTier > 0 && h.Tier >= p.ApprovalTier || p.RouteOf(source.ID, h.ID).Approval:
		case p.Manager != "":
			return p.Handler(p.Manager)
		default:
			return h, true
		}
	}
	if p.Judge != "" && s.Tier > ops.Tier1 {
		return p.Handler(p.Judge)
	}
	return ops.Handler{}, false
}
