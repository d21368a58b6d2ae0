package act

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxOutput is how much of the output is kept: its end.
	maxOutput = 32 << 10
	// stopTime is how long a program may take to end after it was told to.
	stopTime = 5 * time.Second
)

// command is a program that is run without a shell.
type command struct {
	argv []string
	env  []string
	dir  string
	stop time.Duration // how long it may take to end after it was told to; 0: stopTime
}

// execute runs a program in its own process group and ends the whole group when ctx ends.
func execute(ctx context.Context, c command) (string, error) {
	var out tail
	if c.stop == 0 {
		c.stop = stopTime
	}
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // the group is ended below, not only the program
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.env, c.dir, &out, &out
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = c.stop
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = stop(cmd.Process.Pid, c.stop, done)
	}
	// What the program left behind ends too.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s ended with %s", c.argv[0], exit.ProcessState)
	}
	return out.String(), err
}

// stop ends a process group: politely, then for good.
func stop(group int, limit time.Duration, done <-chan error) error {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	return <-done
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxOutput; over > 0 {
		t.text, t.cut = append([]byte(nil), t.text[over:]...), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.text), "\uFFFD")
	if t.cut {
		return "…" + text
	}
	return text
}
