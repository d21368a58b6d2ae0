package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"claudeops/internal/ops"
)

// Lock keeps a second supervisor away from a state folder while this process lives; the kernel releases it however the process ends. The
// zero Lock holds no folder.
type Lock struct{ file *os.File }

// Take locks a state folder. If another supervisor has it, the error is ops.ErrConflict and names that one.
func (l *Lock) Take(stateDir string) error {
	path := filepath.Join(stateDir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open lock: %w; make the state folder writable or set CLAUDEOPS_STATE_DIR", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errors.Join(inUse(stateDir), f.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if err := writeHolder(f); err != nil {
		return errors.Join(fmt.Errorf("write lock: %w", err), f.Close())
	}
	l.file = f
	return nil
}

// Release lets another supervisor have the folder.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// inUse names the supervisor that has the state folder.
func inUse(stateDir string) error {
	return ops.NewConflict(ops.ConflictTaken, "claudeops is already running: %s is in use by %s; stop it first or use another state folder",
		stateDir, readHolder(filepath.Join(stateDir, "lock")))
}

// Holder returns an error that names the supervisor which has the state folder, or nil. It creates nothing.
func Holder(stateDir string) error {
	f, err := os.Open(filepath.Join(stateDir, "lock"))
	if err != nil {
		return nil //nolint:nilerr // there is none, or opening the state folder says what is wrong
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = inUse(stateDir)
	} else {
		err = nil
	}
	return errors.Join(err, f.Close()) // closing releases the lock
}

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Appendf(nil, "pid %d on %s\n", os.Getpid(), host)
	// A file that is cut first can make the next write wait for the disk.
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == int64(len(text)) {
		return err
	}
	return f.Truncate(int64(len(text)))
}

func readHolder(path string) string {
	raw, err := os.ReadFile(path)
	if text := strings.TrimSpace(string(raw)); err == nil && text != "" {
		return text
	}
	return "another claudeops"
}

// Offline calls f while no supervisor runs on the state folder, and prevents one from starting meanwhile. If one runs, it
// returns ops.ErrConflict.
func Offline(stateDir string, f func() error) error {
	var l Lock
	if err := l.Take(stateDir); err != nil {
		return err
	}
	return errors.Join(f(), l.Release())
}
