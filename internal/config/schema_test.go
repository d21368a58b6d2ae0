package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
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
		"words":      "sandbox: off\ngrouping: {repeat: 0}\nobserve_every: 0\ninterval: 90\nmax_tier: 2\n",
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
		"handlers: [{id: a, tier: 1, agent: gemini}]", "handlers: [{id: a, tier: 1, limits: {budget_usd: -1}}]", "cooldown: {restarts: often}",
		"prices: {haiku: {input: 1, output: 1, context_window: 12}}", "escalation: {routes: [{from: a, to: b, mode: telepathy}]}",
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

var update = flag.Bool("update", false, "write docs/configuration.md")

func TestReferenceDocumentIsUpToDate(t *testing.T) {
	const path = "../../docs/configuration.md"
	want, err := reference()
	must(t, err)
	if *update {
		must(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s is out of date; run go test ./internal/config -update", path)
	}
}

func TestReferenceNamesEverySetting(t *testing.T) {
	text, err := reference()
	must(t, err)
	for _, s := range newConfig().settings() {
		if !strings.Contains(text, "`"+anyTier(s.key)+"`") {
			t.Errorf("the reference does not name %s", s.key)
		}
		if s.env != "" && !strings.Contains(text, "`"+anyTier(s.env)+"`") {
			t.Errorf("the reference does not name %s", s.env)
		}
		if s.doc == "" {
			t.Errorf("%s has no description", s.key)
		}
	}
}

func example(t *testing.T, name string, env ...string) *Config {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../examples", name))
	must(t, err)
	dir := t.TempDir()
	c, err := Load(Input{ConfigPath: path, Environ: append([]string{"HOME=" + dir}, env...), Dir: dir, Check: escalation.Flaws})
	if err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	return c
}

func TestEveryExampleIsValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	must(t, err)
	var found []string
	for _, f := range files {
		name := filepath.Base(f)
		found = append(found, name)
		t.Run(name, func(t *testing.T) {
			c := example(t, name)
			if len(c.Notices) != 0 {
				t.Errorf("notices are %q", c.Notices)
			}
			text, err := os.ReadFile(f)
			must(t, err)
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("it does not say what it is for")
			}
			for _, h := range example(t, name, "CLAUDEOPS_CLAUDE_BIN=scripted", "CLAUDEOPS_CODEX_BIN=scripted").Environments()[0].Policy.Handlers {
				if h.Agent != "scripted" && !h.Human() {
					t.Errorf("%s cannot be played: its agent is %s", h.ID, h.Agent)
				}
			}
		})
	}
	want := []string{"approval.yaml", "cross-family-review.yaml", "default.yaml", "manager.yaml"}
	if !slices.Equal(found, want) {
		t.Errorf("examples are %q, want %q", found, want)
	}
}

func TestDefaultExampleIsWhatRunsWithoutConfiguration(t *testing.T) {
	built, _ := mustLoad(t, setup{})
	want, got := built.Environments()[0].Policy, example(t, "default.yaml").Environments()[0].Policy
	if !slices.EqualFunc(got.Handlers, want.Handlers, func(a, b ops.Handler) bool {
		return a.ID == b.ID && a.Tier == b.Tier && a.Family == b.Family && a.Agent == b.Agent && a.Model == b.Model && slices.Equal(a.HandsTo, b.HandsTo) && slices.Equal(a.Fallback, b.Fallback)
	}) {
		t.Errorf("handlers are\n%+v, want\n%+v", got.Handlers, want.Handlers)
	}
	if got.Entry != want.Entry || got.MaxDepth != want.MaxDepth || got.Mode != want.Mode || got.Process != want.Process || got.Independence != want.Independence {
		t.Errorf("policy is %+v, want %+v", got, want)
	}
}

func TestExamplesShowWhatTheyPromise(t *testing.T) {
	review := example(t, "cross-family-review.yaml").Environments()[0].Policy
	var families []string
	for _, h := range review.Handlers {
		families = append(families, h.Family)
	}
	if got := strings.Join(families, ">"); got != "claude>gpt>human" || review.RouteOf("watcher", "reviewer").Independence != ops.IndependenceFamily {
		t.Errorf("families are %s under %s", got, review.Independence)
	}
	manager := example(t, "manager.yaml").Environments()[0].Policy
	if h, _ := manager.Handler(manager.Manager); manager.Process != ops.ProcessManager || h.May() != ops.Tier1 || len(manager.Handlers[0].HandsTo) < 2 {
		t.Errorf("manager is %+v under %s", h, manager.Process)
	}
	for _, id := range manager.Handlers[0].HandsTo {
		if h, _ := manager.Handler(id); h.GoodFor == "" {
			t.Errorf("the manager is not told what %s is good for: %+v", id, h)
		}
	}
	approval := example(t, "approval.yaml").Environments()[0].Policy
	if !approval.RouteOf("fixer", "surgeon").Approval || approval.RouteOf("watcher", "fixer").Approval {
		t.Errorf("routes are %+v", approval.Routes)
	}
}
