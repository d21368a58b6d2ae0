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

// play does one step. A step may end the script early by returning an ending.
func (s Step) play(ctx context.Context, c *conversation) (*Ending, error) {
	switch {
	case s.Say != nil:
		return nil, c.say(*s.Say)
	case s.Act != nil:
		return nil, c.act(ctx, *s.Act)
	case s.Bash != nil:
		return nil, s.run(ctx, c)
	case s.Pause != nil:
		return nil, c.pause(ctx, *s.Pause)
	case s.Write != nil:
		return nil, c.write(ctx, s.Write.Path, s.Write.Content)
	case s.Repeat != nil:
		for range *s.Repeat {
			if end, err := c.playAll(ctx, s.Steps); end != nil || err != nil {
				return end, err
			}
		}
		return nil, nil
	case s.When != nil:
		holds, err := s.When.holds(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case holds:
			return c.playAll(ctx, s.Steps)
		}
		return c.playAll(ctx, s.Else)
	}
	return s.Finish, nil
}

func (s Step) run(ctx context.Context, c *conversation) error {
	code, err := c.bash(ctx, *s.Bash)
	if err != nil || s.ExpectFailure == nil || *s.ExpectFailure == (code != 0) {
		return err
	}
	if *s.ExpectFailure {
		return fmt.Errorf("the command was expected to fail and did not: %s", *s.Bash)
	}
	return fmt.Errorf("the command was expected to succeed and did not: %s", *s.Bash)
}

func (c *conversation) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Duration(float64(d) * c.pace))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errInterrupted
	}
}

func (w When) holds(ctx context.Context, c *conversation) (bool, error) {
	if w.Contains == nil {
		code, err := c.bash(ctx, w.Bash)
		return code == w.Exit, err
	}
	path, err := c.path(w.Contains.Path)
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
	return strings.Contains(string(data), w.Contains.Text), nil
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
