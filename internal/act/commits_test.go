package act_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// playbookWorld has an action that plays a committed playbook by a stand-in for ansible-playbook, which prints what it is given.
func playbookWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, ops.ActionSpec{Name: "site", Tier: ops.Tier3, Repo: "lab", Run: []string{"ansible-playbook", "play/web.yml"}},
		ops.ActionSpec{Name: "propose", Kind: ops.ActionPush, Repo: "lab", Prefix: "claudeops/"})
	bin := filepath.Join(w.dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	w.script(t, "bin/ansible-playbook", `echo "PLAY $(cat "$1")"; ls -A; pwd`)
	w.options.Environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + w.dir} //nolint:forbidigo // of the test itself
	w.rebuild()
	git(t, w.dir, "init", "-q", "--bare", "-b", "main", filepath.Join(w.dir, "origin.git"))
	w.env.Policy.Inventory.Services[0].Actions[1].Remote = filepath.Join(w.dir, "origin.git")
	return w
}

func (w *world) play(t *testing.T) (ops.ActionRun, error) {
	t.Helper()
	out, err := w.runner.Run(t.Context(), w.person(t, "site"))
	return out.Run, err
}

// lent is a session that has mounts: what it sees at .git of the clone is the folder git.
type lent struct {
	session ops.Session
	git     string
	loan    act.Loan
}

// lend starts such a session.
func (w *world) lend(t *testing.T, change ...func(*act.Borrower)) lent {
	t.Helper()
	w.lendings++
	s := ops.Session{ID: w.lendings, CycleID: 1, Tier: ops.Tier2, Key: fmt.Sprintf("key-%d", w.lendings)}
	b := act.Borrower{Session: s, Environment: w.env, Folder: filepath.Join(w.dir, "state/clones", s.Key), Mounts: true, Held: true}
	for _, c := range change {
		c(&b)
	}
	l, err := w.commits.Lend(t.Context(), b)
	must(t, err)
	return lent{s, filepath.Join(l.Folder, l.Git[filepath.Join(w.env.ReposDir, "lab")]), l}
}

// git runs git as the session does: with its own .git, and the operator's objects where they are mounted.
func (w *world) git(t *testing.T, l lent, args ...string) string {
	t.Helper()
	repo := filepath.Join(w.env.ReposDir, "lab")
	if objects := filepath.Join(l.git, act.OperatorObjects); isLink(objects) != nil {
		must(t, os.Remove(objects))
		must(t, os.Symlink(filepath.Join(repo, ".git/objects"), objects))
	}
	return git(t, repo, append([]string{"--git-dir=" + l.git, "--work-tree=" + repo}, args...)...)
}

func isLink(path string) error {
	_, err := os.Readlink(path)
	return err
}

// back ends the session and returns what was said of it.
func (w *world) back(t *testing.T, l lent) string {
	t.Helper()
	events, err := w.commits.Return(t.Context(), l.session.Key)
	must(t, err)
	var out strings.Builder
	for _, e := range events {
		if *e.SessionID != l.session.ID || e.Environment != "home" {
			t.Errorf("event %+v", e)
		}
		out.WriteString(string(e.Verb) + " " + notice.Words(e).Words() + "\n")
	}
	return out.String()
}

// asAgent commits a file on a branch while a session works, and returns the commit.
func (w *world) asAgent(t *testing.T, branch, name, text string) string {
	t.Helper()
	l := w.lend(t)
	w.git(t, l, "checkout", "-q", "-B", branch)
	must(t, os.WriteFile(filepath.Join(w.env.ReposDir, "lab", name), []byte(text), 0o600))
	w.git(t, l, "add", "-A")
	w.git(t, l, "commit", "-q", "-m", "by the agent")
	if said := w.back(t, l); !strings.Contains(said, "commit.returned") {
		t.Fatalf("the branch did not come back: %s", said)
	}
	repo := filepath.Join(w.env.ReposDir, "lab")
	git(t, repo, "checkout", "-q", "--", ".")
	return git(t, repo, "rev-parse", branch)
}

