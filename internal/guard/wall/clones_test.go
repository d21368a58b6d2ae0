//go:build linux

package wall_test

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/guard"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

// origins is the record of who made which commit.
type origins map[string]string

func (o origins) NoteCommit(_ context.Context, _, _, commit string, agent bool, _ time.Time) error {
	if agent {
		o[commit] = "agent"
	}
	return nil
}

func (o origins) CommitOrigin(_ context.Context, _, _, commit string) (string, error) {
	return o[commit], nil
}
func (o origins) TrustedCommit(context.Context, string, string) (string, error) { return "", nil }
func (o origins) TrustCommit(context.Context, string, string, string, string, time.Time) error {
	return nil
}

// operatorsGit is what the operator does: by his own git, with the settings of the clone.
func (p *place) operatorsGit(repo string, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", append([]string{"-c", "safe.directory=*", "-c", "user.name=op", "-c", "user.email=op@example.org"}, args...)...)
	cmd.Dir, cmd.Env = repo, []string{"PATH=/usr/bin:/bin", "HOME=" + p.root, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Errorf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// honestWork is what a session is there for; plant is all that one could try. $W is where it works, $R what is the operator's.
const (
	honestWork = `cd $W/app || exit 1
echo repaired > web/compose.yml && git status --short && git checkout -q -b claudeops/fix && git commit -q -am repaired && git log --oneline -2 || exit 2
`
	plant = `exec 2>/dev/null
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\ntouch %s/owned\n' "$O" > "$1"; chmod 755 "$1"; }
for r in $R/app $W/app; do
cd $r
evil $r/web/evil.sh
git config core.fsmonitor $r/web/evil.sh; git config core.pager $r/web/evil.sh; git config core.hooksPath $r/web; git config alias.status "!$r/web/evil.sh"
for h in post-checkout pre-commit post-index-change reference-transaction; do evil .git/hooks/$h; done
printf '[core]\nfsmonitor = %s\n' $r/web/evil.sh > .git/config.worktree; echo "* filter=x" > .git/info/attributes; echo ../../evil > .git/commondir
evil .envrc; evil .mcp.json; evil CLAUDE.md; evil .vscode/tasks.json; evil .github/workflows/evil.yml; evil .husky/pre-commit; evil sub/.gitattributes
evil own/CLAUDE.md; evil own/.github/own.yml; rm -rf own/.github own/CLAUDE.md; mv own/CLAUDE.md web/; ln -f own/CLAUDE.md web/linked
mv own own2; evil own/CLAUDE.md
printf x > .git/index.lock; ln -sf $r/web/evil.sh .git/index.lock; rm -f .git/index.lock
mv .git .git2; ln -s web .git; rm -rf .git; mv .git/config .git/c; mv .git/objects .git/o; mv .git/operator-objects .git/oo; rm -rf .git/operator-objects/*
mv $r ${r}2; mkdir -p $r/.git; evil $r/.git/hooks/pre-commit; mv ${r}2/.git $r/web/git
git init -q $R/new; evil $R/new/.git/hooks/pre-commit; git init -q --bare $R/bare; evil $R/bare/hooks/post-receive
chmod 4755 $r/web/evil.sh; chmod g+s $r/web/evil.sh
done
exit 0`
)

func TestNothingThatASessionPlantsRunsForTheOperator(t *testing.T) {
	judge, err := guard.New(nil)
	must(t, err)
	for setting, open := range settings(t) {
		if strings.HasPrefix(setting, "none") {
			continue
		}
		t.Run(setting, func(t *testing.T) {
			p := open()
			p.t = t
			uid := p.config.UIDs[ops.Tier2]
			repo := p.repos + "/app"
			p.operatorsGit(repo, "init", "-q", "-b", "main")
			for name, text := range map[string]string{"web/compose.yml": "broken\n", "own/CLAUDE.md": "the operator's\n", "own/.github/own.yml": "the operator's\n"} {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))  //nolint:gosec // for another user
				must(t, os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644)) //nolint:gosec // for another user
			}
			p.operatorsGit(repo, "add", "-A")
			p.operatorsGit(repo, "commit", "-q", "-m", "good")
			main := p.operatorsGit(repo, "rev-parse", "HEAD")
			if uid != 0 { // it could write everything if it reached it
				must(t, filepath.WalkDir(p.repos, func(path string, _ fs.DirEntry, err error) error {
					must(t, os.Lchown(path, uid, uid))
					return err
				}))
			}
			must(t, os.Mkdir(p.root+"/canary", 0o777)) //nolint:gosec // everybody may own it
			must(t, os.Chmod(p.root+"/canary", 0o777)) //nolint:gosec // past the umask
			s := wall.New(p.config)
			commits := &act.Commits{Trust: origins{}, Host: "h", Dir: p.root + "/private", Clock: time.Now, Steers: judge.Steers}
			operator := func(when string) {
				t.Helper()
				p.operatorsGit(repo, "status", "--short")
				p.operatorsGit(repo, "log", "-1")
				p.operatorsGit(repo, "commit", "-q", "--allow-empty", "-m", when)
				p.operatorsGit(repo, "reset", "-q", "--soft", "HEAD^")
				if _, err := os.Stat(p.root + "/canary/owned"); err == nil {
					t.Fatalf("%s the operator ran what the session had planted", when)
				}
			}
			// One session does its work, another one plants.
			out := p.borrow(s, commits, "1", honestWork)
			operator("while it works")
			if said := p.ended(commits, "1"); !strings.Contains(said, "it is the branch claudeops/fix of app now") {
				t.Errorf("%s: %s", said, out)
			}
			if got := p.operatorsGit(repo, "show", "claudeops/fix:web/compose.yml"); got != "repaired" {
				t.Errorf("the branch holds %q", got)
			}
			if raw, err := os.ReadFile(repo + "/web/compose.yml"); err != nil || (string(raw) == "repaired\n") != s.Mounts(ops.Tier2) {
				t.Errorf("in place it is %q: %v", raw, err)
			}
			p.borrow(s, commits, "2", plant)
			operator("while it plants")
			said := p.ended(commits, "2")
			operator("afterwards")
			if got := p.operatorsGit(repo, "rev-parse", "HEAD"); got != main {
				t.Errorf("HEAD is %s, want %s: %s", got, main, said)
			}
			left(t, judge, p.repos, p.config.Confine)
		})
	}
}

