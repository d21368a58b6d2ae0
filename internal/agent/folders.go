package agent

import (
	"os"
	"path/filepath"

	"claudeops/internal/ops"
)

const agentFolder = "agent" // in the state folder

// Folders are where the agents of an environment keep their files.
type Folders struct {
	State  string
	Agent  string // what the supervisor keeps for them; not writable behind walls
	Home   string
	Config string // what a CLI keeps between sessions
	Work   string
}

// MakeFolders makes the folders of a session.
func MakeFolders(spec ops.SessionSpec) (Folders, error) {
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
