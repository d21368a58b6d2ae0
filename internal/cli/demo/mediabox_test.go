package demo

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status + ": " + strings.TrimSpace(string(text))
}

func TestMediaboxFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	m, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) func() error {
		return func() error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
	}
	const well, broken = "200 OK: ok", "502 Bad Gateway: bad gateway: the library does not answer"
	const page, empty = "200 OK: " + libraryText, "503 Service Unavailable: the cache is empty"
	for _, step := range []struct {
		name, health, player string
		do                   func() error
	}{
		{"started", well, page, func() error { return nil }},
		{"a wrong configuration", broken, page, m.Break},
		{"and an empty cache", broken, empty, move(Cache, OldCache)},
		{"the cache is put back", broken, page, move(OldCache, Cache)},
		{"and the configuration", well, page, move(GoodConf, Conf)},
		{"an empty cache is filled", well, page, move(Cache, OldCache)},
		{"no configuration", broken, page, move(Conf, GoodConf)},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if h, p := get(t, m.URL()+"/health"), get(t, m.URL()+"/player"); h != step.health || p != step.player {
			t.Errorf("%s: %s, %s", step.name, h, p)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, Log))
	if err != nil || !strings.Contains(string(log), "upstream="+brokenUpstream) || !strings.Contains(string(log), "connection refused") {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestMediaboxSaysWhatItCannotDo(t *testing.T) {
	if _, err := Start(t.Context(), filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "open service log") {
		t.Errorf("%v", err)
	}
}
