package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/ops"
)

// mostTokens is the largest context window that is believed.
const mostTokens = 100_000_000

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
			"Highest tier that may start.").byEnv("CLAUDEOPS_MAX_TIER").or("3"),
		value("trust", &c.trust, trustKind(), "How far agents may go for a service without you. `watch`: no agent starts; probes run, and "+
			"you are told. `suggest`: Tier 1 looks and proposes. `ask`: Tier 2 and Tier 3 start after your approval. `repair`: Tier 3 starts "+
			"after your approval. `full`: both start. A service can have its own level. See [Trust](trust.md).").orElse("`full`"),
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
		c.pricesField(),
	}, under(
		"limits",
		value("session", &c.Limits.Wall, durationKind(0), "Maximum time of one session.").byEnv("CLAUDEOPS_SESSION_TIMEOUT").or("30m"),
		value("idle", &c.Limits.Idle, durationKind(0), "Maximum time without output while no tool call is running.").
			byEnv("CLAUDEOPS_IDLE_TIMEOUT").or("10m"),
		value("tool", &c.Limits.Tool, durationKind(0), "Maximum time of one tool call.").byEnv("CLAUDEOPS_TOOL_TIMEOUT").or("20m"),
	), under(
		"budget",
		value("chain_usd", &c.shared.BudgetChainUSD, dollarsKind(),
			"Maximum cost per cycle; 0 means no limit. The call that reaches a limit is still paid.").byEnv("CLAUDEOPS_BUDGET_CHAIN_USD").or("5"),
		value("day_usd", &c.BudgetDayUSD, dollarsKind(),
			"Maximum cost per day; 0 means no limit.").byEnv("CLAUDEOPS_BUDGET_DAY_USD").or("25"),
	))
}

func (c *Config) approvalSettings() []field {
	a := &c.shared.Approval
	return under(
		"escalation.approval",
		value("expiry", &a.Expiry, waitKind(), "How long an approval request stays open; 0 means no limit. One that nobody answered ends "+
			"its cycle, which then needs a human.").or("24h"),
	)
}

func (c *Config) recoverySettings() []field {
	return []field{
		value("recovery.enabled", &c.shared.Recovery.Enabled, boolKind(),
			"`off` ends a cycle at its first failure; the next cycle tries again.").
			byEnv("CLAUDEOPS_RECOVERY").or("on"),
		value("recovery.limits.total_time", &c.shared.Recovery.Limits.TotalTime, durationKind(0),
			"Maximum time for all recovery in one cycle.").or("1h"),
	}
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
		value("scenario", &a.Scenario, nameOrPath(func(text string) bool { return strings.HasPrefix(text, "builtin:") }),
			"Scenario for the scripted agent: a built-in one (`builtin:demo`), or the path of a file."),
		value("env", &a.Env, variableNamesKind(), "Names of additional environment variables that are passed to the agent."),
		value("api_key", &a.APIKey, tokenKind(),
			"API key. A proxy of the supervisor adds it to what the agent CLI asks; the CLI gets a token for its session.").
			byEnv("ANTHROPIC_API_KEY").hiddenValue(),
		value("oauth_token", &a.OAuthToken, tokenKind(),
			"OAuth token, held like the key.").byEnv("CLAUDE_CODE_OAUTH_TOKEN").hiddenValue(),
		value("base_url", &a.BaseURL, webURLKind(), "URL of the API that agents use.").byEnv("ANTHROPIC_BASE_URL"),
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
		},
		under("grouping", w.groupingFields(true)...),
		[]field{
			maintenanceField(&w.maintenance,
				"Times in which failures start no cycle. See [Watching](#watching-in-detail).").showing(c.showMaintenance),
			value("deadman.ping_url", &e.PingURL, webURLKind(),
				"URL that is requested after each finished cycle, for an external monitor that alerts when the requests stop.").
				byEnv("CLAUDEOPS_PING_URL").hiddenValue(),
			value("webhooks.secret", &e.WebhookSecret, tokenKind(),
				"Key with which senders sign their requests (HMAC SHA-256), instead of sending `api_token`. See [webhooks.md](webhooks.md).").
				byEnv("CLAUDEOPS_WEBHOOK_SECRET").hiddenValue(),
			list("webhooks.senders", &e.AlertSenders, senderFields, c.finishSender,
				"Programs with an address and ids of their own. See [Senders of alerts](#senders-of-alerts)."),
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
		value("sessions", &h.Sessions, intKind(0, 10_000),
			"Maximum number of cycles that this host runs at once, each with at most one agent. Other cycles wait in the queue.").
			byEnv("CLAUDEOPS_MAX_SESSIONS").or("0").orElse("two for each core, at least 4"),
	))
}

