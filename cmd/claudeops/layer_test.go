package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/dockertest"
)

// A container whose writable layer holds a database is replaced only if the step that a human approved says that it is lost.
func TestAPlanLosesDataOnlyAsItWasApproved(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	for name, tt := range map[string]struct {
		reason string // %s is the container
		steps  []string
		status ops.CycleStatus
	}{
		"not said": {"it is down", []string{"1 redeploy web refused"}, ops.CycleNeedsHuman},
		"said": {
			"it can be made again, and it loses the data outside the volumes of container %.12s",
			[]string{"1 redeploy web done"},
			ops.CycleResolved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := "lose" + strings.ReplaceAll(name, " ", "")
			web := project + "_web_1"
			repos := t.TempDir()
			file := filepath.Join(repos, "lab", project, "compose.yml")
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			text := "version: '2.4'\nservices:\n  web:\n    image: " + dockertest.Image + "\n    container_name: " + web +
				"\n    network_mode: none\n    stop_grace_period: 1s\n    command: [/bin/sh, -c, \"trap 'exit 0' TERM; while :; do sleep 0.2; done\"]\n"
			must(t, os.WriteFile(file, []byte(text), 0o600))
			lab := filepath.Join(repos, "lab")
			gitIn(t, lab, "init", "-q")
			gitIn(t, lab, "add", "--all")
			gitIn(t, lab, "commit", "-q", "-m", "web")
			if out, err := d.Run(t, d.Socket, "docker-compose", "-f", file, "up", "-d"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "rm", "-f", web) })
			d.Docker(t, "exec", web, "sh", "-c", "mkdir -p /var/lib/app && head -c 3000000 /dev/zero > /var/lib/app/data.db")
			d.Docker(t, "stop", "-t", "0", web)
			id := func() string { return d.Docker(t, "inspect", "--format", "{{.Id}}", web) }
			before := id()
			plan := step("web", "redeploy")
			if plan["reason"] = tt.reason; strings.Contains(tt.reason, "%") {
				plan["reason"] = fmt.Sprintf(tt.reason, before)
			}
			b := planBox(t, planner(t, []string{"web"}, []map[string]string{plan}), fmt.Sprintf(`docker: {broker: on, socket: %[1]s}
repos_dir: %[2]q
services:
  - name: web
    container: %[3]s
    compose: {repo: lab, file: %[4]s/compose.yml}
    probes: [{type: container, container: %[3]s, socket: %[1]s}]
`, d.Socket, repos, web, project))
			b.once(6)
			if r := b.run("approvals", "approve", "1"); r.code != 0 {
				t.Fatalf("approve exits %d: %s%s", r.code, r.stdout, r.stderr)
			}
			r := b.run("once")
			c := b.firstCycle()
			if got := b.steps(); c.Cycle.Status != tt.status || !slices.Equal(got, tt.steps) {
				t.Errorf("the cycle is %s, with %q\n%s%s", c.Cycle.Status, got, r.stdout, r.stderr)
			}
			if kept := id() == before; kept != (tt.status == ops.CycleNeedsHuman) {
				t.Errorf("the container was kept: %v", kept)
			}
			if tt.status == ops.CycleNeedsHuman {
				contains(t, "the plan", b.run("approvals", "show", "1").stdout, "/var/lib/app/data.db", "loses the data outside the volumes of container "+before[:12])
			}
			b.nothingLeft()
		})
	}
}
