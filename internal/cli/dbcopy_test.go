package cli_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/cli"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// copying runs db copy as it is typed.
func copying(t *testing.T, from, to string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = cli.Main([]string{"db", "copy", "-o", "jsonl", "--from", from, "--to", to},
		cli.Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Environ: []string{"HOME=" + t.TempDir()}, Version: "test"})
	return code, out.String(), problems.String()
}

func TestAnInstallationMovesToAServerAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	if err != nil {
		t.Fatal(err)
	}
	session := storetest.NewFixture(t, s).RunningSession(t, "home")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server := pgtest.URL(t)
	code, there, problems := copying(t, "sqlite:"+path, server)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, problems)
	}
	back := filepath.Join(t.TempDir(), "claudeops.db")
	code, returned, problems := copying(t, server, "sqlite:"+back)
	if code != 0 || there != returned {
		t.Fatalf("exit %d: %s\nthere\n%sback\n%s", code, problems, there, returned)
	}
	found := false
	for line := range strings.Lines(there) {
		var row struct {
			Table  string `json:"table"`
			Rows   int64  `json:"rows"`
			SHA256 string `json:"sha256"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		found = found || (row.Table == "sessions" && row.Rows == 1 && len(row.SHA256) == 64)
	}
	if !found {
		t.Errorf("the session is not told: %s", there)
	}
	if code, _, problems := copying(t, "sqlite:"+path, server); code != 5 || !strings.Contains(problems, "not empty") {
		t.Errorf("a second copy: exit %d: %s", code, problems)
	}
	// Who still works there would write what the copy does not have.
	s, err = store.Open(t.Context(), storetest.With(store.Options{URL: server}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Journal.Enlist(t.Context(), ops.Host{Name: "other", Identity: "x"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := copying(t, server, "sqlite:"+filepath.Join(t.TempDir(), "x.db")); code != 5 || !strings.Contains(problems, "host other uses") {
		t.Errorf("beside a host: exit %d: %s", code, problems)
	}
	if got, err := s.Journal.Session(t.Context(), session.ID); err != nil || got.Key != session.Key {
		t.Errorf("the session on the server is %+v, %v", got, err)
	}
}
