package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// repository makes a repository with one commit for each message, the last one newest.
func repository(t *testing.T, dir string, messages ...string) {
	t.Helper()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir}, args...)...)
		c.Env = []string{
			"PATH=" + os.Getenv("PATH"), //nolint:forbidigo // where git is
			"HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	for _, m := range messages {
		git("commit", "-q", "--allow-empty", "-m", m)
	}
}

func TestChangesAreTheLastCommits(t *testing.T) {
	repos := t.TempDir()
	repository(t, filepath.Join(repos, "infra"), "first", "second", "third", "fourth "+strings.Repeat("x", 300))
	if err := os.MkdirAll(filepath.Join(repos, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := changes(t.Context(), ops.Environment{ReposDir: repos})
	if len(got) != 3 {
		t.Fatalf("changes are %q", got)
	}
	form := regexp.MustCompile(`^infra: [0-9a-f]{7,} 2026-01-02 (fourth x+…|third|second)$`)
	for i, word := range []string{"fourth", "third", "second"} {
		if !form.MatchString(got[i]) || !strings.Contains(got[i], word) || len(got[i]) > 200 {
			t.Errorf("change %d is %q", i, got[i])
		}
	}
	if got := changes(t.Context(), ops.Environment{}); got != nil {
		t.Errorf("without repositories: %q", got)
	}
}

func TestChangesAreBounded(t *testing.T) {
	repos := t.TempDir()
	for i := range 7 {
		repository(t, filepath.Join(repos, fmt.Sprintf("r%d", i)), "only")
	}
	got := changes(t.Context(), ops.Environment{ReposDir: repos})
	if len(got) != changesRepos || slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "r5") }) {
		t.Errorf("changes are %q", got)
	}
}

func TestReadingChangesRunsNothingOfTheRepository(t *testing.T) {
	repos := t.TempDir()
	dir := filepath.Join(repos, "infra")
	repository(t, dir, "first")
	mark := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("[core]\n\tfsmonitor = %[1]s\n\tpager = %[1]s\n\thooksPath = %[2]s\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = %[1]s\n",
		script, filepath.Dir(script))
	f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(settings); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := changes(t.Context(), ops.Environment{ReposDir: repos}); len(got) != 1 {
		t.Errorf("changes are %q", got)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program that the repository names was run")
	}
}
