package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
	"claudeops/internal/watch"
	"claudeops/internal/watch/probe"
)

// setup is one configuration in a folder of its own.
type setup struct {
	yaml      string
	env       []string
	flags     map[string]string
	files     map[string]string
	agentUser int
}

// load writes the files of a setup and loads it. HOME is the folder itself.
func load(t *testing.T, s setup) (*Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	if s.yaml != "" {
		write(t, dir, "claudeops.yaml", s.yaml)
	}
	for name, text := range s.files {
		write(t, dir, name, text)
	}
	env := append([]string{"HOME=" + dir}, s.env...)
	for i := range env {
		env[i] = strings.ReplaceAll(env[i], "{dir}", dir)
	}
	c, err := Load(Input{Flags: s.flags, Environ: env, Dir: dir, Check: escalation.Flaws, Checks: Checks{
		CheckProbe: probe.Validate, CheckServices: watch.CheckServices, CheckMaintenance: watch.CheckMaintenance, ProbeName: probe.Describe,
		AgentUser: func() int { return s.agentUser },
	}})
	return c, dir, err
}

func mustLoad(t *testing.T, s setup) (*Config, string) {
	t.Helper()
	c, dir, err := load(t, s)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c, dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func problems(t *testing.T, err error) []Problem {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want *Error", err)
	}
	return e.Problems
}

// mistake is a configuration of one line with one problem, of the key, that says the text.
type mistake struct{ name, yaml, key, text string }

func refuses(t *testing.T, all []mistake) {
	t.Helper()
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, setup{yaml: tc.yaml})
			got := problems(t, err)
			if len(got) != 1 || got[0].Key != tc.key || !strings.Contains(got[0].String(), tc.text) ||
				strings.HasPrefix(got[0].Where, "claudeops.yaml:") && !strings.HasPrefix(got[0].Where, "claudeops.yaml:1:") {
				t.Errorf("got %v\nwant %s … %s", err, tc.key, tc.text)
			}
		})
	}
}

func shown(c *Config, key string) Setting {
	for _, s := range c.Show() {
		if s.Key == key {
			return s
		}
	}
	return Setting{}
}

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	c, dir := mustLoad(t, setup{})
	want := map[string]string{
		"state_dir": filepath.Join(dir, ".local/state/claudeops"), "repos_dir": "", "interval": "1h0m0s", "dry_run": "false", "max_tier": "3",
		"tiers.1.model": "haiku", "tiers.2.model": "sonnet", "tiers.3.model": "opus", "tiers.1.prompt": "",
		"escalation.mode": "resume", "escalation.resume_context_threshold": "0.8", "escalation.approval_tier": "0",
		"limits.session": "30m0s", "limits.idle": "10m0s", "limits.tool": "20m0s",
		"budget.chain_usd": "5", "budget.day_usd": "25", "recovery.enabled": "true", "agent.bin": "claude", "agent.codex_bin": "codex",
		"handlers": "tier1,tier2,tier3,tier1-fallback,tier2-fallback,tier3-fallback", "escalation.entry": "tier1", "escalation.max_depth": "2",
		"escalation.independence": "other_handler", "escalation.manager": "", "escalation.approval.expiry": "24h0m0s",

		"recovery.limits.total_time": "1h0m0s",
		"notify.apprise_urls":        "", "database_url": "", "listen": "127.0.0.1:8080", "api_token": "", "environments": "default",
	}
	for key, value := range want {
		got := shown(c, key)
		if got.Key == "" || got.Value != value || got.Origin != "default" {
			t.Errorf("%s is %q from %q, want %q from default", key, got.Value, got.Origin, value)
		}
	}
	if len(c.Notices) != 0 {
		t.Errorf("notices are %q", c.Notices)
	}
}

func TestStrongerSourceWins(t *testing.T) {
	yaml := "max_tier: 1\n"
	env := []string{"CLAUDEOPS_MAX_TIER=2"}
	flags := map[string]string{"max_tier": "3"}
	for _, tc := range []struct {
		name   string
		setup  setup
		want   ops.Tier
		origin string
	}{
		{"default", setup{}, 3, "default"},
		{"file", setup{yaml: yaml}, 1, "claudeops.yaml:1"},
		{"environment over file", setup{yaml: yaml, env: env}, 2, "environment CLAUDEOPS_MAX_TIER"},
		{"flag over all", setup{yaml: yaml, env: env, flags: flags}, 3, "flag --max-tier"},
		{"flag over file", setup{yaml: yaml, flags: flags}, 3, "flag --max-tier"},
		{"empty variable is not set", setup{yaml: yaml, env: []string{"CLAUDEOPS_MAX_TIER="}}, 1, "claudeops.yaml:1"},
		{"empty key is not set", setup{yaml: "max_tier:\n"}, 3, "default"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := mustLoad(t, tc.setup)
			if c.MaxTier != tc.want || shown(c, "max_tier").Origin != tc.origin {
				t.Errorf("max_tier is %d from %q, want %d from %q", c.MaxTier, shown(c, "max_tier").Origin, tc.want, tc.origin)
			}
		})
	}
}

