package daemon

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/ops"
)

// ownFiles are the files that decide what this supervisor does and how it starts: the configuration, every file it names, and the
// unit. A link counts with what it leads to, so that neither can be replaced.
func ownFiles(c *config.Config) []string {
	var out []string
	units := unitFiles()
	for _, name := range slices.Concat(c.OwnFiles(), units, environmentFiles(units)) {
		out = append(out, name)
		if target, err := filepath.EvalSymlinks(name); err == nil && target != name {
			out = append(out, target)
		}
	}
	return out
}

// unitFiles are the files of the systemd unit that runs this program, if one does.
func unitFiles() []string {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return unitFilesOf(string(raw), []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"})
}

// unitFilesOf finds the unit that a cgroup belongs to, with its drop-ins.
func unitFilesOf(cgroup string, folders []string) []string {
	unit := ""
	for line := range strings.Lines(cgroup) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.HasSuffix(part, ".service") {
				unit = path.Base(part)
			}
		}
	}
	if unit == "" {
		return nil
	}
	var out []string
	for _, dir := range folders {
		for _, name := range []string{filepath.Join(dir, unit), filepath.Join(dir, unit+".d")} {
			if _, err := os.Lstat(name); err == nil && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// environmentFiles are the files from which a unit takes its environment, and so often its secrets.
func environmentFiles(units []string) []string {
	var out []string
	for _, unit := range units {
		texts := []string{unit}
		if found, err := filepath.Glob(filepath.Join(unit, "*.conf")); err == nil {
			texts = append(texts, found...)
		}
		for _, name := range texts {
			raw, _ := os.ReadFile(name) // a folder has no text
			for line := range strings.Lines(string(raw)) {
				if file, ok := strings.CutPrefix(strings.TrimSpace(line), "EnvironmentFile="); ok {
					if file = strings.TrimPrefix(file, "-"); filepath.IsAbs(file) {
						out = append(out, file)
					}
				}
			}
		}
	}
	return out
}

// sweepFolders removes what sessions of an earlier supervisor left, and the conversations of cycles that are over.
func (p *plan) sweepFolders(ctx context.Context) error {
	open, err := p.openCycles(ctx)
	if err != nil {
		return err
	}
	if err := (lender{p}).takeBackAll(ctx); err != nil {
		return err
	}
	for _, e := range p.envs {
		if err := agent.SweepFolders(e.StateDir, open); err != nil {
			p.Logger.WarnContext(ctx, "files of ended sessions could not be removed", "environment", e.Name, "error", err)
		}
	}
	return nil
}

// openCycles tells which cycles may still need their conversations.
func (g *ground) openCycles(ctx context.Context) (func(ops.CycleID) bool, error) {
	cycles, err := g.store.Journal.Unfinished(ctx)
	if err != nil {
		return nil, fmt.Errorf("read open cycles: %w", err)
	}
	open := map[ops.CycleID]bool{}
	for _, c := range cycles {
		open[c.ID] = true
	}
	return func(id ops.CycleID) bool { return open[id] }, nil
}

// Forget removes the conversations of a cycle that ended, and of those that ended on another host.
func (g *ground) Forget(ctx context.Context, env ops.Environment, id ops.CycleID) {
	ctx = context.WithoutCancel(ctx)
	others := false
	err := agent.ForgetConversations(env.StateDir, func(kept ops.CycleID) bool {
		others = others || kept != id
		return kept == id
	})
	if err == nil && others {
		var open func(ops.CycleID) bool
		if open, err = g.openCycles(ctx); err == nil {
			err = agent.ForgetConversations(env.StateDir, func(kept ops.CycleID) bool { return !open(kept) })
		}
	}
	if err != nil {
		g.Logger.WarnContext(ctx, "conversations of an ended cycle could not be removed", "cycle", id, "error", err)
	}
}
