package dockertest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
	"claudeops/test/dockertest"
)

// check runs one container probe against the daemon.
func check(t *testing.T, p *probe.Prober, name string) ops.Check {
	t.Helper()
	spec := ops.ProbeSpec{Service: name, Type: "container", Container: name}
	checks := p.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeObserve)
	if len(checks) != 1 {
		t.Fatalf("%d results", len(checks))
	}
	return checks[0]
}

func TestContainerProbesReadARealDaemon(t *testing.T) {
	d := dockertest.Shared(t)
	p := probe.New(probe.Options{Socket: d.Socket})
	d.Container(t, "up")
	d.Container(t, "stopped")
	d.Docker(t, "stop", "-t", "1", "stopped")
	d.Container(t, "paused")
	d.Docker(t, "pause", "paused")
	for name, want := range map[string]struct {
		status ops.Health
		words  string
	}{
		"up":      {ops.Healthy, ""},
		"stopped": {ops.Down, "does not run: exited"},
		"paused":  {ops.Down, "paused"},
		"missing": {ops.Down, "no such container"},
	} {
		if got := check(t, p, name); got.Status != want.status || !strings.Contains(got.Error, want.words) {
			t.Errorf("%s is %s: %s", name, got.Status, got.Error)
		}
	}
	d.Docker(t, "start", "stopped")
	if got := check(t, p, "stopped"); got.Status != ops.Healthy {
		t.Errorf("after its start it is %s: %s", got.Status, got.Error)
	}
}

func TestContainerProbesFindWhatComposeStarts(t *testing.T) {
	d := dockertest.Shared(t)
	file := filepath.Join(t.TempDir(), "docker-compose.yml")
	text := "version: '2.4'\nservices:\n  web:\n    image: " + dockertest.Image + "\n    container_name: shop-web\n    network_mode: none\n" +
		"    stop_grace_period: 1s\n    healthcheck: {test: [CMD, 'true'], interval: 1s}\n" +
		"    command: [/bin/sh, -c, \"trap 'exit 0' TERM; while :; do sleep 0.2; done\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := probe.New(probe.Options{Socket: d.Socket})
	if got := check(t, p, "shop-web"); got.Status != ops.Down {
		t.Errorf("before the start it is %s: %s", got.Status, got.Error)
	}
	t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "rm", "-f", "shop-web") })
	if out, err := d.Run(t, d.Socket, "docker-compose", "-f", file, "up", "-d", "web"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := check(t, p, "shop-web"); got.Status == ops.Down {
		t.Errorf("after the start it is %s: %s", got.Status, got.Error)
	}
}
