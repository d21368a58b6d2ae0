package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