func (c *Config) inventorySettings() []field {
	return []field{
		servicesField(&c.inventory, "The services to watch. See [Services](#services).").showing(c.showServices),
		list("environments", &c.environments, c.environmentFields, c.finishEnvironment,
			"Environments, each with its own state folder. See [Environments](#environments).").orElse("one, named `default`"),
	}
}

func (c *Config) guardSettings() []field {
	g := &c.Guard
	return slices.Concat(under(
		"guard",
		value("enabled", &g.Enabled, boolKind(),
			"Check every tool call in code, before the CLI and before the shell runs it. A call that was not allowed stops the session.").
			byEnv("CLAUDEOPS_GUARD").or("on"),
		value("rules", &g.Rules, textFileKind("give the path of a file with rules, or remove the setting"),
			"File with your own rules. Each rule has examples that are checked at start. See [security.md](security.md#your-own-rules).").
			orElse("none"),
		value("hosts", &g.Hosts, wordsKind("host names"), "Hosts that an agent may reach with ssh."),
	), under(
		"docker",
		value("broker", &c.Docker.Broker, choiceKind("a choice for the Docker broker", DockerAuto, DockerOn, DockerOff),
			"Give agents their own Docker socket, on which each request is checked. `auto`: if `docker.socket` exists. Needs the guard. "+
				"See [security.md](security.md#the-docker-broker).").
			or(string(DockerAuto)),
		value("socket", &c.Docker.Socket, socketKind(),
			"Unix socket of the Docker or Podman API: the one for probes, agents, actions and updates.").or(DefaultDockerSocket),
	), under(
		"cooldown",
		value("restarts", &g.Limits[0], limitKind(ops.CountsRestart), "Maximum restarts of one service within a sliding window.").or("2 per 4h"),
		value("redeployments", &g.Limits[1], limitKind(ops.CountsRedeployment), "The same for redeployments.").or("1 per 24h"),
	))
}

func (c *Config) sandboxSettings() []field {
	s := &c.Guard.Sandbox
	return under(
		"sandbox",
		value("mode", &s.Mode, choiceKind("a mode of the sandbox", SandboxAuto, SandboxRequired, SandboxOff),
			"Walls of the operating system around agents and their commands. `auto`: every wall that this machine offers. `required`: no "+
				"session starts if a wall is missing. `off`: only the layers named below, and a human is asked before every session above Tier 1. "+
				"See [security.md](security.md#walls-of-the-operating-system).").
			byEnv("CLAUDEOPS_SANDBOX").or("auto").forSection(),
		value("uid", &s.UID, uidKind(),
			"User id that runs the agents; 0 means the supervisor's. `auto`: the user `"+AgentUserName+"` where it exists and the "+
				"supervisor is root.").
			or("auto"),
		value("writable", &s.Writable, foldersKind(), "Folders that agents and their commands may change from Tier 3 on."),
		value("agent_folders", &s.Folders, foldersKind(),
			"Folders that the agent program may change at every tier, such as a cache. Commands behind the guard may not.").
			byEnv("CLAUDEOPS_SANDBOX_AGENT_FOLDERS"),
		value("readable", &s.Readable, foldersKind(),
			"Folders and files that agents and their commands may read, beside the files of the system, its logs and `repos_dir`. In a folder "+
				"only what others may read (mode o+r); a file that is named itself opens."),
		value("hidden", &s.Hidden, foldersKind(),
			"Files and folders that agents and their commands may not read, though they lie in one they may."),
		value("network", &s.Network, choiceKind("a mode of the network", NetworkServices, NetworkOpen, NetworkNone),
			"What sessions reach. `services`: the addresses of declared services and probes, listed hosts, and the model's API, through the "+
				"supervisor. `none`: the model's API only. `open`: everything that this machine reaches; a human is asked before every session above "+
				"Tier 1. See [security.md](security.md#the-network).").
			or(string(NetworkServices)),
		value("network_hosts", &s.Hosts, wordsKind("hosts"),
			"More hosts that sessions reach: `name` or `*.name` by https, `name:port` with any protocol. They can receive data."),
	)
}

