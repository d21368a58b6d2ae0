package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaultsAreTasks writes all faults as tasks of Harbor and looks at their structure. Harbor itself is not run here.
func TestFaultsAreTasks(t *testing.T) {
	dir := t.TempDir()
	succeeds(t, writeTasks(options{harbor: dir}))
	tasks, err := os.ReadDir(dir)
	if err != nil || len(tasks) < 20 {
		t.Fatalf("%d tasks: %v", len(tasks), err)
	}
	faults, _ := everything(t)
	for _, task := range tasks {
		read := func(name string) string {
			data, err := os.ReadFile(filepath.Join(dir, task.Name(), name))
			if err != nil || len(data) == 0 {
				t.Errorf("%s: %s: %v", task.Name(), name, err)
			}
			return string(data)
		}
		var sections []string
		for line := range strings.Lines(read("task.toml")) {
			line = strings.TrimSpace(line)
			key, value, found := strings.Cut(line, " = ")
			switch {
			case strings.HasPrefix(line, "["):
				sections = append(sections, strings.Trim(line, "[]"))
			case line != "" && (!found || !regexp.MustCompile(`^[a-z_]+$`).MatchString(key) || !json.Valid([]byte(value))):
				t.Errorf("%s: task.toml: %s", task.Name(), line)
			}
		}
		if !slices.Equal(sections, []string{"metadata", "verifier", "agent", "environment"}) {
			t.Errorf("%s: sections %v", task.Name(), sections)
		}
		f := faultNamed(t, faults, task.Name())
		if text := read("instruction.md"); strings.Contains(text, f.Title) || strings.Contains(text, f.Breaks) || !strings.Contains(text, f.serviceName()) {
			t.Errorf("%s: the instruction says what is wrong, or not what is watched: %s", task.Name(), text)
		}
		read("environment/Dockerfile")
		for _, script := range []string{"environment/start", "tests/test.sh", "solution/solve.sh", "environment/fault/break", "tests/fault/oracle"} {
			read(script)
			if out, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(dir, task.Name(), script)).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %s", task.Name(), script, out)
			}
		}
		if strings.Count(read("solution/solve.sh"), "\n") < 3 {
			t.Errorf("%s: nothing is repaired", task.Name())
		}
	}
}

// TestATaskRewardsTheRepair plays tasks as Harbor would, in a world instead of a container of their own: no reward for doing nothing, one for the
// solution, and none for a solution that does harm on the way.
func TestATaskRewardsTheRepair(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	root, err := moduleRoot()
	succeeds(t, err)
	image, err := prepareImage(t.Context(), root)
	succeeds(t, err)
	dir := t.TempDir()
	succeeds(t, writeTasks(options{harbor: dir, faults: "web-crash,web-bad-config"}))
	for _, fault := range []string{"web-crash", "web-bad-config"} {
		script := `#!/bin/bash
set -e
exec 3>&1 >/tmp/log 2>&1
trap 'cat /tmp/log >&2' ERR
cp -a "$IMAGE_DATA/." /var/lib/docker
mkdir -p /opt /logs
cp -a "$TASKS/` + fault + `/environment" /opt/incidents
cp -a "$TASKS/` + fault + `/tests" /tests
cp -a "$TASKS/` + fault + `/solution" /solution
/opt/incidents/start once
test ! -e /opt/incidents/fault
reward() { /tests/test.sh; echo "$1: $(cat /logs/verifier/reward.txt)" >&3; }
reward nothing
/solution/solve.sh
for ((i = 0; i < 100; i++)); do LIB=/tests/lib.sh IMAGE=services:1 /tests/fault/oracle && break; sleep 0.1; done
reward solved
docker rm -f neighbour
reward harmed
`
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
			filepath.Join(root, "test/incidents/world.sh"), t.TempDir(), root, dir, program)
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "IMAGE_DATA=" + image, "TASKS=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "nothing: 0\nsolved: 1\nharmed: 0\n" {
			t.Errorf("%s: %v: %s", fault, err, out)
		}
	}
}
