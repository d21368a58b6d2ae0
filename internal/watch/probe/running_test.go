package probe

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// seenRunning asks whether what a spec names runs; found is false where nothing can be said.
func seenRunning(t *testing.T, p *Prober, spec ops.ProbeSpec) (got ops.Check, found bool) {
	t.Helper()
	spec.Service, spec.Timeout = "web", 20*time.Second
	all := p.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeRunning)
	if len(all) == 0 {
		return got, false
	}
	return all[0], true
}

func TestAContainerRunsOrHasDoneItsWork(t *testing.T) {
	once := func(name, status, more string) string {
		return strings.Replace(inspection(t, name, status, more, 0), `"Name":"always"`, `"Name":"no"`, 1)
	}
	states := map[string]string{
		"up":       inspection(t, "up", "running", "", 0),
		"sick":     inspection(t, "sick", "running", `"Health":{"Status":"unhealthy"}`, 0),
		"killed":   inspection(t, "killed", "exited", `"ExitCode":137`, 0),
		"quit":     inspection(t, "quit", "exited", `"ExitCode":0`, 0),
		"loop":     inspection(t, "loop", "restarting", `"ExitCode":1`, 3),
		"paused":   inspection(t, "paused", "paused", "", 0),
		"made":     inspection(t, "made", "created", "", 0),
		"job":      once("job", "exited", `"ExitCode":0`),
		"podman":   once("podman", "stopped", `"ExitCode":0`),
		"bad-job":  once("bad-job", "exited", `"ExitCode":2`),
		"made-job": once("made-job", "created", ""),
		"garbled":  `<html>`,
	}
	socket := engine(t, func(name string) (int, string) {
		if body, ok := states[name]; ok {
			return http.StatusOK, body
		}
		return http.StatusNotFound, `{}`
	})
	for _, c := range []struct {
		name    string
		status  ops.Health // empty: nothing can be said
		problem string
	}{
		{"up", ops.Healthy, ""},
		{"sick", ops.Down, "container sick is unhealthy"},
		{"job", ops.Healthy, ""},
		{"podman", ops.Healthy, ""},
		{"killed", ops.Down, "container killed has exited with 137"},
		{"quit", ops.Down, "container quit has exited with 0"}, // the engine was to start it again
		{"bad-job", ops.Down, "container bad-job has exited with 2"},
		{"loop", ops.Down, "container loop is restarting; its last exit code was 1"},
		{"paused", ops.Down, "container paused is paused"},
		{"made", ops.Down, "container made does not run: it is created"},
		{"made-job", ops.Down, "container made-job does not run: it is created"},
		{"absent", ops.Down, "container absent does not exist"},
		{"garbled", "", ""},
		{"../secrets", "", ""},
	} {
		got, found := seenRunning(t, New(Options{Socket: socket}), ops.ProbeSpec{Type: "container", Container: c.name})
		if found != (c.status != "") || got.Status != c.status || got.Error != c.problem {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if found && (got.Purpose != ops.ProbeRunning || got.Service != "web" || got.Type != ops.CheckContainer) {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
	if got, found := seenRunning(t, New(Options{Socket: socket + ".gone"}), ops.ProbeSpec{Type: "container", Container: "up"}); found {
		t.Errorf("without an engine: got %+v", got)
	}
}

func TestAUnitRunsOrHasDoneItsWork(t *testing.T) {
	systemctl := filepath.Join(t.TempDir(), "systemctl")
	script := `#!/bin/sh
test "$1 $3" = "show --" || exit 9
say() { printf 'Type=%s\nResult=%s\nExecMainStatus=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\n' "$@"; }
case "$4" in
web.service) say simple success 0 loaded active running ;;
job.service) say oneshot success 0 loaded inactive dead ;;
works.service) say oneshot success 0 loaded activating start ;;
bad-job.service) say oneshot exit-code 3 loaded failed failed ;;
off.service) say simple success 0 loaded inactive dead ;;
bad.service) say simple exit-code 137 loaded failed failed ;;
loop.service) say simple exit-code 1 loaded activating auto-restart ;;
gone.service) say simple success 0 not-found inactive dead ;;
*) echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2; exit 1 ;;
esac
`
	must(t, os.WriteFile(systemctl, []byte(script), 0o700))
	for _, c := range []struct {
		unit    string
		status  ops.Health
		problem string
	}{
		{"web.service", ops.Healthy, ""},
		{"job.service", ops.Healthy, ""},
		{"works.service", ops.Healthy, ""},
		{"bad-job.service", ops.Down, "unit bad-job.service has failed (exit-code 3)"},
		{"off.service", ops.Down, "unit off.service is inactive (dead)"},
		{"bad.service", ops.Down, "unit bad.service has failed (exit-code 137)"},
		{"loop.service", ops.Down, "unit loop.service is activating (auto-restart)"},
		{"gone.service", ops.Down, "unit gone.service does not exist"},
		{"other.service", "", ""},
	} {
		got, found := seenRunning(t, New(Options{Systemctl: systemctl}), ops.ProbeSpec{Type: "systemd", Unit: c.unit})
		if found != (c.status != "") || got.Status != c.status || got.Error != c.problem {
			t.Errorf("%s: got %+v", c.unit, got)
		}
	}
	if got, found := seenRunning(t, New(Options{Systemctl: systemctl + ".gone"}), ops.ProbeSpec{Type: "systemd", Unit: "web.service"}); found {
		t.Errorf("without systemd: got %+v", got)
	}
}
