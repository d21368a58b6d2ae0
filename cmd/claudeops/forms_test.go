package main_test

import (
	"bytes"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"claudeops/test/agenttest"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// fill posts a form and returns the page that answers.
func (d *daemon) fill(path string, fields url.Values) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+d.addr+path, strings.NewReader(fields.Encode()))
	must(d.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+d.token())
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		d.t.Fatalf("post %s: %v\n%s", path, err, d.log)
	}
	defer func() { _ = answer.Body.Close() }()
	var b bytes.Buffer
	_, _ = b.ReadFrom(answer.Body)
	return answer.StatusCode, b.String()
}

var hiddenFields = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)

// save goes from a form over its preview to what is saved, as a person does, and returns the last page.
func (d *daemon) save(path string, fields url.Values) string {
	d.t.Helper()
	_, page := d.get(path)
	for range 2 {
		_, inside, _ := strings.Cut(page, "<main")
		for _, hidden := range hiddenFields.FindAllStringSubmatch(inside, -1) {
			if hidden[1] == "seen" || hidden[1] == "step" || hidden[1] == "kept" {
				fields.Set(hidden[1], html.UnescapeString(hidden[2]))
			}
		}
		var status int
		if status, page = d.fill(path, fields); status != http.StatusOK {
			d.t.Fatalf("%s is answered %d\n%s", path, status, page)
		}
		fields.Del("target") // the preview does not have it
	}
	contains(d.t, "the last page", page, "<span>Saved</span>")
	return page
}

// A new user adds a service, a probe and a target without an editor: each is in use when the daemon has read its configuration again.
func TestForms_AddAServiceAProbeAndATarget(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	watched := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
	}))
	t.Cleanup(watched.Close)
	probed := func(path string) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return asked[path] > 0 }
	}
	ntfy := phonetest.NewNtfy(t)
	file := filepath.Join(privateFolder(t), "claudeops.yaml")
	must(t, os.WriteFile(file, []byte("# mine\ninterval: 10h # rarely\nservices: []\n"), 0o600))
	b := newBox(t, plays(agenttest.Healthy(0.01)), testtoken.Env, "CLAUDEOPS_CONFIG="+file)
	d := b.ready()
	again := func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK }

	d.save("/settings/services/new", url.Values{"type": {"http"}, "name": {"web"}, "url": {watched.URL + "/first"}, "interval": {"1s"}})
	d.until("the new service is probed", probed("/first"))
	d.until("the daemon is ready again", again)
	d.save("/settings/services/web/probes/new", url.Values{"type": {"http"}, "url": {watched.URL + "/second"}, "expect_status": {"200"}, "interval": {"1s"}})
	d.until("the new probe runs", probed("/second"))
	d.until("the daemon is ready again", again)
	page := d.save("/settings/services/web/probes/new", url.Values{"type": {"heartbeat"}, "every": {"24h"}})
	call := regexp.MustCompile(`<code>curl [^<]*(/ping/[^<]*)</code>`).FindStringSubmatch(page)
	if call == nil {
		t.Fatal("the page does not say how the job calls")
	}
	d.until("the job can call", func() bool { status, _ := d.getAs("", call[1]); return status == http.StatusOK && again() })

	d.save("/settings/notifications/new", url.Values{"target": {ntfy.Target("very-secret-topic")}})
	d.until("the target is known", func() bool {
		status, page := d.get("/notifications")
		return status == http.StatusOK && strings.Contains(page, "Send a test") && again()
	})
	if status, page := d.fill("/notifications/test", nil); status != http.StatusSeeOther {
		t.Fatalf("the test is answered %d\n%s", status, page)
	}
	d.until("the test arrives", func() bool { return len(ntfy.Notes("very-secret-topic")) > 0 })

	targets := filepath.Join(b.state, "notify-targets")
	want := "# mine\ninterval: 10h # rarely\nservices:\n  - name: web\n    probes:\n" +
		"      - type: http\n        url: " + watched.URL + "/first\n        interval: 1s\n" +
		"      - type: http\n        url: " + watched.URL + "/second\n        expect_status: 200\n        interval: 1s\n" +
		"      - type: heartbeat\n        every: 24h\n" +
		"\nnotify:\n  apprise_urls_file: " + targets + "\n"
	if raw, err := os.ReadFile(file); err != nil || string(raw) != want {
		t.Errorf("the file is\n%s\nwanted\n%s%v", raw, want, err)
	}
	if info, err := os.Stat(targets); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the targets: %v %v", info, err)
	}
	if r := b.run("events", "--kind", "audit"); strings.Contains(r.stdout+d.log.String(), "very-secret") || !strings.Contains(r.stdout, "wrote into") {
		t.Errorf("the record says %s %s\nthe log says %s", r.stdout, r.stderr, d.log)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
	b.nothingLeft()
}
