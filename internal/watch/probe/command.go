package probe

import (
	"context"
	"errors"
	"os/exec"
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
	if p.Allow != nil {
		if err := p.Allow(spec.Command); err != nil {
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
	cmd.Env = []string{"PATH=" + p.Path}
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
