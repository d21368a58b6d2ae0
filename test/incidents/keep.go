package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const outFolder = "/mnt/out" // inside; a folder of the caller's outside

// runKept runs one pair and keeps its files in a folder that is printed: `claudeops serve` shows the pages of its state.
func (b *bench) runKept(ctx context.Context, j Job) (Result, error) {
	if j.Model == realName {
		return Result{}, errors.New("a run with a real model cannot be kept; use -json and -atif")
	}
	folder, err := os.MkdirTemp("", "claudeops-kept-")
	if err != nil {
		return Result{}, fmt.Errorf("keep a run: %w", err)
	}
	r, err := runWorld(ctx, j, folder, pairLimit+30*time.Second, func() {})
	r.Origin = b.origin
	if text, encodeErr := json.MarshalIndent(r, "", "  "); encodeErr == nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, "result.json"), text, 0o600))
	}
	err = errors.Join(err, writeTrajectories(filepath.Join(folder, "atif"), []Result{r}))
	_, _ = fmt.Fprintf(os.Stdout, "Result with transcript, trajectory, state, log and configuration of the run: %s\n", folder)
	return r, err
}

// keepFiles copies the state of the contender out of the world.
func (p *pair) keepFiles(ctx context.Context) error {
	for name, folder := range map[string]string{"state": stateDir, "config": configDir} {
		if _, err := os.Stat(folder); err != nil {
			continue // the plain loop has no state
		}
		out, err := exec.CommandContext(ctx, "cp", "-a", folder, filepath.Join(outFolder, name)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("keep the state: %w: %s", err, out)
		}
	}
	return nil
}
