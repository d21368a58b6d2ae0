package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/test/agenttest"
)

// A person fills in what the pages show, and nothing else: a service, a probe of it, its trust, somebody who is told. The program reads the
// file again each time.
func TestFormsAreFilledInAsAPersonDoes(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(config, []byte("observe: probes\ntrust: suggest\ndry_run: true\n"), 0o600))
	d := startDaemon(t, t.TempDir(), []agenttest.Play{agenttest.Healthy(0.01)}, "CLAUDEOPS_CONFIG="+config)
	b := d.open(t)
	b.excuse("net::ERR") // a reload closes the connections of the pages
	file := func() string {
		raw, err := os.ReadFile(config)
		must(t, err)
		return string(raw)
	}
	save := func(written string) {
		t.Helper()
		b.sees(written)
		b.follow("main form button.primary")
		b.sees("Saved")
		if !strings.Contains(file(), written) {
			t.Errorf("the file is\n%s", file())
		}
		d.ready()
	}
	b.visit("/settings/services/new")
	b.must(b.fill("#setting-name", "web"))
	b.must(b.fill("#setting-url", d.base+"/healthz"))
	b.follow("main .access-form button")
	b.sees("Checked now: healthy")
	save("- name: web")

	b.visit("/services/default/web")
	eval[bool](b, `document.querySelector('form.ceiling select').value = 'repair', true`)
	b.follow("form.ceiling button")
	save("trust: repair")

	b.visit("/settings/services/web/probes/new?type=tcp")
	b.must(b.fill("#setting-address", "127.0.0.1:1"))
	b.follow("main .access-form button")
	b.sees("Checked now: connection refused")
	save("address: 127.0.0.1:1")

	b.visit("/settings/trust?environment=default")
	eval[bool](b, `document.querySelector('main .access-form select').value = 'ask', true`)
	b.follow("main .access-form button")
	save("trust: ask")

	b.visit("/settings/notifications/new")
	b.must(b.fill("#setting-target", "json://127.0.0.1:1/told"))
	b.follow("main .access-form button")
	save("apprise_urls")
	if text := file(); strings.Contains(text, "127.0.0.1:1/told") || !strings.Contains(text, "trust: repair") {
		t.Errorf("the file is\n%s", text)
	}
}
