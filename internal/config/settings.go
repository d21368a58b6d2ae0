package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// The largest numbers that settings take; they keep slips such as bytes in place of megabytes out.
const (
	mostMegabytes = 1 << 30
	mostTokens    = 100_000_000
)

// What the guard protects where the operator names nothing: the usual names of inventories, and where Docker keeps volumes.
const (
	defaultProtectedFiles = "inventory.yml,inventory.yaml,inventory.ini,hosts.yml,hosts.yaml"
	defaultVolumes        = "/var/lib/docker/volumes"
)

// leastLease is what a busy machine can still renew in time.
const leastLease = 3 * time.Second

// DefaultDockerSocket is where Docker listens.
const DefaultDockerSocket = "/var/run/docker.sock"

// group is a part of the table with a title in the reference.
type group struct {
	title  string
	fields []field
}

// settings returns the table, bound to c, in the order in which it is shown.
func (c *Config) settings() table {
	var out table
	for _, g := range c.groups() {
		out = append(out, g.fields...)
	}
	return out
}

func (c *Config) groups() []group {
	return []group{
		{"General", c.generalSettings()},
		{"Tiers", c.tierSettings()},
		{"Handlers and roles", c.handlerSettings()},
		{"Escalation, limits and budgets", c.escalationSettings()},
		{"Approvals", c.approvalSettings()},
		{"Recovery", c.recoverySettings()},
		{"Agent and secrets", c.agentSettings()},
		{"Guard and cooldowns", c.guardSettings()},
		{"Sandbox", c.sandboxSettings()},
		{"Watching", c.watchSettings()},
		{"Retention", c.retentionSettings()},
		{"Database and hosts", c.hostSettings()},
		{"Notifications and web", c.noticeSettings()},
		{"Sign-in", c.signInSettings()},
		{"Inventory", c.inventorySettings()},
	}
}

func (c *Config) generalSettings() []field {
	return []field{
		value("state_dir", &c.StateDir, pathKind(),
			"Folder for the database, the handoff file, the cooldown snapshot and the lock. Must be outside `repos_dir`.").
			byEnv("CLAUDEOPS_STATE_DIR").or("$XDG_STATE_HOME/claudeops"),
		value("repos_dir", &c.ReposDir, pathKind(), "Folder with the infrastructure repositories.").byEnv("CLAUDEOPS_REPOS_DIR"),
		value("interval", &c.Interval, durationKind(time.Second), "Time between scheduled cycles, at least one second.").
			byEnv("CLAUDEOPS_INTERVAL").or("3600"),
		value("dry_run", &c.DryRun, boolKind(), "Only observe: no tier above Tier 1 starts. An outage that Tier 1 finds opens an incident, and "+
			"you are told once.").byEnv("CLAUDEOPS_DRY_RUN").or("false"),
		value("max_tier", &c.MaxTier, intKind(ops.Tier1, ops.LastTier),
			"Highest tier that may start. In the file also as `escalation.max_tier`.").
			alias("escalation.max_tier").byEnv("CLAUDEOPS_MAX_TIER").or("3"),
		value("notes", &c.Notes, textKind(), "Your description of the environment, given to Tier 1."),
	}
}

func (c *Config) tierSettings() []field {
	models := map[ops.Tier]string{ops.Tier1: "haiku", ops.Tier2: "sonnet", ops.Tier3: "opus"}
	var out []field
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		tier := c.Tiers[t]
		env := func(name string) string { return fmt.Sprintf("%sTIER%d_%s", ownPrefix, t, name) }
		out = append(out, under(
			fmt.Sprintf("tiers.%d", t),
			value("model", &tier.Model, modelKind(), "Model of the tier: 1 observes, 2 makes safe repairs, 3 full ones.").
				byEnv(env("MODEL")).or(models[t]),
			value("prompt", &tier.Prompt, promptKind(), "Prompt file for sessions that start fresh or from a handoff.").
				byEnv(env("PROMPT")).orElse("built in"),
			value("escalation_prompt", &tier.EscalationPrompt, promptKind(), "Prompt file for sessions that resume a conversation.").
				byEnv(env("ESCALATION_PROMPT")).orElse("built in"),
			value("allowed_tools", &tier.allowed, allowedToolsKind(t),
				"Replaces the list of tools that the tier may use; it also decides which tools the agent is given. `Task` and `Agent` are rejected "+
					"below Tier 3.").byEnv(env("ALLOWED_TOOLS")).orElse("built in").
				showing(func() string { return strings.Join(tier.Tools.Allowed, ",") }),
			value("disallowed_tools", &tier.disallowed, disallowedToolsKind(),
				"Replaces the list of tools and commands that the tier must not use.").
				byEnv(env("DISALLOWED_TOOLS")).orElse("built in").
				showing(func() string { return strings.Join(tier.Tools.Disallowed, ",") }),
		)...)
	}
	return out
}

