// Package early makes the program a gate, or puts it behind walls, before anything else of it is set up. An agent waits for a gate
// at every tool call, and what the other packages of the program prepare when they are initialized takes several times as long as
// the question itself.
//
// It works because Go initializes packages in the order of their import paths as soon as what they import is ready: this one comes
// before all modules of other people, as long as it needs only what those need as well. One import more, such as net or
// path/filepath, and hundreds of packages come first: TestTheGatesComeFirst notices. Were the order another, the gates would be
// slower and still right.
package early

import (
	"os"
	"strings"

	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
)

func init() { //nolint:gochecknoinits // see the package comment
	if code, ok := asGate(os.Args); ok {
		os.Exit(code)
	}
}

// asGate acts as a gate if the program was started as one.
func asGate(args []string) (code int, ok bool) {
	switch {
	case len(args) > 0 && (args[0] == client.ShellName || strings.HasSuffix(args[0], "/"+client.ShellName)):
		return client.Shell(args[1:], os.Environ(), args[0], os.Stderr), true //nolint:forbidigo // it goes to the command, unread
	case len(args) > 0 && (args[0] == client.ActName || strings.HasSuffix(args[0], "/"+client.ActName)):
		return client.Act(args[1:], os.Environ(), os.Stdout, os.Stderr), true //nolint:forbidigo // it names the socket of the session
	case len(args) > 0 && startedAsShell(args[0]):
		exe, _ := os.Readlink(ownFile)                                  // without it, it is the name that counts
		return client.Command(args, os.Environ(), exe, os.Stderr), true //nolint:forbidigo // it goes to the command, unread
	case len(args) == 4 && args[1] == "guard" && args[2] == "hook":
		return client.Hook(os.Stdin, os.Stdout, os.Stderr, args[3]), true
	case len(args) > 1 && args[1] == confine.Word:
		return confine.Main(args[2:], os.Environ(), os.Stdout, os.Stderr), true //nolint:forbidigo // it goes to the agent, unread
	default:
		return 0, false
	}
}

const ownFile = "/proc/self/exe"

// startedAsShell reports whether the program was started in the place of a shell: by the name of one, or because it was mounted over one.
func startedAsShell(name string) bool {
	if confine.IsShell(name) {
		return true
	}
	exe, err := os.Readlink(ownFile)
	return err == nil && confine.IsShell(exe)
}
