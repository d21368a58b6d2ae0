// Package realcodex gives tests the real Codex. Its own tests hold the facts about that program the supervisor relies on, so
// that a newer version is taken up by changing Version and the version in script/setup-tests and reading what fails.
package realcodex

import (
	"testing"

	"claudeops/test/needs"
)

// Version is the version script/setup-tests installs.
const Version = "0.169.0"

// Model is a model that this version knows and offers a plain shell tool to.
const Model = "gpt-5.5"

// Path returns the program, and fails the test where it is not installed.
func Path(t testing.TB) string {
	t.Helper()
	return needs.Cached(t, "Codex "+Version, "codex-"+Version, "bin", "codex")
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
