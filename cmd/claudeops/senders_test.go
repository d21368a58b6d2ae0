package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// theAlert is the only alert on record.
func (b *box) theAlert() (a ops.Alert) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		all, err := s.Alerts(b.t.Context(), store.AlertFilter{})
		if err != nil || len(all) > 1 {
			b.t.Fatalf("%+v %v", all, err)
		}
		if len(all) == 1 {
			a = all[0]
		}
	})
	return a
}

// Gatus runs with the file that the documentation shows.
func TestARealGatusTellsAndIsUnderstood(t *testing.T) {
	t.Parallel()
	gatus, err := filepath.Abs("../../.cache/gatus-5.35.0/gatus")
	must(t, err)
	if _, err := os.Stat(gatus); err != nil {
		t.Fatalf("Gatus is not there (%v): run script/setup-tests all", err)
	}
	page, err := os.ReadFile("../../docs/webhooks.md")
	must(t, err)
	_, alerting, _ := strings.Cut(string(page), "```yaml not-run=\"a file of Gatus\"\n")
	alerting, _, found := strings.Cut(alerting, "```")
	if !found {
		t.Fatal("the documentation shows no file of Gatus")
	}
	var down atomic.Bool
	down.Store(true)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer service.Close()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_API_TOKEN=token-of-the-real-gatus").configured(quickly)
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })

	dir := t.TempDir()
	host, port, _ := strings.Cut(freeAddress(t), ":")
	file := strings.ReplaceAll(alerting, "https://ops.example.org", "http://"+d.addr) + fmt.Sprintf(`web: {address: %s, port: %s}
endpoints:
  - name: front-end
    group: core
    url: %s
    interval: 1s
    conditions: ["[STATUS] == 200"]
    alerts: [{type: custom, failure-threshold: 1, success-threshold: 1, description: "it does not answer"}]
`, host, port, service.URL)
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(file), 0o600))
	var log lockedBuffer
	c := exec.CommandContext(t.Context(), gatus)
	c.Dir, c.Stdout, c.Stderr = dir, &log, &log
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GATUS_CONFIG_PATH=" + filepath.Join(dir, "config.yaml"), "CLAUDEOPS_TOKEN=token-of-the-real-gatus"}
	must(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	d.until("the alert's cycle ends", func() bool { _, ok := b.by(ops.TriggerAlert); return ok })
	if a := b.theAlert(); a.Status != ops.AlertFiring || a.Service != "front-end" || a.Level != ops.LevelCritical || a.Summary != "it does not answer" {
		t.Errorf("%+v", a)
	}
	down.Store(false)
	d.until("the alert ends", func() bool { return b.theAlert().Status == ops.AlertResolved })
}
