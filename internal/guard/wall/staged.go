//go:build linux

package wall

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"

	"golang.org/x/sys/unix"
)

// keyName is the variable by which all processes of a session are found.
const keyName = "CLAUDEOPS_SESSION_KEY"

// Stages reports whether the walls of a tier can be set up before its program is known: the mounts give the agent its folders under
// their later names, and its user needs no rights that have to be given while another session runs.
func (s *Sandbox) Stages(tier ops.Tier) bool {
	return s.c.Confine && s.c.UIDs[tier] == 0 && confine.SeccompAvailable() && s.wraps(tier)
}

// PrepareStage makes the folders of a session in its stage.
func (s *Sandbox) PrepareStage(session Session) error {
	staged := s.stagedPath(session)
	for _, dir := range append(s.grants(), s.Temp(session)) {
		if from, _, ok := staged(dir); ok {
			dir = from
		}
		if !inside(dir, s.c.RootDir) {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make folder of the agent: %w", err)
		}
	}
	return nil
}

// stagedPath tells where something of a session lies while it is staged, and its path below the state folder; nil for a session that is
// not staged.
func (s *Sandbox) stagedPath(session Session) func(path string) (from, rel string, ok bool) {
	if session.Stage == "" {
		return nil
	}
	moved := []string{filepath.Join(s.c.StateDir, agentFolder), filepath.Join(s.c.StateDir, cooldownName)}
	if work := s.c.WorkDir; work != "" && inside(work, s.c.StateDir) && filepath.Clean(work) != filepath.Clean(s.c.StateDir) {
		moved = append(moved, work)
	}
	return func(path string) (from, rel string, ok bool) {
		for _, dir := range moved {
			if inside(path, dir) {
				rel, err := filepath.Rel(s.c.StateDir, path)
				return filepath.Join(session.Stage, rel), rel, err == nil
			}
		}
		return "", "", false
	}
}

// stageEnv is the environment of a process that waits: it has nothing but what it is found by.
func (s *Sandbox) stageEnv(session Session) []string {
	return []string{keyName + "=" + session.ID, "CLAUDEOPS_STATE_DIR=" + s.c.StateDir}
}

// Environment is the environment of the program of a session, with what the walls add.
func (s *Sandbox) Environment(session Session, env []string) []string {
	return s.environment(session, env)
}

// stamp tells which files the rules of a plan were made for. What is inside the mounts of the session is not looked at.
func (s *Sandbox) stamp(plan confine.Plan) string {
	var paths []string
	for _, w := range slices.Concat(plan.Walls, plan.Trial) {
		paths = append(paths, slices.Concat(w.Read, w.Write)...)
	}
	slices.Sort(paths)
	return stampOf(slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return inside(path, s.c.RootDir) }))
}

func stampOf(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		var stat unix.Stat_t
		b.WriteString(path)
		if err := unix.Lstat(path, &stat); err != nil {
			if !errors.Is(err, unix.ENOENT) {
				b.WriteString(" ?")
			}
		} else {
			b.WriteString(" " + strconv.FormatUint(stat.Dev, 36) + ":" + strconv.FormatUint(stat.Ino, 36))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
