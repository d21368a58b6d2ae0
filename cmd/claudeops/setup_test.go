package main_test

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// models is the API of a model that takes one key. It counts the requests.
func models(t *testing.T, key string) (base string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("X-Api-Key") != key {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return "ANTHROPIC_BASE_URL=" + s.URL, asked
}

// The PATH and the environment of whoever calls doctor say nothing about those of the service.
func TestDoctorTellsWhatTheDaemonSees(t *testing.T) {
	t.Parallel()
	base, asked := models(t, "sk-ant-right")
	installed := t.TempDir()
	must(t, os.Symlink(agenttest.Fake(t, plays(agenttest.Healthy(0.01))), filepath.Join(installed, "claude")))
	with := []string{"PATH=" + installed + ":/usr/bin:/bin", "CLAUDEOPS_CLAUDE_BIN=claude", "ANTHROPIC_API_KEY=sk-ant-right", base}
	without := []string{"PATH=/usr/bin:/bin", "CLAUDEOPS_CLAUDE_BIN=claude", "ANTHROPIC_API_KEY=sk-ant-wrong", base}
	for name, tc := range map[string]struct {
		daemon, caller []string
		code           int
		says           []string
	}{
		"only the service has it": {with, without, 0, []string{filepath.Join(installed, "claude"), "✓  credentials", "the API accepts ANTHROPIC_API_KEY"}},
		"only the caller has it":  {without, with, 1, []string{`"claude" is not installed`, "the API refuses ANTHROPIC_API_KEY", "Next: claudeops agent install"}},
	} {
		b := newBox(t, plays(agenttest.Healthy(0.01)), tc.daemon...)
		alone := b.runWith(tc.caller, "doctor")
		contains(t, name+", alone", alone.stdout, "No daemon runs; this is what your shell sees.")
		if alone.code == tc.code {
			t.Errorf("%s, alone: exit %d", name, alone.code)
		}
		b.ready()
		r := b.runWith(tc.caller, "doctor")
		contains(t, name, r.stdout, tc.says...)
		if r.code != tc.code || strings.Contains(r.stdout, "your shell") || strings.Contains(r.stdout, "sk-ant-") {
			t.Errorf("%s: exit %d\n%s%s", name, r.code, r.stdout, r.stderr)
		}
		contains(t, name+" as data", b.runWith(tc.caller, "doctor", "-o", "jsonl").stdout, `{"check":"credentials","state":"`, `{"check":"wall `, `{"check":"dry run","state":"ok"`)
	}
	if asked.Load() == 0 {
		t.Error("no key was tested")
	}
}

// A page shows what is known and asks nobody; the key is tested once.
func TestTheSetUpIsShownUntilItIsDone(t *testing.T) {
	t.Parallel()
	base, asked := models(t, "sk-ant-right")
	b := newBox(t, plays(agenttest.Healthy(0.01)), base, "ANTHROPIC_API_KEY=sk-ant-right", "CLAUDEOPS_DRY_RUN=true")
	d := b.ready()
	d.until("the page lists the steps", func() bool {
		_, page := d.get("/")
		return strings.Contains(page, "Set-up: ") && strings.Contains(page, "the API accepts ANTHROPIC_API_KEY") && strings.Contains(page, "<strong>Dry run</strong>")
	})
	for range 3 {
		d.get("/")
	}
	if asked.Load() != 1 {
		t.Errorf("the key was tested %d times", asked.Load())
	}
	if strings.Contains(d.log.String(), "sk-ant-right") {
		t.Error("the key is in the log")
	}
}

// The example of the documents is refused without a request; what no free request can test has a state of its own.
func TestDoctorJudgesKeys(t *testing.T) {
	t.Parallel()
	base, asked := models(t, "sk-ant-right")
	for name, tc := range map[string]struct{ variable, says string }{
		"accepted":    {"ANTHROPIC_API_KEY=sk-ant-right", "✓  credentials"},
		"refused":     {"ANTHROPIC_API_KEY=sk-ant-wrong", "✗  credentials"},
		"placeholder": {"ANTHROPIC_API_KEY=sk-ant-your-key", "holds the example of the documentation, not a key"},
		"token":       {"CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-1", "?  credentials"},
		"none":        {"CLAUDEOPS_QUIET=1", "!  credentials"},
	} {
		before := asked.Load()
		contains(t, name, newBox(t, plays(agenttest.Healthy(0.01)), base, tc.variable).run("doctor").stdout, tc.says)
		if wanted := name == "accepted" || name == "refused"; asked.Load() > before != wanted {
			t.Errorf("%s: asked %d times", name, asked.Load()-before)
		}
	}
}

// Without an agent and without a service nothing starts, and no incident opens for either.
func TestAFaultOfTheSetUpIsNoIncident(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_CLAUDE_BIN=claude-is-not-here", "CLAUDEOPS_RECOVERY=on")
	d := b.ready()
	d.until("the log says why nothing starts", func() bool { return strings.Contains(d.log.String(), "no agent is installed and nothing is watched") })
	b.read(func(s *store.Store) {
		if cycles, err := s.Cycles(t.Context(), store.CycleFilter{}); err != nil || len(cycles) > 0 {
			t.Errorf("%d cycles, %v", len(cycles), err)
		}
	})
	if r := b.run("run", "look around"); r.code != 8 {
		t.Errorf("run exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	b.read(func(s *store.Store) {
		found, err := s.Incidents(t.Context(), store.IncidentFilter{})
		notices, err2 := s.NoticeList(t.Context(), store.NoticeFilter{})
		if err != nil || err2 != nil || len(found) > 0 || len(notices) != 1 {
			t.Errorf("%d incidents, %d notices, %v, %v", len(found), len(notices), err, err2)
		}
	})
}

// What init writes is loaded, and a test that was sent by the command is the proof that people are told.
func TestInit_ThenServe(t *testing.T) {
	t.Parallel()
	listen(t, 21003)
	phone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(phone.Close)
	b := newBox(t, plays(agenttest.Healthy(0.01)), "TERM=xterm", "NO_COLOR=1", "DOCKER_HOST=tcp://127.0.0.1:9", "PATH="+t.TempDir())
	dir := t.TempDir()
	p := atTerminal(t, dir, b.env, "init")
	list := p.sees("or all, or none [all]: ")
	number := numberOf(t, list, shopd(21003))
	p.types(number + "\n")
	p.sees("Other names for them?")
	p.types(number + "=shop\n")
	p.sees("A URL, or none")
	p.types(fmt.Sprintf("ntfy://%s/topic\n", strings.TrimPrefix(phone.URL, "http://")))
	p.sees("only look and propose at first?")
	p.types("\n")
	p.sees("next: claudeops serve --config claudeops.yaml")
	if code := p.ends(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.whole())
	}
	checked(t, dir, b.env)
	b.env = append(b.env, "CLAUDEOPS_CONFIG="+filepath.Join(dir, "claudeops.yaml"))
	d := b.ready()
	d.until("the service is healthy", func() bool {
		_, body := d.get("/api/v1/services")
		return strings.Contains(body, `"shop"`) && strings.Contains(body, string(ops.Healthy))
	})
	test := exec.Command(program, "notify", "test")
	test.Dir, test.Env = dir, b.env
	if out, err := test.CombinedOutput(); err != nil || strings.Contains(string(out), "not in the list") {
		t.Fatalf("notify test: %v %s", err, out)
	}
	contains(t, "doctor", b.run("doctor").stdout, "✓  services", "1 service is watched by 1 probe", "✓  trust", "suggest: agents look and propose", "✓  notifications", "✓  dry run")
}

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
	previewed := func() { mu.Lock(); defer mu.Unlock(); clear(asked) } // the preview has asked the probe

	d.save("/settings/services/new", url.Values{"type": {"http"}, "name": {"web"}, "url": {watched.URL + "/first"}, "interval": {"1s"}})
	previewed()
	d.until("the new service is probed", probed("/first"))
	d.until("the daemon is ready again", again)
	d.save("/settings/services/web/probes/new", url.Values{"type": {"http"}, "url": {watched.URL + "/second"}, "expect_status": {"200"}, "interval": {"1s"}})
	previewed()
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
