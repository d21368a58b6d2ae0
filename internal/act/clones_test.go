package act_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/act"
	"claudeops/internal/ops"
)

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// change lets a session commit a file on a branch, with these words for git, and ends it.
func (w *world) change(t *testing.T, branch, name string, more ...string) (said string) {
	t.Helper()
	l := w.lend(t)
	w.git(t, l, "checkout", "-q", "-B", branch)
	path := filepath.Join(w.env.ReposDir, "lab", name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte("changed\n"), 0o600))
	w.git(t, l, "add", "-A", "-f")
	w.git(t, l, append([]string{"commit", "-q", "-m", "change"}, more...)...)
	return w.back(t, l)
}

func TestTheSupervisorSetsTheAuthorOfWhatASessionCommits(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	main := w.commit(t, "web/a", "a")
	l := w.lend(t)
	w.git(t, l, "checkout", "-q", "-b", "claudeops/fix")
	for _, name := range []string{"one", "two"} {
		w.git(t, l, "commit", "-q", "--allow-empty", "-m", name, "--author", "The Operator <root@example.org>")
	}
	if said := w.back(t, l); !strings.Contains(said, "commit.returned The session committed") {
		t.Error(said)
	}
	for _, field := range []string{"%an <%ae>", "%cn <%ce>"} {
		if got := git(t, repo, "log", "--format="+field, "main..claudeops/fix"); got != strings.TrimSuffix(strings.Repeat("Claude Ops (session 1) <claudeops@host-a>\n", 2), "\n") {
			t.Errorf("%s: %s", field, got)
		}
	}
	if got := git(t, repo, "rev-parse", "HEAD"); got != main || git(t, repo, "status", "--porcelain") != "" {
		t.Errorf("the operator's clone is at %s", got)
	}
	git(t, repo, "fsck", "--strict")
}

func TestABranchThatTouchesWhatProgramsObeyWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, ".github/workflows/own.yml", "by the operator\n")
	main := w.commit(t, "web/a", "a")
	for _, name := range []string{".github/workflows/evil.yml", ".github/workflows/own.yml", "deep/.envrc", "CLAUDE.md", ".vscode/tasks.json", ".gitattributes"} {
		said := w.change(t, "claudeops/evil", name)
		git(t, repo, "checkout", "-q", "--", ".")
		if !strings.Contains(said, "commit.kept") || !strings.Contains(said, name) || git(t, repo, "branch", "--list", "claudeops/*") != "" {
			t.Errorf("%s: %s", name, said)
		}
		if _, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/evil")); err == nil {
			t.Errorf("%s is pushed", name)
		}
	}
	// What is removed is touched too.
	l := w.lend(t)
	w.git(t, l, "checkout", "-q", "-B", "claudeops/evil")
	w.git(t, l, "rm", "-q", "-r", "--cached", ".github")
	w.git(t, l, "commit", "-q", "-m", "gone")
	said := w.back(t, l)
	_, commit, found := strings.Cut(said, "claudeops actions trust lab ")
	if !found {
		t.Fatal(said)
	}
	if _, err := w.commits.Approve(t.Context(), w.env, "lab", main[:6]+"00", "ada"); err == nil {
		t.Error("a commit that is not there is approved")
	}
	got, err := w.commits.Approve(t.Context(), w.env, "lab", commit[:12], "ada")
	must(t, err)
	if git(t, repo, "rev-parse", "claudeops/evil") != got || git(t, repo, "rev-parse", "HEAD") != main {
		t.Error("the approved branch did not come")
	}
	if out, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/evil")); err != nil || out.Run.Status != ops.ActionDone {
		t.Errorf("an approved branch is not pushed: %v %+v", err, out.Run)
	}
}

// A person's own clone may hold a branch with such files; the push action asks about it as well.
func TestThePushActionSendsNothingThatForgesRunUnapproved(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "web/a", "a")
	git(t, repo, "checkout", "-q", "-b", "claudeops/ci")
	commit := w.commit(t, ".github/workflows/x.yml", "x")
	git(t, repo, "checkout", "-q", "main")
	if _, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/ci")); err == nil || !strings.Contains(err.Error(), "claudeops actions trust lab "+commit[:12]) {
		t.Errorf("%v", err)
	}
}

