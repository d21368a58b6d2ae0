package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

func example(t *testing.T, name string, env ...string) *Config {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../examples", name))
	must(t, err)
	dir := t.TempDir()
	c, err := Load(Input{ConfigPath: path, Environ: append([]string{"HOME=" + dir}, env...), Dir: dir, Check: escalation.Flaws})
	if err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	return c
}

func TestEveryExampleIsValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	must(t, err)
	var found []string
	for _, f := range files {
		name := filepath.Base(f)
		found = append(found, name)
		t.Run(name, func(t *testing.T) {
			c := example(t, name)
			if len(c.Notices) != 0 {
				t.Errorf("notices are %q", c.Notices)
			}
			text, err := os.ReadFile(f)
			must(t, err)
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("it does not say what it is for")
			}
			for _, h := range example(t, name, "CLAUDEOPS_CLAUDE_BIN=scripted", "CLAUDEOPS_CODEX_BIN=scripted").Environments()[0].Policy.Handlers {
				if h.Agent != "scripted" && !h.Human() {
					t.Errorf("%s cannot be played: its agent is %s", h.ID, h.Agent)
				}
			}
		})
	}
	want := []string{"approval.yaml", "cross-family-review.yaml", "default.yaml", "manager.yaml"}
	if !slices.Equal(found, want) {
		t.Errorf("examples are %q, want %q", found, want)
	}
}

func TestDefaultExampleIsWhatRunsWithoutConfiguration(t *testing.T) {
	built, _ := mustLoad(t, setup{})
	want, got := built.Environments()[0].Policy, example(t, "default.yaml").Environments()[0].Policy
	if !slices.EqualFunc(got.Handlers, want.Handlers, func(a, b ops.Handler) bool {
		return a.ID == b.ID && a.Tier == b.Tier && a.Family == b.Family && a.Agent == b.Agent && a.Model == b.Model && slices.Equal(a.HandsTo, b.HandsTo) && slices.Equal(a.Fallback, b.Fallback)
	}) {
		t.Errorf("handlers are\n%+v, want\n%+v", got.Handlers, want.Handlers)
	}
	if got.Entry != want.Entry || got.MaxDepth != want.MaxDepth || got.Mode != want.Mode || got.Process != want.Process || got.Independence != want.Independence {
		t.Errorf("policy is %+v, want %+v", got, want)
	}
}

func TestExamplesShowWhatTheyPromise(t *testing.T) {
	review := example(t, "cross-family-review.yaml").Environments()[0].Policy
	var families []string
	for _, h := range review.Handlers {
		families = append(families, h.Family)
	}
	if got := strings.Join(families, ">"); got != "claude>gpt>human" || review.RouteOf("watcher", "reviewer").Independence != ops.IndependenceFamily {
		t.Errorf("families are %s under %s", got, review.Independence)
	}
	manager := example(t, "manager.yaml").Environments()[0].Policy
	if h, _ := manager.Handler(manager.Manager); manager.Process != ops.ProcessManager || h.May() != ops.Tier1 || len(manager.Handlers[0].HandsTo) < 2 {
		t.Errorf("manager is %+v under %s", h, manager.Process)
	}
	for _, id := range manager.Handlers[0].HandsTo {
		if h, _ := manager.Handler(id); h.Description == "" || h.GoodFor == "" {
			t.Errorf("the manager is not told what %s is good for: %+v", id, h)
		}
	}
	approval := example(t, "approval.yaml").Environments()[0].Policy
	if !approval.RouteOf("fixer", "surgeon").Approval || approval.RouteOf("watcher", "fixer").Approval {
		t.Errorf("routes are %+v", approval.Routes)
	}
}
