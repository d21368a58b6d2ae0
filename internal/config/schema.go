package config

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// SchemaID names the schema of the configuration file.
const SchemaID = "https://claudeops.dev/schemas/config/v1.json"

var (
	rangeName  = regexp.MustCompile(`^(\d+) to (\d+)$`)
	choiceName = regexp.MustCompile("^`[^`]+`(?:(?:, | or )`[^`]+`)*$")
	quotedWord = regexp.MustCompile("`([^`]+)`")
)

// Schema is the JSON Schema of the configuration file, for editors. It is made from the same table as everything else; what
// only several settings together get wrong is told by the check alone.
func Schema() ([]byte, error) {
	root := object("Configuration of Claude Ops.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "claudeops.yaml"
	for _, s := range settings() {
		place(root, s.key, s.schema())
		if s.also != "" {
			place(root, s.also, s.schema())
		}
		if s.secret {
			place(root, s.fileKey(), map[string]any{"type": "string", "description": "File that holds: " + s.doc})
		}
	}
	return json.MarshalIndent(root, "", "  ")
}

func object(doc string) map[string]any {
	return map[string]any{"type": []any{"object", "null"}, "description": doc, "properties": map[string]any{}, "additionalProperties": false}
}

// place puts the schema of a key where the key stands, below its sections. Both are made by object.
func place(into map[string]any, key string, schema map[string]any) {
	section, rest, deeper := strings.Cut(key, ".")
	properties := into["properties"].(map[string]any)
	if !deeper {
		properties[section] = schema
		return
	}
	below, known := properties[section].(map[string]any)
	if !known {
		below = object("")
		delete(below, "description")
		properties[section] = below
	}
	place(below, rest, schema)
}

func (s setting) schema() map[string]any {
	out := s.kind.schema()
	if s.structured {
		out = structure(s.key)
	}
	out["description"] = s.doc
	if s.def != "" {
		out["default"] = s.def
	}
	return out
}

// schema is what a kind takes, as its name in the reference says.
func (k kind) schema() map[string]any {
	if m := rangeName.FindStringSubmatch(k.name); m != nil {
		low, _ := strconv.Atoi(m[1])
		high, _ := strconv.Atoi(m[2])
		return map[string]any{"type": "integer", "minimum": low, "maximum": high}
	}
	switch {
	case k.list:
		word := map[string]any{"type": []any{"string", "number"}}
		return map[string]any{"anyOf": []any{word, map[string]any{"type": "array", "items": word}}}
	case k.name == boolKind().name:
		return map[string]any{"type": "boolean"}
	case strings.HasPrefix(k.name, durationKind(0).name):
		return map[string]any{"type": []any{"string", "integer"}}
	case k.name == shareKind().name:
		return map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}
	case k.name == dollarsKind().name:
		return map[string]any{"type": "number", "minimum": 0}
	case choiceName.MatchString(k.name):
		var words []any
		for _, m := range quotedWord.FindAllStringSubmatch(k.name, -1) {
			words = append(words, m[1])
		}
		return map[string]any{"enum": words}
	}
	return map[string]any{"type": []any{"string", "number", "boolean"}}
}

// structure is the schema of a setting that is a list of objects.
func structure(key string) map[string]any {
	switch key {
	case "handlers":
		handler := objectOf(handlerFields())
		nest(handler, "limits", objectOf(handlerLimitFields()))
		return listOf(handler)
	case "escalation.routes":
		return listOf(objectOf(routeFields()))
	case "models":
		return listOf(objectOf(modelFields()))
	case "prices":
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": objectOf(priceFields())}
	case "recovery.rules":
		return listOf(objectOf(ruleFields()))
	case "maintenance":
		return listOf(objectOf(maintenanceFields()))
	case "notify.routes":
		return listOf(objectOf(noticeRouteFields()))
	case "services":
		return servicesSchema()
	case "environments":
		environment := objectOf(environmentFields())
		nest(environment, "services", servicesSchema())
		return listOf(environment)
	}
	return map[string]any{}
}

// servicesSchema takes both forms: a list, or an object with the list in it.
func servicesSchema() map[string]any {
	service := objectOf(serviceFields())
	nest(service, "probes", listOf(objectOf(probeFields())))
	whole := object("")
	whole["properties"] = map[string]any{"strict": boolKind().schema(), "list": listOf(service)}
	return map[string]any{"anyOf": []any{listOf(service), whole}}
}

func listOf(item map[string]any) map[string]any {
	return map[string]any{"type": []any{"array", "null"}, "items": item}
}

func objectOf(fields []field) map[string]any {
	properties := map[string]any{}
	for _, f := range fields {
		properties[f.name] = map[string]any{"description": f.doc}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

// nest gives a field of what objectOf made a schema of its own, if there is such a field.
func nest(in map[string]any, name string, schema map[string]any) {
	properties := in["properties"].(map[string]any)
	if field, known := properties[name].(map[string]any); known {
		schema["description"] = field["description"]
		properties[name] = schema
	}
}
