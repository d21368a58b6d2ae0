package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestSingleEnvironmentUsesTheTopLevelValues(t *testing.T) {
	c, dir := mustLoad(t, setup{
		yaml: `
state_dir: state
repos_dir: repos
interval: 5m
max_tier: 2
notes: Three machines in a cupboard.
escalation: {approval_tier: 2, resume_context_threshold: 0.5}
budget: {chain_usd: 1, day_usd: 2}
recovery: {enabled: off}
tiers:
  1: {model: m1, prompt: p1.md, escalation_prompt: e1.md}
  2: {model: m2}
  3: {model: m3}
`,
		files: map[string]string{"p1.md": "fresh", "e1.md": "resumed"},
	})
	envs := c.Environments()
	if len(envs) != 1 {
		t.Fatalf("got %d environments", len(envs))
	}
	e := envs[0]
	state := filepath.Join(dir, "state")
	if e.Name != "default" || e.StateDir != state || e.WorkDir != filepath.Join(state, "work") || e.ReposDir != filepath.Join(dir, "repos") ||
		e.Interval != 5*time.Minute || e.Notes != "Three machines in a cupboard." {
		t.Errorf("environment is %+v", e)
	}
	want := ops.Policy{
		MaxTier: 2, MaxDepth: 2, Mode: ops.ContextResume, ContextThreshold: 0.5, ApprovalTier: 2, BudgetChainUSD: 1, BudgetDayUSD: 2, Entry: "tier1",
		Observe: ops.ObserveAgent, Independence: ops.IndependenceHandler, Process: ops.ProcessTyped,
		Approval: ops.ApprovalPolicy{Expiry: 24 * time.Hour, Remind: time.Hour, Reminds: 3},
		Recovery: ops.RecoveryPolicy{Limits: ops.RecoveryLimits{
			TotalTime: time.Hour,
		}},
		Handlers: []ops.Handler{
			{ID: "tier1", Tier: 1, Family: "claude", Agent: "claude", Model: "m1", HandsTo: []string{"tier2"}, Fallback: []string{"tier1-fallback"}},
			{ID: "tier2", Tier: 2, Family: "claude", Agent: "claude", Model: "m2", HandsTo: []string{"tier3"}, Fallback: []string{"tier2-fallback"}},
			{ID: "tier3", Tier: 3, Family: "claude", Agent: "claude", Model: "m3", Fallback: []string{"tier3-fallback"}},
			{ID: "tier1-fallback", Tier: 1, Family: "claude", Agent: "claude", Model: "m2", HandsTo: []string{"tier2"}},
			{ID: "tier2-fallback", Tier: 2, Family: "claude", Agent: "claude", Model: "m3", HandsTo: []string{"tier3"}},
			{ID: "tier3-fallback", Tier: 3, Family: "claude", Agent: "claude", Model: "m2"},
		},
		Cooldowns: []ops.CooldownLimit{{Action: "restart", Count: 2, Window: 4 * time.Hour}, {Action: "redeployment", Count: 1, Window: 24 * time.Hour}},
	}
	if !reflect.DeepEqual(e.Policy, want) {
		t.Errorf("policy is\n%+v, want\n%+v", e.Policy, want)
	}
	if got := e.Prompts[1]; got != (ops.PromptFiles{Fresh: "fresh", Escalation: "resumed"}) {
		t.Errorf("prompts of Tier 1 are %+v", got)
	}
	if got := e.Prompts[2]; got != (ops.PromptFiles{}) {
		t.Errorf("prompts of Tier 2 are %+v", got)
	}
	if e.Limits != (ops.Limits{Wall: 30 * time.Minute, Idle: 10 * time.Minute, Tool: 20 * time.Minute, Grace: 10 * time.Second}) {
		t.Errorf("limits are %+v", e.Limits)
	}
}

func TestScriptedAgentIsSelectedByItsName(t *testing.T) {
	c, dir := mustLoad(t, setup{flags: map[string]string{"agent.bin": "scripted", "agent.scenario": "./play.json"}})
	for _, h := range c.Environments()[0].Policy.Handlers {
		if h.Agent != "scripted" {
			t.Errorf("%s runs %s", h.ID, h.Agent)
		}
	}
	if c.Agent.Scenario != filepath.Join(dir, "play.json") {
		t.Errorf("scenario is %q", c.Agent.Scenario)
	}
}

