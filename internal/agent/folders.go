package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
	if f.Work == "" {
		f.Work = filepath.Join(agent, "work")
	}
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
func freshFolders(spec ops.SessionSpec, bin *Discards) (Folders, error) {
	f, err := foldersOf(spec)
	if err != nil {
		return Folders{}, err
	}
	// Opened first: a version before this one kept the record in a folder that is discarded now.
	record, err := openRecord(spec)
	if err != nil {
		return Folders{}, err
	}
	if record != nil {
		defer func() { _ = record.Close() }()
	}
	if err := f.discard(bin); err != nil {
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
func (f Folders) discard(bin *Discards) error {
	err := bin.discard(f.State, f.Agent)
	if f.ownsWork() {
		err = errors.Join(err, bin.discard(f.State, f.Work))
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

// NoteRun notes that a session starts and returns the ones that its cycle started before, each as TIER/ROLE/HANDLER. The
// scripted agent plays by that; it cannot keep count itself.
func NoteRun(spec ops.SessionSpec) ([]string, error) {
	s := spec.Session
	name := filepath.Join(spec.StateDir, keptFolder, strconv.FormatInt(int64(s.CycleID), 10), "runs")
	before, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Refuse(ops.FailureStart, "the earlier sessions cannot be counted: %v", err)
	}
	now := fmt.Sprintf("%d/%s/%s\n", s.Tier, cmp.Or(s.Role, ops.RoleWork), s.Handler)
	err = os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, append(before, now...), 0o600)
	}
	if err != nil {
		return nil, Refuse(ops.FailureStart, "the session cannot be counted: %v", err)
	}
	return strings.Fields(string(before)), nil
}

// below returns the path of a file relative to a folder that holds it.
func below(dir, file string) (string, bool) {
	rel, err := filepath.Rel(dir, file)
	return rel, err == nil && rel != "." && filepath.IsLocal(rel)
}

// afterElements cuts the first elements off a relative path.
func afterElements(rel string, n int) (string, bool) {
	parts := strings.SplitN(rel, string(filepath.Separator), n+1)
	if len(parts) <= n {
		return "", false
	}
	return parts[n], true
}
