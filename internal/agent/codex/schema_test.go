package codex

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	reports "claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

func TestTheStrictSchemaIsClosedEverywhere(t *testing.T) {
	t.Parallel()
	text, err := strictSchema(reports.Inline(ops.Tier1))
	must(t, err)
	var schema any
	must(t, json.Unmarshal(text, &schema))
	objects := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] == "object" {
				objects++
				properties, _ := v["properties"].(map[string]any)
				required, _ := v["required"].([]any)
				if v["additionalProperties"] != false || properties == nil || required == nil || len(required) != len(properties) {
					t.Errorf("%s is open: %v", path, v)
				}
			}
			for key, member := range v {
				if slices.Contains(unsupported(), key) && !strings.HasSuffix(path, "/properties") {
					t.Errorf("%s holds %s", path, key)
				}
				walk(path+"/"+key, member)
			}
		case []any:
			for _, member := range v {
				walk(path+"/-", member)
			}
		}
	}
	walk("", schema)
	if objects < 6 {
		t.Errorf("only %d objects were looked at", objects)
	}
}

func TestStrictSchema(t *testing.T) {
	t.Parallel()
	got, err := strictSchema(`{"$id":"x","type":"object","required":["a"],"properties":{
		"a":{"type":"string","minLength":1},"b":{"type":"integer","description":"B."},"c":{"const":1},
		"d":{"type":"array","items":{"type":"object","properties":{"e":{"type":"string"}}}}}}`)
	must(t, err)
	const null = `{"type":"null"}`
	want := `{"additionalProperties":false,"properties":{"a":{"type":"string"},` +
		`"b":{"anyOf":[{"description":"B. Use null to leave it out.","type":"integer"},` + null + `]},` +
		`"c":{"anyOf":[{"enum":[1]},` + null + `]},` +
		`"d":{"anyOf":[{"items":{"additionalProperties":false,"properties":{"e":{"anyOf":[{"type":"string"},` + null + `]}},"required":["e"],"type":"object"},"type":"array"},` + null + `]}},` +
		`"required":["a","b","c","d"],"type":"object"}`
	if strings.TrimSpace(string(got)) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for _, bad := range []string{"", "[]", "{", "{} {}"} {
		if _, err := strictSchema(bad); err == nil {
			t.Errorf("%q is taken for a schema", bad)
		}
	}
}

func TestNormalized(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"},
		"l":{"type":"array","items":{"type":"object","required":["x"],"properties":{"x":{"type":"string"},"y":{"type":"string"}}}}}}`
	for answer, want := range map[string]string{
		`{"a":"<x>","b":null}`:                `{"a":"<x>"}`,
		`{"a":null,"b":1}`:                    `{"a":null,"b":1}`, // a missing text must not be hidden
		`{"a":"x","z":null}`:                  `{"a":"x","z":null}`,
		`{"a":"x","b":12345678901234567890}`:  `{"a":"x","b":12345678901234567890}`,
		`{"l":[{"x":null,"y":null},{"y":1}]}`: `{"l":[{"x":null},{"y":1}]}`,
		`{"l":{"y":null}}`:                    `{"l":{"y":null}}`,
		`I did it`:                            ``,
		`[]`:                                  ``,
		`null`:                                ``,
		`{"a":"x"} and more`:                  ``,
	} {
		if got := string(normalized(schema, answer)); got != want {
			t.Errorf("%s becomes %s, want %s", answer, got, want)
		}
	}
}
