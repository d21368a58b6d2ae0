package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/test/agenttest"
)

// A person fills in what the pages show, and nothing else: a service, a probe of it, its trust, somebody who is told; then they change
// and remove it. The program reads the file again each time.
func TestFormsAreFilledInAsAPersonDoes(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(config, []byte("observe: probes\ntrust: suggest\ndry_run: true\n"), 0o600))
	d := startDaemon(t, t.TempDir(), []agenttest.Play{agenttest.Healthy(0.01)}, "CLAUDEOPS_CONFIG="+config)
	b := d.open(t)
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

	// And away again, by the buttons of the pages.
	unfold := func(page, fold string) {
		t.Helper()
		b.visit(page)
		b.click(fold + " summary")
	}
	press := func(page, fold, button string) {
		t.Helper()
		unfold(page, fold)
		b.follow(button)
		b.follow("main form button.primary")
		b.sees("Removed")
		d.ready()
	}
	unfold("/services/default/web", "#fold-file")
	b.follow(`a[href^="/settings/services/web/probes/2?"]`)
	eval[bool](b, `document.querySelector("#setting-address").value = "", true`)
	b.must(b.fill("#setting-address", "127.0.0.1:2"))
	b.follow("main .access-form button")
	save("address: 127.0.0.1:2")
	press("/services/default/web", "#fold-file", `a[href^="/settings/services/web/probes/2/remove"]`)
	press("/notifications", "#targets .fold", `a[href^="/settings/notifications/"][href$="/remove"]`)
	press("/services/default/web", "#fold-file", `a[href^="/settings/services/web/remove"]`)
	if text := strings.TrimSpace(file()); text != "observe: probes\ntrust: ask\ndry_run: true" {
		t.Errorf("the file is\n%s", text)
	}
}