func TestStrongerSourceKeepsTheRestOfASection(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "limits: {session: 5m, idle: 2m}\n", env: []string{"CLAUDEOPS_IDLE_TIMEOUT=30"}})
	want := ops.Limits{Wall: 5 * time.Minute, Idle: 30 * time.Second, Tool: 20 * time.Minute, Grace: stopGrace}
	if c.Limits != want {
		t.Errorf("limits are %+v, want %+v", c.Limits, want)
	}
}

func TestEmptyFlagClearsAnOptionalValue(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "repos_dir: /repos\n", flags: map[string]string{"repos_dir": ""}})
	if c.ReposDir != "" || shown(c, "repos_dir").Origin != "flag --repos-dir" {
		t.Errorf("repos_dir is %q from %q", c.ReposDir, shown(c, "repos_dir").Origin)
	}
}

func TestConfigurationFileIsFoundInOrder(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"flag.yaml", "variable.yaml", "claudeops.yaml", "xdg/claudeops/claudeops.yaml", "etc.yaml"} {
		write(t, dir, name, fmt.Sprintf("interval: %d\n", i+1))
	}
	xdg := "XDG_CONFIG_HOME=" + filepath.Join(dir, "xdg")
	empty := t.TempDir()
	for _, tc := range []struct {
		name string
		in   Input
		want time.Duration
	}{
		{"flag", Input{ConfigPath: "flag.yaml", Environ: []string{xdg, "CLAUDEOPS_CONFIG=variable.yaml"}, Dir: dir}, 1},
		{"variable", Input{Environ: []string{xdg, "CLAUDEOPS_CONFIG=variable.yaml"}, Dir: dir}, 2},
		{"working folder", Input{Environ: []string{xdg}, Dir: dir}, 3},
		{"configuration home", Input{Environ: []string{xdg}, Dir: empty, SystemPath: filepath.Join(dir, "etc.yaml")}, 4},
		{"the system's", Input{Environ: []string{"XDG_CONFIG_HOME=" + empty}, Dir: empty, SystemPath: filepath.Join(dir, "etc.yaml")}, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Environ = append(tc.in.Environ, "HOME="+dir)
			c, err := Load(tc.in)
			must(t, err)
			if c.Interval != tc.want*time.Second {
				t.Errorf("interval is %s, want %ds (file %s)", c.Interval, tc.want, c.File)
			}
		})
	}
	_, err := Load(Input{ConfigPath: "missing.yaml", Environ: []string{"HOME=" + dir}, Dir: dir})
	if got := problems(t, err); len(got) != 1 || got[0].Where != "flag --config" {
		t.Errorf("a named file that is missing gives %v", got)
	}
}

