package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/store"
)

// orphans lists the living processes of sessions of the box.
func (b *box) orphans() []string {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		raw, err := os.ReadFile(e) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(raw, []byte("CLAUDEOPS_SESSION_KEY=")) || !bytes.Contains(raw, []byte("FAULT_DIR="+b.dir+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline")) //nolint:gosec // of /proc
		out = append(out, fmt.Sprintf("%s %s", filepath.Base(filepath.Dir(e)), strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return out
}

// groups lists the control groups of sessions that still exist.
func groups(cycles []store.CycleSummary) []string {
	var out []string
	for _, c := range cycles {
		for _, s := range c.Sessions {
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				if found, err := filepath.Glob(filepath.Join(root, "claudeops-"+s.Key)); err == nil {
					out = append(out, found...)
				}
			}
		}
	}
	return out
}
