package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Reference renders docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, group := range []struct {
		title string
		rows  []setting
	}{
		{"General", generalSettings()},
		{"Tiers", tierSettings()},
		{"Handlers and roles", handlerSettings()},
		{"Escalation, limits and budgets", escalationSettings()},
		{"Approvals", approvalSettings()},
		{"Recovery", recoverySettings()},
		{"Agent and secrets", agentSettings()},
		{"Guard and cooldowns", guardSettings()},
		{"Walls", sandboxSettings()},
		{"Watching", watchSettings()},
		{"What is kept", retentionSettings()},
		{"Database and hosts", hostSettings()},
		{"Notifications and web", append(edgeSettings(), noticeSettings()...)},
		{"Inventory", inventorySettings()},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| key | variable | takes | default | meaning |\n|---|---|---|---|---|\n", group.title)
		for _, s := range group.rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.key, referenceEnv(s), s.kind.name, referenceDefault(s), s.doc)
		}
	}
	b.WriteString(referenceHandlers)
	referenceFields(&b, "A handler", handlerFields())
	referenceFields(&b, "Its limits", handlerLimitFields())
	b.WriteString(referenceRoutes)
	referenceFields(&b, "A route", routeFields())
	referenceFields(&b, "A model", modelFields())
	b.WriteString(referenceRules)
	referenceFields(&b, "A rule", ruleFields())
	b.WriteString(referencePrices)
	referencePriceTable(&b)
	b.WriteString(referenceServices)
	referenceFields(&b, "A service", serviceFields())
	referenceFields(&b, "A probe", probeFields())
	b.WriteString(referenceWatch)
	referenceFields(&b, "A time of maintenance", maintenanceFields())
	b.WriteString(referenceNotices)
	referenceFields(&b, "A route of notices", noticeRouteFields())
	b.WriteString(referenceEnvironments)
	referenceFields(&b, "An environment", environmentFields())
	b.WriteString(referenceTools)
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		lists := defaultTools(t, ops.ContextResume)
		fmt.Fprintf(&b, "\n### %s: %s\n\nTools, all allowed: `%s`.\n\nDisallowed:\n\n```\n%s\n```\n",
			t, strings.ToLower(t.Title()), strings.Join(lists.Tools, ","), strings.Join(lists.Disallowed, "\n"))
	}
	return b.String()
}

func referenceEnv(s setting) string {
	if s.env == "" {
		return "–"
	}
	text := "`" + s.env + "`"
	if s.secret {
		text += ", `" + s.fileEnv() + "`"
	}
	return text
}

func referenceDefault(s setting) string {
	switch {
	case s.shown != "":
		return s.shown
	case s.def != "":
		return "`" + s.def + "`"
	default:
		return "none"
	}
}

func referenceFields(b *strings.Builder, title string, fields []field) {
	fmt.Fprintf(b, "\n%s:\n\n| key | default | meaning |\n|---|---|---|\n", title)
	for _, f := range fields {
		def := f.def
		if def == "" {
			def = "none"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.name, def, f.doc)
	}
}

func referencePriceTable(b *strings.Builder) {
	referenceFields(b, "A model", priceFields())
	b.WriteString("\nBuilt in:\n\n| model | input | output | cache read | cache write |\n|---|---|---|---|---|\n")
	prices := builtInPrices()
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		p := prices[name]
		fmt.Fprintf(b, "| `%s` | %g | %g | %g | %g |\n", name, p.Input, p.Output, p.CacheRead, p.CacheWrite)
	}
}

const referenceHead = `# Configuration

<!-- Generated from internal/config. Change it there, then run: go test ./internal/config -update -->

A value given by a flag wins over one of the environment, that over one of the YAML file, and that over the default.
The YAML file is the first of these that applies: the path given by ` + "`--config`" + `, the one in ` + "`CLAUDEOPS_CONFIG`" + `,
` + "`./claudeops.yaml`" + `, ` + "`$XDG_CONFIG_HOME/claudeops/claudeops.yaml`" + `.

- ` + "`claudeops config check`" + ` tells everything that is wrong, with file, line and column. Unknown keys are
  errors, and so are misspelled ` + "`CLAUDEOPS_*`" + ` variables; one that resembles none of ours is mentioned at start. ` + "`claudeops config show --origin`" + ` tells where each value came from.
- Every value that is given is checked, also one that a stronger source hides.
- A dot in a key is one level of the file: ` + "`limits.idle`" + ` is ` + "`idle`" + ` below ` + "`limits`" + `. A variable that is set but empty
  counts as not set.
- A secret can be read from a file: add ` + "`_FILE`" + ` to its variable, or ` + "`_file`" + ` to its key. It is never a flag itself.
- A relative path in the file is relative to the folder of the file, elsewhere to the working folder. ` + "`~/`" + ` is your
  home folder.
- A flag is named like its variable: ` + "`CLAUDEOPS_MAX_TIER`" + ` is ` + "`--max-tier`" + `.

` + "```yaml" + `
interval: 15m
dry_run: true
tiers:
  1: {model: haiku}
  2: {model: sonnet}
limits: {session: 20m}
budget: {chain_usd: 2}
notify:
  apprise_urls_file: /run/secrets/apprise
services:
  - name: web
    aliases: [nginx]
    probes:
      - {type: http, url: "http://127.0.0.1:8081/health", expect_status: 200, slow_after: 2s}
` + "```" + `
`

