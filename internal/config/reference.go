package config

import (
	"fmt"
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
		{"Escalation, limits and budgets", escalationSettings()},
		{"Agent and secrets", agentSettings()},
		{"Guard and cooldowns", guardSettings()},
		{"Walls", sandboxSettings()},
		{"Notifications, database and web", edgeSettings()},
		{"Inventory", inventorySettings()},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| key | variable | takes | default | meaning |\n|---|---|---|---|---|\n", group.title)
		for _, s := range group.rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.key, referenceEnv(s), s.kind.name, referenceDefault(s), s.doc)
		}
	}
	b.WriteString(referenceRoutes)
	referenceFields(&b, "A route", routeFields())
	referenceFields(&b, "A model", modelFields())
	b.WriteString(referenceServices)
	referenceFields(&b, "A service", serviceFields())
	referenceFields(&b, "A probe", probeFields())
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

const referenceRoutes = `
## Routes and models

A conversation that read text of strangers can be cut off at a route: the next tier then gets the typed facts only.

` + "```yaml" + `
escalation:
  mode: resume
  routes:
    - {from: tier2, to: tier3, mode: handoff}
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
        - {type: tcp, address: "127.0.0.1:5432"}
        - {type: command, command: [pg_isready, -q], timeout: 5s}
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
