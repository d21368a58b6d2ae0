package confine

import "strings"

// Some agents cannot be told to put a program before their shell: they start the shell of their user, or one that the model names. For
// them the mounts of a session put the gate in the place of those shells.
const (
	// ShellsFolder is the folder, in that of the gate, with the names under which the gate is started as a shell.
	ShellsFolder = "shells"
	// UserShell is the shell of the agent's user there; RealShell is what /bin/sh was before the gate took its place.
	UserShell = "bash"
	RealShell = "real-sh"
	UsersFile = "passwd" // the list of users, with UserShell as the shell of the agent's user

	// GateVariable holds the folder of the gate in the environment of the agent, PathVariable the PATH of its commands. The agent itself
	// finds nothing but the gate in its PATH.
	GateVariable = "CLAUDEOPS_SHELL_GATE"
	PathVariable = "CLAUDEOPS_SHELL_PATH"
	// JudgedVariable holds the folder of the gate in the environment of a command that was allowed: shells that it starts are not asked
	// about. The agent has no way to set it.
	JudgedVariable = "CLAUDEOPS_SHELL_JUDGED"
)

// Shells are the names under which the gate is found as a shell.
func Shells() []string { return []string{UserShell, "sh", "zsh", "pwsh"} }

// IsShell reports whether a program of this path or name is a shell.
func IsShell(path string) bool {
	name := strings.TrimPrefix(path[strings.LastIndexByte(path, '/')+1:], "-")
	switch name {
	case "bash", "dash", "sh", "zsh", "pwsh":
		return true
	}
	return false
}
