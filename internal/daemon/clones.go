package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/act"
	"claudeops/internal/agent"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// lender gives sessions what they need of the clones.
type lender struct{ *plan }

// steers tells the names of files that programs obey. Without the guard's tables nothing is known to be harmless.
func (p lender) steers(path string) bool {
	judge, err := p.judge()
	return err != nil || judge.Steers(path)
}

// heldClone tells whether walls keep all sessions from a clone but for what they are lent.
func (p lender) heldClone(repo string) bool {
	for _, e := range p.envs {
		dir, err := filepath.EvalSymlinks(e.ReposDir)
		if err == nil && strings.HasPrefix(repo, dir+"/") && !p.sandboxes[e.Name].HoldsFiles(ops.LastTier) {
			return false
		}
	}
	return true
}

// Lend gives a session what it needs of the clones, and says where those are for it.
func (p *plan) Lend(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool) (repos string, err error) {
	tier := s.May()
	if dryRun || tier < ops.Tier2 {
		return env.ReposDir, nil
	}
	b := act.Borrower{Session: s, Environment: env, Folder: wall.ClonesOf(env.StateDir, s.Key)}
	box := p.sandboxes[env.Name]
	if b.Mounts, b.Held = box.Mounts(tier), box.HoldsFiles(tier); b.Mounts {
		b.Covered = append(box.Secrets(), p.Config.Guard.Sandbox.Hidden...)
	}
	if tier >= ops.Tier3 {
		b.Writable = p.Config.Guard.Sandbox.Writable
	}
	l, err := p.commits.Lend(ctx, b)
	if err != nil {
		return "", fmt.Errorf("lend the session the clones: %w", err)
	}
	return cmp.Or(l.Repos, env.ReposDir), nil
}

// clonesOf is what a session was lent; nil for one that changes nothing.
func (p lender) clonesOf(key string) (*wall.Clones, error) {
	l, err := p.commits.Loan(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it was lent nothing
	}
	if err != nil {
		return nil, fmt.Errorf("read what the session was lent of the clones: %w", err)
	}
	c := &wall.Clones{Folder: l.Folder, Git: map[string]string{}, Objects: act.OperatorObjects, Own: l.Repos}
	for repo, git := range l.Git {
		c.Git[repo] = filepath.Join(l.Folder, git)
	}
	c.Fixed = slices.Sorted(maps.Keys(l.Found))
	return c, nil
}

// TakeBack ends what a session was lent.
func (p *plan) TakeBack(ctx context.Context, key string) []ops.Event {
	events, err := p.commits.Return(ctx, key)
	if err != nil { // its loan stays, and the next start tries again
		p.Logger.WarnContext(ctx, "what a session had of the clones could not be taken back", "key", key, "error", err)
	}
	return events
}

// Recorded forgets a loan whose events are in the journal.
func (p *plan) Recorded(key string) {
	if err := p.commits.Forget(key); err != nil {
		p.Logger.Warn("what was said of the clones of a session is told once more at the next start", "key", key, "error", err)
	}
}

// takeBackAll does so for the sessions of an earlier supervisor, whose processes end first. It may have been killed after it had recorded
// what was found, and before it forgot it.
func (p lender) takeBackAll(ctx context.Context) error {
	for _, key := range p.commits.Loans() {
		if _, err := agent.Sweep(ctx, key); err != nil {
			return fmt.Errorf("end an earlier session: %w", err)
		}
		for _, e := range p.TakeBack(ctx, key) {
			known, err := p.store.Journal.Events(ctx, store.EventFilter{SessionID: e.SessionID})
			if err != nil {
				return err
			}
			same := func(o ops.Event) bool { return o.Verb == e.Verb && o.Reason == e.Reason }
			if slices.ContainsFunc(known, same) {
				continue
			}
			if _, err := p.store.Journal.AddEvent(ctx, e); err != nil {
				return err
			}
		}
		p.Recorded(key)
	}
	return nil
}
