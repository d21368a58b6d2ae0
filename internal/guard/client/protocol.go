package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/guard/wall/confine"
)

const (
	// ShellName is the name under which the program acts as the shell of an agent.
	ShellName = "claudeops-guard-shell"
	// SocketName is the name of the socket, in the folder of the link with the name ShellName.
	SocketName = "gate.sock"
	// MaxInput is the longest input that is judged.
	MaxInput = 1 << 20

	// patience bounds a question. The CLI waits one second longer for its hook.
	patience = 9 * time.Second
	// maxAnswer leaves room for a script and its quotes.
	maxAnswer = 4 << 20
)

// Kind says which program asks.
type Kind string

// The kinds of question.
const (
	KindHook  Kind = "hook"
	KindShell Kind = "shell"
	KindTool  Kind = "tool" // one of the supervisor's own tools
	// KindCommand is a command of an agent that asks no hook before.
	KindCommand Kind = "command"
)

// Verdict is the answer in one word.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// Request is the one line a client writes.
type Request struct {
	Kind    Kind            `json:"kind"`
	Input   json.RawMessage `json:"input,omitempty"`   // of the hook: what the CLI gave it
	Command string          `json:"command,omitempty"` // of the shell and of a command: its one argument
	Cwd     string          `json:"cwd,omitempty"`     // of the shell
	Tool    string          `json:"tool,omitempty"`    // of a tool: its name; Input is what it is given
	Key     string          `json:"key,omitempty"`     // of a tool: the key of the session
}

// Answer is the one line the supervisor writes.
type Answer struct {
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	Note    string  `json:"note,omitempty"`   // what the agent should know about an allowed call
	Script  string  `json:"script,omitempty"` // for the shell: the text to execute
	Text    string  `json:"text,omitempty"`   // for a tool: its result
	// Wall is put around the command; Env are variables that it gets.
	Wall *confine.Wall `json:"wall,omitempty"`
	Env  []string      `json:"env,omitempty"`
}

var errTooLong = errors.New("the input is longer than 1 MiB: do it in smaller steps")

// ask puts one question and reads its answer.
func ask(socket string, req Request, until time.Time) (Answer, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(req); err != nil {
		return Answer{}, fmt.Errorf("the input is no JSON: %w", err)
	}
	conn, err := dial(socket, until)
	if err != nil {
		return Answer{}, fmt.Errorf("the supervisor cannot be reached: %w", err)
	}
	defer conn.Close() //nolint:errcheck // the answer was read, or there is none
	if _, err := conn.Write(line.Bytes()); err != nil {
		return Answer{}, fmt.Errorf("the supervisor cannot be asked: %w", err)
	}
	answer, err := bufio.NewReader(io.LimitReader(conn, maxAnswer)).ReadBytes('\n')
	if err != nil {
		return Answer{}, fmt.Errorf("the supervisor did not answer: %w", err)
	}
	return readAnswer(answer)
}

// dial connects to a socket without the package net: that one needs packages which Go initializes after nearly all others of
// the program, and an agent would wait for them at every call.
func dial(socket string, until time.Time) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(fd)
	limit := syscall.NsecToTimeval(max(time.Until(until), time.Millisecond).Nanoseconds())
	err = errors.Join(
		os.NewSyscallError("setsockopt", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)),
		os.NewSyscallError("setsockopt", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit)),
	)
	if err == nil {
		err = os.NewSyscallError("connect "+socket, syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}))
	}
	conn := os.NewFile(uintptr(fd), socket)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func readAnswer(line []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return Answer{}, fmt.Errorf("the answer of the supervisor cannot be read: %w", err)
	}
	switch {
	case a.Verdict != Allow && a.Verdict != Deny:
		return Answer{}, fmt.Errorf("the supervisor answered %q", a.Verdict)
	case a.Verdict == Deny && a.Reason == "":
		return Answer{}, errors.New("the supervisor refused without a reason")
	}
	return a, nil
}

// within runs a question for at most the patience of a client. A panic is an error like any other. What is
// not done in time is left behind: the program ends.
func within(limit time.Duration, question func(until time.Time) (Answer, error)) (Answer, error) {
	type reply struct {
		answer Answer
		err    error
	}
	done := make(chan reply, 1)
	until := time.Now().Add(limit)
	go func() {
		var r reply
		defer func() {
			if p := recover(); p != nil {
				r = reply{err: fmt.Errorf("the guard broke: %v", p)}
			}
			done <- r
		}()
		r.answer, r.err = question(until)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-timer.C:
		return Answer{}, errors.New("the guard got no answer in time")
	}
}

// refusal is what the agent reads when nothing could be decided.
func refusal(err error) string {
	return fmt.Sprintf("This call is refused because it could not be judged: %v. Try something else, or report it for a human.", err)
}

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
