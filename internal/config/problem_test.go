package config

import (
	"slices"
	"strings"
	"testing"
)

func TestBadValueIsReportedWithPlaceKeyAndFix(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup setup
		where string
		key   string
		text  string // part of message or fix
	}{
		{"interval zero", setup{yaml: "interval: 0\n"}, "claudeops.yaml:1:11", "interval", "not above zero"},
		{"interval negative", setup{yaml: "interval: -5m\n"}, "claudeops.yaml:1:11", "interval", "not above zero"},
		{"interval below a second", setup{yaml: "interval: 10ms\n"}, "claudeops.yaml:1:11", "interval", "at least 1s"},
		{"interval text", setup{yaml: "dry_run: true\ninterval:   soon\n"}, "claudeops.yaml:2:13", "interval", "90s"},
		{"interval overflow", setup{yaml: "interval: 99999999999999\n"}, "claudeops.yaml:1:11", "interval", "too many"},
		{"interval variable", setup{env: []string{"CLAUDEOPS_INTERVAL=x"}}, "environment variable CLAUDEOPS_INTERVAL", "interval", "duration"},
		{"interval flag", setup{flags: map[string]string{"interval": "x"}}, "flag --interval", "interval", "duration"},
		{"interval empty flag", setup{flags: map[string]string{"interval": ""}}, "flag --interval", "interval", "empty"},
		{"interval list", setup{yaml: "interval: [1, 2]\n"}, "claudeops.yaml:1:11", "interval", "found a list"},
		{"boolean", setup{yaml: "dry_run: maybe\n"}, "claudeops.yaml:1:10", "dry_run", "true or false"},
		{"max tier high", setup{yaml: "max_tier: 4\n"}, "claudeops.yaml:1:11", "max_tier", "1 to 3"},
		{"max tier zero", setup{yaml: "max_tier: 0\n"}, "claudeops.yaml:1:11", "max_tier", "1 to 3"},
		{"max tier text", setup{yaml: "max_tier: two\n"}, "claudeops.yaml:1:11", "max_tier", "whole number"},
		{"approval tier", setup{yaml: "escalation: {approval_tier: 4}\n"}, "claudeops.yaml:1:29", "escalation.approval_tier", "0 to 3"},
		{"threshold zero", setup{yaml: "escalation:\n  resume_context_threshold: 0\n"}, "claudeops.yaml:2:29", "escalation.resume_context_threshold", "0.80"},
		{"threshold high", setup{env: []string{"CLAUDEOPS_RESUME_CONTEXT_THRESHOLD=1.01"}}, "environment variable CLAUDEOPS_RESUME_CONTEXT_THRESHOLD", "escalation.resume_context_threshold", "at most 1"},
		{"threshold no number", setup{env: []string{"CLAUDEOPS_RESUME_CONTEXT_THRESHOLD=NaN"}}, "environment variable CLAUDEOPS_RESUME_CONTEXT_THRESHOLD", "escalation.resume_context_threshold", "not a number"},
		{"mode", setup{yaml: "escalation: {mode: handof}\n"}, "claudeops.yaml:1:20", "escalation.mode", "did you mean handoff?"},
		{"limit", setup{yaml: "limits: {session: 0s}\n"}, "claudeops.yaml:1:19", "limits.session", "not above zero"},
		{"budget negative", setup{yaml: "budget: {chain_usd: -1}\n"}, "claudeops.yaml:1:21", "budget.chain_usd", "not an amount"},
		{"budget infinite", setup{yaml: "budget: {day_usd: .inf}\n"}, "claudeops.yaml:1:19", "budget.day_usd", "not an amount"},
		{"recovery", setup{yaml: "recovery: {enabled: sometimes}\n"}, "claudeops.yaml:1:21", "recovery.enabled", "true or false"},
		{"model option", setup{yaml: "tiers: {1: {model: --help}}\n"}, "claudeops.yaml:1:20", "tiers.1.model", "model name"},
		{"model empty", setup{yaml: "tiers: {1: {model: ''}}\n"}, "claudeops.yaml:1:20", "tiers.1.model", "empty"},
		{"prompt missing", setup{yaml: "tiers: {2: {prompt: none.md}}\n"}, "claudeops.yaml:1:21", "tiers.2.prompt", "no such file"},
		{"prompt empty", setup{yaml: "tiers: {2: {prompt: p.md}}\n", files: map[string]string{"p.md": "\n"}}, "claudeops.yaml:1:21", "tiers.2.prompt", "is empty"},
		{"prompt folder", setup{yaml: "tiers: {2: {prompt: .}}\n"}, "claudeops.yaml:1:21", "tiers.2.prompt", "not a regular file"},
		{"prompt no text", setup{yaml: "tiers: {2: {prompt: p.md}}\n", files: map[string]string{"p.md": "\xff"}}, "claudeops.yaml:1:21", "tiers.2.prompt", "UTF-8"},
		{"tool", setup{yaml: "tiers: {3: {allowed_tools: 'Read,Bash('}}\n"}, "claudeops.yaml:1:28", "tiers.3.allowed_tools", "not a tool"},
		{"tool wildcard", setup{yaml: "tiers: {1: {allowed_tools: ['*']}}\n"}, "claudeops.yaml:1:29", "tiers.1.allowed_tools", "not a tool"},
		{"tool default", setup{yaml: "tiers: {1: {allowed_tools: default}}\n"}, "claudeops.yaml:1:28", "tiers.1.allowed_tools", "every tool"},
		{"no tool", setup{yaml: "tiers: {1: {allowed_tools: []}}\n"}, "claudeops.yaml:1:28", "tiers.1.allowed_tools", "list is empty"},
		{"agent option", setup{yaml: "agent: {bin: -x}\n"}, "claudeops.yaml:1:14", "agent.bin", "looks like an option"},
		{"agent variable", setup{yaml: "agent: {env: [A=b]}\n"}, "claudeops.yaml:1:15", "agent.env", "not the name"},
		{"agent without hooks", setup{yaml: "agent: {env: [CLAUDE_CODE_SIMPLE]}\n"}, "claudeops.yaml:1:15", "agent.env", "switches the hooks off"},
		{"agent home", setup{yaml: "agent: {env: [DOCKER_HOST, HOME]}\n"}, "claudeops.yaml:1:28", "agent.env", "set by the supervisor"},
		{"listen", setup{yaml: "listen: 8080\n"}, "claudeops.yaml:1:9", "listen", "host:port"},
		{"listen port", setup{yaml: "listen: 127.0.0.1:99999\n"}, "claudeops.yaml:1:9", "listen", "not host:port"},
		{"token", setup{yaml: "api_token: two words\n"}, "claudeops.yaml:1:12", "api_token", "blanks"},
		{"apprise", setup{yaml: "notify: {apprise_urls: [nonsense]}\n"}, "claudeops.yaml:1:25", "notify.apprise_urls", "one of the entries is not a URL"},
		{"apprise server", setup{yaml: "notify: {apprise_api: 'ftp://x'}\n"}, "claudeops.yaml:1:23", "notify.apprise_api", "http"},
		{"base url", setup{env: []string{"ANTHROPIC_BASE_URL=x"}}, "environment variable ANTHROPIC_BASE_URL", "agent.base_url", "http"},
		{"host", setup{yaml: "host: {name: a b}\n"}, "claudeops.yaml:1:14", "host.name", "not a name for a host"},
		{"database", setup{env: []string{"CLAUDEOPS_DATABASE_URL=mysql://db"}}, "environment variable CLAUDEOPS_DATABASE_URL", "database_url", "not a postgres:// URL"},
		{"secret file missing", setup{env: []string{"CLAUDEOPS_API_TOKEN_FILE=nowhere"}}, "environment variable CLAUDEOPS_API_TOKEN_FILE", "api_token", "no such file"},
		{"secret twice", setup{env: []string{"CLAUDEOPS_API_TOKEN=a", "CLAUDEOPS_API_TOKEN_FILE={dir}/f"}, files: map[string]string{"f": "b"}}, "environment variable CLAUDEOPS_API_TOKEN_FILE", "api_token", "keep one"},
		{"secret flag", setup{flags: map[string]string{"api_token": "a"}}, "flag --api-token", "api_token", "--api-token-file"},
		{"state in repositories", setup{yaml: "repos_dir: /repos\nstate_dir: /repos/state\n"}, "claudeops.yaml:2:12", "state_dir", "outside repos_dir"},
		{"section as value", setup{yaml: "limits: 30m\n"}, "claudeops.yaml:1:9", "limits", "keys and values"},
		{"value as section", setup{yaml: "listen: {host: x}\n"}, "claudeops.yaml:1:9", "listen", "a single value"},
		{"root list", setup{yaml: "- a\n"}, "claudeops.yaml:1:1", "", "keys and values"},
		{"syntax", setup{yaml: "interval: 5m\nlimits: {\n"}, "claudeops.yaml:2:1", "", "not valid YAML"},
		{"indented too little", setup{yaml: "services:\n  - name: a\n   probes: x\n"}, "claudeops.yaml:3:1", "", "not valid YAML"},
		{"indented too little further down", setup{yaml: "trust: ask\nservices:\n  - name: a\n    probes:\n    - type: http\n      url: x\n     interval: 3\n" + strings.Repeat("# more\n", 900)}, "claudeops.yaml:7:1", "", "not valid YAML"},
		{"a quote that is not closed", setup{yaml: "trust: ask\nnotes: 'a\ninterval: 5m\n"}, "claudeops.yaml:2:1", "", "not valid YAML"},
		{"second document", setup{yaml: "interval: 5m\n---\ninterval: 6m\n"}, "claudeops.yaml:2:1", "", "second document"},
		{"independence", setup{yaml: "escalation: {independence: other}\n"}, "claudeops.yaml:1:28", "escalation.independence", "none, other_handler or other_family"},
		{"expiry", setup{yaml: "escalation: {approval: {expiry: soon}}\n"}, "claudeops.yaml:1:33", "escalation.approval.expiry", "not a duration"},
		{"repeated key", setup{yaml: "interval: 5m\ninterval: 6m\n"}, "claudeops.yaml:2:1", "interval", "already given in line 1"},
		{"repeated nested key", setup{yaml: "limits:\n  idle: 5m\n  idle: 6m\n"}, "claudeops.yaml:3:3", "limits.idle", "already given in line 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, tc.setup)
			got := problems(t, err)
			if len(got) != 1 {
				t.Fatalf("got %d problems, want 1:\n%v", len(got), err)
			}
			p := got[0]
			if p.Where != tc.where || p.Key != tc.key || !strings.Contains(p.Message+"; "+p.Fix, tc.text) {
				t.Errorf("got %s\nwant %s: %s: …%s…", p, tc.where, tc.key, tc.text)
			}
			if p.Fix == "" && !strings.Contains(p.Message, "expected") {
				t.Errorf("%s says nothing to do", p)
			}
		})
	}
}

