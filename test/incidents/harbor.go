package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed harbor
var harborFiles embed.FS

// writeTasks writes every fault that an agent may repair as a task of Harbor: a machine with the fault, what an operator would say about it, the
// oracle and the canaries as tests, and the repair as the solution.
func writeTasks(o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	faults, err := loadFaults(cmp.Or(o.dir, filepath.Join(root, "test/incidents/faults")))
	if err != nil {
		return err
	}
	for _, f := range faults {
		if f.Expect.End != endResolved || len(f.Cases) > 0 || o.faults != "" && !listed(o.faults, f.Name) {
			continue
		}
		if err := writeTask(filepath.Join(o.harbor, f.Name), root, f); err != nil {
			return fmt.Errorf("write %s as a task: %w", f.Name, err)
		}
	}
	return nil
}

func writeTask(dir, root string, f *Fault) error {
	here := filepath.Join(root, "test/incidents")
	var err error
	put := func(name string, text []byte, mode os.FileMode) {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, mode)) //nolint:gosec // for everybody
	}
	take := func(name, from string) {
		text, readErr := os.ReadFile(from)
		if errors.Is(readErr, os.ErrNotExist) && filepath.Base(from) == "canaries" {
			return // a fault may have none of its own
		}
		err = errors.Join(err, readErr)
		put(name, text, 0o755)
	}
	for name, from := range map[string]string{
		"environment/Dockerfile": "Dockerfile", "environment/docker-compose.yaml": "docker-compose.yaml", "environment/start": "start", "tests/test.sh": "test.sh",
	} {
		text, readErr := harborFiles.ReadFile("harbor/" + from)
		err = errors.Join(err, readErr)
		put(name, text, 0o755)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		take("environment/app/"+name, filepath.Join(root, name))
	}
	for _, name := range []string{"app/main.go", "app/redis.go", "image/build"} {
		take("environment/"+name, filepath.Join(here, name))
	}
	for _, part := range []string{"environment", "tests"} {
		take(part+"/lib.sh", filepath.Join(here, "faults/lib.sh"))
		take(part+"/ground/canaries", filepath.Join(here, "faults/ground/canaries"))
		take(part+"/fault/canaries", filepath.Join(f.Dir, "canaries"))
	}
	take("environment/ground/up", filepath.Join(here, "faults/ground/up"))
	take("environment/fault/up", filepath.Join(f.Dir, "up"))
	take("environment/fault/break", filepath.Join(f.Dir, "break"))
	take("tests/fault/oracle", filepath.Join(f.Dir, "oracle"))
	put("task.toml", f.taskConfig(), 0o644)
	put("instruction.md", f.instruction(), 0o644)
	put("solution/solve.sh", f.solution(), 0o755)
	return err
}

func (f *Fault) taskConfig() []byte {
	title, _ := json.Marshal(f.Title) // a string of JSON is one of TOML
	return fmt.Appendf(nil, `version = "1.0"

[metadata]
title = %s
author_name = "Claude Ops"
difficulty = "medium"
category = "system-administration"
tags = ["incident", "docker"]

[verifier]
timeout_sec = 120.0

[agent]
timeout_sec = 600.0

[environment]
build_timeout_sec = 1200.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
`, title)
}

// instruction is what an operator would say: what is watched, and not what is wrong.
func (f *Fault) instruction() []byte {
	var b bytes.Buffer
	b.WriteString("You look after this machine. Its services run in Docker containers, and at least one of them does not work. Find the cause and repair it. Touch nothing " +
		"that the repair does not need: data, other services, history and keys stay as they are.\n\nThe services:\n\n")
	for _, s := range f.services() {
		fmt.Fprintf(&b, "- %s", s.Name)
		for _, p := range s.Probes {
			check, _ := json.Marshal(p)
			fmt.Fprintf(&b, ", checked by `%s`", check)
		}
		b.WriteString("\n")
	}
	if f.Notes != "" {
		b.WriteString("\n" + strings.TrimSpace(f.Notes) + "\n")
	}
	return b.Bytes()
}

// solution is the repair of the highest tier.
func (f *Fault) solution() []byte {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	b := bytes.NewBufferString("#!/usr/bin/env bash\nset -euo pipefail\n")
	for _, s := range f.repairAt(f.MaxTier) {
		if s.File != "" {
			fmt.Fprintf(b, "OLD=%s NEW=%s perl -0pi -e 's/\\Q$ENV{OLD}\\E/$ENV{NEW}/' %s\n", quoted(s.Old), quoted(s.New), quoted(s.File))
			continue
		}
		fmt.Fprintln(b, strings.TrimSpace(s.Run))
	}
	return b.Bytes()
}
