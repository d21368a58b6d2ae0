package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Wall says what a program may still do behind it. Folders and files that do not exist are left out.
type Wall struct {
	// Read lists folders and files that can be read and executed, Write those that can be changed as well.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Closed are places in Read that cannot be read, in order. Mounts cover them too, but a cover goes when the file below it is replaced.
	Closed []string `json:"closed,omitempty"`
	// Others are folders in Read in which nothing is opened that others may not read, whatever has come since Closed was made.
	Others []string `json:"others,omitempty"`
	// Lent can be changed like Write, but only while each is still the file or folder that was found before.
	Lent []Place `json:"lent,omitempty"`
	// NoUnix refuses new Unix sockets: the only way to keep path-named sockets out of reach where neither file permissions nor
	// mounts do.
	NoUnix bool `json:"no_unix,omitempty"`
	// NoSockets refuses new sockets of any kind.
	NoSockets bool `json:"no_sockets,omitempty"`
	// KeepMetadata refuses to change owners, modes, times and attributes of files. Landlock does not cover them, so a process that
	// runs as the owner of the supervisor's files must not have them, unless a read-only mount protects the files.
	KeepMetadata bool `json:"keep_metadata,omitempty"`
	// Ports are the only TCP ports that can be connected to, at whatever address, and TCP is all there is of the network; nil: no such
	// wall. It is the second best, for machines without network namespaces.
	Ports []int `json:"ports,omitempty"`
	// NoShared refuses memory, queues and semaphores that programs share by number or name: only a namespace makes them private.
	NoShared bool `json:"no_shared,omitempty"`
	// Trial is made behind the wall before the program starts; nil: no trial.
	Trial *Trial `json:"trial,omitempty"`
	// Best accepts a kernel without Landlock or without a part of it.
	Best bool `json:"best,omitempty"`
}

// Place is a file or folder that was reached without following a link, and what it was then: something else that was put in its place, or
// mounted there, is not it.
type Place struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Plan is what this program does before it becomes an agent.
type Plan struct {
	Walls []*Wall `json:"walls"` // the outermost first; the agent stays behind them
	// Trial are walls that a thread of its own tries first, the last one with a Trial. The result is the first line of the output.
	Trial []*Wall `json:"trial,omitempty"`
	// Network is opened before the walls are set up; nil where the program has no network namespace of its own.
	Network *Network `json:"network,omitempty"`
	// Relay makes this program the relay of a network, whose listeners it has inherited.
	Relay *Network `json:"relay,omitempty"`
}

// Network is what passes the connections in a network namespace on to the supervisor.
type Network struct {
	Socket string `json:"socket"` // of the supervisor, who decides about each connection and dials
	Ports  []int  `json:"ports"`  // TCP ports that are listened on
}

// A trial prints Report and what it found: Hold, or what is broken.
const (
	Report = "claudeops walls: "
	Hold   = "hold"
	Again  = ", set up again: " // follows Hold, with what the first trial found broken
)

// Notice is what a file says that covers a hidden one: a comment to most programs that expect settings there.
const (
	Unseen = "not visible to agents: sandbox.readable opens it"
	Notice = "# " + Unseen + "\n"
)

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

// ValueOf is the value of a variable of an environment.
func ValueOf(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Trial is what a program behind a wall must not be able to do.
type Trial struct {
	Write   []string `json:"write,omitempty"`   // files that must not open for writing
	Read    []string `json:"read,omitempty"`    // files that must not open for reading
	Process int      `json:"process,omitempty"` // a process that must not be reached by signals; 0: no trial
	Sockets []string `json:"sockets,omitempty"` // sockets that must not answer
	Own     string   `json:"own,omitempty"`     // a folder that must be writable
	// Network is what the network must refuse; nil: no trial.
	Network *NetworkTrial `json:"network,omitempty"`
}

// NetworkTrial is what a network must refuse.
type NetworkTrial struct {
	Proxy    int      `json:"proxy"`             // the port of the supervisor's proxy
	Host     [4]byte  `json:"host"`              // its address
	Requests []string `json:"requests"`          // first lines of requests that it must refuse: a forbidden address, name, method
	Name     string   `json:"name,omitempty"`    // a name that must not be found; none where there is no resolver
	Address  [4]byte  `json:"address,omitempty"` // an address that must not be reached
}

// BrokenError says which walls do not hold.
type BrokenError struct{ Broken []string }

func (e *BrokenError) Error() string {
	return "the walls do not hold: " + strings.Join(e.Broken, "; ")
}

// run tries everything. It changes nothing where a wall is missing: files are opened and closed, signal 0 is sent.
func (t *Trial) run() error {
	var broken []string
	for _, path := range t.Write {
		if opens(path, syscall.O_WRONLY|syscall.O_APPEND) {
			broken = append(broken, path+" can be written")
		}
	}
	for _, path := range t.Read {
		if raw, err := os.ReadFile(path); err == nil && string(raw) != Notice {
			broken = append(broken, path+" can be read")
		}
	}
	if t.Process > 0 && syscall.Kill(t.Process, 0) == nil {
		broken = append(broken, fmt.Sprintf("process %d can be signalled", t.Process))
	}
	for _, path := range t.Sockets {
		if answers(path) {
			broken = append(broken, path+" can be reached")
		}
	}
	if t.Network != nil {
		broken = append(broken, t.Network.run()...)
	}
	if t.Own != "" {
		if err := tryWrite(t.Own); err != nil {
			broken = append(broken, "the session cannot use its own temporary folder: "+err.Error())
		}
	}
	if broken != nil {
		return &BrokenError{broken}
	}
	return nil
}

func opens(path string, flags int) bool {
	fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = syscall.Close(fd)
	return true
}

// answers reports whether something listens at a socket. It stays on the calling thread, which is the one behind the wall.
func answers(path string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|socketFlags, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	return err == nil || err == syscall.EAGAIN || err == syscall.EPROTOTYPE
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".trial-*")
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Remove(f.Name())
}
