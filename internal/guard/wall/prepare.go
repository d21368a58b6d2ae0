package wall

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"claudeops/internal/ops"

	"golang.org/x/sys/unix"
)

// Prepare makes the folders of an agent, gives them to the user of the tier, and takes everything else of the state folder
// away from that user. It comes after the files of the session were written and before Wrap.
func (s *Sandbox) Prepare(tier ops.Tier) error {
	if !s.on(tier) {
		return nil
	}
	if err := s.known(tier); err != nil {
		return err
	}
	who, err := s.owner(tier)
	if err != nil {
		return err
	}
	separate := s.c.UIDs[tier] != 0
	for _, dir := range s.grants() {
		if inside(dir, s.c.RootDir) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make folder of the agent: %w", err)
			}
		}
	}
	if err := s.clearExchange(); err != nil {
		return err
	}
	for _, dir := range s.grants() {
		if inside(dir, s.c.RootDir) {
			if err := s.give(dir, who); err != nil {
				return fmt.Errorf("give %s to user %d: %w", dir, who.uid, err)
			}
		}
	}
	if !separate && s.Mounts(tier) {
		return nil // the mounts have a link of their own
	}
	if err := s.linkHandoff(); err != nil {
		return err
	}
	if !separate {
		return nil
	}
	return ops.Wrapped(s.protect(s.c.RootDir, who), "protect state folder")
}

// clearExchange removes what an earlier session left: its folder becomes the place of mounts, and a link in it would move them.
func (s *Sandbox) clearExchange() error {
	if !s.c.Confine {
		return ops.Wrapped(os.RemoveAll(filepath.Join(s.exchange(), handoffName)), "remove old handoff")
	}
	entries, err := os.ReadDir(s.exchange())
	if err != nil {
		return fmt.Errorf("read exchange folder: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(s.exchange(), entry.Name())); err != nil {
			return fmt.Errorf("clear exchange folder: %w", err)
		}
	}
	return nil
}

// linkHandoff lets the agent write its handoff where it was told to, although it may not make files there.
func (s *Sandbox) linkHandoff() error {
	link := filepath.Join(s.c.StateDir, handoffName)
	if err := os.RemoveAll(link); err != nil {
		return fmt.Errorf("remove old handoff: %w", err)
	}
	return ops.Wrapped(os.Symlink(filepath.Join(agentFolder, exchangeFolder, handoffName), link), "link handoff")
}

// Collect brings the handoff of an ended session from the exchange folder to its place in the state folder, as it is: it
// still has to be looked at before it is read. No process of the session may be left.
func (s *Sandbox) Collect(tier ops.Tier) error {
	if !s.on(tier) {
		return nil
	}
	place := filepath.Join(s.c.StateDir, handoffName)
	if info, err := os.Lstat(place); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(place); err != nil {
			return fmt.Errorf("remove link to handoff: %w", err)
		}
	}
	err := os.Rename(filepath.Join(s.exchange(), handoffName), place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("collect handoff: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(place, &stat); err != nil {
		return fmt.Errorf("look at handoff: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 || int(stat.Uid) != s.c.UIDs[tier] {
		return nil
	}
	return ops.Wrapped(errors.Join(os.Lchown(place, os.Geteuid(), os.Getegid()), os.Chmod(place, 0o600)), "take handoff")
}

// passable is the mode of a folder in which a session has something of its own. Bubblewrap makes its mounts as the agent's user, and
// opens each folder on the way to read it (0.12); what lies there has names only.
const passable fs.FileMode = 0o755

// protect closes a folder of the supervisor to the agent, but for what was given to it.
func (s *Sandbox) protect(dir string, who person) error {
	mode := fs.FileMode(0o711) // to pass through, not to list
	if dir != s.c.StateDir && inside(dir, s.c.StateDir) {
		mode = passable
	}
	if err := errors.Join(os.Lchown(dir, os.Geteuid(), os.Getegid()), os.Chmod(dir, mode)); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		err := s.protectEntry(path, entry, who)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // files come and go beside us
			return err
		}
	}
	return nil
}

