package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// maxOutput is how much of a command's output is answered.
	maxOutput = 30_000
	// commandGrace is between the first and the final signal to a command.
	commandGrace = time.Second
)

// commandEnd is how a command ended.
type commandEnd struct {
	output string
	code   int
}

// runCommand runs a command in a POSIX session of its own, as the real program does, and ends the whole process group
// when the context ends. What a command leaves running in the background stays.
func runCommand(ctx context.Context, command, dir string, environ []string) (commandEnd, error) {
	// A file and not a pipe: a background process that holds it must not keep us waiting. It has no name, so that
	// nothing is left behind however we end.
	out, err := os.CreateTemp("", "scripted-*.out")
	if err != nil {
		return commandEnd{}, fmt.Errorf("create output file: %w", err)
	}
	defer func() { _ = out.Close() }()
	if err := os.Remove(out.Name()); err != nil {
		return commandEnd{}, fmt.Errorf("unlink output file: %w", err)
	}

	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = dir, environ
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	if err := cmd.Start(); err != nil {
		return commandEnd{}, fmt.Errorf("start command: %w", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		// Members of the group that did not end on the first signal. Nothing to do when there are none.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return commandEnd{}, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return commandEnd{}, fmt.Errorf("wait for command: %w", err)
	}
	text, err := readOutput(out)
	return commandEnd{output: text, code: exitCode(cmd.ProcessState)}, err
}

// exitCode is the code as a shell tells it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

func readOutput(file *os.File) (string, error) {
	// The offset is shared with whatever the command left running, so it is not moved.
	data, err := io.ReadAll(io.NewSectionReader(file, 0, maxOutput+1))
	if err != nil {
		return "", fmt.Errorf("read command output: %w", err)
	}
	if len(data) <= maxOutput {
		return strings.TrimRight(string(data), "\n"), nil
	}
	return string(data[:maxOutput]) + "\n… [output cut]", nil
}
