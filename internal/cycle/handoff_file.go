package cycle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"claudeops/internal/decide/report"
)

// handoffName is the name of the handoff file in a state folder.
const handoffName = "handoff.json"

// refusedFile says why something that lies in the handoff's place was not read.
type refusedFile struct {
	Path string
	Why  string
}

func (e *refusedFile) Error() string {
	return fmt.Sprintf("%s is %s; it was not read", handoffName, e.Why)
}

// HandoffFiles reads and deletes the file in a state folder.
type HandoffFiles struct{}

// Read is the content of the handoff file in dir, and whether there is anything at that name. It never waits and never follows a link.
// What is there but unsafe is a *refusedFile.
func (HandoffFiles) Read(dir string) (raw []byte, present bool, err error) {
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, fmt.Errorf("open state folder: %w", &fs.PathError{Op: "open", Path: dir, Err: err})
	}
	defer func() { err = errors.Join(err, unix.Close(folder)) }()

	path := filepath.Join(dir, handoffName)
	var stat unix.Stat_t
	// Looked at before it is opened, since opening alone can do something to a device.
	if err := unix.Fstatat(folder, handoffName, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return noHandoff(path, err)
	}
	if why := flawOf(&stat); why != "" {
		return nil, true, &refusedFile{Path: path, Why: why}
	}
	fd, err := openHandoff(folder, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, true, &refusedFile{Path: path, Why: "a symbolic link"} // put there since the look above
	case err != nil:
		return noHandoff(path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer func() { err = errors.Join(err, file.Close()) }()
	return readOpenHandoff(file)
}

// readOpenHandoff judges the file that was really opened, which may be another one than the one looked at before.
func readOpenHandoff(file *os.File) (raw []byte, present bool, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, true, fmt.Errorf("look at handoff: %w", &fs.PathError{Op: "fstat", Path: file.Name(), Err: err})
	}
	if why := flawOf(&stat); why != "" {
		return nil, true, &refusedFile{Path: file.Name(), Why: why}
	}
	raw, err = io.ReadAll(io.LimitReader(file, report.MaxBytes+1))
	if err != nil {
		return nil, true, fmt.Errorf("read handoff: %w", err)
	}
	if len(raw) > report.MaxBytes { // it grew while we read
		return nil, true, &refusedFile{Path: file.Name(), Why: tooLargeHandoff()}
	}
	return raw, true, nil
}

func noHandoff(path string, err error) ([]byte, bool, error) {
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	return nil, true, fmt.Errorf("open handoff: %w", &fs.PathError{Op: "open", Path: path, Err: err})
}

// flawOf says what is wrong with the thing that has this status, or nothing.
func flawOf(stat *unix.Stat_t) string {
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
		return tooLargeHandoff()
	}
	owner := int(stat.Uid)
	if owner == 0 || owner == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("owned by another user (%d)", owner)
}

func tooLargeHandoff() string { return fmt.Sprintf("larger than %d KiB", report.MaxBytes>>10) }

// Delete removes whatever lies in the place of the handoff, a folder with all that is in it included, and follows no link. Nothing there is
// fine.
func (HandoffFiles) Delete(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = root.RemoveAll(handoffName)
	if errors.Is(err, fs.ErrPermission) { // a folder made read-only would otherwise stay for ever
		unlockHandoff(root)
		err = root.RemoveAll(handoffName)
	}
	if err != nil {
		return fmt.Errorf("delete handoff: %w", err)
	}
	return nil
}

// unlockHandoff makes the folders below the handoff's name writable as far as it can; the second removal reports the rest.
func unlockHandoff(root *os.Root) {
	_ = fs.WalkDir(root.FS(), handoffName, func(path string, entry fs.DirEntry, err error) error {
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

// openHandoff follows no link: the flags forbid it for the last name of a path, and this path has one name.
func openHandoff(folder, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(folder, handoffName, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