// borrow runs a script as a session that changes the repositories.
func (p *place) borrow(s *wall.Sandbox, commits *act.Commits, id, script string) string {
	t := p.t
	t.Helper()
	l, err := commits.Lend(t.Context(), act.Borrower{
		Session: ops.Session{ID: 7, CycleID: 1, Key: id}, Environment: ops.Environment{Name: "home", ReposDir: p.repos}, Folder: wall.ClonesOf(p.state, id),
		Mounts: s.Mounts(ops.Tier2), Held: s.HoldsFiles(ops.Tier2), Covered: s.Secrets(),
	})
	must(t, err)
	clones := &wall.Clones{Folder: l.Folder, Git: map[string]string{}, Objects: act.OperatorObjects, Fixed: slices.Sorted(maps.Keys(l.Found)), Own: l.Repos}
	for repo, git := range l.Git {
		clones.Git[repo] = filepath.Join(l.Folder, git)
	}
	session := wall.Session{ID: id, Clones: clones}
	must(t, s.Check(ops.Tier2))
	must(t, s.Prepare(ops.Tier2))
	must(t, s.PrepareSession(ops.Tier2, session))
	c, err := s.WrapSession(ops.Tier2, session, wall.Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: p.state + "/work",
		Env: []string{
			"PATH=/usr/bin:/bin", "HOME=" + p.state + "/agent/home", "R=" + p.repos, "W=" + cmp.Or(l.Repos, p.repos), "O=" + p.root + "/canary",
		},
	})
	must(t, err)
	out, code := runCommand(t, c)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	return out
}

// ended ends it and returns what is said of it.
func (p *place) ended(commits *act.Commits, id string) (said string) {
	p.t.Helper()
	events, err := commits.Return(p.t.Context(), id)
	must(p.t, err)
	for _, e := range events {
		said += e.Reason + "\n"
	}
	return said
}

// left looks for everything that programs obey and that the operator did not put there.
func left(t *testing.T, judge *guard.Guard, root string, filtered bool) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+"/")
		switch {
		case err != nil:
			return err
		case name == "app/.git":
			return fs.SkipDir
		case judge.Steers(e.Name()):
			text, _ := os.ReadFile(path)
			if e.IsDir() {
				text, _ = os.ReadFile(path + "/own.yml")
			}
			if !strings.HasPrefix(name, "app/own/") || string(text) != "the operator's\n" {
				t.Errorf("%s is left: %q", name, text)
			}
		case e.Name() == "HEAD":
			t.Errorf("a repository is left: %s", name)
		}
		if info, err := e.Info(); err != nil || filtered && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has the mode %v: %v", name, info.Mode(), err)
		}
		return nil
	}))
}