// autoUID means the user that this machine has for agents.
const autoUID = -1

// uidKind reads a user id or auto.
func uidKind() kind[int] {
	k := intKind(0, 1<<31-1)
	number, show := k.parse, k.format
	k.name = "`auto` or a user id"
	k.schema = map[string]any{"anyOf": []any{k.schema, map[string]any{"const": "auto"}}}
	k.parse = func(p places, v raw) (int, []fault) {
		if v.text == "auto" {
			return autoUID, nil
		}
		return number(p, v)
	}
	k.format = func(uid int) string {
		if uid == autoUID {
			return "auto"
		}
		return show(uid)
	}
	return k
}

// foldersKind reads paths, relative to the place where they are given.
func foldersKind() kind[[]string] {
	return listOf("paths, separated by commas", splitAtCommas, pathKind())
}

func (c *Config) noticeSettings() []field {
	return []field{
		value("notify.apprise_urls", &c.AppriseURLs, appriseKind(),
			"Notification targets. Those of `notify.apprise_urls_file` are added. See [Notifications](notifications.md).").
			byEnv("CLAUDEOPS_APPRISE_URLS").hiddenValue(),
		value("notify.apprise_api", &c.AppriseAPI, webURLKind(),
			"Apprise API server that sends notifications, instead of the `apprise` program.").
			byEnv("CLAUDEOPS_APPRISE_API"),
		value("listen", &c.Listen, listenKind(), "Address of the web pages and the API. An address other than loopback needs `api_token`.").
			byEnv("CLAUDEOPS_LISTEN").or("127.0.0.1:8080"),
		value("api_token", &c.APIToken, tokenKind(),
			"Bearer token for the API and webhooks, and the login for the web pages; at least 20 characters. "+
				"Without it the daemon makes one at its first start: `api-token` in the state folder.").
			byEnv("CLAUDEOPS_API_TOKEN").hiddenValue(),
		value("notify.second_urls", &c.Edges.SecondURLs, appriseKind(), "Notification targets when reminders are not answered.").
			byEnv("CLAUDEOPS_APPRISE_SECOND_URLS").hiddenValue().orElse("the first ones"),
		list("notify.routes", &c.notices, noticeRouteFields, finishNoticeRoute,
			"Other targets for certain notices. See [Notices](#notices)."),
		value("notify.telegram_senders", &c.Edges.TelegramSenders, senderKind(),
			"Telegram users who may answer with buttons, by their numeric ids. Without any, and without responders, Telegram messages "+
				"have no buttons.").
			byEnv("CLAUDEOPS_TELEGRAM_SENDERS"),
		value("notify.telegram_responders", &c.Edges.TelegramResponders, senderKind(),
			"Telegram users who may acknowledge, snooze and deny with buttons, but not approve.").
			byEnv("CLAUDEOPS_TELEGRAM_RESPONDERS"),
		value("notify.approve_by_ntfy", &c.Edges.ApproveByNtfy, boolKind(),
			"Allow approvals with a button of ntfy: everyone who can read the topic can then approve. Otherwise the button opens the page.").
			byEnv("CLAUDEOPS_APPROVE_BY_NTFY").or("false"),
		value("web.public_url", &c.Edges.PublicURL, webURLKind(),
			"URL at which people reach the web pages. Notices then contain links. Needs `api_token`.").
			byEnv("CLAUDEOPS_PUBLIC_URL"),
	}
}

