package wall

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

const (
	usersFile   = "/etc/passwd"
	systemShell = "/bin/sh"
)

// GatesShells reports whether the mounts of a tier can put the gate in the place of the shells that an agent starts. Where
// /bin/sh is one file with other programs (BusyBox), they cannot.
func (s *Sandbox) GatesShells(tier ops.Tier) bool {
	at, err := realPath(systemShell)
	return err == nil && confine.IsShell(at) && len(s.c.Relay) > 0 && s.Mounts(tier)
}

// fillShells puts the gate in the place of the shells: of the one that the list of users names for the agent's user, and of /bin/sh.
func (s *Sandbox) fillShells(p *profile, tier ops.Tier, session Session) error {
	shell, err := realPath(systemShell)
	if err != nil {
		return fmt.Errorf("find shell: %w", err)
	}
	self, err := realPath(s.c.Relay[0])
	if err != nil {
		return fmt.Errorf("find the gate: %w", err)
	}
	gate, err := realPath(session.Gate)
	if err != nil {
		return fmt.Errorf("find folder of the gate: %w", err)
	}
	folder := filepath.Join(gate, confine.ShellsFolder)
	uid := s.c.UIDs[tier]
	uid = cmp.Or(uid, os.Geteuid())
	if err := makeShells(folder, self, uid); err != nil {
		return fmt.Errorf("make the shells of the gate: %w", err)
	}
	users, err := realPath(usersFile)
	if err != nil {
		return fmt.Errorf("find list of users: %w", err)
	}
	for at, from := range map[string]string{
		users: filepath.Join(folder, confine.UsersFile), filepath.Join(folder, confine.RealShell): shell, shell: self,
	} {
		p.mounts[at], p.from[at] = readOnly, from
	}
	return nil
}

// makeShells writes what is mounted, in the folder of the gate, which only the supervisor can write to.
func makeShells(folder, self string, uid int) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !os.IsExist(err) { //nolint:gosec // the agent's user has to read it
		return err
	}
	for _, name := range confine.Shells() {
		if err := os.Symlink(self, filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	before, err := os.ReadFile(usersFile)
	if err != nil {
		return err
	}
	users := withShell(string(before), uid, filepath.Join(folder, confine.UserShell))
	return errors.Join(
		os.WriteFile(filepath.Join(folder, confine.RealShell), nil, 0o755),           //nolint:gosec // the shell is mounted over it
		os.WriteFile(filepath.Join(folder, confine.UsersFile), []byte(users), 0o644), //nolint:gosec // as the list of users is
		os.Chmod(folder, 0o755), //nolint:gosec // whatever the mask is
	)
}

// withShell is a list of users in which one user has another shell. A user that is not in it is added.
func withShell(users string, uid int, shell string) string {
	const fields = 7
	id := strconv.Itoa(uid)
	lines := strings.Split(strings.TrimSuffix(users, "\n"), "\n")
	found := false
	for i, line := range lines {
		parts := strings.Split(line, ":")
		if len(parts) != fields || parts[2] != id {
			continue
		}
		parts[fields-1], found = shell, true
		lines[i] = strings.Join(parts, ":")
	}
	if !found {
		lines = slices.Concat([]string{"claudeops-agent:x:" + id + ":" + id + "::/:" + shell}, lines)
	}
	return strings.Join(lines, "\n") + "\n"
}
