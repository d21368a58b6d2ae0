package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// toolCall is a tool call in a line the fake prints.
type toolCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// hookCommand is the hook that the settings of the run set before every tool; empty when there is none.
func (c Call) hookCommand() (string, error) {
	file, ok := c.Option("--settings")
	if !ok {
		return "", nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read settings: %w", err)
	}
	var s struct {
		Hooks struct {
			Pre []struct {
				Hooks []struct {
					Command string `json:"command"`
				} `json:"hooks"`
			} `json:"PreToolUse"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("read settings: %w", err)
	}
	for _, m := range s.Hooks.Pre {
		for _, h := range m.Hooks {
			return h.Command, nil
		}
	}
	return "", nil
}

// askHook asks the hook about the tool calls in a line, as the real program does before it runs them, and remembers what was
// refused and why.
func (f *fake) askHook(line string) error {
	if f.hook == "" || !strings.Contains(line, `"tool_use"`) {
		return nil
	}
	var e struct {
		Message struct {
			Content []struct {
				Type string `json:"type"`
				toolCall
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(line), &e) != nil {
		return nil //nolint:nilerr // a scenario may print what nobody can read
	}
	for _, b := range e.Message.Content {
		if b.Type != "tool_use" {
			continue
		}
		reason, err := f.judged(b.toolCall)
		if err != nil {
			return err
		}
		if reason != "" {
			f.refused[b.ID] = reason
		}
	}
	return nil
}

// judged returns why the hook refuses a call; empty when it allows it.
func (f *fake) judged(t toolCall) (reason string, err error) {
	question, err := json.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "cwd": f.call.Dir, "tool_name": t.Name, "tool_input": t.Input, "tool_use_id": t.ID,
	})
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", f.hook)
	cmd.Stdin = bytes.NewReader(question)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Sprintf("hook error: %v %s", err, stderr.String()), nil
	}
	var d struct {
		Output struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return "", fmt.Errorf("the hook answered %q: %w", out, err)
	}
	if d.Output.Decision == "allow" {
		return "", nil
	}
	return "PreToolUse:" + t.Name + " hook error: " + d.Output.Reason, nil
}

// answered turns the result of a refused call into an error, as the real program does.
func (f *fake) answered(line string) string {
	if len(f.refused) == 0 {
		return line
	}
	var e struct {
		Message struct {
			Content []struct {
				ID string `json:"tool_use_id"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(line), &e) != nil || len(e.Message.Content) == 0 {
		return line
	}
	id := e.Message.Content[0].ID
	if reason, ok := f.refused[id]; ok {
		return f.expand(Refused(id, reason), 0)
	}
	return line
}
