//go:build linux

package wall_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/guard"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// secretClones furnishes clones with files that may hold secrets by their names. All can be read by everybody.
func secretClones(p *place) (repo string) {
	t := p.t
	t.Helper()
	repo = p.repos + "/app"
	must(t, os.Remove(repo+"/file"))
	write := func(names ...string) {
		for _, name := range names {
			at, text := filepath.Join(p.repos, name), secretText
			if strings.Contains(name, "open") || strings.HasSuffix(name, ".yml") || strings.HasSuffix(name, ".example") || strings.HasSuffix(name, ".pub") {
				text = "seen-" + filepath.Base(name)
			}
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))       //nolint:gosec // so open that a wall is needed
			must(t, os.WriteFile(at, []byte(text+"\n"), 0o644)) //nolint:gosec // as above
		}
	}
	write("app/web/compose.yml", "app/open.key", "app/open-changed.key", "app/web/open.txt")
	for _, args := range [][]string{{"init", "-q", "--template=", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "good"}} {
		p.operatorsGit(repo, args...)
	}
	must(t, os.WriteFile(repo+"/open-changed.key", []byte(secretText+"\n"), 0o644)) //nolint:gosec // as above
	write("app/.env", "app/web/.env.prod", "app/secrets/deep/db.txt", "app/web/tls/private/site.pem", "app/my private.key", "app/web/config/database.yml",
		"app/.env.example", "app/id_rsa.pub", "app/named-open.key", "app/node_modules/x/open-credentials.js", "loose/.env", "loose/sub/privkey.pem")
	must(t, os.WriteFile(repo+"/web/config/database.yml", []byte(secretText+"\n"), 0o644)) //nolint:gosec // as above
	write("private/.env")
	must(t, os.Chmod(p.repos+"/private", 0o700)) // another user gets there neither by a cover nor without one
	must(t, os.Symlink("web/compose.yml", repo+"/link.env"))
	must(t, os.Symlink("/etc/hostname", p.repos+"/host.env"))
	p.config.Secret, p.config.Readable = guard.Secrets(), []string{repo + "/named-open.key"}
	return repo
}

// readers are programs that nobody reads the words of. They show all of $W.
func readers() map[string]string {
	return map[string]string{
		"grep": "cd $W && grep -r . .", "rg": "cd $W && rg --hidden --no-ignore --text .", "tar": "cd $W && tar c .",
		"awk": "cd $W && find . -type f | while read -r f; do awk 1 \"$f\"; done", "cp": "cp -r $W $X/copy; find $X/copy -type f -exec cat {} +",
		"dd": "cd $W && for f in $(find . -name '.env*'); do dd status=none if=$f; done; cat app/web/compose.yml", "cat": "cd $W/app && cat .env web/compose.yml",
	}
}

func TestNoProgramReadsSecretFilesOfClones(t *testing.T) {
	for setting, open := range settings(t) {
		if strings.HasPrefix(setting, "none") {
			continue
		}
		t.Run(setting, func(t *testing.T) {
			p := open()
			p.t = t
			secretClones(p)
			for name, script := range readers() {
				out, _ := p.run(ops.Tier1, "W=$R X=$S/work; "+script)
				if strings.Contains(out, secretText) {
					t.Errorf("%s printed a secret: %.2000q", name, out)
				}
				if !strings.Contains(out, "seen-compose.yml") {
					t.Errorf("%s did not run: %.2000q", name, out)
				}
				if seen := []string{"seen-open.key", "seen-named-open.key", "seen-.env.example", "seen-id_rsa.pub", "seen-open-credentials.js"}; name == "grep" || name == "tar" {
					for _, text := range seen {
						if !strings.Contains(out, text) {
							t.Errorf("%s does not see %s", name, text)
						}
					}
				}
			}
			s := wall.New(p.config)
			if out, _ := p.run(ops.Tier1, "cat $R/app/.env"); s.Mounts(ops.Tier1) && out != confine.Notice {
				t.Errorf("the cover says %q", out)
			}
		})
	}
}

