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
	"slices"
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

// relayTime bounds how long the end of the network's relay is awaited.
const relayTime = 2 * time.Second

// mostTries is how often bubblewrap is started: beside backups and containers that come and go, two are not always enough.
const mostTries = 4

// noRelay is the exit code when bubblewrap could not be started, as a shell says it.
const noRelay = 127

// notSetUp is the exit code of bubblewrap when it could not set up the sandbox. A program in it may end with the same.
const notSetUp = 1

// Run starts bubblewrap, args being the program and its arguments, and returns its exit code. Bubblewrap itself passes no
// signal on: a polite one would kill the sandbox at once. So Run is in front of it and passes what it gets to the
// agent inside. It is the whole life of a process: the caller exits with the code.
//
// Containers and drives come and go while bubblewrap works through the mounts of the machine, and files while it works through ours.
// If it fails for that, it is tried again, with the mounts of the machine as they are then and without those of ours that hide what is
// gone.
func Run(args []string, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "sandbox relay: the command is missing")
		return noRelay
	}
	// The signal that the death of a parent sends follows the thread that started the child.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	const list = "/proc/self/mountinfo"
	mounts, err := syscall.Open(list, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // os.Open would wait for changes itself, and use them up
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", &os.PathError{Op: "open", Path: list, Err: err})
		return noRelay
	}
	for try := 1; ; try++ {
		code, ran := bubblewrap(args, signals, stderr)
		fresh := present(args)
		if ran || try == mostTries || len(fresh) == len(args) && !changed(mounts) {
			return code
		}
		fmt.Fprintln(stderr, "sandbox relay: a mount disappeared meanwhile; trying again")
		args = fresh
	}
}

// bubblewrap runs it to its end and reports whether the program inside was started.
func bubblewrap(args []string, signals chan os.Signal, stderr io.Writer) (code int, ran bool) {
	status, theirs, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", err)
		return noRelay, true
	}
	cmd := &exec.Cmd{
		Path: args[0], Args: append([]string{args[0], "--json-status-fd", "3"}, args[1:]...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	// A relay of the session's network ends with the agent; its end is awaited, so that it is not taken for something left behind.
	line, end, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", err)
		return noRelay, true
	}
	defer func() { _ = line.Close() }()
	if slices.Contains(args, "--unshare-net") {
		cmd.ExtraFiles = append(cmd.ExtraFiles, end) // confine.Lifeline
	}
	err = cmd.Start()
	_ = theirs.Close()
	_ = end.Close()
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", err)
		return noRelay, true
	}
	reports := json.NewDecoder(status)
	ended, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		passSignals(reports, signals, ended)
	}()
	err = cmd.Wait()
	close(ended)
	if line.SetReadDeadline(time.Now().Add(relayTime)) == nil {
		_, _ = line.Read(make([]byte, 1))
	}
	if code = exitCode(cmd, err); code != notSetUp {
		return code, true // nobody waits for what ends with this process: the next session does not start before its end is seen
	}
	<-passed
	var last struct {
		Code *int `json:"exit-code"` // reported only of a program that was started
	}
	return code, reports.Decode(&last) == nil && last.Code != nil
}

// changed reports whether something was mounted or unmounted since the list was opened: the kernel marks it then.
func changed(mounts int) bool {
	const bits = 64
	var marked syscall.FdSet
	marked.Bits[mounts/bits] |= 1 << (mounts % bits)
	n, err := syscall.Select(mounts+1, nil, nil, &marked, &syscall.Timeval{})
	return err == nil && n > 0
}

// present are the arguments of bubblewrap without the mounts that hide what is gone. What is to be seen and is gone is left out by
// bubblewrap itself, or missed.
func present(args []string) []string {
	var out []string
	for len(args) > 0 && args[0] != "--" {
		n := 1
		for n < len(args) && !strings.HasPrefix(args[n], "--") {
			n++
		}
		if !gone(args[:n]) {
			out = append(out, args[:n]...)
		}
		args = args[n:]
	}
	return append(out, args...)
}

// gone reports whether an option hides something that is not there.
func gone(option []string) bool {
	hides := option[0] == "--tmpfs" || option[0] == "--remount-ro" || option[0] == "--ro-bind" && option[1] == os.DevNull
	if !hides {
		return false
	}
	_, err := os.Lstat(option[len(option)-1])
	return errors.Is(err, os.ErrNotExist)
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
func passSignals(reports *json.Decoder, signals chan os.Signal, ended <-chan struct{}) {
	var first struct {
		Child     int `json:"child-pid"`
		Namespace int `json:"pid-namespace"` // 0 without one of its own
	}
	if err := reports.Decode(&first); err != nil || first.Child <= 0 {
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
					select {
					case signals <- sig: // for the agent of the next try
					default:
					}
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
