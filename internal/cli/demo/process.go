package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopGrace is the time between SIGTERM and SIGKILL.
const stopGrace = 3 * time.Second

// process is one running service process.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended and was reaped
	err   error         // how it ended; valid after ended
}

// startProcess must be called from a goroutine that is locked to its thread and stays until the process has ended: the
// signal at the parent's death is bound to the thread.
func startProcess(argv []string, dir string, listener *os.File) (*process, error) {
	out, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	//nolint:noctx // the process is stopped by stop, not by a context
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{listener}
	cmd.SysProcAttr = serviceAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop ends the process and waits until it is gone.
func (p *process) stop(ctx context.Context) {
	// A process that has just ended cannot be signalled, and need not be.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	grace, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-p.ended:
		return
	case <-grace.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}