// A session that changes the clones works with git as ever, never sees a secret, and finds no way to the real files, nor for the next one.
func TestASessionWorksAroundTheSecretFilesOfClones(t *testing.T) {
	const work = `cd $W/app || exit 1
test -z "$(git status --porcelain --untracked-files=no)" || { git status; exit 3; }
echo repaired > web/compose.yml && echo more > web/open.txt && git stash -q -u && git stash pop -q || exit 4
git checkout -q -b claudeops/fix && git add -A && git commit -q -am repaired && git diff --quiet HEAD || exit 5
echo written > web/new.txt && mv web/new.txt web/newer.txt && mkdir web/made && mv web/newer.txt web/made/ && rm -r web/made || exit 6
git log -p --all; exit 0`
	const escape = `exec 2>&1
for r in $R/app $W/app; do cd $r
echo x > .env; true > .env; rm -f .env; mv .env env.txt; ln .env hard.txt; ln -s .env soft.txt; cat soft.txt hard.txt; cp .env c.txt; cat c.txt; truncate -s0 .env; chmod 777 .env
mv secrets data; mv web/tls web/t; mv web web2; mv secrets/deep secrets/d; mv web/config web/c
rm -rf secrets web/tls .env; git clean -fdxq; git stash -q -a; git checkout -q -f; git reset -q --hard; mkdir -p deep && mv secrets deep/; cp -r $R/loose $r/x; cat x/.env
echo 'x' > .env.new; mv -f .env.new .env
done; mv $R/loose $R/l; mv $R/loose/sub $R/loose/s; exit 0`
	for setting, open := range settings(t) {
		if strings.HasPrefix(setting, "none") || strings.HasPrefix(setting, "bubblewrap") {
			continue
		}
		t.Run(setting, func(t *testing.T) {
			p := open()
			p.t = t
			repo := secretClones(p)
			texts := func() map[string]string {
				out := map[string]string{}
				must(t, filepath.WalkDir(p.repos, func(path string, e fs.DirEntry, err error) error {
					if raw, _ := os.ReadFile(path); err == nil && strings.Contains(string(raw), secretText) {
						out[path] = string(raw)
					}
					return err
				}))
				return out
			}
			before := texts()
			if uid := p.config.UIDs[ops.Tier2]; uid != 0 { // it could write everything if it reached it
				must(t, filepath.WalkDir(p.repos, func(path string, _ fs.DirEntry, err error) error {
					must(t, os.Lchown(path, uid, uid))
					return err
				}))
			}
			s := wall.New(p.config)
			judge, err := guard.New(nil)
			must(t, err)
			commits := &act.Commits{Trust: origins{}, Host: "h", Dir: p.root + "/private", Clock: time.Now, Steers: judge.Steers}
			check := func(id, script string) {
				t.Helper()
				out := p.borrow(s, commits, id, script)
				if strings.Contains(out, secretText) {
					t.Errorf("session %s saw a secret: %s", id, out)
				}
				if said := p.ended(commits, id); strings.Contains(said, "not visible") {
					t.Errorf("a cover was taken for a change: %s", said)
				}
				if after := texts(); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("after session %s the secrets are %v, want %v: %s", id, after, before, out)
				}
			}
			check("1", work)
			want := ".env.example\nid_rsa.pub\nlink.env\nnamed-open.key\nnode_modules/x/open-credentials.js\nweb/compose.yml\nweb/open.txt"
			if !s.Mounts(ops.Tier2) { // clones of its own hold what git has
				want = "web/compose.yml\nweb/open.txt"
			}
			if got := p.operatorsGit(repo, "diff", "--name-only", "main", "claudeops/fix"); got != want {
				t.Errorf("the branch changes %s", got)
			}
			check("2", escape)
			all := "X=$TMPDIR"
			for _, script := range readers() {
				all += "; (" + script + ")"
			}
			check("3", all+"; exit 0")
		})
	}
}