// Every setting with a variable takes the same text from the file, the environment and, unless secret, a flag.
func TestEverySettingIsReadFromEverySource(t *testing.T) {
	samples := map[string]string{
		"interval": "90", "dry_run": "true", "max_tier": "2", "escalation.mode": "handoff", "escalation.resume_context_threshold": "0.5",
		"escalation.approval_tier": "3", "limits.session": "1m", "limits.idle": "1m", "limits.tool": "1m", "budget.chain_usd": "1.5",
		"budget.day_usd": "0", "recovery.enabled": "off", "agent.base_url": "http://127.0.0.1:9", "notify.apprise_api": "http://127.0.0.1:9",
		"notify.apprise_urls": "json://127.0.0.1", "listen": "127.0.0.1:9090", "agent.env": "DOCKER_HOST",
		"guard.enabled": "on", "guard.rules": "prompt.md", "cooldown.restarts": "3 per 1h",
		"escalation.max_depth": "3", "escalation.independence": "none", "escalation.entry": "tier1", "escalation.planner": "tier1",
		"escalation.approval.expiry": "0",

		"recovery.limits.total_time": "1m",
		"trust":                      "ask", "observe": "both", "observe_every": "24h", "grouping.window": "1m", "grouping.grace": "1m", "grouping.pause": "1m",
		"grouping.repeat": "0", "retention.transcripts": "48h", "retention.events": "48h",

		"deadman.ping_url": "http://127.0.0.1:9/ping", "notify.second_urls": "json://127.0.0.1", "notify.telegram_senders": "42,43", "notify.telegram_responders": "44",
		"notify.approve_by_ntfy": "true", "web.public_url": "https://ops.example.org",
		"cooldown.redeployments": "2 per 1h", "sandbox.uid": "1000", "sandbox.mode": "required", "sandbox.network": "open",
		"docker.broker": "off",
		"oidc.issuer":   "https://id.example.org", "database_url": "postgres://db/ops", "host.sessions": "7",
	}
	for _, s := range newConfig().settings() {
		if s.structured() || s.key == "escalation.manager" || s.key == "escalation.judge" {
			continue // the roles need a registry of their own
		}
		sample, ok := samples[s.key]
		switch {
		case ok:
		case strings.HasSuffix(s.key, "prompt"):
			sample = "prompt.md"
		case strings.HasPrefix(s.key, "api_"):
			sample = "sample-of-twenty-letters"
		case strings.HasSuffix(s.key, "_tools"):
			sample = "Read"
		default:
			sample = "sample"
		}
		files := map[string]string{"prompt.md": "Look.", "value": sample + "\n"}
		variants := map[string]setup{}
		if s.env != "" {
			variants["environment "+s.env] = setup{env: []string{s.env + "=" + sample}}
		}
		if s.secret {
			if s.env != "" {
				variants["environment "+s.fileEnv()] = setup{env: []string{s.fileEnv() + "={dir}/value"}}
			}
			variants["flag --"+s.flag()+"-file"] = setup{flags: map[string]string{s.fileKey(): "value"}}
			variants["file key"] = setup{yaml: nested(s.fileKey(), "value")}
		} else {
			variants["flag --"+s.flag()] = setup{flags: map[string]string{s.key: sample}}
		}
		variants["file"] = setup{yaml: nested(s.key, sample)}
		values := map[string]string{}
		for name, v := range variants {
			v.files = files
			if s.key == "web.public_url" { // published pages need a token
				v.env = append(v.env, "CLAUDEOPS_API_TOKEN=sample-of-twenty-letters")
			}
			if s.key == "oidc.issuer" || s.key == "oidc.client_id" { // a sign-in needs all of this
				v.env = append([]string{
					"CLAUDEOPS_API_TOKEN=sample-of-twenty-letters", "CLAUDEOPS_PUBLIC_URL=https://ops.example.org", "CLAUDEOPS_OIDC_ADMINS=ada",
					map[string]string{"oidc.issuer": "CLAUDEOPS_OIDC_CLIENT_ID=x", "oidc.client_id": "CLAUDEOPS_OIDC_ISSUER=https://id.example.org"}[s.key],
				}, v.env...)
			}
			c, dir, err := load(t, v)
			if err != nil {
				t.Errorf("%s by %s: %v", s.key, name, err)
				continue
			}
			got := shown(c, s.key)
			if !strings.HasPrefix(name, "file") && got.Origin != name {
				t.Errorf("%s by %s has origin %q", s.key, name, got.Origin)
			}
			if strings.HasPrefix(name, "file") && !strings.HasPrefix(got.Origin, "claudeops.yaml:") {
				t.Errorf("%s by %s has origin %q", s.key, name, got.Origin)
			}
			values[strings.ReplaceAll(got.Value, dir, "")] = name
			if s.secret && strings.Contains(got.Value, sample) {
				t.Errorf("%s shows its value", s.key)
			}
		}
		if len(values) != 1 {
			t.Errorf("%s differs by source: %v", s.key, values)
		}
	}
}