func TestASessionPushesWhatItHasJustCommitted(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	w.commit(t, "web/a", "a")
	l := w.lend(t)
	session := *w.session(t, ops.Tier2)
	session.Key = l.session.Key
	w.git(t, l, "checkout", "-q", "-b", "claudeops/now")
	w.git(t, l, "commit", "-q", "--allow-empty", "-m", "now")
	q := w.ask(&session, "propose")
	q.Branch = "claudeops/now"
	if out, err := w.runner.Run(t.Context(), q); err != nil || out.Run.Status != ops.ActionDone {
		t.Fatalf("%v %+v", err, out.Run)
	}
	if got := git(t, filepath.Join(w.dir, "origin.git"), "log", "-1", "--format=%s %an", "claudeops/now"); got != "now Claude Ops (session 1)" {
		t.Error(got)
	}
	if said := w.back(t, l); strings.Count(said, "\n") != 1 {
		t.Error(said)
	}
}

// A branch that the operator made, or has checked out, stays where it is.
func TestBranchesOfTheOperatorAreNotMoved(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	main := w.commit(t, "web/a", "a")
	git(t, repo, "branch", "release")
	for _, branch := range []string{"main", "release"} {
		said := w.change(t, branch, "web/b-"+branch)
		must(t, os.Remove(filepath.Join(repo, "web/b-"+branch)))
		if git(t, repo, "rev-parse", branch) != main || !strings.Contains(said, "it is the branch claudeops/"+branch+"-") {
			t.Errorf("%s: %s", branch, said)
		}
	}
	// A session goes on with the branch of another.
	for range 2 {
		if said := w.change(t, "claudeops/more", "web/c", "--allow-empty"); !strings.Contains(said, "it is the branch claudeops/more of lab now") {
			t.Error(said)
		}
	}
	if got := git(t, repo, "status", "--porcelain"); got != "?? web/c" {
		t.Error(got)
	}
}