func TestAProgramReadsACommitThatNoAgentMade(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	good := w.commit(t, "play/web.yml", "good\n")
	want := func(text, commit string) {
		t.Helper()
		run, err := w.play(t)
		if err != nil || run.Status != ops.ActionDone || !strings.Contains(run.Output, "PLAY "+text) || run.Commit != commit {
			t.Fatalf("%v %+v", err, run)
		}
		if strings.Contains(run.Output, w.env.ReposDir) {
			t.Errorf("it runs in the clone: %s", run.Output)
		}
	}
	want("good", good)
	// A change that is not committed does not count.
	must(t, os.WriteFile(filepath.Join(repo, "play/web.yml"), []byte("uncommitted\n"), 0o600))
	want("good", good)
	git(t, repo, "checkout", "-q", "--", ".")
	evil := w.asAgent(t, "claudeops/fix", "play/web.yml", "evil\n")
	want("good", good)
	better := w.commit(t, "play/web.yml", "better\n")
	want("better", better)
	// The operator commits while a session works.
	l := w.lend(t)
	best := w.commit(t, "play/web.yml", "best\n")
	w.back(t, l)
	want("best", best)
	git(t, repo, "reset", "-q", "--hard", better)
	want("better", better)
	// A person checks out the commit of the agent, and approves it.
	git(t, repo, "reset", "-q", "--hard", evil)
	want("better", better)
	if _, err := w.commits.Approve(t.Context(), w.env, "lab", good, "ada"); err == nil {
		t.Error("another commit than the one that is checked out is approved")
	}
	_, err := w.commits.Approve(t.Context(), w.env, "lab", evil[:12], "ada")
	must(t, err)
	want("evil", evil)
}

// Where no wall keeps sessions from a clone, any of them could have made what is checked out there.
func TestWithoutWallsNoCommitIsTheOperators(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	held := true
	w.commits.Held = func(string) bool { return held }
	good := w.commit(t, "play/web.yml", "good\n")
	if run, err := w.play(t); err != nil || run.Commit != good {
		t.Fatalf("%v %+v", err, run)
	}
	held = false
	l := w.lend(t, func(b *act.Borrower) { b.Mounts, b.Held = false, false })
	evil := w.commit(t, "play/web.yml", "evil\n")
	w.back(t, l)
	for _, held = range []bool{false, true} { // not even once there are walls
		if run, err := w.play(t); err != nil || run.Commit != good {
			t.Errorf("%v %+v", err, run)
		}
	}
	_, err := w.commits.Approve(t.Context(), w.env, "lab", evil, "ada")
	must(t, err)
	if run, err := w.play(t); err != nil || run.Commit != evil {
		t.Errorf("%v %+v", err, run)
	}
}

func TestNothingOfACloneIsExecuted(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "play/web.yml", "good\n")
	marker := filepath.Join(w.dir, "owned")
	evil := "#!/bin/sh\ntouch " + marker + "\n"
	l := w.lend(t)
	plant := func(repo, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "hooks"), 0o700))
		for _, hook := range []string{"post-checkout", "pre-push", "post-receive", "pre-receive", "update", "reference-transaction", "post-upload-pack", "pre-auto-gc"} {
			must(t, os.WriteFile(filepath.Join(dir, "hooks", hook), []byte(evil), 0o700)) //nolint:gosec // a hook is a program
		}
		program := filepath.Join(repo, "evil.sh")
		must(t, os.WriteFile(program, []byte(evil), 0o700)) //nolint:gosec // it is a program
		for key, value := range map[string]string{
			"core.fsmonitor": program, "core.sshCommand": program, "core.pager": program, "core.hooksPath": repo, "filter.x.smudge": program,
			"filter.x.clean": program, "filter.x.process": program, "uploadpack.packObjectsHook": program, "core.gitProxy": program, "tar.tar.command": program,
			"alias.archive": "!" + program, "credential.helper": "!" + program, "remote.origin.url": "ext::" + program, "url.ext::" + program + ".insteadOf": "/",
			"core.alternateRefsCommand": program, "gpg.program": program, "diff.external": program, "remote.origin.uploadpack": program, "receive.procReceiveRefs": "refs",
		} {
			git(t, repo, "config", "--file", filepath.Join(dir, "config"), key, value)
		}
		must(t, os.WriteFile(filepath.Join(repo, ".gitattributes"), []byte("* filter=x export-subst\n"), 0o600))
	}
	w.git(t, l, "checkout", "-q", "-b", "claudeops/fix")
	must(t, os.WriteFile(filepath.Join(repo, "x"), []byte("x"), 0o600))
	w.git(t, l, "add", "x")
	w.git(t, l, "commit", "-q", "-m", "x")
	plant(repo, l.git) // by a session, in its copy
	if said := w.back(t, l); !strings.Contains(said, "it is the branch claudeops/fix of lab now") {
		t.Error(said)
	}
	plant(repo, filepath.Join(repo, ".git")) // by the operator
	if run, err := w.play(t); err != nil || run.Status != ops.ActionDone {
		t.Errorf("%v %+v", err, run)
	}
	request := w.person(t, "propose")
	request.Branch = "claudeops/fix"
	if out, err := w.runner.Run(t.Context(), request); err != nil || out.Run.Status != ops.ActionDone {
		t.Errorf("%v %+v", err, out.Run)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something of the clone was executed")
	}
	if got := git(t, filepath.Join(w.dir, "origin.git"), "log", "--format=%s", "claudeops/fix"); !strings.Contains(got, "x") {
		t.Errorf("pushed %q", got)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "play/web.yml", "good\n")
	secret := filepath.Join(w.dir, "secret")
	must(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	must(t, os.Remove(filepath.Join(repo, "play/web.yml")))
	must(t, os.Symlink(secret, filepath.Join(repo, "play/web.yml")))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", "link")
	if run, err := w.play(t); err != nil || strings.Contains(run.Output, "secret") || !strings.Contains(run.Output, "commit ") {
		t.Errorf("a link is played: %v %+v", err, run)
	}
	w.env.Policy.Inventory.Services[0].Actions[0].Run = []string{"./play/web.yml"}
	if _, err := w.play(t); err == nil || !strings.Contains(err.Error(), "has no file ./play/web.yml") {
		t.Errorf("a link is run: %v", err)
	}
	request := w.person(t, "propose")
	request.Branch = "claudeops/none"
	must(t, os.WriteFile(repo+"/.git/objects/info/alternates", []byte("/srv/private/.git/objects\n"), 0o600))
	if _, err := w.runner.Run(t.Context(), request); err == nil || !strings.Contains(err.Error(), "borrows") {
		t.Errorf("a clone that borrows is read: %v", err)
	}
	must(t, os.Rename(repo+"/.git", repo+"/git"))
	must(t, os.Symlink(repo+"/git", repo+"/.git"))
	if _, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/none")); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a linked .git is read: %v", err)
	}
	must(t, os.Rename(repo, repo+"2"))
	must(t, os.Symlink(repo+"2", repo))
	if _, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/none")); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a linked clone is read: %v", err)
	}
}

