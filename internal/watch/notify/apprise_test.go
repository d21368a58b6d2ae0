package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/needs"
)

// target is a place notices arrive at.
type target struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
}

type request struct {
	method, path, kind string
	body               map[string]any
}

func listen(t *testing.T, status int, answer string) *target {
	t.Helper()
	received := &target{}
	received.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := request{method: r.Method, path: r.URL.Path, kind: r.Header.Get("Content-Type")}
		if err := json.Unmarshal(raw, &got.body); err != nil {
			t.Errorf("body %q: %v", raw, err)
		}
		received.mu.Lock()
		received.requests = append(received.requests, got)
		received.mu.Unlock()
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(received.Close)
	return received
}

func (r *target) got(t *testing.T, want int) []request {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) != want {
		t.Fatalf("%d requests, want %d: %+v", len(r.requests), want, r.requests)
	}
	return r.requests
}

func (r *target) json(path string) string {
	return "json://" + strings.TrimPrefix(r.URL, "http://") + path
}

func aNotice(level ops.Level) ops.Notice {
	return ops.Notice{
		ID: 7, Level: level, Title: "-x grafana needs a human",
		Body: "Tier 3 could not repair **grafana**.\n\nÄ \"quoted\" $HOME `line`",
	}
}

func realApprise(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("apprise"); err != nil {
		needs.End(t, needs.Absent("apprise"))
	}
}

func TestTheRealProgramDelivers(t *testing.T) {
	realApprise(t)
	for level, kind := range map[ops.Level]string{ops.LevelInfo: "info", ops.LevelWarning: "warning", ops.LevelCritical: "failure"} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			first, second := listen(t, http.StatusOK, ""), listen(t, http.StatusOK, "")
			dir := filepath.Join(t.TempDir(), "private")
			a := New(AppriseOptions{URLs: []string{first.json("/a?format=markdown"), second.json("/b?format=markdown")}, Dir: dir})
			must(t, a.Send(t.Context(), aNotice(level)))
			for _, received := range []*target{first, second} {
				got := received.got(t, 1)[0].body
				if got["title"] != aNotice(level).Title || got["message"] != aNotice(level).Body || got["type"] != kind {
					t.Errorf("got %+v", got)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left in the private folder: %v, %v", left, err)
			}
		})
	}
}

func TestTheRealProgramReportsAFailingTarget(t *testing.T) {
	realApprise(t)
	received := listen(t, http.StatusInternalServerError, "")
	host := strings.TrimPrefix(received.URL, "http://")
	a := New(AppriseOptions{URLs: []string{"json://someone:hunter2hunter2@" + host + "/tokentoken"}, Dir: t.TempDir()})
	err := a.Send(t.Context(), aNotice(ops.LevelInfo))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"apprise could not deliver (exit status 1): ", "error=500", "check CLAUDEOPS_APPRISE_URLS"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "tokentoken") {
		t.Errorf("a secret is shown: %v", err)
	}
	received.got(t, 1)
}

func TestTheRealProgramReportsAnAddressItCannotRead(t *testing.T) {
	realApprise(t)
	a := New(AppriseOptions{URLs: []string{"bogus://tokentoken/secretsecret"}, Dir: t.TempDir()})
	err := a.Send(t.Context(), aNotice(ops.LevelInfo))
	if err == nil || !strings.Contains(err.Error(), "Unparseable URL ***") || strings.Contains(err.Error(), "secret") ||
		strings.Contains(err.Error(), "Usage") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingProgramSaysWhatToDo(t *testing.T) {
	for _, bin := range []string{"claudeops-no-such-apprise", "/nonexistent/apprise"} {
		err := New(AppriseOptions{Bin: bin, URLs: []string{"json://x"}, Dir: t.TempDir()}).Send(t.Context(), aNotice(ops.LevelInfo))
		if err == nil || !strings.Contains(err.Error(), "apt install apprise") || !strings.Contains(err.Error(), "CLAUDEOPS_APPRISE_API") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoTargetIsItsOwnError(t *testing.T) {
	err := New(AppriseOptions{URLs: []string{" "}}).Send(t.Context(), aNotice(ops.LevelInfo))
	if !errors.Is(err, ErrNoTarget) {
		t.Errorf("got %v", err)
	}
}

// script writes a stand-in for the program.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "apprise")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700))
	return path
}

func TestURLsTravelInAPrivateFileAndNowhereElse(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
	t.Setenv("APPRISE_URLS", "json://other")
	t.Setenv("https_proxy", "http://proxy:3128")
	out := t.TempDir()
	bin := script(t, `printf '%s\n' "$@" > `+out+`/argv
env > `+out+`/env
cat > `+out+`/stdin
for a; do case $a in --config=*) f=${a#--config=}; cat "$f" > `+out+`/config; stat -c %a "$f" "${f%/*}" > `+out+`/mode;; esac; done`)
	dir := filepath.Join(t.TempDir(), "private")
	urls := []string{"json://user:hunter2@host/a", "tgram://token/chat"}
	must(t, New(AppriseOptions{Bin: bin, URLs: urls, Dir: dir}).Send(t.Context(), aNotice(ops.LevelCritical)))
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(out, name))
		must(t, err)
		return string(raw)
	}
	argv := strings.Split(strings.TrimSpace(read("argv")), "\n")
	want := []string{"-v", "--config=" + dir, "--title=-x grafana needs a human", "--input-format=markdown", "--notification-type=failure"}
	if len(argv) != len(want) {
		t.Fatalf("argv %q", argv)
	}
	for i := range want {
		if !strings.HasPrefix(argv[i], want[i]) {
			t.Errorf("argument %d is %q, want %q", i, argv[i], want[i])
		}
	}
	if got := read("config"); got != strings.Join(urls, "\n")+"\n" {
		t.Errorf("config %q", got)
	}
	if got := read("mode"); got != "600\n700\n" {
		t.Errorf("modes %q", got)
	}
	if got := read("stdin"); got != aNotice(ops.LevelCritical).Body {
		t.Errorf("stdin %q", got)
	}
	env := read("env")
	for _, secret := range []string{"sk-ant-secret", "APPRISE_URLS", "hunter2"} {
		if strings.Contains(env+read("argv"), secret) {
			t.Errorf("%s is visible to the program's neighbours", secret)
		}
	}
	if !strings.Contains(env, "https_proxy=http://proxy:3128") || !strings.Contains(env, "HOME="+dir) {
		t.Errorf("environment %s", env)
	}
}

func TestAHangingProgramIsEndedWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("enough"))
	defer cancel()
	start := time.Now()
	err := New(
		AppriseOptions{Bin: script(t, "sleep 600 & wait"), URLs: []string{"json://x"}, Dir: t.TempDir()},
	).Send(ctx, aNotice(ops.LevelInfo))
	if err == nil || err.Error() != "run apprise: enough" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestComplaintsShowNoSecrets(t *testing.T) {
	a := New(AppriseOptions{URLs: []string{
		"mailto://someone:p%40ssword@mail.example.org/?to=me@example.org", "slack://TokenAAAA/TokenBBBB/TokenCCCC",
	}})
	for said, want := range map[string]string{
		"2026-01-01 10:00:00,1 - WARNING - Failed at mail.example.org for p@ssword.\nUsage: x": "Failed at mail.example.org for ***.",
		"2026-01-01 10:00:00,1 - ERROR - bad slack://TokenAAAA/TokenBBBB/TokenCCCC":            "bad ***",
		"Traceback\n  File x\nValueError: TokenBBBB":                                           "ValueError: ***",
		"": "it does not say why",
	} {
		if got := a.complaint(said); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheAPIGetsEverythingInOneRequest(t *testing.T) {
	for path, want := range map[string]string{"": "/notify", "/": "/notify", "/notify/home": "/notify/home"} {
		server := listen(t, http.StatusOK, `{"error":null}`)
		a := New(AppriseOptions{API: server.URL + path, URLs: []string{"json://a/b", "tgram://c/d"}, Bin: "/nonexistent"})
		must(t, a.Send(t.Context(), aNotice(ops.LevelWarning)))
		got := server.got(t, 1)[0]
		if got.method != http.MethodPost || got.path != want || got.kind != "application/json" {
			t.Errorf("got %+v, want path %s", got, want)
		}
		body := map[string]any{
			"title": aNotice(ops.LevelInfo).Title, "body": aNotice(ops.LevelInfo).Body, "type": "warning", "format": "markdown",
			"urls": "json://a/b,tgram://c/d",
		}
		if fmt.Sprint(got.body) != fmt.Sprint(body) {
			t.Errorf("body %+v", got.body)
		}
	}
	server := listen(t, http.StatusOK, "")
	must(t, New(AppriseOptions{API: server.URL}).Send(t.Context(), aNotice(ops.LevelInfo)))
	if _, has := server.got(t, 1)[0].body["urls"]; has {
		t.Error("empty urls would replace the server's own")
	}
}

func TestFailuresOfTheAPISayWhatToDo(t *testing.T) {
	cases := []struct {
		status int
		answer string
		want   string
	}{
		{
			http.StatusFailedDependency,
			`{"error":"one or more notification could not be sent to tokentoken"}`,
			"answered HTTP 424 Failed Dependency: one or more notification could not be sent to ***",
		},
		{http.StatusInternalServerError, "<html>", "answered HTTP 500 Internal Server Error"},
		{http.StatusNoContent, "", "has no target under this key"},
		{http.StatusMovedPermanently, "", "set CLAUDEOPS_APPRISE_API to the final one"},
	}
	for _, c := range cases {
		server := listen(t, c.status, c.answer)
		err := New(
			AppriseOptions{API: server.URL + "/notify/keykeykey", URLs: []string{"json://tokentoken"}},
		).Send(t.Context(), aNotice(ops.LevelInfo))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("status %d: %v", c.status, err)
		}
		if strings.Contains(fmt.Sprint(err), "keykeykey") {
			t.Errorf("the key is shown: %v", err)
		}
		server.got(t, 1)
	}
	closed := listen(t, http.StatusOK, "")
	closed.Close()
	err := New(AppriseOptions{API: closed.URL + "/notify/keykeykey"}).Send(t.Context(), aNotice(ops.LevelInfo))
	if err == nil || !strings.Contains(err.Error(), "connection refused; check CLAUDEOPS_APPRISE_API") ||
		strings.Contains(err.Error(), "keykeykey") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"apprise:8000", "/notify", "ftp://x/", "http://[x"} {
		err := New(AppriseOptions{API: bad}).Send(t.Context(), aNotice(ops.LevelInfo))
		if err == nil || !strings.Contains(err.Error(), "CLAUDEOPS_APPRISE_API is not an http address") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestMessagesAreFitForApprise(t *testing.T) {
	m := messageOf(ops.Notice{Title: "a\nb\x00\x1b[31m" + strings.Repeat("ä", 300), Body: " \n"})
	if !strings.HasPrefix(m.Title, "a b [31mä") || len([]rune(m.Title)) != longestTitle || m.Body != m.Title || m.Type != "info" {
		t.Errorf("got %+v", m)
	}
	if m := messageOf(ops.Notice{Body: "x\x00\xffy"}); m.Body != "x�y" {
		t.Errorf("body %q", m.Body)
	}
}