func TestWhatASessionPlantsIsTakenAway(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "sub/CLAUDE.md", "the operator's\n")
	l := w.lend(t)
	plant := func(name, text string) string {
		t.Helper()
		path := filepath.Join(w.env.ReposDir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	planted := []string{
		plant("lab/.envrc", "evil"), plant("lab/deep/er/.mcp.json", "evil"), plant("lab/.vscode/tasks.json", "evil"), plant("new/.git/config", "evil"),
		plant("lab/inner/.git", "gitdir: /x"), plant("bare/config", "[core]\n\tfsmonitor = evil\n"), plant("common/config", "evil"),
	}
	for _, part := range []string{"bare/HEAD", "bare/objects/x", "bare/refs/x", "common/HEAD", "common/commondir"} {
		plant(part, "x")
	}
	harmless := plant("lab/web/config", "fine")
	must(t, os.Symlink("/etc/hostname", filepath.Join(repo, "CLAUDE.md")))
	// The folder of an operator's file is replaced by another.
	must(t, os.Rename(filepath.Join(repo, "sub"), filepath.Join(repo, "moved")))
	planted = append(planted, plant("lab/sub/CLAUDE.md", "evil"), filepath.Join(repo, "moved/CLAUDE.md"), filepath.Join(repo, "CLAUDE.md"))
	hidden := filepath.Join(repo, "hidden")
	planted = append(planted, plant("lab/hidden/.envrc", "evil"))
	must(t, os.Chmod(hidden, 0))
	// The supervisor is killed meanwhile.
	w.restart()
	if keys := w.commits.Loans(); len(keys) != 1 || keys[0] != l.session.Key {
		t.Errorf("loans %v", keys)
	}
	said := w.back(t, l)
	for _, path := range planted {
		if there(path) {
			t.Errorf("%s is left", path)
		}
	}
	if !there(harmless) || !there(filepath.Join(repo, ".git")) {
		t.Error("more than that is gone")
	}
	if n := strings.Count(said, "file.taken"); n != 11 {
		t.Errorf("%d are told: %s", n, said)
	}
	_, to, _ := strings.Cut(said, "lab/.envrc, which programs obey; the supervisor moved it to ")
	to, _, _ = strings.Cut(to, ".\n")
	if text, err := os.ReadFile(to); err != nil || string(text) != "evil" {
		t.Errorf("the record holds %q: %v", text, err)
	}
	// A supervisor that is killed before it has recorded that is told the same again; nothing is taken twice.
	w.restart()
	if again := w.back(t, l); again != said || there(l.loan.Folder) {
		t.Errorf("told again: %s", again)
	}
	must(t, w.commits.Forget(l.session.Key))
	if again := w.back(t, l); again != "" || len(w.commits.Loans()) != 0 {
		t.Errorf("the loan is left: %s", again)
	}
}

// What lies in the copy is the session's: neither links nor settings of it lead the supervisor anywhere.
func TestNothingButObjectsIsReadOfACopy(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	w.commit(t, "web/a", "a")
	private := filepath.Join(w.dir, "private")
	git(t, w.dir, "init", "-q", "-b", "main", private)
	git(t, private, "commit", "-q", "--allow-empty", "-m", "private")
	secret := git(t, private, "rev-parse", "HEAD")
	for name, trick := range map[string]func(t *testing.T, l lent){
		"alternates": func(t *testing.T, l lent) {
			must(t, os.WriteFile(filepath.Join(l.git, "objects/info/alternates"), []byte(filepath.Join(private, ".git/objects")+"\n"), 0o600))
		},
		"link in place of the objects": func(t *testing.T, l lent) {
			must(t, os.RemoveAll(filepath.Join(l.git, "objects")))
			must(t, os.Symlink(filepath.Join(private, ".git/objects"), filepath.Join(l.git, "objects")))
		},
		"link in place of one folder": func(t *testing.T, l lent) {
			must(t, os.Symlink(filepath.Join(private, ".git/objects", secret[:2]), filepath.Join(l.git, "objects", secret[:2])))
		},
		"link in place of the copy": func(t *testing.T, l lent) {
			must(t, os.RemoveAll(l.git))
			must(t, os.Symlink(filepath.Join(private, ".git"), l.git))
		},
		"a pipe": func(t *testing.T, l lent) {
			must(t, os.RemoveAll(filepath.Join(l.git, "HEAD")))
			must(t, syscall.Mkfifo(filepath.Join(l.git, "HEAD"), 0o600))
		},
	} {
		l := w.lend(t)
		must(t, os.WriteFile(filepath.Join(l.git, "refs/heads/stolen"), []byte(secret+"\n"), 0o600))
		trick(t, l)
		if said := w.back(t, l); !strings.Contains(said, "commit.kept The supervisor could not bring back") {
			t.Errorf("%s: %s", name, said)
		}
		if got := git(t, filepath.Join(w.env.ReposDir, "lab"), "for-each-ref", "--format=%(refname)"); got != "refs/heads/main" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestACopyHasTheBranchesAndRemotesOfTheCloneAndNoPowerOfIts(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "web/a", "a")
	git(t, repo, "tag", "-m", "v1", "v1")
	git(t, repo, "pack-refs", "--all")
	git(t, repo, "branch", "other")
	git(t, repo, "remote", "add", "origin", "https://ada:hunter2@git.example.org/a \"b\"/lab.git")
	git(t, repo, "config", "core.fsmonitor", "/bin/evil")
	git(t, repo, "config", "alias.x", "!evil")
	must(t, os.WriteFile(filepath.Join(repo, ".git/hooks/post-commit"), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // a hook is a program
	must(t, os.WriteFile(filepath.Join(repo, "web/a"), []byte("b"), 0o600))
	l := w.lend(t)
	if got := w.git(t, l, "status", "--porcelain"); got != "M web/a" {
		t.Error(got)
	}
	if got := w.git(t, l, "for-each-ref", "--format=%(refname:short)"); got != "main\nother\nv1" {
		t.Error(got)
	}
	if got := w.git(t, l, "config", "--local", "--list"); strings.Contains(got, "evil") || strings.Contains(got, "hunter2") ||
		!strings.Contains(got, "remote.origin.url=https://git.example.org/a%20%22b%22/lab.git") {
		t.Error(got)
	}
	if there(filepath.Join(l.git, "hooks")) {
		t.Error("it has hooks")
	}
	w.back(t, l)
	// Without mounts the session gets a clone of its own.
	l = w.lend(t, func(b *act.Borrower) { b.Mounts = false })
	own := filepath.Join(l.loan.Repos, "lab")
	if text, err := os.ReadFile(filepath.Join(own, "web/a")); err != nil || string(text) != "a" {
		t.Errorf("%s: %q %v", own, text, err)
	}
	if len(l.loan.Roots) != 0 {
		t.Errorf("it changes %v", l.loan.Roots)
	}
	git(t, own, "checkout", "-q", "-b", "claudeops/own")
	git(t, own, "commit", "-q", "--allow-empty", "-m", "own")
	if said := w.back(t, l); !strings.Contains(said, "it is the branch claudeops/own of lab now") || there(own) {
		t.Error(said)
	}
	// A clone that a copy could not stand for is only looked at.
	git(t, repo, "config", "extensions.partialClone", "origin")
	if l = w.lend(t); len(l.loan.Git) != 0 || !strings.Contains(w.back(t, l), "could not commit to "+repo) {
		t.Errorf("%+v", l.loan)
	}
}
