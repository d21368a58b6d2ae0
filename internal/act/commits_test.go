package act_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// playbook is an action that runs a committed playbook by a stand-in for ansible-playbook, which prints what it is given.
func playbookWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, ops.ActionSpec{Name: "site", Kind: ops.ActionPlaybook, Tier: ops.Tier3, Repo: "lab", Playbook: "play/web.yml"},
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

// asAgent does something while a session works.
func (w *world) asAgent(t *testing.T, work func()) {
	t.Helper()
	done, err := w.commits.Watch(t.Context(), w.env)
	must(t, err)
	work()
	must(t, done(t.Context()))
}

func TestAPlaybookComesFromACommitThatNoAgentMade(t *testing.T) {
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
	var evil string
	w.asAgent(t, func() { evil = w.commit(t, "play/web.yml", "evil\n") })
	want("good", good)
	// Somebody commits on top of it: the new commit holds the file of the agent, and no agent made it.
	w.asAgent(t, func() { git(t, repo, "reset", "-q", "--hard", good) })
	want("good", good)
	better := w.commit(t, "play/web.yml", "better\n")
	want("better", better)
	// An agent goes back to an old commit.
	w.asAgent(t, func() { git(t, repo, "reset", "-q", "--hard", good) })
	want("better", better)
	// A person approves the commit of the agent.
	git(t, repo, "reset", "-q", "--hard", evil)
	want("better", better)
	if _, err := w.commits.Approve(t.Context(), w.env, "lab", good, "ada"); err == nil {
		t.Error("another commit than the one that is checked out is approved")
	}
	_, err := w.commits.Approve(t.Context(), w.env, "lab", evil[:12], "ada")
	must(t, err)
	want("evil", evil)
}

// A supervisor that was killed while a session worked must not take the agent's commit for the operator's.
func TestACommitThatAppearedWhileTheSupervisorDiedIsTheAgents(t *testing.T) {
	t.Parallel()
	w := playbookWorld(t)
	w.commit(t, "play/web.yml", "good\n")
	_, err := w.commits.Watch(t.Context(), w.env) // it never ends
	must(t, err)
	w.commit(t, "play/web.yml", "evil\n")
	w.restart()
	run, err := w.play(t)
	if err != nil || !strings.Contains(run.Output, "PLAY good") {
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
	w.asAgent(t, func() {
		git(t, repo, "checkout", "-q", "-b", "claudeops/fix")
		w.commit(t, "x", "x")
		for _, hook := range []string{"post-checkout", "pre-push", "post-receive", "pre-receive", "update", "reference-transaction", "post-upload-pack", "pre-auto-gc"} {
			must(t, os.WriteFile(filepath.Join(repo, ".git/hooks", hook), []byte(evil), 0o700)) //nolint:gosec // a hook is a program
		}
		program := filepath.Join(repo, "evil.sh")
		must(t, os.WriteFile(program, []byte(evil), 0o700)) //nolint:gosec // it is a program
		for key, value := range map[string]string{
			"core.fsmonitor": program, "core.sshCommand": program, "core.pager": program, "core.hooksPath": repo, "filter.x.smudge": program,
			"filter.x.clean": program, "filter.x.process": program, "uploadpack.packObjectsHook": program, "core.gitProxy": program, "tar.tar.command": program,
			"alias.archive": "!" + program, "credential.helper": "!" + program, "remote.origin.url": "ext::" + program, "url.ext::" + program + ".insteadOf": "/",
			"core.alternateRefsCommand": program, "gpg.program": program, "diff.external": program, "remote.origin.uploadpack": program, "receive.procReceiveRefs": "refs",
		} {
			git(t, repo, "config", key, value)
		}
		must(t, os.WriteFile(filepath.Join(repo, ".gitattributes"), []byte("* filter=x export-subst\n"), 0o600))
	})
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
	if _, err := w.play(t); err == nil || !strings.Contains(err.Error(), "has no file play/web.yml") {
		t.Errorf("a link is played: %v", err)
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
