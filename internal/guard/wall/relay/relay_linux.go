// Package relay is the process in front of a session: it stays the parent of everything that the session starts, and ends with all of it.
// It is a package of its own because it needs more of the standard library than a gate may: see package early.
package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Word is the first argument that makes this program the relay of a session, Plain the next one where there is no bubblewrap.
const (
	Word  = "sandbox-relay"
	Plain = "--"
)

// Notice is the name of the file that covers what is hidden, and that lies in hidden folders.
const Notice = "NOT-VISIBLE-TO-AGENTS"

func init() { //nolint:gochecknoinits // a session waits for it: the rest of the program need not be set up
	if len(os.Args) > 1 && os.Args[1] == Word {
		syscall.Exit(Run(os.Args[2:], os.Stderr)) // os.Exit waits a second under the race detector
	}
}

// mostTries is how often bubblewrap is started: beside backups and containers that come and go, two are not always enough.
const mostTries = 4

// noRelay is the exit code when the program could not be started, as a shell says it.
const noRelay = 127

// notSetUp is the exit code of bubblewrap when it could not set up the sandbox. A program in it may end with the same.
const notSetUp = 1

// relay is one run.
type relay struct {
	signals chan os.Signal
	parent  int // the supervisor
	stderr  io.Writer
}

// Run starts a program, args being its path and its arguments, and returns its exit code once nothing is left of what it started. It is
// the whole life of a process: the caller exits with the code.
//
// Bubblewrap itself passes no signal on: a polite one would kill the sandbox at once. So Run is in front of it and passes what it gets to
// the agent inside. If the supervisor dies, everything ends at once.
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
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		fmt.Fprintln(stderr, "sandbox relay: adopt the processes of the session:", errno)
		return noRelay
	}
	r := &relay{signals: make(chan os.Signal, 16), parent: os.Getppid(), stderr: stderr}
	signal.Notify(r.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if args[0] == Plain {
		return r.plain(args[1:])
	}
	const list = "/proc/self/mountinfo"
	mounts, err := syscall.Open(list, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // os.Open would wait for changes itself, and use them up
	if err != nil {
		fmt.Fprintln(stderr, "sandbox relay:", &os.PathError{Op: "open", Path: list, Err: err})
		return noRelay
	}
	for try := 1; ; try++ {
		code, ran := r.bubblewrap(args)
		fresh := present(args)
		if ran || try == mostTries || len(fresh) == len(args) && !changed(mounts) {
			return code
		}
		fmt.Fprintln(stderr, "sandbox relay: a mount disappeared meanwhile; trying again")
		args = fresh
	}
}

// plain runs a program without bubblewrap.
func (r *relay) plain(args []string) int {
	pid, err := start(args, true)
	if err != nil {
		fmt.Fprintln(r.stderr, "sandbox relay:", err)
		return noRelay
	}
	go r.passSignals(pid, func() int { return pid }, nil)
	return await(pid)
}

// bubblewrap runs it to its end and reports whether the program inside was started.
func (r *relay) bubblewrap(args []string) (code int, ran bool) {
	status, theirs, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(r.stderr, "sandbox relay:", err)
		return noRelay, true
	}
	pid, err := start(append([]string{args[0], "--json-status-fd", "3"}, args[1:]...), false, theirs)
	_ = theirs.Close()
	if err != nil {
		fmt.Fprintln(r.stderr, "sandbox relay:", err)
		return noRelay, true
	}
	reports := json.NewDecoder(status)
	ended, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		var first struct {
			Child int `json:"child-pid"`
		}
		if reports.Decode(&first) == nil && first.Child > 0 { // else it could not set up the sandbox, and says why by itself
			r.passSignals(pid, func() int { return agentIn(first.Child) }, ended)
		}
	}()
	code = await(pid)
	close(ended)
	if code != notSetUp {
		return code, true // nobody waits for what ends with this process: the next session does not start before its end is seen
	}
	<-passed
	var last struct {
		Code *int `json:"exit-code"` // reported only of a program that was started
	}
	return code, reports.Decode(&last) == nil && last.Code != nil
}

// start starts a program that is killed if this one dies.
func start(args []string, group bool, more ...*os.File) (pid int, err error) {
	proc, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, more...),
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: group},
	})
	if err != nil {
		return 0, err
	}
	pid = proc.Pid
	return pid, proc.Release() // await takes its exit status
}

// await reaps what becomes a child of this process until the program ends, then ends whatever the program left, and returns its exit
// code. What lost its own parent, in whatever group or session it is, has become a child of this process.
func await(program int) int {
	var status syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if pid == program || err != nil && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for reaped := 1; reaped > 0; {
			var err error
			if reaped, err = syscall.Wait4(-1, nil, syscall.WALL|syscall.WNOHANG, nil); errors.Is(err, syscall.ECHILD) {
				return exitCode(status)
			}
		}
		time.Sleep(pause) //nolint:forbidigo // what was just killed needs a moment, and may have started more
	}
}

// children are the processes whose parent is this one. Where the kernel does not list them, every process is looked at.
func children() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	var out []int
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread that has ended has none
		for field := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				out = append(out, pid)
			}
		}
	}
	if len(lists) == 0 {
		return processes(func(parent int, _ string) bool { return parent == os.Getpid() })
	}
	return out
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
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
	hides := option[0] == "--tmpfs" || option[0] == "--remount-ro" || option[0] == "--ro-bind" && filepath.Base(option[1]) == Notice
	if !hides {
		return false
	}
	_, err := os.Lstat(strings.TrimSuffix(option[len(option)-1], "/"+Notice))
	return errors.Is(err, os.ErrNotExist)
}

// passSignals gives each signal to the agent. One that comes before the agent is there waits for it. Once the supervisor is dead nobody is
// asked any more: the program that this one started is killed.
func (r *relay) passSignals(program int, agent func() int, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case sig := <-r.signals:
			number, _ := sig.(syscall.Signal) // every signal here is one
			target := agent()
			if os.Getppid() != r.parent {
				target, number = program, syscall.SIGKILL
			}
			if target > 0 && syscall.Kill(target, number) == nil {
				continue
			}
			select {
			case r.signals <- sig: // for later, or for the agent of the next try
			default:
			}
			time.Sleep(2 * time.Millisecond) //nolint:forbidigo // nobody tells when the agent is there
		}
	}
}

// agentIn is the second process of the sandbox whose first one is given: that is the agent. 0: it is not there yet.
func agentIn(first int) int {
	found := processes(func(parent int, inner string) bool { return parent == first && inner == "2" })
	if len(found) == 0 {
		return 0
	}
	return found[0]
}

// processes are those of this machine that fit, by their parent and their number in the innermost namespace.
func processes(fit func(parent int, inner string) bool) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is right
	var out []int
	for _, file := range files {
		raw, _ := os.ReadFile(file) // it may have ended
		parent, inner := 0, ""
		for line := range strings.Lines(string(raw)) {
			name, value, _ := strings.Cut(line, ":")
			switch fields := strings.Fields(value); {
			case len(fields) == 0:
			case name == "PPid":
				parent, _ = strconv.Atoi(fields[0]) // the kernel writes numbers
			case name == "NSpid":
				inner = fields[len(fields)-1]
			}
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && fit(parent, inner) {
			out = append(out, pid)
		}
	}
	return out
}