// nested writes a dotted key as YAML.
func nested(key, value string) string {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, p := range parts {
		b.WriteString(strings.Repeat("  ", i) + p + ":")
		if i < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	return b.String() + " " + value + "\n"
}

func TestContractVariablesExist(t *testing.T) {
	have := newConfig().settings().variables()
	want := []string{
		"STATE_DIR", "REPOS_DIR", "INTERVAL", "DRY_RUN", "MAX_TIER", "ESCALATION_MODE", "RESUME_CONTEXT_THRESHOLD", "SESSION_TIMEOUT",
		"IDLE_TIMEOUT", "TOOL_TIMEOUT", "BUDGET_CHAIN_USD", "BUDGET_DAY_USD", "APPROVAL_TIER", "RECOVERY", "CLAUDE_BIN", "APPRISE_URLS",
		"APPRISE_URLS_FILE", "APPRISE_API", "DATABASE_URL", "LISTEN", "API_TOKEN", "API_TOKEN_FILE",
	}
	for n := 1; n <= 3; n++ {
		for _, name := range []string{"MODEL", "PROMPT", "ESCALATION_PROMPT", "ALLOWED_TOOLS", "DISALLOWED_TOOLS"} {
			want = append(want, fmt.Sprintf("TIER%d_%s", n, name))
		}
	}
	for _, name := range want {
		if !slices.Contains(have, ownPrefix+name) {
			t.Errorf("%s%s is not read", ownPrefix, name)
		}
	}
	for _, name := range []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"} {
		if !slices.Contains(have, name) {
			t.Errorf("%s is not read", name)
		}
	}
}

func TestPathsAreRelativeToWhereTheyStand(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "etc/ops.yaml", "state_dir: state\nrepos_dir: ~/repos\nagent: {bin: ./fake}\ntiers: {1: {prompt: p.md}}\n")
	write(t, dir, "etc/p.md", "Look around.\n")
	c, err := Load(Input{ConfigPath: "etc/ops.yaml", Environ: []string{"HOME=/home/joe"}, Dir: dir})
	must(t, err)
	for _, tc := range []struct{ got, want string }{
		{c.StateDir, filepath.Join(dir, "etc/state")},
		{c.ReposDir, "/home/joe/repos"},
		{c.Agent.Bin, filepath.Join(dir, "etc/fake")},
		{c.Tiers[ops.Tier1].Prompt.Text, "Look around.\n"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	c, err = Load(Input{Flags: map[string]string{"state_dir": "here"}, Dir: dir})
	must(t, err)
	if c.StateDir != filepath.Join(dir, "here") {
		t.Errorf("a flag's path is %q", c.StateDir)
	}
}

func TestStateHomeFollowsXDG(t *testing.T) {
	c, _ := mustLoad(t, setup{env: []string{"XDG_STATE_HOME=/var/state"}})
	if c.StateDir != "/var/state/claudeops" {
		t.Errorf("state_dir is %q", c.StateDir)
	}
	_, err := Load(Input{Dir: t.TempDir()})
	if got := problems(t, err); len(got) != 1 || got[0].Key != "state_dir" || !strings.Contains(got[0].Fix, "CLAUDEOPS_STATE_DIR") {
		t.Errorf("without a home folder: %v", got)
	}
}

func TestFlagsAreUniqueAndCarryNoSecret(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Flags() {
		if seen[f.Name] {
			t.Errorf("--%s stands for two settings", f.Name)
		}
		seen[f.Name] = true
		if s, ok := newConfig().settings().find(f.Key); ok && s.secret {
			t.Errorf("--%s takes a secret", f.Name)
		}
	}
	for _, name := range []string{"state-dir", "max-tier", "tier1-model", "claude-bin", "api-token-file"} {
		if !seen[name] {
			t.Errorf("--%s is missing", name)
		}
	}
}

// Walls are built from absolute paths; a file in the working folder is named by its name alone.
func TestAFileInTheWorkingFolderIsProtectedByItsWholePath(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "claudeops.yaml")
	must(t, os.WriteFile(want, []byte("dry_run: true\n"), 0o600))
	c, err := Load(Input{Dir: dir, Environ: []string{"HOME=" + dir}})
	must(t, err)
	if !slices.Contains(c.OwnFiles(), want) || !slices.Contains(c.SecretFiles(), want) {
		t.Errorf("own %q, secret %q", c.OwnFiles(), c.SecretFiles())
	}
}

// A scenario in the working folder is found by its name, as other files are.
func TestAScenarioIsAFileOfTheWorkingFolder(t *testing.T) {
	dir := t.TempDir()
	for given, want := range map[string]string{"one.yaml": filepath.Join(dir, "one.yaml"), "builtin:demo": "builtin:demo"} {
		c, err := Load(Input{Dir: dir, Environ: []string{"HOME=" + dir}, Flags: map[string]string{"agent.scenario": given}})
		must(t, err)
		if c.Agent.Scenario != want {
			t.Errorf("%s is %s, want %s", given, c.Agent.Scenario, want)
		}
	}
}
