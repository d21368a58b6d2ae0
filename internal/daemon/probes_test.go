package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

// probing is a host whose environments run these commands as probes.
func probing(t *testing.T, guarded bool, commands ...[]string) *Host {
	t.Helper()
	dir := t.TempDir()
	e := ops.Environment{
		Name:     "home",
		StateDir: filepath.Join(dir, "state"),
		WorkDir:  filepath.Join(dir, "work"),
		ReposDir: filepath.Join(dir, "repos"),
	}
	for _, argv := range commands {
		e.Probes = append(e.Probes, ops.ProbeSpec{Type: "command", Service: "db", Command: argv})
	}
	c := &config.Config{StateDir: e.StateDir, Listen: "127.0.0.1:8080"}
	c.Guard.Enabled = guarded
	return newHost(Options{Config: c, Clock: time.Now, Self: filepath.Join(dir, "claudeops")}, []ops.Environment{e, {Name: "lab"}})
}

func TestProbesThatOnlyLookAreRun(t *testing.T) {
	for _, argv := range [][]string{
		{"pg_isready", "-q"},
		{"true"},
		{"/bin/true"},
		{"curl", "-fsS", "http://web.example/health"},
		{"sh", "-c", "test -f '/etc/hostname'"},
		{"test", "it's", "=", "it's"},
		{"/opt/check.sh", "--all"},
		{"my-own-check"}, // the operator's own
	} {
		o, err := probing(t, true, argv).proberOptions()
		if err != nil {
			t.Errorf("%q is refused: %v", argv, err)
			continue
		}
		if err := o.Allow(argv); err != nil {
			t.Errorf("%q is not run: %v", argv, err)
		}
	}
}

func TestAProbeThatDoesMoreThanLookIsRefusedAtStart(t *testing.T) {
	for _, argv := range [][]string{
		{"docker", "restart", "web"}, {"rm", "-rf", "/srv"}, {"sh", "-c", "systemctl restart db"}, {"touch", "/srv/mark"},
	} {
		_, err := probing(t, true, []string{"true"}, argv).proberOptions()
		var wrong *config.Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 {
			t.Errorf("%q: %v", argv, err)
			continue
		}
		text := err.Error()
		for _, want := range []string{"environment home", argv[0], "db is not run", "the guard refuses it", "guard.enabled"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: the error does not say %q: %s", argv, want, text)
			}
		}
	}
}

func TestWithoutTheGuardEveryProbeIsRun(t *testing.T) {
	o, err := probing(t, false, []string{"docker", "restart", "web"}).proberOptions()
	if err != nil || o.Allow != nil {
		t.Errorf("%v, %v", o.Allow != nil, err)
	}
}

// What a path leads to may change after the start: then the check says why it is not made, and the service is not down.
func TestAProbeIsJudgedAgainBeforeItRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health")
	must(t, os.WriteFile(file, []byte("well"), 0o600))
	argv := []string{"cat", file}
	h := probing(t, true, argv)
	o, err := h.proberOptions()
	must(t, err)
	run := func() ops.Check { return probe.New(o).Run(t.Context(), "home", h.envs[0].Probes, ops.ProbeWatch)[0] }
	if got := run(); got.Status != ops.Healthy {
		t.Fatalf("%+v", got)
	}
	must(t, os.Remove(file))
	must(t, os.Symlink("/etc/shadow", file))
	if got := run(); got.Status != ops.Degraded || !strings.Contains(got.Error, "the command was not run: the guard refuses it") {
		t.Errorf("%+v", got)
	}
}

func TestACycleKnowsHowItsEnvironmentIsWatched(t *testing.T) {
	e := ops.Environment{Name: "home", Watch: ops.Watch{Maintenance: []ops.Maintenance{{Name: "disk", Service: "db"}}}}
	h := newHost(Options{Config: &config.Config{}, Clock: time.Now}, []ops.Environment{e})
	for _, got := range [][]ops.Environment{h.envs, h.mine} {
		if len(got) != 1 || len(got[0].Policy.Watch.Maintenance) != 1 {
			t.Errorf("got %+v", got)
		}
	}
}
