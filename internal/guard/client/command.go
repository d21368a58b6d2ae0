package client

import (
	"encoding/json"
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
	defer broke(stderr, &code, exitNotRun)
	if gate := confine.ValueOf(environ, confine.JudgedVariable); gate != "" {
		if err := exec(realShell(argv[0], exe, gate), argv, environ); err != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("start the shell: %w", err)))
		}
		return exitNotRun
	}
	gate := confine.ValueOf(environ, confine.GateVariable)
	answer, err := within(limit, func(until time.Time) (Answer, error) { return askCommand(argv[1:], gate, until) })
	if err == nil && answer.Script != "" {
		answer.Script = noInput + answer.Script
	}
	return run(answer, err, judgedEnvironment(environ, gate), stderr, exec)
}

// broke refuses what was asked when the guard itself breaks. It is deferred.
func broke(stderr io.Writer, code *int, refused int) {
	if p := recover(); p != nil {
		fmt.Fprintln(stderr, refusal(fmt.Errorf("the guard broke: %v", p)))
		*code = refused
	}
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
	if path := confine.ValueOf(environ, confine.PathVariable); path != "" {
		set = append(set, "PATH="+path)
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, confine.GateVariable+"=") || strings.HasPrefix(entry, confine.PathVariable+"=")
	})
	return withVariables(environ, set)
}

// The exit codes a CLI understands.
const (
	exitDecided = 0
	exitRefused = 2
)

// decision is what the CLI reads.
type decision struct {
	Output hookOutput `json:"hookSpecificOutput"`
}

type hookOutput struct {
	Event    string  `json:"hookEventName"`
	Decision Verdict `json:"permissionDecision"`
	Reason   string  `json:"permissionDecisionReason"`
	Note     string  `json:"additionalContext,omitempty"` // the agent reads it with the result of the call
}

// Hook asks about the tool call on stdin, prints the decision and returns the exit code. It is never silent: the
// CLI takes silence for consent. Without a decision the reason goes to stderr and the code refuses the call.
func Hook(stdin io.Reader, stdout, stderr io.Writer, socket string) int {
	return hook(stdin, stdout, stderr, socket, patience)
}

func hook(stdin io.Reader, stdout, stderr io.Writer, socket string, limit time.Duration) (code int) {
	defer broke(stderr, &code, exitRefused)
	answer, err := within(limit, func(until time.Time) (Answer, error) {
		input, err := readInput(stdin)
		if err != nil {
			return Answer{}, err
		}
		return ask(socket, Request{Kind: KindHook, Input: input}, until)
	})
	if err == nil {
		err = printDecision(stdout, answer)
	}
	if err != nil {
		fmt.Fprintln(stderr, refusal(err))
		return exitRefused
	}
	return exitDecided
}

func readInput(stdin io.Reader) (json.RawMessage, error) {
	input, err := io.ReadAll(io.LimitReader(stdin, MaxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the input cannot be read: %w", err)
	case len(input) > MaxInput:
		return nil, errTooLong
	case !json.Valid(input):
		return nil, errors.New("the input is no JSON")
	}
	return input, nil
}

func printDecision(stdout io.Writer, a Answer) error {
	text, err := json.Marshal(decision{hookOutput{Event: "PreToolUse", Decision: a.Verdict, Reason: a.Reason, Note: a.Note}})
	if err != nil {
		return fmt.Errorf("write the decision: %w", err)
	}
	if _, err := stdout.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the decision: %w", err)
	}
	return nil
}

// exitNotRun says, as shells do, that a command was found and could not be executed.
const exitNotRun = 126

// bash executes what was judged.
const bash = "/bin/bash"

// Shell asks about the one argument a CLI gives to the program before its shell, and becomes the shell that runs
// the answer. Self is the path the program was started by: the socket lies beside it. Shell returns only when
// nothing was run, and then the exit code.
func Shell(args, environ []string, self string, stderr io.Writer) int {
	return shell(args, environ, self, stderr, patience, syscall.Exec)
}

type execFunc func(path string, argv, env []string) error

func shell(args, environ []string, self string, stderr io.Writer, limit time.Duration, exec execFunc) (code int) {
	defer broke(stderr, &code, exitNotRun)
	answer, err := within(limit, func(until time.Time) (Answer, error) { return askShell(args, self, until) })
	return run(answer, err, environ, stderr, exec)
}

// run becomes the shell that runs the answer.
func run(answer Answer, err error, environ []string, stderr io.Writer, exec execFunc) int {
	switch {
	case err != nil:
		fmt.Fprintln(stderr, refusal(err))
	case answer.Verdict != Allow:
		fmt.Fprintln(stderr, answer.Reason)
	case answer.Script == "":
		fmt.Fprintln(stderr, refusal(errors.New("the supervisor allowed it and gave nothing to execute")))
	default:
		env := withVariables(commandEnvironment(environ), answer.Env)
		if answer.Note != "" {
			fmt.Fprintln(stderr, answer.Note)
		}
		if err := enter(answer.Wall); err != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("set up the walls of the command: %w", err)))
			break
		}
		if err := exec(bash, []string{bash, "-c", answer.Script}, env); err != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("start the shell: %w", err)))
		}
	}
	return exitNotRun
}

func askShell(args []string, self string, until time.Time) (Answer, error) {
	if len(args) != 1 {
		return Answer{}, fmt.Errorf("the shell was given %d arguments, not one", len(args))
	}
	if len(args[0]) > MaxInput {
		return Answer{}, errTooLong
	}
	folder := strings.LastIndexByte(self, '/')
	if !strings.HasPrefix(self, "/") {
		return Answer{}, fmt.Errorf("the shell was started as %q: it needs its full path to find the supervisor", self)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return Answer{}, fmt.Errorf("find the working folder: %w", err)
	}
	return ask(self[:folder+1]+SocketName, Request{Kind: KindShell, Command: args[0], Cwd: cwd}, until)
}

// commandEnvironment leaves out what a command must not know, and what would make bash run more than it was given.
func commandEnvironment(environ []string) []string {
	fixed := fixedEnvironment()
	out := make([]string, 0, len(environ)+len(fixed))
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !withheld(name) && !slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") }) {
			out = append(out, entry)
		}
	}
	return append(out, fixed...)
}

// fixedEnvironment keeps programs from starting a pager, an editor or a prompt, and git from settings that nobody judged.
func fixedEnvironment() []string {
	return []string{
		"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "GH_PAGER=cat",
		"EDITOR=false", "VISUAL=false", "GIT_EDITOR=false", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1",
	}
}

func withheld(name string) bool {
	switch name {
	case "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
		"CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN":
		return true
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}
