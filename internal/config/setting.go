package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// ownPrefix starts the name of every variable that is ours.
const ownPrefix = "CLAUDEOPS_"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// setting is one row of the table from which defaults, variables, flags, checks, listings and the reference
// are all made.
type setting struct {
	key    string
	env    string // empty: YAML and flag only
	also   string // another YAML key of the same setting
	def    string
	kind   kind
	secret bool // may also be given as a file, is never shown and never a flag
	// structured settings are lists of objects: YAML only, read on their own.
	structured bool
	shown      string // how the reference describes the default, when def does not say it
	doc        string
}

// flag is the name of the setting's command-line flag.
func (s setting) flag() string {
	name := s.env
	if name == "" {
		name = strings.ReplaceAll(s.key, ".", "_")
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, ownPrefix)), "_", "-")
}

// settings returns the table, in the order in which it is shown.
func settings() []setting {
	return slices.Concat(generalSettings(), tierSettings(), handlerSettings(), escalationSettings(), approvalSettings(), recoverySettings(), agentSettings(), guardSettings(), sandboxSettings(), watchSettings(), retentionSettings(), hostSettings(), edgeSettings(), noticeSettings(), inventorySettings())
}

func generalSettings() []setting {
	return []setting{
		{
			key: "state_dir", env: "CLAUDEOPS_STATE_DIR", def: "$XDG_STATE_HOME/claudeops", kind: pathKind(),
			doc: "Folder of the database, the handoff file, the cooldown snapshot and the lock. Must not lie inside `repos_dir`.",
		},
		{
			key: "repos_dir", env: "CLAUDEOPS_REPOS_DIR", kind: pathKind(),
			doc: "Folder of the mounted infrastructure repositories.",
		},
		{
			key: "interval", env: "CLAUDEOPS_INTERVAL", def: "3600", kind: durationKind(time.Second),
			doc: "Time from one scheduled cycle to the next, at least one second.",
		},
		{
			key: "dry_run", env: "CLAUDEOPS_DRY_RUN", def: "false", kind: boolKind(),
			doc: "Observe only: no tier above Tier 1 starts.",
		},
		{
			key: "max_tier", also: "escalation.max_tier", env: "CLAUDEOPS_MAX_TIER", def: "3", kind: wholeKind(1, int(ops.LastTier)),
			doc: "Highest tier that may start. In the file also as `escalation.max_tier`.",
		},
		{
			key: "notes", kind: textKind(),
			doc: "Your own words about what is watched, given to Tier 1.",
		},
	}
}

func tierSettings() []setting {
	models := map[ops.Tier]string{ops.Tier1: "haiku", ops.Tier2: "sonnet", ops.Tier3: "opus"}
	var out []setting
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		key := func(name string) string { return fmt.Sprintf("tiers.%d.%s", t, name) }
		env := func(name string) string { return fmt.Sprintf("%sTIER%d_%s", ownPrefix, t, name) }
		allowed := "Replaces the tools the tier may use; the tools it is given follow from it."
		if t < ops.LastTier {
			allowed += " `Task` and `Agent` are refused."
		}
		out = append(
			out,
			setting{
				key: key("model"), env: env("MODEL"), def: models[t], kind: modelKind(),
				doc: fmt.Sprintf("Model of %s (%s).", t, strings.ToLower(t.Title())),
			},
			setting{
				key: key("prompt"), env: env("PROMPT"), kind: promptKind(), shown: "built in",
				doc: "Prompt file of a fresh or handoff start.",
			},
			setting{
				key: key("escalation_prompt"), env: env("ESCALATION_PROMPT"), kind: promptKind(), shown: "built in",
				doc: "Prompt file of a resumed start.",
			},
			setting{
				key: key("allowed_tools"), env: env("ALLOWED_TOOLS"), kind: allowedToolsKind(t), shown: "see below",
				doc: allowed,
			},
			setting{
				key: key("disallowed_tools"), env: env("DISALLOWED_TOOLS"), kind: disallowedToolsKind(), shown: "see below",
				doc: "Replaces the tools and commands the tier must not use.",
			},
		)
	}
	return out
}

