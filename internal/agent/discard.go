package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// discardedFolder holds what is being removed. No agent gets to see it.
const discardedFolder = "discarded"

// Discards removes what sessions leave. A session may leave a great many files, so they are only moved away at once; the next
// session does not wait for their removal. The nil value removes at once.
type Discards struct {
	Logger *slog.Logger

	removing sync.WaitGroup
}

// Wait returns when everything that was discarded is removed.
func (d *Discards) Wait() { d.removing.Wait() }

// later does something that the next session need not wait for.
func (d *Discards) later(do func()) {
	if d == nil {
		do()
		return
	}
	d.removing.Go(do)
}

// discard takes a folder away. Its name is free when discard returns.
func (d *Discards) discard(state, dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to := filepath.Join(state, discardedFolder, uuid.NewString())
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if info.IsDir() {
		// A folder that its owner may not write to cannot be moved. What cannot be opened up is refused below.
		_ = os.Chmod(dir, 0o700)
	}
	if err := os.Rename(dir, to); err != nil {
		// A mount, for example.
		return removeContents(dir)
	}
	d.remove(to)
	return nil
}

// remove removes a folder that was moved away. What cannot be removed is tried again at the next start.
func (d *Discards) remove(path string) {
	if d == nil {
		_ = removeAll(path)
		return
	}
	d.later(func() {
		if err := removeAll(path); err != nil && d.Logger != nil {
			d.Logger.Warn("files of an ended session could not be removed", "error", err)
		}
	})
}

// removeAll removes a folder with everything in it, also what its owner may not write to.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = os.Chmod(path, 0o700)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	openUp(root, ".")
	return os.RemoveAll(path)
}

// openUp lets the owner change folders that an agent closed. No link is followed.
func openUp(root *os.Root, dir string) {
	_ = root.Chmod(dir, 0o700)
	folder, err := root.Open(dir)
	if err != nil {
		return
	}
	entries, _ := folder.ReadDir(-1)
	_ = folder.Close()
	for _, e := range entries {
		if e.IsDir() {
			openUp(root, filepath.Join(dir, e.Name()))
		}
	}
}

// removeContents empties a folder that cannot be moved.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// SweepFolders removes what the sessions of an earlier supervisor left in the state folder of an environment, and the records
// of cycles that are over. No session may run there.
func SweepFolders(stateDir string, open func(ops.CycleID) bool, bin *Discards) error {
	err := bin.discard(stateDir, filepath.Join(stateDir, agentFolder))
	left, readErr := os.ReadDir(filepath.Join(stateDir, discardedFolder))
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		err = errors.Join(err, readErr)
	}
	for _, e := range left {
		bin.remove(filepath.Join(stateDir, discardedFolder, e.Name()))
	}
	return errors.Join(err, ForgetConversations(stateDir, func(id ops.CycleID) bool { return !open(id) }))
}

// ForgetConversations removes the records of the cycles that are over.
func ForgetConversations(stateDir string, over func(ops.CycleID) bool) error {
	kept := filepath.Join(stateDir, keptFolder)
	entries, err := os.ReadDir(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list conversations: %w", err)
	}
	var errs []error
	for _, e := range entries {
		id, err := strconv.ParseInt(e.Name(), 10, 64)
		if err == nil && over(ops.CycleID(id)) {
			errs = append(errs, os.RemoveAll(filepath.Join(kept, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove conversations: %w", err)
	}
	return nil
}
