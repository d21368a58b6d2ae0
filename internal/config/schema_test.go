package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	must(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource(SchemaID, document))
	compiled, err := c.Compile(SchemaID)
	must(t, err)
	return compiled
}

// asJSON reads YAML the way an editor gives it to a schema: keys are texts.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	var node any
	must(t, yaml.Unmarshal([]byte(text), &node))
	plain, err := json.Marshal(withTextKeys(node))
	must(t, err)
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	must(t, err)
	return out
}

func withTextKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = withTextKeys(x)
		}
		return v
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			key, err := json.Marshal(k)
			if err != nil {
				panic(err)
			}
			out[strings.Trim(string(key), `"`)] = withTextKeys(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = withTextKeys(v[i])
		}
	}
	return v
}

func TestTheSchemaTakesWhatTheCheckTakes(t *testing.T) {
	schema := compiledSchema(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	texts := map[string]string{
		"empty":      "",
		"section":    "limits:\n",
		"every key":  everyKey,
		"services":   "services:\n" + indent(serviceList),
		"two places": twoEnvironments,
		"alone":      "sandbox: required\n",
		"words":      "sandbox: {bubblewrap: on}\ngrouping: {repeat: 0}\nobserve_every: 0\ninterval: 90\nmax_tier: 2\n",
	}
	pages, err := filepath.Glob("reference/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		if _, after, ok := strings.Cut(string(text), "```yaml config\n"); ok {
			texts[page], _, _ = strings.Cut(after, "```")
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		texts[f] = string(text)
	}
	for name, text := range texts {
		value := asJSON(t, text)
		if value == nil {
			continue // an editor does not ask about an empty file
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheSchemaRefusesWhatTheCheckRefuses(t *testing.T) {
	schema := compiledSchema(t)
	for _, text := range []string{
		"intervall: 15m", "sandbox: perhaps", "dry_run: maybe", "max_tier: 4", "escalation: {mode: telepathy}", "budget: {chain_usd: -1}", "limits: {idel: 5m}",
		"services: [{nam: web}]", "services: [{name: web, probes: [{typ: http}]}]", "handlers: [{idd: x}]", "tiers: {4: {model: x}}",
		"prices: {x: {inputs: 1}}", "prices: {x: {input: 1}}", "prices: {x: {input: -1, output: 1}}", "handlers: [{id: a, tier: 9}]", "handlers: [{tier: 1}]",
		"handlers: [{id: a, tier: 1, agent: gemini}]", "handlers: [{id: a, tier: 1, limits: {budget_usd: -1}}]", "models: [{name: haiku}]",
		"models: [{name: haiku, context_window: 12}]", "escalation: {routes: [{from: a, to: b, mode: telepathy}]}",
		"services: [{aliases: [b]}]", "services: [{name: a, aliases: b}]", "services: [{name: a, probes: [{type: http}]}]",
		"services: [{name: a, probes: [{type: gopher, url: 'http://a'}]}]", "services: [{name: a, probes: [{type: dns, host: a, record: AA}]}]",
		"services: [{name: a, probes: [{type: http, url: 'http://a', expect_status: [999]}]}]", "environments: [{name: Lab}]",
		"environments: [{name: a, max_tier: 7}]", "environments: [{name: a, grouping: {windw: 1m}}]", "maintenance: [{schedule: '02:00', length: 1h}]",
		"recovery: {rules: [{id: x, level: retri, exit_code: 1}]}", "notify: {routes: [{name: a, level: bad, urls: []}]}",
	} {
		if err := schema.Validate(asJSON(t, text)); err == nil {
			t.Errorf("%s is taken", text)
		}
		if _, _, err := load(t, setup{yaml: text}); err == nil {
			t.Errorf("%s is taken by the check", text)
		}
	}
}

func TestTheSchemaDescribesEverySetting(t *testing.T) {
	text, err := Schema()
	must(t, err)
	for _, s := range newConfig().settings() {
		doc, err := json.Marshal(s.doc)
		must(t, err)
		if !bytes.Contains(text, doc) {
			t.Errorf("%s is not described", s.key)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