func escalationSettings() []setting {
	return []setting{
		{
			key: "escalation.mode", env: "CLAUDEOPS_ESCALATION_MODE", def: "resume", kind: modeKind(),
			doc: "How the next tier gets its context: the conversation continued, or the facts of the handoff.",
		},
		{
			key: "escalation.resume_context_threshold", env: "CLAUDEOPS_RESUME_CONTEXT_THRESHOLD", def: "0.80", kind: shareKind(),
			doc: "Share of the context window above which resume gives way to handoff.",
		},
		{
			key: "escalation.approval_tier", env: "CLAUDEOPS_APPROVAL_TIER", def: "0", kind: wholeKind(0, int(ops.LastTier)),
			doc: "A human must approve before this tier and those above start; 0 turns it off.",
		},
		{
			key: "escalation.routes", structured: true, kind: kind{name: "list"},
			doc: "What holds for single routes: mode, independence, approval. See [Routes and models](#routes-and-models).",
		},
		{
			key: "models", structured: true, kind: kind{name: "list"},
			doc: "Context windows of models. See [Routes and models](#routes-and-models).",
		},
		{
			key: "prices", structured: true, kind: kind{name: "models with their prices"}, shown: "built in",
			doc: "What models cost, for agents that do not tell. See [Prices](#prices).",
		},
		{
			key: "limits.session", env: "CLAUDEOPS_SESSION_TIMEOUT", def: "30m", kind: durationKind(0),
			doc: "Wall-clock limit of one session.",
		},
		{
			key: "limits.idle", env: "CLAUDEOPS_IDLE_TIMEOUT", def: "10m", kind: durationKind(0),
			doc: "Longest time without output while no tool call is open.",
		},
		{
			key: "limits.tool", env: "CLAUDEOPS_TOOL_TIMEOUT", def: "20m", kind: durationKind(0),
			doc: "Longest time of one open tool call.",
		},
		{
			key: "budget.session_usd", env: "CLAUDEOPS_BUDGET_SESSION_USD", def: "0", kind: dollarsKind(),
			doc: "Most that one session may cost; 0 means what its cycle and the day have left. The call that reaches a limit is still paid.",
		},
		{
			key: "budget.chain_usd", env: "CLAUDEOPS_BUDGET_CHAIN_USD", def: "5", kind: dollarsKind(),
			doc: "Most that the sessions of one cycle may cost; 0 means no limit.",
		},
		{
			key: "budget.day_usd", env: "CLAUDEOPS_BUDGET_DAY_USD", def: "25", kind: dollarsKind(),
			doc: "Most that all sessions of a day may cost; 0 means no limit.",
		},
	}
}

func agentSettings() []setting {
	return []setting{
		{
			key: "agent.bin", env: "CLAUDEOPS_CLAUDE_BIN", def: "claude", kind: programKind(),
			doc: "The agent CLI. The word `scripted` selects the built-in scripted agent, which needs no key.",
		},
		{
			key: "agent.codex_bin", env: "CLAUDEOPS_CODEX_BIN", def: "codex", kind: programKind(),
			doc: "The CLI of handlers with `agent: codex`. The word `scripted` selects the built-in scripted agent.",
		},
		{
			key: "agent.command_trusted", def: "false", kind: boolKind(),
			doc: "Run handlers with `agent: command` without walls. Nobody judges what such a program does: without this they need `sandbox.bubblewrap`.",
		},
		{
			key: "agent.scenario", kind: programKind(),
			doc: "What the scripted agent plays: the name of a built-in scenario, or the path of a file.",
		},
		{
			key: "agent.env", kind: variableNamesKind(),
			doc: "Names of further environment variables that reach the agent.",
		},
		{
			key: "agent.api_key", env: "ANTHROPIC_API_KEY", kind: tokenKind(), secret: true,
			doc: "API key of the agent CLI. Reaches the agent CLI only.",
		},
		{
			key: "agent.oauth_token", env: "CLAUDE_CODE_OAUTH_TOKEN", kind: tokenKind(), secret: true,
			doc: "OAuth token of the agent CLI. Reaches the agent CLI only.",
		},
		{
			key: "agent.base_url", env: "ANTHROPIC_BASE_URL", kind: webURLKind(),
			doc: "Where the agent CLI finds its API. Reaches the agent CLI only.",
		},
		{
			key: "secrets", kind: secretsKind(), secret: true,
			doc: "Further texts to remove from everything that is stored or shown. The name of a variable that is set stands for its value.",
		},
	}
}