const referenceHandlers = `
## Handlers

A handler owns work: an agent with a model and the permissions of a tier, or a human. It may hand over only to those it names, always to a
higher tier; who gets the work is validated in code, whatever a model proposes. Without ` + "`handlers`" + ` there are the three tiers, each handing to
the next; this is the same, written out:

` + "```yaml" + `
handlers:
  - {id: tier1, tier: 1, agent: claude, model: haiku, hands_to: [tier2]}
  - {id: tier2, tier: 2, agent: claude, model: sonnet, hands_to: [tier3]}
  - {id: tier3, tier: 3, agent: claude, model: opus}
` + "```" + `

The folder ` + "`examples`" + ` holds whole configurations: three tiers, review by another family, a manager, approval by a human. At start, and by
` + "`claudeops config check`" + `, the registry is refused with line and fix when a target or role is unknown, an id is used twice, handoffs form a cycle
or go to the same or a lower tier, a handler can never be reached, permissions are above the tier, a route cannot be as independent as it
demands, a judge is of the same family as everybody it would judge, a manager does work, ` + "`max_depth`" + ` cuts a chain, or a human
cannot be told because no notification target is set. ` + "`claudeops handlers list`" + ` and ` + "`claudeops handlers graph`" + ` show what is in force.

The prompts and tool lists of ` + "`tiers`" + ` hold for every handler with the permissions of that tier, and its model for a handler that names none.
`

const referenceRules = `
## Recovery rules

A failure of an agent enters the recovery ladder by a built-in table. What that does not recognize can be given a level of its own; all conditions
of a rule must hold, and the first rule that does decides. Only the agent's own failure is looked at, never the text of a service.

` + "```yaml" + `
recovery:
  rules:
    - {id: proxy-reset, contains: "upstream connect error", level: retry, why: our proxy drops idle connections}
    - {id: wrapper-77, exit_code: 77, level: fallback}
` + "```" + `
`

const referencePrices = `
## Prices

What a model costs in US dollars per million tokens. The table is used where an agent CLI does not tell the cost itself (Codex), and for
estimates while a session runs. Makers change their prices: the built-in figures are list prices that **you must keep current** with
entries of your own, which replace them. A model without a price has no cost, and no budget can hold it.

` + "```yaml" + `
prices:
  gpt-5: {input: 1.25, output: 10, cache_read: 0.125}
` + "```" + `

A name that ends in a date, or in ` + "`-latest`" + `, has the price of the name without it.
`

const referenceRoutes = `
## Routes and models

A conversation that read text of strangers can be cut off at a route: the next tier then gets the typed facts only. A route can also demand
another family than the one that hands over, or that a human agrees first.

` + "```yaml" + `
escalation:
  mode: resume
  routes:
    - {from: tier2, to: tier3, mode: handoff, approval: required}
models:
  - {name: haiku, context_window: 200000}
` + "```" + `

A model that stands in no table and that no agent CLI reported is taken to have 200,000 tokens.
`

const referenceServices = `
## Services

A plain list, or a mapping with the list under ` + "`list`" + `. With ` + "`strict: true`" + ` a handoff that names any other service is
refused; otherwise that is a warning.

` + "```yaml" + `
services:
  strict: true
  list:
    - name: db
      probes:
        - {type: postgres, url: "postgres://monitor@127.0.0.1/app", password_file: /run/secrets/monitor}
        - {type: command, command: [pg_isready, -q], timeout: 5s}
    - name: web
      depends_on: [db]
      probes:
        - {type: http, url: "https://example.org/health", expect_json: ["$.status == \"ok\""], cert_days: 14, slow_after: 2s, interval: 1m}
        - {type: container, container: web, max_restarts: 2}
` + "```" + `
`

const referenceEnvironments = `
## Environments

Without this list there is one environment named ` + "`default`" + ` with the values above. A ` + "`repos_dir`" + ` or ` + "`interval`" + ` set by
a variable or flag holds for every environment.
`

const referenceTools = `
## Default tool lists

` + "`allowed_tools`" + ` and ` + "`disallowed_tools`" + ` of a tier replace these. The patterns are a hint to the agent, not a wall: a
command can be spelled in many ways. In mode ` + "`handoff`" + ` Tier 1 is also given ` + "`Write`" + `, for the handoff file.
`
