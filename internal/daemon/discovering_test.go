package daemon

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

func discovering(t *testing.T, mode string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"claudeops.yaml": "state_dir: state\nservices_discovery: " + mode + "\nservices: [{name: web}]\n" +
			"environments: [{name: default, repos_dir: repos}, {name: lab}]\n",
		"repos/shop/compose.yaml": "services: {web: {ports: ['8080:80']}, db: {ports: ['5432:5432']}, bad: []}\n",
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	return c
}

func TestOnlyTrustWatchesWhatRepositoriesName(t *testing.T) {
	for _, tc := range []struct {
		mode, log string
		services  int
		probes    int
		observe   ops.Observe
	}{
		{"off", "", 1, 0, ops.ObserveAgent},
		{"show", "that are not configured", 1, 0, ops.ObserveAgent},
		{"trust", "are watched", 2, 1, ops.ObserveProbes},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			c := discovering(t, tc.mode)
			var log bytes.Buffer
			o := Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			for range 2 { // a second look adds nothing
				o.discoverServices(t.Context())
				envs := c.Environments()
				e := envs[0]
				if len(e.Policy.Inventory.Services) != tc.services || len(e.Probes) != tc.probes || e.Policy.Observe != tc.observe {
					t.Errorf("watched are %+v with %+v by %s", e.Policy.Inventory.Services, e.Probes, e.Policy.Observe)
				}
				if e.Policy.Inventory.Services[0].Probed {
					t.Error("a configured service was changed")
				}
				if len(envs[1].Policy.Inventory.Services) != 1 {
					t.Errorf("an environment without repositories watches %+v", envs[1].Policy.Inventory.Services)
				}
			}
			if !strings.Contains(log.String(), tc.log) || (tc.log != "" && !strings.Contains(log.String(), "problems=1")) || (tc.log == "") != (log.Len() == 0) {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
}

func TestMissingRepositoriesDoNotKeepFromStarting(t *testing.T) {
	c := discovering(t, "trust")
	must(t, os.RemoveAll(c.Environments()[0].ReposDir))
	var log bytes.Buffer
	Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil))}.discoverServices(t.Context())
	if !strings.Contains(log.String(), "correct repos_dir") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestAChangedManifestIsNotWatchedUntilItIsAccepted(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	loaded := func() *config.Config {
		t.Helper()
		c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
		must(t, err)
		return c
	}
	var log bytes.Buffer
	watched := func() string { // what a start would watch
		t.Helper()
		log.Reset()
		c := loaded()
		Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil))}.discoverServices(t.Context())
		var out []string
		for _, p := range c.Environments()[0].Probes {
			out = append(out, p.Service+" "+p.Address)
		}
		return strings.Join(out, ", ")
	}
	put("claudeops.yaml", "state_dir: state\nservices_discovery: trust\nrepos_dir: repos\n")
	put("repos/shop/.claude-ops/services.yaml", "services: [{name: web, probes: ['web.lan:80']}]\n")

	if _, err := Trust(t.Context(), loaded(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state", trustFile)); err == nil {
		t.Error("a look has accepted something")
	}
	if got := watched(); got != "web web.lan:80" || strings.Contains(log.String(), "they were accepted") {
		t.Errorf("the first start watches %q and says %s", got, log.String())
	}
	put("repos/shop/.claude-ops/services.yaml", "services: [{name: web, probes: ['evil.example:80']}, {name: more, probes: ['more.lan:1']}]\n")
	for range 2 { // also at the second start after it
		if got := watched(); got != "web web.lan:80" || !strings.Contains(log.String(), "they were accepted") || !strings.Contains(log.String(), "services=2") {
			t.Errorf("after a change it watches %q and says %s", got, log.String())
		}
	}
	accept := func(want string, names ...string) {
		t.Helper()
		all, err := AcceptServices(t.Context(), loaded(), names)
		must(t, err)
		var got []string
		for _, f := range all[0].Found {
			got = append(got, string(f.Standing)+" "+f.Service.Name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("accepted is %q, want %q", got, want)
		}
	}
	accept("new more", "more")
	if got := watched(); got != "web web.lan:80, more more.lan:1" {
		t.Errorf("after one was accepted it watches %q", got)
	}
	accept("changed web")
	accept("")
	if got := watched(); got != "web evil.example:80, more more.lan:1" || strings.Contains(log.String(), "they were accepted") {
		t.Errorf("after all was accepted it watches %q and says %s", got, log.String())
	}
	put("repos/shop/.claude-ops/services.yaml", "services: []\n")
	if got := watched(); got != "web evil.example:80, more more.lan:1" {
		t.Errorf("after it was emptied it watches %q", got)
	}
	accept("gone web", "web")
	if got := watched(); got != "more more.lan:1" {
		t.Errorf("after its end was accepted it watches %q", got)
	}
	put("state/"+trustFile, `{"version":9}`)
	if got := watched(); got != "" || !strings.Contains(log.String(), "services accept") {
		t.Errorf("with a file nobody understands it watches %q and says %s", got, log.String())
	}
}

// A discovered service has the same built-in actions as a configured one, but no power over what another service has.
func TestDiscoveredServicesHaveTheBuiltInActions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"claudeops.yaml": "state_dir: state\nservices_discovery: trust\nrepos_dir: repos\nservices: [{name: db, container: db-1}]\n",
		"repos/shop/.claude-ops/services.yaml": "services:\n  - {name: web, probes: ['container:shop-web-1']}\n  - {name: cron, probes: ['systemd:cron.service']}\n" +
			"  - {name: plain, probes: ['plain.lan:80']}\n  - {name: thief, probes: ['container:db-1']}\n",
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	Options{Config: c, Logger: slog.New(slog.DiscardHandler)}.discoverServices(t.Context())
	inventory := c.Environments()[0].Policy.Inventory
	got := map[string]string{}
	for _, s := range inventory.Services {
		for _, a := range s.Actions {
			got[s.Name] += a.Name + " "
		}
	}
	want := map[string]string{"db": "restart start stop ", "web": "restart start stop ", "cron": "restart start stop "}
	if !maps.Equal(got, want) {
		t.Errorf("actions %v, want %v", got, want)
	}
	web, _ := inventory.Action("web", "restart")
	cron, _ := inventory.Action("cron", "stop")
	if web.Container != "shop-web-1" || web.Tier != ops.Tier2 || cron.Unit != "cron.service" || cron.Tier != ops.Tier3 {
		t.Errorf("%+v, %+v", web, cron)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
