package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func tree(t testing.TB, raw string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	must(t, err)
	return value
}

// compileText compiles a document alone, as somebody else would who has nothing but it.
func compileText(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("urn:test", tree(t, text)))
	s, err := c.Compile("urn:test")
	must(t, err)
	return s
}

func TestOutcome_SchemaIsPublishedWithItsAddressAndDraft(t *testing.T) {
	doc := tree(t, string(OutcomeSchema())).(map[string]any)
	if doc["$id"] != "https://claudeops.dev/schemas/outcome/v1.json" || doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$id %v, $schema %v", doc["$id"], doc["$schema"])
	}
	OutcomeSchema()[0] = 'x'
	if OutcomeSchema()[0] != '{' {
		t.Error("a caller can change the schema")
	}
}

func TestPublishedSchemaHoldsTheSchemaOfTheHandoff(t *testing.T) {
	doc := tree(t, string(OutcomeSchema())).(map[string]any)
	held := doc["$defs"].(map[string]any)["handoff"]
	if !reflect.DeepEqual(held, tree(t, string(HandoffSchema()))) {
		t.Error("$defs/handoff differs from the handoff package's own schema: copy it over")
	}
}

func TestPublishedSchemaAsksForAHandoffExactlyWithEscalate(t *testing.T) {
	published := compileText(t, string(OutcomeSchema()))
	for _, kind := range kinds {
		for _, with := range []bool{true, false} {
			raw := edit(t, OutcomeExample(ops.Tier2, ops.OutcomeEscalate), "/outcome", quoted(string(kind)))
			if !with {
				raw = edit(t, raw, "/handoff", "")
			}
			if err := published.Validate(tree(t, raw)); (err == nil) != (with == (kind == ops.OutcomeEscalate)) {
				t.Errorf("%s, handoff %v: %v", kind, with, err)
			}
		}
	}
}

func TestInlineUsesOnlyKeywordsThatEveryValidatorTakes(t *testing.T) {
	text := Inline(ops.Tier1)
	if strings.ContainsAny(text, "\n\t") || strings.Contains(text, `": `) {
		t.Error("not compact")
	}
	if len(text) > 64<<10 {
		t.Errorf("%d bytes: one argument holds 128 KiB", len(text))
	}
	plain := []string{
		"type", "properties", "required", "enum", "items", "minItems", "minLength", "additionalProperties", "description",
	}
	var walk func(at string, schema any)
	walk = func(at string, schema any) {
		object, ok := schema.(map[string]any)
		if !ok {
			t.Errorf("%s: is no object", at)
			return
		}
		if _, ok := object["type"].(string); !ok {
			t.Errorf("%s: has no type", at)
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if !slices.Contains(plain, key) {
				t.Errorf("%s: keyword %s", at, key)
			}
		}
		properties, _ := object["properties"].(map[string]any)
		for name, property := range properties {
			walk(at+"/"+name, property)
		}
		if items, ok := object["items"]; ok {
			walk(at+"/*", items)
		}
	}
	walk("", tree(t, text))
}

// shape is what the two forms of the schema must agree on.
type shape struct {
	Type     string
	Enum     string
	Required []string
}

// shapes lists the shape at every path of instances.
func shapes(s *jsonschema.Schema, at string, out map[string]shape) {
	for s.Ref != nil {
		s = s.Ref
	}
	sh := shape{Type: strings.Join(s.Types.ToStrings(), " "), Required: slices.Sorted(slices.Values(s.Required))}
	var enum []any
	if s.Const != nil {
		enum = []any{*s.Const}
	}
	if s.Enum != nil {
		enum = s.Enum.Values
	}
	raw, _ := json.Marshal(enum)
	sh.Enum = string(raw)
	out[at] = sh
	for name, property := range s.Properties {
		shapes(property, at+"/"+name, out)
	}
	if s.Items2020 != nil {
		shapes(s.Items2020, at+"/*", out)
	}
}

func TestInlineAndPublishedSchemaAgree(t *testing.T) {
	inline, published := map[string]shape{}, map[string]shape{}
	shapes(compileText(t, Inline(ops.Tier1)), "", inline)
	shapes(compileText(t, string(OutcomeSchema())), "", published)

	// Other tiers are refused by the route, not by the form; the model need not be offered them.
	const tier = "/handoff/recommended_tier"
	if got := inline[tier].Enum; got != "[2,3]" {
		t.Errorf("recommended tiers %s", got)
	}
	inline[tier] = published[tier]

	for _, at := range slices.Sorted(maps.Keys(published)) {
		if !reflect.DeepEqual(inline[at], published[at]) {
			t.Errorf("%s: inline %+v, published %+v", at, inline[at], published[at])
		}
	}
	for at := range inline {
		if _, ok := published[at]; !ok {
			t.Errorf("%s: only in the inline schema", at)
		}
	}
}

func TestAHigherTierIsNotOfferedHealthy(t *testing.T) {
	healthy := tree(t, OutcomeExample(ops.Tier1, ops.OutcomeHealthy))
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		text := Inline(tier)
		if err := compileText(t, text).Validate(healthy); (err == nil) != (tier == ops.Tier1) {
			t.Errorf("%s: healthy is answered %v", tier, err)
		}
		if strings.Contains(text, "healthy: ") != (tier == ops.Tier1) {
			t.Errorf("%s: the words are %s", tier, text)
		}
	}
	if a, b := Inline(ops.Tier2), Inline(ops.Tier3); a != b {
		t.Errorf("Tier 2 and 3 are asked differently:\n%s\n%s", a, b)
	}
}

func TestInlineRefusesWhatItCanSay(t *testing.T) {
	inline := compileText(t, Inline(ops.Tier1))
	base := full(t)
	for _, c := range []struct{ at, value string }{
		{"/schema_version", "2"},
		{"/outcome", `"inconclusive"`},
		{"/summary", `""`},
		{"/check_results", "[]"},
		{"/confidence", `"high"`},
		{"/mood", "1"},
		{"/check_results/0/status", `"up"`},
		{"/check_results/0/service", `""`},
		{"/actions", ""},
		{"/events/0/level", `"error"`},
		{"/memories/0/observation", `""`},
		{"/handoff/services_affected", "[]"},
		{"/handoff/recommended_tier", "1"},
		{"/handoff", "null"},
	} {
		if err := inline.Validate(tree(t, edit(t, base, c.at, c.value))); err == nil {
			t.Errorf("%s = %s: accepted", c.at, c.value)
		}
	}
	anything := edit(t, base, "/handoff/cooldown_state", `{"grafana":{"any":[1,null]}}`)
	if err := inline.Validate(tree(t, anything)); err != nil {
		t.Errorf("the cooldown state holds what it likes: %v", err)
	}
}

func TestSchemasEndAsFilesDo(t *testing.T) {
	if !bytes.HasSuffix(OutcomeSchema(), []byte("}\n")) {
		t.Error("the published schema lacks its last line break")
	}
}
