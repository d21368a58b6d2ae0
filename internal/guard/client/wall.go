package client

import (
	"runtime"
	"slices"
	"strings"

	"claudeops/internal/guard/wall/confine"
)

// enter puts this program behind the walls of a command. It comes right before the program becomes the shell: nothing else can be
// done behind them.
func enter(w *confine.Wall) error {
	if w == nil {
		return nil
	}
	runtime.LockOSThread()
	return confine.Apply(w)
}

// withVariables sets variables in an environment.
func withVariables(environ, set []string) []string {
	for _, entry := range set {
		name, _, _ := strings.Cut(entry, "=")
		environ = slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		environ = append(environ, entry)
	}
	return environ
}
