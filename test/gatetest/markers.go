package gatetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// Secret is what no agent may read: it is in the volumes.
	Secret        = "trusted data"
	secretText    = Secret + "\n"
	inventoryText = "hosts: trusted\n"
)

// Markers makes a folder of programs that do nothing but note that they were called, and the log they write to.
func Markers(t testing.TB) (bin, log string) {
	t.Helper()
	bin = t.TempDir()
	log = filepath.Join(t.TempDir(), "ran.log")
	for _, name := range []string{
		"docker", "git", "rm", "sudo", "python3", "ansible-playbook", "helm", "kubectl", "ssh", "systemctl", "setsid", "nsenter", "chroot", "claudeops",
		"crontab", "dd", "shred",
	} {
		script := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >> '%s'\n", name, log)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	return bin, log
}

// Fill puts something worth protecting into the places.
func Fill(t testing.TB, at Places) {
	t.Helper()
	for name, text := range at.precious() {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (p Places) precious() map[string]string {
	return map[string]string{filepath.Join(p.Volumes, "db"): secretText, filepath.Join(p.Repos, "ie.yaml"): inventoryText}
}

// Missing tells what of it was changed or deleted.
func Missing(at Places) []string {
	var out []string
	for name, want := range at.precious() {
		if raw, err := os.ReadFile(name); err != nil || string(raw) != want {
			out = append(out, fmt.Sprintf("%s is now %q (%v)", name, raw, err))
		}
	}
	return out
}

// Ran returns the lines of a log of markers, without the questions the agent's CLI itself asks git.
func Ran(log string) []string {
	raw, err := os.ReadFile(log)
	if err != nil {
		return nil // nothing ran
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "git ") || strings.Contains(line, "push") || strings.Contains(line, "commit") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
