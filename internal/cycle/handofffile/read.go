// Package handofffile reads and deletes the handoff file of a state folder.
//
// The folder is shared with an agent that may have been talked into anything, so whatever lies at that name is
// looked at before it is read: only a plain file that belongs to us, has no second name and is not too large is.
package handofffile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"claudeops/internal/decide/report"
)

// Name is the name of the handoff file in a state folder.
const Name = "handoff.json"

// RefusedError says why something that lies in the handoff's place was not read.
type RefusedError struct {
	Path string
	Why  string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s is %s; it was not read", Name, e.Why) }

// Read returns the content of the handoff file in dir and whether there is anything at that name. It never waits
// and never follows a link. What is there but unsafe is a *RefusedError. Owners are the users, beside ourselves and
// root, whose files are accepted.
func Read(dir string, owners ...int) (raw []byte, present bool, err error) {
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, fmt.Errorf("open state folder: %w", &fs.PathError{Op: "open", Path: dir, Err: err})
	}
	defer func() { err = errors.Join(err, unix.Close(folder)) }()

	path := filepath.Join(dir, Name)
	var stat unix.Stat_t
	// Looked at before it is opened, since opening alone can do something to a device.
	if err := unix.Fstatat(folder, Name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return missing(path, err)
	}
	if why := flaw(&stat, owners); why != "" {
		return nil, true, &RefusedError{Path: path, Why: why}
	}
	fd, err := open(folder, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, true, &RefusedError{Path: path, Why: "a symbolic link"} // put there since the look above
	case err != nil:
		return missing(path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer func() { err = errors.Join(err, file.Close()) }()
	return readOpen(file, owners)
}

// readOpen judges the file that was really opened, which may be another one than the one looked at before.
func readOpen(file *os.File, owners []int) (raw []byte, present bool, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, true, fmt.Errorf("look at handoff: %w", &fs.PathError{Op: "fstat", Path: file.Name(), Err: err})
	}
	if why := flaw(&stat, owners); why != "" {
		return nil, true, &RefusedError{Path: file.Name(), Why: why}
	}
	raw, err = io.ReadAll(io.LimitReader(file, report.MaxBytes+1))
	if err != nil {
		return nil, true, fmt.Errorf("read handoff: %w", err)
	}
	if len(raw) > report.MaxBytes { // it grew while we read
		return nil, true, &RefusedError{Path: file.Name(), Why: tooLarge()}
	}
	return raw, true, nil
}

func missing(path string, err error) ([]byte, bool, error) {
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	return nil, true, fmt.Errorf("open handoff: %w", &fs.PathError{Op: "open", Path: path, Err: err})
}

// flaw says what is wrong with the thing that has this status, or nothing.
func flaw(stat *unix.Stat_t, owners []int) string {
	switch kind := stat.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return "a symbolic link"
	case kind == unix.S_IFIFO:
		return "a pipe"
	case kind == unix.S_IFDIR:
		return "a folder"
	case kind == unix.S_IFSOCK:
		return "a socket"
	case kind == unix.S_IFCHR, kind == unix.S_IFBLK:
		return "a device"
	case kind != unix.S_IFREG:
		return "no plain file"
	case stat.Nlink != 1:
		return "a file with a second name (hard link)"
	case stat.Size > report.MaxBytes:
		return tooLarge()
	}
	owner := int(stat.Uid)
	if owner == 0 || owner == os.Geteuid() || slices.Contains(owners, owner) {
		return ""
	}
	return fmt.Sprintf("owned by another user (%d)", owner)
}

func tooLarge() string { return fmt.Sprintf("larger than %d KiB", report.MaxBytes>>10) }

// Delete removes whatever lies in the handoff's place, a folder with all that is in it included, and follows no
// link. Nothing there is fine.
func Delete(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = root.RemoveAll(Name)
	if errors.Is(err, fs.ErrPermission) { // a folder made read-only would otherwise stay for ever
		unlock(root)
		err = root.RemoveAll(Name)
	}
	if err != nil {
		return fmt.Errorf("delete handoff: %w", err)
	}
	return nil
}

// unlock makes the folders below the handoff's name writable as far as it can; the second removal reports the rest.
func unlock(root *os.Root) {
	_ = fs.WalkDir(root.FS(), Name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case entry == nil || !entry.IsDir():
			return nil
		case err != nil:
			return fs.SkipDir
		}
		_ = root.Chmod(path, 0o700)
		return nil
	})
}

// openPlain is as good for a single name: the flags forbid to follow a link there.
func openPlain(folder, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(folder, Name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
