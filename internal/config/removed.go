package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// removedSetting is a setting of an earlier version. It is refused with what to do instead, so that nobody believes it still holds.
type removedSetting struct {
	key string // dotted, without the numbers of list entries
	env string // its variable; empty: it had none
	fix string
}

func removedSettings() []removedSetting {
	return []removedSetting{
		{
			"database_direct_url", "CLAUDEOPS_DATABASE_DIRECT_URL",
			"connect to PostgreSQL directly with database_url, without PgBouncer, and remove it",
		},
		{"escalation.process", "", "a manager that is named with escalation.manager chooses; remove it"},
		{"escalation.approval.reminds", "", "it is fixed at 3 now; remove it"},
		{"recovery.limits.retries", "", "it is fixed at 3 now; remove it"},
		{"recovery.limits.retry_time", "", "it is fixed at 30s now; remove it"},
		{"recovery.limits.nudges", "", "it is fixed at 3 now; remove it"},
		{"recovery.limits.nudge_time", "", "it is fixed at 5m now; remove it, or set recovery.limits.total_time"},
		{"recovery.limits.replan_time", "", "it is fixed at 15m now; remove it, or set recovery.limits.total_time"},
		{"recovery.limits.fallback_time", "", "it is fixed at 20m now; remove it, or set recovery.limits.total_time"},
		{"recovery.rules.error_type", "", "failures are recorded under the id of the rule; rename the rule, and remove it"},
		{"flapping.turns", "", "it is fixed at 6 within 30m now; remove it"},
		{"flapping.window", "", "it is fixed at 30m now; remove it"},
		{"flapping.calm", "", "it is fixed at 10m now; remove it"},
		{"watch.settle_max", "", "it is fixed at 2m now; remove it, and give settle to a service that needs less"},
		{"deadman.missed", "", "it is fixed at 3 intervals now; remove it"},
		{"retention.health_hours", "", "it follows retention.events now; remove it, or set that"},
		{"retention.guard", "", "it follows retention.events now; remove it, or set that"},
		{"retention.notices", "", "it follows retention.events now; remove it, or set that"},
		{"retention.alerts", "", "it follows retention.events now; remove it, or set that"},
		{"retention.max_rows", "", "it is fixed at 5000000 now; remove it"},
		{"sandbox.processes", "", "it is fixed at 2048 now; remove it, or limit sandbox.memory_mb"},
		{"oidc.name", "", "the login page names the host of oidc.issuer; remove it"},
		{"events.source", "", "it is web.public_url, or /claudeops; remove it, and set that"},
		{"services.actions.prefix", "", "branches begin with claudeops/ now; remove it, and let the remote accept that"},
	}
}

// The number of a list entry in the place of a key.
var listIndex = ops.Pattern(`\[\d+\]`)

const removedMessage = "this setting was removed"

// plainPath is the place of a key without the numbers of list entries. What an environment has of its own is named like the general
// setting.
func plainPath(path string) string {
	return strings.TrimPrefix(listIndex().ReplaceAllString(path, ""), "environments.")
}

// removedFix says what replaces a setting of an earlier version, by its place in the file.
func removedFix(path string) (fix string, ok bool) {
	path = plainPath(path)
	for _, r := range removedSettings() {
		if r.key == path || r.key+"_"+fileSuffix == path && r.env != "" {
			return r.fix, true
		}
	}
	return "", false
}

// removedVariable says what replaces a variable of an earlier version.
func removedVariable(name string) (r removedSetting, ok bool) {
	for _, r := range removedSettings() {
		if r.env != "" && strings.TrimSuffix(name, "_FILE") == r.env {
			return r, true
		}
	}
	return removedSetting{}, false
}

// RemovedFlag says what replaces the flag of a setting of an earlier version, or nothing.
func RemovedFlag(flag string) string {
	for _, r := range removedSettings() {
		if name := (field{key: r.key, env: r.env}).flag(); flag == name || flag == name+"-"+fileSuffix {
			return "--" + flag + " was removed: " + r.fix
		}
	}
	return ""
}

// refuseRemoved reports a key that was removed, or those below a section that was removed as a whole.
func (l *loader) refuseRemoved(key, value *yaml.Node, path string) bool {
	if fix, ok := removedFix(path); ok {
		l.problems.add(l.position(key), path, removedMessage, fix)
		return true
	}
	section := slices.ContainsFunc(removedSettings(), func(r removedSetting) bool { return strings.HasPrefix(r.key, plainPath(path)+".") })
	if !section || value.Kind != yaml.MappingNode {
		return false
	}
	all := true
	for i := 0; i+1 < len(value.Content); i += 2 {
		all = l.refuseRemoved(value.Content[i], follow(value.Content[i+1]), join(path, value.Content[i].Value)) && all
	}
	return all
}
