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
)

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
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("the guard broke: %v", p)))
			code = exitNotRun
		}
	}()
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