const twoEnvironments = `
state_dir: /state
repos_dir: /repos
interval: 10m
notes: shared
services: [{name: web}]
environments:
  - name: default
  - name: lab-2
    repos_dir: /lab
    interval: 30
    dry_run: yes
    max_tier: 1
    notes: own
    services: {strict: true, list: [{name: pi}]}
`

func TestEnvironmentsInheritAndOverride(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: twoEnvironments})
	envs := c.Environments()
	if len(envs) != 2 {
		t.Fatalf("got %d environments", len(envs))
	}
	type seen struct {
		name, state, work, repos, notes, service string
		interval                                 time.Duration
		dryRun, strict                           bool
		maxTier                                  ops.Tier
	}
	var got []seen
	for _, e := range envs {
		p := e.Policy
		got = append(got, seen{
			e.Name, e.StateDir, e.WorkDir, e.ReposDir, e.Notes, p.Inventory.Services[0].Name,
			e.Interval, p.DryRun, p.Inventory.Strict, p.MaxTier,
		})
	}
	want := []seen{
		{"default", "/state", "/state/work", "/repos", "shared", "web", 10 * time.Minute, false, false, 3},
		{"lab-2", "/state/env/lab-2", "/state/env/lab-2/work", "/lab", "own", "pi", 30 * time.Second, true, true, 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if s := shown(c, "environments"); s.Value != "default,lab-2" || shown(c, "services").Value != "default: web; lab-2: pi" {
		t.Errorf("shown as %q and %q", s.Value, shown(c, "services").Value)
	}
}

// What runs in containers depends on the engine, which is watched where a probe asks it.
func TestTheContainerEngineIsWatched(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: `
environments:
  - name: home
    services:
      - {name: web, probes: [{type: container, container: web, interval: 10s}]}
      - {name: page, container: page, depends_on: [web], probes: [{type: http, url: "http://127.0.0.1/"}]}
      - {name: mail, unit: mail.service, probes: [{type: tcp, address: "127.0.0.1:25"}]}
      - {name: db, probes: [{type: container, container: db}]}
  - name: own
    services:
      - {name: container-engine, unit: docker.service, trust: repair, probes: [{type: tcp, address: "127.0.0.1:1"}]}
      - {name: web, probes: [{type: container, container: web}]}
  - name: none
    services: [{name: page, container: page, probes: [{type: http, url: "http://127.0.0.1/"}]}]
`})
	c.Environments() // asking again changes nothing
	envs := c.Environments()
	want := ops.ProbeSpec{Service: ops.EngineService, Type: ops.ProbeEngine, Interval: 10 * time.Second, FailAfter: 3, RecoverAfter: 1}
	if got := envs[0].Probes[len(envs[0].Probes)-1]; !reflect.DeepEqual(got, want) {
		t.Errorf("the probe is %+v", got)
	}
	for i, needs := range [][]string{
		{"web: container-engine", "page: web container-engine", "mail:", "db: container-engine", "container-engine:"},
		{"container-engine:", "web: container-engine"},
		{"page:"},
	} {
		var got []string
		for _, s := range envs[i].Policy.Inventory.Services {
			got = append(got, strings.TrimSpace(s.Name+": "+strings.Join(s.DependsOn, " ")))
			if !s.Probed {
				t.Errorf("%s of %s has no probe", s.Name, envs[i].Name)
			}
		}
		if !slices.Equal(got, needs) {
			t.Errorf("%s needs %q, want %q", envs[i].Name, got, needs)
		}
	}
	if own := envs[1]; own.Policy.TrustOf(ops.EngineService) != ops.TrustRepair || len(own.Probes) != 3 || len(envs[2].Probes) != 1 {
		t.Errorf("%+v", own.Probes)
	}
}

func TestVariablesNeverLoosenAnEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name    string
		env     []string
		dryRun  [2]bool
		maxTier [2]ops.Tier
	}{
		{"loose variables", []string{"CLAUDEOPS_DRY_RUN=false", "CLAUDEOPS_MAX_TIER=3"}, [2]bool{false, true}, [2]ops.Tier{3, 1}},
		{"strict variables", []string{"CLAUDEOPS_DRY_RUN=true", "CLAUDEOPS_MAX_TIER=2"}, [2]bool{true, true}, [2]ops.Tier{2, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := mustLoad(t, setup{yaml: twoEnvironments, env: tc.env})
			for i, e := range c.Environments() {
				if e.Policy.DryRun != tc.dryRun[i] || e.Policy.MaxTier != tc.maxTier[i] {
					t.Errorf("%s has dry run %v and max tier %d", e.Name, e.Policy.DryRun, e.Policy.MaxTier)
				}
			}
		})
	}
}

