package handoff_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"pgregory.net/rapid"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/outcome"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

type visible struct{}

func (visible) String() string { return `\S` }

func (visible) MatchString(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

func complete(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(string) (jsonschema.Regexp, error) { return visible{}, nil })
	if err := c.AddResource("test.json", document); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("test.json")
}

// wanted is where and why a complete implementation of JSON Schema refuses a document.
func wanted(err error) []string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []string
	if len(invalid.Causes) > 0 {
		for _, cause := range invalid.Causes {
			out = append(out, wanted(cause)...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	at := ""
	for _, token := range invalid.InstanceLocation {
		at += "/" + token
	}
	switch k := invalid.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, at+"/"+name+" is missing")
		}
	case *kind.Type:
		out = append(out, at+" must be a")
	case *kind.Enum:
		out = append(out, at+" must be one of")
	case *kind.MinItems:
		out = append(out, at+" must not be empty")
	case *kind.Pattern:
		out = append(out, at+" must not be blank")
	case *kind.Minimum:
		out = append(out, at+" must be at least "+k.Want.RatString())
	case *kind.Maximum:
		out = append(out, at+" must be at most "+k.Want.RatString())
	default:
		out = append(out, at+" breaks the rule "+strings.Join(k.KeywordPath(), "/")+" (")
	}
	slices.Sort(out)
	return out
}

// compare fails unless both find the same places and reasons.
func compare(t rapid.TB, name string, want []string, tree any, rules *handoff.Rules) {
	var got []string
	for _, p := range handoff.Validate(rules, tree).Errors {
		got = append(got, p.Pointer+" "+p.Message)
	}
	slices.Sort(got)
	raw, _ := json.Marshal(tree)
	for _, w := range want {
		at, _, _ := strings.Cut(w, " ")
		i := slices.IndexFunc(got, func(g string) bool {
			return strings.HasPrefix(g, w) || at == "/schema_version" && strings.HasPrefix(g, at+" ")
		})
		if i < 0 {
			t.Fatalf("%s: %s\nwant %q\ngot %q", name, raw, want, got)
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		t.Fatalf("%s: %s\nnot wanted: %q", name, raw, got)
	}
}

// mutate changes one random place of a document.
func mutate(t *rapid.T, tree any) any {
	if rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
		switch v := tree.(type) {
		case map[string]any:
			if len(v) == 0 {
				break
			}
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "field")
			switch rapid.IntRange(0, 5).Draw(t, "how") {
			case 0:
				delete(v, name)
			case 1:
				v["unknown"] = json.Number("1")
			default:
				v[name] = mutate(t, v[name])
			}
			return v
		case []any:
			if len(v) == 0 {
				break
			}
			i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
			if rapid.Bool().Draw(t, "twice") {
				return append(v, v[i])
			}
			v[i] = mutate(t, v[i])
			return v
		}
	}
	return rapid.SampledFrom([]any{
		nil, true, false, "", " ", "\u2003", "x", "escalate", "healthy", "partial",
		map[string]any{},
		[]any{},
		[]any{"x"},
		make([]any, 21),
		[]any{json.Number("3")},
		json.Number("1"), json.Number("1.0"), json.Number("5"), json.Number("-1"), json.Number("0.5"), json.Number("2e0"), json.Number("1e30"),
	}).Draw(t, "value")
}

// TestRulesAgreeWithACompleteImplementation compares the rules with a complete implementation of JSON Schema, on damaged documents.
func TestRulesAgreeWithACompleteImplementation(t *testing.T) {
	const ending = `{"status":"partial","completedSteps":["looked"],"failedAt":"restart","failureReason":"denied","escalationPath":[1,3,5],` +
		`"recommendation":"restart it","partial":true,"escalationLevel":5,"summary":"not done"}`
	const report = `{"schema_version":1,"session_id":3,"tier":2,"handler":"tier-2","status":"failed","exit_code":1,"outcome":"invalid",` +
		`"outcome_problems":[{"pointer":"/a","message":"m"}],"loop":{"count":3,"level":4},"probe_red":["web"],"retry_after":5}`
	const judged = `{"verdict":"PASS","reasoning":"r","dimensions":{"goalAlignment":20,"actionCompleteness":20,"evidenceOfCompletion":20,` +
		`"finalStateCoherence":20},"totalScore":80,"confidence":0.8,"failureReasons":[],"recommendations":[]}`
	outcomes := []string{outcome.Example(ops.Tier1, ops.OutcomeEscalate), outcome.Example(ops.Tier2, ops.OutcomeResolved)}
	for name, c := range map[string]struct {
		schema    string
		documents []string
	}{
		"handoff":        {string(handoff.Schema()), []string{handoff.Example(ops.Tier1), handoff.Example(ops.Tier2)}},
		"outcome":        {string(outcome.Schema()), outcomes},
		"inline outcome": {outcome.Inline(ops.Tier1), outcomes},
		"failure":        {string(recovery.FailureSchema()), []string{report}},
		"force-done":     {string(recovery.ForceDoneSchema()), []string{ending}},
		"judge":          {judge.Inline(), []string{judged}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, rules := complete(t, c.schema), handoff.MustCompile(c.schema)
			rapid.Check(t, func(t *rapid.T) {
				tree, err := jsonschema.UnmarshalJSON(strings.NewReader(rapid.SampledFrom(c.documents).Draw(t, "document")))
				if err != nil {
					t.Fatal(err)
				}
				for range rapid.IntRange(0, 4).Draw(t, "damage") {
					tree = mutate(t, tree)
				}
				compare(t, name, wanted(whole.Validate(tree)), tree, rules)
			})
		})
	}
}

func TestAKeywordThatIsNotImplementedIsRefused(t *testing.T) {
	for i, text := range []string{
		`{"type":"object","maxProperties":1}`, `{"properties":{"a":{"format":"date"}}}`, `{"type":"string","pattern":"^a"}`,
		`{"$ref":"#/$defs/none"}`, `{"minimum":"x"}`, `{`,
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", text)
				}
			}()
			handoff.MustCompile(text)
		})
	}
	if got := fmt.Sprint(handoff.Validate(handoff.MustCompile(`{"type":"object"}`), map[string]any{}).Errors); got != "[]" {
		t.Error(got)
	}
}
