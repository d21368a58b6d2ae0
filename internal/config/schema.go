package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"claudeops/internal/ops"
)

// DefaultTools describes the tool lists of the tiers where the operator gives none.
func DefaultTools() string {
	var b strings.Builder
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		lists := defaultTools(t, ops.ContextResume)
		fmt.Fprintf(&b, "\n%s, %s. Tools: %s\nDisallowed:\n  %s\n",
			t, strings.ToLower(t.Title()), strings.Join(lists.Tools, ","), strings.Join(lists.Disallowed, "\n  "))
	}
	return b.String()
}

// SchemaID names the schema of the configuration file.
const SchemaID = "https://claudeops.dev/schemas/config/v1.json"

// Schema is the JSON Schema of the configuration file, for editors. It is made from the same table as everything else; what
// only several settings together get wrong is reported by the check alone.
func Schema() ([]byte, error) {
	root := section()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "claudeops.yaml"
	root["description"] = "Configuration of Claude Ops."
	for _, f := range newConfig().settings() {
		insert(root, f.key, fieldSchema(f))
		if f.secret {
			insert(root, f.fileKey(), map[string]any{"type": "string", "description": "File that holds: " + f.doc})
		}
	}
	properties := root["properties"].(map[string]any)
	for _, f := range newConfig().settings() {
		if name, _, _ := strings.Cut(f.key, "."); f.alone {
			properties[name] = map[string]any{"anyOf": []any{fieldSchema(f), properties[name]}}
		}
	}
	return json.MarshalIndent(root, "", "  ")
}

// section is the schema of keys that have no values yet.
func section() map[string]any {
	return map[string]any{"type": []any{"object", "null"}, "properties": map[string]any{}, "additionalProperties": false}
}

// insert puts the schema of a key below its sections.
func insert(into map[string]any, key string, schema map[string]any) {
	name, rest, deeper := strings.Cut(key, ".")
	properties := into["properties"].(map[string]any)
	if !deeper {
		properties[name] = schema
		return
	}
	if properties[name] == nil {
		properties[name] = section()
	}
	insert(properties[name].(map[string]any), rest, schema)
}

// fieldSchema is what a field takes, with its description and its default.
func fieldSchema(f field) map[string]any {
	out := maps.Clone(f.schema())
	out["description"] = f.meaning()
	switch {
	case f.def == "":
	case f.isBool():
		out["default"] = f.def == "true" || f.def == "on"
	case out["type"] == "integer" || out["type"] == "number":
		out["default"] = json.Number(f.def)
	default:
		out["default"] = f.def
	}
	return out
}

// objectSchema is an object with fields. Which of them only some types of entries need is left to the check.
func objectSchema(fields []field) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, f := range fields {
		properties[f.key] = fieldSchema(f)
		if f.required && f.only == nil {
			required = append(required, f.key)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func arrayOf(item map[string]any) map[string]any {
	return map[string]any{"type": []any{"array", "null"}, "items": item}
}

// singleSchema is a text; YAML reads some texts as numbers or as true and false.
func singleSchema() map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"}}
}

// listSchema is a list, one entry alone, or a text that is split.
func listSchema(item map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{item, map[string]any{"type": "string"}, map[string]any{"type": "array", "items": item}}}
}

// hidden replaces a secret that is set.
const hidden = "[redacted]"

// Setting is one effective value, for listings.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // secrets are redacted
	Origin string `json:"origin"` // default, file:line, environment NAME, or flag --name
	Env    string `json:"env,omitempty"`
	Doc    string `json:"doc"`
}

// Show lists every setting with its value and where that came from.
func (c *Config) Show() []Setting {
	out := make([]Setting, len(c.table))
	for i, f := range c.table {
		text := f.text()
		switch {
		case f.secret && text != "":
			text = hidden
		case strings.Contains(text, "://"):
			text = withoutPassword(text)
		}
		out[i] = Setting{Key: f.key, Value: text, Origin: c.origins[f.key].String(), Env: f.env, Doc: f.doc}
	}
	return out
}

// Flag is a setting that can be given on the command line.
type Flag struct {
	Key     string // for Input.Flags
	Name    string // without dashes
	Env     string
	Default string
	Doc     string
	Bool    bool // may be given without a value
}

// flagged are all settings. Every command asks for some of them, so they are made once.
var flagged = sync.OnceValue(func() table { return newConfig().settings() })

// Flags lists the settings that have a flag: all except lists of objects. Of a secret only its file can be given. With keys it lists only
// those.
func Flags(keys ...string) []Flag {
	var out []Flag
	for _, f := range flagged() {
		switch {
		case f.structured(), len(keys) > 0 && !slices.Contains(keys, f.key):
		case f.secret:
			out = append(out, Flag{Key: f.fileKey(), Name: f.flag() + "-" + fileSuffix, Env: f.fileEnv(), Doc: "File that holds: " + f.doc})
		default:
			out = append(out, Flag{Key: f.key, Name: f.flag(), Env: f.env, Default: f.def, Doc: f.doc, Bool: f.isBool()})
		}
	}
	return out
}