func TestUnknownNameIsReportedWithASuggestion(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup setup
		where string
		fix   string
	}{
		{"top level", setup{yaml: "statedir: x\n"}, "claudeops.yaml:1:1", "did you mean state_dir?"},
		{"swapped letters", setup{yaml: "itnerval: 5\n"}, "claudeops.yaml:1:1", "did you mean interval?"},
		{"nested", setup{yaml: "limits:\n  sesion: 5m\n"}, "claudeops.yaml:2:3", "did you mean limits.session?"},
		{"wrong section", setup{yaml: "approval_tier: 2\n"}, "claudeops.yaml:1:1", "did you mean escalation.approval_tier?"},
		{"named as its variable", setup{yaml: "idle_timeout: 5m\n"}, "claudeops.yaml:1:1", "did you mean limits.idle?"},
		{"far from all", setup{yaml: "zzzzzz: 1\n"}, "claudeops.yaml:1:1", "known here: state_dir"},
		{"no such tier", setup{yaml: "tiers:\n  4: {model: x}\n"}, "claudeops.yaml:2:3", "known here: 1, 2, 3"},
		{"file of no secret", setup{yaml: "listen_file: x\n"}, "claudeops.yaml:1:1", "known here"},
		{"service", setup{yaml: "services: [{name: a, alias: [b]}]\n"}, "claudeops.yaml:1:22", "did you mean services[0].aliases?"},
		{"probe", setup{yaml: "services: [{name: a, probes: [{type: tcp, address: 'a:1', timeuot: 1s}]}]\n"}, "claudeops.yaml:1:59", "did you mean services[0].probes[0].timeout?"},
		{"environment entry", setup{yaml: "environments: [{name: a, max-tier: 1}]\n"}, "claudeops.yaml:1:26", "did you mean environments[0].max_tier?"},
		{"variable", setup{env: []string{"CLAUDEOPS_INTERVALL=5"}}, "environment variable CLAUDEOPS_INTERVALL", "did you mean CLAUDEOPS_INTERVAL?"},
		{"empty variable", setup{env: []string{"CLAUDEOPS_DRYRUN="}}, "environment variable CLAUDEOPS_DRYRUN", "did you mean CLAUDEOPS_DRY_RUN?"},
		{"flag", setup{flags: map[string]string{"max_teir": "1"}}, "flag --max-teir", "did you mean max_tier?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, tc.setup)
			got := problems(t, err)
			if len(got) != 1 || got[0].Where != tc.where || !strings.HasPrefix(got[0].Fix, tc.fix) || !strings.Contains(got[0].Message, "unknown") {
				t.Errorf("got %v\nwant %s: unknown …; %s", err, tc.where, tc.fix)
			}
		})
	}
}

