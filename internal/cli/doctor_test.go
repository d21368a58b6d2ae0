package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/config"
)

func TestDoctorWrapsFoldsAndEndsWithTheNextCommand(t *testing.T) {
	a := &app{screen: screen{width: 60}}
	steps := []api.SetupRow{
		{Step: api.StepAgent, State: api.SetupTodo, Blocks: true, Detail: "\"claude\" is not installed", Next: "Install it with this long sentence, or set a variable", Command: "npm install"},
		{Step: api.StepTrust, State: api.SetupTodo, Detail: "nothing is said", Next: "Choose", Lines: "trust: suggest"},
	}
	walls := []api.Finding{checked("walls", "warning", "the network is open", ""), checked("wall uid", "ok", "off: b", ""), checked("wall network", "warning", "open: c", "")}
	all := append([]api.Finding{setupFinding(steps[0]), setupFinding(steps[1])}, walls...)
	text := doctor{a}.diagnosis(&config.Config{}, "", steps, all)
	for _, want := range []string{
		"✗  agent  \"claude\" is not installed. Install it with this\n          long sentence, or set a variable\n",
		"!  trust  nothing is said. Choose\n            trust: suggest\n\n", "!  walls  the network is open\n",
		"\n1 problem, 2 warnings. Next: npm install\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	a.verbose = true
	if text := (doctor{a}).diagnosis(&config.Config{}, "", steps, all); !strings.Contains(text, "wall uid") {
		t.Errorf("verbose:\n%s", text)
	}
	a.verbose = false
	if text := (doctor{a}).diagnosis(&config.Config{}, "", nil, walls[1:2]); !strings.HasSuffix(text, "No problems. Next: claudeops open\n") {
		t.Errorf("nothing is wrong:\n%s", text)
	}
}

func TestDoctorSaysWhetherSessionsGetADockerSocket(t *testing.T) {
	dir := t.TempDir()
	live, dead := filepath.Join(dir, "live"), filepath.Join(dir, "dead")
	l, err := net.Listen("unix", live)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	must(t, os.WriteFile(dead, nil, 0o600))
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
	text := "docker: {socket: " + filepath.Join(dir, "none") + "}\nservices: [{name: web, probes: [{type: container, container: web}]}]\n"
	must(t, os.WriteFile(filepath.Join(dir, "claudeops.yaml"), []byte(text), 0o600))
	cfg, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir, Checks: checks()})
	must(t, err)
	for _, broker := range []config.DockerBroker{config.DockerAuto, config.DockerOff} {
		cfg.Docker.Broker = broker
		if f := dockerBroker(t.Context(), cfg); f.State != "warning" {
			t.Errorf("%s: containers are watched without an engine: %+v", broker, f)
		}
	}
}