func (c *Config) handlerSettings() []field {
	id := handlerIDKind()
	return slices.Concat([]field{
		list("agent.acp", &c.Agent.ACP, profileFields, c.finishAgentProfile,
			"CLIs that speak the Agent Client Protocol: changes of the built-in profiles, and profiles of your own. See [ACP](acp.md).").
			showing(c.showProfiles),
		list("handlers", &c.handlers, handlerFields, c.finishHandler,
			"The handlers: agent, model, permissions and targets of each. Replaces the three built-in tiers. See [Handlers](#handlers).").
			orElse("`tier1`, `tier2`, `tier3` and their fallbacks").
			notEmpty("register a handler, or remove the key to use the three built-in tiers").
			showing(func() string { return strings.Join(handlerIDs(c.registered()), ",") }),
	}, under(
		"escalation",
		value("entry", &c.shared.Entry, id, "Handler that starts every cycle. Must be of Tier 1.").
			orElse("the only handler of the lowest tier that is not a target of another"),
		value("max_depth", &c.shared.MaxDepth, intKind(1, 10),
			"Maximum number of handoffs in one cycle. A longer chain of handlers is rejected at start.").
			or(fmt.Sprint(int(ops.LastTier)-1)),
		value("independence", &c.shared.Independence, independenceKind(),
			"How the next handler must differ from the earlier ones. `other_family`: its model has another maker. "+
				"A route can override it.").
			or(string(ops.IndependenceHandler)),
		value("manager", &c.shared.Manager, id,
			"Handler that chooses the next one; without it, the handoff names it. It does no other work and takes no handoffs."),
		value("planner", &c.shared.Planner, id, "Handler that makes a new plan after an approach has failed."),
		value("judge", &c.shared.Judge, id,
			"Handler that scores a claimed repair. Its family must differ from that of at least one working handler."),
	))
}

func (c *Config) escalationSettings() []field {
	return slices.Concat(under(
		"escalation",
		value("mode", &c.shared.Mode, modeKind(),
			"How the next tier gets its context: it continues the conversation, or it gets the facts of the handoff.").
			byEnv("CLAUDEOPS_ESCALATION_MODE").or("resume"),
		value("resume_context_threshold", &c.shared.ContextThreshold, shareKind(),
			"Share of the context window above which handoff is used instead of resume.").
			byEnv("CLAUDEOPS_RESUME_CONTEXT_THRESHOLD").or("0.80"),
		value("approval_tier", &c.shared.ApprovalTier, intKind(ops.Tier(0), ops.LastTier),
			"Lowest tier that needs the approval of a human before it starts; 0 turns this off.").
			byEnv("CLAUDEOPS_APPROVAL_TIER").or("0"),
		list("routes", &c.shared.Routes, routeFields, finishRoute,
			"Mode, independence and approval of single routes. See [Routes and models](#routes-and-models).").
			showing(c.showRoutes),
	), []field{
		list("models", &c.models, modelFields, c.finishModel,
			"Context windows of models in tokens, as `{name: haiku, context_window: 200000}`. A value that the agent CLI reported has priority."),
		c.pricesField(),
	}, under(
		"limits",
		value("session", &c.Limits.Wall, durationKind(0), "Maximum time of one session.").byEnv("CLAUDEOPS_SESSION_TIMEOUT").or("30m"),
		value("idle", &c.Limits.Idle, durationKind(0), "Maximum time without output while no tool call is running.").
			byEnv("CLAUDEOPS_IDLE_TIMEOUT").or("10m"),
		value("tool", &c.Limits.Tool, durationKind(0), "Maximum time of one tool call.").byEnv("CLAUDEOPS_TOOL_TIMEOUT").or("20m"),
	), under(
		"budget",
		value("session_usd", &c.shared.BudgetSessionUSD, dollarsKind(),
			"Maximum cost per session; 0 means what the cycle and the day have left. The call that reaches a limit is still paid.").
			byEnv("CLAUDEOPS_BUDGET_SESSION_USD").or("0"),
		value("chain_usd", &c.shared.BudgetChainUSD, dollarsKind(),
			"Maximum cost per cycle; 0 means no limit.").byEnv("CLAUDEOPS_BUDGET_CHAIN_USD").or("5"),
		value("day_usd", &c.BudgetDayUSD, dollarsKind(),
			"Maximum cost per day; 0 means no limit.").byEnv("CLAUDEOPS_BUDGET_DAY_USD").or("25"),
	))
}