func TestVariablesOfAgentsAndTestsAreNoSettings(t *testing.T) {
	mustLoad(t, setup{env: []string{
		"CLAUDEOPS_TIER=1", "CLAUDEOPS_CYCLE_ID=2", "CLAUDEOPS_SESSION_ID=3", "CLAUDEOPS_SESSION_KEY=k", "CLAUDEOPS_FAILPOINT=x",
		"CLAUDEOPS_FAILPOINT_COUNT=2", "OTHER=1",
	}})
}

func TestAllProblemsAreReportedOnePerLineInReadingOrder(t *testing.T) {
	_, _, err := load(t, setup{
		yaml: "max_tier: 9\nlisten: nowhere\nfoo: 1\nlimits:\n  idle: never\n",
		env:  []string{"CLAUDEOPS_DRY_RUN=perhaps", "CLAUDEOPS_INTERVALL=1"},
	})
	got := problems(t, err)
	var where []string
	for _, p := range got {
		where = append(where, p.Where)
	}
	want := []string{
		"claudeops.yaml:1:11", "claudeops.yaml:2:9", "claudeops.yaml:3:1", "claudeops.yaml:5:9",
		"environment variable CLAUDEOPS_DRY_RUN", "environment variable CLAUDEOPS_INTERVALL",
	}
	if !slices.Equal(where, want) {
		t.Errorf("problems at %q\nwant %q", where, want)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) || lines[0] != "claudeops.yaml:1:11: max_tier: 9 is outside 1 to 3; give 1 to 3" {
		t.Errorf("the error reads\n%s", err)
	}
}

