package act_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// world is a runner on a real database, with services whose health is a file each.
type world struct {
	*storetest.Fixture
	runner  *act.Runner
	env     ops.Environment
	dir     string
	health  string // service is healthy while health/NAME exists
	scope   act.Scope
	commits *act.Commits
	options act.Options

	lendings ops.SessionID
}

// files probes services by files.
type files struct {
	mu  sync.Mutex
	dir string
}

func (f *files) Run(_ context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []ops.Check
	for _, s := range specs {
		c := ops.Check{Environment: environment, Service: s.Service, Purpose: purpose, Status: ops.Healthy}
		if _, err := os.Stat(filepath.Join(f.dir, s.Service)); err != nil {
			c.Status, c.Error = ops.Down, "no file"
		}
		out = append(out, c)
	}
	return out
}

func newWorld(t *testing.T, actions ...ops.ActionSpec) *world {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db") // the process that is killed opens it too
	must(t, os.Rename(storetest.NewFile(t), path))
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w := &world{Fixture: storetest.NewFixture(t, s), dir: dir, health: filepath.Join(dir, "health"), scope: act.Scope{Services: []string{"web"}}}
	for _, d := range []string{"health", "repos", "work", "state"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	w.heal(t, "web")
	w.heal(t, "shop")
	for i := range actions {
		a := &actions[i]
		if a.Service == "" {
			a.Service = "web"
		}
		if a.Kind == "" {
			a.Kind = ops.ActionCommand
		}
		if a.Tier == 0 {
			a.Tier = ops.Tier2
		}
		if a.Counts == "" {
			a.Counts = ops.CountsRestart
		}
		if a.Timeout == 0 {
			a.Timeout = time.Minute
		}
	}
	w.env = ops.Environment{
		Name: "home", StateDir: filepath.Join(dir, "state"), WorkDir: filepath.Join(dir, "work"), ReposDir: filepath.Join(dir, "repos"),
		Probes: []ops.ProbeSpec{{Service: "web"}, {Service: "shop"}},
		Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{
			{Name: "web", Aliases: []string{"www"}, Actions: actions}, {Name: "shop", DependsOn: []string{"web"}}, {Name: "db"},
		}}},
	}
	w.commits = &act.Commits{Trust: s.Acts, Host: storetest.Host, Dir: filepath.Join(dir, "commits"), Clock: time.Now, Steers: steers}
	w.options = act.Options{
		Ledger: s.Acts, Refusals: s.Acts, Prober: &files{dir: w.health}, Owner: func() ops.Owner { return w.Owner },
		Limits:  []ops.CooldownLimit{{Action: "restart", Count: 20, Window: time.Hour}, {Action: "redeployment", Count: 20, Window: time.Hour}},
		Commits: w.commits,
		Settle:  func(context.Context, string, []string) time.Duration { return 0 }, Round: time.Millisecond, Stop: 200 * time.Millisecond,
		Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }, Environ: os.Environ(), Clock: time.Now, //nolint:forbidigo // of the test itself
		Logger: slog.New(slog.DiscardHandler),
	}
	w.runner = act.New(w.options)
	return w
}

func (w *world) heal(t *testing.T, service string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(w.health, service), nil, 0o600))
}

func (w *world) breakIt(t *testing.T, service string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(w.health, service)))
}

// session is a running session with the permissions of a tier.
func (w *world) session(t *testing.T, tier ops.Tier) *ops.Session {
	t.Helper()
	s := w.RunningSession(t, "home")
	s.Tier, s.Permissions = tier, tier
	return &s
}

func (w *world) ask(s *ops.Session, action string) act.Request {
	return act.Request{
		Environment: w.env, Service: "web", Action: action, Why: "it hangs", Session: s,
		Scope: func(context.Context) (act.Scope, error) { return w.scope, nil },
	}
}

// person is a request of a person as the daemon takes it.
func (w *world) person(t *testing.T, action string) act.Request {
	t.Helper()
	r, err := w.Store.Acts.RequestAction(t.Context(), ops.ActionRun{Environment: "home", Service: "web", Action: action, Person: "ada", Why: "it hangs"}, time.Time{})
	must(t, err)
	return act.Request{Environment: w.env, Service: "web", Action: action, Why: "it hangs", Person: "ada", ID: r.ID}
}

// script writes a program outside of what agents write.
func (w *world) script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return path
}

func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b") //nolint:forbidigo // of the test itself
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes a file in a clone and commits it.
func (w *world) commit(t *testing.T, name, text string) string {
	t.Helper()
	repo := filepath.Join(w.env.ReposDir, "lab")
	if _, err := os.Stat(repo); err != nil {
		git(t, w.dir, "init", "-q", "-b", "main", repo)
	}
	path := filepath.Join(repo, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", name)
	return git(t, repo, "rev-parse", "HEAD")
}

// rebuild makes the runner again after its options were changed.
func (w *world) rebuild() { w.runner = act.New(w.options) }

// steers is a short form of the guard's list.
func steers(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool {
		return slices.Contains([]string{".git", ".envrc", ".vscode", ".github", ".mcp.json", "CLAUDE.md", ".gitattributes"}, part)
	})
}

// restart is a new supervisor on the same folders.
func (w *world) restart() {
	w.commits = &act.Commits{Trust: w.Store.Acts, Host: storetest.Host, Dir: filepath.Join(w.dir, "commits"), Clock: time.Now, Steers: steers}
	w.options.Commits = w.commits
	w.rebuild()
}

// branch is a person's request to push a branch.
func (w *world) branch(t *testing.T, name string) act.Request {
	t.Helper()
	q := w.person(t, "propose")
	q.Branch = name
	return q
}
