package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

// What a prompt prescribes: a command in a bullet after what it is for, and a command that is run from inside a repository.
var (
	bulletCommand = regexp.MustCompile("(?m)^- [^`\n]+: `([^`\n]+)`$")
	repoCommand   = regexp.MustCompile("`(cd [^`\n]+ && [^`\n]+)`")
)

func prescribed(prompt string) []string {
	var out []string
	seen := map[string]bool{}
	for _, form := range []*regexp.Regexp{bulletCommand, repoCommand} {
		for _, m := range form.FindAllStringSubmatch(prompt, -1) {
			if !seen[m[1]] {
				seen[m[1]] = true
				out = append(out, m[1])
			}
		}
	}
	return out
}

// infrastructure makes a folder with one repository that has what the prompts speak of.
func infrastructure(t *testing.T) string {
	t.Helper()
	repos := t.TempDir()
	for name, text := range map[string]string{
		"compose.yaml":       "services:\n  web: {image: nginx}\n",
		"playbooks/web.yml":  "- hosts: all\n",
		"charts/web/a.yaml":  "a: 1\n",
		"inventory.yml":      "all: {}\n",
		"CLAUDE-OPS.md":      "Notes.\n",
		"playbooks/site.yml": "- hosts: all\n",
	} {
		path := filepath.Join(repos, "infra", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return repos
}

// watched adds one service with a probe of every kind that a prompt makes a command from.
func watched(env ops.Environment) ops.Environment {
	env.Policy.Inventory.Services = []ops.Service{
		{Name: "web", Aliases: []string{"nginx"}, Probed: true, DependsOn: []string{"db"}}, {Name: "db", Group: "data", Probed: true},
	}
	env.Probes = []ops.ProbeSpec{
		{Service: "web", Type: "http", URL: "https://web.example.org/health?full=1"},
		{Service: "web", Type: "container", Container: "web"},
		{Service: "db", Type: "systemd", Unit: "postgresql.service"},
		{Service: "db", Type: "dns", Host: "db.example.org"},
	}
	return env
}

func TestThePromptsOfTheExamplesPrescribeOnlyWhatTheGuardAllows(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find examples: %q, %v", files, err)
	}
	judge, err := guard.New(nil)
	must(t, err)
	repos, bin := infrastructure(t), t.TempDir()
	for _, name := range []string{"tea", "helm", "apprise"} {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv("PATH", bin)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			path, err := filepath.Abs(file)
			must(t, err)
			dir := t.TempDir()
			c, err := config.Load(config.Input{ConfigPath: path, Environ: []string{"HOME=" + dir, "CLAUDEOPS_REPOS_DIR=" + repos}, Dir: dir})
			must(t, err)
			bare := c.Environments()[0]
			for _, env := range []ops.Environment{bare, watched(bare)} {
				checkPrompts(t, judge, c, env)
			}
		})
	}
}

// checkPrompts renders every prompt of every handler and judges what it names.
func checkPrompts(t *testing.T, judge *guard.Guard, c *config.Config, env ops.Environment) {
	t.Helper()
	commands := 0
	for _, h := range env.Policy.Handlers {
		if h.Human() {
			continue
		}
		for _, mode := range []ops.ContextMode{ops.ContextFresh, ops.ContextHandoff, ops.ContextResume} {
			for _, structured := range []bool{false, true} {
				for _, dry := range []bool{false, true} {
					s := ops.Session{
						ID: 1, CycleID: 1, Handler: h.ID, Tier: h.Tier, Permissions: h.May(), Agent: h.Agent, Model: h.Model, Family: h.Family,
						ContextMode: mode, Structured: structured,
					}
					env.Policy.DryRun = dry
					now := ops.Claimed{Cycle: ops.Cycle{ID: 1, Environment: env.Name, Policy: env.Policy}}
					text, err := cycle.PreviewPrompt(env, now, s, true)
					must(t, err)
					facts := Facts(c, env)
					facts.HandoffMode, facts.Walled = !structured, true // as a session is that may run without a person's yes
					facts.OwnPaths = append(facts.OwnPaths, "/usr/local/bin/claudeops", gateDir(c))
					at := fmt.Sprintf("%s, %s, structured %v, dry run %v", h.ID, mode, structured, dry)
					for _, command := range prescribed(text) {
						commands++
						input, err := json.Marshal(map[string]string{"command": command})
						must(t, err)
						if d := judge.Check(s.May(), "Bash", input, facts); !d.Allowed() {
							t.Errorf("%s is told to run what the guard refuses (%s):\n  %s\n  %s", at, d.Rule, command, d.Reason)
						}
					}
					if strings.Contains(text, "\n- ") && strings.Contains(text, "How to diagnose") && len(prescribed(text)) < 5 {
						t.Errorf("%s: only %q was found in\n%s", at, prescribed(text), text)
					}
				}
			}
		}
	}
	if commands == 0 {
		t.Error("no prompt names a command")
	}
}

func TestThePromptsNameTheActionsOfTheSession(t *testing.T) {
	judge, err := guard.New(nil)
	must(t, err)
	dir := t.TempDir()
	yaml := "repos_dir: " + infrastructure(t) + "\nescalation: {approval_tier: 3}\nservices:\n  - name: web\n    container: web\n" +
		"    compose: {repo: infra, file: compose.yaml}\n    actions:\n      - {name: clear-cache, run: [\"true\"]}\n      - {name: wipe, run: [\"true\"], approval: true}\n"
	path := filepath.Join(dir, "c.yaml")
	must(t, os.WriteFile(path, []byte(yaml), 0o600))
	c, err := config.Load(config.Input{ConfigPath: path, Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	env := c.Environments()[0]
	const may2, may3, plan = "- web: restart, start, clear-cache", "- web: restart, start, stop, redeploy, apply, clear-cache",
		"- web: restart, start, stop, redeploy, apply, clear-cache, wipe"
	tool := regexp.MustCompile(`mcp__[a-z]+__[a-z_]+`)
	for _, h := range env.Policy.Handlers {
		for _, mode := range []ops.ContextMode{ops.ContextFresh, ops.ContextResume} {
			for _, dry := range []bool{false, true} {
				env.Policy.DryRun = dry
				s := ops.Session{ID: 1, CycleID: 1, Handler: h.ID, Tier: h.Tier, Permissions: h.May(), Agent: h.Agent, ContextMode: mode, Structured: true}
				now := ops.Claimed{Cycle: ops.Cycle{ID: 1, Environment: env.Name, Policy: env.Policy}}
				text, err := cycle.PreviewPrompt(env, now, s, true)
				must(t, err)
				for line, want := range map[string]bool{
					may2: h.Tier == ops.Tier2 && !dry, may3: h.Tier == ops.Tier3 && !dry, plan: h.Tier == ops.Tier2 && !dry,
				} {
					if got := strings.Contains(text+"\n", line+"\n"); got != want {
						t.Errorf("%s, %s, dry run %v: %q is named: %v\n%s", h.ID, mode, dry, line, got, text)
					}
				}
				facts := Facts(c, env)
				facts.MCPTools, facts.DryRun = sessionTools(), dry
				for _, name := range tool.FindAllString(text, -1) {
					if d := judge.Check(s.May(), name, []byte(`{"service":"web","action":"restart","why":"it hangs"}`), facts); !d.Allowed() {
						t.Errorf("%s is told to call %s, which is refused: %s", h.ID, name, d.Reason)
					}
				}
			}
		}
	}
}
