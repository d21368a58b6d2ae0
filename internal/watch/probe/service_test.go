package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestUnitsAreJudgedByTheirState(t *testing.T) {
	folder := t.TempDir()
	systemctl := filepath.Join(folder, "systemctl")
	// What systemctl of systemd 252 prints and exits with, among it what the real one says on a machine without systemd.
	script := `#!/bin/sh
test "$# $1 $2" = "3 is-active --" || exit 9
case "$3" in
web.service) echo active ;;
again.service) echo reloading ;;
slow.service) echo activating; exit 3 ;;
stops.service) echo deactivating; exit 3 ;;
off.service | gone.service) echo inactive; exit 3 ;;
bad.service) echo failed; exit 3 ;;
odd.service) echo what ;;
*) printf "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down\n" >&2; exit 1 ;;
esac
`
	must(t, os.WriteFile(systemctl, []byte(script), 0o700))
	prober := New(Options{Systemctl: systemctl})
	for _, c := range []struct {
		unit    string
		status  ops.Health
		problem string
	}{
		{"web.service", ops.Healthy, ""},
		{"slow.service", ops.Degraded, "the unit is activating"},
		{"again.service", ops.Degraded, "the unit is reloading"},
		{"stops.service", ops.Down, "the unit is deactivating"},
		{"off.service", ops.Down, "the unit is inactive"},
		{"gone.service", ops.Down, "the unit is inactive"}, // systemd does not tell a missing unit from one that is off
		{"bad.service", ops.Down, "the unit is failed"},
		{"odd.service", ops.Down, `systemctl answered "what"`},
		{"none", ops.Down, "exit status 1: System has not been booted with systemd as init system (PID 1). Can't operate."},
	} {
		spec := ops.ProbeSpec{Type: "systemd", Unit: c.unit, Timeout: 20 * time.Second}
		got := prober.Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeWatch)[0]
		want(t, got, c.status, c.problem)
		if got.Type != ops.CheckService || got.Probe != "systemd "+c.unit {
			t.Errorf("got %+v", got)
		}
	}
}

func TestACommandThatIsNotAllowedIsNotRun(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	prober := New(Options{Allow: func(argv []string) error {
		if argv[0] == "touch" {
			return errors.New("touch writes")
		}
		return nil
	}})
	got := prober.Run(t.Context(), "home", []ops.ProbeSpec{command("touch", mark), command("true")}, ops.ProbeWatch)
	want(t, got[0], ops.Degraded, "the command was not run: touch writes")
	want(t, got[1], ops.Healthy, "")
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was run")
	}
}

func TestProbesAreValidated(t *testing.T) {
	for _, c := range []struct {
		problem string
		spec    ops.ProbeSpec
	}{
		{"", ops.ProbeSpec{Type: "http", URL: "https://example.org", ExpectRegexp: "^a", ExpectJSON: []string{"$.a"}, Headers: map[string]string{"X-Key": "v"}}},
		{"is not an http or https address", ops.ProbeSpec{Type: "http", URL: "ftp://example.org"}},
		{"expect_regexp", ops.ProbeSpec{Type: "http", URL: "http://a", ExpectRegexp: "("}},
		{"expect_json", ops.ProbeSpec{Type: "http", URL: "http://a", ExpectJSON: []string{"a"}}},
		{"cannot be sent", ops.ProbeSpec{Type: "http", URL: "http://a", Headers: map[string]string{"X": "a\r\nb"}}},
		{"", ops.ProbeSpec{Type: "dns", Host: "a", Record: "txt"}},
		{"needs host", ops.ProbeSpec{Type: "dns"}},
		{"unknown record type", ops.ProbeSpec{Type: "dns", Host: "a", Record: "ANY"}},
		{"is not a container name", ops.ProbeSpec{Type: "container", Container: "a/b"}},
		{"give the address as postgres://", ops.ProbeSpec{Type: "postgres", URL: "db"}},
		{"give the address as redis://", ops.ProbeSpec{Type: "redis", URL: "http://a"}},
		{"is not host:port", ops.ProbeSpec{Type: "tcp", Address: "a"}},
		{"needs unit", ops.ProbeSpec{Type: "systemd"}},
		{"needs command", ops.ProbeSpec{Type: "command"}},
		{"unknown probe type", ops.ProbeSpec{Type: "ping"}},
		{"must not be negative", ops.ProbeSpec{Type: "tcp", Address: "a:1", FailAfter: -1}},
	} {
		err := errors.Join(Validate(c.spec)...)
		if (err == nil) != (c.problem == "") || (err != nil && !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%+v: got %v, want %q", c.spec, err, c.problem)
		}
	}
}
