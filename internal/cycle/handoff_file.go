package cycle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// handoffName is the name of the handoff file in a state folder.
const handoffName = "handoff.json"

// refusedFile says why something that lies in the handoff's place was not read.
type refusedFile string

func (e refusedFile) Error() string {
	return fmt.Sprintf("%s is %s; it was not read", handoffName, string(e))
}

// HandoffFiles reads and deletes the file in a state folder.
type HandoffFiles struct{}

// Read is the content of the file, and whether there is anything at its name. It never waits and never follows a link. What is there but
// unsafe is a refusedFile.
func (HandoffFiles) Read(dir string) (raw []byte, present bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, fmt.Errorf("open state folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	// Looked at before it is opened, since opening alone can do something to a device.
	seen, err := root.Lstat(handoffName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, fmt.Errorf("look at handoff: %w", err)
	}
	raw, err = readHandoff(root, seen)
	return raw, true, err
}

// readHandoff reads the file that was seen, and none that has taken its place since.
func readHandoff(root *os.Root, seen fs.FileInfo) ([]byte, error) {
	if why := flawOf(seen); why != "" {
		return nil, refusedFile(why)
	}
	file, err := root.OpenFile(handoffName, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	opened, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(seen, opened):
		return nil, refusedFile("another file than a moment before")
	}
	raw, err := io.ReadAll(io.LimitReader(file, report.MaxBytes+1))
	if err == nil && len(raw) > report.MaxBytes { // it grew while we read
		return nil, refusedFile(tooLargeHandoff())
	}
	return raw, err
}

// flawOf says why a file is not read, or nothing.
func flawOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case info.Size() > report.MaxBytes:
		return tooLargeHandoff()
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || !info.Mode().IsRegular():
		return "no plain file"
	case stat.Nlink != 1:
		return "a file with a second name (hard link)"
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("owned by another user (%d)", stat.Uid)
	}
	return ""
}

func tooLargeHandoff() string { return fmt.Sprintf("larger than %d KiB", report.MaxBytes>>10) }

// Delete removes whatever lies in the handoff's place, a folder with all that is in it included, and follows no link. Nothing there is
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
	return ops.Wrapped(err, "delete handoff")
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
