package probe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

const (
	// pipeDelay is how long a process that left the group may hold the output open.
	pipeDelay = 500 * time.Millisecond
	maxOutput = 16 << 10
)

func (p *Prober) command(ctx context.Context, spec ops.ProbeSpec) finding {
	if len(spec.Command) == 0 || spec.Command[0] == "" {
		return down("no command is configured")
	}
	if p.allow != nil {
		if err := p.allow(spec.Command); err != nil {
			return degraded("the command was not run: %s", err) // nothing is known about the service
		}
	}
	output, failed := p.execute(ctx, spec.Command)
	if failed != "" {
		return down("%s%s", failed, output.firstLine())
	}
	return healthy()
}

// execute runs a program to its end and returns why it failed, if it did. It leaves no process of its group behind.
func (p *Prober) execute(ctx context.Context, argv []string) (output *head, failed string) {
	output = &head{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + p.path}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeDelay
	if err := cmd.Start(); err != nil {
		return output, "start command: " + startReason(err)
	}
	endGroup(cmd.Process.Pid)
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return output, ""
	case errors.As(err, &exit):
		return output, ended(exit)
	default:
		return output, "run command: " + err.Error()
	}
}

func startReason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "not found"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return err.Error()
	}
}

func ended(exit *exec.ExitError) string {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "ended by signal: " + status.Signal().String()
	}
	return exit.String()
}

// commLength is how much of a program's name the kernel keeps.
const commLength = 15

// process finds a running program by its name: the last part of its path, or the name that the kernel keeps.
func (p *Prober) process(ctx context.Context, spec ops.ProbeSpec) finding {
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return down("list processes: %s", reason(err))
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return down("%s", context.Cause(ctx))
		}
		if name := e.Name(); name[0] >= '0' && name[0] <= '9' && runs(filepath.Join(p.proc, name), spec.Process) {
			return healthy()
		}
	}
	return down("no process %s runs", spec.Process)
}

// runs reports whether the process has the name and is not a zombie. A process may end meanwhile.
func runs(folder, name string) bool {
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return false
	}
	// pid (name) state …; the name may hold parentheses itself.
	start, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if start < 0 || end < start || bytes.HasPrefix(stat[end:], []byte(") Z")) || bytes.HasPrefix(stat[end:], []byte(") X")) {
		return false
	}
	line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err == nil && len(line) > 0 {
		program, _, _ := bytes.Cut(line, []byte{0})
		// Servers write a title here: "nginx: master process".
		first, _, _ := strings.Cut(string(program), " ")
		if filepath.Base(string(program)) == name || strings.TrimSuffix(filepath.Base(first), ":") == name {
			return true
		}
	}
	return string(stat[start+1:end]) == name[:min(len(name), commLength)]
}
