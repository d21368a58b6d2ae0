package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/guard/wall/confine"
)

// noInput keeps a command from reading what an agent may write to it after it was judged.
const noInput = "exec </dev/null\n"

// Command acts in the place of a shell that an agent starts: it asks about the command, and becomes the shell that runs the answer. Argv
// are its arguments with its name, exe is the file it was started from. A shell that a judged command starts is run as it is. Command
// returns only when nothing was run, and then the exit code.
func Command(argv, environ []string, exe string, stderr io.Writer) int {
	return command(argv, environ, exe, stderr, patience, syscall.Exec)
}

func command(argv, environ []string, exe string, stderr io.Writer, limit time.Duration, exec execFunc) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("the guard broke: %v", p)))
			code = exitNotRun
		}
	}()
	if gate := valueOf(environ, confine.JudgedVariable); gate != "" {
		if err := exec(realShell(argv[0], exe, gate), argv, environ); err != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("start the shell: %w", err)))
		}
		return exitNotRun
	}
	gate := valueOf(environ, confine.GateVariable)
	answer, err := within(limit, func(until time.Time) (Answer, error) { return askCommand(argv[1:], gate, until) })
	if err == nil && answer.Script != "" {
		answer.Script = noInput + answer.Script
	}
	return run(answer, err, judgedEnvironment(environ, gate), stderr, exec)
}

// realShell is the shell that was meant: where the gate was mounted in its place, the file that was there before.
func realShell(name, exe, gate string) string {
	if confine.IsShell(exe) {
		return gate + "/" + confine.ShellsFolder + "/" + confine.RealShell
	}
	return "/bin/" + strings.TrimPrefix(name[strings.LastIndexByte(name, '/')+1:], "-")
}

func askCommand(args []string, gate string, until time.Time) (Answer, error) {
	switch {
	case !strings.HasPrefix(gate, "/"):
		return Answer{}, errors.New("the shell does not know its supervisor")
	case len(args) != 2 || args[0] != "-c" && args[0] != "-lc":
		return Answer{}, errors.New("only a command in one text is judged (-c)")
	case len(args[1]) > MaxInput:
		return Answer{}, errTooLong
	case slices.ContainsFunc([]*os.File{os.Stdin, os.Stdout, os.Stderr}, isTerminal):
		return Answer{}, errors.New("what is typed into a terminal is not judged: run it without one")
	}
	cwd, err := os.Getwd()
	if err != nil {
		return Answer{}, fmt.Errorf("find the working folder: %w", err)
	}
	return ask(gate+"/"+SocketName, Request{Kind: KindCommand, Command: args[1], Cwd: cwd}, until)
}

// isTerminal reports whether a file is a device other than the one that is always empty.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// judgedEnvironment is the environment of a command that was allowed.
func judgedEnvironment(environ []string, gate string) []string {
	set := []string{confine.JudgedVariable + "=" + gate}
	if path := valueOf(environ, confine.PathVariable); path != "" {
		set = append(set, "PATH="+path)
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, confine.GateVariable+"=") || strings.HasPrefix(entry, confine.PathVariable+"=")
	})
	return withVariables(environ, set)
}

func valueOf(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