// OIDC is an identity provider with which people sign in.
type OIDC struct {
	Issuer       string // empty: there is none
	ClientID     string
	ClientSecret string
	Admins       []string
	Responders   []string
	Readers      []string
}

// groupPrefix begins an entry that names a group instead of a user.
const groupPrefix = "group:"

// Granted are the users and groups with a role.
type Granted struct {
	Role   access.Role
	Users  []string
	Groups []string
}

// Granted lists the roles that the operator gave.
func (o OIDC) Granted() []Granted {
	var out []Granted
	for _, list := range []struct {
		role    access.Role
		entries []string
	}{{access.RoleAdmin, o.Admins}, {access.RoleResponder, o.Responders}, {access.RoleRead, o.Readers}} {
		if len(list.entries) == 0 {
			continue
		}
		g := Granted{Role: list.role}
		for _, entry := range list.entries {
			if group, ok := strings.CutPrefix(entry, groupPrefix); ok {
				g.Groups = append(g.Groups, group)
			} else {
				g.Users = append(g.Users, entry)
			}
		}
		out = append(out, g)
	}
	return out
}

func (c *Config) signInSettings() []field {
	o := &c.OIDC
	const who = "A user is named by user name, verified email address or subject; `group:NAME` names a group."
	return under(
		"oidc",
		value("issuer", &o.Issuer, webURLKind(),
			"URL of an OpenID Connect provider with which people sign in. Needs `web.public_url`. See [access.md](access.md).").
			byEnv("CLAUDEOPS_OIDC_ISSUER"),
		value("client_id", &o.ClientID, textKind(), "Id of this installation at the provider.").byEnv("CLAUDEOPS_OIDC_CLIENT_ID"),
		value("client_secret", &o.ClientSecret, tokenKind(), "Secret of this installation at the provider; a public client has none.").
			byEnv("CLAUDEOPS_OIDC_CLIENT_SECRET").hiddenValue(),
		value("admins", &o.Admins, wordsKind("users and groups"), "Who may do everything. "+who).byEnv("CLAUDEOPS_OIDC_ADMINS"),
		value("responders", &o.Responders, wordsKind("users and groups"), "Who may acknowledge, snooze and deny.").
			byEnv("CLAUDEOPS_OIDC_RESPONDERS"),
		value("readers", &o.Readers, wordsKind("users and groups"), "Who may only look.").byEnv("CLAUDEOPS_OIDC_READERS"),
	)
}

// checkOIDC checks that a sign-in can work, and that somebody may sign in.
func (l *loader) checkOIDC(c *Config) {
	o := &c.OIDC
	if o.Issuer == "" {
		if o.ClientID != "" {
			l.refuse(&o.ClientID, "set oidc.issuer, or remove the settings of oidc", "no oidc.issuer is set")
		}
		return
	}
	switch u, err := url.Parse(o.Issuer); {
	case err != nil:
	case u.Scheme != "https" && !localHost(u.Hostname()):
		l.refuse(&o.Issuer, "use https://", "without TLS anybody on the way could sign in")
	case o.ClientID == "":
		l.refuse(&o.Issuer, "register this installation at the provider and set oidc.client_id", "no oidc.client_id is set")
	case c.Edges.PublicURL == "":
		l.refuse(&o.Issuer, "set web.public_url", "the provider sends people back to web.public_url, which is not set")
	case len(o.Granted()) == 0:
		l.refuse(&o.Issuer, "set oidc.admins, oidc.responders or oidc.readers", "nobody could sign in: no user or group has a role")
	}
}

func localHost(name string) bool {
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback()
}
