package report_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"pgregory.net/rapid"

	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

type visible struct{}

func (visible) String() string { return `\S` }

func (visible) MatchString(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

func complete(t *testing.T, text, at string) *jsonschema.Schema {
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
	return c.MustCompile("test.json" + at)
}

// wanted is where and why a complete implementation of JSON Schema refuses a document.
func wanted(err error) []string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []string
	if _, whole := invalid.ErrorKind.(*kind.Contains); len(invalid.Causes) > 0 && !whole {
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
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, at+"/"+name+" is an unknown field")
		}
	case *kind.MaxItems:
		out = append(out, at+" must have at most "+strconv.Itoa(k.Want)+" entries")
	case *kind.MinLength:
		out = append(out, at+" must not be ") // empty, or blank
	case *kind.Const:
		out = append(out, at+" must be one of")
	case *kind.UniqueItems:
		out = append(out, at+" must not hold level")
	case *kind.Contains:
		out = append(out, at+" must hold level 5")
	case *kind.FalseSchema:
		out = append(out, at+" must be left out")
	default:
		out = append(out, at+" unexpected "+strings.Join(k.KeywordPath(), "/"))
	}
	slices.Sort(out)
	return out
}

// compare fails unless both find the same places and reasons.
func compare(t rapid.TB, want []string, raw []byte, problems []report.Problem) {
	var got []string
	for _, p := range problems {
		got = append(got, p.Pointer+" "+p.Message)
	}
	for _, w := range want {
		at, _, _ := strings.Cut(w, " ")
		i := slices.IndexFunc(got, func(g string) bool {
			return strings.HasPrefix(g, w) || strings.HasSuffix(at, "/schema_version") && strings.HasPrefix(g, at+" ")
		})
		if i < 0 {
			t.Fatalf("%s\nwant %q\ngot %q", raw, want, got)
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		t.Fatalf("%s\nnot wanted: %q", raw, got)
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

// TestReadersAgreeWithACompleteImplementation compares what is refused, and why, with a complete implementation of JSON Schema and the
// published schemas, on damaged documents.
func TestReadersAgreeWithACompleteImplementation(t *testing.T) {
	const ending = `{"status":"partial","completedSteps":["looked"],"failedAt":"restart","failureReason":"denied","escalationPath":[1,3,5],` +
		`"recommendation":"restart it","partial":true,"escalationLevel":5,"summary":"not done"}`
	const judged = `{"verdict":"PASS","reasoning":"r","dimensions":{"goalAlignment":20,"actionCompleteness":20,"evidenceOfCompletion":20,` +
		`"finalStateCoherence":20},"totalScore":80,"confidence":0.8,"failureReasons":["a"],"recommendations":[]}`
	handoff := string(report.HandoffSchema())
	const plan = `"plan":[{"service":"web","action":"restart","reason":"r","expected_effect":"e","way_back":"w"}],"schema_version"`
	handoffs := []string{
		report.HandoffExample(ops.Tier1), report.HandoffExample(ops.Tier2),
		strings.Replace(report.HandoffExample(ops.Tier2), `"schema_version"`, plan, 1),
	}
	outcomes := []string{report.OutcomeExample(ops.Tier1, ops.OutcomeEscalate), report.OutcomeExample(ops.Tier2, ops.OutcomeResolved)}
	for name, c := range map[string]struct {
		schema    string
		documents []string
		read      func(raw []byte) []report.Problem
	}{
		"handoff": {handoff, handoffs, func(raw []byte) []report.Problem {
			_, found := report.Handoff(raw, ops.Tier1)
			return found.Errors
		}},
		"handoff of Tier 2": {handoff, handoffs, func(raw []byte) []report.Problem {
			_, found := report.Handoff(raw, ops.Tier2)
			return found.Errors
		}},
		"outcome": {string(report.OutcomeSchema()), outcomes, func(raw []byte) []report.Problem {
			_, found := report.Outcome(raw, ops.Tier1)
			return found.Errors
		}},
		"force-done": {string(recovery.ForceDoneSchema()), []string{ending}, func(raw []byte) []report.Problem {
			_, found := recovery.ParseForceDone(raw)
			return found.Errors
		}},
		"judge": {judge.Inline(), []string{judged}, func(raw []byte) []report.Problem {
			_, problems := judge.Parse(raw)
			return problems
		}},
	} {
		t.Run(name, func(t *testing.T) {
			at := ""
			if name == "handoff of Tier 2" {
				at = "#/$defs/from_tier_2"
			}
			whole := complete(t, c.schema, at)
			rapid.Check(t, func(t *rapid.T) {
				tree, err := jsonschema.UnmarshalJSON(strings.NewReader(rapid.SampledFrom(c.documents).Draw(t, "document")))
				if err != nil {
					t.Fatal(err)
				}
				for range rapid.IntRange(0, 4).Draw(t, "damage") {
					tree = mutate(t, tree)
				}
				raw, err := json.Marshal(tree)
				if err != nil {
					t.Fatal(err)
				}
				want, got := beyond(name == "outcome", tree, wanted(whole.Validate(tree)), c.read(raw))
				compare(t, want, raw, got)
			})
		})
	}
}

// beyond leaves out what the readers know better than a schema can say.
func beyond(outcome bool, tree any, want []string, got []report.Problem) ([]string, []report.Problem) {
	object, _ := tree.(map[string]any)
	kind, _ := object["outcome"].(string)
	// Whether a handoff is due is not known while the outcome is none, and one that is not due is not read.
	due := !outcome || slices.Contains([]string{"healthy", "resolved", "escalate", "needs_human"}, kind)
	path, _ := object["escalationPath"].([]any)
	levels := !slices.ContainsFunc(path, func(level any) bool { _, ok := level.(json.Number); return !ok })
	want = slices.DeleteFunc(want, func(w string) bool {
		return !due && strings.HasPrefix(w, "/handoff") || !levels && strings.HasPrefix(w, "/escalationPath ") ||
			kind != "escalate" && strings.HasPrefix(w, "/handoff/") ||
			strings.HasPrefix(w, "/escalationPath must hold") && len(path) == 0
	})
	got = slices.DeleteFunc(slices.Clone(got), func(p report.Problem) bool {
		return !due && strings.HasPrefix(p.Pointer, "/handoff") || !levels && p.Pointer == "/escalationPath" ||
			strings.HasPrefix(p.Message, "is down, which contradicts") || p.Pointer == "/reasoning" && object["reasoning"] != "" && p.Message == "must not be blank"
	})
	return want, got
}
