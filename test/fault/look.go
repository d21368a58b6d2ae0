package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"claudeops/internal/ops"
)

// replaceOnce replaces a text that must be there.
func replaceOnce(text, old, with string) string {
	if strings.Count(text, old) != 1 {
		panic(fmt.Sprintf("%q stands %d times in the scenario", old, strings.Count(text, old)))
	}
	return strings.Replace(text, old, with, 1)
}

// running reports whether a session of the tier is running.
func (b *box) running(ctx context.Context, tier ops.Tier) bool {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return false
	}
	for _, c := range cycles {
		for _, s := range c.Sessions {
			if s.Tier == tier && s.Status == ops.SessionRunning && s.PID != 0 {
				return true
			}
		}
	}
	return false
}

// summary says how the cycles and sessions ended.
func (b *box) summary(ctx context.Context) string {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, c := range cycles {
		var sessions []string
		for _, s := range c.Sessions {
			word := fmt.Sprintf("%s %s", s.Tier, s.Status)
			if s.Failure != "" {
				word += " (" + string(s.Failure) + ")"
			}
			sessions = append(sessions, word)
		}
		out = append(out, fmt.Sprintf("cycle %d %s: %s", c.ID, c.Status, strings.Join(sessions, ", ")))
	}
	return strings.Join(out, "; ")
}

// agents lists the processes of the box that are agents of the tier.
func (b *box) agents(tier ops.Tier) (pids []int) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		raw, err := os.ReadFile(e) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(raw, []byte("FAULT_DIR="+b.dir+"\x00")) || !bytes.Contains(raw, fmt.Appendf(nil, "CLAUDEOPS_TIER=%d\x00", tier)) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline")) //nolint:gosec // of /proc
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e))); err == nil && bytes.Contains(line, []byte("\x00scripted\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// files lists the open files of a process.
func files(pid int) (out []string) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())); err == nil {
			out = append(out, to)
		}
	}
	slices.Sort(out)
	return out
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
