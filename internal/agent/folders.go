package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// In the state folder of an environment.
const (
	agentFolder    = "agent"         // of the session that runs
	keptFolder     = "conversations" // the records of open cycles; no agent gets to see it
	templateFolder = "work.template" // of the operator: what every session finds in its working folder
)

// Folders are where the agent of a session keeps its files. Nothing but the record of the conversation outlives the session.
type Folders struct {
	State  string
	Agent  string // what the supervisor keeps for the session; not writable behind walls
	Home   string
	Config string // what a CLI keeps of itself
	Work   string
}

// foldersOf names the folders of a session.
func foldersOf(spec ops.SessionSpec) (Folders, error) {
	state, err := filepath.Abs(spec.StateDir)
	if err != nil || spec.StateDir == "" {
		return Folders{}, Refuse(ops.FailureStart, "the session has no state folder")
	}
	agent := filepath.Join(state, agentFolder)
	f := Folders{
		State: state, Agent: agent, Home: filepath.Join(agent, "home"), Config: filepath.Join(agent, "config"), Work: spec.WorkDir,
	}
	f.Work = cmp.Or(f.Work, filepath.Join(agent, "work"))
	if f.Work, err = filepath.Abs(f.Work); err != nil {
		return Folders{}, Refuse(ops.FailureStart, "the working folder cannot be used: %v", err)
	}
	return f, nil
}

// MakeFolders makes the folders of a session, as far as they are not there.
func MakeFolders(spec ops.SessionSpec) (Folders, error) {
	f, err := foldersOf(spec)
	if err != nil {
		return Folders{}, err
	}
	for _, dir := range []string{f.Agent, f.Home, f.Config, f.Work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Folders{}, Refuse(ops.FailureStart, "a folder of the agent cannot be made: %v", err)
		}
	}
	for _, dir := range []string{f.Agent, f.Home, f.Config} {
		if err := os.Chmod(dir, 0o700); err != nil {
			return Folders{}, Refuse(ops.FailureStart, "a folder of the agent cannot be protected: %v", err)
		}
	}
	return f, nil
}

// freshFolders makes the folders of a session with nothing in them that an earlier session left, except the record of the
// conversation that the session continues.
func freshFolders(spec ops.SessionSpec) (Folders, error) {
	f, err := foldersOf(spec)
	if err != nil {
		return Folders{}, err
	}
	record, err := openRecord(spec)
	if err != nil {
		return Folders{}, err
	}
	if record != nil {
		defer func() { _ = record.Close() }()
	}
	if err := f.discard(); err != nil {
		return Folders{}, Refuse(ops.FailureStart, "what an earlier session left cannot be removed: %v", err)
	}
	if _, err := MakeFolders(spec); err != nil {
		return Folders{}, err
	}
	if err := f.fillWork(); err != nil {
		return f, Refuse(ops.FailureStart, "the working folder cannot be filled from %s: %v", templateFolder, err)
	}
	if record != nil {
		err = f.restore(spec, record)
	}
	return f, err
}

// discard throws away everything that the session left.
func (f Folders) discard() error {
	err := discard(f.State, f.Agent)
	if f.ownsWork() {
		err = errors.Join(err, discard(f.State, f.Work))
	}
	return err
}

// ownsWork reports whether the working folder lies in the state folder. Another one belongs to the operator and is left as it is.
func (f Folders) ownsWork() bool {
	rel, err := filepath.Rel(f.State, f.Work)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// fillWork copies what the operator wants to be in the working folder.
func (f Folders) fillWork() error {
	if !f.ownsWork() {
		return nil
	}
	template := filepath.Join(f.State, templateFolder)
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.CopyFS(f.Work, os.DirFS(template))
}

// below returns the path of a file relative to a folder that holds it.
func below(dir, file string) (string, bool) {
	rel, err := filepath.Rel(dir, file)
	return rel, err == nil && rel != "." && filepath.IsLocal(rel)
}

// discardedFolder holds what could not be removed, such as files that a container made. No agent gets to see it.
const discardedFolder = "discarded"

// discard takes a folder away. Its name is free when discard returns.
func discard(state, dir string) error {
	if removeAll(dir) == nil {
		return nil
	}
	to := filepath.Join(state, discardedFolder, uuid.NewString())
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if os.Rename(dir, to) == nil {
		return nil
	}
	return removeContents(dir) // a mount, for example
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
func SweepFolders(stateDir string, open func(ops.CycleID) bool) error {
	err := discard(stateDir, filepath.Join(stateDir, agentFolder))
	left, readErr := os.ReadDir(filepath.Join(stateDir, discardedFolder))
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		err = errors.Join(err, readErr)
	}
	for _, e := range left {
		err = errors.Join(err, removeAll(filepath.Join(stateDir, discardedFolder, e.Name())))
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
	return ops.Wrapped(errors.Join(errs...), "remove conversations")
}
