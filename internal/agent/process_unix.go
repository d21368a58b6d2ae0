package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"claudeops/internal/agent/process"
	"claudeops/internal/failpoint"
)

// drainLimit bounds what is still read of a pipe that something out of reach keeps open.
const drainLimit = 1 << 20

// running is a started program. Its pipes stay open until close, so that reading its output to the
// end does not depend on when it is reaped.
type running struct {
	process.Ident

	key    string
	stdout *pipe
	stderr *pipe
	proof  func(line string) (mine bool, err error) // see Program

	group *process.Cgroup
	proc  *os.Process
	done  chan struct{} // closed once the program was reaped; state is set then
	state *os.ProcessState
}

// start starts a program in a process group and, where possible, a control group of its own.
func start(program Program) (*running, error) {
	p := &running{key: program.Key, done: make(chan struct{})}
	files, err := p.openFiles(program.Stdin)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Path, err)
	}
	failpoint.Hit("spawn.before")
	p.group = process.MakeCgroup(program.Key)
	p.group.Limit(program.Limits)
	started, err := program.kept(p.group)
	if err != nil {
		closeAll(files)
		p.close()
		p.group.Remove()
		return nil, err
	}
	ready := make(chan error)
	go p.own(program, files, ready)
	err = <-ready
	closeAll(files)
	if err != nil {
		p.close()
		p.group.Remove()
		return nil, fmt.Errorf("start %s: %w", program.Path, err)
	}
	started(p.Ident)
	failpoint.Hit("spawn.after")
	return p, nil
}

// kept tells the keeper, if there is one, about the session.
func (p *Program) kept(group *process.Cgroup) (started func(process.Ident), err error) {
	if p.register == nil {
		return func(process.Ident) {}, nil
	}
	path := ""
	if group != nil {
		path = group.Path
	}
	return p.register(path)
}

// openFiles makes the pipes and returns the child's ends.
func (p *running) openFiles(stdin *os.File) ([]*os.File, error) {
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		stdin = null
	}
	files := []*os.File{stdin}
	for _, side := range []**pipe{&p.stdout, &p.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files)
			p.close()
			return nil, err
		}
		*side = &pipe{file: r}
		files = append(files, w)
	}
	return files, nil
}

// own starts the program and waits for it. The signal a child gets when its parent dies follows the
// thread that started it, so this goroutine keeps its thread until the child was reaped.
func (p *running) own(program Program, files []*os.File, ready chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.spawn(program, files)
	if err == nil {
		if st, statErr := process.ReadStat(p.proc.Pid); statErr == nil {
			p.Ident = st.Ident
		} else {
			p.PID = p.proc.Pid
		}
	}
	ready <- err
	if err != nil {
		return
	}
	defer close(p.done)
	if state, err := p.proc.Wait(); err == nil {
		p.state = state
	}
}

func (p *running) spawn(program Program, files []*os.File) error {
	if signal.Ignored(os.Interrupt) {
		// A supervisor that was started in the background of a script ignores the signal, and its
		// children would inherit that: then no session could be asked to end. We still
		// ignore it, because the channel is never read.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	attr := &os.ProcAttr{
		Dir:   program.Dir,
		Env:   program.Env,
		Files: files,
		Sys:   attributes(program.Credential),
	}
	if folder := p.groupFolder(); folder != nil {
		defer func() { _ = folder.Close() }()
		startIn(attr.Sys, int(folder.Fd()))
		proc, err := startRetrying(program, attr)
		if err == nil {
			p.proc = proc
			return nil
		}
		attr.Sys = attributes(program.Credential)
		if errors.Is(err, syscall.ENOSYS) {
			// RestrictNamespaces= of systemd refuses the call that starts a process in a group, because it cannot look into it.
			return p.spawnThenMove(program, attr)
		}
		p.group.Remove()
		p.group = nil
	}
	proc, err := startRetrying(program, attr)
	p.proc = proc
	return err
}

// spawnThenMove starts a program and moves it into its group. What it started before that is found by the session's key.
func (p *running) spawnThenMove(program Program, attr *os.ProcAttr) error {
	proc, err := startRetrying(program, attr)
	if err != nil {
		return err
	}
	p.proc = proc
	if err := p.group.Add(proc.Pid); err != nil {
		p.group.Remove()
		p.group = nil
	}
	return nil
}

// startRetrying waits a moment for a program that is just being replaced by a newer one.
func startRetrying(program Program, attr *os.ProcAttr) (*os.Process, error) {
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		proc, err := os.StartProcess(program.Path, program.Argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || pause > 200*time.Millisecond {
			return proc, err
		}
		time.Sleep(pause) //nolint:forbidigo // the kernel does not report when the write has ended
	}
}

func (p *running) groupFolder() *os.File {
	if p.group == nil {
		return nil
	}
	folder, err := p.group.Open()
	if err != nil {
		p.group.Remove()
		p.group = nil
		return nil
	}
	return folder
}

// interrupt asks the program to end. It does nothing once the program was reaped.
func (p *running) interrupt() { _ = p.proc.Signal(os.Interrupt) }

// exitCode returns the exit code, or 128 and the signal that ended the program, as a shell says it.
// It may be called once done is closed.
func (p *running) exitCode() int {
	if p.state == nil {
		return -1
	}
	if ws, ok := p.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.state.ExitCode()
}

// ended reports whether the program was reaped.
func (p *running) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// sweep kills whatever is left of the session and returns how many processes that was. The relay in front of a session has ended all that
// it started before it ends itself; its control group, if there is one, says so without a look at every process of the machine.
func (p *running) sweep(ctx context.Context) (int, error) {
	failpoint.Hit("kill.before")
	defer failpoint.Hit("kill.after")
	if p.ended() && p.group.Empty() {
		return 0, nil
	}
	var roots []process.Ident
	if !p.ended() {
		roots = append(roots, p.Ident)
	}
	return (&process.Sweeper{Key: p.key, Group: p.group, Roots: roots, Owned: p.PID}).Run(ctx)
}

// close gives up the pipes.
func (p *running) close() {
	for _, side := range []*pipe{p.stdout, p.stderr} {
		if side != nil {
			_ = side.file.Close()
		}
	}
}

// Sweep kills everything that is left of a session whose supervisor is gone, and returns how many
// processes that was.
func Sweep(ctx context.Context, key string) (killed int, err error) {
	if key == "" {
		return 0, errors.New("sweep session: it has no key")
	}
	group := process.FindCgroup(key)
	killed, err = (&process.Sweeper{Key: key, Group: group}).Run(ctx)
	group.Remove()
	return killed, err
}

// FileNameSafe reports whether the key of a session may be part of a file name.
func FileNameSafe(key string) bool { return process.FileNameSafe(key) }

func closeAll(files []*os.File) {
	for _, f := range slices.Backward(files) {
		_ = f.Close()
	}
}

// pipe is our end of an output of a process.
type pipe struct {
	file    *os.File
	drained int
}

// expire makes the reader take what is in the pipe and then see its end, although something still
// holds the other side open.
func (p *pipe) expire() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

// Read reads from the pipe. What waits in it is not lost when it expires.
func (p *pipe) Read(buf []byte) (int, error) {
	n, err := p.file.Read(buf)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := p.file.SyscallConn()
	if err != nil || p.drained >= drainLimit {
		return 0, io.EOF
	}
	err = raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }) // never waits: an empty pipe is the end
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	p.drained += n
	return n, nil
}
