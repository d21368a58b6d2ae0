package wall

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// neverLent is what no rule of an operator opens: the system, and what steers it.
func neverLent() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot", "/dev", "/proc", "/sys", "/run", "/var/run",
		"/var/spool/cron", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet",
	}
}

// Lendable says why a place cannot be opened to single commands; nil when it can. One that is not there cannot be opened yet, which is
// no mistake.
func (s *Sandbox) Lendable(path string) error {
	_, err := s.lendable(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Sandbox) lendable(path string) (confine.Place, error) {
	for _, taboo := range slices.Concat(
		neverLent(), s.protectedDirs(), s.c.OtherStateDirs, s.c.Own, s.c.ReadOnly, s.c.Hidden, s.c.Sockets, s.c.VolumesDirs, s.c.AgentFolders,
		secretPlaces(), homeSecrets(),
	) {
		names := []string{taboo}
		if at, err := filepath.EvalSymlinks(taboo); err == nil {
			names = append(names, at)
		}
		for _, name := range names {
			switch {
			case inside(path, name):
				return confine.Place{}, fmt.Errorf("%s belongs to %s, which no command may change", path, name)
			case inside(name, path):
				return confine.Place{}, fmt.Errorf("%s holds %s, which no command may change", path, name)
			}
		}
	}
	for _, home := range homes() {
		rest, below := strings.CutPrefix(path, home+"/")
		if first, _, _ := strings.Cut(rest, "/"); below && secretInHome(first) {
			return confine.Place{}, fmt.Errorf("%s lies in the hidden files of a home, which no command may change", path)
		}
	}
	place, err := confine.Find(path)
	return ops.Returning(place, err, "a path that a rule opens must not lead over a link")
}

// Lent is what the rules of the operator may let commands of a session change, as it is now. Only a session whose commands have walls of
// their own has any.
func (s *Sandbox) Lent(tier ops.Tier, session Session) []confine.Place {
	if !s.WallsCommands() || session.Ungated || session.LookOnly {
		return nil
	}
	var out []confine.Place
	for _, loan := range s.c.Lent {
		if loan.Tier > tier {
			continue
		}
		if place, err := s.lendable(loan.Path); err == nil && !slices.Contains(out, place) {
			out = append(out, place)
		}
	}
	return out
}

// WallsCommands reports whether a gate can put a wall around a single command here.
func (s *Sandbox) WallsCommands() bool { return s.c.Confine && confine.LandlockVersion() > 0 }
