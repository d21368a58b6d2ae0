package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
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

// Arguments are what makes the program self run a program as planned.
func Arguments(self string, plan Plan, path string, argv []string) ([]string, error) {
	spec, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("describe walls: %w", err)
	}
	return append([]string{self, Word, string(spec), path}, argv...), nil
}

// Main puts this process behind walls and becomes the program that the arguments name. The arguments are the plan, the path of the
// program and its arguments with its name. It returns only when something failed.
func Main(args, environ []string, stdout, stderr io.Writer) int {
	runtime.LockOSThread()
	if len(args) < 2 {
		fmt.Fprintln(stderr, "confine: the walls or the program are missing")
		return exitNotConfined
	}
	var plan Plan
	if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
		fmt.Fprintln(stderr, "confine: read walls:", err)
		return exitNotConfined
	}
	if plan.Relay != nil {
		return plan.Relay.serve()
	}
	if plan.Network != nil {
		if err := plan.Network.open(plan.Walls); err != nil {
			fmt.Fprintln(stdout, Report+"the network of the session could not be set up: "+err.Error())
			return exitNotConfined
		}
	}
	if len(plan.Trial) > 0 {
		report, broken := Hold, (*BrokenError)(nil)
		err := try(plan.Trial, plan.Network != nil)
		if errors.As(err, &broken) { // something may just have been replaced by something else
			report, err = Hold+Again+err.Error(), try(plan.Trial, plan.Network != nil)
		}
		if err != nil {
			fmt.Fprintln(stdout, Report+err.Error())
			return exitNotConfined
		}
		fmt.Fprintln(stdout, Report+report)
	}
	if err := applyAll(plan.Walls); err != nil {
		fmt.Fprintln(stderr, "confine:", err)
		return exitNotConfined
	}
	err := syscall.Exec(args[1], args[2:], environ)
	fmt.Fprintln(stderr, "confine:", &os.PathError{Op: "start", Path: args[1], Err: err})
	return exitNotConfined
}

// OnlyRead becomes a program that has the rights of cat: it reads what this process may read, and writes to what is open already. It
// returns only when something failed.
func OnlyRead(argv, environ []string, stderr io.Writer) int {
	runtime.LockOSThread()
	if err := Apply(&Wall{
		Read: []string{"/"}, Write: []string{os.DevNull}, NoSockets: true, KeepMetadata: true, NoShared: true, Best: true,
	}); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", argv[0], err)
		return exitNotConfined
	}
	err, dirs := error(syscall.ENOENT), strings.Split(ValueOf(environ, "PATH"), ":")
	if strings.Contains(argv[0], "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		if found := syscall.Exec(dir+"/"+argv[0], argv, environ); found != syscall.ENOENT && found != syscall.ENOTDIR {
			err = found
		}
	}
	fmt.Fprintf(stderr, "%s: %v\n", argv[0], err)
	return exitNotConfined
}

// try puts a thread behind walls and lets it find out what they hold. The thread ends with it; the others stay as they are.
func try(walls []*Wall, networked bool) error {
	result := make(chan error, 1)
	network := -1
	if networked {
		var err error
		if network, err = ownNetwork(); err != nil {
			return err
		}
	}
	go func() {
		runtime.LockOSThread() // and never unlocked: nothing else may run on this thread
		if networked {
			if err := join(network); err != nil {
				result <- err
				return
			}
		}
		result <- applyAll(walls)
	}()
	return <-result
}

func applyAll(walls []*Wall) error {
	for _, w := range walls {
		if err := Apply(w); err != nil {
			return err
		}
	}
	return nil
}
