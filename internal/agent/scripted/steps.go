package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func (c *conversation) playAll(ctx context.Context, steps []Step) (*Ending, error) {
	for _, s := range steps {
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		if end, err := s.play(ctx, c); end != nil || err != nil {
			return end, err
		}
	}
	return nil, nil
}

func (s Say) play(_ context.Context, c *conversation) (*Ending, error) { return nil, c.say(s.Text) }

func (s Bash) play(ctx context.Context, c *conversation) (*Ending, error) {
	code, err := c.bash(ctx, s.Command)
	if err != nil || s.ExpectFailure == nil || *s.ExpectFailure == (code != 0) {
		return nil, err
	}
	if *s.ExpectFailure {
		return nil, fmt.Errorf("scenario line %d: the command was expected to fail and did not: %s", s.Line, s.Command)
	}
	return nil, fmt.Errorf("scenario line %d: the command was expected to succeed and did not: %s", s.Line, s.Command)
}

func (s Act) play(ctx context.Context, c *conversation) (*Ending, error) { return nil, c.act(ctx, s) }

func (s Pause) play(ctx context.Context, c *conversation) (*Ending, error) {
	timer := time.NewTimer(time.Duration(float64(s.Duration) * c.pace))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

func (s Write) play(ctx context.Context, c *conversation) (*Ending, error) {
	return nil, c.write(ctx, s.Path, s.Content)
}

func (s Finish) play(context.Context, *conversation) (*Ending, error) { return &s.Ending, nil }

func (s Repeat) play(ctx context.Context, c *conversation) (*Ending, error) {
	for range s.Times {
		if end, err := c.playAll(ctx, s.Steps); end != nil || err != nil {
			return end, err
		}
	}
	return nil, nil
}

func (s When) play(ctx context.Context, c *conversation) (*Ending, error) {
	holds, err := s.holds(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case holds:
		return c.playAll(ctx, s.Then)
	default:
		return c.playAll(ctx, s.Else)
	}
}

func (s When) holds(ctx context.Context, c *conversation) (bool, error) {
	if s.Bash != nil {
		code, err := c.bash(ctx, s.Bash.Command)
		return code == s.Bash.Exit, err
	}
	path, err := c.path(s.Contains.Path)
	if err != nil {
		return false, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read file of a condition: %w", err)
	}
	return strings.Contains(string(data), s.Contains.Text), nil
}

// path makes a path of the scenario absolute.
func (c *conversation) path(path string) (string, error) {
	path, err := c.env.expand(path)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.cwd, path)
	}
	return path, nil
}

// write writes a file as a tool call. An error is reported to the agent, not to the caller.
func (c *conversation) write(ctx context.Context, path, content string) error {
	path, err := c.path(path)
	if err != nil {
		return err
	}
	id, input, err := c.toolCall(toolWrite, struct {
		Path    string `json:"file_path"`
		Content string `json:"content"`
	}{path, content})
	if err != nil {
		return err
	}
	if refused, err := c.refused(ctx, toolWrite, path, id, input); refused || err != nil {
		return err
	}
	if err := writeFile(path, content); err != nil {
		return c.toolAnswer(id, err.Error(), true, nil)
	}
	return c.toolAnswer(id, "File created successfully at: "+path, false, map[string]string{"type": "create", "filePath": path})
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	return os.WriteFile(path, []byte(content), 0o600)
}