func (s *Sandbox) protectEntry(path string, entry fs.DirEntry, who person) error {
	below := func(dir string) bool { return dir != "" && inside(dir, path) }
	switch {
	case slices.Contains(s.grants(), path), slices.Contains(s.c.OtherStateDirs, path), entry.Type()&fs.ModeSymlink != 0:
		return nil
	case path == filepath.Join(s.c.StateDir, clonesFolder), path == filepath.Dir(filepath.Dir(s.noticeFile())):
		return keep(path, passable)
	case slices.Contains(s.c.ExtraReadOnly, path), path == s.c.Gates, path == s.c.Programs:
		return lend(path, who)
	case entry.IsDir() && (below(s.c.StateDir) || slices.ContainsFunc(s.grants(), below) ||
		slices.ContainsFunc(s.c.ExtraReadOnly, below) || slices.ContainsFunc(s.c.OtherStateDirs, below)):
		return s.protect(path, who)
	case entry.Type().IsRegular() &&
		(filepath.Dir(path) == filepath.Join(s.c.StateDir, agentFolder) || path == filepath.Join(s.c.StateDir, cooldownName)):
		return lend(path, who) // the session's settings and prompts, and the snapshot of the cooldowns
	case entry.IsDir():
		return keep(path, 0o700)
	default:
		return keep(path, 0o600)
	}
}

// keep makes something the supervisor's alone.
func keep(path string, mode fs.FileMode) error {
	return errors.Join(os.Lchown(path, os.Geteuid(), os.Getegid()), os.Chmod(path, mode))
}

// lend lets the agent read a file, enter a folder and its folders, and connect to sockets, without changing any of them.
func lend(path string, who person) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o640)
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			return nil
		case entry.IsDir():
			mode = 0o750
		case entry.Type()&fs.ModeSocket != 0:
			mode = 0o660
		default:
			info, err := entry.Info()
			if err != nil {
				return err
			}
			mode |= info.Mode().Perm() & 0o110
		}
		return errors.Join(os.Lchown(name, os.Geteuid(), who.gid), os.Chmod(name, mode))
	})
}

// give hands a folder and all that is in it to the user. The agent had its hands in there, so no link is followed.
func (s *Sandbox) give(dir string, who person) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	folder := os.NewFile(uintptr(fd), dir)
	defer func() { _ = folder.Close() }()
	if err := errors.Join(folder.Chown(who.uid, who.gid), folder.Chmod(0o700)); err != nil {
		return err
	}
	return s.giveContents(folder, who)
}

func (s *Sandbox) giveContents(folder *os.File, who person) error {
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := s.giveEntry(folder, name, who)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "give", Path: filepath.Join(folder.Name(), name), Err: err}
		}
	}
	return nil
}

func (s *Sandbox) giveEntry(folder *os.File, name string, who person) error {
	fd, err := unix.Openat(int(folder.Fd()), name, openPath|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && stat.Nlink > 1 && !s.isAgent(int(stat.Uid)) {
		return nil // a second name for a file of somebody else: not ours to give
	}
	if int(stat.Uid) != who.uid || int(stat.Gid) != who.gid {
		if err := unix.Fchownat(fd, "", who.uid, who.gid, emptyPath); err != nil {
			return err
		}
	}
	if !isDir {
		return nil
	}
	inner, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	sub := os.NewFile(uintptr(inner), filepath.Join(folder.Name(), name))
	defer func() { _ = sub.Close() }()
	return s.giveContents(sub, who)
}

// isAgent reports whether a user is one of the agents'.
func (s *Sandbox) isAgent(uid int) bool {
	return uid != 0 && slices.Contains(slices.Collect(maps.Values(s.c.UIDs)), uid)
}
