package browsertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"claudeops/test/agenttest"
	"claudeops/test/testtoken"
)

// alertBodies say a text in every field of every kind of alert.
func alertBodies(text string) map[string]any {
	labels := map[string]any{"alertname": text, "service": text, "severity": "critical", "x": text, text: text}
	words := map[string]any{"summary": text, "description": text, text: text}
	firing := map[string]any{
		"status": "firing", "labels": labels, "annotations": words, "fingerprint": text, "generatorURL": text, "silenceURL": text,
		"dashboardURL": text,
		"panelURL":     text, "startsAt": "2026-11-14T13:00:00Z", "values": map[string]any{text: 1},
	}
	group := map[string]any{
		"version": "4", "groupKey": text, "receiver": text, "status": "firing", "alerts": []any{firing}, "groupLabels": labels,
		"commonLabels":      labels,
		"commonAnnotations": words, "externalURL": text, "title": text, "message": text, "orgId": 1,
	}
	return map[string]any{
		"alertmanager": group,
		"grafana":      group,
		"generic": map[string]any{
			"name": text, "service": text, "status": "firing", "severity": "critical", "summary": text, "message": text, "labels": labels,
			"url": text, "fingerprint": text,
		},
	}
}

// TestHostileWebhooksNeverRun lets other systems send the corpus, and looks at everything that comes of it: the alerts' events,
// services, cycles, sessions and incidents.
func TestHostileWebhooksNeverRun(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(config, []byte("grouping: {window: 1s, pause: 1s}\n"), 0o600))
	d := startDaemon(t, t.TempDir(), []agenttest.Play{agenttest.Healthy(0.01)}, "CLAUDEOPS_CONFIG="+config)
	client := &http.Client{Transport: testtoken.Transport{}}
	for _, text := range hostile() {
		for source, body := range alertBodies(text) {
			raw, err := json.Marshal(body)
			must(t, err)
			r, err := client.Post(d.base+"/api/v1/webhooks/"+source, "application/json", bytes.NewReader(raw))
			must(t, err)
			_ = r.Body.Close()
			if r.StatusCode != http.StatusAccepted {
				t.Fatalf("%s: %d", source, r.StatusCode)
			}
			if r.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s: the answer has no policy", source)
			}
		}
	}
	b := d.open(t)
	b.visit("/sessions")
	b.wait("a cycle starts for them", `[...document.querySelectorAll('table.cycles tbody tr')].length > 1`)
	b.visit("/sessions/2")
	b.wait("and ends", `document.querySelector('#session-head').dataset.status !== 'Running'`)
	for _, p := range []string{
		"/", "/sessions", "/sessions?trigger=alert", "/sessions/2", "/sessions/2?tab=result", "/sessions/2?tab=handoff", "/services", "/events",
		"/incidents", "/incidents?tab=open",
		"/silences", "/notifications", "/memory", "/costs?by=service",
	} {
		b.visit(p)
		b.provoke()
	}
}
