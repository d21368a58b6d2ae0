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

// hookTime is longer than a hook takes to give up by itself.
const hookTime = 15 * time.Second

// hookOf reads the settings, a file or inline JSON, and returns the command that is to be asked before every tool call.
func hookOf(settings string) (string, error) {
	if settings == "" {
		return "", nil
	}
	raw := []byte(settings)
	if !strings.HasPrefix(strings.TrimSpace(settings), "{") {
		var err error
		if raw, err = os.ReadFile(settings); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("settings file not found: %s", settings)
		} else if err != nil {
			return "", fmt.Errorf("read settings: %w", err)
		}
	}
	var s struct {
		Hooks struct {
			PreToolUse []struct {
				Hooks []struct {
					Command string `json:"command"`
				} `json:"hooks"`
			} `json:"PreToolUse"`
		} `json:"hooks"`
	}
	// The real program ignores settings it cannot read. Here that would hide a mistake.
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("read settings: %w", err)
	}
	for _, matcher := range s.Hooks.PreToolUse {
		for _, h := range matcher.Hooks {
			return h.Command, nil
		}
	}
	return "", nil
}

// askHook asks about a tool call before it is made and returns why it is refused; empty when it is allowed or nobody is to be
// asked. Whatever is no clear yes is a no.
func (c *conversation) askHook(ctx context.Context, tool, id string, input json.RawMessage) string {
	if c.opts.hook == "" {
		return ""
	}
	reason, err := c.decision(ctx, map[string]any{
		"session_id": c.sessionID, "hook_event_name": "PreToolUse", "permission_mode": c.opts.mode, "cwd": c.cwd,
		"tool_name": tool, "tool_input": input, "tool_use_id": id,
	})
	if err != nil {
		return fmt.Sprintf("PreToolUse:%s hook error: %v", tool, err)
	}
	if reason != "" {
		return fmt.Sprintf("PreToolUse:%s hook error: %s", tool, reason)
	}
	return ""
}

// decision runs the hook and returns the reason of a refusal.
func (c *conversation) decision(ctx context.Context, question map[string]any) (reason string, err error) {
	text, err := encode(question)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.opts.hook)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.cwd, c.env, commandGrace
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &complaint
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
