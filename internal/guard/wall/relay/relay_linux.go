// Package relay is the process in front of bubblewrap. It is a package of its own because it needs more of the standard library
// than a gate may: see package early.
package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Word is the first argument that makes this program the relay of a sandbox.
const Word = "sandbox-relay"

func init() { //nolint:gochecknoinits // a session waits for it: the rest of the program need not be set up
	if len(os.Args) > 1 && os.Args[1] == Word {
		syscall.Exit(Run(os.Args[2:], os.Stderr)) // os.Exit waits a second under the race detector
	}
}

// noRelay is the exit code when bubblewrap could not be started, as a shell says it.
const noRelay = 127

// Run starts bubblewrap, args being the program and its arguments, and returns its exit code. Bubblewrap itself passes no
// signal on: a polite one would kill the sandbox at once. So Run is in front of it and passes what it gets to the
// agent inside. It is the whole life of a process: the caller exits with the code.
func Run(args []string, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "sandbox relay: the command is missing")
		return noRelay
	}
	// The signal that the death of a parent sends follows the thread that started the child.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	status, theirs, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", err)
		return noRelay
	}
	cmd := &exec.Cmd{
		Path: args[0], Args: append([]string{args[0], "--json-status-fd", "3"}, args[1:]...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", err)
		return noRelay
	}
	ended := make(chan struct{})
	go passSignals(status, signals, ended)
	err = cmd.Wait()
	close(ended) // nobody waits for what ends with this process: the next session does not start before its end is seen
	return exitCode(cmd, err)
}

func exitCode(cmd *exec.Cmd, err error) int {
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return noRelay
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// passSignals gives each signal to the agent. One that comes before the agent is there waits for it.
func passSignals(status io.Reader, signals <-chan os.Signal, ended <-chan struct{}) {
	var first struct {
		Child     int `json:"child-pid"`
		Namespace int `json:"pid-namespace"` // 0 without one of its own
	}
	if err := json.NewDecoder(status).Decode(&first); err != nil || first.Child <= 0 {
		return // it could not set up the sandbox, and says why by itself
	}
	for {
		select {
		case <-ended:
			return
		case sig := <-signals:
			for !signalAgent(first.Child, first.Namespace != 0, sig) {
				select {
				case <-ended:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		}
	}
}

// signalAgent sends a signal to the process that the first one of the sandbox started, and reports whether there was one. Without
// a pid namespace the first process becomes the agent itself.
func signalAgent(first int, inNamespace bool, sig os.Signal) bool {
	if !inNamespace {
		proc, err := os.FindProcess(first)
		if err != nil {
			return false
		}
		err = proc.Signal(sig)
		_ = proc.Release()
		return err == nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return false
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !isAgent(string(raw), first) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		proc, err := os.FindProcess(pid)
		if err != nil {
			return false
		}
		err = proc.Signal(sig)
		_ = proc.Release()
		return err == nil
	}
	return false
}

// isAgent reports whether a process is the second one of the sandbox whose first one is given: that is the agent.
func isAgent(status string, first int) bool {
	parent, inner := "", ""
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); {
		case len(fields) == 0:
		case name == "PPid":
			parent = fields[0]
		case name == "NSpid" && len(fields) > 1:
			inner = fields[len(fields)-1]
		}
	}
	return parent == strconv.Itoa(first) && inner == "2"
}