func (c *Config) approvalSettings() []field {
	a := &c.shared.Approval
	return under(
		"escalation.approval",
		value("expiry", &a.Expiry, waitKind(), "How long an approval request stays open; 0 means no limit.").or("24h"),
		value("on_expiry", &a.OnExpiry, choiceKind("an end of an approval", "needs_human", ops.OnExpiryDeny,
			ops.OnExpiryApprove), "What happens to a request that nobody answered. `approve` also approves all steps of its plan.").
			or("needs_human"),
		value("remind", &a.Remind, waitKind(),
			"Time between reminders, of which there are three; 0 sends none. Then `notify.second_urls` is notified.").or("1h"),
	)
}

func (c *Config) recoverySettings() []field {
	l := &c.shared.Recovery.Limits
	return slices.Concat([]field{
		value("recovery.enabled", &c.shared.Recovery.Enabled, boolKind(),
			"`off` ends a cycle at its first failure; the next cycle tries again.").
			byEnv("CLAUDEOPS_RECOVERY").or("on"),
	}, under(
		"recovery.limits",
		value("total_time", &l.TotalTime, durationKind(0), "Maximum time for all recovery in one cycle.").or("1h"),
		value("total_usd", &l.TotalUSD, dollarsKind(), "Maximum cost of all recovery in one cycle; 0 means no separate limit.").or("0"),
	), []field{
		list("recovery.rules", &c.shared.Recovery.Rules, ruleFields, c.finishRule,
			"Your own classes of failure. See [Recovery rules](#recovery-rules)."),
	})
}

func (c *Config) agentSettings() []field {
	a := &c.Agent
	return slices.Concat(under(
		"agent",
		value("bin", &a.Bin, programKind(), "The agent CLI. `scripted` selects the built-in scripted agent, which needs no key.").
			byEnv("CLAUDEOPS_CLAUDE_BIN").or("claude"),
		value("codex_bin", &a.CodexBin, programKind(),
			"The CLI of handlers with `agent: codex`. `scripted` selects the built-in scripted agent.").
			byEnv("CLAUDEOPS_CODEX_BIN").or("codex"),
		value("command_trusted", &a.CommandTrusted, boolKind(),
			"Run handlers with `agent: command` without a sandbox. The guard does not check them; otherwise they need Landlock or bubblewrap.").
			or("false"),
		value("key_proxy", &a.KeyProxy, choiceKind("a choice for the key proxy", KeyProxyAuto, KeyProxyOn, KeyProxyOff),
			"Give agents a session token instead of the API key. A proxy of the supervisor on loopback adds the key. "+
				"`auto` does so for agents without a shell gate (Codex, ACP, command). `off` passes the key to the agent.").or("auto"),
		value("scenario", &a.Scenario, scenarioKind(),
			"Scenario for the scripted agent: a built-in one (`builtin:demo`), or the path of a file."),
		value("env", &a.Env, variableNamesKind(), "Names of additional environment variables that are passed to the agent."),
		value("api_key", &a.APIKey, tokenKind(), "API key, passed only to the agent CLI.").byEnv("ANTHROPIC_API_KEY").hiddenValue(),
		value("oauth_token", &a.OAuthToken, tokenKind(),
			"OAuth token, passed only to the agent CLI.").byEnv("CLAUDE_CODE_OAUTH_TOKEN").hiddenValue(),
		value("base_url", &a.BaseURL, webURLKind(), "URL of the API, passed only to the agent CLI.").byEnv("ANTHROPIC_BASE_URL"),
	), []field{
		value("secrets", &c.secrets, listOf("list of values or variable names", splitAtLines, textKind()),
			"Additional texts to remove from everything that is stored or shown. The name of a variable means its value.").hiddenValue(),
	})
}

func (c *Config) watchSettings() []field {
	w, e := &c.watching, &c.Edges
	return slices.Concat(
		[]field{
			value("observe", &w.observe, observeKind(),
				"How problems are found. `probes`: probes run all the time and start an agent. `agent`: Tier 1 checks at every interval.").
				byEnv("CLAUDEOPS_OBSERVE").orElse("`probes` where a probe is configured, else `agent`"),
			value("observe_every", &w.every, optional(waitKind()),
				"With `observe: probes`, also start an agent when none has looked for this time; 0 means never.").
				orElse("`24h` where a service has no probe, else 0"),
			value("tolerate_degraded", &w.tolerate, boolKind(), "Treat degraded results as healthy.").or("false"),
		},
		under("grouping", w.groupingFields(true)...),
		[]field{
			maintenanceField(&w.maintenance,
				"Times in which failures start no cycle. See [Watching](#watching-in-detail).").showing(c.showMaintenance),
			value("deadman.ping_url", &e.PingURL, webURLKind(),
				"URL that is requested after each finished cycle, for an external monitor that alerts when the requests stop.").
				byEnv("CLAUDEOPS_PING_URL").hiddenValue(),
			value("webhooks.secret", &e.WebhookSecret, tokenKind(),
				"Key with which senders sign the body (HMAC SHA-256), instead of sending `api_token`. See [webhooks.md](webhooks.md).").
				byEnv("CLAUDEOPS_WEBHOOK_SECRET").hiddenValue(),
			value("webhooks.expire", &e.AlertsExpire, waitKind(),
				"An alert ends when it is not repeated for this time; 0 means never.").or("24h"),
		},
	)
}

