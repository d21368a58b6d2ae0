// Package realcodex gives tests the real Codex. Its own tests hold the facts about that program the supervisor relies on, so
// that a newer version is taken up by changing Version and the version in script/setup-tests and reading what fails.
package realcodex

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Version is the version script/setup-tests installs.
const Version = "0.166.0"

// Model is a model that this version knows and offers a plain shell tool to.
const Model = "gpt-5.5"

// Path returns the program, and fails the test where it is not installed.
func Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(moduleRoot(t), ".cache", "codex-"+Version, "bin", "codex")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Codex %s is not installed: run script/setup-tests", Version)
	}
	if err != nil {
		t.Fatalf("find Codex: %v", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		t.Fatalf("%s is no program: remove its folder and run script/setup-tests", path)
	}
	return path
}

// Env returns an environment in which the adapter's agent talks to baseURL only, with a temporary folder of its own: Codex
// does not put its helpers into one that lies in a temporary folder, as those of a test do.
func Env(t testing.TB, baseURL string) []string {
	t.Helper()
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"TMPDIR=" + t.TempDir(),
		"OPENAI_BASE_URL=" + baseURL,
		"OPENAI_API_KEY=dummy-key-of-a-test",
	}
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("find the module: no go.mod above the test")
		}
		dir = parent
	}
}
