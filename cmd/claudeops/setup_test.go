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
	"claudeops/test/agenttest"
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
		contains(t, name+" as data", b.runWith(tc.caller, "doctor", "-o", "jsonl").stdout, `{"check":"credentials","state":"`, `{"check":"wall `, `{"check":"trust","state":"`)
	}
	if asked.Load() == 0 {
		t.Error("no key was tested")
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
	contains(t, "doctor", b.run("doctor").stdout, "✓  services", "1 service is watched by 1 probe", "✓  trust", "suggest: agents look and propose", "✓  notifications")
}
