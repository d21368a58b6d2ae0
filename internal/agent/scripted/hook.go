package scripted

import (
	"bytes"
	"context"
	"encoding/json"
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
	// hookLimit is longer than the time limit of a hook itself.
	hookLimit = 15 * time.Second
	hookGrace = time.Second
)

// Hook is the program that is asked before every tool call, with its arguments; empty when there is none.
type Hook []string

// HookIn finds the hook in settings, which are a file or inline JSON.
func HookIn(settings string) (Hook, error) {
	if settings == "" {
		return nil, nil
	}
	raw := []byte(settings)
	if !strings.HasPrefix(strings.TrimSpace(settings), "{") {
		var err error
		if raw, err = os.ReadFile(settings); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("settings file not found: %s", settings)
		} else if err != nil {
			return nil, fmt.Errorf("read settings: %w", err)
		}
	}
	var s struct {
		Hooks struct {
			PreToolUse []struct {
				Hooks []struct {
					Command string   `json:"command"`
					Args    []string `json:"args"`
				} `json:"hooks"`
			} `json:"PreToolUse"`
		} `json:"hooks"`
	}
	// The real program ignores settings it cannot read. Here that would hide a mistake.
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	for _, matcher := range s.Hooks.PreToolUse {
		for _, h := range matcher.Hooks {
			return append(Hook{h.Command}, h.Args...), nil
		}
	}
	return nil, nil
}

// Call is a tool call that is about to be made.
type Call struct {
	SessionID string          `json:"session_id"`
	Mode      string          `json:"permission_mode,omitempty"`
	Cwd       string          `json:"cwd"`
	Tool      string          `json:"tool_name"`
	Input     json.RawMessage `json:"tool_input"`
	ID        string          `json:"tool_use_id"`
}

// Ask asks about a call and returns why it is refused, in the words of the CLI; empty when it is allowed or there is
// no hook. Any answer other than allow is a refusal. Without env the hook has the environment of this process.
func (h Hook) Ask(ctx context.Context, c Call, env []string) (refused string) {
	if len(h) == 0 {
		return ""
	}
	reason, err := h.decision(ctx, c, env)
	if err != nil {
		reason = err.Error()
	}
	if reason == "" {
		return ""
	}
	return fmt.Sprintf("PreToolUse:%s hook error: %s", c.Tool, reason)
}

// decision runs the hook and returns the reason of a refusal.
func (h Hook) decision(ctx context.Context, c Call, env []string) (reason string, err error) {
	question, err := json.Marshal(struct {
		Event string `json:"hook_event_name"`
		Call
	}{"PreToolUse", c})
	if err != nil {
		return "", fmt.Errorf("encode the call: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, hookLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h[0], h[1:]...) //nolint:gosec // the settings of this agent name it
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.Cwd, env, hookGrace
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(question), &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	var answer struct {
		Output struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return "", fmt.Errorf("read its answer: %w", err)
	}
	switch {
	case answer.Output.Decision == "allow":
		return "", nil
	case answer.Output.Reason == "":
		return "", fmt.Errorf("it answered %q", answer.Output.Decision)
	default:
		return answer.Output.Reason, nil
	}
}

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
