package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/config"
)

func TestDoctorSaysWhetherSessionsGetADockerSocket(t *testing.T) {
	dir := t.TempDir()
	live, dead := filepath.Join(dir, "live"), filepath.Join(dir, "dead")
	l, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		broker        config.DockerBroker
		guard         bool
		socket        string
		state, detail string
	}{
		"an engine":           {config.DockerAuto, true, live, "ok", "its own socket in front of " + live},
		"no engine":           {config.DockerAuto, true, filepath.Join(dir, "none"), "ok", "no Docker engine listens"},
		"wanted but missing":  {config.DockerOn, true, filepath.Join(dir, "none"), "warning", "no connection to the engine"},
		"nothing listens":     {config.DockerAuto, true, dead, "warning", "no connection to the engine"},
		"without the guard":   {config.DockerAuto, false, live, "warning", "the guard is off"},
		"switched off by you": {config.DockerOff, true, live, "ok", "off"},
	} {
		cfg := &config.Config{Docker: config.Docker{Broker: c.broker, Socket: c.socket}, Guard: config.Guard{Enabled: c.guard}}
		if f := dockerBroker(t.Context(), cfg); f.State != c.state || !strings.Contains(f.Detail, c.detail) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
