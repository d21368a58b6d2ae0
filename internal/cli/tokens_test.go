package cli

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// tokenBox is a state folder with an empty database, and a function that runs commands on it.
func tokenBox(t *testing.T) (path string, run func(args ...string) (int, string, string)) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "claudeops.db")
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	must(t, err)
	must(t, s.Close())
	return path, func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Main(args, Process{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Version: "test",
			Environ: []string{"HOME=" + dir, "CLAUDEOPS_STATE_DIR=" + dir, "PATH=/usr/bin:/bin"},
		})
		return code, out.String(), errs.String()
	}
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	path, run := tokenBox(t)
	code, out, errs := run("tokens", "create", "phone", "--role", "responder", "--expires", "90d")
	secret := strings.TrimSpace(out)
	if code != 0 || !regexp.MustCompile(`^claudeops_[A-Z2-7]{26}$`).MatchString(secret) || !strings.Contains(errs, "responder") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	must(t, err)
	used, err := s.People.UseToken(t.Context(), secret, time.Now())
	if err != nil || used.ExpiresAt == nil || used.ExpiresAt.Sub(used.CreatedAt) != 90*24*time.Hour {
		t.Errorf("%+v, %v", used, err)
	}
	must(t, s.Close())
	if _, out, _ := run("tokens", "list", "-o", "json"); !strings.Contains(out, `"role": "responder"`) || strings.Contains(out, secret) ||
		strings.Contains(out, `"last_used_at": null`) {
		t.Errorf("listed %s", out)
	}
	if code, _, errs := run("tokens", "create", "phone", "--role", "read"); code != exitConflict {
		t.Errorf("the same name: exit %d, %s", code, errs)
	}
	for _, wrong := range [][]string{{"x"}, {"x", "--role", "root"}, {"x", "--role", "read", "--expires", "soon"}, {"x", "--role", "read", "--expires", "0d"}} {
		if code, _, errs := run(append([]string{"tokens", "create"}, wrong...)...); code != exitUsage {
			t.Errorf("%v: exit %d, %s", wrong, code, errs)
		}
	}
	if code, _, errs := run("tokens", "revoke", "phone"); code != 0 {
		t.Errorf("revoke: exit %d, %s", code, errs)
	}
	if code, _, _ := run("tokens", "revoke", "phone"); code != exitNotFound {
		t.Errorf("revoke again: exit %d", code)
	}
	if _, out, _ := run("tokens", "list", "--all"); !strings.Contains(out, "revoked") {
		t.Errorf("listed %s", out)
	}
	if _, out, _ := run("events", "--kind", "audit"); !strings.Contains(out, "made the token phone") || strings.Contains(out, secret) {
		t.Errorf("recorded %s", out)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
