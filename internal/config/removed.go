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
		{"database_direct_url", "CLAUDEOPS_DATABASE_DIRECT_URL", "remove it: database_url leads to PostgreSQL directly, without PgBouncer"},
	}
}

// The number of a list entry in the place of a key.
var listIndex = ops.Pattern(`\[\d+\]`)

const removedMessage = "this setting was removed"

// removedFix says what replaces a setting of an earlier version, by its place in the file.
func removedFix(path string) (fix string, ok bool) {
	path = strings.TrimPrefix(listIndex().ReplaceAllString(path, ""), "environments.")
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
	section := slices.ContainsFunc(removedSettings(), func(r removedSetting) bool { return strings.HasPrefix(r.key, path+".") })
	if !section || value.Kind != yaml.MappingNode {
		return false
	}
	all := true
	for i := 0; i+1 < len(value.Content); i += 2 {
		all = l.refuseRemoved(value.Content[i], follow(value.Content[i+1]), join(path, value.Content[i].Value)) && all
	}
	return all
}