func edgeSettings() []setting {
	return []setting{
		{
			key: "notify.apprise_urls", env: "CLAUDEOPS_APPRISE_URLS", kind: appriseKind(), secret: true,
			doc: "Notification targets.",
		},
		{
			key: "notify.apprise_api", env: "CLAUDEOPS_APPRISE_API", kind: webURLKind(),
			doc: "Apprise API server to send through, instead of the `apprise` program.",
		},
		{
			key: "listen", env: "CLAUDEOPS_LISTEN", def: "127.0.0.1:8080", kind: listenKind(),
			doc: "Address of the pages and the API. Any other than loopback needs `api_token`.",
		},
		{
			key: "api_token", env: "CLAUDEOPS_API_TOKEN", kind: tokenKind(), secret: true,
			doc: "Bearer token of the API and the webhooks, and login of the pages.",
		},
		{
			key: "api_read_token", env: "CLAUDEOPS_API_READ_TOKEN", kind: tokenKind(), secret: true,
			doc: "Second token that may only look: GET of the API and `/metrics`, and the pages without their buttons' effect. Needs `api_token`.",
		},
	}
}

func inventorySettings() []setting {
	return []setting{
		{
			key: "services", structured: true, kind: kind{name: "list"},
			doc: "What is watched. See [Services](#services).",
		},
		{
			key: "services_discovery", env: "CLAUDEOPS_SERVICES_DISCOVERY", def: string(DiscoveryShow), kind: discoveryKind(),
			doc: "What becomes of services that the repositories in `repos_dir` name. `show`: they are listed by `claudeops services discover`, and nothing else. `trust`: those that are not configured are watched from the next start on, as they are then; a later change is used when `claudeops services accept` takes it. `off`: nobody looks.",
		},
		{
			key: "environments", structured: true, kind: kind{name: "list"}, shown: "one, named `default`",
			doc: "What is watched together, each with its own state folder. See [Environments](#environments).",
		},
	}
}

// fileSuffix ends the name of a setting that is read from a file.
const fileSuffix = "file"

// fileKey is the YAML key that names the file of a secret.
func (s setting) fileKey() string { return s.key + "_" + fileSuffix }

// fileEnv is the variable that names the file of a secret.
func (s setting) fileEnv() string {
	if s.env == "" {
		return ""
	}
	return s.env + "_" + strings.ToUpper(fileSuffix)
}

// table is the list of settings with ways to look into it.
type table []setting

func (t table) find(key string) (setting, bool) {
	i := slices.IndexFunc(t, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return t[i], true
}

// findAlso returns the setting that has the key as its second one.
func (t table) findAlso(key string) (setting, bool) {
	i := slices.IndexFunc(t, func(s setting) bool { return s.also != "" && s.also == key })
	if i < 0 {
		return setting{}, false
	}
	return t[i], true
}

// findFile returns the secret whose file a key names.
func (t table) findFile(key string) (setting, bool) {
	i := slices.IndexFunc(t, func(s setting) bool { return s.secret && s.fileKey() == key })
	if i < 0 {
		return setting{}, false
	}
	return t[i], true
}

// children returns the names that may stand in a section; the root is the empty one.
func (t table) children(section string) []string {
	var out []string
	add := func(key string) {
		if section != "" {
			rest, ok := strings.CutPrefix(key, section+".")
			if !ok {
				return
			}
			key = rest
		}
		name, _, _ := strings.Cut(key, ".")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, s := range t {
		add(s.key)
		if s.secret {
			add(s.fileKey())
		}
		if s.also != "" {
			add(s.also)
		}
	}
	return out
}

// elsewhere finds the full key of a name that was put into the wrong section, or spelled like its variable.
func (t table) elsewhere(name string) string {
	for _, s := range t {
		if strings.EqualFold(s.env, ownPrefix+name) || strings.EqualFold(s.env, name) {
			return s.key
		}
	}
	for _, s := range t {
		if strings.HasSuffix(s.key, "."+name) && !strings.HasPrefix(s.key, "tiers.") {
			return s.key
		}
	}
	return ""
}

// variables returns the name of every environment variable that is read.
func (t table) variables() []string {
	var out []string
	for _, s := range t {
		if s.env == "" {
			continue
		}
		out = append(out, s.env)
		if s.secret {
			out = append(out, s.fileEnv())
		}
	}
	return out
}