func TestOnlyBranchesOfThePrefixArePushedAndNeverByForce(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	repo := filepath.Join(w.env.ReposDir, "lab")
	w.commit(t, "a", "a")
	git(t, repo, "push", "-q", filepath.Join(w.dir, "origin.git"), "main", "main:claudeops/fix")
	for _, branch := range []string{
		"main", "", "claudeops/", "claudeops/../main", "--force", "+claudeops/fix", "claudeops/x:refs/heads/main", "claudeops//x", "claudeops/x.lock",
		"claudeops/x y", "refs/heads/main", "claudeops/.x", "claudeops/x\nmain", "-claudeops/x", "claudeops/~1", "claudeops/x^{}", "Claudeops/x",
	} {
		if _, err := w.runner.Run(t.Context(), w.branch(t, branch)); err == nil {
			t.Errorf("%q is pushed", branch)
		}
	}
	git(t, repo, "checkout", "-q", "--orphan", "other")
	w.commit(t, "b", "b")
	git(t, repo, "branch", "-q", "-f", "claudeops/fix")
	out, err := w.runner.Run(t.Context(), w.branch(t, "claudeops/fix"))
	if err != nil || out.Run.Status != ops.ActionFailed {
		t.Errorf("a branch was replaced: %v %+v", err, out.Run)
	}
	if got := git(t, filepath.Join(w.dir, "origin.git"), "for-each-ref", "--format=%(refname)"); got != "refs/heads/claudeops/fix\nrefs/heads/main" {
		t.Errorf("refs %q", got)
	}
}

func TestAnActionThatNeedsTheImageSaysWhenItIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ops.ActionSpec{Name: "rollback", Run: []string{"true", "{{previous}}"}, Timeout: time.Minute})
	if _, err := w.runner.Run(t.Context(), w.person(t, "rollback")); err == nil || !strings.Contains(err.Error(), "No earlier image") {
		t.Error(err)
	}
}

func TestNotesForAgentsAreThoseThatNoAgentCommitted(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	if got := w.commits.Notes(t.Context(), w.env); len(got) != 0 {
		t.Errorf("no repository has notes: %+v", got)
	}
	good := w.commit(t, "CLAUDE-OPS.md", "web needs a minute\n")
	must(t, os.Symlink(filepath.Join(w.env.ReposDir, "lab"), filepath.Join(w.env.ReposDir, "link")))
	for name, change := range map[string]func(){
		"as committed": func() {},
		"edited": func() {
			must(t, os.WriteFile(filepath.Join(w.env.ReposDir, "lab/CLAUDE-OPS.md"), []byte("obey\n"), 0o600))
		},
		"committed by agent": func() { w.asAgent(t, "claudeops/fix", "notes.md", "obey\n") },
	} {
		change()
		got := w.commits.Notes(t.Context(), w.env)
		if len(got) != 1 || got[0].Repository != "lab" || got[0].Text != "web needs a minute\n" || !strings.HasPrefix(good, got[0].Commit) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
