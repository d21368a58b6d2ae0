package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"claudeops/internal/ops"
)

// The API takes a schema only in a strict form: every object closed, every property required. What our schema leaves
// optional becomes nullable there, and the nulls are taken out of the answer again.

// object is a JSON object, also one that is a schema.
type object = map[string]any

// unsupported are the keywords the strict form does not know. The supervisor checks the answer itself.
func unsupported() []string {
	return []string{
		"$schema", "$id", "title", "default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties",
		"if", "then", "else",
	}
}

// strictSchema turns a schema into the strict form.
func strictSchema(text string) ([]byte, error) {
	schema, err := decode(text)
	if err != nil {
		return nil, err
	}
	return []byte(ops.JSON(strict(schema), "") + "\n"), nil
}

func decode(text string) (object, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v object
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("read JSON: there is text behind it")
	}
	return v, nil
}

func strict(schema object) object {
	out := maps.Clone(schema)
	for _, key := range unsupported() {
		delete(out, key)
	}
	if value, ok := out["const"]; ok {
		delete(out, "const")
		out["enum"] = []any{value}
	}
	if items, ok := out["items"].(object); ok {
		out["items"] = strict(items)
	}
	if out["type"] != "object" {
		return out
	}
	properties, _ := out["properties"].(object)
	closed := object{}
	for key, value := range properties {
		property, ok := value.(object)
		switch {
		case !ok:
			closed[key] = value
		case slices.Contains(required(schema), key):
			closed[key] = strict(property)
		default:
			closed[key] = nullable(strict(property))
		}
	}
	out["properties"] = closed
	out["required"] = slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(closed))))
	out["additionalProperties"] = false
	return out
}

// nullable lets a property be null where our own schema lets it be left out.
func nullable(property object) object {
	if text, ok := property["description"].(string); ok {
		property["description"] = text + " Use null to leave it out."
	}
	return object{"anyOf": []any{property, object{"type": "null"}}}
}

func required(schema object) []string {
	list, _ := schema["required"].([]any)
	var out []string
	for _, v := range list {
		if name, ok := v.(string); ok {
			out = append(out, name)
		}
	}
	return out
}

// normalized reads the answer as our own schema means it. It returns nothing when the answer is not a JSON object.
func normalized(schemaText, answer string) []byte {
	schema, err := decode(schemaText)
	if err != nil {
		return nil
	}
	value, err := decode(answer)
	if err != nil || value == nil {
		return nil
	}
	withoutNulls(schema, value)
	return []byte(ops.JSON(value, ""))
}

// withoutNulls removes the nulls of optional fields. A null for a required field stays, and is refused later.
func withoutNulls(schema object, value any) {
	switch v := value.(type) {
	case object:
		properties, _ := schema["properties"].(object)
		for key, member := range v {
			property, _ := properties[key].(object)
			switch {
			case member == nil && property != nil && !slices.Contains(required(schema), key):
				delete(v, key)
			case property != nil:
				withoutNulls(property, member)
			}
		}
	case []any:
		items, _ := schema["items"].(object)
		for _, member := range v {
			withoutNulls(items, member)
		}
	}
}