func TestVariableOverEnvironmentValueIsNoticed(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: twoEnvironments, env: []string{"CLAUDEOPS_INTERVAL=7"}})
	for _, e := range c.Environments() {
		if e.Interval != 7*time.Second {
			t.Errorf("%s runs every %s", e.Name, e.Interval)
		}
	}
	want := "interval of claudeops.yaml:11 is not used: environment CLAUDEOPS_INTERVAL is stronger"
	if !slices.Contains(c.Notices, want) {
		t.Errorf("notices are %q, want %q", c.Notices, want)
	}
}

func TestBadEnvironmentIsReported(t *testing.T) {
	long := strings.Repeat("a", 64)
	refuses(t, []mistake{
		{"no name", "environments: [{dry_run: true}]\n", "environments[0]", "has no name"},
		{"capital", "environments: [{name: Lab}]\n", "environments[0].name", "small letters"},
		{"path", "environments: [{name: ../x}]\n", "environments[0].name", "small letters"},
		{"dash first", "environments: [{name: -x}]\n", "environments[0].name", "small letters"},
		{"long", "environments: [{name: " + long + "}]\n", "environments[0].name", "at most 63"},
		{"twice", "environments: [{name: a}, {name: a}]\n", "environments[1].name", "already used in line 1"},
		{"no object", "environments: [a]\n", "environments[0]", "keys and values"},
		{"no list", "environments: {name: a}\n", "environments", "a list"},
		{"interval", "environments: [{name: a, interval: 0}]\n", "environments[0].interval", "above zero"},
		{"tier", "environments: [{name: a, max_tier: 7}]\n", "environments[0].max_tier", "1 to 3"},
		{"service", "environments: [{name: a, services: [{name: x}, {name: x}]}]\n", "environments[0].services[1].name", "already names"},
		{"state in repositories", "environments: [{name: a, repos_dir: /}]\n", "state_dir", "outside repos_dir"},
	})
}

func TestAgentEnvironmentHoldsOnlyWhatPasses(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml:  "agent: {env: [DOCKER_HOST, NOT_SET], api_key_file: key}\n",
		files: map[string]string{"key": "sk-from-file\n"},
		env: []string{
			"PATH=/bin", "LANG=C", "TZ=UTC", "TMPDIR=/tmp", "https_proxy=http://p", "NO_PROXY=x", "ANTHROPIC_MODEL=m", "CLAUDE_CODE_MAX_RETRIES=2",
			"DISABLE_TELEMETRY=1", "DOCKER_HOST=unix:///d", "AWS_SECRET_ACCESS_KEY=no", "CLAUDEOPS_API_TOKEN=no-this-is-for-the-pages", "CLAUDE_CONFIG_DIR=no",
			"CLAUDE_CODE_PLUGIN_DIRS=/tmp/p", "DISABLE_UNHEARD=1", "CLAUDE_CODE_OAUTH_TOKEN_FILE={dir}/key", "ANTHROPIC_BASE_URL=http://127.0.0.1:1", "CLAUDEOPS_TIER=1",
		},
	})
	want := []string{
		"ANTHROPIC_API_KEY=sk-from-file", "ANTHROPIC_BASE_URL=http://127.0.0.1:1", "ANTHROPIC_MODEL=m", "CLAUDE_CODE_MAX_RETRIES=2",
		"CLAUDE_CODE_OAUTH_TOKEN=sk-from-file", "DISABLE_TELEMETRY=1", "DOCKER_HOST=unix:///d", "LANG=C", "NO_PROXY=x", "PATH=/bin",
		"TMPDIR=/tmp", "TZ=UTC", "https_proxy=http://p", "CLAUDEOPS_PROGRAMS=" + filepath.Join(c.StateDir, "programs"),
	}
	if got := c.Environments()[0].AgentEnv; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !slices.Contains(c.Notices, "CLAUDE_CODE_PLUGIN_DIRS is not passed to agents: if they need it, name it in agent.env") {
		t.Errorf("notices are %q", c.Notices)
	}
	if !slices.Contains(c.Notices, "agent.env names NOT_SET, which is not set") {
		t.Errorf("notices are %q", c.Notices)
	}
}