func (c *Config) retentionSettings() []field {
	r := &c.Retention
	return under(
		"retention",
		value("transcripts", &r.Transcripts, waitKind(), "How long the output of ended sessions is kept; 0 means no limit. "+
			"See [operations.md](operations.md#retention).").
			byEnv("CLAUDEOPS_RETENTION_TRANSCRIPTS").or("720h"),
		value("transcripts_max_mb", &r.TranscriptBytes, megabytesKind(mostMegabytes),
			"Maximum megabytes of output of all ended sessions. The oldest is removed first; 0 means no limit.").
			byEnv("CLAUDEOPS_RETENTION_TRANSCRIPTS_MAX_MB").or("2048"),
		value("session_max_mb", &r.SessionBytes, megabytesKind(mostMegabytes),
			"Maximum megabytes of output of one session. Of more, the beginning and the end are kept; 0 means no limit.").
			byEnv("CLAUDEOPS_RETENTION_SESSION_MAX_MB").or("64"),
		value("checks", &r.Checks, waitKind(),
			"How long single probe results are kept; 0 means no limit. The health bars use hourly and daily counts instead.").
			or("336h"),
		value("events", &r.Events, waitKind(),
			"How long events, decisions of the guard, notices, ended alerts, hourly health counts, and the probe results and stored steps of "+
				"cycles are kept; 0 means no limit.").or("2160h"),
	)
}

func (c *Config) hostSettings() []field {
	h := &c.Host
	return slices.Concat([]field{
		value("database_url", &c.DatabaseURL, databaseKind(),
			"URL of a PostgreSQL database (13 or later), for several hosts. Each host still needs its own state folder.").
			byEnv("CLAUDEOPS_DATABASE_URL").hiddenValue().orElse("SQLite in the state folder"),
	}, under(
		"host",
		value("name", &h.Name, hostKind(), "Name of this host. Must be unique among the hosts that share the database.").
			byEnv("CLAUDEOPS_HOST").orElse("the machine's name"),
		value("labels", &h.Labels, wordsKind("labels"),
			"What this host can reach. It works only for environments whose `labels` it all has.").
			byEnv("CLAUDEOPS_HOST_LABELS"),
		value("lease", &h.Lease, durationKind(leastLease),
			"Time without a heartbeat after which other hosts continue the cycles of a host. Must be the same on all hosts. "+
				"Agents of a supervisor that is paused end after a third of it.").
			byEnv("CLAUDEOPS_HOST_LEASE").or("12s"),
		value("sessions", &h.Sessions, intKind(0, 10_000),
			"Maximum number of cycles that this host runs at once, each with at most one agent. Other cycles wait in the queue.").
			byEnv("CLAUDEOPS_MAX_SESSIONS").or("0").orElse("two for each core, at least 4"),
		value("disk_reserve", &h.DiskReserve, megabytesKind(1<<20),
			"Megabytes that must be free in the state folder. With less, nothing starts and nothing is changed; 0 turns this off.").
			byEnv("CLAUDEOPS_DISK_RESERVE").or("64"),
	))
}

// What the MCP server at /mcp offers.
const (
	MCPOff   = "off"
	MCPRead  = "read"
	MCPWrite = "write"
)

func (c *Config) inventorySettings() []field {
	return []field{
		servicesField(&c.inventory, "The services to watch. See [Services](#services).").showing(c.showServices),
		value("services_discovery", &c.Discovery, discoveryKind(),
			"How services that repositories name are used: not at all, listed, or watched. See [Services](#services).").
			byEnv("CLAUDEOPS_SERVICES_DISCOVERY").or(string(DiscoveryShow)),
		list("environments", &c.environments, c.environmentFields, c.finishEnvironment,
			"Environments, each with its own state folder. See [Environments](#environments).").orElse("one, named `default`"),
	}
}

func discoveryKind() kind[Discovery] {
	return choiceKind("a way to treat services of repositories", DiscoveryOff, DiscoveryShow, DiscoveryTrust)
}