func TestHiddenValueIsCheckedToo(t *testing.T) {
	_, _, err := load(t, setup{yaml: "max_tier: 9\n", env: []string{"CLAUDEOPS_MAX_TIER=2"}})
	if got := problems(t, err); got[0].Where != "claudeops.yaml:1:11" {
		t.Errorf("got %v", err)
	}
}

func TestErrorsNeverRepeatSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	_, _, err := load(t, setup{env: []string{
		"CLAUDEOPS_API_TOKEN=" + secret + " x", "CLAUDEOPS_APPRISE_URLS=" + secret, "CLAUDEOPS_DATABASE_URL=mysql://u:" + secret + "@db/x",
		"ANTHROPIC_API_KEY=" + secret + "\ty", "CLAUDEOPS_APPRISE_API=ftp://u:" + secret + "@h", "ANTHROPIC_BASE_URL=" + secret,
	}})
	if got := problems(t, err); len(got) != 6 || strings.Contains(err.Error(), secret) {
		t.Errorf("the errors read\n%v", err)
	}
}

func TestFileWithoutSettingsIsFine(t *testing.T) {
	for name, text := range map[string]string{"comment": "# nothing yet\n", "null": "~\n", "empty sections": "tiers:\n  1:\nservices:\nenvironments: []\n"} {
		t.Run(name, func(t *testing.T) { mustLoad(t, setup{yaml: text}) })
	}
}

func TestAnchorsKeepWorking(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "tiers:\n  1: &t {model: m1}\n  2: *t\n"})
	if c.Tiers[2].Model != "m1" {
		t.Errorf("model of Tier 2 is %q", c.Tiers[2].Model)
	}
}

func TestListenBeyondLoopbackNeedsAToken(t *testing.T) {
	for listen, open := range map[string]bool{
		"127.0.0.1:8080": false, "localhost:0": false, "[::1]:80": false, "127.8.8.8:1": false, "[::ffff:127.0.0.1]:1": false,
		"0.0.0.0:8080": true, ":8080": true, "[::]:80": true, "192.0.2.1:80": true, "ops.example.org:80": true,
	} {
		t.Run(listen, func(t *testing.T) {
			_, _, err := load(t, setup{env: []string{"CLAUDEOPS_LISTEN=" + listen}})
			if !open {
				if err != nil {
					t.Fatalf("loopback is refused: %v", err)
				}
				return
			}
			if got := problems(t, err); len(got) != 1 || got[0].Key != "listen" || !strings.Contains(got[0].Fix, "CLAUDEOPS_API_TOKEN") {
				t.Errorf("got %v", err)
			}
			mustLoad(t, setup{env: []string{"CLAUDEOPS_LISTEN=" + listen, "CLAUDEOPS_API_TOKEN=secret-of-twenty-letters"}})
			mustLoad(t, setup{yaml: "api_token_file: t\n", env: []string{"CLAUDEOPS_LISTEN=" + listen}, files: map[string]string{"t": "secret-of-twenty-letters\n"}})
		})
	}
}

func TestAVariableThatIsSomethingElsesIsOnlyMentioned(t *testing.T) {
	c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_NOTHING_OF_OURS=1"}})
	if len(c.Notices) != 1 || !strings.Contains(c.Notices[0], "CLAUDEOPS_NOTHING_OF_OURS") {
		t.Errorf("notices: %q", c.Notices)
	}
}
