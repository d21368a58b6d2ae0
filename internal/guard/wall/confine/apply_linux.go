package confine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

// Apply puts the calling thread behind a wall, for good. The caller locks the goroutine to its thread before and then becomes
// another program: the other threads of this process stay outside.
func Apply(w *Wall) error {
	setLimits()
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := restrictFiles(w); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := filterCalls(w); err != nil {
		return err
	}
	if w.Trial != nil {
		return w.Trial.run()
	}
	return nil
}

// Word is the first argument that makes this program confine itself and become another one.
const Word = "confine"

// exitNotConfined is the exit code when the walls could not be set up or do not hold.
const exitNotConfined = 125

// Arguments are what makes the program self run a program behind walls, the outermost first.
func Arguments(self string, walls []*Wall, path string, argv []string) ([]string, error) {
	spec, err := json.Marshal(walls)
	if err != nil {
		return nil, fmt.Errorf("describe walls: %w", err)
	}
	return append([]string{self, Word, string(spec), path}, argv...), nil
}

// Main puts this process behind walls and becomes the program that the arguments name; without a program it only tries the walls.
// The arguments are the walls, the path of the program and its arguments with its name. It returns only when something failed, or
// after a trial.
func Main(args, environ []string, stderr io.Writer) int {
	runtime.LockOSThread()
	var walls []*Wall
	if len(args) < 2 {
		fmt.Fprintln(stderr, "confine: the walls or the program are missing")
		return exitNotConfined
	}
	if err := json.Unmarshal([]byte(args[0]), &walls); err != nil {
		fmt.Fprintln(stderr, "confine: read walls:", err)
		return exitNotConfined
	}
	for _, w := range walls {
		if err := Apply(w); err != nil {
			fmt.Fprintln(stderr, "confine:", err)
			return exitNotConfined
		}
	}
	if args[1] == "" {
		return 0
	}
	err := syscall.Exec(args[1], args[2:], environ)
	fmt.Fprintln(stderr, "confine:", &os.PathError{Op: "start", Path: args[1], Err: err})
	return exitNotConfined
}
