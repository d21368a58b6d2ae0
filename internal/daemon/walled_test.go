package daemon

import (
	"path/filepath"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

func TestOnlyWhatASessionMayNotChangeCountsAsRefusedByAWall(t *testing.T) {
	repos, state := t.TempDir(), t.TempDir()
	env := ops.Environment{Name: "prod"}
	for name, tt := range map[string]struct {
		confine, dryRun bool
		tier            ops.Tier
		repos           bool // a path in the repositories counts
	}{
		"Tier 1":    {confine: true, tier: ops.Tier1, repos: true},
		"Tier 2":    {confine: true, tier: ops.Tier2},
		"a dry run": {confine: true, dryRun: true, tier: ops.Tier2, repos: true},
		"no walls":  {tier: ops.Tier2},
	} {
		box := wall.New(wall.Config{Confine: tt.confine, ReposDir: repos, StateDir: state})
		g := &gates{sandboxes: map[string]*wall.Sandbox{"prod": box}}
		walled := g.walled(env, ops.Session{Key: "k", Tier: tt.tier}, tt.dryRun)
		if (walled != nil) != tt.confine {
			t.Errorf("%s: walls %v", name, walled != nil)
		}
		if walled == nil {
			continue
		}
		if !walled("/etc/x") || !walled(repos+"-other/x") || walled(filepath.Join(repos, "lab/x")) != tt.repos {
			t.Errorf("%s: /etc %v, beside %v, repositories %v", name, walled("/etc/x"), walled(repos+"-other/x"), walled(filepath.Join(repos, "lab/x")))
		}
	}
	if (&gates{}).walled(env, ops.Session{}, false) != nil {
		t.Error("an environment without a sandbox has walls")
	}
}