// Programs that expect settings in a covered file read none.
func TestACoverIsACommentToComposeAndShells(t *testing.T) {
	p := newPlace(t)
	p.config.Confine = true
	must(t, os.WriteFile(p.repos+"/app/compose.yml", []byte("services:\n  web:\n    image: web\n    env_file: .env\n    environment: {KEY: $KEY}\n"), 0o644)) //nolint:gosec // for everybody
	must(t, os.WriteFile(p.repos+"/app/.env", []byte("KEY="+secretText+"\n"), 0o644))                                                                         //nolint:gosec // as above
	p.config.Secret = guard.Secrets()
	for _, script := range []string{
		`. ./.env && test -z "$KEY" && echo services`,
		`git config --file .env --list && echo services`,
		`docker-compose config`,
	} {
		out, code := p.run(ops.Tier1, "cd $R/app && "+script)
		if code != 0 || !strings.Contains(out, "services") || strings.Contains(out, secretText) {
			t.Errorf("%s: exit %d, %s", script, code, out)
		}
	}
}

// What was found is kept by folder: a file that is new is found, and so is one that took the place of another.
func TestANewSecretFileIsFound(t *testing.T) {
	p := newPlace(t)
	p.config.Secret = guard.Secrets()
	s := wall.New(p.config)
	for _, name := range []string{"app/.env", "app/sub/token", "secrets/x"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(p.repos, name)), 0o755)) //nolint:gosec // for everybody
		must(t, os.WriteFile(filepath.Join(p.repos, name), []byte("x"), 0o644)) //nolint:gosec // as above
		if got := strings.Join(s.Secrets(), " "); !strings.Contains(got, p.repos+"/"+name) {
			t.Errorf("%s is not found: %s", name, got)
		}
	}
	must(t, os.Rename(p.repos+"/secrets", p.repos+"/open"))
	must(t, os.Remove(p.repos+"/app/.env"))
	if got := strings.Join(s.Secrets(), " "); got != p.repos+"/app/sub/token" {
		t.Errorf("found %s", got)
	}
}

// Git has several formats for its index. A file with the content that git has is no secret; where the index cannot be read, every file is.
func TestWhatGitHasIsReadInAllFormsOfAnIndex(t *testing.T) {
	p := newPlace(t)
	p.config.Secret = guard.Secrets()
	repo := p.repos + "/app"
	p.operatorsGit(repo, "init", "-q", "--template=")
	var changed []string
	for i := range 40 {
		at := fmt.Sprintf("%s/%s/%d.key", repo, strings.Repeat("deep/", i%7)+strings.Repeat("x", i*5+1), i)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755)) //nolint:gosec // for everybody
		must(t, os.WriteFile(at, []byte("k\n"), 0o600))
		if changed = append(changed, at); i%2 > 0 {
			changed = changed[:len(changed)-1]
		}
	}
	p.operatorsGit(repo, "add", "-A")
	for _, at := range changed {
		must(t, os.WriteFile(at, []byte("K\n"), 0o600))
	}
	slices.Sort(changed)
	check := func(form string, want []string) {
		t.Helper()
		if got := wall.New(p.config).Secrets(); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", form, got, want)
		}
	}
	check("2", changed)
	p.operatorsGit(repo, "update-index", "--index-version", "4")
	check("4", changed)
	p.operatorsGit(repo, "update-index", "--skip-worktree", strings.TrimPrefix(changed[3], repo+"/"))
	check("4 with more flags", changed)
	p.operatorsGit(repo, "update-index", "--index-version", "2")
	check("3", changed)
	raw, err := os.ReadFile(repo + "/.git/index")
	must(t, err)
	for _, part := range []int{0, 3, 11, 12, 50, 80, 300, len(raw) / 2} {
		must(t, os.WriteFile(repo+"/.git/index", raw[:part], 0o600))
		if got := wall.New(p.config).Secrets(); len(got) != 40 {
			t.Errorf("%d bytes: found %d", part, len(got))
		}
	}
}
